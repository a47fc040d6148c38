"""Reusable tasks for short jobs: starting a task costs more than handling most messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

MAX_IDLE = 16  # tasks that wait for a job; of more that are through with theirs, each ends

Given = TypeVarTuple("Given")
_Job = Callable[[], Awaitable[None]]


class Workers:
    """`TaskGroup.start_soon` with tasks that are reused.

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
