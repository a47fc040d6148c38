"""Two directions of lines between a host and the program that it launched through us: which side
ends first, and what is still carried then.

Who is who is the proxies': a client and its agent, a host and its server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import anyio

from abp_bridge.jsonrpc.splice import LineFilter, splice

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.jsonrpc.connection import ByteReader
    from abp_bridge.jsonrpc.multiplex import SharedWriter

# seconds a program may go on speaking when its stdin is closed, or go without reading when its
# host has gone; hosts kill us after two in all
DRAIN = 0.8

Side = Literal["host", "program"]


@dataclass(frozen=True, slots=True)
class Direction:
    """One way: what one side says, where the other reads it, and what happens to the lines."""

    source: ByteReader
    target: SharedWriter
    lines: LineFilter


@dataclass(slots=True)
class Carrier:
    """The two directions, and which side ended first.

    Attributes:
        to_program: What the host says.
        to_host: What the program says.
        on_host_end: Runs when the host says no more.
        on_program_end: Runs when the program has gone, before what is left of its last line
            passes: what is still asked goes too.
    """

    to_program: Direction
    to_host: Direction
    on_host_end: Callable[[], object]
    on_program_end: Callable[[], Awaitable[object]]
    _draining: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _ended: Side | None = None

    async def carry_both(self, tasks: TaskGroup) -> Side:
        """Carry lines until one side ends: which. What the program still says after the host has
        ended is passed on, for at most `DRAIN` seconds.
        """
        tasks.start_soon(self._carry_to_program, tasks)
        with self._draining:
            await self._carry_to_host()
        return self._ended or "program"

    async def _carry_to_program(self, tasks: TaskGroup) -> None:
        way = self.to_program
        try:
            with anyio.CancelScope() as carrying:
                tasks.start_soon(self._watch_host, carrying)
                await splice(way.source, way.target, way.lines)
            self._ended = self._ended or "host"
        except OSError:
            self._ended = self._ended or "program"
        self.on_host_end()
        way.target.close_stream()
        self._draining.deadline = anyio.current_time() + DRAIN

    async def _watch_host(self, carrying: anyio.CancelScope) -> None:
        """A host's end is not read while its program reads nothing: then what it still said is
        lost, and it ends all the same.
        """
        target = self.to_program.target
        await self.to_program.source.wait_closed()
        forwarded = -1
        while forwarded != target.forwarded:
            forwarded = target.forwarded
            await anyio.sleep(DRAIN)
        carrying.cancel()

    async def _carry_to_host(self) -> None:
        way = self.to_host
        try:
            await splice(way.source, way.target, way.lines, self._on_program_end)
        except OSError:
            self._ended = self._ended or "host"

    async def _on_program_end(self) -> None:
        self._ended = self._ended or "program"
        await self.on_program_end()
