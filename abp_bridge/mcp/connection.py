"""One MCP host's connection: who the host is, which notifications it wants, and its waiting calls.

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
from abp_bridge.protocols.mcp.revisions import MAX_UPDATES, UPDATES, listens, tag

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.ledger import Progress
    from abp_bridge.jsonrpc.connection import JsonRpcConnection, OnSent
    from abp_bridge.protocols.mcp.results import Promise

MAX_LISTENS = 100  # streams of one host at once; each is told of every change


class McpConnection:
    """What the server and the session of one host share. `tasks` outlives `rpc`."""

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
    """One round of one call. `digest` covers the tool's name and arguments."""

    call: str
    digest: str
    round: int


class HostRequest:
    """A host's request while it waits for its answer.

    Attributes:
        received_at: By the loop's clock, in seconds; so is `first_byte_at`.
        token: Its `progressToken`.
        round: How many results asked for input before it.
        on_cancel: Gives the call up, once there is one; takes the reason.
        output_schema: What the host was promised of the tool's results.
        state: The decoded `requestState` of an earlier round.
    """

    def __init__(
        self, id: Id, client: McpClientInfo, first_byte_at: float, method: str, params: JsonObject
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.client = client
        self.scope = anyio.CancelScope()
        self.received_at = now()
        self.first_byte_at = first_byte_at
        self.token = as_object(params.get("_meta")).get("progressToken")
        self.progress: Progress | None = None
        self.tool = ""
        self.arguments: JsonObject = {}
        self.round = 0
        self.on_cancel: Callable[[str], None] | None = None
        self.on_sent: OnSent | None = None
        self.state: RequestState | None = None
        self.output_schema: Promise | None = None
        self.cancel_reason = ""  # in the host's words

    def cancel_request(self, reason: str) -> None:
        """Cancel at once: nothing that the same read brings can still answer its questions."""
        if self.on_cancel is not None:
            self.on_cancel(reason)
        self.scope.cancel()


class RunningCall:
    """A call that a `PendingCall` attaches a host to, where it is not a `session.host.Call`."""

    id: str

    async def wait_idle(self) -> None:
        """Wait until the questions asked at the same time are on their way."""
        raise NotImplementedError

    def cancel(self, reason: str) -> None:
        """Cancel the call: no request waits for it any more."""
        raise NotImplementedError


class Subscriptions:
    """Which notifications a host wants; `level` is an index of `LOG_LEVELS`.

    A newer notification on the same topic replaces one that is still queued.
    """

    def __init__(self, rpc: JsonRpcConnection) -> None:
        self._rpc = rpc
        self.initialized = False
        self.level = LOG_LEVELS.index("info")
        self.subscribed: set[str] = set()
        self._listens: dict[Id, JsonObject] = {}
        self._logged: dict[Id, int] = {}

    def listen(self, id: Id, wanted: JsonObject) -> bool:
        """Open a stream with a decoded filter and acknowledge it; False if there are too many."""
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
        """Close a stream; False if there is none with this id."""
        return self._listens.pop(id, None) is not None

    def watches(self, uri: JsonValue) -> bool:
        """Whether a stream watches this resource."""
        return any(uri in as_list(each.get(UPDATES)) for each in self._listens.values())

    def wants_updates(self, uri: str) -> bool:
        """Whether a change of this resource is sent at all."""
        return (self.initialized and uri in self.subscribed) or self.watches(uri)

    def start_logging(self, id: Id, level: str) -> None:
        """Send logs to a running request until `stop_logging`."""
        if level in LOG_LEVELS:
            self._logged[id] = LOG_LEVELS.index(level)

    def stop_logging(self, id: Id) -> None:
        self._logged.pop(id, None)

    def wants_log(self, level: str) -> bool:
        """Whether a running request wants logs of this level; an unknown one is the highest."""
        rank = LOG_LEVELS.index(level) if level in LOG_LEVELS else len(LOG_LEVELS)
        return any(rank >= least for least in self._logged.values())

    def log(self, params: JsonObject, key: Hashable = None) -> None:
        """Send `notifications/message` if its level is wanted; `key` replaces a queued one."""
        level = LOG_LEVELS.index(params["level"])
        if (self.initialized and level >= self.level) or self.wants_log(as_text(params["level"])):
            topic = as_text(as_object(params["data"]).get("event"))
            self._rpc.notify("notifications/message", params, key=key, topic=topic)

    def updated(self, uri: str) -> None:
        """Send that a resource has changed to those who watch it."""
        method, params = "notifications/resources/updated", {"uri": uri}
        if self.initialized and uri in self.subscribed:
            self._rpc.notify(method, params, key=("updated", uri))
        self.notify(method, params, key=("updated", uri))

    def tools_changed(self) -> None:
        self._list_changed("tools")

    def resources_changed(self) -> None:
        self._list_changed("resources")

    def _list_changed(self, what: str) -> None:
        method = f"notifications/{what}/list_changed"
        if self.initialized:
            self._rpc.notify(method, key=what)
        self.notify(method, {}, key=what)

    def notify(self, method: str, params: JsonValue, key: Hashable = None) -> None:
        """Send a notification on each stream that wants it, tagged with the stream's id."""
        for id, wanted in self._listens.items():
            if listens(wanted, method, params):
                self._rpc.notify(method, tag(params, id), key=None if key is None else (key, id))


def encode_cancel(id: Id, reason: str) -> tuple[str, JsonValue]:
    """Return the (method, params) that cancel a request of ours."""
    return "notifications/cancelled", {"requestId": id, "reason": reason}
