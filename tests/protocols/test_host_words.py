"""Who answered, and the reason for no answer, as hosts give them."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.outcome import AnsweredBy
from abp_bridge.protocols.host_words import (
    MAX_HOST_WORDS,
    encode_account,
    read_answered_by,
    read_host_meta,
    read_host_words,
    without_account,
)

Json = Any


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"action": "cancel", "_meta": {"message": "not supported"}}, "not supported"),
        ({"action": "cancel", "_meta": {"acme/why": {"reason": "busy", "code": 7}}}, "busy (7)"),
        ({"action": "cancel", "error": {"code": -32601, "message": "No"}}, "No (-32601)"),
        ({"action": "cancel", "error": "no terminal"}, "no terminal"),
        ({"outcome": {"outcome": "cancelled", "reason": "turn over", "code": True}}, "turn over"),
        ({"action": "cancel", "content": {"message": "typed"}}, ""),
        ({"action": "cancel"}, ""),
        (None, ""),
    ],
)
def test_reason_given_by_a_host(result: Json, words: str) -> None:
    assert read_host_words(result) == words


def test_reason_given_by_a_host_is_bounded() -> None:
    said = read_host_words({"reason": "x" * 10_000})
    assert said == "x" * MAX_HOST_WORDS + " … [9700 more characters not shown]"


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ("script", AnsweredBy.SCRIPT),
        ("host-policy", AnsweredBy.HOST_POLICY),
        ("default", AnsweredBy.NOBODY),
        ("a ghost", AnsweredBy.UNKNOWN),
        (["person"], AnsweredBy.UNKNOWN),
        ("person", None),
        (None, None),
    ],
)
def test_host_can_say_who_answered_except_the_user(said: Json, who: AnsweredBy | None) -> None:
    result: Json = {"action": "accept", "_meta": {"abp": {"answeredBy": said}}}
    assert read_answered_by(result) is who


@pytest.mark.parametrize("result", [None, {}, {"_meta": {"abp": "script"}}])
def test_host_that_does_not_say_who_answered(result: Json) -> None:
    assert read_answered_by(result) is None


def test_account_survives_encode_and_read() -> None:
    said = {"action": "cancel", **encode_account(AnsweredBy.SCRIPT, reason="no entry fits")}
    assert (read_answered_by(said), read_host_words(said)) == (AnsweredBy.SCRIPT, "no entry fits")
    assert encode_account(None, reason="") == {}


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"_meta": {"persist": "always", "abp": {"answeredBy": "person"}}}, {"persist": "always"}),
        ({"_meta": 7}, {}),
        (None, {}),
    ],
)
def test_host_meta_without_the_account_of_a_bridge(result: Json, kept: Json) -> None:
    assert read_host_meta(result) == kept
    left: Json = without_account(result)
    assert left == ({"_meta": kept} if kept else result)
