"""What every host offers the bridge (`Host`), and what the bridge offers every host
(`SessionApi`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from abp_bridge.core.capability import CallResult, Capability, SavedFile
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.ledger import Notice, Progress
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.surface import UnaskedQuestion
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.offer import Offer
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import InputProvider, PageLink, SurfaceResponse


class HostSurfaces(InputProvider, Protocol):
    """How a host asks its person."""

    @property
    def name(self) -> str:
        """The host as it calls itself."""
        ...

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Tell the person, by whatever this host shows, that `question` waits at `link`; where a
        model would read that, only its address, and after its code was shown elsewhere.

        Cancelling takes it down.

        Returns:
            How that was answered: accepting means that the person goes there, no more.

        Raises:
            SurfaceUnsupportedError: This host has no words for it.
            HostDisconnectedError: And the other errors of `InputProvider.prompt`.
        """
        ...


class Host(HostSurfaces, Protocol):
    """The answering side of a session."""

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """The folders whose files the host lets apps be given, as absolute paths.

        `calls` are the calls that a question may belong to (`AskContext.calls`). Bounded in time;
        a host that does not say grants none.
        """
        ...

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """The app told something; `notice` has been recorded already."""
        ...

    def on_capabilities_changed(self) -> None:
        """`SessionApi.capabilities` has changed: an app came or went, or offers other things."""
        ...

    def on_resources_changed(self) -> None:
        """`SessionApi.resources` has changed: a state field or a saved file is new."""
        ...

    def lost_notifications(self) -> Mapping[str, int]:
        """How many notifications never reached this host: `{replacedByNewer, dropped}`; empty when
        all did.
        """
        ...


@dataclass(frozen=True, slots=True)
class AppCapability:
    """A capability of an app: of a connected one, by the id of that, or of one named at the start
    that will be, without. `target` is how the app was named.
    """

    app: str
    origin: str
    capability: Capability
    target: str = ""


@dataclass(frozen=True, slots=True)
class ExpectedApps:
    """What apps will offer that are not connected yet.

    Attributes:
        capabilities: Each without an id of its app, which has none yet.
        renders: Whether one of the apps has a page that can be rendered.
        unknown: The apps that nothing is known of, as they may be shown.
    """

    capabilities: tuple[AppCapability, ...] = ()
    renders: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call that is over.

    Attributes:
        result: What the app returned, or why it failed; large and binary data as places of files.
        summary: What the app told meanwhile, a line each, safe to show.
        files: The files that its data was saved to.
        refused: The kinds of its questions that no surface could ask.
        unasked: Those of its questions that no person was asked.
    """

    result: CallResult
    summary: Sequence[str] = ()
    files: Sequence[SavedFile] = ()
    refused: frozenset[Kind] = frozenset()
    unasked: Sequence[UnaskedQuestion] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something a host can read. `size` is in bytes where it is known."""

    uri: str
    name: str
    description: str
    mime_type: str
    size: int | None = None


class SessionError(AbpBridgeError):
    """A request of the host's that cannot be met, with an ABP error code and words that say what to
    do.

    `about` are capabilities whose parameters help with that, those that may be meant first.
    """

    def __init__(self, code: str, message: str, about: Sequence[AppCapability] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.about = about


class Call(Protocol):
    """A call in progress. It lives in the session; whoever waits for it is only attached."""

    id: str

    async def wait(self) -> CallOutcome:
        """Wait for its end, however it comes. Cancelling this leaves the call running."""
        ...

    async def wait_idle(self) -> None:
        """Wait until its app's own turn is over: what it asks at the same time is on its way."""
        ...

    def cancel(self, reason: str) -> None:
        """The host no longer wants it: its questions are taken down at once, and the app is told.

        `reason` is for the app's developer. A call that is over stays as it is.
        """
        ...


class SessionApi(Protocol):
    """What a host can ask of the session.

    Apps are named by the ids that `connect` returns. What cannot be met raises SessionError, with
    an ABP error code.
    """

    async def connect(self, target: str | None) -> Sequence[str]:
        """Connect the app at `target`, one that was named at the start also by what is shown of
        it; None for all of those.

        Returns:
            The ids of the apps that are there now: all of them, or those at `target`.

        Raises:
            SessionError: None of them can be connected, or none was named; or several are shown as
                `target`, or what is shown is none of them.
        """
        ...

    async def disconnect(self, app: str | None) -> Sequence[str]:
        """End the connection of `app`, or of all where it is None; open calls fail.

        Returns:
            The ids of those that were connected.

        Raises:
            SessionError: `DISCONNECTED` when there is no such app.
        """
        ...

    def capabilities(self) -> Sequence[AppCapability]:
        """What the connected apps can do, app by app."""
        ...

    def find_app(self, target: str) -> str | None:
        """The id of the app that is connected from `target`; None where none is."""
        ...

    def expected(self) -> ExpectedApps:
        """What the apps named at the start will do that have not been connected yet, as far as it
        is known from earlier sessions.
        """
        ...

    def status(self) -> dict[str, JsonValue]:
        """What is going on, as JSON, with nothing that a person answered.

        Returns:
            `host`: its name.
            `surfaces`: `[{surface, version, provider, at?}]`, best first.
            `apps`: by id, `{name, origin, abpVersion, capabilities, running, told, progress, state,
            warnings}`.
            `notConnected`: `[{app, problem, toolsKnown?}]` of the apps named at the start; the
            last is whether their tools are known from earlier sessions, where those are kept.
            `questions`: `{open, ended, endedCount, lateCount}`; `secondsLeft` in `open` is until
            nobody is waited for, `link` there the address that an app wants opened; `seconds` in
            `ended` is from asking to the answer.
            `lostNotifications`: `Host.lost_notifications`; only where there are any.
            `confirm`: by what the person chose to confirm, the names of those capabilities; only
            where they chose.
            `warnings`: of names chosen so that no capability has; only where there are any.
        """
        ...

    async def start(
        self,
        capability: str,
        params: JsonObject,
        *,
        app: str | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_end: Callable[[CallOutcome], None] | None = None,
        inline: bool = False,
    ) -> Call:
        """Begin a call; apps named at the start are connected first.

        Args:
            capability: Its name.
            params: Checked against its input schema.
            app: Whose capability, where several have it.
            timeout: The app's time in seconds, without what its person takes; None for the
                session's own.
            on_progress: Is told how far it is, as the app counts.
            on_end: Is told once how it ended, as `Call.wait` is.
            inline: Whether the data stay as the app gave them, and nothing of them goes to a file.

        Raises:
            SessionError: No app has the capability, several have it, or `params` do not fit.
        """
        ...

    async def start_question(
        self,
        kind: Kind,
        params: JsonObject,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        on_end: Callable[[CallOutcome], None] | None = None,
    ) -> Call:
        """Begin to ask the person something that the host's own model wants to know; how the call
        ends is the answer.

        Args:
            kind: What is asked.
            params: As an ABP app would give them; nothing secret.
            on_progress: Is told how far it is, where a model answers.
            on_end: As for `start`.

        Raises:
            SessionError: `INVALID_PARAMS`: it cannot be put to anybody, or asks for a secret.
        """
        ...

    async def render_pdf(self, app: str | None) -> SavedFile:
        """Save the page of `app` as a PDF, or of the first that has one where it is None.

        Raises:
            SessionError: `NOT_SUPPORTED` when there is no page, else what went wrong.
        """
        ...

    @property
    def renders(self) -> bool:
        """Whether a connected app has a page that can be rendered."""
        ...

    def resources(self) -> Sequence[Resource]:
        """The state fields that apps told, and the saved files."""
        ...

    def read(self, uri: str) -> tuple[str, str | bytes]:
        """The MIME type and the content of a resource: text as str, anything else as bytes.

        Raises:
            SessionError: `UNKNOWN_RESOURCE` for one that is not listed, `OPERATION_FAILED` for a
                file that cannot be read.
        """
        ...

    async def close(self, reason: str) -> None:
        """End the session: what is open ends with `reason`, the apps are told, temporary files go.

        Bounded in time.
        """
        ...


def state_uri(app: str, field: JsonValue) -> str:
    """The resource of one state field of an app."""
    return f"abp://{app}/state/{quote(str(field), safe='', errors='surrogatepass')}"


class KnownOffers(Protocol):
    """Keeps what apps offer, by their targets. Nothing here raises."""

    def recall(self, target: str) -> Offer | None:
        """What the app at `target` offered last; None where nobody knows."""
        ...

    def remember(self, target: str, offer: Offer) -> None:
        """Keep that the app at `target` offers this."""
        ...


def expect_apps(targets: Iterable[str], known: KnownOffers) -> ExpectedApps:
    """What the apps at `targets` will offer, as far as it is known."""
    offers = {target: known.recall(target) for target in targets}
    return ExpectedApps(
        tuple(
            AppCapability("", offer.origin or show_target(target), each, target)
            for target, offer in offers.items()
            if offer is not None
            for each in offer.capabilities
        ),
        any(offer is not None and offer.renders for offer in offers.values()),
        tuple(show_target(target) for target, offer in offers.items() if offer is None),
    )


def make_offer(
    target: str, origin: str, offers: Iterable[AppCapability], *, renders: bool
) -> Offer:
    """What is to be remembered of the app at `target`, which its origin may be taken from."""
    known = "" if origin == show_target(target) else origin
    return Offer(tuple(each.capability for each in offers), renders, known)
