"""What `abp-bridge serve` answers an MCP host: a table of methods for each kind of revision.

Some hosts wait a second at most and some start a copy only to look, so `initialize`,
`server/discover` and `tools/list` are answered before the session (`session.py`) is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject
from abp_bridge.jsonrpc.protocol import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from abp_bridge.mcp.connection import HostRequest, McpConnection
from abp_bridge.mcp.host_front import HostFront
from abp_bridge.protocols.mcp.client import LEGACY, LOG_LEVELS, MODERN, V2025_06_18
from abp_bridge.protocols.mcp.revisions import (
    MAX_UPDATES,
    MAX_URI,
    RESOURCE_NOT_FOUND,
    RESOURCES,
    TOOLS,
    complete_result,
)

if TYPE_CHECKING:
    from abp_bridge.mcp.session import McpSession

Params = JsonObject

SERVER = {"name": "abp-bridge", "title": "ABP bridge", "version": VERSION}
_UNTITLED = {name: value for name, value in SERVER.items() if name != "title"}
INSTRUCTIONS = (
    "Connects web apps that speak ABP (the Agentic Browser Protocol). Start with abp_connect: it"
    " lists what the app can do; then use abp_call or the app's own tools. While a tool runs, the"
    " app may ask the person something; wait for the tool's result, and do not answer for them."
    " When a result says that a call goes on, come back to it with abp_wait."
)
_OFFERED: JsonObject = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}


class McpServer:
    """The server of one connection: a `HostHandler`.

    Args:
        begin: Makes the session, with the first message that needs it.
        modern: Whether the stateless revision is spoken too.
    """

    def __init__(
        self,
        connection: McpConnection,
        begin: Callable[[McpConnection], McpSession],
        *,
        modern: bool = True,
    ) -> None:
        self._connection = connection
        self._subscriptions = connection.subscriptions
        self._begin = begin
        self._begun: McpSession | None = None
        self._front = HostFront(connection, self, speaks_modern=modern)
        self.on_message = self._front.on_message
        self.close = self._front.close

    # --- HostHandler ---

    def reply(self, request: HostRequest) -> JsonObject | None:
        """Answer all but calls and streams at once (`HostHandler.reply`)."""
        method, modern = request.method, request.client.modern
        if method == "tools/call":
            if self._begun is not None:
                # Known at once: the same read may bring its cancellation.
                self._begun.identify_call(request)
            return None
        if method == "subscriptions/listen" and modern:
            return None
        answer = (_MODERN if modern else _LEGACY).get(method)
        if answer is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
        try:
            result = answer(self, request.params)
        except RpcError as problem:
            code = _MODERN_CODES.get(problem.code, problem.code) if modern else problem.code
            raise RpcError(code, str(problem), problem.data) from None
        return complete_result(result, SERVER, cached=True) if modern else result

    async def handle(self, request: HostRequest) -> JsonObject | None:
        """Answer a call, or hold a stream (`HostHandler.handle`)."""
        if request.method != "tools/call":
            await self._front.hold_stream(request, (TOOLS, RESOURCES))
            return None
        result = await self._session.call_tool(request)
        return complete_result(result, SERVER) if request.client.modern else result

    def notify(self, method: str, params: JsonObject | None) -> None:
        """Take a notification (`HostHandler.notify`)."""
        if method == "notifications/initialized":
            self._subscriptions.initialized = self._front.handshaken

    @property
    def _session(self) -> McpSession:
        if self._begun is None:
            self._begun = self._begin(self._connection)
        return self._begun

    # --- methods of both kinds ---

    def _list_tools(self, params: Params) -> JsonObject:
        _check_first_page(params)
        version = self._connection.client.version
        if self._begun is None:
            return {"tools": self._connection.tools.list_first(version)}
        return {"tools": self._begun.list_tools(version)}

    def _list_resources(self, params: Params) -> JsonObject:
        _check_first_page(params)
        return {"resources": [] if self._begun is None else self._begun.list_resources()}

    def _list_templates(self, params: Params) -> JsonObject:
        _check_first_page(params)
        state = {
            "uriTemplate": "abp://{app}/state/{field}",
            "name": "App state",
            "mimeType": "application/json",
        }
        result = {"uriTemplate": "abp://{app}/results/{name}", "name": "Saved result of a call"}
        return {"resourceTemplates": [state, result]}

    def _read_resource(self, params: Params) -> JsonObject:
        return {"contents": [self._session.read_resource(_uri(params))]}

    # --- legacy ---

    def _initialize(self, params: Params) -> JsonObject:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise RpcError(
                INVALID_PARAMS,
                "initialize needs a protocolVersion such as '2025-11-25': this is an MCP server",
            )
        version = asked if asked in LEGACY else LEGACY[0]
        self._front.introduce(version, params)
        return {
            "protocolVersion": version,
            "capabilities": _OFFERED,
            "serverInfo": SERVER if version >= V2025_06_18 else _UNTITLED,
            "instructions": INSTRUCTIONS,
        }

    def _ping(self, params: Params) -> JsonObject:
        return {}

    def _set_level(self, params: Params) -> JsonObject:
        if params.get("level") not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"the level must be one of {', '.join(LOG_LEVELS)}")
        self._subscriptions.level = LOG_LEVELS.index(params["level"])
        return {}

    def _subscribe(self, params: Params) -> JsonObject:
        if len(self._subscriptions.subscribed) >= MAX_UPDATES:
            raise RpcError(INVALID_PARAMS, f"there can be at most {MAX_UPDATES} subscriptions")
        if len(uri := _uri(params)) > MAX_URI:
            raise RpcError(INVALID_PARAMS, f"a uri may have at most {MAX_URI} characters")
        self._subscriptions.subscribed.add(uri)
        return {}

    def _unsubscribe(self, params: Params) -> JsonObject:
        self._subscriptions.subscribed.discard(_uri(params))
        return {}

    # --- modern ---

    def _discover(self, params: Params) -> JsonObject:
        return {
            "supportedVersions": list(MODERN),
            "capabilities": _OFFERED,
            "instructions": INSTRUCTIONS,
        }


_BOTH: dict[str, Callable[[McpServer, Params], JsonObject]] = {
    "tools/list": McpServer._list_tools,
    "resources/list": McpServer._list_resources,
    "resources/templates/list": McpServer._list_templates,
    "resources/read": McpServer._read_resource,
}

_LEGACY = _BOTH | {
    "initialize": McpServer._initialize,
    "ping": McpServer._ping,
    "logging/setLevel": McpServer._set_level,
    "resources/subscribe": McpServer._subscribe,
    "resources/unsubscribe": McpServer._unsubscribe,
}

_MODERN = _BOTH | {"server/discover": McpServer._discover}

# What has a code of its own in the stateful revisions only.
_MODERN_CODES = {RESOURCE_NOT_FOUND: INVALID_PARAMS}


def _check_first_page(params: Params) -> None:
    """Raise RpcError for a cursor: each list has one page."""
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "there is no such cursor: every list comes in one page")


def _uri(params: Params) -> str:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, "a resource needs a uri")
    return uri
