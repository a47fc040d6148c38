"""File descriptors as byte streams: stdio and the pipes of a child. POSIX only.

Pipes, sockets and terminals never block the loop. Other files cannot be polled and never wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
from collections.abc import Callable

import anyio
import anyio.lowlevel

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.loop import earliest_arrival

# Bytes: what a Linux pipe holds; a larger buffer would be mapped and unmapped for each read.
CHUNK = 64 * 1024
FULL = CHUNK // 2  # bytes in a full pipe, at the least: its pages need not be full
GLANCE = 1.0  # seconds between two looks at whether somebody is still there


class StreamReader(ByteReader):
    """The reading end of a stream; owns `fd`.

    The loop keeps watching `fd` between reads, so that a conversation costs one registration.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._polled = can_poll(fd)
        self._loop: asyncio.AbstractEventLoop | None = None  # that watches `fd` now
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None  # gets what is read, if anybody does
        self._data: bytes | None = None  # read, and not received yet
        self._began = 0.0  # when the wait of now did (seconds of the loop's clock)
        self._stopped: float | None = None  # when nobody waited any more; None while somebody does
        self._unread = 0.0  # seconds in which nobody did
        self._arrived = 0.0  # by `peer_time`

    async def receive(self) -> bytes:
        """The next bytes; empty at the end. One caller at a time; a cancelled one loses nothing."""
        while self._data is None and self._fd >= 0:
            if self._polled:
                await self._wait()
            else:
                await anyio.lowlevel.checkpoint()
                self._read()
        data, self._data = self._data, None
        return data or b""

    async def deliver(self, take: Callable[[bytes], bool]) -> bool:
        """The same in the very turn of the loop in which bytes come (`ByteReader.deliver`)."""
        if self._data is not None or not self._polled or self._fd < 0:
            return await super().deliver(take)
        self._take = take
        try:
            await self._wait()
        finally:
            self._take = None
        return self._data is None and self._fd >= 0

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise anyio.BusyResourceError("reading from")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._loop.add_reader(self._fd, self._on_readable)
        self._waiter = loop.create_future()
        self._began = loop.time()
        self._unread += self._began - (self._began if self._stopped is None else self._stopped)
        self._stopped = None
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._stop(loop)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._stopped is None:
            self._stopped = loop.time()

    def peer_time(self) -> float:
        """Return the loop's clock without the time in which nothing waited for bytes."""
        now = super().peer_time() if self._stopped is None else self._stopped
        return now - self._unread

    def arrived(self) -> float:
        """When the bytes may have come that were read last (`ByteReader.arrived`)."""
        return self._arrived if self._polled else super().arrived()

    def _on_readable(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._unwatch()  # else it would be told again and again
            return
        self._arrived = max(earliest_arrival(), self._began) - self._unread
        self._read()
        if self._data and len(self._data) >= FULL:  # whoever writes may have waited for us
            self._unread = waiter.get_loop().time() - self._arrived
        try:
            goes_on = self._data is None or self._hand_over()
        except Exception as problem:
            if waiter.done():
                raise
            waiter.set_exception(problem)
        else:
            if not goes_on and not waiter.done():
                self._stop(waiter.get_loop())
                waiter.set_result(None)

    def _hand_over(self) -> bool:
        if not self._data or self._take is None:
            return False
        data, self._data = self._data, None
        return self._take(data)

    def _read(self) -> None:
        try:
            self._data = os.read(self._fd, CHUNK)
        except BlockingIOError:  # somebody else has read it
            return
        except OSError:  # a connection that broke, a terminal that hung up
            self._data = b""

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None

    async def wait_closed(self) -> None:
        """Returns when nobody writes any more, whatever is still to be received."""
        watched = select.poll()
        watched.register(
            self._fd, getattr(select, "POLLRDHUP", 0)
        )  # a pipe's hang-up is told unasked, a socket's is not everywhere
        # Nothing else tells: waiting for it to be readable hears of what was written too.
        while not watched.poll(0):  # noqa: ASYNC110
            await anyio.sleep(GLANCE)

    def close(self) -> None:
        """Give the descriptor back. Whoever waits receives the end. Idempotent."""
        self._unwatch()
        self._fd = _close_fd(self._fd)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class StreamWriter(ByteWriter):
    """The writing end of a stream. Owns `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._polled = can_poll(fd)
        self._blocking = os.get_blocking(fd)
        self._waiter: asyncio.Future[None] | None = None
        if self._polled:
            os.set_blocking(fd, False)

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what fits now and return the number of bytes. Raises BrokenPipeError,
        ConnectionError.
        """
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    async def writable(self) -> None:
        """Wait until the descriptor takes bytes again or is closed."""
        if not self._polled or self._fd < 0:
            return
        if self._waiter is not None:
            raise anyio.BusyResourceError("writing to")
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_writer(self._fd, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._fd >= 0:  # else the number may be another stream's by now
                loop.remove_writer(self._fd)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait_closed(self) -> None:
        """Returns when nobody reads any more, also while nothing is written."""
        watched = select.poll()
        watched.register(self._fd, 0)
        while not self._polled or not watched.poll(0):  # noqa: ASYNC110
            await anyio.sleep(GLANCE)

    def close(self) -> None:
        """Give the descriptor back, blocking as it was found. Whoever waits returns. Idempotent."""
        if self._waiter is not None:
            self._waiter.get_loop().remove_writer(self._fd)
            self._wake()
        if self._polled and self._fd >= 0:
            with contextlib.suppress(OSError):
                os.set_blocking(
                    self._fd, self._blocking
                )  # the setting belongs to the open file, which others may share
        self._fd = _close_fd(self._fd)


def take_over_stdio() -> tuple[StreamReader, StreamWriter]:
    """Take stdin and stdout for the protocol; descriptor 0 becomes /dev/null and 1 stderr."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return StreamReader(source), StreamWriter(sink)


def listen(path: str) -> socket.socket:
    """A Unix socket at `path` for `accept`. Raises OSError when it cannot be made there."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.setblocking(False)
        listening.bind(path)
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening


async def accept(listening: socket.socket) -> tuple[StreamReader, StreamWriter]:
    """Accept the next connection. Raises OSError."""
    await anyio.wait_readable(listening)
    connection, _ = listening.accept()
    with connection:
        source = StreamReader(os.dup(connection.fileno()))
        return source, StreamWriter(connection.detach())


def can_poll(fd: int) -> bool:
    """Whether the event loop can wait for this descriptor: a pipe, a socket or a terminal."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _close_fd(fd: int) -> int:
    """Close once: a number that was closed may already be somebody else's."""
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)
    return -1
