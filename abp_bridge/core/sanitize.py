"""Make untrusted text safe to show: bounded, without control characters, cuts counted."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.words import count_of

LABEL_LIMIT = 200  # characters of one line: a name, a title, a problem
LINE_LIMIT = 1_000  # characters of a long line: a log line, a problem with a value, a schema
MESSAGE_LIMIT = 4_000  # characters of a text of several lines: more pushes buttons off a screen

# Cc and Cf hold the characters that move a cursor, reorder a line or hide in it: a label must not
# repaint the question. What has no meaning here, or none yet (an emoji newer than this Python), is
# shown as a mark, for it may have been a word.
_HIDDEN: dict[str, str] = dict.fromkeys(("Cc", "Cf", "Zl", "Zp"), "")
_UNKNOWN: dict[str, str] = dict.fromkeys(("Cs", "Co", "Cn"), "\ufffd")
_SHOWN_AS = _HIDDEN | _UNKNOWN

# Cf or letters to Unicode, and nothing to the eye: blanks of scripts, and joiners and selectors
# that have nothing to join or to select.
_UNSEEN = (
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\U000e0000-\U000e0fff]"
    r"|(?<=[\ufe00-\ufe0f\u200c\u200d])[\ufe00-\ufe0f]"
    r"|(?<![\u0300-\u036f\u0530-\u1fff\u2190-\ud7ff\uf900-\ufeff\U00010000-\U000dffff])"
    r"[\u200c\u200d]"
)
# With those that reorder, break or repaint lines.
_RAW = (
    _UNSEEN + r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\ufeff\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]|\r(?!\n)"
)
_HALF = r"[\ud800-\udfff]"
_RAW_OR_HALF = f"{_RAW}|{_HALF}"
_LOOKED_AT = 8  # times the limit are cleaned of a text: what is further is counted as it came


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When first needed: it takes milliseconds of a bridge's start, and most texts are ASCII."""
    return re.compile(pattern)


def label(value: object, limit: int = LABEL_LIMIT, *, beyond: int = 0) -> str:
    """Return one line of at most `limit` characters with the number cut, plus `beyond`."""
    return _bounded(str(value), limit, _clean_line, beyond)


def message(value: object, limit: int = MESSAGE_LIMIT, *, beyond: int = 0) -> str:
    """Return lines of at most `limit` characters in all, cut as in `label`."""
    return _bounded(str(value), limit, _clean_lines, beyond)


def clean(value: str) -> tuple[str, int]:
    """Return a text without control, bidi and hidden characters, and their number."""
    text, unseen = _compiled(_UNSEEN).subn("", value.replace("\r\n", "\n"))
    return text.translate(_LINES), unseen + sum(_LINES[ord(each)] != each for each in text)


def escape(value: str) -> str:
    """`value` so that no two look alike: what cannot be seen is written as its code."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in value
    )


def reveal(value: str) -> str:
    """Return `value` with invisible characters as JSON escapes and lone surrogates as U+FFFD."""
    if value.isascii() and value.isprintable():
        return value
    whole = _compiled(_HALF).sub("\ufffd", value)
    return _compiled(_RAW).sub(lambda found: json.dumps(found[0])[1:-1], whole)


def reveal_json(text: str) -> str:
    """Return equal JSON with invisible characters and lone surrogates escaped."""
    if text.isascii() and text.isprintable():
        return text
    return _compiled(_RAW_OR_HALF).sub(lambda found: json.dumps(found[0])[1:-1], text)


class _Table(dict[int, str]):
    """What each character is shown as, but for those that are kept."""

    def __init__(self, kept: str) -> None:
        super().__init__({ord(each): each for each in kept})

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = _SHOWN_AS.get(unicodedata.category(character), character)
        shown = " " if not shown and character.isspace() else shown
        if len(self) < 2**12:  # characters of a few scripts
            self[code] = shown
        return shown


_JOINERS = "\u200c\u200d"  # Cf, and scripts and emoji need them
_LINE, _LINES = _Table(_JOINERS), _Table(_JOINERS + "\n\t")


def _clean_line(text: str) -> str:
    return " ".join(_visible(text, _LINE).split())


def _clean_lines(text: str) -> str:
    return _visible(text.replace("\r\n", "\n"), _LINES).strip()


def _visible(value: str, table: _Table) -> str:
    value = value if value.isascii() else _compiled(_UNSEEN).sub("", value)
    return value if value.isprintable() else value.translate(table)


def _bounded(value: str, limit: int, clean: Callable[[str], str], beyond: int) -> str:
    looked_at = _LOOKED_AT * limit + 1_000
    shown, rest = clean(value[:looked_at]), len(value[looked_at:]) + beyond
    if not rest and len(shown) <= limit:
        return shown
    more = max(0, len(shown) - limit) + rest
    return f"{shown[:limit].rstrip()} … [{count_of(more, 'more character')} not shown]"


def command_name(command: Sequence[str]) -> str:
    """Return a command's program and script; other arguments may hold secrets."""
    script = [os.path.basename(word) for word in command[1:2] if word.endswith(SCRIPTS)]
    return " ".join([*map(os.path.basename, command[:1]), *script])


SCRIPTS = (".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".sh", ".jar")

MAX_NAMES = 1_000  # texts that are known again, the newest
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|[bfr])|\ufffd")


class Revealed:
    """One conversation with such a reader."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}  # as it was shown: as it is

    def outward(self, value: JsonValue) -> JsonValue:
        """`value` with every text and every name of a member in it as `sanitize.reveal` has it."""
        return _map(value, self._show)

    def inward(self, value: JsonValue) -> JsonValue:
        """`value` with every text and name in it that was shown otherwise as it is."""
        return _map(value, lambda text: self._written.get(text, text)) if self._written else value

    def _show(self, text: str) -> str:
        shown = reveal(text)
        may_be_mistaken = shown != text or _ESCAPE.search(text)  # for another that is shown alike
        if may_be_mistaken and len(shown) <= MESSAGE_LIMIT:  # longer ones are no names
            while self._written.get(shown, text) != text:
                shown += "'"
            self._written.pop(shown, None)
            self._written[shown] = text
            if len(self._written) > MAX_NAMES:
                del self._written[next(iter(self._written))]
        return shown


def _map(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        made: dict[str, JsonValue] = {}
        for name, each in value.items():
            shown = change(name)
            while shown in made:  # two names that look alike: both are there
                shown += "'"
            made[shown] = _map(each, change)
        return made
    return [_map(each, change) for each in value] if isinstance(value, list) else value
