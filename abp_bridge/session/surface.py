"""Where a user is asked: what each surface offers the bridge, what it returns, and how it fails."""

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
    """What a surface returned.

    Attributes:
        outcome: Accepted, declined or cancelled; invalid if it is not an answer.
        content: By field name, not validated.
        seconds: The host's own time, for several steps their `median`; None if the user answered
            on a surface of their own.
        exact: Whether `seconds` measures this answer alone (`evidence.Observation`).
        variant: The host's surface, if it answered a question of another surface.
        answered_by: Who answered, if the host says that it was not a user.
        verdict: Who answered, if the surface knows.
        metadata: What the surface reports to the requester.
        reason: Why there is no answer, if the surface can say more than the outcome does.
        host_words: Why, in the host's own words; safe to show.
        host_meta: The `_meta` of the host's result, without what only the bridge says.
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
    host_meta: JsonObject = field(default_factory=dict)


def median(seconds: Sequence[float]) -> float:
    """Return the median step time, so that one stalled step does not dominate."""
    return sorted(seconds)[len(seconds) // 2]


def find_answerer(said: Iterable[AnsweredBy | None]) -> AnsweredBy | None:
    """Return who answered several steps, of those that the host named.

    One machine step is enough; of several kinds, the answerer is unknown.
    """
    named = {each for each in said if each is not None}
    return AnsweredBy.UNKNOWN if len(named) > 1 else next(iter(named), None)


class SurfaceUnsupportedError(AbpBridgeError):
    """A surface cannot ask this after all. `lasting`: it never will in this session."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


class HostUnattendedError(SurfaceUnsupportedError):
    """The host says that no user is there."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, lasting=False)


class SurfaceFailedError(AbpBridgeError):
    """A surface took a question, and brought no answer that counts: asked again it may."""


class HostDisconnectedError(AbpBridgeError):
    """The host, or the turn of the question, ended first; `outcome` is the question's."""

    def __init__(
        self,
        reason: str = "the host ended before it answered",
        outcome: Outcome = Outcome.WITHDRAWN,
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome


class RouteChangedError(AbpBridgeError):
    """The question must be asked by another request of the host, or in another call."""


class HostTimeoutError(AbpBridgeError):
    """The host has what is asked, and did not come back with an answer in time."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """The links to a question on the page.

    Attributes:
        url: Admits the first browser that opens it. No model may read it.
        address: Opens the question with its code. Public.
        show_code: Shows the user the code where no model reads, and says where; empty if it cannot.
    """

    url: str
    address: str
    show_code: Callable[[], Awaitable[str]]


class Ending(enum.Enum):
    """How a question on the page ended, for those who still have it open."""

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
    """A question on the bridge's own page.

    `url` and `address` are a `PageLink`'s; `code` opens `address`, and no model may read it.
    `directions` say how to reach the page over SSH, or nothing.
    """

    url: str
    address: str
    code: str
    directions: str

    @property
    def opened(self) -> bool:
        """Whether the user has seen it."""
        ...

    async def open(self) -> str:
        """Open the page in the user's browser, in one tab for all questions; return the problem."""
        ...

    def renew_url(self, inbox: str) -> str:
        """Return a new link for the user's `inbox`; the one before becomes invalid."""
        ...

    async def wait_late_browser(self) -> bool:
        """Whether the browser that `open` waited for in vain comes after all; waits a while."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the user closes the page for good, which cancels what they saw there."""
        ...

    async def wait_answer(self) -> SurfaceResponse:
        """Wait for the user's reply.

        Raises SurfaceUnsupportedError when it was refused.
        """
        ...

    def refuse(self, reason: str) -> None:
        """Make `wait_answer` raise, unless the user has seen the question or it has ended."""
        ...

    def answer(self, reply: SurfaceResponse, ending: Ending = Ending.ELSEWHERE) -> bool:
        """Answer it from elsewhere; the first answer counts, return False for a later one.

        `ending` is shown where it is still open.
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

        `send_link` returns accepted if the user goes there; declined or cancelled ends the
        question.

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
    """Show questions on surfaces of its own: a host, or what the user set up beside it."""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """Return the surfaces for a question of one of `calls` (`AskContext.calls`), best first."""
        ...

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Show `question` on one of `variants` and wait. Cancelling takes it down.

        `problem` says what was wrong with the answer before.

        Raises:
            SurfaceUnsupportedError: It cannot ask this: the next surface is tried.
            RemoteProtocolError: The host's answer is invalid: the next surface is tried.
            RouteChangedError: All surfaces are tried again.
            HostTimeoutError: The question ends, as timed out.
            SurfaceFailedError: The question ends, without an answer that counts.
            HostDisconnectedError: The question ends, as the error says.
        """
        ...


Resolve = Callable[[Question, AskContext], Awaitable[Answer]]
OnModelProgress = Callable[[Sequence[str], str], None]  # of these calls, in words


class ElicitorApi(Protocol):
    """What puts a proxy's questions to a host, and answers each exactly once."""

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        """Ask, and return the one answer."""
        ...


class OwnSurface:
    """A user's own surface that must be started before a question, or reports where it is.

    `place` says how the user gets there, or why they cannot.
    """

    place: str = ""

    def attach(self, resolve: Resolve, on_progress: OnModelProgress) -> None:
        """Receive what resolves a question of the surface's own, and what reports a model's
        progress.
        """

    async def make_ready(self) -> str:
        """Start, and return the address, or nothing. Idempotent.

        Raises SurfaceUnsupportedError.
        """
        return ""


@runtime_checkable
class Advising(Protocol):
    """A host that knows how its user would be asked."""

    def advise(self, question: Question, context: AskContext) -> Advice:
        """Return what the user can do to be asked `question`, in the host and beside it."""
        ...
