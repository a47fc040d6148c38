"""What the formats share: edits of text, lists in brackets, and `FormatError`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.sanitize import reveal_json
from abp_bridge.errors import AbpBridgeError

Path = tuple[str, ...]  # the names of members, from the outermost inwards
MAX_LEVELS = 100  # levels of values in a file: none of settings has as many
MAX_VALUES = 200_000  # values in a file, with the parts of TOML's names: read in a second or two


class FormatError(AbpBridgeError):
    """A file is not understood, or cannot hold a value. `line` counts from 1; 0 for none."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


class LimitError(FormatError):
    """A file holds more than is read of one; the message says of what."""

    def __init__(self, limit: int, what: str = "values") -> None:
        super().__init__(f"it has more than {limit:,} {what}")


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands between two places gives way to `text`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`text` with edits that do not overlap; an insertion where another begins comes first."""
    for each in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: each.start] + each.text + text[each.end :]
    return text


def line_number(text: str, at: int) -> int:
    """The line of a place, counted from 1."""
    return text.count("\n", 0, at) + 1


def newline(text: str) -> str:
    """How its lines end: as the first one does."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def line_start(text: str, at: int) -> int:
    """Where the line of a place begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Where the next line begins; the end of the text where there is none."""
    return text.find("\n", at) + 1 or len(text)


def indent_of(text: str, at: int) -> str:
    """The blanks that the line of a place begins with."""
    line = text[line_start(text, at) : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def json_of(value: JsonValue) -> str:
    """`value` as JSON in one line: letters as they are, half a character as its escape."""
    return reveal_json(json.dumps(value, ensure_ascii=False))


def find_twice(names: Iterable[str]) -> str | None:
    """The first name that stands there again; None where each stands there once."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def find_value(value: JsonValue, path: Sequence[str]) -> JsonValue:
    """The value at `path`; None where there is none."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def is_null(value: JsonValue, path: Sequence[str]) -> bool:
    """Whether a null stands at `path`, where `find` does not tell that from nothing."""
    around = find_value(value, path[:-1])
    return isinstance(around, Mapping) and path[-1] in around and around[path[-1]] is None


def without(value: JsonValue, path: Sequence[str]) -> JsonValue:
    """`value` without the member at `path`, which may be missing."""
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    if len(path) == 1:
        return {name: each for name, each in value.items() if name != path[0]}
    return {**value, path[0]: without(value[path[0]], path[1:])}


def holding(value: JsonValue, path: Sequence[str], member: JsonValue) -> JsonValue:
    """`value` with `member` at `path`, and the objects that are missing on the way."""
    if not path:
        return member
    inside = value if isinstance(value, Mapping) else {}
    return {**inside, path[0]: holding(inside.get(path[0]), path[1:], member)}


def merge(first: JsonValue, second: JsonValue) -> JsonValue:
    """`first` with what only `second` has, behind it."""
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return first
    both = {name: merge(each, second.get(name)) for name, each in first.items()}
    return {**both, **{name: each for name, each in second.items() if name not in first}}


def equal(one: object, other: object) -> bool:
    """Whether two values are the same, also in what Python takes for equal: 1, 1.0 and true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


_BLANK = " \t\r\n"


def difference(
    old: Sequence[JsonValue], new: Sequence[JsonValue]
) -> tuple[int, int, Sequence[JsonValue]]:
    """Return which items of `old` (from, to) differ, and their replacement in `new`.

    The common end counts first, as in a command behind another.
    """
    most = min(len(old), len(new))
    ends = _alike(old[::-1], new[::-1], most)
    start = _alike(old, new, most - ends)
    return start, len(old) - ends, new[start : len(new) - ends]


def _alike(one: Sequence[JsonValue], other: Sequence[JsonValue], most: int) -> int:
    """How many items both begin with, of at most so many."""
    return next((at for at in range(most) if not equal(one[at], other[at])), most)


@dataclass(frozen=True, slots=True)
class Brackets:
    """A list in a text.

    Attributes:
        start, end: From its opening bracket to behind the closing one.
        items: (start, end) of each item.
        comment: A pattern for a comment, without its line's end.
    """

    text: str
    start: int
    end: int
    items: Sequence[tuple[int, int]]
    comment: str

    def edits(
        self,
        old: Sequence[JsonValue],
        new: Sequence[JsonValue],
        render: Callable[[JsonValue], str],
    ) -> list[Edit] | None:
        """Return the edits from `old` to `new`, or None if no item or comment would stay."""
        start, end, items = difference(old, new)
        if end - start == len(old) and not self._has_comment():
            return None
        made = [render(each) for each in items]
        shared = min(end - start, len(made))
        edits = [
            Edit(*place, words) for place, words in zip(self.items[start:end], made, strict=False)
        ]
        if shared < len(made):
            return [*edits, *self._insert(end, made[shared:])]
        return [*edits, *self._cut(start + shared, end)]

    def _has_comment(self) -> bool:
        starts = [start for start, _ in self.items]
        ends = [end for _, end in self.items]
        between = zip([self.start + 1, *ends], [*starts, self.end - 1], strict=True)
        return any(self.text[start:end].strip(f"{_BLANK},") for start, end in between)

    def _comma(self, place: int) -> int | None:
        found = re.compile(rf"(?:[{_BLANK}]|{self.comment})*+,", re.DOTALL).match(
            self.text, self.items[place][1]
        )
        return found.end() - 1 if found else None

    def _behind(self, place: int) -> int:
        comma = self._comma(place)
        return self.items[place][1] if comma is None else comma + 1

    def _end_of_line(self, at: int) -> int | None:
        """Where the line of a place ends, where nothing but blanks and comments follows on it."""
        pattern = rf"(?:[ \t]|{self.comment})*+(?=\r?\n)"
        found = re.compile(pattern, re.DOTALL).match(self.text, at)
        return found.end() if found else None

    def _insert(self, place: int, made: Sequence[str]) -> list[Edit]:
        """Items before the one at `place`: lines of their own where that has one."""
        if not self.items:
            at = self.start + 1
            return [Edit(at, at, ", ".join(made))]
        if place == len(self.items):
            return self._append(made)
        start = self.items[place][0]
        behind = self._behind(place - 1) if place else self.start + 1
        ends = self._end_of_line(behind)
        if ends is None:
            return [Edit(start, start, "".join(f"{each}, " for each in made))]
        below = line_end(self.text, ends)
        indent, end = indent_of(self.text, start), newline(self.text)
        return [Edit(below, below, "".join(f"{indent}{each},{end}" for each in made))]

    def _append(self, made: Sequence[str]) -> list[Edit]:
        start, end = self.items[-1]
        behind = self._behind(-1)
        has_comma = behind > end
        ends = None
        if not self.text[line_start(self.text, start) : start].strip():
            ends = self._end_of_line(behind)
        lead = " " if ends is None else newline(self.text) + indent_of(self.text, start)
        place = behind if ends is None else ends
        words = ",".join(f"{lead}{each}" for each in made)
        if has_comma:
            return [Edit(place, place, f"{words},")]
        if place == end:
            return [Edit(end, end, f",{words}")]
        return [Edit(end, end, ","), Edit(place, place, words)]

    def _cut(self, start: int, end: int) -> Iterator[Edit]:
        """Without items, from and to; the last one that stays ends as the last one did."""
        is_last = end == len(self.items)
        for place, (first, last) in enumerate(self._pieces(start, end)):
            before = line_start(self.text, first)
            is_first = not self.text[before:first].strip()
            follows = re.compile(r"[ \t]*").match(self.text, last)
            assert follows is not None, "it matches nothing, too"
            if is_first and self.text.startswith(("\n", "\r\n"), follows.end()):
                yield Edit(before, line_end(self.text, last), "")
            elif is_last and not is_first and not place:
                yield Edit(len(self.text[:first].rstrip(" \t")), last, "")
            else:
                yield Edit(first, follows.end(), "")
        comma = self._comma(start - 1) if is_last and start and start < end else None
        if comma is not None and self._comma(-1) is None:
            yield Edit(comma, comma + 1, "")

    def _pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans to remove with items: one if no comment is between them."""
        pieces = list[tuple[int, int]]()
        for place in range(start, end):
            (first, last), behind = self.items[place], self._behind(place)
            if self.text[last:behind].strip(_BLANK) in ("", ","):
                pieces.append((first, behind))
            else:
                pieces += [(first, last), (behind - 1, behind)]
        gaps = (self.text[one[1] : other[0]] for one, other in pairwise(pieces))
        if not pieces or any(map(str.strip, gaps)):
            return pieces
        return [(pieces[0][0], pieces[-1][1])]
