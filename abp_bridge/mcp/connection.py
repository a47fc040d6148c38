"""One MCP host's connection, as the server that answers it and the session behind it share it: who
the host is, which notifications it wants, and its tool calls while they wait.

Light: it is loaded before the session.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import Id
from abp_bridge.mcp.tool_list import ToolList
from abp_bridge.protocols.mcp.client import LEGACY, LOG_LEVELS, McpClientInfo
from abp_bridge.protocols.mcp.modern import MAX_UPDATES, UPDATES, listens, tag

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.ledger import Progress
    from abp_bridge.jsonrpc.connection import JsonRpcConnection, OnSent
    from abp_bridge.protocols.mcp.results import Promise

MAX_LISTENS = 100  # streams of one host at once; each is told of every change


class McpConnection:
    """Made first, and handed to both.

    Attributes:
        rpc: Carries the messages.
        tasks: Where calls run; it outlives `rpc`.
        subscriptions: What the host wants to hear of.
        client: The host as it showed itself last.
        tools: What it is shown of tools.
    """

    def __init__(
        self, rpc: JsonRpcConnection, tasks: TaskGroup, tools: ToolList | None = None
    ) -> None:
        self.rpc = rpc
        self.tools = tools or ToolList()
        self.tasks = tasks
        self.subscriptions = Subscriptions(rpc)
        self.client = McpClientInfo(LEGACY[0], {}, None)


@dataclass(frozen=True, slots=True)
class RequestState:
    """One round of one call: `digest` is of the tool's name and arguments.

    It lasts as long as its call is kept.
    """

    call: str
    digest: str
    round: int


class ToolRequest:
    """A host's request while it waits for a call.

    Attributes:
        scope: Cancelled when the host takes the request back.
        received_at: When it came, by the loop's clock in seconds.
        first_byte_at: When its first byte came, at the earliest, by the same clock.
        token: Its `progressToken`, as it came.
        progress: What was last told on it.
        tool: The name of the tool that it asks for.
        arguments: What it asks that tool with.
        round: How many results asked for input before it.
        on_cancel: Gives the call up, once there is one; takes the reason.
        on_sent: Is told when its result has left (`OnSent`).
        output_schema: What the host was promised of the tool's results.
        state: What it brings back of an earlier round, where that was made here.
    """

    def __init__(self, id: Id, client: McpClientInfo, first_byte_at: float) -> None:
        self.id = id
        self.client = client
        self.scope = anyio.CancelScope()
        self.received_at = now()
        self.first_byte_at = first_byte_at
        self.token: JsonValue = None
        self.progress: Progress | None = None
        self.tool = ""
        self.arguments: JsonObject = {}
        self.round = 0
        self.on_cancel: Callable[[str], None] | None = None
        self.on_sent: OnSent | None = None
        self.state: RequestState | None = None
        self.output_schema: Promise | None = None

    def cancel(self, reason: str) -> None:
        """The host cancelled: the call ends now, and nothing that the same read brings can still
        answer its questions.
        """
        if self.on_cancel is not None:
            self.on_cancel(reason)
        self.scope.cancel()


class Subscriptions:
    """What the host of one connection wants to hear of.

    Attributes:
        initialized: Whether the legacy host is ready to hear anything.
        level: The least level of logs it wants, as an index of `LOG_LEVELS`.
        subscribed: The uris of the resources whose updates it wants.
    """

    def __init__(self, rpc: JsonRpcConnection) -> None:
        self._rpc = rpc
        self.initialized = False
        self.level = LOG_LEVELS.index("info")
        self.subscribed: set[str] = set()
        self._listens: dict[Id, JsonObject] = {}
        self._logged: dict[Id, int] = {}

    def listen(self, id: Id, wanted: JsonObject) -> bool:
        """Begin a stream and acknowledge it.

        Args:
            id: Of the request, which names the stream.
            wanted: A filter that `decode_filter` let pass.

        Returns:
            False when there are too many streams, or too many resources in them.
        """
        watched = sum(len(as_list(each.get(UPDATES))) for each in self._listens.values())
        if (
            len(self._listens) >= MAX_LISTENS
            or watched + len(as_list(wanted.get(UPDATES))) > MAX_UPDATES
        ):
            return False
        acknowledged = tag({"notifications": wanted}, id)
        self._rpc.notify("notifications/subscriptions/acknowledged", acknowledged)
        self._listens[id] = wanted
        return True

    def unlisten(self, id: Id) -> bool:
        """End a stream; False when there is none with this id."""
        return self._listens.pop(id, None) is not None

    def watches(self, uri: JsonValue) -> bool:
        """Whether a stream wants to hear of this resource."""
        return any(uri in as_list(each.get(UPDATES)) for each in self._listens.values())

    def wants_updates(self, uri: str) -> bool:
        """Whether anybody hears of it when this resource changes."""
        return (self.initialized and uri in self.subscribed) or self.watches(uri)

    def start_logging(self, id: Id, level: str) -> None:
        """A request that runs wants to hear of logs, until `stop_logging`."""
        if level in LOG_LEVELS:
            self._logged[id] = LOG_LEVELS.index(level)

    def stop_logging(self, id: Id) -> None:
        """The request has ended: it wants to hear no more."""
        self._logged.pop(id, None)

    def log(self, params: JsonObject, key: Hashable = None) -> None:
        """Send `notifications/message` if anybody wants its level.

        A newer one with the same `key` replaces one that still waits.
        """
        level = LOG_LEVELS.index(params["level"])
        if (self.initialized and level >= self.level) or any(
            level >= least for least in self._logged.values()
        ):
            topic = as_text(as_object(params["data"]).get("event"))
            self._rpc.notify("notifications/message", params, key=key, topic=topic)

    def updated(self, uri: str) -> None:
        """Tell those who watch this resource that it has changed."""
        method, params = "notifications/resources/updated", {"uri": uri}
        if self.initialized and uri in self.subscribed:
            self._rpc.notify(method, params, key=("updated", uri))
        self.notify(method, params, key=("updated", uri))

    def tools_changed(self) -> None:
        """Tell those who listen that there are other tools."""
        self._list_changed("tools")

    def resources_changed(self) -> None:
        """Tell those who listen that there are other resources."""
        self._list_changed("resources")

    def _list_changed(self, what: str) -> None:
        method = f"notifications/{what}/list_changed"
        if self.initialized:
            self._rpc.notify(method, key=what)
        self.notify(method, {}, key=what)

    def notify(self, method: str, params: JsonValue, key: Hashable = None) -> None:
        """Send a notification on each stream that wants it, as the stream's."""
        for id, wanted in self._listens.items():
            if listens(wanted, method, params):
                self._rpc.notify(method, tag(params, id), key=None if key is None else (key, id))


def encode_cancel(id: Id, reason: str) -> tuple[str, JsonValue]:
    """The notification that takes a request of ours back: (method, params)."""
    return "notifications/cancelled", {"requestId": id, "reason": reason}
