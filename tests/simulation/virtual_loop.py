"""An event loop with virtual time: it never sleeps, and its runs are deterministic."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

MAX_TURNS = 1_000_000  # of one loop: more is a loop that spins
TURN = 1e-6  # seconds that a turn of the loop takes: no time would be as no clock has it


class StuckError(Exception):
    """Everybody waits, and nothing is left that could wake anybody."""


class SpinningError(Exception):
    """It goes on and on at once."""


class _Clockwork(selectors.DefaultSelector):
    """Instead of waiting, has the loop's time pass."""

    loop: VirtualLoop
    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if self.turns > MAX_TURNS:
            self.turns = 0
            raise SpinningError
        found = super().select(0)
        if not found and timeout is None:
            raise StuckError
        self.loop.now += TURN if found or not timeout else timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 1,000 s; `now` may be set forward, as when a laptop was asleep."""

    def __init__(self) -> None:
        self.now = 1_000.0
        clockwork = _Clockwork()
        clockwork.loop = self
        super().__init__(clockwork)
        self._clock_resolution = TURN

    def time(self) -> float:
        return self.now


async def run_here(work: Callable[..., Any], *given: Any, **_options: Any) -> Any:
    """What a thread would do: virtual time does not wait for one."""
    await asyncio.sleep(0)
    return work(*given)
