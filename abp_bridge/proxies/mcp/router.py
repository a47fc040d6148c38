"""The lines that a proxy has business with while host and server speak of the same era with a
handshake: two tables from method to handler, one for what the host says and one for what the server
says. Everything else passes as it came.

A line of the host is changed in one place only: its `initialize` says what can be asked here. What
a handler learns it tells the calls, or whoever asks the server's questions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.versions import LEGACY
from abp_bridge.proxies import byte_edit, response_id
from abp_bridge.proxies.mcp import handshake
from abp_bridge.proxies.splice import LineFilter
from abp_bridge.rpc.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    dump,
    is_id,
)

if TYPE_CHECKING:
    from abp_bridge.hosts.mcp.connection import McpConnection
    from abp_bridge.proxies.mcp.calls import Calls
    from abp_bridge.proxies.mcp.confirmation import Confirmation
    from abp_bridge.proxies.mcp.policy import Policy
    from abp_bridge.proxies.mcp.server_questions import ServerQuestions
    from abp_bridge.proxies.multiplex import InjectedConnection
    from abp_bridge.rpc.connection import JsonRpcConnection

logger = logging.getLogger(__name__)

_NO_BATCH = "a call that needs a person's leave (--confirm) must come by itself, not in a batch"
_WHITE = b" \t\r\n\xef\xbb\xbf"  # before a message


class Router:
    """Reads the relevant lines of both sides, and says what goes on in their place.

    Args:
        host: The host as it shows itself.
        injected: Our connection to it, which gets the responses to our requests.
        server: Our connection to the server.
        calls: What is known of its tools, and of the host's calls.
        questions: Who asks the server's questions.
        confirmation: Who asks for leave before a call.
        policy: What the person has set.
    """

    def __init__(
        self,
        host: McpConnection,
        injected: InjectedConnection,
        server: JsonRpcConnection,
        *,
        calls: Calls,
        questions: ServerQuestions,
        confirmation: Confirmation,
        policy: Policy,
    ) -> None:
        self.from_host = LineFilter(self._is_relevant_from_host, self._rewrite_from_host)
        self.from_server = LineFilter(self._is_relevant_from_server, self._rewrite_from_server)
        self._host = host
        self._injected = injected
        self._server = server
        self._calls = calls
        self._questions = questions
        self._confirmation = confirmation
        self._policy = policy
        self._serves_roots = False
        self._refusal = ""  # why the server is not begun
        self._marks = (b'"initialize"', b"/discover", b"tools", injected.mark, b"cancelled")
        # The host's requests whose response is looked at before it passes.
        self._on_response: dict[Id, Callable[[bytes, JsonObject], bytes]] = {}

    # --- lines of the host ---

    def _is_relevant_from_host(self, data: bytes) -> bool:
        return bool(self._refusal) or any(mark in data for mark in self._marks)

    async def _rewrite_from_host(self, line: bytes) -> bytes:
        message = byte_edit.read(line)
        if await self._injected.take_response(line, message):
            return b""
        if isinstance(message, list) and self._refuse_batch(message):
            return b""
        if not isinstance(message, dict):
            return line
        method, id = message.get("method"), message.get("id")
        handle = _FROM_HOST.get(method) if isinstance(method, str) else None
        if self._refusal and method != "initialize":
            handle = Router._refuse_all
        return line if handle is None else handle(self, line, id, as_object(message.get("params")))

    def _refuse_batch(self, messages: list[JsonValue]) -> bool:
        """Calls that come several as one, which old revisions allow, are not made where one needs
        leave: whether that is so.
        """
        each = [as_object(message) for message in messages]
        tools = [as_text(as_object(one.get("params")).get("name")) for one in each if _calls(one)]
        if not any(self._confirmation.asks_for(self._calls.tool(name)) for name in tools):
            return False
        for one in each:
            if is_id(id := one.get("id")):
                self._respond_error(id, INVALID_REQUEST, _NO_BATCH)
        return True

    def _refuse_all(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        if is_id(id):
            self._respond_error(id, INTERNAL_ERROR, self._refusal)
        return b""

    def _initialize(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        self._host.client = McpClientInfo(
            as_text(params.get("protocolVersion"), LEGACY[0]),
            as_object(params.get("clientInfo")),
            params.get("capabilities"),
        )
        can_be_asked = handshake.can_be_asked(self._host.client)
        why = self._policy.obstacle(self._host.client.name, can_be_asked)
        self._refusal = handshake.refusal(why) if why else ""
        if self._refusal:
            logger.error("%s", self._refusal)
            return self._refuse_all(line, id, params)
        self._serves_roots = bool(self._policy.roots) and not handshake.declares_roots(params)
        self._expect(id, self._on_initialized)
        return handshake.announce(line, params, has_roots=bool(self._policy.roots))

    def _on_initialized(self, line: bytes, response: JsonObject) -> bytes:
        version = as_object(response.get("result")).get("protocolVersion")
        client = self._host.client
        self._host.client = McpClientInfo(
            as_text(version, client.version), client.info, client.capabilities
        )
        return line

    def _discover(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        """What the host asks first who would do without a handshake: here there is one."""
        if is_id(id):
            self._respond_error(id, METHOD_NOT_FOUND, "this server is begun with initialize")
        return b""

    def _list_tools(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        self._expect(id, self._on_tools)
        return line

    def _on_tools(self, line: bytes, response: JsonObject) -> bytes:
        if self._calls.learn(as_object(response.get("result"))):
            self._confirmation.check_names(list(self._calls.tools.values()))
        return line

    def _call_tool(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        if not is_id(id):
            return line
        tool = self._calls.tool(as_text(params.get("name")))
        if not self._confirmation.asks_for(tool):
            self._begin(id, params)
            return line

        def on_allowed() -> None:
            self._begin(id, params)
            self._server.forward(line)

        self._confirmation.ask(id, tool, params, on_allowed, partial(self._refuse, id))
        return b""

    def _begin(self, id: Id, params: JsonObject) -> None:
        self._calls.begin(id, params)
        self._expect(id, partial(self._on_result, id))

    def _refuse(self, id: Id, words: str) -> None:
        from abp_bridge.protocols.mcp.results import encode_text  # once needed

        result = encode_text(words, error=True)
        self._injected.connection.forward(dump({"jsonrpc": "2.0", "id": id, "result": result}))

    def _on_result(self, id: Id, line: bytes, response: JsonObject) -> bytes:
        call = self._calls.open.pop(id, None)
        if call is None or "result" not in response:
            return line
        for words in call.notes:
            line = byte_edit.add(line, ("result", "content"), {"type": "text", "text": words})
        return line

    def _cancel(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        request = params.get("requestId")
        if not is_id(request):
            return line
        if self._confirmation.withdraw(request):  # the server never heard of that call
            return b""
        if self._calls.open.pop(request, None) is not None:
            self._on_response.pop(request, None)
            self._questions.withdraw_call(str(request))
        return line

    def _expect(self, id: JsonValue, on_response: Callable[[bytes, JsonObject], bytes]) -> None:
        if is_id(id):
            self._on_response[id] = on_response

    def _respond_error(self, id: Id, code: int, message: str) -> None:
        error: JsonObject = {"code": code, "message": message}
        self._injected.connection.forward(dump({"jsonrpc": "2.0", "id": id, "error": error}))

    # --- lines of the server ---

    def _is_relevant_from_server(self, data: bytes) -> bool:
        if b"elicitation" in data or not _are_objects(data):
            return True
        if self._serves_roots and b"roots" in data:
            return True
        if self._questions.is_asking and b"cancelled" in data:
            return True
        return bool(self._on_response) and (b'"result"' in data or b'"error"' in data)

    async def _rewrite_from_server(self, line: bytes) -> bytes:
        if self._only_ends_call(line):
            return line
        message = byte_edit.read(line)
        if not isinstance(message, (dict, list)) and not line.lstrip(_WHITE).startswith(b"{"):
            self._policy.overhear(line)
            return b""
        if not isinstance(message, dict):
            return line
        method, id = message.get("method"), message.get("id")
        if method is None:
            on_response = self._on_response.pop(id, None) if is_id(id) else None
            return line if on_response is None else on_response(line, message)
        take = _FROM_SERVER.get(method) if isinstance(method, str) else None
        taken = take is not None and await take(self, id, as_object(message.get("params")))
        return b"" if taken else line

    def _only_ends_call(self, line: bytes) -> bool:
        """Whether nothing in this line matters but which request it answers: then its call ends."""
        if (id := response_id.find(line)) is None:
            return False
        call = self._calls.open.get(id)
        if id in self._on_response and (call is None or call.notes):
            return False
        self._on_response.pop(id, None)
        self._calls.open.pop(id, None)
        return True

    async def _elicit(self, id: JsonValue, params: JsonObject) -> bool:
        if not is_id(id):
            return False
        await self._questions.take(id, params)
        return True

    async def _list_roots(self, id: JsonValue, params: JsonObject) -> bool:
        if not (self._serves_roots and is_id(id)):
            return False
        roots: list[JsonValue] = [
            {"uri": root.as_uri(), "name": root.name} for root in self._policy.roots
        ]
        result: JsonObject = {"roots": roots}
        self._server.forward(dump({"jsonrpc": "2.0", "id": id, "result": result}))
        return True

    async def _withdraw(self, id: JsonValue, params: JsonObject) -> bool:
        request = params.get("requestId")
        return is_id(request) and self._questions.withdraw(request)

    async def _complete(self, id: JsonValue, params: JsonObject) -> bool:
        self._questions.complete(as_text(params.get("elicitationId")))
        return False


def _calls(message: JsonObject) -> bool:
    return message.get("method") == "tools/call"


def _are_objects(lines: bytes) -> bool:
    """Whether each of these lines begins as a message does, at once."""
    return lines.count(b"\n{") + lines.startswith(b"{") == lines.count(b"\n")


_FROM_HOST: dict[str, Callable[[Router, bytes, JsonValue, JsonObject], bytes]] = {
    "initialize": Router._initialize,
    "server/discover": Router._discover,
    "tools/list": Router._list_tools,
    "tools/call": Router._call_tool,
    "notifications/cancelled": Router._cancel,
}

# Whether the line is taken, and goes no further.
_FROM_SERVER: dict[str, Callable[[Router, JsonValue, JsonObject], Awaitable[bool]]] = {
    "elicitation/create": Router._elicit,
    "roots/list": Router._list_roots,
    "notifications/cancelled": Router._withdraw,
    "notifications/elicitation/complete": Router._complete,
}
