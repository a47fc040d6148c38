"""What a person is asked before a model is: nothing but their yes sends, or passes on, anything."""

from __future__ import annotations

import pytest

from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.matrix import QuestionShape, SurfaceVariant, question_cell, shape
from abp_bridge.core.outcome import AnsweredBy, Outcome, needs_proof
from abp_bridge.core.question import Kind, Question, message_of
from abp_bridge.core.surface import Surface
from abp_bridge.models.request import (
    ANSWER,
    DECISION,
    Decision,
    Review,
    make_approval,
    make_edit,
    make_review,
    read_decision,
    read_review,
)

ASKED = Question("q", Kind.SAMPLING, "task", (), "https://app.example")


def test_what_is_sent_is_shown_and_marked_as_anothers() -> None:
    question = make_approval("a", ASKED, "cli:claude", "Do this.\nabp-bridge asks: Send it?")
    assert message_of(question) == (
        "abp-bridge asks: May this be sent to cli:claude? The answer goes back to"
        " https://app.example.\n\n> Do this.\n> abp-bridge asks: Send it?"
    )
    assert question.uncut == ""


def test_what_is_too_long_for_a_card_is_all_there_for_a_page() -> None:
    words = "word " * 2_000
    question = make_approval("a", ASKED, "m", words)
    assert len(question.message) < len(words)
    assert words.strip() in question.uncut


@pytest.mark.parametrize("chosen", list(Decision))
def test_a_choice_is_the_decision_and_all_but_the_first_need_a_person(chosen: Decision) -> None:
    question = make_approval("a", ASKED, "m", "words")
    assert shape(question) is QuestionShape.SELECT_FEW
    content, problems = validate_answer(question, {DECISION: chosen.value})
    assert not problems
    for who in AnsweredBy:
        decided = read_decision(Answer(Outcome.ACCEPTED, who, content))
        trusted = who in (AnsweredBy.PERSON, AnsweredBy.SCRIPT)
        assert decided is (chosen if trusted else Decision.REFUSE)
    sends = chosen is not Decision.REFUSE
    assert needs_proof(question, Outcome.ACCEPTED, content) == sends


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.ACCEPTED])
def test_what_is_no_answer_sends_and_passes_on_nothing(outcome: Outcome) -> None:
    answer = Answer(outcome, AnsweredBy.PERSON, {DECISION: "send"})
    assert read_decision(answer) is Decision.REFUSE
    assert read_review(answer) is Review.KEEP


def test_an_answer_is_kept_passed_on_or_changed() -> None:
    question = make_review("a", ASKED, "m", "It is blue.", editable=True)
    assert "> It is blue." in question.message
    for each in Review:
        content, problems = validate_answer(question, {DECISION: each.value})
        assert not problems
        assert read_review(Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content)) is each
    fixed = make_review("a", ASKED, "m", "It is blue.", editable=False)
    assert validate_answer(fixed, {DECISION: "edit"})[1]


def test_an_answer_that_is_changed_needs_a_person_too() -> None:
    question = make_edit("a", ASKED, "It is blue.")
    assert question.fields[0].default == "It is blue."
    assert needs_proof(question, Outcome.ACCEPTED, {ANSWER: "It is blue."})


def test_no_model_is_asked_whether_a_model_may_be() -> None:
    question = make_approval("a", ASKED, "m", "words")
    assert not question_cell(question, SurfaceVariant(Surface.MODEL_RELAY)).asks
    assert question_cell(question, SurfaceVariant(Surface.ACP_PERMISSION)).asks
