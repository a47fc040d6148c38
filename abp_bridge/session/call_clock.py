"""How long a call may take: a limit of silence, and a bound on all of it.

Knows nothing of apps and questions: `call.py` says when the app reports, and when a person is
asked, whose time is not the app's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from abp_bridge.jsonrpc.loop import now

# A call that goes on telling how far it is may take so many times its limit: an app that reports
# in a loop must end some time too.
MAX_LIMITS = 10


class CallClock:
    """The time of one call; when it is over, `scope` is cancelled.

    Its end is only ever put off, so one timer does: where it comes too early, it begins anew.

    Args:
        limit: Seconds that the app may tell nothing.

    Attributes:
        scope: What the call runs in, while it is `running`.
    """

    def __init__(self, limit: float) -> None:
        self.scope = anyio.CancelScope()
        self._limit = limit
        started = now()
        self._deadline = started + limit
        self._end = started + limit * MAX_LIMITS
        self._paused: tuple[float, float] | None = None  # what is left: of its silence, of all
        self._reported = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """The call runs in this block, in `scope`, and time counts."""
        self._is_running = True
        self._look()
        try:
            with self.scope:
                yield
        finally:
            self._is_running = False  # a question of the call may end after it
            if self._timer is not None:
                self._timer.cancel()

    def _look(self) -> None:
        """Whether it is over; where it is not, look again when it may be."""
        self._timer = None
        if self._paused is not None:
            return
        if now() < self._deadline:
            self._timer = asyncio.get_running_loop().call_at(self._deadline, self._look)
        else:
            self.scope.cancel()

    def pause(self) -> None:
        """A person is asked: the clock stands still until `resume`."""
        if self._paused is None:
            at = now()
            self._paused = self._deadline - at, self._end - at

    def resume(self) -> None:
        """Go on with what was left."""
        if self._paused is not None:
            silence, all_of_it = self._paused
            self._paused = None
            at = now()
            self._deadline, self._end = at + silence, at + all_of_it
            if self._timer is None and self._is_running:
                self._look()

    def restart(self) -> None:
        """The app says how far it is: its silence begins anew, as far as the bound on all goes."""
        self._reported = True
        if self._paused is not None:
            _, all_of_it = self._paused
            self._paused = min(self._limit, all_of_it), all_of_it
        else:
            self._deadline = min(now() + self._limit, self._end)

    def describe(self) -> str:
        """What it was that took too long, after the name of what was called."""
        if not self._reported:
            return f"took longer than {self._limit:g} s"
        if self._deadline < self._end:
            return f"has not said for {self._limit:g} s how far it is"
        return f"took longer than {self._limit * MAX_LIMITS:g} s, and still says how far it is"
