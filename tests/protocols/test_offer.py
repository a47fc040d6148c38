"""The capabilities of an app as they are cached between sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from support.json_strategies import broken_schemas, few, json_values

from abp_bridge.core.capability import Capability
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_capabilities
from abp_bridge.protocols.mcp import server
from abp_bridge.protocols.offer import MAX_SIZE, Offer, decode_offer, encode_offer

Json = Any


@few
@given(json_values, broken_schemas)
def test_offer_survives_encode_and_decode(raw: Json, schema: Json) -> None:
    whole = {"name": "b", "inputSchema": schema, "annotations": schema, "destructive": True}
    for found in (
        decode_capabilities([whole, *(raw if isinstance(raw, list) else [])]),
        server.decode_tools([whole, {"name": "c"}, raw], {"prompts": {}}),
    ):
        text = encode_offer(Offer(tuple(found), renders=True, origin="https://app.example"))
        assert text is not None
        assert decode_offer(text) == Offer(tuple(found), True, "https://app.example")


ODD: dict[str, bytes] = {
    "no JSON": b"{",
    "another format": b'{"format": 2, "capabilities": []}',
    "no text": b"\xff",
    "too large": b" " * (MAX_SIZE + 1),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_invalid_offer_is_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_offer(text)


def test_invalid_members_of_an_offer_are_ignored() -> None:
    entries: Json = [{"name": "a\u202e"}, {"name": "b", "description": "B\u202e"}, 5]
    text = json.dumps({"format": 1, "renders": "yes", "capabilities": entries})
    assert decode_offer(text.encode()) == Offer((Capability("b", "B"),))


def test_too_large_offer_is_not_kept() -> None:
    assert encode_offer(Offer((Capability("a", "x" * MAX_SIZE),))) is None
