"""An app's capabilities, stored between sessions and read like an app's own message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from abp_bridge.core import sanitize
from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import JsonValue, as_object, as_text, parse_json
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_capabilities

FORMAT = 1
MAX_SIZE = 1_000_000  # bytes of one app's; a model could not read so many tools


@dataclass(frozen=True, slots=True)
class Offer:
    """An app's last capabilities.

    `renders` is whether it had a page to print; `origin` is its name if the target has none.
    """

    capabilities: tuple[Capability, ...] = ()
    renders: bool = False
    origin: str = ""


def encode_offer(offer: Offer) -> bytes | None:
    """An offer as JSON text; None where that is too large to be kept."""
    entries = [_encode(each) for each in offer.capabilities]
    about = {"format": FORMAT, "origin": offer.origin, "renders": offer.renders}
    text = json.dumps({**about, "capabilities": entries}).encode()
    return text if len(text) <= MAX_SIZE else None


def decode_offer(text: bytes) -> Offer:
    """Decode a stored offer, without its invalid parts.

    Raises:
        RemoteProtocolError: It is not an offer.
    """
    if len(text) > MAX_SIZE:
        raise RemoteProtocolError(f"it has more than {MAX_SIZE} bytes")
    try:
        whole = as_object(parse_json(text))
    except ValueError as problem:
        raise RemoteProtocolError(str(problem)) from None
    entries = whole.get("capabilities")
    if whole.get("format") != FORMAT or not isinstance(entries, list):
        raise RemoteProtocolError("it is not in the format that is written here")
    presumed = _presumed(entries)
    found = [_presume(each, presumed) for each in decode_capabilities(entries)]
    origin = sanitize.label(as_text(whole.get("origin")))
    return Offer(tuple(found), whole.get("renders") is True, origin)


def _encode(capability: Capability) -> dict[str, JsonValue]:
    """As an app lists it (`decode_capabilities`)."""
    made: dict[str, JsonValue] = {
        "name": capability.name,
        "description": capability.description,
        "inputSchema": dict(capability.input_schema),
        "available": capability.available,
        "experimental": capability.experimental,
        "deprecationMessage": capability.deprecated,
        "title": capability.title,
        "outputSchema": dict(capability.output_schema),
        "annotations": dict(capability.hints),
        "requirements": list(capability.requirements),
        "alternatives": list(capability.alternatives),
    }
    if capability.destructive or capability.harmless:
        made["destructive"] = capability.destructive
    return made | ({"presumed": True} if capability.presumed else {})


def _presumed(entries: Sequence[JsonValue]) -> set[str]:
    listed = map(as_object, entries)
    return {str(each.get("name")) for each in listed if each.get("presumed") is True}


def _presume(capability: Capability, presumed: set[str]) -> Capability:
    if capability.name not in presumed:
        return capability
    return replace(capability, destructive=True, presumed=True, harmless=False)
