"""What accompanies a question from the app to the surface (`AskContext`), and the events of a
session.

An observer only reads. Times are in seconds of the event loop's clock. Answers appear only in
`InputResolvedEvent`, secrets not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from abp_bridge.core.answer import Answer
from abp_bridge.core.ledger import Ledger, Notice, Progress
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.jsonrpc.loop import now

MAX_TIME = 3_600.0  # seconds that an app may give the user
MAX_EXTENSION = 86_400.0  # seconds that a user may add who says that they are there
NO_ANSWER = "nobody answered"


class Asking:
    """One open question: its ledger entry, its time, and what it waits for.

    Args:
        question: What is asked.
        ledger: Where it is opened.
        limit: Seconds that the user has, and gets again with each `extend`.
        is_fixed: The app set that time: it cannot be extended.
        around: The open question that this one is part of, which ends it too.

    Attributes:
        entry: Its ledger entry.
        scope: Is cancelled at its deadline.
        waits_for: What has not happened if the time ends now; `within 30 s` follows.
        over: It has ended: an answer comes too late.
        renew_url: Makes a new link to the question on the page, for the inbox that it is given;
            the link before becomes invalid. None while the question is not on the page.
    """

    def __init__(
        self,
        question: Question,
        ledger: Ledger,
        limit: float,
        *,
        is_fixed: bool = False,
        around: Asking | None = None,
    ) -> None:
        self.entry = ledger.add(question, now())
        self.scope = anyio.CancelScope(deadline=self.entry.since + limit)
        self.is_fixed = is_fixed
        self.waits_for = NO_ANSWER
        self.over = False
        self.renew_url: Callable[[str], str] | None = None
        self._ledger = ledger
        self._limit = limit
        self._around = None if around is None or around.is_fixed else around
        self._latest = self.scope.deadline + MAX_EXTENSION

    def show_on(self, route: str, observe: Observer) -> None:
        """A surface shows the question."""
        self.waits_for = NO_ANSWER
        self._ledger.show(self.entry.question.id, route)
        observe(AttemptEvent(now(), self.entry.question.id, route))

    def unanswered(self, outcome: Outcome, reason: str) -> Answer:
        """Return the answer of a question that no one answered."""
        route, latency = self.entry.route, now() - self.entry.since
        return Answer(outcome, AnsweredBy.NOBODY, route=route, latency=latency, reason=reason)

    def end(self, outcome: Outcome, reason: str) -> None:
        """End the question without an answer, unless it has ended."""
        if self.entry.answer is None:
            self._ledger.settle(self.entry.question.id, self.unanswered(outcome, reason))

    @property
    def deadline(self) -> float:
        """When its time is over."""
        own = self.scope.deadline
        return own if self._around is None else min(own, self._around.deadline)

    def extend(self) -> None:
        """Give the user as long as they had at first, from now on; bounded in all."""
        if self._around is not None:
            self._around.extend()
        wanted = min(now() + self._limit, self._latest)
        self.scope.deadline = max(self.scope.deadline, wanted)


@dataclass(frozen=True, slots=True)
class AskContext:
    """All that is known of a question beside its content.

    The requester's side sets the first part, the session the second (`AppConnection.elicit`,
    `Elicitor.resolve`).

    Attributes:
        calls: The calls that it may belong to, the likeliest first; one if that is certain.
        tools: What those calls call, by the app's own names.
        timeout: The user's time in seconds as the app sets it; None for the session's usual one.
        connection: Which of the session's connections it came by: two apps may share a name.
        app: What the app calls itself, safe to show.
        icon: The app's picture, as a `data:` address of a small PNG, or empty.
        host: What the host calls itself, safe to show.
        asking: Its time; before it is opened, that of the question it is part of.
        observe: Receives the events.
    """

    calls: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    timeout: float | None = None
    connection: str = ""
    app: str = ""
    icon: str = field(default="", repr=False)
    host: str = ""
    asking: Asking | None = None
    observe: Observer = field(default=lambda event: None, repr=False)

    @property
    def call(self) -> str | None:
        """The call that it surely belongs to."""
        return self.calls[0] if len(self.calls) == 1 else None

    def time_limit(self, usual: float) -> float:
        """The user's seconds: what the app gives, at most `MAX_TIME`, else `usual`."""
        return min(self.timeout, MAX_TIME) if self.timeout else usual

    def wait_for(self, words: str = NO_ANSWER) -> None:
        """Say what the question waits for now."""
        if self.asking is not None:
            self.asking.waits_for = words


NO_CONTEXT = AskContext()  # of a question that nothing more is known of


@dataclass(frozen=True, slots=True)
class InputRequestEvent:
    """An app asked."""

    time: float
    question: Question
    context: AskContext


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """The question goes to a surface; it may go to several, one after another.

    `route` has the surface's name and how it is downgraded there.
    """

    time: float
    question: str
    route: str


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A step of a walk is shown: its `number` from one, its title and its buttons."""

    time: float
    question: str
    number: int
    title: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChoiceEvent:
    """A button was pressed `seconds` after it was shown; without a label: dismissed."""

    time: float
    question: str
    number: int
    label: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class InputResolvedEvent:
    """The question has ended with its one answer."""

    time: float
    question: Question
    answer: Answer
    context: AskContext


@dataclass(frozen=True, slots=True)
class NoticeEvent:
    """The app with the id `app` told something."""

    time: float
    app: str
    notice: Notice


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """The app with the id `app` told how far it is, as it said it."""

    time: float
    app: str
    progress: Progress


SessionEvent = (
    InputRequestEvent
    | AttemptEvent
    | StepEvent
    | ChoiceEvent
    | InputResolvedEvent
    | NoticeEvent
    | ProgressEvent
)
Observer = Callable[[SessionEvent], None]


def no_observer(event: SessionEvent) -> None:
    """The observer of a session that nobody watches."""
