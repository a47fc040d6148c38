"""Connections between the parties of a replay and the bridge, a stand-in for a model's API, and one
queue of everything the bridge sends, in the order it arrives.
"""

from __future__ import annotations

import asyncio
import http
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from abp_bridge.conformance.format import MAX_MESSAGE_LEVELS, PERSON
from abp_bridge.conformance.match import ReplayMismatchError
from abp_bridge.core.json_value import (
    JsonValue,
    as_integer,
    as_object,
    as_text,
    is_deeper,
    map_texts,
    parse_json,
)
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter

MAX_BYTES = 32 * 2**20  # of all that a bridge says in one fixture, to whomever
MAX_LEVELS = MAX_MESSAGE_LEVELS + 50  # a bridge may wrap what a fixture's line has


class PartyConnection:
    """A connection between a party of the replay and the bridge."""

    def __init__(self, sink: StreamWriter, source: StreamReader | None = None) -> None:
        """With a `source` both ends are ours, and close together."""
        self._sink = sink
        self._source = source

    async def receive(self) -> bytes:
        return b"" if self._source is None else await self._source.receive()

    async def send(self, data: bytes) -> None:
        """Send all of `data`. Raises OSError if the reader is gone."""
        left = memoryview(data)
        while left:
            await self._sink.writable()
            left = left[self._sink.write_nowait(left) :]

    def close(self) -> None:
        self._sink.close()
        if self._source is not None:
            self._source.close()


# --- a model behind an API ------------------------------------------------------------------------

_NO_REQUEST = "what the bridge says to its model's address is no request over HTTP"


def listen_as_model() -> socket.socket:
    """Listen on a free port of this machine. Raises OSError."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening


class ApiConnection(PartyConnection):
    """One request to the model's API and its answer."""

    def __init__(self, sink: StreamWriter, source: StreamReader) -> None:
        super().__init__(sink, source)
        self._is_asked = self._has_begun = False

    async def receive(self) -> bytes:
        """Return the request as a line, then nothing. Raises ReplayMismatchError."""
        if self._is_asked:
            return await super().receive()
        self._is_asked = True
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self._more(len(data))
        head, _, body = data.partition(b"\r\n\r\n")
        request, size = _read_head(head)
        while len(body) < size:
            body += await self._more(len(body))
        return json.dumps({"http": request, "body": _read_body(body)}).encode() + b"\n"

    async def _more(self, size: int) -> bytes:
        data = await super().receive() if size <= MAX_BYTES else b""
        if not data:
            raise ReplayMismatchError(_NO_REQUEST)
        return data

    async def send(self, data: bytes) -> None:
        """Send lines of the fixture: the head of the answer, then an event each."""
        for line in filter(None, data.split(b"\n")):
            await super().send(_encode_event(line) if self._has_begun else _encode_head(line))
            self._has_begun = True


def _read_head(head: bytes) -> tuple[str, int]:
    """Return the request line without its version, and the body's length."""
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
    size = headers.get("content-length", "0").strip()
    if not first.endswith(" HTTP/1.1") or not size.isdecimal() or int(size[:9]) > MAX_BYTES:
        raise ReplayMismatchError(_NO_REQUEST)
    return first.removesuffix(" HTTP/1.1"), int(size)


def _read_body(body: bytes) -> JsonValue:
    try:
        return parse_json(body)
    except ValueError:
        return body.decode(errors="replace")


def _encode_head(line: bytes) -> bytes:
    """Encode `{"status": 200}` as the head of a stream; with a `body` as the whole answer."""
    try:
        about = as_object(parse_json(line))
    except ValueError:
        about = {}
    status = as_integer(about.get("status"))
    if status not in set(http.HTTPStatus):
        raise ReplayMismatchError(
            'the first line of a model behind an API must have its status, as {"status": 200}'
        )
    body = json.dumps(about["body"]).encode() if "body" in about else b""
    kind = "application/json" if "body" in about else "text/event-stream"
    lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}", f"content-type: {kind}"]
    if (again := as_text(about.get("retry-after"))).isalnum():
        lines.append(f"retry-after: {again}")
    if "body" in about:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


def _encode_event(line: bytes) -> bytes:
    try:
        name = as_text(as_object(parse_json(line)).get("type"))
    except ValueError:
        name = ""
    named = f"event: {name}\n" if name.replace(".", "_").isidentifier() else ""
    return f"{named}data: ".encode() + line + b"\n\n"


# --- what the bridge says -------------------------------------------------------------------------

Receive = Callable[[], Awaitable[bytes]]
ReplacePaths = Callable[[str], str]  # a text with other words for the paths of this machine


class Inbox:
    """One replay's queue of (party, kind, value).

    The kind is a fixture line's, or `ended` (the bridge exited) or `screen` (the terminal changed).
    """

    def __init__(
        self, replace_paths: ReplacePaths, observers: Mapping[str, Callable[[JsonValue], None]]
    ) -> None:
        """`observers` see each message to a party."""
        self._replace_paths = replace_paths
        self._observers = observers
        self._bytes = 0
        self._queue: asyncio.Queue[tuple[str, str, JsonValue]] = asyncio.Queue()
        self._has_new_screen = False

    async def next(self) -> tuple[str, str, JsonValue]:
        """Wait for the next item."""
        party, kind, value = await self._queue.get()
        if kind == "screen":
            self._has_new_screen = False
        return party, kind, value

    def put(self, party: str, kind: str, value: JsonValue = None) -> None:
        self._queue.put_nowait((party, kind, value))

    async def read_party(self, party: str, lines: AsyncIterator[bytes]) -> None:
        """Queue everything sent to `party` until it ends. Raises ReplayMismatchError on invalid
        lines.
        """
        async for line in lines:
            if line.strip():
                self._put_line(party, line)
        self.put(party, "closed", True)

    async def lines(self, receive: Receive) -> AsyncIterator[bytes]:
        """Yield the lines of a stream that ends with empty bytes. Raises ReplayMismatchError if too
        long.
        """
        rest = bytearray()
        while data := await receive():
            self._count(len(data))
            rest += data
            if b"\n" in data:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    yield line
        if rest:
            yield bytes(rest)

    def _put_line(self, party: str, line: bytes) -> None:
        try:
            message = parse_json(line)
        except ValueError:
            self.put(party, "raw", self._replace_paths(line.decode(errors="replace")))
        else:
            if party in self._observers:
                self._observers[party](message)
            self._put_message(party, message)

    def put_event(self, message: JsonValue, size: int) -> None:
        """Queue an event of the questions API, of so many bytes. Raises ReplayMismatchError."""
        self._count(size)
        self._put_message(PERSON, message)

    async def watch(self, sizes: AsyncIterator[int]) -> None:
        """Queue the growth of a terminal, in bytes. Raises ReplayMismatchError if there is too
        much.
        """
        async for size in sizes:
            self._count(size)
            if not self._has_new_screen:
                self._has_new_screen = True
                self.put(PERSON, "screen")

    def _put_message(self, party: str, message: JsonValue) -> None:
        if is_deeper(message, MAX_LEVELS):
            raise ReplayMismatchError(
                f"the bridge said something to the {party} that is nested more than {MAX_LEVELS}"
                " levels deep"
            )
        self.put(party, "message", map_texts(message, self._replace_paths))

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            most = f"{MAX_BYTES // 2**20} MiB"
            raise ReplayMismatchError(f"the bridge says too much: more than {most} in one fixture")
