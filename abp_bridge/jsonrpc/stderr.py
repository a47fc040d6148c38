"""This process's stderr, shared with what somebody else says there."""

from __future__ import annotations

import logging
import os
import select
from codecs import getincrementaldecoder
from io import IncrementalNewlineDecoder

import anyio
import anyio.lowlevel

from abp_bridge.core.sanitize import reveal
from abp_bridge.jsonrpc.streams import can_poll
from abp_bridge.log import PIPE_BUF, open_nonblocking

LAST_WORDS = 0.2  # seconds for what still waits when its speaker has ended

logger = logging.getLogger(__name__)


class Stderr:
    """This process's stderr for another program's output, written without blocking.

    At most `limit` bytes wait; more is counted and reported. With a `prefix`, each line is marked
    and
    its control characters are shown.
    """

    def __init__(self, speaker: str = "agent", prefix: bytes = b"", limit: int = 2**20) -> None:
        self._speaker = speaker
        self._prefix = prefix
        self._decoder = IncrementalNewlineDecoder(getincrementaldecoder("utf-8")("replace"), False)
        self._in_line = False
        self._limit = limit
        self._waiting = bytearray()
        self._lost = 0
        self._broken = False  # nobody will ever read it
        self._more = anyio.Event()
        self._polled = can_poll(2)
        self._running = anyio.CancelScope()
        self._stopped = anyio.Event()

    def say(self, data: bytes) -> None:
        """Write `data` as soon as it can be, without waiting; over the limit it is counted only."""
        data = self._mark_lines(data)
        if self._broken or len(self._waiting) + len(data) > self._limit:
            self._lost += len(data)
            return
        self._waiting += data
        self.flush()
        self._more.set()

    def _mark_lines(self, data: bytes) -> bytes:
        if not self._prefix or not (words := reveal(self._decoder.decode(data)).encode()):
            return b"" if self._prefix else data
        begins, self._in_line = not self._in_line, not words.endswith(b"\n")
        lines = words.removesuffix(b"\n").replace(b"\n", b"\n" + self._prefix)
        return (self._prefix if begins else b"") + lines + (b"" if self._in_line else b"\n")

    def flush(self) -> None:
        """Write what can be written at once, and how much was lost after it."""
        self._write_line(self._waiting)
        if self._lost and not self._waiting:
            notice = bytearray(f"abp-bridge: {self._loss()}\n", "ascii")
            length = len(notice)
            self._write_line(notice)
            if len(notice) < length:
                self._waiting, self._lost = notice, 0

    async def copy_lines(self) -> None:
        """Write on as it is read, until cancelled or closed."""
        try:
            with self._running:
                while True:
                    await self._drain()
                    self._more = anyio.Event()
                    await self._more.wait()
        finally:
            self._stopped.set()

    async def aclose(self) -> None:
        """Write what is read within `LAST_WORDS` seconds, report the loss and end `run`."""
        self._running.cancel()
        with anyio.CancelScope(shield=True):
            await self._stopped.wait()
            with anyio.move_on_after(LAST_WORDS):
                await self._drain()
        self._lost += len(self._waiting)
        self._waiting.clear()
        if self._lost:
            logger.warning(self._loss())

    async def _drain(self) -> None:
        while (self._waiting or self._lost) and self._polled and not self._broken:
            await anyio.wait_writable(2)
            self.flush()

    def _write_line(self, data: bytearray) -> None:
        try:
            with open_nonblocking(2) as ours:
                while data and select.select([], [ours], [], 0)[1]:
                    # The descriptor may be others' too, so it stays as it is; a pipe that is
                    # writable has room for this much.
                    del data[: os.write(ours, data[:PIPE_BUF])]
        except BlockingIOError:
            pass  # somebody else has filled it
        except OSError:
            self._broken = True

    def _loss(self) -> str:
        return f"{self._lost} bytes of the {self._speaker}'s stderr were not read in time"
