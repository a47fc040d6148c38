"""Worker tasks that take one job after another."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from abp_bridge.jsonrpc.loop import MAX_IDLE, Workers

PATIENCE = 10.0


async def test_worker_task_is_reused() -> None:
    seen: set[object] = set()

    async def job() -> None:
        seen.add(asyncio.current_task())

    async with anyio.create_task_group() as tasks:
        workers = Workers(tasks)
        for _ in range(3):
            workers.start_soon(job)
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert len(seen) == 1


async def test_jobs_run_concurrently_and_idle_tasks_are_bounded() -> None:
    there, go = [0], anyio.Event()

    async def job() -> None:
        there[0] += 1
        await go.wait()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            workers = Workers(tasks)
            for _ in range(2 * MAX_IDLE):
                workers.start_soon(job)
            await anyio.wait_all_tasks_blocked()
            assert there[0] == 2 * MAX_IDLE
            go.set()
            await anyio.wait_all_tasks_blocked()
            assert len(asyncio.all_tasks()) < 2 * MAX_IDLE, "those that nothing needs have ended"
            workers.close()


@pytest.mark.parametrize("used", [False, True], ids=["a new task", "one used again"])
async def test_job_of_a_cancelled_group_still_begins(used: bool) -> None:
    went: list[str] = []

    async def job() -> None:
        went.append("began")
        try:
            await anyio.sleep_forever()
        finally:
            went.append("was cancelled")

    async with anyio.create_task_group() as tasks:
        workers = Workers(tasks)
        if used:
            workers.start_soon(anyio.lowlevel.checkpoint)
            await anyio.wait_all_tasks_blocked()
        workers.start_soon(job)
        tasks.cancel_scope.cancel()
    assert went == ["began", "was cancelled"]


@pytest.mark.parametrize("then", [Workers.close, lambda workers: None], ids=["closed", "open"])
async def test_job_begins_after_idle_tasks_are_cancelled(then: Callable[[Workers], None]) -> None:
    began: list[bool] = []

    async def job() -> None:
        began.append(True)

    async with anyio.create_task_group() as tasks:
        workers = Workers(tasks)
        workers.start_soon(job)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        await anyio.lowlevel.cancel_shielded_checkpoint()  # by now the idle one is cancelled
        then(workers)
        workers.start_soon(job)
    assert began == [True, True]


async def test_idle_task_keeps_no_argument_of_its_last_job() -> None:
    class Given:
        """What a job is given."""

    async def job(given: Given) -> None: ...

    async with anyio.create_task_group() as tasks:
        workers = Workers(tasks)
        workers.start_soon(job, given := Given())
        seen = weakref.ref(given)
        del given
        await anyio.wait_all_tasks_blocked()
        assert seen() is None
        workers.close()


async def test_failed_job_ends_the_group() -> None:
    async def job() -> None:
        raise ValueError("a bug")

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            Workers(tasks).start_soon(job)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as failed:
        await run()
    assert failed.group_contains(ValueError)


async def test_job_sees_no_context_variable_of_its_starter() -> None:
    mood: ContextVar[str] = ContextVar("mood", default="none")
    seen: list[str] = []

    async def job() -> None:
        seen.append(mood.get())

    async with anyio.create_task_group() as tasks:
        workers = Workers(tasks)
        mood.set("the starter's")
        for _ in range(2):
            workers.start_soon(job)
            await anyio.wait_all_tasks_blocked()
        workers.close()
    assert seen == ["none", "none"]
