"""A connected app as its session knows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
from support.harness import PATIENCE

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.session.call import Call
from abp_bridge.session.connection import AppConnection
from abp_bridge.session.context import AskContext
from abp_bridge.session.result_store import KeptResult

Json = Any


async def test_apps_of_one_name_can_be_told_apart_by_their_questions() -> None:
    """What a person approves for one of them, they have not approved for the other."""
    asked: list[AskContext] = []

    async def resolve(question: Question, context: AskContext) -> Answer:
        asked.append(context)
        return Answer(Outcome.DECLINED, AnsweredBy.PERSON)

    session: Json = SimpleNamespace(elicitor=SimpleNamespace(resolve=resolve))
    app: Json = SimpleNamespace(origin="python app.py")
    question = Question("q", Kind.SAMPLING, "task", (), app.origin)
    one, two = (AppConnection(session, f"python {each}/app.py", app) for each in "ab")
    for each in (one, one, two):
        await each.elicit(question)
    first, again, other = (each.connection for each in asked)
    assert first == again != other


async def test_who_asks_for_a_call_that_is_being_cancelled_asks_nobody() -> None:
    """An app may ask on while it hears that its call is cancelled."""
    answers: list[Answer] = []

    class Asking:
        origin = "python app.py"

        async def call_capability(self, capability: str, params: Json, call: str) -> CallResult:
            await anyio.sleep_forever()
            raise AssertionError

        async def cancel_call(self, call: str, reason: str) -> None:
            question = Question("q", Kind.CONFIRM, "Delete all?", (), self.origin)
            answers.append(await connection.elicit(question, AskContext(calls=(call,))))

        async def wait_idle(self) -> None:
            pass

    async def resolve(question: Question, context: AskContext) -> Answer:
        raise AssertionError("somebody was asked")

    async def keep(result: CallResult) -> KeptResult:
        return KeptResult(result)

    session: Json = SimpleNamespace(elicitor=SimpleNamespace(resolve=resolve))
    app: Json = Asking()
    connection = AppConnection(session, "python app.py", app)
    call = Call(
        "c", app, "wipe", {}, timeout=60, on_progress=None, withdraw=lambda *_: None, keep=keep
    )
    connection.add_call(call)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call.run)
            await anyio.wait_all_tasks_blocked()
            call.cancel("the host cancelled it")
    assert [(each.outcome, each.reason) for each in answers] == [
        (Outcome.WITHDRAWN, "its call c has ended")
    ]
