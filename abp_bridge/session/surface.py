"""Where a person is asked: what each surface offers the bridge, what comes back, and how it can
fail.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.evidence import Verdict
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.surface import Advice
from abp_bridge.errors import AbpBridgeError


@dataclass(frozen=True, slots=True)
class SurfaceResponse:
    """What came back from a surface.

    Attributes:
        outcome: Accepted, declined or cancelled by whoever answered; invalid where what came back
            was no answer.
        content: By field name, as it came: the bridge validates it.
        seconds: The time that a host took by itself, for a step as most were (`median`); None
            where the person answered on a surface of their own.
        exact: Whether `seconds` measures this answer alone (`evidence.Observation`).
        variant: Of the host, where it answered what was asked on another surface.
        answered_by: Who answered, as the host itself says, where that was no person.
        verdict: Who did, where the surface had them asked and knows.
        metadata: What the surface has to say of the answer, for who asked.
        reason: Why there is none, where the surface can say more than the outcome does.
        host_words: Why, in the host's own words, where it gave any; safe to show.
    """

    outcome: Outcome
    content: JsonObject = field(default_factory=dict)
    seconds: float | None = None
    exact: bool = True
    variant: SurfaceVariant | None = None
    answered_by: AnsweredBy | None = None
    verdict: Verdict | None = None
    metadata: JsonObject = field(default_factory=dict)
    reason: str = ""
    host_words: str = ""


def median(seconds: Sequence[float]) -> float:
    """Of the seconds of several steps, those in the middle: one that stalled says nothing of who
    took the others.
    """
    return sorted(seconds)[len(seconds) // 2]


def find_answerer(said: Iterable[AnsweredBy | None]) -> AnsweredBy | None:
    """Who gave an answer of several steps, of each of which the host `said` who gave it where that
    was no person: one such step is enough, and of several kinds nobody knows who gave the whole.
    """
    named = {each for each in said if each is not None}
    return AnsweredBy.UNKNOWN if len(named) > 1 else next(iter(named), None)


class SurfaceUnsupportedError(AbpBridgeError):
    """A surface cannot ask this after all. `lasting`: it never will in this session."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


class HostUnattendedError(SurfaceUnsupportedError):
    """A host says that nobody answered: it has no person to be sent elsewhere either."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, lasting=False)


class SurfaceFailedError(AbpBridgeError):
    """A surface took a question, and brought no answer that counts: asked again it may."""


class HostDisconnectedError(AbpBridgeError):
    """The host, or its turn that a question belongs to, ended before it was answered: why, and what
    that makes of the question.
    """

    def __init__(
        self,
        reason: str = "the host ended before it answered",
        outcome: Outcome = Outcome.WITHDRAWN,
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome


class RouteChangedError(AbpBridgeError):
    """The host can no longer be asked where it was: another of its requests, or another call, has
    to take the question.
    """


class HostTimeoutError(AbpBridgeError):
    """The host has what is asked, and did not come back with an answer in time."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """The ways to a question on the page.

    Attributes:
        url: Makes the first browser that opens it the person's. Nothing that a model reads may
            have it.
        address: Where the question is for whoever has its code. Everybody may read it.
        show_code: Shows the person the code where no model reads, and says where that was; empty
            where there is no such place.
    """

    url: str
    address: str
    show_code: Callable[[], Awaitable[str]]


class Ending(enum.Enum):
    """How a question on the page ended, for whoever still has it open."""

    SENT = "sent"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    TIMED_OUT = "timed-out"
    CLOSED = "closed"  # the page was
    MOVED = "moved"  # it is asked elsewhere, or nowhere
    ELSEWHERE = "elsewhere"  # it was answered there
    DECLINED_BY_HOST = "declined-by-host"
    CANCELLED_BY_HOST = "cancelled-by-host"
    ANSWERED_BY_PROGRAM = "answered-by-program"
    REJECTED_BY_PROGRAM = "rejected-by-program"


class PageQuestion(Protocol):
    """A question on the bridge's own page. `url` and `address` are a `PageLink`'s; `code` opens
    `address`, and is no more to be read by a model than `url` is. `directions` say how somebody who
    came over SSH gets to either; empty where nobody did.
    """

    url: str
    address: str
    code: str
    directions: str

    @property
    def opened(self) -> bool:
        """Whether the person has seen it."""
        ...

    async def open(self) -> str:
        """Have the person's own browser at the page, in one tab for all questions: why that failed,
        or nothing.
        """
        ...

    def renew_url(self, inbox: str) -> str:
        """A link like `url`, for a browser that comes from the person's `inbox`, where they find
        what is asked next; the last one that was made so is no use any more.
        """
        ...

    async def wait_late_browser(self) -> bool:
        """Whether the browser that `open` waited for in vain comes after all; waits a while."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the person closed the page and does not come back to it: what they saw there
        is cancelled by that, unless they had put it off; then until it is over.
        """
        ...

    async def wait_answer(self) -> SurfaceResponse:
        """The person's reply, when it comes.

        Raises SurfaceUnsupportedError when it was refused.
        """
        ...

    def refuse(self, reason: str) -> None:
        """Ask nobody there any more: `wait_answer` raises that, unless the person has seen it or it
        is over.
        """
        ...

    def answer(self, reply: SurfaceResponse, ending: Ending = Ending.ELSEWHERE) -> bool:
        """Answer it in the person's place, from wherever they did: the first answer counts, False
        for a later one.

        `ending` is said to whoever still has it open.
        """
        ...


class QuestionDisplay(Protocol):
    """The bridge's own page, in the person's browser."""

    def show(self, question: Question) -> AbstractAsyncContextManager[PageQuestion]:
        """Put the question on the page for as long as the block lasts.

        Raises SurfaceUnsupportedError when there can be no page.
        """
        ...


class Page(QuestionDisplay, Protocol):
    """A page that a host can send its person to."""

    async def ask(
        self, question: Question, send_link: Callable[[PageQuestion], Awaitable[SurfaceResponse]]
    ) -> SurfaceResponse:
        """Put `question` on the page, and have a host send its person there.

        Args:
            question: What is asked.
            send_link: Is given the question on the page, and says how the host answered: accepting
                means that the person goes there, no more; anything else ends the question.

        Returns:
            What was answered on the page.

        Raises:
            SurfaceUnsupportedError: There can be no page. And what `send_link` raises.
        """
        ...


class InputProvider(Protocol):
    """Asks on surfaces of its own: a host, or what the person set up beside it."""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The surfaces it offers now, best first.

        `calls` are the calls that a question may belong to (`Question.calls`), for a host that is
        asked only inside of calls.
        """
        ...

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Show `question` on one surface and wait. Cancelling takes it down.

        Args:
            question: What is asked.
            variant: Which of its surfaces, one of `variants`.
            problem: What was wrong with the answer before, when this asks again.
            observe: Is told of each step, by a surface that asks in steps.

        Returns:
            What came back; nothing is made up.

        Raises:
            SurfaceUnsupportedError: It cannot ask this after all: the next surface is tried.
            RemoteProtocolError: The host answered what is no answer: the next surface is tried.
            RouteChangedError: All surfaces are tried again.
            HostTimeoutError: The question ends, as timed out.
            SurfaceFailedError: The question ends, without an answer that counts.
            HostDisconnectedError: The question ends, as the error says.
        """
        ...


@runtime_checkable
class Startable(Protocol):
    """What has to be found by others before a question comes."""

    async def start(self) -> str:
        """Be there: the address. Idempotent. Raises SurfaceUnsupportedError."""
        ...


@runtime_checkable
class Locatable(Protocol):
    """What may have to say how a person gets there, or why they do not."""

    @property
    def place(self) -> str:
        """Those words; empty where there is nothing to say."""
        ...


@runtime_checkable
class Advising(Protocol):
    """Who knows how a person comes to be asked where nobody was."""

    def advise(self, question: Question) -> Advice:
        """How `question` comes to its person: what they can do in the host, and beside it."""
        ...


class QuestionsEndpoint(Protocol):
    """The questions API of this process, for all of its sessions."""

    @property
    def visited(self) -> bool:
        """Whether a program listens, or has asked lately."""
        ...

    @property
    def url(self) -> str:
        """Where it is served; empty as long as it is not."""
        ...

    async def start(self) -> None:
        """Serve, if that has not begun. Raises SurfaceUnsupportedError."""
        ...

    async def ask(self, question: Question, session: str, page: PageQuestion) -> SurfaceResponse:
        """List `question` until `page` is answered, here or elsewhere, or until this is
        cancelled.
        """
        ...


class PageServer(Page, Protocol):
    """Where the process can be found by a person's browser, and by their programs."""

    def questions(self, port: int, password: str) -> QuestionsEndpoint:
        """The questions API of this process, which nothing listens for yet."""
        ...
