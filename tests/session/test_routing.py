"""Which surface a question goes to next, and what is said when none is left."""

from __future__ import annotations

from dataclasses import replace

from abp_bridge.core.answer import Answer
from abp_bridge.core.matrix import Attempt, SurfaceVariant, narrow
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Permission, Question
from abp_bridge.core.surface import Advice, Surface, Way
from abp_bridge.session.router import Routing
from abp_bridge.session.surface import HostUnattendedError, SurfaceUnsupportedError

FORM = SurfaceVariant(Surface.MCP_FORM, "2025-11-25")
LINK = SurfaceVariant(Surface.MCP_URL)
TERMINAL = SurfaceVariant(Surface.TERMINAL)
PAGE = SurfaceVariant(Surface.PAGE)
BUTTONS = SurfaceVariant(Surface.ACP_PERMISSION)
SAMPLING = SurfaceVariant(Surface.MCP_SAMPLING)


def asked(*, kind: Kind = Kind.INPUT, secret: bool = False) -> Question:
    field = Field("it", FieldType.TEXT, {"type": "string"}, secret=secret)
    return Question("q1", kind, "Which?", () if kind is Kind.SAMPLING else (field,), "app")


def said(outcome: Outcome, answered_by: AnsweredBy) -> Answer:
    return Answer(outcome, answered_by)


def names(routing: Routing) -> list[str]:
    return [attempt.variant.surface.value for attempt in routing.attempts()]


def test_a_question_goes_to_each_surface_that_can_ask_it() -> None:
    assert names(Routing(asked(), [FORM, BUTTONS, LINK, TERMINAL])) == [
        "mcp-form",
        "mcp-url",
        "terminal",
    ]


def test_one_field_that_may_stay_empty_refuses_no_form() -> None:
    key = Field("key", FieldType.TEXT, {"type": "string"}, secret=True, required=False)
    file = Field("proof", FieldType.FILE, {}, title="A proof", required=False)
    name = Field("name", FieldType.TEXT, {"type": "string"})
    question = Question("q1", Kind.INPUT, "Who?", (name, key, file), "app", wrapped=False)
    form = SurfaceVariant(Surface.ACP_FORM)
    found = [*Routing(question, [form, BUTTONS, PAGE]).attempts()]
    assert [(each.variant, each.left_out) for each in found] == [
        (PAGE, ()),
        (form, ("key", "proof")),
    ]
    asked_there = narrow(question, found[1])
    assert asked_there.fields == (name,)
    assert asked_there.note == "(Not all of it can be asked here. What stays empty: key, A proof)"
    assert narrow(question, found[0]) is question
    buttons = Attempt(BUTTONS, found[1].cell, ("key",))
    assert narrow(question, buttons).note == "(Here there are only buttons. What stays empty: key)"
    nothing_else = replace(question, fields=(key, file))
    assert [*Routing(nothing_else, [form]).attempts()] == []
    needed = replace(question, fields=(name, replace(key, required=True)))
    assert [*Routing(needed, [form]).attempts()] == []


def test_what_a_person_said_ends_it() -> None:
    routing = Routing(asked(), [FORM])
    assert routing.conclude(said(Outcome.DECLINED, AnsweredBy.PERSON))
    assert routing.conclude(said(Outcome.ACCEPTED, AnsweredBy.UNKNOWN))
    assert routing.fallback(Advice()) is None


def test_a_policys_yes_and_what_is_not_proven_wait_for_the_next_surface() -> None:
    for outcome, by in (
        (Outcome.ACCEPTED, AnsweredBy.HOST_POLICY),
        (Outcome.UNSUPPORTED, AnsweredBy.UNKNOWN),
        (Outcome.CANCELLED, AnsweredBy.UNKNOWN),
    ):
        routing = Routing(asked(), [FORM])
        assert not routing.conclude(said(outcome, by))
        assert routing.fallback(Advice()) == said(outcome, by)


def test_a_host_that_says_no_by_itself_sends_nobody_anywhere() -> None:
    routing = Routing(asked(), [FORM, LINK, TERMINAL])
    no, later = (said(outcome, AnsweredBy.HOST_POLICY) for outcome in (Outcome.DECLINED,) * 2)
    tried = []
    for attempt in routing.attempts():
        tried.append(attempt.variant.surface)
        assert not routing.conclude(no if len(tried) == 1 else later)
    assert tried == [Surface.MCP_FORM, Surface.TERMINAL]
    assert routing.fallback(Advice()) is no


def test_a_host_that_says_that_nobody_answered_sends_nobody_anywhere() -> None:
    routing = Routing(asked(), [FORM, LINK, TERMINAL])
    tried = []
    for attempt in routing.attempts():
        tried.append(attempt.variant.surface)
        routing.refuse(attempt, HostUnattendedError("the host says that nobody answered"))
    assert tried == [Surface.MCP_FORM, Surface.TERMINAL]


def test_when_no_surface_is_left_each_says_why() -> None:
    page = "; page: not set up (--page open)"
    form = "mcp-form: a form passes through the host and the model: secrets never do"
    model = "mcp-sampling: this surface asks a model, not the person"
    nobody = "the host offers no way to ask its user"

    def reason(question: Question, *variants: SurfaceVariant) -> str:
        return Routing(question, variants).reason(Advice()).removeprefix("Nobody could be asked: ")

    assert reason(asked(secret=True), FORM, SAMPLING) == f"{form}; {model}{page}"
    assert reason(asked()) == nobody + page
    assert reason(asked(), FORM) == nobody + page
    assert reason(asked(kind=Kind.SAMPLING), FORM) == (
        "mcp-form: a form asks the person, not a model; sampling: not set up (--sampling MODEL)"
    )


def test_a_host_whose_person_gives_other_things_is_told_those() -> None:
    options = {Surface.PAGE: Way("--on page", "you are asked there")}
    advice = Advice(["in a terminal: it shows forms"], options)
    routing = Routing(asked(secret=True), [])
    assert routing.reason(advice).endswith("; page: not set up (--on page)")
    assert routing.ways(advice) == [*advice.ways, "--on page: you are asked there"]
    no = said(Outcome.DECLINED, AnsweredBy.HOST_POLICY)
    approval = replace(asked(), permits=Permission.SAMPLING)
    for variants, words in (([FORM], "To be asked yourself, set up --on page."), ([PAGE], "")):
        routing = Routing(approval, variants)
        assert not routing.conclude(no)
        found = routing.fallback(advice)
        assert found is not None
        assert found.reason.strip() == words


def test_a_surface_that_was_tried_in_vain_says_why_first() -> None:
    for variants, rest in (
        ([PAGE], ""),
        (
            [LINK, FORM],
            "; mcp-form: a form passes through the host and the model: secrets never do",
        ),
    ):
        routing = Routing(asked(secret=True), variants)
        (attempt,) = routing.attempts()
        routing.refuse(attempt, SurfaceUnsupportedError("gone", lasting=True))
        page = "" if PAGE in variants else "; page: not set up (--page open)"
        name = attempt.variant.surface.value
        assert routing.reason(Advice()) == f"Nobody could be asked: {name}: gone{rest}{page}"


def test_where_a_model_says_why_it_does_not_answer_nobody_else_has_to() -> None:
    agent = SurfaceVariant(Surface.SAMPLING)
    routing = Routing(asked(kind=Kind.SAMPLING), [FORM, agent, PAGE])
    (attempt,) = routing.attempts()
    routing.refuse(attempt, SurfaceUnsupportedError("gone", lasting=True))
    assert routing.reason(Advice()) == "Nobody could be asked: sampling: gone"
    approval = replace(asked(secret=True), permits=Permission.SAMPLING)
    routing = Routing(approval, [agent, SAMPLING, FORM])
    assert not [*routing.attempts()]
    assert "model, not the person" not in routing.reason(Advice())
    assert "mcp-form: a form passes through" in routing.reason(Advice())
