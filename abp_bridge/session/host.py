"""What a host offers the bridge (`Host`), the value types that they share, and what apps are
expected
to offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from abp_bridge.core.capability import CallResult, Capability, SavedFile
from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.ledger import Notice
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.surface import UnaskedQuestion
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.offer import Offer
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import InputProvider, PageLink, SurfaceResponse

MAX_REMEMBERED = 1_000  # entries of each record of what an app reports: memory is bounded


class HostSurfaces(InputProvider, Protocol):
    """How a host asks its user."""

    @property
    def name(self) -> str:
        """The host as it calls itself."""
        ...

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Tell the user that `question` waits at `link`.

        If a model reads it, show only the address, after the code was shown elsewhere. Cancelling
        takes it down.

        Returns:
            Accepted only means that the user goes there.

        Raises:
            SurfaceUnsupportedError: This host cannot show it.
            HostDisconnectedError: And the other errors of `InputProvider.prompt`.
        """
        ...


class Host(HostSurfaces, Protocol):
    """The answering side of a session."""

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """Return the folders (absolute paths) whose files the host grants to apps; bounded in time.

        `calls` are those that a question may belong to (`AskContext.calls`).
        """
        ...

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """React to a notice of an app, which is already recorded."""
        ...

    def on_capabilities_changed(self) -> None:
        """React to a change of `Bridge.capabilities`."""
        ...

    def on_resources_changed(self) -> None:
        """React to a change of `Bridge.resources`."""
        ...

    def lost_notifications(self) -> Mapping[str, int]:
        """Return how many notifications never reached the host: `{replacedByNewer, dropped}`."""
        ...


@dataclass(frozen=True, slots=True)
class AppCapability:
    """A capability of an app; `app` is its id, empty before it is connected, `target` its name."""

    app: str
    origin: str
    capability: Capability
    target: str = ""


@dataclass(frozen=True, slots=True)
class ExpectedApps:
    """What apps that are not connected yet will offer.

    Attributes:
        renders: Whether one of them has a page that can be printed.
        unknown: The apps that nothing is known of, safe to show.
    """

    capabilities: tuple[AppCapability, ...] = ()
    renders: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The end of a call.

    Attributes:
        result: What the app returned; large and binary data as places of files.
        summary: What the app reported meanwhile, a line each, safe to show.
        files: The files that its data was saved to.
        refused: The kinds of its questions that no surface could ask.
        unasked: Those of its questions that reached no user.
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
    """A request of the host that cannot be met: an ABP error code and what to do.

    `about` are the capabilities whose parameters help, the likeliest first.
    """

    def __init__(self, code: str, message: str, about: Sequence[AppCapability] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.about = about


def state_uri(app: str, field: JsonValue) -> str:
    """Return the resource URI of a state field."""
    return f"abp://{app}/state/{quote(str(field), safe='', errors='surrogatepass')}"


class KnownOffers(Protocol):
    """Keep what apps offer, by target. Nothing here raises."""

    def recall(self, target: str) -> Offer | None:
        """Return what the app at `target` last offered, if known."""
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
    """Return what to remember of the app at `target`."""
    known = "" if origin == show_target(target) else origin
    return Offer(tuple(each.capability for each in offers), renders, known)
