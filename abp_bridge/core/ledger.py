"""Open questions, and the rule that each ends exactly once, whatever order answers, cancels,
deadlines and deaths arrive in.

Rule 1: everything that decides whether an answer counts stands in `TRANSITIONS`. Rule 2: this file
does not wait, and does not know who asks whom: callers tell it what happened, and do what the
effect says.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from abp_bridge.core.question import Answer, AnsweredBy, Outcome, Question
from abp_bridge.errors import LocalProtocolError

REMEMBERED = 64


class State(enum.Enum):
    WAITING = "waiting"  # for a surface that can ask it
    ASKED = "asked"  # in front of the person
    ENDED = "ended"


class Event(enum.Enum):
    ASK = "ask"  # a surface shows it (again)
    ANSWER = "answer"  # reviewed content, a decline or a dismissal came back
    REFUSE = "refuse"  # no surface is left
    DEADLINE = "deadline"  # the person's time is over
    WITHDRAW = "withdraw"  # its call was cancelled, its app or its host is gone


class Effect(enum.Enum):
    NONE = "none"
    DELIVER = "deliver"  # give the answer to the app
    TAKE_DOWN = (  # give the answer to the app, and take the question away from the person
        "take down"
    )
    RECORD = "record"  # too late: remember that it came, and drop it


TRANSITIONS: dict[tuple[State, Event], tuple[State, Effect]] = {
    (State.WAITING, Event.ASK): (State.ASKED, Effect.NONE),
    (State.WAITING, Event.REFUSE): (State.ENDED, Effect.DELIVER),
    (State.WAITING, Event.DEADLINE): (State.ENDED, Effect.DELIVER),
    (State.WAITING, Event.WITHDRAW): (State.ENDED, Effect.DELIVER),
    (State.ASKED, Event.ASK): (State.ASKED, Effect.NONE),
    (State.ASKED, Event.ANSWER): (State.ENDED, Effect.DELIVER),
    (State.ASKED, Event.REFUSE): (State.ENDED, Effect.DELIVER),
    (State.ASKED, Event.DEADLINE): (State.ENDED, Effect.TAKE_DOWN),
    (State.ASKED, Event.WITHDRAW): (State.ENDED, Effect.TAKE_DOWN),
    (State.ENDED, Event.ASK): (State.ENDED, Effect.RECORD),
    (State.ENDED, Event.ANSWER): (State.ENDED, Effect.RECORD),
    (State.ENDED, Event.REFUSE): (State.ENDED, Effect.RECORD),
    (State.ENDED, Event.DEADLINE): (State.ENDED, Effect.RECORD),
    (State.ENDED, Event.WITHDRAW): (State.ENDED, Effect.RECORD),
}


@dataclass(slots=True)
class Entry:
    """One question's row. `since` is when it was opened, `route` the last surface that asked it."""

    question: Question
    since: float
    state: State = State.WAITING
    route: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class ClosedQuestion:
    """What is remembered of a question that ended: nothing a person said."""

    id: str
    kind: str
    message: str
    origin: str
    outcome: Outcome
    answered_by: AnsweredBy
    route: str
    latency: float
    reason: str


class Ledger:
    """The open questions of a session, oldest first.

    Ended ones leave a short trace of bounded length.
    """

    def __init__(self) -> None:
        self._open: dict[str, Entry] = {}
        self.ended: deque[ClosedQuestion] = deque(maxlen=REMEMBERED)
        self.ended_count = 0
        self.late_count = 0

    @property
    def open(self) -> Collection[Entry]:
        return self._open.values()

    def entry(self, id: str) -> Entry | None:
        """The row of an open question."""
        return self._open.get(id)

    def add(self, question: Question, now: float) -> Entry:
        """Open `question`. Its id must not be open already."""
        if question.id in self._open:
            raise LocalProtocolError(f"question {question.id} is open already")
        entry = self._open[question.id] = Entry(question, now)
        return entry

    def apply(
        self, id: str, event: Event, *, answer: Answer | None = None, route: str = ""
    ) -> Effect:
        """Tell what happened to question `id`; do what comes back.

        An event that ends a question needs the `answer` it ends with. Events for a question that is
        no longer open are counted and change nothing. An answer to a question nobody asked is our
        own bug: LocalProtocolError.
        """
        entry = self._open.get(id)
        state = State.ENDED if entry is None else entry.state
        if (state, event) not in TRANSITIONS:
            raise LocalProtocolError(
                f"question {id} is {state.value}: it cannot take '{event.value}'"
            )
        after, effect = TRANSITIONS[state, event]
        if entry is None:
            self.late_count += event is Event.ANSWER
            return effect
        if after is State.ENDED:
            if answer is None:
                raise LocalProtocolError(
                    f"'{event.value}' ends question {id}: it needs the answer it ends with"
                )
            self._end(entry, answer)
        else:
            entry.route = route
        entry.state = after
        return effect

    def _end(self, entry: Entry, answer: Answer) -> None:
        entry.answer = answer
        question = entry.question
        del self._open[question.id]
        self.ended_count += 1
        self.ended.append(
            ClosedQuestion(
                question.id,
                question.kind.value,
                question.message,
                question.origin,
                answer.outcome,
                answer.answered_by,
                answer.route,
                answer.latency,
                answer.reason,
            )
        )
