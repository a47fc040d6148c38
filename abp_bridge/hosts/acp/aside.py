"""A conversation of our own inside somebody else's stream: the same bytes carry theirs, passed on as they are, and ours.

`Outlet` is the stream's writing end, shared: whole lines never mix, and whoever writes waits for its reader. `Aside` is our connection in it: a
`Link` that reads only the lines that were set aside for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

from abp_bridge.wire.jsonrpc import Id, Notification, Peer, Request
from abp_bridge.wire.link import ByteSink, Link


class Outlet:
    """Where two write. One passes lines on (`forward`); the other is a `Link`, for which this is a `ByteSink`.

    Each begins only where the other has ended a line. Only one of them ever waits for the descriptor.
    """

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._passing = False  # a forwarded line has begun and not ended
        self._passed = anyio.Event()
        self._speaking = False  # a line of ours has begun and not ended
        self._waiting = False  # ours waits for the descriptor
        self._spoken = anyio.Event()
        self._ended = False

    async def forward(self, data: bytes) -> None:
        """Write lines of theirs, or the next part of one. Returns when all is written; raises OSError when nobody reads any more."""
        while not self._passing and (self._speaking or self._waiting):
            self._spoken = anyio.Event()
            await self._spoken.wait()
        self._passing = True
        left = memoryview(data)
        while left := left[self._sink.offer(left) :]:
            await self._sink.writable()
        self._passing = not data.endswith(b"\n")
        self._passed.set()

    def offer(self, data: bytes | memoryview) -> int:
        """See `ByteSink`. `data` is one line, or what is left of one."""
        if self._ended:
            raise BrokenPipeError
        if self._passing:
            return 0
        written = self._sink.offer(data)
        if written:
            self._speaking = written < len(data)
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

    def end(self) -> None:
        """Nothing more is written by anybody."""
        self._ended = True
        self._passed.set()
        self._sink.close()


class Aside:
    """Our connection inside a stream. `take` gives it a line; `link` speaks."""

    def __init__(
        self,
        peer: Peer,
        outlet: Outlet,
        *,
        on_message: Callable[[Request | Notification], None],
        withdraw: Callable[[Id, str], tuple[str, object]] | None = None,
    ) -> None:
        self._lines: deque[bytes] = deque()
        self._more = anyio.Event()
        self._over = False
        self.link = Link(peer, self, outlet, on_message=on_message, withdraw=withdraw)

    def take(self, line: bytes) -> None:
        """A line of the stream that is for us."""
        self._lines.append(line if line.endswith(b"\n") else line + b"\n")
        self._more.set()

    async def receive(self) -> bytes:
        """See `ByteSource`."""
        while not self._lines and not self._over:
            self._more = anyio.Event()
            await self._more.wait()
        return self._lines.popleft() if self._lines else b""

    def close(self) -> None:
        """The stream has ended: nothing more comes."""
        self._over = True
        self._more.set()
