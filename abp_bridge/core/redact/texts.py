"""Find and replace known texts in any spelling: JSON escapes, URL encoding, Base64.

Each text becomes patterns in which a character matches all its spellings. A pattern is searched for
only if its longest run of letters and digits is found, so clean text costs almost nothing.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from abp_bridge.core.json_value import JsonValue, as_text, to_text
from abp_bridge.core.question import MISSING, Question
from abp_bridge.errors import RemoteProtocolError

SECRET = "[secret]"  # noqa: S105
REPEATED = "it repeats what its page was given as a secret"

PIECE = 128  # characters that are looked for of what is longer: elsewhere it may be cut off
LINE = 8  # characters of a line that is looked for wherever it is
ALONE = 4  # characters; what is shorter is only looked for where it is no part of a word

_NUMBER = re.compile(r"[\d\s-]{6,}")
_RUN = re.compile(r"[A-Za-z0-9]+")
_PARTS = re.compile(r"\\+|[A-Za-z0-9]+|\r\n|.", re.DOTALL)
_BACKSLASH = r"(?:\\++(?:u005[cC])?|%(?:25)*+5[cC])++"
_ESCAPES = {"\n": "n", "\r\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
# Letters of an escape are no part of the word after it.
_ALONE = (r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))", r"(?![A-Za-z0-9])")
_LETTER = r"[\w+/-]"  # of Base64, where a secret shares it with what is beside it
_URL_SAFE = str.maketrans("+/", "-_")


@dataclass(frozen=True)
class _Known:
    """A text, its replacement, and patterns `before` and `after` it."""

    text: str
    instead: str
    before: str = ""
    after: str = ""

    @cached_property
    def longest_run(self) -> str:
        """The longest part that every spelling has."""
        return max(_RUN.findall(self.text), key=len, default="")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """All spellings; a lookahead, as they may overlap."""
        spelled = "".join(map(_spell, _PARTS.findall(self.text)))
        return re.compile(f"(?=({self.before}{spelled}{self.after}))")


class KnownTexts:
    """Known texts and their replacements."""

    def __init__(self, known: Iterable[_Known] = ()) -> None:
        self._known = dict.fromkeys(known)

    def add_text(self, text: str, instead: str) -> None:
        """Know `text`: whole, trimmed, by line, and in other normal forms."""
        forms = [text, text.strip(), *(unicodedata.normalize(way, text) for way in ("NFC", "NFD"))]
        if _NUMBER.fullmatch(text):
            forms.append(re.sub(r"\D", "", text))
        for form in forms:
            self.add_piece(form, instead, alone=len(form) < ALONE)
            for line in map(str.strip, form.splitlines()):
                if len(line) >= ALONE:
                    self.add_piece(line, instead, alone=len(line) < LINE and line not in forms)

    def add_piece(self, text: str, instead: str, *, alone: bool) -> None:
        """Know `text` literally; with `alone` only as a whole word."""
        starts = range(0, max(len(text) - LINE, min(len(text), 1)), PIECE)
        for start, end in pairwise([*starts, len(text)]):
            piece = text[start:end]
            if alone:
                self._known[_Known(piece, instead, *_ALONE)] = None
            else:
                self._known[_Known(piece, instead)] = None
                self._known.update(dict.fromkeys(_in_base64(piece, instead)))

    def present_in(self, texts: Iterable[str]) -> KnownTexts:
        """Return those that may be in `texts`."""
        if not self._known:
            return self
        text = "\0".join(texts)
        return KnownTexts(known for known in self._known if known.longest_run in text)

    def with_brackets(self) -> KnownTexts:
        """Return those with brackets, which JSON in a text may overlap."""
        return KnownTexts(known for known in self._known if re.search(r"[]\[{}]", known.text))

    def replace(self, text: str) -> str:
        """Return `text` without the known texts, which are all found first, as they may overlap."""
        found = [
            (match.start(), match.end(1), known.instead)
            for known in self._known
            if known.longest_run in text
            for match in known.pattern.finditer(text)
        ]
        kept: list[str] = []
        done = 0
        for start, end, instead in sorted(found, key=lambda span: (span[0], -span[1])):
            if kept and start <= done:  # one with what is before; and a secret whatever else it is
                kept[-1] = SECRET if SECRET in (instead, kept[-1]) else kept[-1]
            else:
                kept += [text[done:start], instead]
            done = max(done, end)
        return "".join([*kept, text[done:]])


def _spell(part: str) -> str:
    """Return a pattern of all spellings of a character, a run, or backslashes."""
    if _RUN.match(part):
        return part
    if part[0] == "\\":
        return _BACKSLASH
    data = part.encode("utf-16-be", "surrogatepass")
    units = "".join(rf"\\*+u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
    octets = "".join(f"%(?:25)*+{each:02x}" for each in part.encode("utf-8", "surrogatepass"))
    spellings = [re.escape(part), f"(?i:{units}|{octets})"]
    if part in _ESCAPES:
        spellings.append(rf"(?:\\*+r|\r|%(?:25)*+0[dD])?(?:\\*+{_ESCAPES[part]}|\n|%(?:25)*+0[aA])")
    elif part == " ":
        spellings.append(r"\+|\\*+u002[bB]")
    elif part.isascii():
        spellings.append(rf"\\*+{re.escape(part)}")
    return f"(?:{'|'.join(spellings)})"


def _in_base64(text: str, instead: str) -> Iterator[_Known]:
    """Yield `text` in Base64 at each of three offsets, as it may be part of more."""
    encoded = {text.encode("utf-8", "surrogatepass")}
    if all(ord(each) < 256 for each in text):
        encoded.add(text.encode("latin-1"))  # as a page's btoa() has it
    for data in encoded:
        for shift in range(3) if len(data) >= ALONE else ():
            letters = b64encode(b"\0" * shift + data).decode().rstrip("=")
            is_shared = (shift + len(data)) % 3 != 0
            own = letters[shift + bool(shift) : len(letters) - is_shared]
            before, after = _LETTER if shift else "", _LETTER if is_shared else ""
            for each in (own, own.translate(_URL_SAFE)):
                yield _Known(each, instead, before, after)


# --- what a page of WebMCP's says, without what it was given --------------------------------------


def clean_question(question: Question, hide: Callable[[str], str]) -> Question:
    """Return a question with `hide` applied to what is shown of it.

    Raises:
        RemoteProtocolError: A secret is in a name or choice, which an answer needs.
    """
    fields = []
    for field in question.fields:
        needed = [field.name, as_text(field.schema.get("pattern"))]
        needed += [text for each in field.choices for text in (each.key, each.label, each.whole)]
        if field.default is not MISSING:
            needed.append(to_text(field.default))
        if any(hide(each) != each for each in needed):
            raise RemoteProtocolError(REPEATED)
        title, description = hide(field.title), hide(field.description)
        words = {name: hide(as_text(field.schema.get(name))) for name in ("title", "description")}
        schema = {**field.schema, **{name: each for name, each in words.items() if each}}
        fields.append(replace(field, title=title, description=description, schema=schema))
    return replace(
        question,
        message=hide(question.message),
        note=hide(question.note),
        uncut=hide(question.uncut),
        fields=tuple(fields),
    )


def clean_value(value: JsonValue, hide: Callable[[str], str]) -> JsonValue:
    """Return a result with `hide` applied to its texts, numbers and member names."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        whole = isinstance(value, float) and value.is_integer()
        text = str(int(value) if whole else value)
        return value if hide(text) == text else SECRET
    if isinstance(value, Mapping):
        return {hide(name): clean_value(each, hide) for name, each in value.items()}
    return [clean_value(each, hide) for each in value] if isinstance(value, list) else value
