"""One question's life: exactly one answer, and what shows it is taken down when nobody needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from support.harness import PATIENCE

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Field, FieldType, Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.context import (
    MAX_TIME,
    AskContext,
    InputResolvedEvent,
    SessionEvent,
    no_observer,
)
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.router import Router
from abp_bridge.session.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    RouteChangedError,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

Json = Any

QUESTION = Question(
    "q1", Kind.INPUT, "Which?", (Field("value", FieldType.INTEGER, {"type": "integer"}),), "app"
)
TIMED = AskContext(timeout=PATIENCE)
YES = SurfaceResponse(Outcome.ACCEPTED, {"value": 5})


class Person:
    """Implements `InputProvider`: gives one reply after the other, then waits for ever."""

    def __init__(self, *replies: SurfaceResponse | Exception) -> None:
        self.replies = list(replies)
        self.shown = anyio.Event()
        self.down = False
        self.problems: list[str] = []
        self.asked: list[Question] = []

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.TERMINAL)]

    async def prompt(
        self, question: Question, context: AskContext, variant: SurfaceVariant, problem: str = ""
    ) -> SurfaceResponse:
        self.problems.append(problem)
        self.asked.append(question)
        if self.replies:
            reply = self.replies.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply
        self.shown.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.down = True
        raise AssertionError


def elicitor(person: Person, events: list[SessionEvent] | None = None) -> Elicitor:
    observe = no_observer if events is None else events.append
    return Elicitor(Router(person, min_human_latency=0.0), limit=PATIENCE, observe=observe)


async def test_a_withdrawn_question_is_taken_down_and_answered() -> None:
    person = Person()
    asking = elicitor(person)
    outcomes = []

    async def ask() -> None:
        outcomes.append(await asking.resolve(QUESTION, TIMED))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await person.shown.wait()
            asking.withdraw([QUESTION], "its call ended")
            asking.withdraw([QUESTION], "again")
    assert [(each.outcome, each.reason) for each in outcomes] == [
        (Outcome.WITHDRAWN, "its call ended")
    ]
    assert person.down
    assert list(asking.ledger.open) == []


async def test_a_session_that_ends_answers_what_is_open() -> None:
    person, events = Person(), list[SessionEvent]()
    asking = elicitor(person, events)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.resolve, QUESTION, TIMED)
            await person.shown.wait()
            tasks.cancel_scope.cancel()
    assert person.down
    answers = [event.answer for event in events if isinstance(event, InputResolvedEvent)]
    reason = "nobody waits for its answer any more"
    assert [(each.outcome, each.reason) for each in answers] == [(Outcome.WITHDRAWN, reason)]


async def test_an_answer_that_comes_after_the_end_is_counted_and_changes_nothing() -> None:
    class Late(Person):
        async def prompt(
            self,
            question: Question,
            context: AskContext,
            variant: SurfaceVariant,
            problem: str = "",
        ) -> SurfaceResponse:
            asking.withdraw([question], "its call ended")
            return YES

    asking = elicitor(Late())
    answer = await asking.resolve(QUESTION, TIMED)
    assert (answer.outcome, answer.content) == (Outcome.WITHDRAWN, {})
    assert (asking.ledger.ended_count, asking.ledger.late_count) == (1, 1)


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (HostDisconnectedError(), Outcome.WITHDRAWN),
        (HostDisconnectedError("its turn ended", Outcome.CANCELLED), Outcome.CANCELLED),
        (HostTimeoutError("it did not come back"), Outcome.TIMED_OUT),
    ],
)
async def test_a_host_that_goes_leaves_an_answer(problem: Exception, outcome: Outcome) -> None:
    answer = await elicitor(Person(problem)).resolve(QUESTION, TIMED)
    assert (answer.outcome, answer.answered_by, answer.reason) == (
        outcome,
        AnsweredBy.NOBODY,
        str(problem),
    )


async def test_a_question_whose_route_changed_is_asked_again() -> None:
    answer = await elicitor(Person(RouteChangedError(), YES)).resolve(QUESTION, TIMED)
    assert (answer.outcome, answer.content) == (Outcome.ACCEPTED, {"value": 5})


async def test_an_answer_that_does_not_fit_is_asked_for_again_and_then_given_up() -> None:
    wrong = SurfaceResponse(Outcome.ACCEPTED, {"value": "many"})
    person = Person(wrong, wrong, YES)
    answer = await elicitor(person).resolve(QUESTION, TIMED)
    assert (answer.outcome, answer.content, answer.route) == (
        Outcome.ACCEPTED,
        {"value": 5},
        "terminal (asked again)",
    )
    assert person.problems == ["", *['value must be a whole number, not "many"'] * 2]
    answer = await elicitor(Person(wrong, wrong, wrong)).resolve(QUESTION, TIMED)
    assert (answer.outcome, answer.content) == (Outcome.INVALID, {})


FORM = replace(
    QUESTION,
    fields=(
        Field("mail", FieldType.TEXT, {"type": "string"}, title="E-mail"),
        Field("amount", FieldType.INTEGER, {"type": "integer", "maximum": 9}, title="Amount"),
        Field("express", FieldType.BOOLEAN, {"type": "boolean"}, default=True),
        Field("notes", FieldType.TEXT, {"type": "string"}, required=False),
        Field("pin", FieldType.TEXT, {"type": "string"}, secret=True),
    ),
    wrapped=False,
    whole={
        "properties": dict.fromkeys(("mail", "amount", "express", "notes", "pin"), True),
        "not": {"properties": {"mail": {"const": "a"}, "express": {"const": False}}},
    },
)
GIVEN: dict[str, JsonValue] = {"mail": "b", "amount": 99, "express": False, "pin": "12"}


def accepted(**content: JsonValue) -> SurfaceResponse:
    return SurfaceResponse(Outcome.ACCEPTED, content, seconds=5.0)


async def test_of_a_form_only_what_is_wrong_is_asked_again() -> None:
    person = Person(accepted(**GIVEN), accepted(amount=10), accepted(amount="5"))
    answer = await elicitor(person).resolve(FORM, TIMED)
    assert (answer.outcome, answer.content) == (Outcome.ACCEPTED, {**GIVEN, "amount": 5})
    assert answer.route == "terminal (one field at a time)"
    assert [[each.name for each in asked.fields] for asked in person.asked[1:]] == [["amount"]] * 2
    assert [asked.message for asked in person.asked] == ["Which?"] * 3, "its label stands once"
    assert person.problems[1:] == [
        "Amount must be at most 9, not 99",
        "amount must be at most 9, not 10",
    ]


async def test_a_form_that_does_not_fit_as_a_whole_is_asked_again_as_it_was_given() -> None:
    given: dict[str, JsonValue] = {**GIVEN, "mail": "a", "amount": 5}
    person = Person(accepted(**given), accepted(**{**given, "mail": "c"}))
    answer = await elicitor(person).resolve(FORM, TIMED)
    assert (answer.outcome, answer.content) == (Outcome.ACCEPTED, {**given, "mail": "c"})
    assert person.problems[1:] == ["the answer has a form that is not allowed"]
    assert [each.default for each in person.asked[1].fields] == ["a", 5, False, MISSING, MISSING]


async def test_a_form_that_never_fits_as_a_whole_is_given_up() -> None:
    given: dict[str, JsonValue] = {**GIVEN, "mail": "a", "amount": 5}
    person = Person(*[accepted(**given)] * 3)
    assert (await elicitor(person).resolve(FORM, TIMED)).outcome is Outcome.INVALID
    assert person.replies == []


async def test_who_leaves_while_one_field_is_asked_again_leaves_the_question() -> None:
    for person in (
        Person(accepted(**GIVEN), SurfaceResponse(Outcome.DECLINED)),
        Person(accepted(**{**GIVEN, "mail": "a", "amount": 5}), SurfaceResponse(Outcome.DECLINED)),
    ):
        answer = await elicitor(person).resolve(FORM, TIMED)
        assert (answer.outcome, answer.content) == (Outcome.DECLINED, {})


async def test_what_never_fits_is_told_as_the_hosts_where_it_came_at_once() -> None:
    class Machine(Person):
        async def prompt(
            self,
            question: Question,
            context: AskContext,
            variant: SurfaceVariant,
            problem: str = "",
        ) -> SurfaceResponse:
            return SurfaceResponse(Outcome.ACCEPTED, {}, seconds=0.001)

    asking = Elicitor(Router(Machine(), min_human_latency=0.4), limit=PATIENCE)
    answer = await asking.resolve(QUESTION, TIMED)
    assert (answer.outcome, answer.answered_by) == (Outcome.INVALID, AnsweredBy.HOST_POLICY)


@pytest.mark.parametrize(
    ("refuses", "late"), [(False, "cli:claude did not answer"), (True, "nobody answered")]
)
@pytest.mark.slow
async def test_whoever_is_late_is_said_to_be_late(refuses: bool, late: str) -> None:
    """Also where somebody else was asked meanwhile; where it refused, the next one is late."""

    class Late(Person):
        def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
            return [SurfaceVariant(Surface.MCP_SAMPLING), SurfaceVariant(Surface.SAMPLING)]

        async def prompt(
            self, question: Question, context: AskContext, variant: SurfaceVariant, *more: Any
        ) -> SurfaceResponse:
            if question.id == "inside":
                return YES
            if variant.surface is Surface.MCP_SAMPLING:
                context.wait_for("cli:claude did not answer")
                await asking.resolve(replace(QUESTION, id="inside"), replace(context, timeout=None))
                if refuses:
                    raise SurfaceUnsupportedError("not now", lasting=False)
            await anyio.sleep_forever()
            raise AssertionError

    asking = elicitor(Late())
    answer = await asking.resolve(
        replace(QUESTION, kind=Kind.SAMPLING, fields=()), AskContext(timeout=0.1)
    )
    assert (answer.outcome, answer.reason) == (Outcome.TIMED_OUT, f"{late} within 0.1 s")


async def test_a_person_who_asks_for_more_time_has_it_where_no_app_has_set_it() -> None:
    """The wait itself is longer, also that of the question around it."""

    class Slow(Person):
        inner: Elicitor

        async def prompt(
            self, question: Question, context: AskContext, *more: Any
        ) -> SurfaceResponse:
            if question.id == "around":
                await self.inner.resolve(replace(QUESTION, id="inside"), context)
                return YES
            time = context.asking
            assert time is not None
            before = time.deadline
            await anyio.lowlevel.checkpoint()
            time.extend()
            assert anyio.current_effective_deadline() == time.deadline > before
            return YES

    person = Slow()
    person.inner = asking = elicitor(person)
    answer = await asking.resolve(replace(QUESTION, id="around"))
    assert answer.outcome is Outcome.ACCEPTED


@pytest.mark.parametrize(("set_by_app", "limit"), [(None, 7_200.0), (7_200.0, MAX_TIME)])
async def test_an_apps_own_time_is_made_shorter_and_not_longer(
    set_by_app: float | None, limit: float
) -> None:
    left: list[float] = []

    class Asked(Person):
        async def prompt(
            self, question: Question, context: AskContext, *more: Any
        ) -> SurfaceResponse:
            left.append(asking.seconds_left(question.id))
            assert context.asking is not None
            assert context.asking.is_fixed is (set_by_app is not None)
            return YES

    asking = Elicitor(Router(Asked(), min_human_latency=0.0), limit=7_200.0)
    answer = await asking.resolve(QUESTION, AskContext(timeout=set_by_app))
    assert answer.outcome is Outcome.ACCEPTED
    assert limit - PATIENCE < left[0] <= limit


NOTE: Json = {"type": ["string", "null"]}
GUESTS: Json = {
    "type": ["array", "null"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


@pytest.mark.parametrize(
    ("surface", "part", "replies"),
    [
        (SurfaceVariant(Surface.ACP_PERMISSION), NOTE, [{"ok": True}]),
        (
            SurfaceVariant(Surface.MCP_FORM, "2025-11-25"),
            GUESTS,
            [{"ok": True}, {"another": False}],
        ),
    ],
    ids=["a field that is not asked", "a list without an entry"],
)
async def test_what_is_required_and_may_be_null_is_null_where_it_is_not_given(
    surface: SurfaceVariant, part: Json, replies: list[Json]
) -> None:
    class Narrow(Person):
        def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
            return [surface]

    schema: Json = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "part": part},
        "required": ["ok", "part"],
    }
    question = decode_question(
        {"method": "elicitation/input", "params": {"prompt": "?", "schema": schema}},
        id="q",
        origin="app",
    )
    given = [SurfaceResponse(Outcome.ACCEPTED, content) for content in replies]
    answer = await elicitor(Narrow(*given)).resolve(question)
    assert (answer.outcome, answer.content) == (Outcome.ACCEPTED, {"ok": True, "part": None})
