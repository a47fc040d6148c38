"""Each question ends exactly once, whatever order things happen in."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from abp_bridge.core.answer import Answer
from abp_bridge.core.ledger import REMEMBERED, Ledger
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.errors import LocalProtocolError


def question(id: str = "q1", message: str = "Which?") -> Question:
    return Question(id, Kind.INPUT, message, (), "https://app.example")


def ending(outcome: Outcome, said: str = "") -> Answer:
    content = {"value": said}
    return Answer(outcome, AnsweredBy.PERSON, content, route="mcp-form", latency=1.5)


def _opened() -> Ledger:
    ledger = Ledger()
    ledger.add(question(), 10.0)
    return ledger


def test_open_question_cannot_be_opened_again() -> None:
    ledger = _opened()
    with pytest.raises(LocalProtocolError, match="q1 is open already"):
        ledger.add(question(), 11.0)


def test_route_is_the_last_surface() -> None:
    ledger = _opened()
    for route in ("mcp-form", "mcp-form (as text)"):
        ledger.show("q1", route)
    entry = ledger.entry("q1")
    assert entry is not None
    assert (entry.route, entry.since) == ("mcp-form (as text)", 10.0)


def test_ended_question_does_not_keep_the_answer() -> None:
    ledger = _opened()
    ledger.settle("q1", ending(Outcome.ACCEPTED, "my secret plan"))
    (ended,) = ledger.ended
    assert (ended.id, ended.kind, ended.message) == ("q1", "elicitation/input", "Which?")
    assert (ended.outcome, ended.answered_by) == (Outcome.ACCEPTED, AnsweredBy.PERSON)
    assert (ended.origin, ended.route, ended.latency) == ("https://app.example", "mcp-form", 1.5)
    assert "my secret plan" not in repr(ended)


def test_many_questions_leave_a_short_trace() -> None:
    ledger = Ledger()
    for number in range(REMEMBERED + 36):
        ledger.add(question(f"q{number}"), 0.0)
        ledger.settle(f"q{number}", ending(Outcome.UNSUPPORTED))
    assert (ledger.ended_count, len(ledger.ended), len(ledger.open)) == (100, REMEMBERED, 0)
    assert ledger.ended[-1].id == "q99"


class LedgerMachine(RuleBasedStateMachine):
    """Questions come, and anything happens to any of them at any time, late and twice too."""

    questions = Bundle("questions")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.added: list[str] = []
        self.ended: dict[str, Answer] = {}
        self.late = 0

    @rule(target=questions)
    def add(self) -> object:
        id = f"q{len(self.added)}"
        self.ledger.add(question(id), float(len(self.added)))
        self.added.append(id)
        return id

    @rule(target=questions, ids=st.lists(questions, max_size=3))
    def add_again(self, ids: list[str]) -> object:
        for id in ids:
            if id not in self.ended:
                with pytest.raises(LocalProtocolError):
                    self.ledger.add(question(id), 0.0)
        return multiple()

    @rule(id=questions)
    def show(self, id: str) -> None:
        self.ledger.show(id, "mcp-form")

    @rule(id=questions, outcome=st.sampled_from(Outcome))
    def settle(self, id: str, outcome: Outcome) -> None:
        answer = ending(outcome)
        entry = self.ledger.entry(id)
        assert self.ledger.settle(id, answer) is (id not in self.ended)
        if entry is not None and id not in self.ended:
            assert entry.answer is answer
        self.late += id in self.ended and outcome.row.is_given
        self.ended.setdefault(id, answer)

    @invariant()
    def open_is_what_nothing_ended(self) -> None:
        assert [entry.question.id for entry in self.ledger.open] == [
            id for id in self.added if id not in self.ended
        ]

    @invariant()
    def each_ended_once(self) -> None:
        assert self.ledger.ended_count == len(self.ended)
        assert [(each.id, each.outcome) for each in self.ledger.ended] == [
            (id, answer.outcome) for id, answer in self.ended.items()
        ][-REMEMBERED:]

    @invariant()
    def late_answers_are_counted(self) -> None:
        assert self.ledger.late_count == self.late


TestAnyOrder = LedgerMachine.TestCase
TestAnyOrder.settings = settings(max_examples=40)
