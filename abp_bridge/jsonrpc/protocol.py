"""JSON-RPC 2.0 over lines of JSON, without I/O: bytes in, messages out; calls in, bytes out.

`JsonRpcProtocol` owns framing, limits, and the matching of requests with responses in both
directions. A malformed line becomes an `InvalidMessage` and never ends the connection. The ids of
the two directions are separate.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeGuard

from abp_bridge.core.json_value import (
    MAX_VALUES,
    JsonObject,
    JsonValue,
    as_object,
    is_deeper,
    parse_json,
)
from abp_bridge.core.sanitize import Revealed
from abp_bridge.errors import AbpBridgeError, LocalProtocolError

Id = str | int | float

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_LINE = 16 * 2**20  # bytes; a file of 10 MiB in base64 fits, an endless line does not
MAX_PASSED_LINE = 64 * 2**20  # bytes; of what is passed on between two programs
MAX_BATCH = 1_000  # messages; each may be answered by an error that is longer than itself
MAX_DEPTH = 128  # levels; Python's own reader and writer recurse, and fail near 1,000
END = 4096  # bytes that are looked at, at each end, of a line that cannot be read


class RpcError(AbpBridgeError):
    """A request is answered with this JSON-RPC error; `data` is left out if None."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the peer. Answer it once; `params` is an object, a list or None."""

    id: Id
    method: str
    params: JsonValue


@dataclass(frozen=True, slots=True)
class Notification:
    """The other side tells: nothing is answered. `params` as in `Request`."""

    method: str
    params: JsonValue


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request of ours: `error` is None, or the error object."""

    id: Id
    result: JsonValue
    error: JsonObject | None


@dataclass(frozen=True, slots=True)
class UnmatchedResponse:
    """A response without an open request: late, repeated or never asked. It is dropped."""

    id: JsonValue


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """A line that is not a message. `reply` is the error to send back, `line` its beginning.

    `id` is that of the request that the reply answers; None if it answers none.
    """

    reason: str
    reply: bytes
    line: bytes = b""
    id: Id | None = None


IncomingMessage = Request | Notification | Response | UnmatchedResponse | InvalidMessage


class _Batch:
    """Messages that came as one, and what answers them: one line, when nothing is open any more."""

    def __init__(self) -> None:
        self.open = 0
        self.lines: list[bytes] = []

    def add_answer(self, line: bytes) -> bytes:
        """One of its requests is through: what is to be written now."""
        self.open -= 1
        self.lines += [line] if line else []
        return b"" if self.open else self.join()

    def join(self) -> bytes:
        """All answers as one line; nothing where there are none."""
        lines = b",".join(line.rstrip(b"\n") for line in self.lines)
        return b"[" + lines + b"]\n" if lines else b""


class JsonRpcProtocol:
    """One end of a JSON-RPC connection.

    Args:
        prefix: Starts each of our ids.
        max_line: Longest line that is read, in bytes.
        max_depth: Deepest nesting of a message; None where the parser's own limit is enough.
        inward: Turns another envelope into JSON-RPC.
        outward: Turns our JSON-RPC into that envelope.
        revealed: The peer displays what we write; invisible characters are shown.

    Attributes:
        batches: Whether the peer may send batches.
        exact_results: Whether results are sent without `revealed`.
    """

    def __init__(
        self,
        prefix: str = "abp-",
        *,
        max_line: int = MAX_LINE,
        max_depth: int | None = MAX_DEPTH,
        inward: Callable[[dict[str, JsonValue]], dict[str, JsonValue]] | None = None,
        outward: Callable[[dict[str, JsonValue]], dict[str, JsonValue]] | None = None,
        revealed: bool = False,
    ) -> None:
        self._revealed = Revealed() if revealed else None
        self.exact_results = False
        self.inward = inward
        self.outward = outward
        self._prefix = prefix
        self._max_line = max_line
        self._max_depth = max_depth
        self._buffer = bytearray()
        self._searched = 0  # no newline before this place
        self._oversized: tuple[bytes, bytes] | None = None  # the ends of a line, thrown away
        self._serial = 0
        self.batches = False
        self._batches: dict[Id, _Batch] = {}  # of their requests that came so
        self._asked: set[Id] = set()  # our requests that wait for a response
        self._asking: set[Id] = set()  # their requests that wait for ours

    @property
    def waiting(self) -> int:
        """How many requests of ours wait for a response."""
        return len(self._asked)

    def receive(self, data: bytes) -> list[IncomingMessage]:
        """Decode bytes into messages; an incomplete last line waits for the next call."""
        events: list[IncomingMessage] = []
        self._buffer += data
        start = 0
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[start:end])
            start = self._searched = end + 1
            if self._oversized is not None or len(line) > self._max_line:
                events.append(self._too_long(*self._throw_away(line)))
                self._oversized = None
            elif line.strip():
                events += [
                    replace(event, line=line[:END]) if isinstance(event, InvalidMessage) else event
                    for event in self._parse_line(line)
                ]
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if self._oversized is not None or len(self._buffer) > self._max_line:
            self._oversized = self._throw_away(self._buffer)
            self._buffer.clear()
            self._searched = 0
        return events

    def _throw_away(self, data: bytes | bytearray) -> tuple[bytes, bytes]:
        """The ends of a line, with `data` that goes on with it."""
        first, last = self._oversized or (b"", b"")
        return (first + data[:END])[:END], (last + data[-END:])[-END:]

    def request(self, method: str, params: JsonValue, id: Id | None = None) -> tuple[Id, bytes]:
        """Return the id and bytes of a new request. One `Response` follows unless `forget` is
        called.

        Args:
            id: Used if no request with it is open, else one of ours is.
        """
        if id is None or id in self._asked:
            while id is None or id in self._asked:
                self._serial += 1
                id = f"{self._prefix}{self._serial}"
        given: dict[str, JsonValue] = {} if params is None else {"params": params}
        line = self._encode({"id": id, "method": method, **given})
        self._asked.add(id)
        return id, line

    def notify(self, method: str, params: JsonValue = None) -> bytes:
        """The bytes of a notification of ours; without `params` where they are None."""
        return self._encode(
            {"method": method} if params is None else {"method": method, "params": params}
        )

    def respond(self, id: Id, result: JsonValue) -> bytes:
        """Return the bytes of a result; empty while the rest of its batch is open.

        Raises LocalProtocolError if the request was answered already or never received.
        """
        return self._encode_answer(id, self._encode({"id": id, "result": result}))

    def respond_error(self, id: Id, code: int, message: str, data: JsonValue = None) -> bytes:
        """The error of a request of theirs; as `respond` otherwise."""
        error: JsonObject = {"code": code, "message": message}
        return self.forward_error(id, error if data is None else {**error, "data": data})

    def forward_error(self, id: Id, error: JsonObject) -> bytes:
        """Somebody else's error object as that of a request of theirs; as `respond` otherwise."""
        return self._encode_answer(id, self._encode({"id": id, "error": error}))

    def discard_request(self, id: Id) -> bytes:
        """Drop a request that the peer cancelled; return the rest of its batch if complete."""
        return self._encode_answer(id, b"")

    def forget(self, id: Id) -> None:
        """Stop waiting for the response to `id`; a later one is an `UnmatchedResponse`."""
        self._asked.discard(id)

    def is_open(self, id: JsonValue) -> bool:
        """Whether a request of theirs with this id waits for our answer."""
        return is_id(id) and id in self._asking

    def _encode_answer(self, id: Id, line: bytes) -> bytes:
        if id not in self._asking:
            raise LocalProtocolError(f"request {id!r} does not wait for an answer")
        self._asking.discard(id)
        batch = self._batches.pop(id, None)
        return line if batch is None else batch.add_answer(line)

    def _parse_line(self, line: bytes) -> list[IncomingMessage]:
        try:
            message = parse(line)
        except ValueError as problem:
            reason = f"Parse error: {_first_line(problem)}"
            found = self._read_ends(line[:END], line[-END:])
            return [self._fail(found, reason) or self._reject(PARSE_ERROR, reason, found)]
        limit = self._max_depth
        deep = limit is not None and line.count(b"{") + line.count(b"[") > limit
        if not isinstance(message, list):
            event = self._read_message(message, deep)
            if isinstance(event, InvalidMessage):
                event = replace(event, line=line[:END])
            return [event]
        if self.batches and 0 < len(message) <= MAX_BATCH:
            return self._read_batch(message, deep)
        reason = "Batches are not supported: send one message a line"
        if self.batches:
            reason = f"A batch has 1 to {MAX_BATCH} messages"
        return [replace(self._reject(INVALID_REQUEST, reason), line=line[:END])]

    def _read_batch(self, messages: list[JsonValue], deep: bool) -> list[IncomingMessage]:
        """The events of a batch. What answers it goes out together, with the last of them."""
        batch = _Batch()
        events: list[IncomingMessage] = []
        for message in messages:
            event = self._read_message(message, deep)
            if isinstance(event, Request):
                self._batches[event.id] = batch
                batch.open += 1
            elif isinstance(event, InvalidMessage):
                batch.lines.append(event.reply)
                event = replace(event, reply=b"")
            events.append(event)
        if batch.lines and not batch.open:  # nothing else will bring them
            invalid = next(each for each in events if isinstance(each, InvalidMessage))
            events[events.index(invalid)] = replace(invalid, reply=batch.join())
        return events

    def _read_message(self, message: JsonValue, deep: bool) -> IncomingMessage:
        if not isinstance(message, dict):
            return self._reject(INVALID_REQUEST, "A message must be a JSON object")
        if self.inward is not None:
            message = self.inward(message)
        if deep and self._max_depth is not None and is_deeper(message, self._max_depth):
            return self._too_deep(message)
        if self._revealed is not None:
            message = dict(as_object(self._revealed.inward(message)))
        return self._sort(message)

    def _too_deep(self, message: dict[str, JsonValue]) -> IncomingMessage:
        reason = f"The message is nested more than {self._max_depth} levels deep"
        return self._fail(message, reason) or self._reject(INVALID_REQUEST, reason, message)

    def _too_long(self, first: bytes, last: bytes) -> IncomingMessage:
        reason = f"The message is longer than {self._max_line} bytes"
        message = self._read_ends(first, last)
        return self._fail(message, reason) or self._reject(INVALID_REQUEST, reason, message)

    def _fail(self, message: JsonObject, reason: str) -> Response | None:
        """What cannot be read, if it is a response that somebody waits for: they hear why."""
        id = message.get("id")
        if "method" in message or not is_id(id) or id not in self._asked:
            return None
        self._asked.discard(id)
        return Response(id, None, {"code": INVALID_REQUEST, "message": reason})

    def _read_ends(self, first: bytes, last: bytes) -> dict[str, JsonValue]:
        """Return the plain members at both ends of a line that is too long."""
        begins, ends = re.match(_FIRST_MEMBERS, first), re.search(_LAST_MEMBERS, last)
        found = [ends[1] if ends else b""]
        if begins is not None:
            found = [begins[2] + b":null" if begins[2] else b"", *found, begins[1]]
        message: dict[str, JsonValue] = {}
        for members in found:
            with contextlib.suppress(ValueError):
                message |= as_object(parse_json(b"{" + members.strip(b" \t\r,") + b"}"))
        return self.inward(message) if self.inward is not None and "id" in message else message

    def _sort(self, message: dict[str, JsonValue]) -> IncomingMessage:
        if message.get("jsonrpc") != "2.0":
            return self._reject(INVALID_REQUEST, 'Not JSON-RPC: "jsonrpc" must be "2.0"', message)
        if "method" in message:
            method = message["method"]
            if not isinstance(method, str):
                return self._reject(INVALID_REQUEST, "The method must be a string", message)
            params = message.get("params")
            if params is not None and not isinstance(params, (dict, list)):
                return self._reject(
                    INVALID_REQUEST, "The params must be an object or an array", message
                )
            if "id" not in message:
                return Notification(method, params)
            id = message["id"]
            if not is_id(id):
                return self._reject(INVALID_REQUEST, "The id must be a string or a number")
            if id in self._asking:
                return self._reject(
                    INVALID_REQUEST,
                    f"The id {id!r} is in use by a request that is not answered yet",
                )
            self._asking.add(id)
            return Request(id, method, params)
        if "result" not in message and "error" not in message:
            reason = "A message needs a method, a result or an error"
            return self._fail(message, reason) or self._reject(INVALID_REQUEST, reason, message)
        id = message.get("id")
        if not is_id(id) or id not in self._asked:
            return UnmatchedResponse(id)
        self._asked.discard(id)
        error = message.get("error")
        if error is None and "result" in message:  # some write "error": null beside a result
            return Response(id, message["result"], None)
        return Response(
            id,
            None,
            error if isinstance(error, dict) else {"code": INTERNAL_ERROR, "message": str(error)},
        )

    def _reject(self, code: int, reason: str, message: JsonObject | None = None) -> InvalidMessage:
        """Make an error; it carries the id only if that is a new request's own."""
        id = (
            message.get("id")
            if message is not None and "result" not in message and "error" not in message
            else None
        )
        if not is_id(id) or id in self._asking:
            id = None
        reply = self._encode({"id": id, "error": {"code": code, "message": reason}})
        return InvalidMessage(reason, reply, id=id)

    def _encode(self, message: dict[str, JsonValue]) -> bytes:
        exact = self.exact_results and "method" not in message
        message = {"jsonrpc": "2.0", **message}
        message = message if self.outward is None else self.outward(message)
        line = dump(message)
        if exact or self._revealed is None or (b"\\u" not in line and line.isascii()):
            return line
        named = {"id": message["id"]} if "id" in message else {}
        return dump({**as_object(self._revealed.outward(message)), **named})


_NAME = rb'\s*"[^"\\]{0,100}"\s*'
_MEMBER = _NAME + rb':\s*(?:"[^"\\]{0,200}"|-?\d[\d.eE+-]{0,30}|true|false|null)\s*'
# Compiled when a line cannot be read: a bridge that starts has no time for it.
_FIRST_MEMBERS = rb"\s*\{((?:" + _MEMBER + rb",)*)(?:(" + _NAME + rb"):)?"
_LAST_MEMBERS = rb"((?:," + _MEMBER + rb")*)\}\s*$"

# Messages are trees: made of what was parsed, or built here.
_AS_ASCII = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_AS_TEXT = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
)


# What some readers end a line at, though JSON does not: Node's readline, `str.splitlines`.
_BREAKS = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}


class _Codec:
    """`json` until `load_fast_codec`: a bridge that starts has no time to load msgspec."""

    decode: Callable[[bytes], JsonValue] | None = None
    encode: Callable[[JsonValue], bytes] | None = None
    problems: tuple[type[Exception], ...] = ()


def load_fast_codec() -> None:
    """Read and write messages with msgspec from now on: large ones take a fifth of the time."""
    import msgspec

    _Codec.problems = (msgspec.MsgspecError, RecursionError, UnicodeError)
    _Codec.decode, _Codec.encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def parse(line: bytes) -> JsonValue:
    """Parse one line of UTF-8. Raises ValueError. Of duplicate members the last counts."""
    if _Codec.decode is not None and line.count(b",") < MAX_VALUES:
        with contextlib.suppress(*_Codec.problems):  # `json` says what is wrong, or reads it
            return _Codec.decode(line)
    return parse_json(line)


def dump(message: JsonValue) -> bytes:
    """Encode one message as a line of UTF-8; lone surrogates and line breaks are escaped.

    Raises ValueError for a value that is nested too deeply.
    """
    line = _encode_fast(message) if _Codec.encode is not None else None
    if line is None:
        try:
            line = _AS_TEXT.encode(message).encode()
        except UnicodeEncodeError:
            line = _AS_ASCII.encode(message).encode()
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    if not line.isascii():
        for found, escaped in _BREAKS.items():
            line = line.replace(found, escaped)
    return line + b"\n"


def _encode_fast(message: JsonValue) -> bytes | None:
    assert _Codec.encode is not None
    try:
        return _Codec.encode(message)
    except _Codec.problems:
        return None


def is_id(value: JsonValue) -> TypeGuard[Id]:
    """Whether `value` can be the id of a request."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0][:200]
