"""An event loop that records when input may have arrived, and reusable tasks for short jobs.

While this process is busy, input waits in the pipe. A clock read afterwards would count our work
as the peer's time, so evidence of who answered measures with this loop.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

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


MAX_IDLE = 16  # tasks that wait for a job; of more that are through with theirs, each ends

Given = TypeVarTuple("Given")
_Job = Callable[[], Awaitable[None]]


class Workers:
    """`TaskGroup.start_soon` with reused tasks: starting one costs more than most messages.

    A job is cancelled with the group, and a job that fails ends it.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._context = copy_context()
        self._idle: list[asyncio.Future[_Job | None]] = []
        self._closed = False

    def start_soon(self, job: Callable[[Unpack[Given]], Awaitable[None]], *given: *Given) -> None:
        """Run `job` with what is `given`, from the next turn of the loop on."""
        prepared = partial(job, *given)
        while self._idle:
            if not (worker := self._idle.pop()).done():  # else it was cancelled in this turn
                worker.set_result(prepared)
                return
        self._context.run(self._tasks.start_soon, self._work, prepared)

    def close(self) -> None:
        """Let the tasks end: those without a job now, the others with theirs."""
        self._closed = True
        while self._idle:
            if not (worker := self._idle.pop()).done():
                worker.set_result(None)

    async def _work(self, job: _Job | None) -> None:
        loop = asyncio.get_running_loop()
        while job is not None:
            await job()
            if self._closed or len(self._idle) >= MAX_IDLE:
                return
            job = None  # what it was given is not kept until the next one comes
            self._idle.append(waiting := loop.create_future())
            job = await waiting
