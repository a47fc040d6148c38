"""What apps are known to offer before they are connected: from the sessions before this one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from abp_bridge.core.redact.command import show_target
from abp_bridge.protocols.offer import Offer
from abp_bridge.session.host import AppCapability, ExpectedApps


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
