"""How long a call may take: a limit of silence, and a bound on all of it.

Knows nothing of apps and questions: `call.py` says when the app reports, and when a person is
asked, whose time is not the app's.
"""

from __future__ import annotations

import anyio

from abp_bridge.rpc.arrival import now

FOREVER = float("inf")
# A call that goes on telling how far it is may take so many times its limit: an app that reports
# in a loop must end some time too.
LONGEST = 10


class CallClock:
    """The time of one call; when it is over, `scope` is cancelled.

    Args:
        limit: Seconds that the app may tell nothing.

    Attributes:
        scope: What the call runs in.
    """

    def __init__(self, limit: float) -> None:
        self.scope = anyio.CancelScope(deadline=now() + limit)
        self._limit = limit
        self._end = now() + limit * LONGEST
        self._paused: tuple[float, float] | None = None  # what is left: of its silence, of all
        self._reported = False

    def pause(self) -> None:
        """A person is asked: the clock stands still until `resume`."""
        if self._paused is None and not self.scope.cancel_called:
            self._paused = self.scope.deadline - now(), self._end - now()
            self.scope.deadline = FOREVER

    def resume(self) -> None:
        """Go on with what was left."""
        if self._paused is not None and not self.scope.cancel_called:
            silence, all_of_it = self._paused
            self._paused = None
            self.scope.deadline, self._end = now() + silence, now() + all_of_it

    def restart(self) -> None:
        """The app says how far it is: its silence begins anew, as far as the bound on all goes."""
        self._reported = True
        if self._paused is not None:
            _, all_of_it = self._paused
            self._paused = min(self._limit, all_of_it), all_of_it
        elif not self.scope.cancel_called:
            self.scope.deadline = min(now() + self._limit, self._end)

    def describe(self) -> str:
        """What it was that took too long, after the name of what was called."""
        if not self._reported:
            return f"took longer than {self._limit:g} s"
        if self.scope.deadline < self._end:
            return f"has not said for {self._limit:g} s how far it is"
        return f"took longer than {self._limit * LONGEST:g} s, and still says how far it is"
