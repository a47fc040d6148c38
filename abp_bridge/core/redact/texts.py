"""Texts that are known, and where they stand in others however they are written there: escaped in
JSON any number of times, in an address, in HTML, in Base64, in hexadecimal. Pure.

A text is looked at in several ways, with its escapes read, its Base64 decoded, and so on; each view
knows where its bytes stand in the text. Looking takes time in proportion to the text, and next to
nothing for what is known and not there.
"""

from __future__ import annotations

import html
import re
import unicodedata
from array import array
from binascii import a2b_base64, unhexlify
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from string import ascii_letters, digits, hexdigits
from typing import NamedTuple

SECRET = "[secret]"  # noqa: S105

PIECE = 128  # characters that are looked for of what is longer: elsewhere it may be cut off
LINE = 8  # characters of a line that is looked for wherever it stands
ALONE = 4  # characters; what is shorter is only looked for where it stands alone
LAYERS = 6  # escapes of one kind within those of another
BATCH = 64 * 1024  # characters of texts that are looked through at once: views of them take memory

_UTF8 = ("utf-8", "surrogatepass")
_NUMBER = re.compile(r"[\d\s-]{6,}")
_ESCAPE = re.compile(
    rb"%(?:25)*(?P<byte>[0-9A-Fa-f]{2})"
    rb"|&(?:amp;)*(?P<entity>#?[0-9A-Za-z]{1,32};)"
    rb"|(?<!\\)\\++u(?P<unit>[0-9A-Fa-f]{4})"
    rb"(?:(?<=[dD][89abAB]..)\\++u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2}))?"
)
# A backslash belongs to what it stands before; lines end in one way.
_BACKSLASHES = re.compile(rb"(?:\\++r\\++(?=n)|\r(?=\n)|\\++)(?P<bare>.|\Z)", re.DOTALL)
_BARE = bytes.maketrans(b"\n\r\t\b\f+", b"nrtbf ")  # letters after a backslash; a form's blank
_ALONE = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))%b(?![A-Za-z0-9])"  # letters of escapes are none
_TRAIL = re.compile(rb"(?:\\++(?:u005[cC])?|%(?:25)*5[cC])*+")
_BREAK = re.compile(rb"(?:\\++[rn]?|[\r\n])[ \t]*")
_WITHIN = (b"\x80", b"\xc0")  # bytes from the first, and less than the other, begin no character
_AS_BASE64 = bytes(
    each if chr(each) in f"{ascii_letters}{digits}+/" else ord("A") for each in range(256)
)
_AS_HEX = bytes(each if chr(each) in hexdigits else ord("0") for each in range(256))


class _View(NamedTuple):
    """Bytes, and what says where in a text each of them begins, and the last one ends."""

    data: bytes
    place: Callable[[int], int]
    way: str = "characters"


class _Known(NamedTuple):
    """A piece of text as it is and as `_fold` has it, and what is written instead.

    What has to stand `alone` is no part of a longer word, and in no encoding of bytes.
    """

    literal: bytes
    folded: bytes
    instead: str
    alone: bool

    def may_stand_in(self, text: bytes, data: bytes) -> bool:
        """Whether it stands in a `text`, or in the `data` that is decoded from one."""
        return (
            self.literal in text
            or (self.folded != self.literal and self.folded in text)
            or (not self.alone and self.literal in data)
        )

    def spans(self, text: bytes, views: Iterable[_View]) -> Iterator[tuple[int, int, str]]:
        """Where it stands in `text`, and what is written there."""
        for data, place, way in views:
            piece = self.folded if way == "folded" else self.literal
            if piece not in data or (self.alone and way == "bytes"):
                continue
            for first, last in self._find(piece, data):
                start, end = place(first), place(last)
                if self.literal.endswith(b"\\") and (trail := _TRAIL.match(text, end)):
                    end = trail.end()
                while _WITHIN[0] <= text[start : start + 1] < _WITHIN[1]:
                    start -= 1
                while _WITHIN[0] <= text[end : end + 1] < _WITHIN[1]:
                    end += 1
                yield start, end, self.instead

    def _find(self, piece: bytes, data: bytes) -> Iterator[tuple[int, int]]:
        """Where `piece` begins and ends, as often as it takes to cover each place: it may overlap
        itself.
        """
        pattern = re.compile((_ALONE if self.alone else b"%b") % re.escape(piece))
        at = 0
        while (found := pattern.search(data, at)) is not None:
            start, end = found.span()
            yield start, end
            again = -1 if self.alone else data.rfind(piece, start + 1, end + len(piece))
            at = end if again == -1 else again


class KnownTexts:
    """Texts, and what is written instead of each."""

    def __init__(self, known: Iterable[_Known] = ()) -> None:
        """What is `known` already, of another."""
        self._known = dict.fromkeys(known)

    def add(self, text: str, instead: str) -> None:
        """Know `text` from now on: whole and trimmed, line by line, and in other normal forms."""
        forms = [text, text.strip(), *(unicodedata.normalize(way, text) for way in ("NFC", "NFD"))]
        if _NUMBER.fullmatch(text):
            forms.append(re.sub(r"\D", "", text))
        for form in forms:
            self.add_piece(form, instead, alone=len(form) < ALONE)
            for line in map(str.strip, form.splitlines()):
                if len(line) >= ALONE:
                    self.add_piece(line, instead, alone=len(line) < LINE and line not in forms)

    def add_piece(self, text: str, instead: str, *, alone: bool) -> None:
        """Know just `text`, perhaps only where it is no part of a longer word."""
        starts = range(0, max(len(text) - LINE, min(len(text), 1)), PIECE)
        for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
            literal = text[start:end].encode(*_UTF8)
            folded = _fold(_unescape(literal)).data or literal
            known = _Known(literal, folded, instead, alone or len(folded) < ALONE)
            self._known[known] = None
            with suppress(UnicodeEncodeError):
                if (narrow := text[start:end].encode("latin-1")) != literal:  # as btoa() has it
                    self._known[known._replace(literal=narrow, folded=narrow)] = None

    def present_in(self, texts: Iterable[str]) -> KnownTexts:
        """Those of them that may stand in one of `texts`: all that need be looked for there."""
        found: set[_Known] = set()
        for batch in _batches(texts) if self._known else ():
            views = _views(batch.encode(*_UTF8))
            text = b"\0".join(view.data for view in views if view.way != "bytes")
            data = b"\0".join(view.data for view in views if view.way == "bytes")
            found |= {known for known in self._known if known.may_stand_in(text, data)}
        return KnownTexts(known for known in self._known if known in found)

    def with_brackets(self) -> KnownTexts:
        """Those that JSON in a text could be a part of, or begin in, or end in."""
        return KnownTexts(known for known in self._known if re.search(rb"[]\[{}]", known.literal))

    def replace(self, text: str) -> str:
        """`text` without what is known.

        All is found before anything is replaced: one may be a part of another, or overlap it.
        """
        if not self._known:
            return text
        data = text.encode(*_UTF8)
        views = _views(data)
        found = [span for known in self._known for span in known.spans(data, views)]
        kept: list[str] = []
        done = 0
        for start, end, instead in sorted(found, key=lambda span: (span[0], -span[1])):
            if kept and start <= done:  # one with what is before; and a secret whatever else it is
                kept[-1] = SECRET if SECRET in (instead, kept[-1]) else kept[-1]
            else:
                kept += [data[done:start].decode(*_UTF8), instead]
            done = max(done, end)
        return "".join([*kept, data[done:].decode(*_UTF8)])


# --- a text in several ways -----------------------------------------------------------------------


def _batches(texts: Iterable[str]) -> Iterator[str]:
    """`texts` put together, as many at once as take `BATCH` characters."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text) + 1
        if size >= BATCH:
            yield "\0".join(batch)
            batch, size = [], 0
    yield "\0".join(batch)


def _views(text: bytes) -> list[_View]:
    unescaped = _unescape(text)
    views = [unescaped, _fold(unescaped)]
    if unescaped.data != text:
        views.append(_View(text, int))
    whole = _rewrite(unescaped, _BREAK, b"\\\r\n", lambda _: b"")

    def place_from(first: int, letter: Callable[[int], int]) -> Callable[[int], int]:
        return lambda at: whole.place(min(first + letter(at), len(whole.data)))

    size = len(whole.data) // 4 * 4 + 4
    letters = whole.data.replace(b"-", b"+").replace(b"_", b"/").translate(_AS_BASE64) + b"A" * 8
    for first in range(4):
        data = a2b_base64(letters[first : first + size])
        views.append(_View(data, place_from(first, _base64_letter), "bytes"))
    pairs = whole.data.translate(_AS_HEX) + b"0" * 8
    for first in range(2):
        data = unhexlify(pairs[first : first + size])
        views.append(_View(data, place_from(first, lambda at: 2 * at), "bytes"))
    return views


def _base64_letter(at: int) -> int:
    """In which letter a byte begins: it is in two of four, and ends with the next one."""
    return at + (at + 2) // 3


def _unescape(text: bytes) -> _View:
    """A text without the escapes of addresses, HTML and JSON, but for backslashes."""
    view = _View(text, int)
    for _ in range(LAYERS):
        before, view = view, _rewrite(view, _ESCAPE, b"%&\\", _character)
        if view is before:
            break
    return view


def _fold(unescaped: _View) -> _View:
    """Without backslashes: the same for a text and for what JSON makes of it."""
    bare = _rewrite(unescaped, _BACKSLASHES, b"\\\r", lambda found: found["bare"])
    return _View(bare.data.translate(_BARE), bare.place, "folded")


def _rewrite(
    view: _View,
    pattern: re.Pattern[bytes],
    marks: bytes,
    change: Callable[[re.Match[bytes]], bytes],
) -> _View:
    """`view` with what `pattern` finds changed; without one of `marks` there is nothing to find."""
    if not any(mark in view.data for mark in marks):
        return view
    data = bytearray()
    starts, places = array("I", [0]), array("I", [0])  # of what stays and what changed, in turns
    for found in pattern.finditer(view.data):
        data += view.data[places[-1] : found.start()]
        starts.append(len(data))
        data += change(found)
        starts.append(len(data))
        places.extend(found.span())
    data += view.data[places[-1] :]

    def place(at: int) -> int:
        piece = bisect(starts, at) - 1
        return view.place(places[piece] + (0 if piece % 2 else at - starts[piece]))

    return _View(bytes(data), place) if len(places) > 1 else view


def _character(escape: re.Match[bytes]) -> bytes:
    if escape["byte"]:
        return bytes.fromhex(escape["byte"].decode())
    if escape["entity"]:
        return html.unescape(f"&{escape['entity'].decode()}").encode(*_UTF8)
    units = bytes.fromhex((escape["unit"] + (escape["low"] or b"")).decode())
    return units.decode("utf-16-be", "surrogatepass").encode(*_UTF8)
