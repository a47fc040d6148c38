"""Whole messages, as on a WebSocket, as the lines that `JsonRpcConnection` reads and writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from abp_bridge.jsonrpc.arrival import earliest_arrival
from abp_bridge.jsonrpc.connection import ByteReader
from abp_bridge.jsonrpc.pipe import MemoryPipe

ROOM = 2**20  # bytes that wait for a socket that takes nothing; then who writes waits


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
