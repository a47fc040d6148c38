"""Decides which lines pass, change or stop; all others pass as they came.

`_FROM_HOST` and `_FROM_SERVER` name a handler for a method; responses have one if they are
expected. Both sides speak stateful MCP here (`eras.py` translates).
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Awaitable, Callable, Collection, Sequence, Set
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text, is_deeper
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc import byte_edit
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_DEPTH,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Id,
    dump,
    is_id,
)
from abp_bridge.jsonrpc.splice import LineFilter
from abp_bridge.mcp.proxy import handshake
from abp_bridge.mcp.proxy.server_questions import ELICITATION, SAMPLING
from abp_bridge.protocols.mcp.client import LEGACY, McpClientInfo, decode_capabilities
from abp_bridge.protocols.mcp.translation import URL_REQUIRED, urls_required

if TYPE_CHECKING:
    from pathlib import Path

    from abp_bridge.jsonrpc.connection import JsonRpcConnection
    from abp_bridge.jsonrpc.multiplex import InjectedConnection
    from abp_bridge.mcp.connection import McpConnection
    from abp_bridge.mcp.proxy.approval import Approval
    from abp_bridge.mcp.proxy.calls import Calls, OpenCall
    from abp_bridge.mcp.proxy.keepalive import KeepaliveElicitor
    from abp_bridge.mcp.proxy.server_questions import ServerQuestions
    from abp_bridge.mcp.proxy.url_elicitations import UrlElicitations
    from abp_bridge.session.profiles import Profile

logger = logging.getLogger(__name__)

_NO_BATCH = "a call that needs a person's approval (--confirm) must come by itself, not in a batch"
_BEGINS_ALONE = "initialize must come by itself, not in a batch"
_OPEN = "a call with this id is open: its result would be taken for the other's"
_NOT_SHOWN = (
    "a call that needs a person's approval (--confirm) is not made where its arguments cannot be"
    " shown to them: they must be an object, and not nested deeply"
)
_TOO_LONG = f"it has more than {byte_edit.MAX_LINE} bytes, which nobody looks at"
_NO_RESPONSE = "the host answers what it was not asked: it goes no further"
MAX_ANSWERABLE = 1_000  # requests of the server's that the host has not answered yet
_BEFORE_INITIALIZE = ("ping", "server/discover")
_NOT_BEGUN = "this server is begun with initialize, which comes first"
_WHITE = b" \t\r\n\xef\xbb\xbf"  # before a message
# A plain letter, the slash, and the two letters that small ones are told from by few.
_ESCAPED = re.compile(rb"\\u(?:00(?:2[fF]|[46][1-9a-fA-F]|[57][0-9aA])|017[fF]|212[aA])")
_LONG_S = "\u017f".encode()  # Go's JSON takes it for an s in a name
_RESPONSE = (b'"result"', b'"error"')
_OF_MESSAGES = frozenset(["jsonrpc", "id", "method", "params", "result", "error"])
_OF_CALLS = frozenset(["name", "arguments"])


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user has set for one proxy.

    Attributes:
        origin: Makes the server's name for the user, from its command.
        obstacle: (host's name, whether it shows questions) -> why no one can be asked, or "".
        ending: Says how the server ended; may wait a second.
        overhear: Gets the server's output that is no message.
        confirm: The tools that need approval.
        roots: Folders for a server whose host has none.
        can_sample: Whether the user's model answers if the host has none.
    """

    origin: Callable[[], str]
    obstacle: Callable[[str, bool], str]
    ending: Callable[[], Awaitable[str]]
    overhear: Callable[[bytes], object]
    confirm: Collection[str] = ()
    roots: Sequence[Path] = ()
    can_sample: bool = False


class Router:
    """Reads the relevant lines of both sides and returns what passes in their place.

    Args:
        injected: Our connection to the host, which gets the responses to our requests.
        server: Our connection to the server.
    """

    def __init__(
        self,
        host: McpConnection,
        injected: InjectedConnection,
        server: JsonRpcConnection,
        *,
        calls: Calls,
        questions: ServerQuestions,
        approval: Approval,
        keepalive: KeepaliveElicitor,
        url_elicitations: UrlElicitations,
        policy: Policy,
    ) -> None:
        self.from_host = LineFilter(
            self._is_relevant_from_host,
            self._rewrite_from_host,
            passes_unread=False,
            on_too_long=self._refuse_too_long,
        )
        self.from_server = LineFilter(self._is_relevant_from_server, self._rewrite_from_server)
        self._host = host
        self._injected = injected
        self._server = server
        self._calls = calls
        self._questions = questions
        self._approval = approval
        self._keepalive = keepalive
        self._url_elicitations = url_elicitations
        self._policy = policy
        self._serves_roots = False
        self._samples = False  # whether a model of the person's answers the server
        self._handshake_problem = _NOT_BEGUN  # why only the handshake passes; empty once it did
        self._marks = (b"tools", b'"initialize"', b"/discover", injected.mark, b"cancelled")
        self._answerable: dict[Id, None] = {}  # the server's requests that the host has got
        # The host's open requests, with who looks at their response before it passes.
        self._on_response: dict[Id, Callable[[bytes, JsonObject], bytes] | None] = {}

    def fail_open_requests(self, words: str) -> bytes:
        """Return errors, as lines, for what the host still waits for: the server has ended."""
        left, self._on_response = self._on_response, {}
        return b"".join(_encode_error(id, INTERNAL_ERROR, words) for id in left)

    # --- lines of the host ---

    def _is_relevant_from_host(self, data: bytes) -> bool:
        # What is mostly there comes first: the others look through all of it.
        return (b'"method"' in data and b'"id"' in data) or self._needs_parsing(data)

    def _needs_parsing(self, data: bytes) -> bool:
        """Whether more than the id of a host's request matters."""
        if self._handshake_problem:
            return True
        for mark in self._marks:
            if mark in data:
                return True
        return may_respond(data) or (self._approval.is_on and not are_objects(data))

    async def _rewrite_from_host(self, line: bytes) -> bytes:
        if not self._needs_parsing(line):
            self._open_all(line)
            return line
        message = byte_edit.parse_broken_line(line)
        if await self._injected.take_response(line, message):
            return b""
        if isinstance(message, list):
            return await self._rewrite_batch(line, message)
        if not isinstance(message, dict):
            return self._pass_unread(line)
        method, id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            return line if self._accept_response(message) else b""
        if self._is_about_our_request(message):
            return b""
        if problem := _find_ambiguity(message):
            return self._reject(id, problem)
        handle = _FROM_HOST.get(method)
        if self._handshake_problem and method != "initialize":
            if self._handshake_problem is _NOT_BEGUN and method in _BEFORE_INITIALIZE:
                passed = line if handle is None else handle(self, line, id, {})
                self._note_request(id if passed else None)
                return passed
            handle = Router._refuse_all
        if passed := handle(self, line, id, as_object(message.get("params"))) if handle else line:
            self._note_request(id)
        return passed

    def _accept_response(self, message: JsonObject) -> bool:
        """Whether the server sent the host this request, and it is the first response."""
        id = message.get("id")
        asked = is_id(id) and id in self._answerable and not misleading_name(message)
        if is_id(id) and asked:
            del self._answerable[id]
        else:
            logger.error(_NO_RESPONSE)
        return asked

    def _reject(self, id: JsonValue, problem: str) -> bytes:
        """Stop a message: answer a request with the problem, log a notification's."""
        if is_id(id):
            self._respond_error(id, INVALID_REQUEST, problem)
        else:
            logger.error("a notification of the host's goes no further: %s", problem)
        return b""

    def _pass_unread(self, line: bytes) -> bytes:
        """Pass a line that is no message to us, unless it may be one to the server."""
        matters = self._handshake_problem or self._approval.is_on or may_respond(line)
        if not line.strip(_WHITE) or not matters:
            return line
        self._respond_error(None, PARSE_ERROR, "abp-bridge cannot read this, and does not pass it")
        return b""

    def _refuse_too_long(self, begin: bytes) -> None:
        if (id := byte_edit.find_request_id(begin)) is not None:
            self._respond_error(id, INVALID_REQUEST, _TOO_LONG)
        logger.error("a line of the host's is dropped: %s", _TOO_LONG)

    async def _rewrite_batch(self, line: bytes, messages: list[JsonValue]) -> bytes:
        """Remove our messages and those that need approval from a batch."""
        left = [each for each in messages if not await self._intercept_from_host(as_object(each))]
        return line if len(left) == len(messages) else dump(left) if left else b""

    async def _intercept_from_host(self, message: JsonObject) -> bool:
        if await self._injected.take_response(b"", message) or self._is_about_our_request(message):
            return True
        method, id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            return not self._accept_response(message)
        problem = _find_ambiguity(message)
        tool = self._calls.tool(as_text(as_object(message.get("params")).get("name")))
        needs_approval = method == "tools/call" and self._approval.asks_for(tool)
        begins = _BEGINS_ALONE if method == "initialize" else ""
        asks = _NO_BATCH if needs_approval else ""
        if is_id(id) and id in self._calls.open:
            asks = _OPEN
        if refused := problem or begins or self._handshake_problem or asks:
            self._reject(id, refused)
        elif method == "tools/call" and is_id(id):
            self._begin(id, as_object(message.get("params")))
        elif method == "notifications/cancelled":
            return not self._give_up(as_object(message.get("params")))
        else:
            self._note_request(id)
        return bool(refused)

    def _is_about_our_request(self, message: JsonObject) -> bool:
        """Whether it is a notification about a request of ours, which the server never saw."""
        request = as_object(message.get("params")).get("requestId")
        return "id" not in message and self._injected.is_ours(request)

    def _refuse_all(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        if is_id(id):
            self._respond_error(id, INTERNAL_ERROR, self._handshake_problem)
        return b""

    def _initialize(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        self._host.client = McpClientInfo(
            as_text(params.get("protocolVersion"), LEGACY[0]),
            as_object(params.get("clientInfo")),
            params.get("capabilities"),
        )
        can_be_asked = handshake.can_be_asked(self._host.client)
        why = self._policy.obstacle(self._host.client.name, can_be_asked)
        self._handshake_problem = handshake.refusal(why) if why else ""
        if self._handshake_problem:
            logger.error("%s", self._handshake_problem)
            return self._refuse_all(line, id, params)
        self._serves_roots = bool(self._policy.roots) and not handshake.declares_roots(params)
        self._expect(id, self._on_initialize_result)
        self._samples = self._policy.can_sample and not handshake.declares_sampling(params)
        return handshake.announce(
            line, params, has_roots=bool(self._policy.roots), can_sample=self._policy.can_sample
        )

    def _on_initialize_result(self, line: bytes, response: JsonObject) -> bytes:
        version = as_object(response.get("result")).get("protocolVersion")
        client = self._host.client
        self._host.client = McpClientInfo(
            as_text(version, client.version), client.info, client.capabilities
        )
        return line

    def _discover(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        """Refuse `server/discover`: this server has a handshake."""
        if is_id(id):
            self._respond_error(id, METHOD_NOT_FOUND, "this server is begun with initialize")
        return b""

    def _list_tools(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        self._expect(id, self._on_tools)
        return line

    def _on_tools(self, line: bytes, response: JsonObject) -> bytes:
        if b"outputSchema" in line and self._profile().reads_structured:
            from abp_bridge.mcp.proxy.calls import make_room  # once needed

            line = make_room(line, as_object(response.get("result")))
            response = as_object(byte_edit.parse_broken_line(line))
        if self._calls.learn(as_object(response.get("result"))):
            self._approval.check_names(list(self._calls.tools.values()))
        return line

    def _call_tool(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        tool = self._calls.tool(as_text(params.get("name")))
        if is_id(id) and id in self._calls.open:
            return self._reject(id, _OPEN)
        if not self._approval.asks_for(tool):
            if is_id(id):
                self._begin(id, params)
            return line
        arguments = params.get("arguments")
        if not is_id(id) or self._approval.is_waiting(id):
            logger.error("a call is not passed on: its id is none, or another's: %s", label(id, 80))
            return b""
        if is_deeper(params, MAX_DEPTH) or not isinstance(arguments, (dict, NoneType)):
            self._respond_error(id, INVALID_PARAMS, _NOT_SHOWN)
            return b""

        def on_allowed() -> None:
            self._begin(id, params)
            self._server.send_line(line)

        self._keepalive.begin(id, params)
        self._note_request(id)
        self._approval.request_approval(id, tool, params, on_allowed, partial(self._fail_call, id))
        return b""

    def _begin(self, id: Id, params: JsonObject) -> None:
        self._calls.begin(id, params)
        self._keepalive.begin(id, params)
        self._expect(id, partial(self._on_result, id))

    def _fail_call(self, id: Id, words: str) -> None:
        from abp_bridge.protocols.mcp.results import encode_text  # once needed

        self._keepalive.forget_call(id)
        self._on_response.pop(id, None)
        result = encode_text(words, error=True)
        self._injected.connection.send_line(dump({"jsonrpc": "2.0", "id": id, "result": result}))

    def _on_result(self, id: Id, line: bytes, response: JsonObject) -> bytes:
        call = self._end_call(id)
        if call is None or not call.notes:
            return line
        from abp_bridge.mcp.proxy.calls import add_notes  # once needed

        schema = self._calls.tool(call.tool).output_schema
        return add_notes(line, response, call.notes, self._profile(), schema)

    def _profile(self) -> Profile:
        from abp_bridge.session.profiles import profile  # once needed

        client = self._host.client
        return profile(client.info.get("name"), client.capabilities)

    def _end_call(self, id: Id) -> OpenCall | None:
        """End a call that has its result, and cancel the questions that belong to no other."""
        call = self._calls.open.pop(id, None)
        self._keepalive.forget_call(id)
        self._url_elicitations.withdraw(id)
        if self._questions.is_asking:
            self._questions.withdraw_call(str(id))
        return call

    def _on_cancelled(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        return line if self._give_up(params) else b""

    def _give_up(self, params: JsonObject) -> bool:
        """Cancel a request of the host; True if the server must hear of it."""
        request = params.get("requestId")
        if not is_id(request):
            return True
        self._keepalive.forget_call(request)
        if self._on_response.get(request) is None:
            self._on_response.pop(request, None)
        if self._approval.withdraw(request):  # the server never heard of that call
            return False
        if self._url_elicitations.withdraw(request):  # it has answered that one
            self._end_call(request)
            return False
        if self._calls.give_up(request):
            self._on_response.pop(request, None)
            self._questions.withdraw_call(str(request))
        return True

    def _expect(self, id: JsonValue, on_response: Callable[[bytes, JsonObject], bytes]) -> None:
        if is_id(id):
            self._on_response[id] = on_response

    def _open_all(self, line: bytes) -> None:
        """Note the requests in a line that is not parsed otherwise."""
        if (id := byte_edit.find_request_id(line)) is not None:
            self._note_request(id)
            return
        message = byte_edit.parse_broken_line(line)
        for each in message if isinstance(message, list) else [message]:
            request = as_object(each)
            self._note_request(request.get("id") if "method" in request else None)

    def _note_request(self, id: JsonValue) -> None:
        """Note a request that will get an answer."""
        if is_id(id):
            self._on_response.setdefault(id)

    def _respond_error(self, id: Id | None, code: int, message: str) -> None:
        if id is not None:
            self._on_response.pop(id, None)
        self._injected.connection.send_line(_encode_error(id, code, message))

    # --- lines of the server ---

    def _is_relevant_from_server(self, data: bytes) -> bool:
        # What is mostly there comes first: the others look through all of it.
        if self._on_response and (b'"result"' in data or b'"error"' in data):
            return True
        if b'"method"' in data and b'"id"' in data:  # a request, which the host may answer
            return True
        if _may_contain_question(data):
            return True
        if self._serves_roots and b"roots" in data:
            return True
        if self._samples and b"sampling" in data:
            return True
        if self._questions.is_asking and b"cancelled" in data:
            return True
        return self._keepalive.is_on and b"/progress" in data  # the slash may be escaped

    async def _rewrite_from_server(self, line: bytes) -> bytes:
        if not _may_contain_question(line) and self._end_call_unread(line):
            return line
        message = byte_edit.parse_broken_line(line)
        if not isinstance(message, (dict, list)) and not line.lstrip(_WHITE).startswith(b"{"):
            self._policy.overhear(line)
            return b""
        if isinstance(message, list):
            return await self._rewrite_batch_of_server(line, message)
        if not isinstance(message, dict):
            return self._pass_unread_of_server(line)
        method, id = message.get("method"), message.get("id")
        if self._intercept_links(message):
            return b""
        if method is None and not misleading_name(message):
            on_response = self._take_response(id)
            return line if on_response is None else on_response(line, message)
        return b"" if await self._intercept_from_server(message) else line

    async def _rewrite_batch_of_server(self, line: bytes, messages: list[JsonValue]) -> bytes:
        left: list[JsonValue] = []
        for each in messages:
            message = as_object(each)
            if not await self._intercept_from_server(message):
                left.append(self._rewrite_in_batch(each, message))
        same = len(left) == len(messages) and all(map(operator.is_, left, messages))
        return line if same else dump(left) if left else b""

    def _rewrite_in_batch(self, each: JsonValue, message: JsonObject) -> JsonValue:
        """Return a message of a batch, with a response rewritten."""
        id = message.get("id")
        if message.get("method") is not None:
            return each
        if (on_response := self._take_response(id)) is None:
            return each
        line = dump(message)
        changed = on_response(line, message)
        return each if changed == line else byte_edit.parse_line(changed)

    def _take_response(self, id: JsonValue) -> Callable[[bytes, JsonObject], bytes] | None:
        """Note the server's answer; return the handler of its response."""
        if not is_id(id):
            return None
        self._url_elicitations.withdraw(id)
        return self._on_response.pop(id, None)

    def _end_call_unread(self, line: bytes) -> bool:
        """End the call of a response in which only the id matters; False for any other line."""
        if (id := byte_edit.find_response_id(line)) is None:
            return False
        call = self._calls.open.get(id)
        if self._on_response.get(id) is not None and (call is None or call.notes):
            return False
        self._on_response.pop(id, None)
        self._end_call(id)
        return True

    def _pass_unread_of_server(self, line: bytes) -> bytes:
        """End the call of a response in which only the id matters; False for others."""
        asks = b"elicitation" in line or (self._samples and b"sampling" in line)
        if not asks and not is_escaped(line):
            return line
        logger.error("a line of the server's cannot be read, and may ask something: it is dropped")
        return b""

    async def _intercept_from_server(self, message: JsonObject) -> bool:
        """Whether a server's message stops here; note a request that passes."""
        method, id = message.get("method"), message.get("id")
        if problem := _find_ambiguity(message):
            logger.error("a message of the server's goes no further: %s", problem)
            return True
        take = _FROM_SERVER.get(method) if isinstance(method, str) else None
        if take is not None and await take(self, id, as_object(message.get("params"))):
            return True
        if self._intercept_links(message):
            return True
        if is_id(id) and method is not None:
            self._answerable[id] = None
            if len(self._answerable) > MAX_ANSWERABLE:
                del self._answerable[next(iter(self._answerable))]
        return False

    def _intercept_links(self, message: JsonObject) -> bool:
        """Pass a line that is no JSON to us, unless a tolerant host may read a question in it."""
        id, error = message.get("id"), as_object(message.get("error"))
        named = as_object(error.get("data")).get("elicitations")
        if not (named and is_id(id) and error.get("code") == URL_REQUIRED):
            return False
        client = self._host.client
        if decode_capabilities(client.capabilities, client.version).url:
            return False
        if id not in self._on_response:
            logger.warning("an error with addresses is dropped: none is open for %s", label(id, 80))
            return True
        self._on_response[id] = None
        call = self._calls.open.get(id)
        tools = [] if call is None else [call.tool]
        self._url_elicitations.begin(id, urls_required(error), tools, partial(self._end_visit, id))
        return True

    def _end_visit(self, id: Id, words: str) -> None:
        call = self._end_call(id)
        if call is None:  # no tool's: it has no result that could be a failed one
            self._respond_error(id, INVALID_REQUEST, words)
        else:
            self._fail_call(id, " ".join([words, *call.notes]))

    async def _elicit(self, id: JsonValue, params: JsonObject) -> bool:
        if is_id(id):
            await self._questions.take(id, ELICITATION, params)
        else:
            logger.error("the server asks without an id that could be answered: nobody is asked")
        return True

    async def _sample(self, id: JsonValue, params: JsonObject) -> bool:
        """Ask the user's model if the host has none."""
        if not self._samples:
            return False
        if is_id(id):
            await self._questions.take(id, SAMPLING, params)
        else:
            logger.error("the server asks a model without an id that could be answered")
        return True

    async def _list_roots(self, id: JsonValue, params: JsonObject) -> bool:
        if not (self._serves_roots and is_id(id)):
            return False
        roots: list[JsonValue] = [
            {"uri": root.as_uri(), "name": root.name} for root in self._policy.roots
        ]
        result: JsonObject = {"roots": roots}
        self._server.send_line(dump({"jsonrpc": "2.0", "id": id, "result": result}))
        return True

    async def _withdraw(self, id: JsonValue, params: JsonObject) -> bool:
        request = params.get("requestId")
        return is_id(request) and self._questions.withdraw(request)

    async def _learn_progress(self, id: JsonValue, params: JsonObject) -> bool:
        self._keepalive.learn(params)
        return False

    async def _complete(self, id: JsonValue, params: JsonObject) -> bool:
        done = as_text(params.get("elicitationId"))
        self._questions.complete(done)
        self._url_elicitations.complete(done)
        return False


def _encode_error(id: Id | None, code: int, message: str) -> bytes:
    return dump({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def _may_contain_question(data: bytes) -> bool:
    """Whether a reader may find a question in these lines."""
    return b"elicitation" in data or not are_objects(data) or is_escaped(data)


# --- lines that another reader may read differently: escapes, several messages, folded names ---


def is_escaped(data: bytes) -> bool:
    """Whether a plain letter is escaped, so that a word could hide behind it."""
    return b"\\" in data and _ESCAPED.search(data) is not None


def are_objects(lines: bytes) -> bool:
    """Whether each of these lines begins with an object."""
    if lines.find(b"\n") == len(lines) - 1 >= 0:  # one line, as mostly: no need to count
        return lines.startswith(b"{")
    return lines.count(b"\n{") + lines.startswith(b"{") == lines.count(b"\n")


def may_respond(data: bytes) -> bool:
    """Whether another reader may find a response in these lines."""
    low = data.lower()
    return any(word in low for word in _RESPONSE) or _LONG_S in data or is_escaped(data)


def misleading_name(message: JsonObject) -> str:
    """Return a member that readers which fold case or stop at NUL (Go) may misread."""
    found = _misleading(message, _OF_MESSAGES)
    if not found and message.get("method") == "tools/call":
        found = _misleading(as_object(message.get("params")), _OF_CALLS)
    return found


def _misleading(names: JsonObject, known: Set[str]) -> str:
    if names.keys() <= known:
        return ""
    folded = (name for name in names if name not in known)
    return next((name for name in folded if name.partition("\0")[0].casefold() in known), "")


def _find_ambiguity(message: JsonObject) -> str:
    """Return why another reader may read this message differently, or ""."""
    if name := misleading_name(message):
        return f"the name {label(name, 80)!r} is another's for some readers"
    if "method" in message and ("result" in message or "error" in message):
        return "it is a request and a response at once"
    return ""


_FROM_HOST: dict[str, Callable[[Router, bytes, JsonValue, JsonObject], bytes]] = {
    "initialize": Router._initialize,
    "server/discover": Router._discover,
    "tools/list": Router._list_tools,
    "tools/call": Router._call_tool,
    "notifications/cancelled": Router._on_cancelled,
}

# Whether the line is taken, and goes no further.
_FROM_SERVER: dict[str, Callable[[Router, JsonValue, JsonObject], Awaitable[bool]]] = {
    "elicitation/create": Router._elicit,
    "sampling/createMessage": Router._sample,
    "roots/list": Router._list_roots,
    "notifications/cancelled": Router._withdraw,
    "notifications/progress": Router._learn_progress,
    "notifications/elicitation/complete": Router._complete,
}
