"""A pipe inside this process, for a connection without a process or socket behind it."""

from __future__ import annotations

import anyio

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter

ROOM = 2**20  # bytes that wait to be read; then who writes waits


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
