"""What happens in a session, for whoever watches it: questions and what becomes of them, and what
apps tell. Each once, in order, when it happens.

Times are passed in, in seconds of one clock that only goes forward. What a person answered is in
`InputResolvedEvent` only, and not at all for a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import Answer, Question


@dataclass(frozen=True, slots=True)
class InputRequestEvent:
    """An app asked."""

    time: float
    question: Question


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """The question goes to a surface: `route` is its name, and how it is downgraded there.

    It may go to several, one after another.
    """

    time: float
    question: str
    route: str


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A step of a walk is shown: the `number`th, from one, with its title and the labels of its
    buttons.
    """

    time: float
    question: str
    number: int
    title: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChoiceEvent:
    """A button of a step was pressed, `seconds` after it was shown; without a label, the step was
    dismissed.
    """

    time: float
    question: str
    number: int
    label: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class InputResolvedEvent:
    """The question has ended, with its one answer: how, by whom, by which route, and in how many
    seconds.
    """

    time: float
    question: Question
    answer: Answer


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
