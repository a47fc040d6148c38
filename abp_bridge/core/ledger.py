"""Open questions, each of which ends exactly once, in whatever order answers and cancels arrive."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.errors import LocalProtocolError

REMEMBERED = 64  # ended questions that `abp_status` can still show


class State(enum.Enum):
    """Where a question is on its way."""

    WAITING = "waiting"  # for a surface that can ask it
    ASKED = "asked"  # in front of the person
    ENDED = "ended"


class LedgerEvent(enum.Enum):
    """What can happen to a question."""

    ASK = "ask"  # a surface shows it (again)
    ANSWER = "answer"  # validated content, a decline or a dismissal came back
    REFUSE = "refuse"  # no surface is left
    DEADLINE = "deadline"  # the person's time is over
    WITHDRAW = "withdraw"  # its call was cancelled, its app or its host is gone


# A pair that is missing cannot happen. What comes after the end changes nothing.
TRANSITIONS: dict[tuple[State, LedgerEvent], State] = {
    (State.WAITING, LedgerEvent.ASK): State.ASKED,
    (State.WAITING, LedgerEvent.REFUSE): State.ENDED,
    (State.WAITING, LedgerEvent.DEADLINE): State.ENDED,
    (State.WAITING, LedgerEvent.WITHDRAW): State.ENDED,
    (State.ASKED, LedgerEvent.ASK): State.ASKED,
    (State.ASKED, LedgerEvent.ANSWER): State.ENDED,
    (State.ASKED, LedgerEvent.REFUSE): State.ENDED,
    (State.ASKED, LedgerEvent.DEADLINE): State.ENDED,
    (State.ASKED, LedgerEvent.WITHDRAW): State.ENDED,
} | {(State.ENDED, event): State.ENDED for event in LedgerEvent}


@dataclass(slots=True)
class Entry:
    """An open question.

    Attributes:
        question: The question.
        since: When it was opened, in seconds of the caller's clock.
        state: Its state.
        route: The last surface that showed it; empty for none.
        answer: Its answer.
    """

    question: Question
    since: float
    state: State = State.WAITING
    route: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class ClosedQuestion:
    """What is kept of a question that ended, without the user's answer.

    `kind` is the method, `latency` in seconds.
    """

    id: str
    kind: str
    message: str
    origin: str
    outcome: Outcome
    answered_by: AnsweredBy
    evidence: str
    route: str
    latency: float
    reason: str
    ways: tuple[str, ...] = ()


class Ledger:
    """The open questions of a session, oldest first, the last `REMEMBERED` ended ones, and counts.

    `late_count` counts answers that came after the end.
    """

    def __init__(self) -> None:
        self._open: dict[str, Entry] = {}
        self.ended: deque[ClosedQuestion] = deque(maxlen=REMEMBERED)
        self.ended_count = 0
        self.late_count = 0

    @property
    def open(self) -> Collection[Entry]:
        """The rows of the questions that have not ended, oldest first."""
        return self._open.values()

    def entry(self, id: str) -> Entry | None:
        """The row of the open question `id`; None when it has ended, or never was."""
        return self._open.get(id)

    def add(self, question: Question, now: float) -> Entry:
        """Open `question` at `now`, in seconds.

        Raises:
            LocalProtocolError: A question with its id is open.
        """
        if question.id in self._open:
            raise LocalProtocolError(f"question {question.id} is open already")
        entry = self._open[question.id] = Entry(question, now)
        return entry

    def apply(
        self, id: str, event: LedgerEvent, *, answer: Answer | None = None, route: str = ""
    ) -> bool:
        """Record an event of question `id`.

        Args:
            id: The question.
            event: What happened.
            answer: The answer, for an event that ends it.
            route: The surface that shows it, for `LedgerEvent.ASK`.

        Returns:
            False if the question is no longer open.

        Raises:
            LocalProtocolError: An answer to a question not shown, or an end without an answer.
        """
        entry = self._open.get(id)
        state = State.ENDED if entry is None else entry.state
        after = TRANSITIONS.get((state, event))
        if after is None:
            raise LocalProtocolError(
                f"question {id} is {state.value}: it cannot take '{event.value}'"
            )
        if entry is None:
            self.late_count += event is LedgerEvent.ANSWER
            return False
        if after is State.ENDED:
            self._end(entry, event, answer)
        else:
            entry.route = route
        entry.state = after
        return True

    def _end(self, entry: Entry, event: LedgerEvent, answer: Answer | None) -> None:
        question = entry.question
        if answer is None:
            raise LocalProtocolError(
                f"'{event.value}' ends question {question.id}: it needs the answer it ends with"
            )
        entry.answer = answer
        del self._open[question.id]
        self.ended_count += 1
        self.ended.append(
            ClosedQuestion(
                question.id,
                question.kind.value,
                question.summary,
                question.origin,
                answer.outcome,
                answer.answered_by,
                answer.evidence,
                answer.route,
                answer.latency,
                answer.reason,
                answer.ways,
            )
        )
