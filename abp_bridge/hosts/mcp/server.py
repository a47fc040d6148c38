"""The front of an MCP host connection (legacy era: 2025-06-18, 2025-11-25): handshake, dispatch, and whatever can be answered without a session.

Some hosts wait no longer than a second, and some start a throw-away copy only to look: `initialize` and `tools/list` are answered before anything
else of the bridge is loaded. The session behind (`session.py`) begins with the first message that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from abp_bridge import VERSION
from abp_bridge.hosts.mcp.tools import OWN_TOOLS
from abp_bridge.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Id, Notification, Request
from abp_bridge.wire.stdio import whisper

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.notice import Progress
    from abp_bridge.hosts.contract import Call
    from abp_bridge.hosts.mcp.session import McpSession
    from abp_bridge.wire.link import Link

Json = Any
Params = Mapping[str, Json]

LATEST = "2025-11-25"
VERSIONS = (LATEST, "2025-06-18", "2025-03-26", "2024-11-05")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MAX_SUBSCRIPTIONS = 1_000

INSTRUCTIONS = (
    "Connects web apps that speak ABP (the Agentic Browser Protocol). Start with abp_connect: it lists what the app can do; then use abp_call or "
    "the app's own tools. While a tool runs, the app may ask the person something; wait for the tool's result, and do not answer for them."
)


class Refusal(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Handshake:
    """What the host said about itself and what it wants to hear."""

    def __init__(self) -> None:
        self.version = LATEST
        self.capabilities: Json = None
        self.client: Params = {}
        self.initialized = False
        self.level = LEVELS.index("info")
        self.subscribed: set[str] = set()


def withdraw(id: Id, reason: str) -> tuple[str, Json]:
    """How a request of ours is taken back in MCP: see `wire.link.Link`."""
    return "notifications/cancelled", {"requestId": id, "reason": reason}


class Leg:
    """A host's request while it waits for a call: `report` tells it of progress, `call` is set once there is one."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.report: Callable[[Progress], None] | None = None
        self.call: Call | None = None

    def cancel(self, reason: str) -> None:
        """The host cancelled: the call ends now, and nothing that the same read brings can still answer its questions."""
        if self.call is not None:
            self.call.cancel(reason)
        self.scope.cancel()


class McpServer:
    """One connection. `begin(link, handshake)` makes its session; calls run in `tasks`."""

    def __init__(self, begin: Callable[[Link, Handshake], McpSession], tasks: TaskGroup) -> None:
        self.link: Link  # set once by whoever makes both
        self._begin = begin
        self._begun: McpSession | None = None
        self._tasks = tasks
        self._handshake = Handshake()
        self._running: dict[Id, Leg] = {}

    def on_message(self, message: Request | Notification) -> None:
        """Take one message. Never waits: what takes time runs as a task of the session."""
        params = message.params if isinstance(message.params, dict) else {}
        if isinstance(message, Notification):
            if (note := _NOTIFICATIONS.get(message.method)) is not None:
                note(self, params)
        elif message.method == "tools/call":
            self._running[message.id] = Leg()
            self._tasks.start_soon(self._call_tool, message.id, params)
        else:
            self._answer(message.id, message.method, params)

    def _answer(self, id: Id, method: str, params: Params) -> None:
        try:
            if (answer := _METHODS.get(method)) is None:
                raise Refusal(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
            self.link.respond(id, answer(self, params))
        except Refusal as problem:
            self.link.fail(id, problem.code, str(problem))
        except Exception as problem:
            self._confess(id, method, problem)

    def _confess(self, id: Id, method: str, problem: Exception) -> None:
        """A bug of ours ends nothing: the host gets an answer, and stderr a line."""
        whisper(f"bug in {method[:100]}: {problem!r}")
        if self.link.is_open(id):
            self.link.fail(id, INTERNAL_ERROR, f"abp-bridge has a bug: {type(problem).__name__}. Please report it.")

    async def _call_tool(self, id: Id, params: Params) -> None:
        """Attach the host to a call. A host that cancels gets no answer (basic/utilities/cancellation)."""
        leg = self._running[id]
        with leg.scope:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()  # cancelled in the same read: nothing has begun
                self.link.respond(id, await self._session.call_tool(params, leg))
            except Refusal as problem:
                self.link.fail(id, problem.code, str(problem))
            except Exception as problem:
                self._confess(id, "tools/call", problem)
        del self._running[id]
        if leg.scope.cancelled_caught:
            self.link.drop(id)

    @property
    def _session(self) -> McpSession:
        if self._begun is None:
            self._begun = self._begin(self.link, self._handshake)
        return self._begun

    def _initialize(self, params: Params) -> Json:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise Refusal(INVALID_PARAMS, "initialize needs a protocolVersion such as '2025-11-25': this is an MCP server")
        client = params.get("clientInfo")
        self._handshake.version = asked if asked in VERSIONS else LATEST
        self._handshake.capabilities = params.get("capabilities")
        self._handshake.client = client if isinstance(client, Mapping) else {}
        return {
            "protocolVersion": self._handshake.version,
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}},
            "serverInfo": {"name": "abp-bridge", "title": "ABP bridge", "version": VERSION},
            "instructions": INSTRUCTIONS,
        }

    def _ping(self, params: Params) -> Json:
        return {}

    def _set_level(self, params: Params) -> Json:
        if params.get("level") not in LEVELS:
            raise Refusal(INVALID_PARAMS, f"the level must be one of {', '.join(LEVELS)}")
        self._handshake.level = LEVELS.index(params["level"])
        return {}

    def _list_tools(self, params: Params) -> Json:
        return {"tools": list(OWN_TOOLS) if self._begun is None else self._begun.list_tools()}

    def _list_resources(self, params: Params) -> Json:
        return {"resources": [] if self._begun is None else self._begun.list_resources()}

    def _list_templates(self, params: Params) -> Json:
        state = {"uriTemplate": "abp://{app}/state/{field}", "name": "App state", "mimeType": "application/json"}
        result = {"uriTemplate": "abp://{app}/results/{name}", "name": "Saved result of a call"}
        return {"resourceTemplates": [state, result]}

    def _read_resource(self, params: Params) -> Json:
        return {"contents": [self._session.read_resource(_uri(params))]}

    def _subscribe(self, params: Params) -> Json:
        if len(self._handshake.subscribed) >= MAX_SUBSCRIPTIONS:
            raise Refusal(INVALID_PARAMS, f"there can be at most {MAX_SUBSCRIPTIONS} subscriptions")
        self._handshake.subscribed.add(_uri(params))
        return {}

    def _unsubscribe(self, params: Params) -> Json:
        self._handshake.subscribed.discard(_uri(params))
        return {}

    def _initialized(self, params: Params) -> None:
        self._handshake.initialized = True

    def _cancelled(self, params: Params) -> None:
        id = params.get("requestId")
        leg = self._running.get(id) if isinstance(id, (str, int, float)) else None
        if leg is not None:
            leg.cancel("the host cancelled the call")


_METHODS: dict[str, Callable[[McpServer, Params], Json]] = {
    "initialize": McpServer._initialize,
    "ping": McpServer._ping,
    "logging/setLevel": McpServer._set_level,
    "tools/list": McpServer._list_tools,
    "resources/list": McpServer._list_resources,
    "resources/templates/list": McpServer._list_templates,
    "resources/read": McpServer._read_resource,
    "resources/subscribe": McpServer._subscribe,
    "resources/unsubscribe": McpServer._unsubscribe,
}

_NOTIFICATIONS: dict[str, Callable[[McpServer, Params], None]] = {
    "notifications/initialized": McpServer._initialized,
    "notifications/cancelled": McpServer._cancelled,
}


def _uri(params: Params) -> str:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise Refusal(INVALID_PARAMS, "a resource needs a uri")
    return uri
