"""TOML: new tables go to the end of the file, new keys to the end of their table."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.text import (
    MAX_LEVELS,
    MAX_VALUES,
    Brackets,
    Edit,
    FormatError,
    LimitError,
    Path,
    apply_edits,
    find_value,
    holding,
    line_end,
    line_number,
    line_start,
    newline,
)

DEPTH = 2  # a table of this many names, as [mcp_servers.abp], stands by itself; others in one line

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[A-Za-z0-9_.\t -]+")  # a key without quotes
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}|'
    r"'''(?:[^']++|'(?!''))*+'{3,5}|"
    r'"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'',
    re.DOTALL,
)
# What one value, or one part of a name, begins behind; and what stands before it.
_BEGINS = re.compile(
    rf"(?:[^\"'#.=,\[{{]++|#[^\n]*+|{_STRING.pattern})*+(?P<mark>[.=,\[{{])", re.DOTALL
)
_KEY = re.compile(rf"(?:[^\"'=]++|{_STRING.pattern})*+=", re.DOTALL)
_BETWEEN = re.compile(r"[^\[\]{}\"'#\n]++")  # of a value, where no bracket and no text is
_COMMENT = r"#[^\r\n]*"
# Of a list's items: a text, a bracket, a comma, a comment, or a word of anything else.
_TOKEN = re.compile(rf"{_STRING.pattern}|{_COMMENT}|[\[\]{{}},]|[^\s\[\]{{}},\"'#]+", re.DOTALL)
_NAMES = r"(?:\"(?:[^\"\\\n]++|\\.)*+\"|'[^'\n]*+'|[^\]\"'\n]++)*+"
_HEADER = re.compile(rf"\[\[?(?P<key>{_NAMES})\]\]?[ \t]*(?:#[^\n]*)?(?=\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or a key with its value.

    Attributes:
        path: From the top.
        start, end: Its lines.
        value: The value's span; (0, 0) for a header.
        array: It is in a table of an array, or begins one.
    """

    path: Path
    is_header: bool
    start: int
    end: int
    value: tuple[int, int] = (0, 0)
    array: bool = False


@lru_cache(maxsize=4)
def _parse(text: str) -> tuple[JsonValue, JsonValue]:
    """Return the value of `text` as JSON and as TOML. Cached."""
    _check_size(text)
    try:
        found: JsonValue = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise FormatError(f"this is no TOML: {problem}") from None
    return _plain(found, 0), found


def _check_size(text: str) -> None:
    """Raise FormatError for long dotted names, for which `tomllib` takes quadratic time."""
    count = dots = at = 0
    while found := _BEGINS.match(text, at):  # up to a text that does not end: nobody reads on there
        count, at = count + 1, found.end()
        if count > MAX_VALUES:
            raise LimitError(MAX_VALUES)
        dots = dots + 1 if found["mark"] == "." else 0
        if dots > MAX_LEVELS:
            raise FormatError("it is nested too deeply", line_number(text, at))


def _plain(value: object, depth: int) -> JsonValue:
    """What TOML says as JSON says it: dates and times as texts."""
    if depth > MAX_LEVELS:
        raise FormatError("it is nested too deeply")
    if isinstance(value, dict):
        return {name: _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    return value if isinstance(value, (str, int, float)) else str(value)


class Toml:
    """TOML as a format."""

    def read_value(self, text: str) -> JsonValue:
        return _parse(text)[0]

    def written(self, text: str) -> JsonValue:
        return _parse(text)[1]

    def check(self, text: str, path: Path) -> None:
        """Raises FormatError where a name on the way to `path` is no table."""
        value = self.read_value(text)
        for depth in range(1, len(path)):
            inside = find_value(value, path[:depth])
            if inside is not None and not isinstance(inside, Mapping):
                raise FormatError(f"{_key(path[:depth])} is no table")

    def insert(self, text: str, path: Path, value: JsonValue) -> str:
        statements = _statements(text)
        for each in statements:
            if not each.is_header and each.path == path[: len(each.path)]:
                return self._rewrite_line(text, each, path, value)
        self.check(text, path)
        if isinstance(value, Mapping) and len(path) == DEPTH:
            return _append(text, path, value)
        return self._insert_key(text, statements, path, value)

    def _insert_key(
        self, text: str, statements: Sequence[Statement], path: Path, value: JsonValue
    ) -> str:
        table = [each for each in statements if each.is_header and each.path == path[:-1]]
        if not table:
            raise FormatError(f"there is no table [{_key(path[:-1])}]")
        last = table[0]
        for each in statements[statements.index(last) + 1 :]:
            if each.is_header:
                break
            last = each
        end = newline(text)
        made = f"{_key(path[-1:])} = {_render(value)}"
        if text[last.start : last.end].endswith("\n"):
            return apply_edits(text, [Edit(last.end, last.end, made + end)])
        return apply_edits(text, [Edit(last.end, last.end, end + made)])

    def _rewrite_line(self, text: str, each: Statement, path: Path, value: JsonValue) -> str:
        """With a member in a table that is written in one line: in ours, not in everybody's."""
        inside = find_value(self.read_value(text), each.path)
        if len(each.path) <= DEPTH or not isinstance(inside, Mapping):
            key = _key(each.path)
            raise FormatError(
                f"{key} is written in one line, where nothing is added: write it as [{key}]",
                line_number(text, each.start),
            )
        made = holding(inside, path[len(each.path) :], value)
        return apply_edits(text, [Edit(*each.value, _render(made))])

    def replace(self, text: str, path: Path, value: JsonValue) -> str:
        for each in _statements(text):
            if each.is_header or each.array:
                continue
            if each.path == path:
                there = find_value(self.read_value(text), path)
                return apply_edits(text, _replacement(text, each.value, there, value))
            if each.path == path[: len(each.path)]:
                return self._rewrite_line(text, each, path, value)
        raise FormatError(f"{_key(path)} is not written as a key with its value")

    def cut(self, text: str, path: Path) -> str:
        edits = []
        for each in _statements(text):
            if each.path[: len(path)] == path:
                edits.append(Edit(each.start, each.end, ""))
            elif not each.is_header and each.path == path[: len(each.path)]:
                raise FormatError(f"{_key(path)} is in a table in one line: take it out by hand")
        if not edits:
            raise FormatError(f"there is no {_key(path)}")
        return apply_edits(text, _with_blank_line(text, edits))


def _replacement(
    text: str, place: tuple[int, int], there: JsonValue, value: JsonValue
) -> list[Edit]:
    """Another value at a place, from and to; of a list the items that are not the same."""
    if isinstance(there, list) and isinstance(value, list):
        brackets = Brackets(text, *place, _items(text, *place), _COMMENT)
        if (edits := brackets.edits(there, value, _render)) is not None:
            return edits
    return [Edit(*place, _render(value))]


def _append(text: str, path: Path, value: Mapping[str, JsonValue]) -> str:
    """The table at the end, behind an empty line; the last line ends as it did."""
    end = newline(text)
    rows = (f"{_key((name,))} = {_render(each)}" for name, each in value.items())
    made = end.join((f"[{_key(path)}]", *rows))
    if not text:
        return made + end
    if text.endswith("\n"):
        return f"{text}{end}{made}{end}"
    return f"{text}{end}{end}{made}"


def _with_blank_line(text: str, edits: list[Edit]) -> list[Edit]:
    """Extend the edits to the empty line before a removed header."""
    first = edits[0]
    start = first.start
    before = line_start(text, start - 1) if start else 0
    if not text[start : first.end].lstrip().startswith("[") or text[before:start].strip():
        return edits
    if edits[-1].end == len(text) and not text.endswith("\n") and before:
        before -= 2 if text[:before].endswith("\r\n") else 1
    return [Edit(before, first.end, ""), *edits[1:]]


@lru_cache(maxsize=4)
def _statements(text: str) -> Sequence[Statement]:
    return tuple(_find_statements(text))


def _find_statements(text: str) -> Iterator[Statement]:
    table: Path = ()
    array = False
    arrays: set[Path] = set()
    at = 0
    while at < len(text):
        start = at
        end = line_end(text, start)
        at = end - len(text[start:end].lstrip())
        if at == end or text[at] == "#":
            at = end
            continue
        if header := _HEADER.match(text, at):
            table = _path(header["key"])
            if text.startswith("[[", at):
                arrays.add(table)
            array = any(table[:depth] in arrays for depth in range(1, len(table) + 1))
            at = line_end(text, at)
            yield Statement(table, True, start, at, array=array)
            continue
        equals = _skip_key(text, at)
        key = _path(text[at:equals])
        first = equals + 1
        while text[first] in " \t":
            first += 1
        last = _skip_value(text, first)
        at = line_end(text, last)
        yield Statement((*table, *key), False, start, at, (first, last), array)


def _skip_key(text: str, at: int) -> int:
    found = _KEY.match(text, at)
    assert found is not None
    return found.end() - 1


def _skip_value(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        if found := _STRING.match(text, at) or _BETWEEN.match(text, at):
            at = found.end()
        elif text[at] in "[{":
            depth, at = depth + 1, at + 1
        elif text[at] in "]}":
            depth, at = depth - 1, at + 1
        elif text[at] == "#":
            if not depth:
                break
            at = line_end(text, at)
        elif not depth:
            break
        else:
            at += 1
    while text[at - 1].isspace():
        at -= 1
    return at


def _items(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where each item of a list begins and ends; the list does at `start` and `end`."""
    items, depth, begun, ended = list[tuple[int, int]](), 0, -1, 0
    for found in _TOKEN.finditer(text, start + 1, end - 1):
        word = found[0]
        if depth == 0 and word == ",":
            items.append((begun, ended))
            begun = -1
        elif not word.startswith("#"):
            begun, ended = found.start() if begun < 0 else begun, found.end()
            depth += (word in ("[", "{")) - (word in ("]", "}"))
    return [*items, (begun, ended)] if begun >= 0 else items


def _path(key: str) -> Path:
    if _PLAIN.fullmatch(key):
        return tuple(map(str.strip, key.split(".")))
    inside: object = tomllib.loads(f"{key.strip()} = 0")
    path = []
    while isinstance(inside, dict):
        ((name, inside),) = inside.items()
        path.append(name)
    return tuple(path)


def _key(path: Path) -> str:
    return ".".join(name if _BARE.fullmatch(name) else _text(name) for name in path)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _render(value: JsonValue) -> str:
    """`value` on one line, or a list of many an item a line."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        rows = ", ".join(f"{_key((name,))} = {_render(each)}" for name, each in value.items())
        return f"{{ {rows} }}" if rows else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_render, value))}]"
    return json.dumps(value)
