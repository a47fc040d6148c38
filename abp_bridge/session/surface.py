"""Where a person is asked: what each surface offers the bridge, what comes back, and how it can
fail.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import anyio

from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome, Verdict
from abp_bridge.core.question import Question
from abp_bridge.core.surface import Advice
from abp_bridge.errors import AbpBridgeError
from abp_bridge.session.context import AskContext


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


class Page:
    """The bridge's own page, in the user's browser."""

    def show(
        self, question: Question, context: AskContext
    ) -> AbstractAsyncContextManager[PageQuestion]:
        """Put the question on the page for as long as the block lasts.

        Raises:
            SurfaceUnsupportedError: There can be no page.
        """
        raise NotImplementedError

    async def collect_answer(
        self,
        question: Question,
        context: AskContext,
        send_link: Callable[[PageQuestion], Awaitable[SurfaceResponse]],
    ) -> SurfaceResponse:
        """Put `question` on the page, send the user there, and return the first answer.

        Args:
            question: What is asked.
            context: What goes along with it.
            send_link: Sends the user to the page. Accepted means only that they go there; declined
                or cancelled ends the question.

        Raises:
            SurfaceUnsupportedError: There can be no page. And what `send_link` raises.
        """
        problems: list[Exception] = []
        async with self.show(question, context) as shown, anyio.create_task_group() as tasks:

            async def send() -> None:
                try:
                    response = await send_link(shown)
                except Exception as problem:
                    problems.append(problem)
                    tasks.cancel_scope.cancel()
                else:
                    if response.outcome in _LEFT:
                        shown.answer(response, _LEFT[response.outcome])
                    elif response.outcome is not Outcome.ACCEPTED:
                        why = f"its address was not shown: {response.outcome.value}"
                        problems.append(SurfaceUnsupportedError(why, lasting=False))
                        tasks.cancel_scope.cancel()

            tasks.start_soon(send)
            try:
                response = await shown.wait_answer()
                tasks.cancel_scope.shield = True  # the user was told that it counts
                return response
            except SurfaceUnsupportedError as problem:
                problems.append(problem)
            finally:
                tasks.cancel_scope.cancel()
        raise problems[0]


_LEFT = {
    Outcome.DECLINED: Ending.DECLINED_BY_HOST,
    Outcome.CANCELLED: Ending.CANCELLED_BY_HOST,
}


class InputProvider(Protocol):
    """Shows questions on surfaces of its own: a host, or what the user set up beside it."""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """Return the surfaces it offers now, best first.

        `calls` are those that a question may belong to (`AskContext.calls`), for a host that can be
        asked only inside of calls.
        """
        ...

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Show `question` on one surface and wait. Cancelling takes it down.

        Args:
            question: What is asked.
            context: What goes along with it.
            variant: Which of its surfaces, one of `variants`.
            problem: What was wrong with the answer before, when this asks again.

        Raises:
            SurfaceUnsupportedError: It cannot ask this after all: the next surface is tried.
            RemoteProtocolError: The host's answer is invalid: the next surface is tried.
            RouteChangedError: All surfaces are tried again.
            HostTimeoutError: The question ends, as timed out.
            SurfaceFailedError: The question ends, without an answer that counts.
            HostDisconnectedError: The question ends, as the error says.
        """
        ...


Resolve = Callable[[Question, AskContext], Awaitable[Answer]]
OnModelProgress = Callable[[Sequence[str], str], None]  # of these calls, in words


class OwnSurface:
    """A user's own surface that must be started before a question comes, or says where it is.

    `place` is how the user gets there, or why they do not; empty where there is nothing to say.
    """

    place: str = ""

    def attach(self, resolve: Resolve, on_progress: OnModelProgress) -> None:
        """Take what asks the user by all surfaces, for a question of the surface's own, and what
        hears how far a model's answer is.
        """

    async def make_ready(self) -> str:
        """Be reachable, and return the address, or nothing. Idempotent.

        Raises SurfaceUnsupportedError.
        """
        return ""


@runtime_checkable
class Advising(Protocol):
    """A host that knows how its user would be asked."""

    def advise(self, question: Question, context: AskContext) -> Advice:
        """Return what the user can do to be asked `question`, in the host and beside it."""
        ...
