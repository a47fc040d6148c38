"""This process's stderr, shared with what somebody else says there."""

from __future__ import annotations

import os
import select

import anyio
import anyio.lowlevel

from abp_bridge.log import PIPE_BUF
from abp_bridge.rpc.streams import can_poll


class Stderr:
    """This process's stderr for somebody else's words: they pass as fast as it is read, and never
    hold up who says them.

    What waits is bounded by `limit` bytes; what is more is counted and said.
    """

    def __init__(self, limit: int = 2**20) -> None:
        self._limit = limit
        self._waiting = bytearray()
        self._lost = 0
        self._more = anyio.Event()
        self._polled = can_poll(2)

    def say(self, data: bytes) -> None:
        """Write `data` as soon as it can be, without waiting; over the limit it is counted only."""
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
                # The descriptor may be others' too, so it stays blocking; a pipe that is writable
                # has room for this much.
                del self._waiting[: os.write(2, self._waiting[:PIPE_BUF])]
        except OSError:
            self._waiting.clear()  # nobody will ever read it
        if self._lost and not self._waiting:
            lost = f"{self._lost} bytes of the agent's stderr were not read in time"
            self._waiting += f"abp-bridge: {lost}\n".encode()
            self._lost = 0

    async def run(self) -> None:
        """Write on as it is read, until cancelled."""
        while True:
            while self._waiting and self._polled:
                await anyio.wait_writable(2)
                self.flush()
            self._more = anyio.Event()
            await self._more.wait()
