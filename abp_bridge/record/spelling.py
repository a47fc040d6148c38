"""How a text may be written inside of other text: escaped in JSON any number of times, in an address, in HTML, in Base64, in hexadecimal. Pure.

A spelling is a pattern. It finds the text however its writers mixed their ways, and takes time in proportion to what is searched.
"""

from __future__ import annotations

import base64
import re
from html.entities import codepoint2name

LONGEST = 256  # characters that one pattern looks for
PIECE = 128  # of what is longer
LINE = 8  # characters of a line that is looked for by itself
ENCODED = 8  # characters of Base64 or hexadecimal that are nobody's word
ALONE = 4  # characters; what is shorter is only looked for where it stands alone

_PLAIN = re.compile(r"[A-Za-z0-9]")
_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def pieces(text: str) -> list[str]:
    """What to look for, so that all of `text` is found, whole or line by line."""
    lines = [line for line in text.splitlines() if len(line.strip()) >= LINE]
    parts = [text] if len(text) <= LONGEST else []
    for line in lines or [text]:
        parts += [line] if len(line) <= LONGEST else _cut(line)
    return list(dict.fromkeys(parts))


def _cut(line: str) -> list[str]:
    ends = [*range(PIECE, len(line) - LINE, PIECE), len(line)]
    return [line[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def written(text: str) -> str:
    """A pattern for `text` as people and programs write it: as it is, or with any of its characters escaped."""
    pattern = "".join(map(_run, re.findall(r"\\+|\r?\n|.", text, re.DOTALL)))
    if len(text) < ALONE:
        return rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])){pattern}(?![A-Za-z0-9])"
    return pattern if _PLAIN.match(text) else rf"(?<!\\){pattern}"


def _run(found: str) -> str:
    """One character, a run of backslashes, or the end of a line."""
    if _PLAIN.match(found):
        return found
    if found[0] == "\\":
        return rf"(?:\\{{{len(found)},}}+|(?:{_hex(found[0])}|{_percent(found[0])}|{_entity(found[0])}){{{len(found)}}})"
    if found in ("\n", "\r\n"):
        return rf"(?:\r?\n|(?:\\++r)?\\++n|(?:{_percent(chr(13))})?{_percent(chr(10))}|{_entity(chr(10))})"
    ways = [_entity(found), _percent(found), _hex(found), rf"\\*+{re.escape(found)}"]
    if found == " ":
        ways += [r"\+", _percent("+"), _hex("+")]
    if found in _SHORT:
        ways.append(rf"\\++{_SHORT[found]}")
    return f"(?:{'|'.join(ways)})"


def _hex(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\\++u(?i:{units[place : place + 2].hex()})" for place in range(0, len(units), 2))


def _percent(char: str) -> str:
    return "".join(rf"%(?:25)*(?i:{byte:02x})" for byte in char.encode("utf-8", "surrogatepass"))


def _entity(char: str) -> str:
    number = ord(char)
    named = "".join(f"|{name}" for name in ([codepoint2name[number]] if number in codepoint2name else ["apos"] if char == "'" else []))
    return rf"&(?:amp;)*(?:#0*+{number}|#[xX]0*+(?i:{number:x}){named});"


def encoded(text: str) -> str | None:
    """A pattern for `text` in Base64, alone or inside of something longer, and in hexadecimal; None for what is too short to tell."""
    data = text.encode("utf-8", "surrogatepass")
    if len(text) < ALONE:
        return None
    inside = [_any_alphabet(way) for way in (_base64(data, before) for before in range(3)) if len(way) >= ENCODED]
    alone = _any_alphabet(base64.b64encode(data).decode().rstrip("="))
    return "|".join([*inside, rf"(?<![A-Za-z0-9+/_-]){alone}(?![A-Za-z0-9+/_-])={{0,2}}", rf"(?<![0-9A-Fa-f])(?i:{data.hex()})(?![0-9A-Fa-f])"])


def _base64(data: bytes, before: int) -> str:
    """The letters that say nothing but `data`, with so many bytes of something else before it."""
    letters = base64.b64encode(bytes(before) + data).decode().rstrip("=")
    whole = (before + len(data)) % 3 == 0
    return letters[(0, 2, 3)[before] : None if whole else -1]


def _any_alphabet(letters: str) -> str:
    return re.sub(r"[+/]", lambda found: "[+-]" if found[0] == "+" else r"(?:\\*+/|_)", letters)
