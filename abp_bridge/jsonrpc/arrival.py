"""An event loop that records when input may have arrived.

While this process is busy, input waits in the pipe. A clock read afterwards would count our work
as the peer's time, so evidence of who answered measures with this loop.
"""

from __future__ import annotations

import asyncio
import selectors
import time

JUST_NOW = 0.0005  # seconds: so long may what comes wait while other work is done


class _Selector(selectors.DefaultSelector):
    """Knows when it last looked, and for how long nobody had looked before that."""

    looked = 0.0
    unwatched = 0.0

    def select(  # type: ignore[explicit-any]
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Select and note the time; skip it if other work waits and the last look was just now."""
        self.unwatched = time.monotonic() - self.looked
        if timeout == 0 and self.unwatched < JUST_NOW:
            return []
        found = super().select(timeout)
        self.looked = time.monotonic()
        return found


class WatchfulLoop(asyncio.SelectorEventLoop):
    """An event loop for `anyio.run`, in which `earliest_arrival` is exact."""

    def __init__(self) -> None:
        self._watch = _Selector()
        super().__init__(self._watch)

    def earliest_arrival(self) -> float:
        """Return when this turn's input may have come at the earliest (loop clock, seconds)."""
        return self._watch.looked - self._watch.unwatched


def now() -> float:
    """Return the running loop's clock in seconds; cheaper than `anyio.current_time`."""
    return asyncio.get_running_loop().time()


OPTIONS = {"loop_factory": WatchfulLoop}  # for `anyio.run`


def earliest_arrival() -> float:
    """Return when this turn's input may have come at the earliest; now in any other loop."""
    loop = asyncio.get_running_loop()
    return loop.earliest_arrival() if isinstance(loop, WatchfulLoop) else loop.time()
