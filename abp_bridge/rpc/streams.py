"""File descriptors as byte streams: this process's own stdio, and the pipes of a child.

POSIX only. Nothing here blocks the event loop: pipes, sockets and terminals are read and written
without blocking; what cannot be polled (a regular file, /dev/null) never makes anybody wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat

import anyio
import anyio.lowlevel

CHUNK = (
    64 * 1024
)  # what a Linux pipe holds; a larger buffer would be mapped and unmapped for each read
GLANCE = 1.0  # seconds between two looks at whether somebody is still there


class StreamReader:
    """The reading end of a stream. Owns `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._polled = can_poll(fd)

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

    async def wait_closed(self) -> None:
        """Returns when nobody writes any more, whatever is still to be received."""
        watched = select.poll()
        watched.register(
            self._fd, getattr(select, "POLLRDHUP", 0)
        )  # a pipe's hang-up is told unasked, a socket's is not everywhere
        while not watched.poll(0):  # noqa: ASYNC110
            await anyio.sleep(
                GLANCE
                # nothing else tells: waiting for it to be readable hears of what was written too
            )

    def close(self) -> None:
        self._fd = _close(self._fd)


class StreamWriter:
    """The writing end of a stream. Owns `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._polled = can_poll(fd)
        self._blocking = os.get_blocking(fd)
        if self._polled:
            os.set_blocking(fd, False)

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what can be written at once; how much that was.

        Raises BrokenPipeError or ConnectionError when nobody reads any more.
        """
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    async def writable(self) -> None:
        if self._polled:
            await anyio.wait_writable(self._fd)

    async def wait_closed(self) -> None:
        """Returns when nobody reads any more, also while nothing is written."""
        watched = select.poll()
        watched.register(self._fd, 0)
        while not self._polled or not watched.poll(0):  # noqa: ASYNC110
            await anyio.sleep(GLANCE)

    def close(self) -> None:
        if self._polled and self._fd >= 0:
            with contextlib.suppress(OSError):
                os.set_blocking(
                    self._fd, self._blocking
                )  # the setting belongs to the open file, which others may share
        self._fd = _close(self._fd)


def take_over_stdio() -> tuple[StreamReader, StreamWriter]:
    """Take this process's stdin and stdout for a protocol.

    Afterwards nothing else can write to the wire by accident: descriptor 0 is /dev/null, and 1 is
    stderr.
    """
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return StreamReader(source), StreamWriter(sink)


def can_poll(fd: int) -> bool:
    """Whether the event loop can wait for this descriptor: a pipe, a socket or a terminal."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _close(fd: int) -> int:
    """Close once: a number that was closed may already be somebody else's."""
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)
    return -1
