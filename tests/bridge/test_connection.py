"""A connected app as its session knows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from abp_bridge.bridge.connection import AppConnection
from abp_bridge.core.question import Answer, AnsweredBy, Kind, Outcome, Question

Json = Any

pytestmark = pytest.mark.anyio


async def test_apps_of_one_name_can_be_told_apart_by_their_questions() -> None:
    """What a person approves for one of them, they have not approved for the other."""
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Outcome.DECLINED, AnsweredBy.PERSON)

    session: Json = SimpleNamespace(ask=ask, host=SimpleNamespace(name="a host"))
    app: Json = SimpleNamespace(origin="python app.py")
    question = Question("q", Kind.SAMPLING, "task", (), app.origin)
    one, two = (AppConnection(session, f"python {each}/app.py", app) for each in "ab")
    for each in (one, one, two):
        await each.ask(question)
    first, again, other = (each.connection for each in asked)
    assert first == again != other
