"""The front of an MCP host connection, stateful (to 2025-11-25) and stateless (2026-07-28).

Some hosts wait a second at most and some start a copy only to look, so `initialize`,
`server/discover` and `tools/list` are answered before the session (`session.py`) is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject
from abp_bridge.jsonrpc.connection import respond_internal_error
from abp_bridge.jsonrpc.loop import Workers
from abp_bridge.jsonrpc.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    Request,
    RpcError,
    is_id,
)
from abp_bridge.mcp.connection import MAX_LISTENS, McpConnection, ToolRequest
from abp_bridge.protocols.mcp.client import (
    BATCHING,
    LEGACY,
    LOG_LEVELS,
    MODERN,
    V2025_06_18,
    McpClientInfo,
)
from abp_bridge.protocols.mcp.modern import (
    MAX_UPDATES,
    MAX_URI,
    RESOURCE_NOT_FOUND,
    InvalidParamsError,
    complete_result,
    decode_envelope,
    decode_filter,
    is_enveloped,
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
    """The server of one connection.

    Args:
        begin: Makes the session, with the first message that needs it.
        modern: Whether stateless MCP is spoken too.
    """

    def __init__(
        self,
        connection: McpConnection,
        begin: Callable[[McpConnection], McpSession],
        *,
        modern: bool = True,
    ) -> None:
        self._connection = connection
        self._rpc = connection.rpc
        self._subscriptions = connection.subscriptions
        self._legacy = connection.client  # as the host shows itself by its handshake
        self._begin = begin
        self._begun: McpSession | None = None
        self._speaks_modern = modern
        self._handshaken = False
        self._running: dict[Id, ToolRequest] = {}
        self._workers = Workers(connection.tasks)

    def close(self) -> None:
        """End the tasks that wait for the next call."""
        self._workers.close()

    def on_message(self, message: Request | Notification) -> None:
        """Handle one message without waiting."""
        params = message.params if isinstance(message.params, dict) else {}
        if isinstance(message, Notification):
            if (note := _NOTIFICATIONS.get(message.method)) is not None:
                note(self, params)
            return
        try:
            if self._is_modern(message.method, params):
                self._take_modern(message.id, message.method, params)
            elif message.method == "tools/call":
                self._start_call(message.id, params, self._legacy)
            elif (answer := _LEGACY.get(message.method)) is not None:
                self._rpc.respond(message.id, answer(self, params))
            else:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method[:100]}")
        except (RpcError, InvalidParamsError) as problem:
            self._rpc.respond_error(message.id, problem.code, str(problem), problem.data)
        except Exception:
            respond_internal_error(self._rpc, message.id, message.method)

    def _is_modern(self, method: str, params: Params) -> bool:
        """Whether a request is stateless: by its envelope or method, else by the last one."""
        if not self._speaks_modern:
            return False
        if is_enveloped(params) or method in ("server/discover", "subscriptions/listen"):
            return True
        return self._connection.client.modern and not self._handshaken and method != "initialize"

    def _take_modern(self, id: Id, method: str, params: Params) -> None:
        client = decode_envelope(params)
        if (
            not self._handshaken
        ):  # a handshake says for good who is there, outside of the calls that show themselves
            self._connection.client = client
        if method == "tools/call":
            self._start_call(id, params, client)
        elif method == "subscriptions/listen":
            if not self._subscriptions.listen(id, decode_filter(params)):
                raise RpcError(
                    INVALID_PARAMS,
                    f"there can be at most {MAX_LISTENS} streams with {MAX_UPDATES} resources in"
                    " all: end one first",
                )
        elif (answer := _MODERN.get(method)) is not None:
            try:
                self._rpc.respond(id, complete_result(answer(self, params), SERVER, cached=True))
            except RpcError as problem:
                raise RpcError(
                    _MODERN_CODES.get(problem.code, problem.code), str(problem), problem.data
                ) from None
        else:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")

    def _start_call(self, id: Id, params: Params, client: McpClientInfo) -> None:
        self._running[id] = request = ToolRequest(id, client, self._rpc.arrived)
        if self._begun is not None:
            # Known at once: the same read may bring its cancellation.
            self._begun.identify_call(request, params)
        self._workers.start_soon(self._call_tool, request, params)

    async def _call_tool(self, request: ToolRequest, params: Params) -> None:
        """Answer `tools/call`; a cancelled one gets no answer (basic/utilities/cancellation)."""
        id = request.id
        if request.client.level is not None:
            self._subscriptions.start_logging(id, request.client.level)
        with request.scope:
            try:
                await (
                    anyio.lowlevel.checkpoint_if_cancelled()
                )  # cancelled in the same read: nothing has begun
                result = await self._session.call_tool(params, request)
                if request.client.modern:
                    result = complete_result(result, SERVER)
                self._subscriptions.stop_logging(id)
                self._rpc.respond(id, result, request.on_sent)
            except (RpcError, InvalidParamsError) as problem:
                self._rpc.respond_error(id, problem.code, str(problem), problem.data)
            except Exception:
                respond_internal_error(self._rpc, id, "tools/call")
        self._subscriptions.stop_logging(id)
        del self._running[id]
        if request.scope.cancelled_caught:
            self._rpc.discard_request(id)

    @property
    def _session(self) -> McpSession:
        if self._begun is None:
            self._begun = self._begin(self._connection)
        return self._begun

    # --- methods of both eras ---

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
        client = params.get("clientInfo")
        version = asked if asked in LEGACY else LEGACY[0]
        self._handshaken = True
        self._rpc.accept_batches(version in BATCHING)
        self._connection.client = self._legacy = McpClientInfo(
            version, client if isinstance(client, Mapping) else {}, params.get("capabilities")
        )
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

    def _initialized(self, params: Params) -> None:
        self._subscriptions.initialized = self._handshaken

    # --- modern ---

    def _discover(self, params: Params) -> JsonObject:
        return {
            "supportedVersions": list(MODERN),
            "capabilities": _OFFERED,
            "instructions": INSTRUCTIONS,
        }

    # --- both ---

    def _cancelled(self, params: Params) -> None:
        id = params.get("requestId")
        if not is_id(id):
            return
        if self._subscriptions.unlisten(id):
            self._rpc.discard_request(id)
        elif (request := self._running.get(id)) is not None:
            request.cancel_request("the host cancelled the call")


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

# What has a code of its own in the legacy era only.
_MODERN_CODES = {RESOURCE_NOT_FOUND: INVALID_PARAMS}

_NOTIFICATIONS: dict[str, Callable[[McpServer, Params], None]] = {
    "notifications/initialized": McpServer._initialized,
    "notifications/cancelled": McpServer._cancelled,
}


def _check_first_page(params: Params) -> None:
    """Raise RpcError for a cursor: each list has one page."""
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "there is no such cursor: every list comes in one page")


def _uri(params: Params) -> str:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, "a resource needs a uri")
    return uri
