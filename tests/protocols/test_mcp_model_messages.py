"""Questions that go through the model (host chat), and its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from mcp_types import methods

from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.mcp.elicitation import (
    decode_answered,
    decode_roots,
    encode_address,
    encode_asked,
    encode_link,
)

Json = Any

URL = "http://127.0.0.1:4000/open/x"
QUESTION = decode_question(
    {"method": "elicitation/confirm", "params": {"message": "Delete it?", "destructive": True}},
    id="question-7",
    origin="https://app.example",
)


@pytest.mark.parametrize(("version", "modes"), [("2025-06-18", False), ("2025-11-25", True)])
def test_encode_link(version: str, modes: bool) -> None:
    form = encode_link(QUESTION, URL, modes=modes)
    methods.parse_server_request("elicitation/create", version, form)
    assert form["requestedSchema"] == {"type": "object", "properties": {}}
    assert form["message"].startswith(
        "https://app.example asks: Delete it?\n\nThis cannot be undone, says who asks."
    )
    assert form["message"].endswith(URL)
    assert ("mode" in form) is modes


def test_model_gets_the_address_of_the_page() -> None:
    words = encode_address(QUESTION, URL, "their terminal")
    assert words.startswith("https://app.example asks: Delete it?")
    assert "for your user, and not for you" in words
    assert f"this address: {URL}\n" in words
    assert "a code, which their terminal shows them" in words
    noted = encode_address(replace(QUESTION, note="Over SSH: ssh -L"), URL, "a notification")
    assert "\n\nOver SSH: ssh -L\n\nThis is for your user" in noted


def test_model_gets_the_question_and_the_schema() -> None:
    words = encode_asked(QUESTION, "it was not fit")
    assert "Please answer again: it was not fit." in words
    assert '{"question": "question-7", "action": "decline"}' in words
    schema = words.split("fits this schema: ")[1].splitlines()[0]
    asked = json.loads(schema)["properties"]["confirmed"]
    assert asked["enum"] == ["No, do not", "Delete"]


@pytest.mark.parametrize(
    ("arguments", "action", "content"),
    [({"content": {"a": 1}}, "accept", {"a": 1}), ({"action": "decline"}, "decline", {})],
)
def test_decode_answered(arguments: Json, action: str, content: Json) -> None:
    brought, filled = decode_answered(arguments)
    assert (brought.value, filled) == (action, content)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "say what the user said"),
        ({"action": "yes"}, "'yes' is no action"),
        ({"action": "accept"}, "content must be an object"),
    ],
)
def test_invalid_answer_of_a_model_is_refused(arguments: Json, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        decode_answered(arguments)


GRANTED = [{"uri": "file:///home/ann/a%20b"}, {"uri": "file:///x", "name": "X"}]
REFUSED = [{"uri": "https://x"}, {"uri": "file://other/x"}, {"uri": 1}, "file:///y", {}]


@pytest.mark.parametrize(
    ("result", "folders"),
    [({"roots": GRANTED}, ["/home/ann/a b", "/x"]), ({"roots": REFUSED}, []), (None, [])],
)
def test_decode_roots(result: Json, folders: list[str]) -> None:
    assert decode_roots(result) == folders
