"""What is said where no person was asked, and the table of ways to have one asked."""

from __future__ import annotations

import pytest

from abp_bridge.core.answer import Answer
from abp_bridge.core.matrix import find_ways
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.surface import (
    BESIDE,
    MAX_LISTED,
    WAYS,
    Surface,
    UnaskedQuestion,
    describe_unasked,
)


def asked(*, kind: Kind = Kind.INPUT, secret: bool = False) -> Question:
    field = Field("it", FieldType.TEXT, {"type": "string"}, secret=secret)
    return Question("q1", kind, "Which?", () if kind is Kind.SAMPLING else (field,), "app")


@pytest.mark.parametrize(
    ("question", "surfaces"),
    [
        (asked(), {"PAGE", "TERMINAL", "MODEL_RELAY", "QUESTIONS_API"}),
        (asked(secret=True), {"PAGE", "TERMINAL"}),
        (asked(kind=Kind.SAMPLING), {"SAMPLING"}),
    ],
)
def test_setup_hints_are_those_that_could_ask_the_question(
    question: Question, surfaces: set[str]
) -> None:
    assert find_ways(question, (), WAYS) == {
        surface: way for surface, way in WAYS.items() if surface.name in surfaces
    }


def test_setup_hints_leave_out_surfaces_that_are_set_up() -> None:
    found = find_ways(asked(), [Surface.PAGE], BESIDE)
    assert [str(way).split(" ")[0] for way in found.values()] == ["--tty", "--questions-api"]


def test_unasked_questions_are_listed_with_attempts_and_setup_hints() -> None:
    told = describe_unasked(
        [
            UnaskedQuestion("Which\nseat?", "app", ["mcp-form: gone", "page: no"], ["a", "b"]),
            UnaskedQuestion("Meal?", "app", ["mcp-form: gone"], ["b", "c"]),
        ]
    )
    assert told[1:4] == [
        '- app asked: "Which seat?"',
        "  tried: mcp-form: gone",
        "  tried: page: no",
    ]
    assert told[-3:] == ["- a", "- b", "- c"]


def test_many_unasked_questions_are_counted() -> None:
    one = UnaskedQuestion("Which?", "app", [], [])
    assert describe_unasked([]) == []
    told = describe_unasked([one] * (MAX_LISTED + 2))
    assert told[-1] == "- and 2 more"
    assert len(told) == MAX_LISTED + 2


@pytest.mark.parametrize(
    ("outcome", "by", "unasked", "unanswered"),
    [
        (Outcome.UNSUPPORTED, AnsweredBy.NOBODY, True, True),
        (Outcome.DECLINED, AnsweredBy.HOST_POLICY, True, True),
        (Outcome.ACCEPTED, AnsweredBy.HOST_POLICY, False, True),
        (Outcome.ACCEPTED, AnsweredBy.PERSON, False, False),
        (Outcome.DECLINED, AnsweredBy.PERSON, False, False),
        (Outcome.CANCELLED, AnsweredBy.UNKNOWN, False, None),
        (Outcome.TIMED_OUT, AnsweredBy.NOBODY, False, True),
        (Outcome.WITHDRAWN, AnsweredBy.NOBODY, False, False),
    ],
)
def test_answer_says_whether_a_user_was_asked_and_answered(
    outcome: Outcome, by: AnsweredBy, unasked: bool, unanswered: bool | None
) -> None:
    answer = Answer(outcome, by)
    assert answer.unasked is unasked
    assert unanswered is None or answer.unanswered is unanswered
