"""File descriptors as byte streams: this process's own stdio, and the pipes of a child.

POSIX only. Nothing here blocks the event loop: pipes, sockets and terminals are read and written without blocking; what cannot be polled (a
regular file, /dev/null) never makes anybody wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat

import anyio
import anyio.lowlevel

CHUNK = 64 * 1024  # what a Linux pipe holds; a larger buffer would be mapped and unmapped for each read
PIPE_BUF = 4096
GLANCE = 1.0  # seconds between two looks at whether somebody is still there


class Source:
    """The reading end of a stream. Owns `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._polled = _can_poll(fd)

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        while True:
            if self._polled:
                await anyio.wait_readable(self._fd)
            else:
                await anyio.lowlevel.checkpoint()
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # a connection that broke, a terminal that hung up
                return b""

    async def hung_up(self) -> None:
        """Returns when nobody writes any more, whatever is still to be received."""
        watched = select.poll()
        watched.register(self._fd, getattr(select, "POLLRDHUP", 0))  # a pipe's hang-up is told unasked, a socket's is not everywhere
        while not watched.poll(0):  # noqa: ASYNC110
            await anyio.sleep(GLANCE)  # nothing else tells: whoever waits for it to be readable hears of what was written too

    def close(self) -> None:
        self._fd = _close(self._fd)


class Sink:
    """The writing end of a stream. Owns `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._polled = _can_poll(fd)
        self._blocking = os.get_blocking(fd)
        if self._polled:
            os.set_blocking(fd, False)

    def offer(self, data: bytes | memoryview) -> int:
        """Write what can be written at once; how much that was. Raises BrokenPipeError or ConnectionError when nobody reads any more."""
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    async def writable(self) -> None:
        if self._polled:
            await anyio.wait_writable(self._fd)

    async def hung_up(self) -> None:
        """Returns when nobody reads any more, also while nothing is written."""
        watched = select.poll()
        watched.register(self._fd, 0)
        while not self._polled or not watched.poll(0):  # noqa: ASYNC110
            await anyio.sleep(GLANCE)

    def close(self) -> None:
        if self._polled and self._fd >= 0:
            with contextlib.suppress(OSError):
                os.set_blocking(self._fd, self._blocking)  # the setting belongs to the open file, which others may share
        self._fd = _close(self._fd)


def hint(who: str) -> None:
    """A person who typed the command sees what it waits for; a program that launched it sees nothing."""
    if os.isatty(0):
        whisper(f"waiting for {who} on stdin. It is launched by programs; to see it work here: abp-bridge demo. Ctrl-C ends it")


def claim() -> tuple[Source, Sink]:
    """Take this process's stdin and stdout for a protocol.

    Afterwards nothing else can write to the wire by accident: descriptor 0 is /dev/null, and 1 is stderr.
    """
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return Source(source), Sink(sink)


def whisper(line: str) -> None:
    """A line to stderr if it can be taken at once; a host that does not read its server's stderr must not stop us."""
    with contextlib.suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"abp-bridge: {line}\n".encode(errors="backslashreplace")[:PIPE_BUF])


class Stderr:
    """This process's stderr for somebody else's words: they pass as fast as it is read, and never hold up who says them.

    What waits is bounded by `limit` bytes; what is more is counted and said.
    """

    def __init__(self, limit: int = 2**20) -> None:
        self._limit = limit
        self._waiting = bytearray()
        self._lost = 0
        self._more = anyio.Event()
        self._polled = _can_poll(2)

    def say(self, data: bytes) -> None:
        if len(self._waiting) + len(data) > self._limit:
            self._lost += len(data)
            return
        self._waiting += data
        self.flush()
        self._more.set()

    def flush(self) -> None:
        """Write what can be written at once."""
        try:
            while self._waiting and (not self._polled or select.select([], [2], [], 0)[1]):
                # The descriptor may be others' too, so it stays blocking; a pipe that is writable has room for this much.
                del self._waiting[: os.write(2, self._waiting[:PIPE_BUF])]
        except OSError:
            self._waiting.clear()  # nobody will ever read it
        if self._lost and not self._waiting:
            self._waiting += f"abp-bridge: {self._lost} bytes of the agent's stderr were not read in time\n".encode()
            self._lost = 0

    async def run(self) -> None:
        """Write on as it is read, until cancelled."""
        while True:
            while self._waiting and self._polled:
                await anyio.wait_writable(2)
                self.flush()
            self._more = anyio.Event()
            await self._more.wait()


def _can_poll(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _close(fd: int) -> int:
    """Close once: a number that was closed may already be somebody else's."""
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)
    return -1
