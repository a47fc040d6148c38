"""What every host offers the bridge (`Host`), and what the bridge offers every host
(`SessionApi`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from abp_bridge.core.capability import CallResult, Capability, SavedFile
from abp_bridge.core.json_value import Json
from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import Kind, Outcome, Question
from abp_bridge.interfaces.surface import InputProvider


class Host(InputProvider, Protocol):
    """The answering side of a session."""

    @property
    def name(self) -> str:
        """The host as it calls itself."""
        ...

    async def send_link(self, question: Question, url: str) -> Outcome:
        """Tell the person, by whatever this host shows, that `question` waits at `url`.

        Returns how that was answered. Cancelling takes it down.

        Raises as `ask`: SurfaceUnsupportedError when this host has no words for it.
        """
        ...

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """The folders that the host grants, as absolute paths.

        Bounded in time, and never raises but for cancellation.
        """
        ...

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """The app told something; `notice` has been recorded already."""
        ...

    def on_capabilities_changed(self) -> None: ...

    def on_resources_changed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class AppCapability:
    """A capability of a connected app."""

    app: str
    origin: str
    capability: Capability


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call that is over: its result, what the app told meanwhile (a line each), and the files its
    data was saved to.

    `refused` are the kinds of its questions that no surface could ask.
    """

    result: CallResult
    summary: Sequence[str] = ()
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


class SessionError(Exception):
    """A request of the host's that cannot be met, with an ABP error code and words that say what to
    do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Call(Protocol):
    """A call in progress. It lives in the session; whoever waits for it is only attached."""

    id: str

    async def wait(self) -> CallOutcome: ...

    async def wait_idle(self) -> None:
        """Wait until its app's own turn is over: what it asks at the same time is on its way."""
        ...

    def cancel(self, reason: str) -> None: ...


class SessionApi(Protocol):
    """What a host can ask of the session. Methods raise SessionError."""

    async def connect(self, target: str | None) -> Sequence[str]:
        """Connect the app at `target`, or those named at the start; returns the ids of the apps
        that are connected now.
        """
        ...

    async def disconnect(self, app: str | None) -> Sequence[str]: ...

    def capabilities(self) -> Sequence[AppCapability]: ...

    def status(self) -> dict[str, Json]: ...

    async def start(
        self,
        capability: str,
        params: Mapping[str, Json],
        *,
        app: str | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_end: Callable[[CallOutcome], None] | None = None,
    ) -> Call:
        """Begin a call; apps named at the start are connected first.

        Whoever waits may do it by `on_end` too.
        """
        ...

    async def render_pdf(self, app: str | None) -> SavedFile: ...

    @property
    def renders(self) -> bool:
        """Whether a connected app has a page that can be rendered."""
        ...

    def resources(self) -> Sequence[Resource]: ...

    def read(self, uri: str) -> tuple[str, str | bytes]:
        """A resource's MIME type and content."""
        ...

    async def close(self, reason: str) -> None:
        """End the session: what is open ends, the apps are told. Bounded in time."""
        ...


def state_uri(app: str, field: Json) -> str:
    """The resource of one state field of an app."""
    return f"abp://{app}/state/{quote(str(field), safe='', errors='surrogatepass')}"
