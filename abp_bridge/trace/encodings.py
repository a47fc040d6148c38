"""How a text may be written inside of other text: escaped in JSON any number of times, in an
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


def spellings(text: str) -> list[Spelling]:
    """What to look for, so that all of `text` is found: whole, trimmed, piece by piece and line by
    line, and in other normal forms.
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
    return [Spelling(piece, alone=alone) for piece, alone in found.items()]


def _pieces(text: str) -> list[str]:
    if len(text) <= LONGEST:
        return [text]
    ends = [*range(PIECE, len(text) - LINE, PIECE), len(text)]
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class Spelling:
    """One piece of text, and where it stands in others.

    What has to stand `alone` is no part of a longer word.
    """

    def __init__(self, text: str, *, alone: bool = False) -> None:
        self._text = text
        self._alone = alone
        self.anchor = max(_RUN.findall(text), key=len, default="")

    def stands_in(self, words: str) -> bool:
        """Whether it is worth looking there."""
        return self.anchor in words or (
            not self._alone and any(anchor in words for anchor in self._anchors)
        )

    def spans(self, words: str) -> Iterator[tuple[int, int]]:
        """Where it stands, however it is written."""
        if self.anchor in words:
            yield from (found.span() for found in self._written.finditer(words))
        if not self._alone:
            for anchor, pattern in zip(self._anchors, self._encoded, strict=True):
                if anchor in words:
                    yield from (found.span() for found in re.finditer(pattern, words))

    @cached_property
    def _written(self) -> re.Pattern[str]:
        first, *rest = re.findall(r"\\+|\r?\n|.", self._text, re.DOTALL)
        pattern = _character(first, first=True) + "".join(map(_character, rest))
        return re.compile(_BEFORE + pattern + _AFTER if self._alone else pattern)

    @cached_property
    def _encoded(self) -> list[str]:
        """Patterns for it in Base64, in the middle of something longer (where it is long enough)
        and alone, and in hexadecimal.
        """
        data = self._text.encode("utf-8", "surrogatepass")
        inside = [_any_alphabet(way) for way in self._base64[:-1]]
        alone = rf"(?<![A-Za-z0-9+/_-]){_any_alphabet(self._base64[-1])}(?![A-Za-z0-9+/_-])={{0,2}}"
        return [
            *inside,
            alone,
            *(rf"(?<![0-9A-Fa-f]){way}(?![0-9A-Fa-f])" for way in (data.hex(), data.hex().upper())),
        ]

    @cached_property
    def _base64(self) -> list[str]:
        data = self._text.encode("utf-8", "surrogatepass")
        inside = [
            way for way in (_base64(data, before) for before in range(3)) if len(way) >= ENCODED
        ]
        return [*inside, base64.b64encode(data).decode().rstrip("=")]

    @cached_property
    def _anchors(self) -> list[str]:
        data = self._text.encode("utf-8", "surrogatepass")
        return [
            *(max(_RUN.findall(way), key=len, default="") for way in self._base64),
            data.hex(),
            data.hex().upper(),
        ]


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
    named = "".join(
        f"|{name}"
        for name in (
            [codepoint2name[number]]
            if number in codepoint2name
            else ["apos"]
            if char == "'"
            else []
        )
    )
    return rf"&(?:amp;)*(?:#0*+{number}|#[xX]0*+(?i:{number:x}){named});"


def _base64(data: bytes, before: int) -> str:
    """The letters that say nothing but `data`, with so many bytes of something else before it."""
    letters = base64.b64encode(bytes(before) + data).decode().rstrip("=")
    whole = (before + len(data)) % 3 == 0
    return letters[(0, 2, 3)[before] : None if whole else -1]


def _any_alphabet(letters: str) -> str:
    ways = {"+": r"(?:\+|-|%2[Bb])", "/": r"(?:\\?/|_|%2[Ff])"}
    return re.sub(r"[+/]", lambda found: ways[found[0]], letters)
