"""Pipes in memory, as slow and as torn as a seed has them, and the peers at their far ends."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from random import Random
from typing import Any

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter

Json = Any

APART = 3e-6  # seconds between two pieces of one pipe, at least


@dataclass
class Weather:
    """How one pipe treats what goes through it."""

    latency: float = 0.0  # seconds on the way, at most; bytes keep their order
    torn: bool = False  # whether they come in pieces that are not messages
    capacity: int = 64 * 1024  # bytes that it holds before its writer has to wait
    stalls: float = 0.0  # seconds that its reader takes between two looks at it, at most
    faults: Counter[str] = field(default_factory=Counter)  # counted by kind


class Pipe(ByteReader, ByteWriter):
    def __init__(self, rng: Random, weather: Weather) -> None:
        self._rng = rng
        self._weather = weather
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._last = 0.0
        self._ended = False  # nobody writes any more, and everything has come
        self._closed = False  # by its writer
        self.closed_at = inf  # seconds of the loop's clock
        self._broken = False  # by its reader
        self._changed: list[asyncio.Future[None]] = []
        self.steps = 0

    def write_nowait(self, data: bytes | memoryview) -> int:
        if self._broken:
            raise BrokenPipeError
        if self._closed:
            raise OSError("closed")
        taken = bytes(data[: max(0, self._weather.capacity - self._held)])
        cuts = sorted(self._rng.sample(range(1, len(taken)), 2)) if self._is_torn(taken) else []
        self._weather.faults["torn"] += bool(cuts)
        self._weather.faults["no room"] += 0 < len(taken) < len(data)
        for start, end in pairwise([0, *cuts, len(taken)]):
            self._send(taken[start:end])
        return len(taken)

    def _is_torn(self, data: bytes) -> bool:
        return self._weather.torn and len(data) > 2

    async def writable(self) -> None:
        while self._held >= self._weather.capacity and not self._broken and not self._closed:
            await self._change()

    async def receive(self) -> bytes:
        if self._weather.stalls:
            self._weather.faults["stalled"] += 1
            await asyncio.sleep(self._rng.uniform(0, self._weather.stalls))
        while not self._pieces and not self._ended and not self._broken:
            await self._change()
        if not self._pieces or self._broken:
            return b""
        many = 1 if self._weather.torn and self._rng.random() < 0.5 else len(self._pieces)
        data = b"".join(self._pieces.popleft() for _ in range(many))
        self._held -= len(data)
        self._wake()
        return data

    async def wait_closed(self) -> None:
        while not (self._closed or self._broken):
            await self._change()

    def close(self) -> None:
        """The writer says no more: what is on its way still comes."""
        if not self._closed:
            self._closed = True
            self.closed_at = asyncio.get_running_loop().time()
            self._later(self._end)
            self._wake()

    def cut(self) -> None:
        self._broken = True
        self._pieces.clear()
        self._wake()

    def _send(self, piece: bytes) -> None:
        if not piece:
            return
        self._held += len(piece)
        self._later(lambda: self._arrive(piece))

    def _later(self, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        soonest = loop.time() + self._rng.uniform(0, self._weather.latency)
        self._last = max(self._last + APART, soonest)  # timers of one instant have no order
        self.steps += 1
        self._weather.faults["delayed"] += self._weather.latency > 0
        loop.call_at(self._last, act)

    def _arrive(self, piece: bytes) -> None:
        if not self._broken:
            self._pieces.append(piece)
        self._wake()

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _change(self) -> asyncio.Future[None]:
        self._changed.append(changed := asyncio.get_running_loop().create_future())
        return changed

    def _wake(self) -> None:
        changed, self._changed = self._changed, []
        for each in changed:
            if not each.done():
                each.set_result(None)


class ReadEnd(ByteReader):
    """What its holder closes when it reads no more."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def receive(self) -> bytes:
        return await self._pipe.receive()

    async def wait_closed(self) -> None:
        await self._pipe.wait_closed()

    def close(self) -> None:
        self._pipe.cut()


class Peer:
    """JSON-RPC, a message a line, at the far end of two pipes. `on_message` must not wait."""

    def __init__(self, reader: Pipe, writer: Pipe, on_message: Callable[[Json], None]) -> None:
        self._reader = reader
        self._writer = writer
        self._on_message = on_message
        self._serial = 0
        self._waiting: dict[int | str, asyncio.Future[Json]] = {}
        self._unsent = b""
        self._drain: asyncio.Task[None] | None = None
        self.answered: dict[Json, list[Json]] = {}  # by our ids: each message with that id
        self.lines: list[tuple[str, Json]] = []  # (who wrote it, the "bridge" or the "host", it)
        self.gone = False
        self._goes_on = asyncio.Event()  # cleared while it does not read
        self._goes_on.set()

    @property
    def steps(self) -> int:
        return self._reader.steps + self._writer.steps

    async def run(self) -> None:
        rest = b""
        while data := await self._reader.receive():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line and not self.gone:
                    self._dispatch(json.loads(line))
            await self._goes_on.wait()
        self.hang_up()

    def stop_reading(self) -> None:
        """Leave what comes in its pipe."""
        self._goes_on.clear()

    def _dispatch(self, message: Json) -> None:
        self.lines.append(("bridge", message))
        if "method" in message:
            self._on_message(message)
            return
        self.answered.setdefault(message["id"], []).append(message)
        waiting = self._waiting.pop(message["id"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    @property
    def received(self) -> list[Json]:
        return [message for who, message in self.lines if who == "bridge"]

    def send(self, message: Json) -> None:
        self.lines.append(("host", message))
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self._unsent += data
        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._unsent:
                written = self._writer.write_nowait(self._unsent)
                self._unsent = self._unsent[written:]
                if self._unsent:
                    await self._writer.writable()
        except OSError:
            self.hang_up()
        finally:
            self._drain = None

    def next_id(self) -> int:
        self._serial += 1
        return self._serial

    async def request(self, method: str, params: Json, id: int | str | None = None) -> Json | None:
        """The response, or None when the bridge is gone."""
        id = id or self.next_id()
        self._waiting[id] = waiting = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        if self.gone:
            return None
        return await waiting

    def expect_nothing(self, id: int) -> None:
        if (waiting := self._waiting.pop(id, None)) is not None and not waiting.done():
            waiting.set_result(None)

    def hang_up(self) -> None:
        self.gone = True
        self._goes_on.set()
        self._writer.close()
        self._reader.cut()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def end(self) -> None:
        if self._drain is not None:
            self._drain.cancel()
            await asyncio.gather(self._drain, return_exceptions=True)
