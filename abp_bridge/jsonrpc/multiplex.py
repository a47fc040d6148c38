"""A conversation of our own inside somebody else's stream: the same bytes carry theirs, passed on
as they are, and ours.

`SharedWriter` is the stream's writing end, shared: whole lines never mix, and whoever writes waits
for its reader. `InjectedConnection` is our connection in it: a `JsonRpcConnection` that reads only
the lines that were set aside for it.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, is_deeper
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, JsonRpcConnection
from abp_bridge.jsonrpc.memory_pipe import ROOM
from abp_bridge.jsonrpc.protocol import (
    INVALID_REQUEST,
    MAX_DEPTH,
    Id,
    JsonRpcProtocol,
    Notification,
    Request,
    dump,
)

NO_ANSWER: JsonObject = {
    "code": INVALID_REQUEST,
    "message": "a response that says nothing, or cannot be read",
}


class SharedWriter:
    """Where two write.

    One passes lines on (`forward`); the other is a `JsonRpcConnection`, for which this is a
    `ByteWriter`.

    Each begins only where the other has ended a line. Only one of them ever waits for the
    descriptor.
    """

    def __init__(self, sink: ByteWriter) -> None:
        self._sink = sink
        self._in_line = False  # a forwarded line has begun and not ended
        self._line_ended = anyio.Event()
        self._unsent = memoryview(b"")  # what is left of a line of ours that has begun
        self._waiting = False  # a line of ours waits until the stream takes more bytes
        self._given_up = False  # ours says no more
        self._progress = anyio.Event()
        self._closed = False
        self.forwarded = 0  # bytes that were forwarded

    async def forward(self, data: bytes) -> None:
        """Write lines of theirs, or the next part of one. Returns when all is written.

        Raises:
            OSError: Nobody reads any more.
        """
        while not self._in_line and not self._given_up and (self._unsent or self._waiting):
            self._progress = anyio.Event()
            await self._progress.wait()
        self._in_line = True
        unsent, self._unsent = (
            self._unsent,
            memoryview(b""),
        )  # the other gave up in the middle of a line: it ends here
        for part in (unsent, memoryview(data)):
            await self._write_rest(part)
        self._in_line = not data.endswith(b"\n")
        self._line_ended.set()

    async def forward_apart(self, lines: bytes) -> None:
        """`forward` lines where who spoke before may have left one unfinished."""
        await self.forward(b"\n" * self._in_line + lines)

    async def _write_rest(self, left: memoryview) -> None:
        while left:
            written = self._sink.write_nowait(left)
            self.forwarded += written
            if left := left[written:]:
                await self._sink.writable()

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what can be written of `data`, one line of ours or what is left of one, unless a
        line of theirs is being written (`ByteWriter.write_nowait`).

        Raises:
            BrokenPipeError: The stream is closed.
        """
        if self._closed:
            raise BrokenPipeError
        if self._in_line:
            return 0
        written = self._sink.write_nowait(data)
        if written:
            self._unsent = memoryview(data)[written:]
            self._progress.set()
        return written

    async def writable(self) -> None:
        """Returns when a line of ours can begin or go on (`ByteWriter.writable`)."""
        while self._in_line and not self._closed:
            self._line_ended = anyio.Event()
            await self._line_ended.wait()
        if self._closed:
            raise BrokenPipeError
        self._waiting = True
        try:
            await self._sink.writable()
        finally:
            self._waiting = False
            self._progress.set()

    def write_last(self, line: bytes) -> None:
        """Write a last line of ours, at once and as far as it is taken; whoever is in the middle of
        one ends there.
        """
        begun = bytes(self._unsent) + (b"\n" if self._in_line else b"")
        self._unsent, self._in_line = memoryview(b""), False
        with contextlib.suppress(OSError):
            self._sink.write_nowait(begun + line)

    def close(self) -> None:
        """Our part is over; the stream is not ours to close."""
        self._given_up = True
        self._progress.set()

    def close_stream(self) -> None:
        """Nothing more is written by anybody."""
        self._closed = True
        self._line_ended.set()
        self._sink.close()


class InjectedConnection(ByteReader):
    """Our connection inside a stream. `feed` gives it a message; `connection` speaks.

    `source` reads the stream, and says when what is fed came; without one, it came just now. With a
    `prefix` of the ids of our requests it knows which lines are responses to us (`take_response`).
    """

    def __init__(
        self,
        protocol: JsonRpcProtocol,
        writer: SharedWriter,
        *,
        on_message: Callable[[Request | Notification], None],
        cancel_request: Callable[[Id, str], tuple[str, JsonValue]] | None = None,
        source: ByteReader | None = None,
        prefix: str = "",
    ) -> None:
        self._prefix = prefix
        self.mark = prefix.encode()  # lines without it are no responses to us
        self._response = re.compile(rb'"id"\s*:\s*"(%b\d+)"' % re.escape(self.mark))
        self._source = source
        self._lines: deque[tuple[bytes, float]] = deque()  # with when they arrived
        self._arrived = 0.0  # what was received last, by `peer_time`
        self._unread = 0  # bytes of them
        self._fed = anyio.Event()
        self._read = anyio.Event()
        self._closed = False
        self.connection = JsonRpcConnection(
            protocol,
            self,
            writer,
            on_message=on_message,
            cancel_request=cancel_request,
            shared=True,
        )

    async def take_response(self, line: bytes, message: JsonValue) -> bool:
        """Feed a line of the stream, which reads as `message`, if it responds to us: whether it
        does.
        """
        if message is None and (broken := self._response.search(line)) is not None:
            message = {"id": broken[1].decode()}
        response = as_object(message)
        id = response.get("id")
        if "method" in response or not isinstance(id, str) or not self.is_ours(id):
            return False
        await self.feed({"id": id, **_read_response(response)})
        return True

    def is_ours(self, id: JsonValue) -> bool:
        """Whether an id is one of our requests'."""
        return isinstance(id, str) and bool(self._prefix) and id.startswith(self._prefix)

    async def feed(self, message: dict[str, JsonValue]) -> None:
        """A message of the stream that is for us, without its version.

        Returns when it is read, or few enough wait.
        """
        if self._closed:
            return
        line = dump({"jsonrpc": "2.0", **message})
        arrived = self._source.arrived() if self._source else super().arrived()
        self._lines.append((line, arrived))
        self._unread += len(line)
        self._fed.set()
        while self._unread > ROOM and not self._closed:
            self._read = anyio.Event()
            await self._read.wait()

    async def receive(self) -> bytes:
        """The next line that was fed; empty at the end (`ByteReader.receive`)."""
        while not self._lines and not self._closed:
            self._fed = anyio.Event()
            await self._fed.wait()
        if not self._lines:
            return b""
        line, self._arrived = self._lines.popleft()
        self._unread -= len(line)
        self._read.set()
        return line

    def peer_time(self) -> float:
        """The time of who writes the stream (`ByteReader.peer_time`)."""
        return self._source.peer_time() if self._source else super().peer_time()

    def arrived(self) -> float:
        """When the line that was received last came in the stream (`ByteReader.arrived`)."""
        return self._arrived

    def close(self) -> None:
        """The stream has ended, or our conversation has: nothing more comes."""
        self._closed = True
        self._fed.set()
        self._read.set()


def _read_response(message: JsonObject) -> JsonObject:
    """What a response to us says; of one that says nothing, or is too deep, that it does not."""
    members = {word: message[word] for word in ("result", "error") if word in message}
    return members if members and not is_deeper(message, MAX_DEPTH) else {"error": NO_ANSWER}
