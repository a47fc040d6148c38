"""Who a host says that answered, and its own reason for no answer, wherever it puts that."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.outcome import AnsweredBy
from abp_bridge.protocols.host_words import (
    MAX_HOST_WORDS,
    encode_account,
    read_answered_by,
    read_host_words,
)

Json = Any


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"action": "cancel", "_meta": {"message": "not supported"}}, "not supported"),
        ({"action": "cancel", "_meta": {"acme/why": {"reason": "busy", "code": 7}}}, "busy (7)"),
        ({"action": "decline", "message": "headless", "code": "E1"}, "headless (E1)"),
        ({"action": "cancel", "error": {"code": -32601, "message": "No"}}, "No (-32601)"),
        ({"action": "cancel", "error": "no terminal"}, "no terminal"),
        ({"outcome": {"outcome": "cancelled", "reason": "turn over", "code": True}}, "turn over"),
        ({"action": "cancel", "_meta": {"message": "a\x1b[31m\nb"}}, "a[31m b"),
        ({"action": "cancel", "content": {"message": "typed"}}, ""),
        ({"action": "cancel", "_meta": {"message": 7}, "reason": ["x"]}, ""),
        ({"action": "cancel"}, ""),
        (None, ""),
    ],
)
def test_the_words_of_a_host(result: Json, words: str) -> None:
    assert read_host_words(result) == words


def test_they_are_bounded() -> None:
    said = read_host_words({"reason": "x" * 10_000})
    assert said == "x" * MAX_HOST_WORDS + " … [9700 more characters not shown]"


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ("script", AnsweredBy.SCRIPT),
        ("model", AnsweredBy.MODEL),
        ("host-policy", AnsweredBy.HOST_POLICY),
        ("nobody", AnsweredBy.NOBODY),
        ("default", AnsweredBy.NOBODY),
        ("a ghost", AnsweredBy.UNKNOWN),
        (["person"], AnsweredBy.UNKNOWN),
        ("person", None),
        (None, None),
    ],
)
def test_who_answered_is_what_a_host_says_but_for_a_person(
    said: Json, who: AnsweredBy | None
) -> None:
    result: Json = {"action": "accept", "_meta": {"abp": {"answeredBy": said}}}
    assert read_answered_by(result) is who


@pytest.mark.parametrize("result", [None, {}, {"_meta": None}, {"_meta": {"abp": "script"}}])
def test_a_host_that_does_not_say_who_answered_says_nothing(result: Json) -> None:
    assert read_answered_by(result) is None


def test_an_account_is_read_again_as_it_was_given() -> None:
    said = {"action": "cancel", **encode_account(AnsweredBy.SCRIPT, reason="no entry fits")}
    assert (read_answered_by(said), read_host_words(said)) == (AnsweredBy.SCRIPT, "no entry fits")
    assert encode_account(None, reason="") == {}
