"""Placeholders such as `[any]` and `[id 1]`, which match what a bridge chooses, and their escapes.

Directly before a placeholder word, each literal bracket is doubled: `[[any]` is the text "[any]",
and `[[[any]` is a bracket followed by a placeholder. Other brackets are literal. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from abp_bridge.core.json_value import JsonValue
from abp_bridge.errors import AbpBridgeError

Known = Mapping[str, JsonValue]  # by name, what a bridge chose for it

ANY, NUMBER = "[any]", "[number]"
PLACES = ("[folder]", "[tmp]")  # what is said has these words already when it is compared
CUT, EITHER = "[cut ", "[either "
ID = "[id"  # a kind of names
LOCAL = ("[input", "[option")  # kinds that need only differ in one message

_NAMES = (
    "id|call|question|link|state|elicitation|option|input|session|tool|value|tmp|cwd|output|folder"
    "|python"
)
_INSIDE = (
    rf"any|number|cut [0-9]+ characters|either [^\[\]|]+(?:\|[^\[\]|]+)+|(?:{_NAMES})(?: [0-9]+)?"
)
_WORD = re.compile(rf"(?<!\[)(\[+)({_INSIDE})\]")
_ONE = re.compile(rf"(\[(?:{_INSIDE})\])")


@lru_cache(maxsize=2_000)
def parts(text: str) -> tuple[str, ...]:
    """Split `text` into letters and words by turns, beginning and ending with letters."""
    found, letters, end = [], "", 0
    for each in _WORD.finditer(text):
        own, is_word = divmod(len(each[1]), 2)
        letters += text[end : each.start()] + "[" * own
        if is_word:
            found += [letters, f"[{each[2]}]"]
            letters = ""
        else:
            letters += f"{each[2]}]"
        end = each.end()
    return (*found, letters + text[end:])


def spell(pieces: Sequence[str]) -> str:
    """Join letters and words into text that `parts` splits the same way."""
    made = ""
    for place, piece in enumerate(pieces):
        if place % 2:
            made += "[" * (len(made) - len(made.rstrip("["))) + piece
        else:
            made += escape(piece)
    return made


def escape(text: str) -> str:
    """Return the text that matches only `text`."""
    return _WORD.sub(lambda found: f"{found[1] * 2}{found[2]}]", text)


def reword(text: str, meant: Callable[[str], bool], change: Callable[[str], str]) -> str:
    """Escape `text` for a fixture, except words that are `meant` or put by `change`."""
    mark = next(
        (each for each in map(chr, range(0xE000, 0xF8FF)) if each not in text), "\U000f0000"
    )
    masked = _WORD.sub(
        lambda found: found[0] if meant(f"[{found[2]}]") else f"{found[1][:-1]}{mark}{found[2]}]",
        text,
    )
    pieces = _ONE.split(change(masked))
    return spell(
        [piece if place % 2 else piece.replace(mark, "[") for place, piece in enumerate(pieces)]
    )


def alone(text: str) -> str:
    """Return the word that `text` consists of, or an empty text."""
    found = parts(text)
    return found[1] if len(found) == 3 and not found[0] and not found[2] else ""


def is_name(word: str) -> bool:
    """Whether this word names one value that the bridge chooses."""
    return bool(word) and word not in (ANY, NUMBER, *PLACES) and not word.startswith((CUT, EITHER))


def kind(name: str) -> str:
    """Return a word's kind: `[id 2]` -> `[id`."""
    return name.partition(" ")[0]


class UnknownPlaceholderError(AbpBridgeError):
    """A line to send has a placeholder without a value."""


def fill(value: JsonValue, known: Known) -> JsonValue:
    """Return `value` with names replaced by their values. Raises UnknownPlaceholderError."""
    if isinstance(value, str):
        return _fill_text(value, known)
    if isinstance(value, Mapping):
        return {str(_fill_text(name, known)): fill(each, known) for name, each in value.items()}
    return [fill(each, known) for each in value] if isinstance(value, list) else value


def _fill_text(text: str, known: Known) -> JsonValue:
    said = [
        _word_value(piece, known) if place % 2 else piece for place, piece in enumerate(parts(text))
    ]
    return said[1] if alone(text) else "".join(map(str, said))


def _word_value(word: str, known: Known) -> JsonValue:
    if word.startswith(CUT):
        return word
    if word in known:
        return known[word]
    if is_name(word) or word in PLACES:
        raise UnknownPlaceholderError(f"{word} stands here before the bridge chose anything for it")
    raise UnknownPlaceholderError(f"{word} stands for more than one thing: it cannot be said")
