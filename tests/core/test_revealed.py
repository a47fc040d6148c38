"""Messages for somebody who draws their text, and what comes back of them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from support.json_strategies import json_values

from abp_bridge.core.json_value import JsonValue, member_names, walk
from abp_bridge.core.sanitize import MAX_NAMES, MESSAGE_LIMIT, Revealed

HIDDEN = "pay\u202elater"
SHOWN = "pay\\u202elater"


def test_invisible_characters_are_revealed_and_restored() -> None:
    conversation = Revealed()
    sent: JsonValue = {HIDDEN: [HIDDEN, 1, None], "plain": "é 👩\u200d🚀\r\n\t"}
    shown: JsonValue = {SHOWN: [SHOWN, 1, None], "plain": "é 👩\u200d🚀\r\n\t"}
    assert conversation.inward(shown) == shown  # nothing was shown yet
    assert conversation.outward(sent) == shown
    assert conversation.inward(shown) == sent


@pytest.mark.parametrize("times", [1, MESSAGE_LIMIT])
def test_two_names_that_look_alike_are_both_there(times: int) -> None:
    made = Revealed().outward({SHOWN * times: 1, HIDDEN * times: 2})
    assert made == {SHOWN * times: 1, f"{SHOWN * times}'": 2}


def test_only_the_newest_and_short_texts_are_known_again() -> None:
    conversation = Revealed()
    long = "\x1b" * MESSAGE_LIMIT
    texts = [f"{number}\x1b" for number in range(MAX_NAMES + 1)]
    shown = conversation.outward([long, *texts])
    assert isinstance(shown, list)
    assert conversation.inward(shown) == [*shown[:2], *texts[1:]]


@given(json_values)
def test_no_invisible_character_is_left_in_any_message(value: JsonValue) -> None:
    shown = Revealed().outward(value)
    texts = [each for each in (*walk(shown), *member_names(shown)) if isinstance(each, str)]
    hidden = {unicodedata.category(each) for text in texts for each in text if each not in "\r\n\t"}
    assert not hidden & {"Cc", "Cs", "Zl", "Zp"}


def test_text_that_reads_like_a_revealed_one_is_restored() -> None:
    for texts in ([HIDDEN, SHOWN], [SHOWN, HIDDEN], ["a\ud800", "a\ufffd"]):
        conversation = Revealed()
        first, second = (conversation.outward(each) for each in texts)
        assert first != second
        assert [conversation.inward(each) for each in (first, second)] == texts
