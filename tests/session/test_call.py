"""The time of a call, on a virtual clock: its limit is one of silence, and there is a bound on all
of it.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from simulation.virtual_loop import VirtualLoop

from abp_bridge.core.capability import CallResult
from abp_bridge.core.ledger import Progress
from abp_bridge.core.question import Kind, Question
from abp_bridge.jsonrpc.loop import now
from abp_bridge.session.call import Call
from abp_bridge.session.result_store import KeptResult

Json = Any

LIMIT = 60.0
QUESTION = Question("q1", Kind.CONFIRM, "Book?", (), "app")


async def keep(result: CallResult) -> KeptResult:
    return KeptResult(result)


class Worker:
    """An app that works for so many seconds, and reports every so many of them."""

    def __init__(self, seconds: float, every: float = 0.0, asks: float = 0.0) -> None:
        self._seconds, self._every, self._asks = seconds, every, asks
        self.running: Call
        self.cancelled = ""
        self.reported = 0

    async def call_capability(self, capability: str, params: Json, call: str) -> CallResult:
        if self._asks:
            self.running.on_question(QUESTION, own=True)
            await self._work(self._asks)
            self.running.on_answer(QUESTION, None)
        await self._work(self._seconds)
        return CallResult("done")

    async def _work(self, seconds: float) -> None:
        end = now() + seconds
        while self._every and now() + self._every < end:
            await anyio.sleep(self._every)
            self.reported += 1
            self.running.on_progress(Progress(None, 0.5))
        await anyio.sleep(end - now())

    async def cancel_call(self, call: str, reason: str) -> None:
        self.cancelled = reason

    async def wait_idle(self) -> None: ...


def outcome(app: Worker, limit: float = LIMIT) -> tuple[str, float]:
    """How a call of it ends, and after how many seconds."""

    async def call() -> tuple[str, float]:
        app.running = Call(
            "call-1",
            app,
            "export",
            {},
            timeout=limit,
            on_progress=None,
            withdraw=lambda questions, reason: None,
            keep=keep,
        )
        began = now()
        await app.running.run()
        ended = await app.running.wait()
        failure = ended.result.failure
        return str(failure) if failure else str(ended.result.data), round(now() - began)

    return anyio.run(call, backend_options={"loop_factory": VirtualLoop})


def test_what_tells_nothing_ends_at_the_limit() -> None:
    app = Worker(61)
    said, took = outcome(app)
    assert (said, took) == (
        "TIMEOUT: Operation timed out: export took longer than 60 s (retryable)",
        60,
    )
    assert app.cancelled == "export took longer than 60 s"


def test_what_reports_progress_goes_on_past_the_limit() -> None:
    app = Worker(500, every=50)
    assert outcome(app) == ("done", 500)
    assert app.reported == 9


def test_after_the_last_report_the_limit_counts_anew() -> None:
    class Silent(Worker):
        async def _work(self, seconds: float) -> None:
            await super()._work(130)
            await anyio.sleep(seconds)

    said, took = outcome(Silent(1_000, every=50))
    assert "export has not said for 60 s how far it is" in said
    assert took == 100 + 60


def test_what_reports_for_ever_ends_at_ten_times_the_limit() -> None:
    said, took = outcome(Worker(10_000, every=1))
    assert "export took longer than 600 s, and still says how far it is" in said
    assert took == 600


@pytest.mark.parametrize("every", [0.0, 50.0])
def test_the_time_of_a_person_counts_for_neither(every: float) -> None:
    said, took = outcome(Worker(10_000, every=every, asks=5_000))
    assert took == 5_000 + (600 if every else 60)
    assert said.startswith("TIMEOUT")


def test_a_report_while_a_person_is_asked_begins_the_limit_anew_for_later() -> None:
    class Late(Worker):
        async def call_capability(self, capability: str, params: Json, call: str) -> CallResult:
            await anyio.sleep(50)
            return await super().call_capability(capability, params, call)

    assert outcome(Late(55, asks=5_000))[1] == 50 + 5_000 + 10
    assert outcome(Late(55, every=54, asks=100)) == ("done", 50 + 100 + 55)
