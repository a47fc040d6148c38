"""What the parties of a replay and the bridge say to each other: connections that carry bytes, a
stand-in for a model's API, and one queue of all that the bridge says, in the order it comes in.
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
MAX_LINES = 50_000  # of the same
MAX_LEVELS = MAX_MESSAGE_LEVELS + 50  # a bridge may wrap what a fixture's line has


class PartyConnection:
    """What an app, an agent, a host or a server that was launched says to the bridge."""

    def __init__(self, sink: StreamWriter, source: StreamReader | None = None) -> None:
        """With a `source` both are ours, and close together."""
        self._sink = sink
        self._source = source

    async def receive(self) -> bytes:
        """What the bridge says next, where it says it here; empty at the end."""
        return b"" if self._source is None else await self._source.receive()

    async def send(self, data: bytes) -> None:
        """Send all of it. Raises OSError when nobody reads it any more."""
        left = memoryview(data)
        while left:
            await self._sink.writable()
            left = left[self._sink.write_nowait(left) :]

    def close(self) -> None:
        """Nothing more is said. Idempotent."""
        self._sink.close()
        if self._source is not None:
            self._source.close()


# --- a model behind an API ------------------------------------------------------------------------

_NO_REQUEST = "what the bridge says to its model's address is no request over HTTP"


def listen_as_model() -> socket.socket:
    """A free port of this machine, for `accept`. Raises OSError."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening


class ApiConnection(PartyConnection):
    """One request and its answer."""

    def __init__(self, sink: StreamWriter, source: StreamReader) -> None:
        super().__init__(sink, source)
        self._is_asked = self._has_begun = False

    async def receive(self) -> bytes:
        """The request, as a line; then nothing, when the bridge leaves.

        Raises:
            ReplayMismatchError: It is none.
        """
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
        """Send lines of the fixture: the first is the answer's head, each other one an event."""
        for line in filter(None, data.split(b"\n")):
            await super().send(_encode_event(line) if self._has_begun else _encode_head(line))
            self._has_begun = True


def _read_head(head: bytes) -> tuple[str, int]:
    """The request line without its version, and how long the body is."""
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
    """`{"status": 200}` begins a stream of events; with a `body` it is the whole answer."""
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

    The kind is that of a fixture's line, or one of these: `ended`, the bridge has; `screen`,
    something new stands on the terminal.
    """

    def __init__(
        self, replace_paths: ReplacePaths, observers: Mapping[str, Callable[[JsonValue], None]]
    ) -> None:
        """`observers` see each message to a party as it comes."""
        self._replace_paths = replace_paths
        self._observers = observers
        self._bytes = self._lines = 0
        self._queue: asyncio.Queue[tuple[str, str, JsonValue]] = asyncio.Queue()
        self._has_new_screen = False

    async def next(self) -> tuple[str, str, JsonValue]:
        """The next thing that was said, whenever it comes."""
        party, kind, value = await self._queue.get()
        if kind == "screen":
            self._has_new_screen = False
        return party, kind, value

    def put(self, party: str, kind: str, value: JsonValue = None) -> None:
        """Something was said to a party, or happened."""
        self._queue.put_nowait((party, kind, value))

    async def read(self, party: str, lines: AsyncIterator[bytes]) -> None:
        """Take in all that is said to `party`, to the end of it.

        Raises:
            ReplayMismatchError: a line is nothing that can be taken in, or there is too much.
        """
        async for line in lines:
            if line.strip():
                self._put_line(party, line)
        self.put(party, "closed", True)

    async def lines(self, receive: Receive) -> AsyncIterator[bytes]:
        """The lines of a stream that ends with nothing.

        Raises:
            ReplayMismatchError: it says too much.
        """
        rest = bytearray()
        while data := await receive():
            self._count(len(data), data.count(b"\n"))
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
        """What a program of the person's is sent, in so many bytes. Raises ReplayMismatchError."""
        self._count(size, 1)
        self._put_message(PERSON, message)

    async def watch(self, sizes: AsyncIterator[int]) -> None:
        """Take in that a terminal shows so many bytes more each time.

        Raises:
            ReplayMismatchError: there is too much.
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

    def _count(self, size: int, lines: int = 0) -> None:
        self._bytes += size
        self._lines += lines
        if self._bytes > MAX_BYTES or self._lines > MAX_LINES:
            most = f"{MAX_BYTES // 2**20} MiB" if self._bytes > MAX_BYTES else f"{MAX_LINES} lines"
            raise ReplayMismatchError(f"the bridge says too much: more than {most} in one fixture")
