"""How a text may be encoded inside of other text: escaped in JSON any number of times, in an
address, in HTML, in Base64, in hexadecimal. Pure.

Letters and digits stand for themselves, so a text is only looked for where its longest run of them
stands: looking takes time in proportion to what is searched, and what is not there costs next to
nothing.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from html.entities import codepoint2name

LONGEST = 256  # characters that one pattern looks for
PIECE = 128  # of what is longer
LINE = 8  # characters of a line that is looked for wherever it stands
ALONE = 4  # characters; what is shorter is only looked for where it stands alone
ENCODED = 8  # characters of Base64 that are nobody's word

_PLAIN = re.compile(r"[A-Za-z0-9]")
_RUN = re.compile(r"[A-Za-z0-9]+")
_DIGITS = re.compile(r"[\d\s-]{6,}")
_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_AFTER = r"(?![A-Za-z0-9])"


def encoded_texts(text: str, instead: str) -> list[EncodedText]:
    """What to look for, so that all of `text` is found: whole, trimmed, piece by piece and line by
    line, and in other normal forms; and what is written in its place.
    """
    forms = dict.fromkeys(
        (text, text.strip(), *(unicodedata.normalize(form, text) for form in ("NFC", "NFD")))
    )
    if _DIGITS.fullmatch(text):
        forms[re.sub(r"\D", "", text)] = None
    found: dict[str, bool] = {}
    for form in filter(None, forms):
        for piece in _pieces(form):
            found.setdefault(piece, len(piece) < ALONE)
        lines = [line.strip() for line in form.splitlines()]
        for line in lines if len(lines) > 1 else ():
            for piece in _pieces(line) if len(line) >= ALONE else ():
                found.setdefault(piece, len(line) < LINE)
    return [EncodedText(piece, instead, alone=alone) for piece, alone in found.items()]


def _pieces(text: str) -> list[str]:
    if len(text) <= LONGEST:
        return [text]
    ends = [*range(PIECE, len(text) - LINE, PIECE), len(text)]
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class EncodedText:
    """One piece of text in all its encodings, where it stands in others, and what is written
    `instead`.
    """

    def __init__(self, text: str, instead: str, *, alone: bool = False) -> None:
        """What has to stand `alone` is no part of a longer word, and in no encoding of bytes."""
        self.instead = instead
        self._text = text
        self._alone = alone
        self._anchor = _longest_run(text)

    def may_stand_in(self, text: str) -> bool:
        """Whether it is worth looking there."""
        return self._anchor in text or any(anchor in text for anchor, _ in self._bytes)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it stands, however it is encoded: (first character, end)."""
        if self._anchor in text:
            yield from (found.span() for found in self._characters.finditer(text))
        for anchor, pattern in self._bytes:
            if anchor in text:
                yield from (found.span() for found in re.finditer(pattern, text))

    @cached_property
    def _characters(self) -> re.Pattern[str]:
        """A pattern for it where each of its characters may be escaped."""
        first, *rest = re.findall(r"\\+|\r?\n|.", self._text, re.DOTALL)
        pattern = _character(first, first=True) + "".join(map(_character, rest))
        return re.compile(_BEFORE + pattern + _AFTER if self._alone else pattern)

    @cached_property
    def _bytes(self) -> list[tuple[str, str]]:
        """What to look for first, and the pattern: for it in Base64, in the middle of something
        longer (where it is long enough) and alone, and in hexadecimal.
        """
        if self._alone:
            return []
        data = self._text.encode("utf-8", "surrogatepass")
        inside = [way for way in (_base64(data, at) for at in range(3)) if len(way) >= ENCODED]
        whole = base64.b64encode(data).decode().rstrip("=")
        patterns = [(way, _any_alphabet(way)) for way in inside]
        patterns.append(
            (whole, rf"(?<![A-Za-z0-9+/_-]){_any_alphabet(whole)}(?![A-Za-z0-9+/_-])={{0,2}}")
        )
        for digits in (data.hex(), data.hex().upper()):
            patterns.append((digits, rf"(?<![0-9A-Fa-f]){digits}(?![0-9A-Fa-f])"))
        return [(_longest_run(way), pattern) for way, pattern in patterns]


def _longest_run(text: str) -> str:
    return max(_RUN.findall(text), key=len, default="")


def _character(found: str, *, first: bool = False) -> str:
    """One character, a run of backslashes, or the end of a line.

    The first of all takes no backslashes along: any number may stand before it.
    """
    if _PLAIN.match(found):
        return found
    before = "" if first else r"\\*+"
    if found[0] == "\\":
        count, start = len(found), r"(?<!\\)" if first else ""
        other = f"{_hex(found[0], before)}|{_percent(found[0])}|{_entity(found[0])}"
        return rf"(?:{start}\\{{{count},{max(LONGEST, count)}}}|(?:{other}){{{count}}})"
    if found in ("\n", "\r\n"):
        percent = rf"(?:{_percent(chr(13))})?{_percent(chr(10))}"
        return rf"(?:\r?\n|(?:\\++r)?\\++n|{percent}|{_entity(chr(10))})"
    ways = [_entity(found), _percent(found), _hex(found, before), before + re.escape(found)]
    if found == " ":
        ways += [r"\+", _percent("+"), _hex("+", before)]
    if found in _SHORT:
        ways.append(rf"{before}\\{_SHORT[found]}" if first else rf"\\++{_SHORT[found]}")
    return f"(?:{'|'.join(ways)})"


def _hex(char: str, before: str) -> str:
    """A character as JSON escapes it by its number."""
    units = char.encode("utf-16-be", "surrogatepass")
    start = r"\\" if not before else r"\\++"
    return "".join(
        (start if not place else r"\\++") + f"u(?i:{units[place : place + 2].hex()})"
        for place in range(0, len(units), 2)
    )


def _percent(char: str) -> str:
    return "".join(rf"%(?:25)*(?i:{byte:02x})" for byte in char.encode("utf-8", "surrogatepass"))


def _entity(char: str) -> str:
    number = ord(char)
    name = "apos" if char == "'" else codepoint2name.get(number)
    named = f"|{name}" if name else ""
    return rf"&(?:amp;)*(?:#0*+{number}|#[xX]0*+(?i:{number:x}){named});"


def _base64(data: bytes, before: int) -> str:
    """The letters that say nothing but `data`, with so many bytes of something else before it."""
    letters = base64.b64encode(bytes(before) + data).decode().rstrip("=")
    whole = (before + len(data)) % 3 == 0
    return letters[(0, 2, 3)[before] : None if whole else -1]


def _any_alphabet(letters: str) -> str:
    ways = {"+": r"(?:\+|-|%2[Bb])", "/": r"(?:\\?/|_|%2[Ff])"}
    return re.sub(r"[+/]", lambda found: ways[found[0]], letters)
