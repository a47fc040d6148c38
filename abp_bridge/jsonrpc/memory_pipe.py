"""A pipe inside this process, for a connection without a process behind it; and WebSocket messages
as the lines that `JsonRpcConnection` reads and writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.loop import earliest_arrival

ROOM = 2**20  # bytes that wait to be read; then the writer waits


class MemoryPipe(ByteReader, ByteWriter):
    """Both ends of one direction. Closing either closes it: what was written can still be read."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._data = bytearray()
        self._closed = False
        self._changed = anyio.Event()

    async def receive(self) -> bytes:
        """What was written since; empty at the end (`ByteReader.receive`)."""
        while not self._data and not self._closed:
            await self._changed.wait()
        data = bytes(self._data)
        self._data.clear()
        self._change()
        return data

    async def wait_closed(self) -> None:
        """Returns when nothing more can be written (`ByteReader.wait_closed`)."""
        while not self._closed:
            await self._changed.wait()

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what fits and return the number of bytes. Raises BrokenPipeError if closed."""
        if self._closed:
            raise BrokenPipeError
        part = data[: max(0, self._room - len(self._data))]
        self._data += part
        self._change()
        return len(part)

    async def writable(self) -> None:
        """Returns when there is room again, or it is closed (`ByteWriter.writable`)."""
        while len(self._data) >= self._room and not self._closed:
            await self._changed.wait()

    def close(self) -> None:
        """Nothing more is written (`ByteWriter.close`)."""
        self._closed = True
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def write_all(writer: ByteWriter, data: bytes | memoryview) -> None:
    """Write all of `data`. Raises OSError if the reader is gone."""
    left = memoryview(data)
    while left := left[writer.write_nowait(left) :]:
        await writer.writable()


class FrameReader(ByteReader):
    """Read the messages of `receive` (None at the end), each as one line.

    Args:
        arrival: When the last message may have come at the earliest (loop clock, seconds).
    """

    def __init__(
        self,
        receive: Callable[[], Awaitable[bytes | None]],
        arrival: Callable[[], float] = earliest_arrival,
    ) -> None:
        self._next = receive
        self._arrival = arrival
        self._open = anyio.CancelScope()

    async def receive(self) -> bytes:
        """The next message, as a line (`ByteReader.receive`)."""
        message: bytes | None = None
        with self._open:
            message = await self._next()
        self._open = anyio.CancelScope() if message is not None else self._open
        # A line's end inside of JSON is only between its values, where another blank will do.
        return b"" if message is None else message.replace(b"\n", b"\r") + b"\n"

    def arrived(self) -> float:
        """When it came, as whoever has the socket knows it (`ByteReader.arrived`)."""
        return self._arrival()

    def close(self) -> None:
        """Nothing more is received (`ByteReader.close`)."""
        self._open.cancel()


async def send_lines(lines: MemoryPipe, send: Callable[[str], Awaitable[None]]) -> None:
    """Send each of `lines` as a message, until they end."""
    begun: list[bytes] = []
    while data := await lines.receive():
        first, *more = data.split(b"\n")
        begun.append(first)
        for line in more:
            await send(b"".join(begun).decode())
            begun = [line]
