"""What every host offers the bridge (`Host`), and what the bridge offers every host (`Desk`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from urllib.parse import quote

from abp_bridge.core.capability import CallResult, Capability, SavedFile
from abp_bridge.core.event import Observer, unobserved
from abp_bridge.core.matrix import Column
from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import Kind, Outcome, Question
from abp_bridge.core.schema import Json


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from a surface: accepted, declined or cancelled; the content is not reviewed yet."""

    outcome: Outcome
    content: Mapping[str, Json] = field(default_factory=dict)


class SurfaceRefused(Exception):
    """A surface cannot ask this after all. `lasting`: it never will in this session."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


class HostGone(Exception):
    """The host, or its turn that a question belongs to, ended before it was answered: why, and what that makes of the question."""

    def __init__(self, reason: str = "the host ended before it answered", outcome: Outcome = Outcome.WITHDRAWN) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Moved(Exception):
    """The host can no longer be asked where it was: another of its requests, or another call, has to take the question."""


class HostAway(Exception):
    """The host has what is asked, and did not come back with an answer in time."""


class Sheet(Protocol):
    """A question on the bridge's own page. `url` is a link to it."""

    url: str

    @property
    def opened(self) -> bool:
        """Whether somebody followed the link."""

    async def answered(self) -> Reply:
        """The person's reply, when it comes."""

    def answer(self, reply: Reply, words: str = ...) -> bool:
        """Answer it in the person's place, from wherever they did: the first answer counts, False for a later one.

        `words` are said to whoever still has it open.
        """


class Page(Protocol):
    """The bridge's own page, in the person's browser."""

    def shown(self, question: Question) -> AbstractAsyncContextManager[Sheet]:
        """The question is on the page for as long as the block lasts. Raises SurfaceRefused when there can be no page."""


class InputProvider(Protocol):
    """Asks on surfaces of its own: a host, or what the person set up beside it."""

    def columns(self, carriers: Sequence[str] = ()) -> Sequence[Column]:
        """The surfaces it offers now, best first; to a question that one of the calls `carriers` can take to it."""

    async def ask(self, question: Question, column: Column, problem: str = "", observe: Observer = unobserved) -> Reply:
        """Show `question` on one surface and wait. Cancelling takes it down. Raises SurfaceRefused, Moved, HostAway, HostGone
        or RemoteProtocolError.

        `problem` says what was wrong with the answer before, when this asks again. A surface that asks in steps tells `observe` of each.
        """


@runtime_checkable
class Served(Protocol):
    """What has to be found by others before a question comes."""

    async def begin(self) -> str:
        """Be there: the address. Idempotent. Raises SurfaceRefused."""


class Host(InputProvider, Protocol):
    """The answering side of a session."""

    @property
    def name(self) -> str:
        """The host as it calls itself."""

    async def point(self, question: Question, url: str) -> Outcome:
        """Tell the person, by whatever this host shows, that `question` waits at `url`. Returns how that was answered. Cancelling takes it down.

        Raises as `ask`: SurfaceRefused when this host has no words for it.
        """

    async def roots(self, carriers: Sequence[str] = ()) -> Sequence[str]:
        """The folders that the host grants, as absolute paths. Bounded in time, and never raises but for cancellation."""

    def told(self, app: str, origin: str, notice: Notice) -> None:
        """The app told something; `notice` has been recorded already."""

    def capabilities_changed(self) -> None: ...

    def resources_changed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """A capability of a connected app."""

    app: str
    origin: str
    capability: Capability


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that is over: its result, what the app told meanwhile (a line each), and the files its data was saved to.

    `refused` are the kinds of its questions that no surface could ask.
    """

    result: CallResult
    told: Sequence[str] = ()
    files: Sequence[SavedFile] = ()
    refused: frozenset[Kind] = frozenset()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something a host can read. `size` is in bytes where it is known."""

    uri: str
    name: str
    description: str
    mime_type: str
    size: int | None = None


class DeskError(Exception):
    """A request of the host's that cannot be met, with an ABP error code and words that say what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Call(Protocol):
    """A call in progress. It lives in the session; whoever waits for it is only attached.

    `settle` is within how many seconds questions arrive that its app asks at the same time.
    """

    id: str
    settle: float

    async def wait(self) -> Ended: ...

    def cancel(self, reason: str) -> None: ...


class Desk(Protocol):
    """What a host can ask of the session. Methods raise DeskError."""

    async def connect(self, target: str | None) -> Sequence[str]:
        """Connect the app at `target`, or those named at the start; returns the ids of the apps that are connected now."""

    async def disconnect(self, app: str | None) -> Sequence[str]: ...

    def offers(self) -> Sequence[Offer]: ...

    def status(self) -> dict[str, Json]: ...

    async def start(
        self,
        capability: str,
        params: Mapping[str, Json],
        *,
        app: str | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_end: Callable[[Ended], None] | None = None,
    ) -> Call:
        """Begin a call; apps named at the start are connected first. Whoever waits may do it by `on_end` too."""

    async def render_pdf(self, app: str | None) -> SavedFile: ...

    @property
    def renders(self) -> bool:
        """Whether a connected app has a page that can be rendered."""

    def resources(self) -> Sequence[Resource]: ...

    def read(self, uri: str) -> tuple[str, str | bytes]:
        """A resource's MIME type and content."""

    async def close(self, reason: str) -> None:
        """End the session: what is open ends, the apps are told. Bounded in time."""


def state_uri(app: str, field: Json) -> str:
    """The resource of one state field of an app."""
    return f"abp://{app}/state/{quote(str(field), safe='', errors='surrogatepass')}"
