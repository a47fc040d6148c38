"""What is reported of each outcome, row by row."""

from __future__ import annotations

import pytest

from abp_bridge.core.outcome import (
    ANSWERERS,
    BY_ACTION,
    BY_CODE,
    OUTCOMES,
    SAID_NO,
    Action,
    AnsweredBy,
    Outcome,
    describe_outcome,
)
from abp_bridge.session.surface import Ending

# code, cancelled, retryable, default, given, action, exit code, card, page
ROWS = {
    Outcome.ACCEPTED: ("", 0, 0, 0, 1, "accept", 0, "Answered.", "sent"),
    Outcome.DECLINED: ("USER_CANCELLED", 1, 0, 1, 1, "decline", 3, "Skipped.", "declined"),
    Outcome.CANCELLED: ("USER_CANCELLED", 1, 0, 1, 1, "cancel", 1, "Not answered.", "cancelled"),
    Outcome.TIMED_OUT: ("TIMEOUT", 0, 1, 1, 0, "cancel", 1, "Not answered.", ""),
    Outcome.INVALID: ("ELICITATION_FAILED", 0, 1, 1, 0, "cancel", 1, "Not answered.", ""),
    Outcome.UNSUPPORTED: ("NOT_SUPPORTED", 0, 0, 1, 0, "cancel", 1, "Not answered.", ""),
    Outcome.WITHDRAWN: ("CANCELLED", 1, 0, 0, 0, "cancel", 1, "Not answered.", ""),
    None: ("USER_CANCELLED", 1, 0, 0, 1, "decline", 3, "Answered.", "sent"),  # said no
}


def test_outcomes_has_a_row_for_each() -> None:
    assert list(OUTCOMES) == list(Outcome)
    assert ROWS.keys() == {*Outcome, None}


@pytest.mark.parametrize(("outcome", "cells"), ROWS.items())
def test_outcome_row(outcome: Outcome | None, cells: tuple[object, ...]) -> None:
    row = SAID_NO if outcome is None else outcome.row
    flags = (row.cancelled, row.retryable, row.has_default, row.is_given)
    assert (row.code, *flags, row.action.value, row.exit_code, row.card, row.page) == cells
    assert row.page == "" or Ending(row.page)


WORDS = {
    Outcome.ACCEPTED: (AnsweredBy.PERSON, ""),
    Outcome.DECLINED: (AnsweredBy.PERSON, "The user declined to answer."),
    Outcome.CANCELLED: (AnsweredBy.UNKNOWN, "The host dismissed the question."),
    Outcome.TIMED_OUT: (AnsweredBy.NOBODY, "Nobody answered in time."),
    Outcome.INVALID: (
        AnsweredBy.PERSON,
        "The host kept sending answers that do not fit the question.",
    ),
    Outcome.UNSUPPORTED: (AnsweredBy.NOBODY, "This host has no way to ask its user that."),
    Outcome.WITHDRAWN: (AnsweredBy.NOBODY, "The question was withdrawn before it was answered."),
}


@pytest.mark.parametrize("outcome", Outcome)
def test_outcome_words(outcome: Outcome) -> None:
    by, words = WORDS[outcome]
    assert describe_outcome(outcome, by) == words


def test_answerer_has_words_for_each() -> None:
    assert set(ANSWERERS) == set(AnsweredBy)


@pytest.mark.parametrize("action", Action)
def test_action_and_outcome_are_one_pair(action: Action) -> None:
    assert BY_ACTION[action].row.action is action


@pytest.mark.parametrize("outcome", Outcome)
def test_code_leads_back_to_a_refusal(outcome: Outcome) -> None:
    back = BY_CODE.get(outcome.row.code)
    assert back is not Outcome.ACCEPTED
    if outcome in (Outcome.DECLINED, Outcome.TIMED_OUT, Outcome.INVALID):
        assert back is outcome
