"""A loop that knows when what it reads may have come: what tells a peer's own time from ours.

While this process is busy (an import, a page that starts), what a peer says waits in its pipe, and
a clock read afterwards would count our work as the peer's.
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
        """Wait as the base does, and note the time (seconds of the monotonic clock). Not at all
        where there is work, and was a look just now: a message takes several turns of the loop.
        """
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
        """When what this turn reads may have come, at the earliest (seconds of the loop's
        clock).
        """
        return self._watch.looked - self._watch.unwatched


def now() -> float:
    """The running loop's clock (seconds): `anyio.current_time` without its search for the loop,
    for what is measured with each message.
    """
    return asyncio.get_running_loop().time()


OPTIONS = {"loop_factory": WatchfulLoop}  # for `anyio.run`


def earliest_arrival() -> float:
    """When what the running loop reads in this turn may have come, at the earliest; in a loop of
    somebody else's, now.
    """
    loop = asyncio.get_running_loop()
    return loop.earliest_arrival() if isinstance(loop, WatchfulLoop) else loop.time()
