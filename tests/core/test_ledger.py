"""Each question ends exactly once, whatever order things happen in."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from abp_bridge.core.answer import Answer
from abp_bridge.core.ledger import REMEMBERED, TRANSITIONS, Ledger, LedgerEvent, State
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.errors import LocalProtocolError


def question(id: str = "q1", message: str = "Which?") -> Question:
    return Question(id, Kind.INPUT, message, (), "https://app.example")


OUTCOMES = {
    LedgerEvent.ANSWER: Outcome.ACCEPTED,
    LedgerEvent.REFUSE: Outcome.UNSUPPORTED,
    LedgerEvent.DEADLINE: Outcome.TIMED_OUT,
    LedgerEvent.WITHDRAW: Outcome.WITHDRAWN,
}


def ending(event: LedgerEvent, said: str = "") -> Answer | None:
    outcome = OUTCOMES.get(event)
    return (
        None
        if outcome is None
        else Answer(
            outcome,
            AnsweredBy.PERSON,
            {"value": said},
            route="mcp-form",
            latency=1.5,
            reason=event.value,
        )
    )


# --- every state and event ---

ROWS: dict[tuple[State, LedgerEvent], State | None] = {
    (State.WAITING, LedgerEvent.ASK): State.ASKED,
    (State.WAITING, LedgerEvent.ANSWER): None,  # nobody was asked
    (State.WAITING, LedgerEvent.REFUSE): State.ENDED,
    (State.WAITING, LedgerEvent.DEADLINE): State.ENDED,
    (State.WAITING, LedgerEvent.WITHDRAW): State.ENDED,
    (State.ASKED, LedgerEvent.ASK): State.ASKED,
    (State.ASKED, LedgerEvent.ANSWER): State.ENDED,
    (State.ASKED, LedgerEvent.REFUSE): State.ENDED,
    (State.ASKED, LedgerEvent.DEADLINE): State.ENDED,
    (State.ASKED, LedgerEvent.WITHDRAW): State.ENDED,
    (State.ENDED, LedgerEvent.ASK): State.ENDED,
    (State.ENDED, LedgerEvent.ANSWER): State.ENDED,
    (State.ENDED, LedgerEvent.REFUSE): State.ENDED,
    (State.ENDED, LedgerEvent.DEADLINE): State.ENDED,
    (State.ENDED, LedgerEvent.WITHDRAW): State.ENDED,
}


def test_every_state_and_event_has_a_row_here() -> None:
    assert set(ROWS) == {(state, event) for state in State for event in LedgerEvent}
    assert {key for key, after in ROWS.items() if after} == set(TRANSITIONS)


def _in(state: State) -> Ledger:
    ledger = Ledger()
    ledger.add(question(), 10.0)
    if state is State.ASKED:
        ledger.apply("q1", LedgerEvent.ASK, route="mcp-form")
    if state is State.ENDED:
        ledger.apply("q1", LedgerEvent.WITHDRAW, answer=ending(LedgerEvent.WITHDRAW))
    return ledger


@pytest.mark.parametrize(
    ("key", "after"), ROWS.items(), ids=[f"{state.value}, {event.value}" for state, event in ROWS]
)
def test_what_an_event_does(key: tuple[State, LedgerEvent], after: State | None) -> None:
    state, event = key
    ledger = _in(state)
    if after is None:
        with pytest.raises(
            LocalProtocolError, match="question q1 is waiting: it cannot take 'answer'"
        ):
            ledger.apply("q1", event, answer=ending(event))
        assert ledger.entry("q1") is not None
        return
    counts = ledger.apply("q1", event, answer=ending(event), route="mcp-form")
    assert counts is (state is not State.ENDED)
    entry = ledger.entry("q1")
    assert (State.ENDED if entry is None else entry.state) is after


def test_a_question_that_is_open_cannot_be_opened_again() -> None:
    ledger = _in(State.WAITING)
    with pytest.raises(LocalProtocolError, match="q1 is open already"):
        ledger.add(question(), 11.0)


@pytest.mark.parametrize("event", OUTCOMES, ids=lambda event: event.value)
def test_nothing_ends_without_an_answer(event: LedgerEvent) -> None:
    ledger = _in(State.ASKED)
    with pytest.raises(LocalProtocolError, match="it needs the answer it ends with"):
        ledger.apply("q1", event)
    assert [entry.state for entry in ledger.open] == [State.ASKED]
    assert ledger.ended_count == 0


def test_the_last_surface_that_asked_is_its_route() -> None:
    ledger = _in(State.WAITING)
    for route in ("mcp-form", "mcp-form (as text)"):
        ledger.apply("q1", LedgerEvent.ASK, route=route)
    entry = ledger.entry("q1")
    assert entry is not None
    assert (entry.route, entry.since) == ("mcp-form (as text)", 10.0)


def test_what_a_person_said_is_not_remembered() -> None:
    ledger = _in(State.ASKED)
    ledger.apply("q1", LedgerEvent.ANSWER, answer=ending(LedgerEvent.ANSWER, "my secret plan"))
    (ended,) = ledger.ended
    assert (ended.id, ended.kind, ended.message, ended.origin) == (
        "q1",
        "elicitation/input",
        "Which?",
        "https://app.example",
    )
    assert (ended.outcome, ended.answered_by, ended.route, ended.latency) == (
        Outcome.ACCEPTED,
        AnsweredBy.PERSON,
        "mcp-form",
        1.5,
    )
    assert "my secret plan" not in repr(ended)


def test_many_questions_leave_a_short_trace() -> None:
    ledger = Ledger()
    for number in range(REMEMBERED + 36):
        ledger.add(question(f"q{number}"), 0.0)
        ledger.apply(f"q{number}", LedgerEvent.REFUSE, answer=ending(LedgerEvent.REFUSE))
    assert (ledger.ended_count, len(ledger.ended), len(ledger.open)) == (100, REMEMBERED, 0)
    assert ledger.ended[-1].id == "q99"


# --- any order ---


class LedgerMachine(RuleBasedStateMachine):
    """Questions come, and anything happens to any of them at any time, late and twice too."""

    questions = Bundle("questions")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.asked: dict[str, bool] = {}
        self.ended: dict[str, Answer] = {}
        self.delivered: dict[str, int] = {}
        self.serial = 0
        self.late = 0

    @rule(target=questions)
    def add(self) -> object:
        self.serial += 1
        id = f"q{self.serial}"
        self.ledger.add(question(id), float(self.serial))
        self.asked[id] = False
        return id

    @rule(target=questions, ids=st.lists(questions, max_size=3))
    def add_again(self, ids: list[str]) -> object:
        for id in ids:
            if id not in self.ended:
                with pytest.raises(LocalProtocolError):
                    self.ledger.add(question(id), 0.0)
        return multiple()

    @rule(
        id=questions, event=st.sampled_from(list(LedgerEvent)), said=st.sampled_from(["yes", "no"])
    )
    def happen(self, id: str, event: LedgerEvent, said: str) -> None:
        answer = ending(event, said)
        if id in self.ended:
            assert self.ledger.apply(id, event, answer=answer) is False
            self.late += event is LedgerEvent.ANSWER
        elif event is LedgerEvent.ASK:
            assert self.ledger.apply(id, event, route="mcp-form") is True
            self.asked[id] = True
        elif event is LedgerEvent.ANSWER and not self.asked[id]:
            with pytest.raises(LocalProtocolError):
                self.ledger.apply(id, event, answer=answer)
        else:
            entry = self.ledger.entry(id)
            assert entry is not None
            assert answer is not None
            assert self.ledger.apply(id, event, answer=answer) is True
            assert entry.answer is answer
            self.ended[id] = answer
            self.delivered[id] = self.delivered.get(id, 0) + 1

    @invariant()
    def open_is_what_nothing_ended(self) -> None:
        assert [entry.question.id for entry in self.ledger.open] == [
            id for id in self.asked if id not in self.ended
        ]

    @invariant()
    def each_ended_once(self) -> None:
        assert set(self.delivered.values()) <= {1}
        assert self.ledger.ended_count == len(self.ended)
        assert [(each.id, each.outcome) for each in self.ledger.ended] == [
            (id, answer.outcome) for id, answer in self.ended.items()
        ][-REMEMBERED:]

    @invariant()
    def late_answers_are_counted(self) -> None:
        assert self.ledger.late_count == self.late


TestAnyOrder = LedgerMachine.TestCase
TestAnyOrder.settings = settings(max_examples=40)
