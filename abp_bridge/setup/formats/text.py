"""What the formats have in common: edits of a text, its lines, and the error of a text that is not
understood.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.sanitize import reveal_json
from abp_bridge.errors import AbpBridgeError

Path = tuple[str, ...]  # the names of members, from the outermost inwards
MAX_LEVELS = 100  # levels of values in a file: none of settings has as many
MAX_VALUES = 200_000  # values in a file, with the parts of TOML's names: read in a second or two
MAX_COLUMNS = 100  # columns: a longer list is written with an item a line


class FormatError(AbpBridgeError):
    """A file is not understood, or cannot hold what is wanted; the message says why.

    Attributes:
        line: Where, counted from 1; 0 where it is about no place.
    """

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


def find(value: JsonValue, path: Sequence[str]) -> JsonValue:
    """The value at `path`; None where there is none."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def is_null(value: JsonValue, path: Sequence[str]) -> bool:
    """Whether a null stands at `path`, where `find` does not tell that from nothing."""
    around = find(value, path[:-1])
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
