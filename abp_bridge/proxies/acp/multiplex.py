"""A conversation of our own inside somebody else's stream: the same bytes carry theirs, passed on
as they are, and ours.

`SharedWriter` is the stream's writing end, shared: whole lines never mix, and whoever writes waits
for its reader. `InjectedConnection` is our connection in it: a `JsonRpcConnection` that reads only
the lines that were set aside for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio

from abp_bridge.rpc.connection import ByteWriter, JsonRpcConnection
from abp_bridge.rpc.protocol import Id, JsonRpcProtocol, Notification, Request, dump

Json = Any

MAX_HELD = 2**20  # bytes of messages that wait to be read


class SharedWriter:
    """Where two write.

    One passes lines on (`forward`); the other is a `JsonRpcConnection`, for which this is a
    `ByteWriter`.

    Each begins only where the other has ended a line. Only one of them ever waits for the
    descriptor.
    """

    def __init__(self, sink: ByteWriter) -> None:
        self._sink = sink
        self._passing = False  # a forwarded line has begun and not ended
        self._passed = anyio.Event()
        self._unsaid = memoryview(b"")  # what is left of a line of ours that has begun
        self._waiting = False  # ours waits for the descriptor
        self._left = False  # ours says no more
        self._spoken = anyio.Event()
        self._ended = False
        self.passed = 0  # bytes that were forwarded

    async def forward(self, data: bytes) -> None:
        """Write lines of theirs, or the next part of one.

        Returns when all is written; raises OSError when nobody reads any more.
        """
        while not self._passing and not self._left and (self._unsaid or self._waiting):
            self._spoken = anyio.Event()
            await self._spoken.wait()
        self._passing = True
        unsaid, self._unsaid = (
            self._unsaid,
            memoryview(b""),
        )  # the other gave up in the middle of a line: it ends here
        for part in (unsaid, memoryview(data)):
            await self._write(part)
        self._passing = not data.endswith(b"\n")
        self._passed.set()

    async def _write(self, left: memoryview) -> None:
        while left:
            written = self._sink.write_nowait(left)
            self.passed += written
            if left := left[written:]:
                await self._sink.writable()

    def write_nowait(self, data: bytes | memoryview) -> int:
        """See `ByteWriter`. `data` is one line, or what is left of one."""
        if self._ended:
            raise BrokenPipeError
        if self._passing:
            return 0
        written = self._sink.write_nowait(data)
        if written:
            self._unsaid = memoryview(data)[written:]
            self._spoken.set()
        return written

    async def writable(self) -> None:
        while self._passing and not self._ended:
            self._passed = anyio.Event()
            await self._passed.wait()
        if self._ended:
            raise BrokenPipeError
        self._waiting = True
        try:
            await self._sink.writable()
        finally:
            self._waiting = False
            self._spoken.set()

    def close(self) -> None:
        """Our part is over; the stream is not ours to close."""
        self._left = True
        self._spoken.set()

    def end(self) -> None:
        """Nothing more is written by anybody."""
        self._ended = True
        self._passed.set()
        self._sink.close()


class InjectedConnection:
    """Our connection inside a stream. `take` gives it a message; `link` speaks."""

    def __init__(
        self,
        peer: JsonRpcProtocol,
        outlet: SharedWriter,
        *,
        on_message: Callable[[Request | Notification], None],
        withdraw: Callable[[Id, str], tuple[str, object]] | None = None,
    ) -> None:
        self._lines: deque[bytes] = deque()
        self._held = 0  # bytes of them
        self._more = anyio.Event()
        self._fewer = anyio.Event()
        self._over = False
        self.link = JsonRpcConnection(
            peer, self, outlet, on_message=on_message, cancel_request=withdraw
        )

    async def take(self, message: dict[str, Json]) -> None:
        """A message of the stream that is for us, without its version.

        Returns when it is read, or few enough wait.
        """
        if self._over:
            return
        line = dump({"jsonrpc": "2.0", **message})
        self._lines.append(line)
        self._held += len(line)
        self._more.set()
        while self._held > MAX_HELD and not self._over:
            self._fewer = anyio.Event()
            await self._fewer.wait()

    async def receive(self) -> bytes:
        """See `ByteReader`."""
        while not self._lines and not self._over:
            self._more = anyio.Event()
            await self._more.wait()
        if not self._lines:
            return b""
        line = self._lines.popleft()
        self._held -= len(line)
        self._fewer.set()
        return line

    def close(self) -> None:
        """The stream has ended, or our conversation has: nothing more comes."""
        self._over = True
        self._more.set()
        self._fewer.set()
