"""Text from outside, made safe to show."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.core import sanitize

JOINERS = "\u200c\u200d"
MARKER = " … [{} more characters not shown]"

LABELS = {
    "plain words": ("Delete all", "Delete all"),
    "other scripts": ("削除 удалить", "削除 удалить"),
    "line breaks become spaces": (
        "one\r\ntwo\nthree\u2028four\x85five\x0bsix",
        "one two three four five six",
    ),
    "spaces at the ends and in rows": ("  a \t  b  ", "a b"),
    "a right-to-left override": ("Pay \u202e001$", "Pay 001$"),
    "an escape sequence": ("\x1b[2JYes", "[2JYes"),
    "zero-width space": ("pass\u200bword", "password"),
    "joined emoji stay whole": ("👩\u200d🚀", "👩\u200d🚀"),
    "a lone surrogate is marked": ("a\ud800b", "a\ufffdb"),
    "a private character is marked": ("\ue000", "\ufffd"),
    "a joiner with nothing to join": ("pass\u200dword", "password"),
    "a joiner of a script stays": ("नी\u200dक", "नी\u200dक"),
    "one selector stays, and no message in a row of them": ("❤\ufe0f\ufe01\ufe02", "❤\ufe0f"),
    "letters of no ink": ("a\u3164\u115f\uffa0b", "ab"),
}


@pytest.mark.parametrize(("given_text", "shown"), LABELS.values(), ids=LABELS)
def test_a_label_is_one_safe_line(given_text: object, shown: str) -> None:
    assert sanitize.label(given_text) == shown


MESSAGES = {
    "lines stay": ("one\ntwo\r\nthree", "one\ntwo\nthree"),
    "a carriage return alone does not go back over the line": ("Yes\rNo", "Yes No"),
    "tabs stay, blank ends do not": ("\n\ta\tb\n", "a\tb"),
}


@pytest.mark.parametrize(("given_text", "shown"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_keeps_its_lines_and_nothing_else_that_moves_a_cursor(
    given_text: str, shown: str
) -> None:
    assert sanitize.message(given_text) == shown


def test_cut_text_says_how_much_is_missing() -> None:
    assert sanitize.label("x" * 250) == "x" * 200 + MARKER.format(50)
    assert sanitize.label("x" * 200) == "x" * 200
    assert sanitize.message("y" * 4_001) == "y" * 4_000 + " … [1 more character not shown]"
    assert sanitize.label("word " * 3, 5) == "word" + MARKER.format(9)


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 40), st.booleans())
def test_nothing_shown_can_repaint_a_question(given_text: str, limit: int, lines: bool) -> None:
    shown = sanitize.message(given_text, limit) if lines else sanitize.label(given_text, limit)
    kept = "\n\t" if lines else ""
    hidden = [
        each
        for each in shown
        if each not in JOINERS + kept
        and unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    ]
    assert hidden == []
    assert shown.encode().decode() == shown


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 40))
def test_a_message_is_whole_or_says_how_much_is_missing(given_text: str, limit: int) -> None:
    whole, shown = sanitize.message(given_text, 10_000), sanitize.message(given_text, limit)
    if len(whole) <= limit:
        assert shown == whole
    else:
        start, _, rest = shown.rpartition(" … [")
        assert whole.startswith(start)
        assert len(start) <= limit
        more = len(whole) - limit
        assert rest == f"{more} more character{'s' if more > 1 else ''} not shown]"


def test_only_the_beginning_of_a_very_long_text_is_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    category = unicodedata.category

    def count(character: str) -> str:
        looked_at.append(character)
        return category(character)

    monkeypatch.setattr(unicodedata, "category", count)
    letters = "".join(map(chr, range(0x10FFFF, 0x10000, -1)))  # no two are alike
    assert sanitize.label(letters, 10).endswith(" more characters not shown]")
    assert len(looked_at) <= 8 * 10 + 1_000


def test_a_text_of_many_scripts_is_shown_whole() -> None:
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 5_000)))
    assert sanitize.label(f"{letters}\x00", 5_000) == letters


def test_text_that_is_cut_twice_counts_all_that_is_missing() -> None:
    assert sanitize.label("abcdef", 4, beyond=3) == "abcd … [5 more characters not shown]"
    assert sanitize.message("a\nb", beyond=3) == "a\nb … [3 more characters not shown]"


REVEALED = {
    "nothing to see": ("plain", "plain"),
    "lines": ("a\r\nb\n\tc", "a\r\nb\n\tc"),
    "a return over the line": ("Yes\rNo", r"Yes\rNo"),
    "an override": ("a\u202eb", r"a\u202eb"),
    "an escape sequence": ("\x1b[2J", r"\u001b[2J"),
    "half a character": ("\ud800", "\ufffd"),
    "joined emoji": ("👩\u200d🚀", "👩\u200d🚀"),
}


@pytest.mark.parametrize(("given_text", "shown"), REVEALED.values(), ids=REVEALED)
def test_reveal_escapes_invisible_characters(given_text: str, shown: str) -> None:
    assert sanitize.reveal(given_text) == shown


@pytest.mark.parametrize(("given_text", "shown"), REVEALED.values(), ids=REVEALED)
def test_revealed_json_has_the_same_value(given_text: str, shown: str) -> None:
    written = sanitize.reveal_json(json.dumps([given_text, "é"], ensure_ascii=False))
    assert json.loads(written) == [given_text, "é"]
    assert sanitize.reveal(written) == written


def test_invisible_characters_are_escaped() -> None:
    assert sanitize.escape("a\n\u202eb é") == r"a\n\u202eb é"
