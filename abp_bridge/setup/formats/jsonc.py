"""JSON with comments and trailing commas. New members follow the style of their neighbours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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
    find_twice,
    indent_of,
    json_of,
    line_number,
    newline,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LINE_COMMENT = r"//[^\r\n]*|/\*.*?\*/"  # without the end of its line
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"true|false|null")
_WORDS: Mapping[str, JsonValue] = {"true": True, "false": False, "null": None}
_BLANK = " \t\r\n"
_BLANKS = re.compile(f"[{_BLANK}]*+")
_SKIPPED = re.compile(rf"(?:[{_BLANK}]++|{_COMMENT.pattern})*+", re.DOTALL)
_STRINGS = json.JSONDecoder()


@dataclass(slots=True)
class Node:
    """A value in a text.

    Attributes:
        kind: `object`, `list` or `plain`.
        value: Its value.
        written: The same, with numbers as written.
        members: Of an object; of a list its items, without names.
        trailing: Where the trailing comma is, if any.
    """

    kind: str
    start: int
    end: int
    value: JsonValue
    written: JsonValue
    members: list[Member] = field(default_factory=list)
    trailing: int | None = None


@dataclass(slots=True)
class Member:
    """A member of an object: its name, where that begins, its value, and the comma behind it."""

    name: str
    start: int
    node: Node
    comma: int | None = None


class _Parser:
    """Parses one text, and keeps where each value stands."""

    def __init__(self, text: str, *, comments: bool, trailing_commas: bool) -> None:
        self._text = text
        self._comments = comments
        self._trailing = trailing_commas
        self._count = 0

    def document(self) -> Node | None:
        at = self._skip(0)
        if at == len(self._text):
            return None
        node = self._value(at, 0)
        rest = self._skip(node.end)
        if rest < len(self._text):
            raise self._error("something follows the end of the JSON", rest)
        return node

    def _error(self, message: str, at: int) -> FormatError:
        return FormatError(message, line_number(self._text, at))

    def _skip(self, at: int) -> int:
        found = (_SKIPPED if self._comments else _BLANKS).match(self._text, at)
        assert found is not None, "it matches nothing, too"
        end = found.end()
        is_slash = self._text.startswith("/", end)
        if is_slash and not self._comments and _COMMENT.match(self._text, end):
            raise self._error("a comment, which the host does not understand here", end)
        return end

    def _value(self, at: int, depth: int) -> Node:
        self._count += 1
        if self._count > MAX_VALUES:
            raise LimitError(MAX_VALUES)
        first = self._text[at : at + 1]
        if first in ("{", "["):
            if depth == MAX_LEVELS:
                raise self._error("it is nested too deeply", at)
            return self._container(at, depth)
        if first == '"':
            said, end = self._string(at)
            return Node("plain", at, end, said, said)
        if found := _WORD.match(self._text, at):
            word = _WORDS[found[0]]
            return Node("plain", at, found.end(), word, word)
        if found := _NUMBER.match(self._text, at):
            return Node("plain", at, found.end(), _number(found[0]), ("number", found[0]))
        raise self._error("this is no JSON", at)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            said, end = _STRINGS.raw_decode(self._text, at)
        except ValueError:
            raise self._error("a text that is not ended, or has a wrong escape", at) from None
        return str(said), end

    def _container(self, start: int, depth: int) -> Node:
        is_object = self._text[start] == "{"
        closing = "}" if is_object else "]"
        members: list[Member] = []
        at = self._skip(start + 1)
        while not self._text.startswith(closing, at):
            if members and members[-1].comma is None:
                raise self._error("a comma is missing", at)
            members.append(self._member(at, depth) if is_object else self._item(at, depth))
            at = self._skip(members[-1].node.end)
            if self._text.startswith(",", at):
                members[-1].comma = at
                at = self._skip(at + 1)
        trailing = members[-1].comma if members else None
        if trailing is not None and not self._trailing:
            raise self._error(
                "a comma before a closing bracket, which the host does not understand here",
                trailing,
            )
        end = at + 1
        if is_object:
            value: JsonValue = {each.name: each.node.value for each in members}
            written: JsonValue = {each.name: each.node.written for each in members}
            return Node("object", start, end, value, written, members, trailing)
        value = [each.node.value for each in members]
        written = [each.node.written for each in members]
        return Node("list", start, end, value, written, members, trailing)

    def _item(self, at: int, depth: int) -> Member:
        return Member("", at, self._value(at, depth + 1))

    def _member(self, at: int, depth: int) -> Member:
        if not self._text.startswith('"', at):
            raise self._error("the name of a member, in double quotes, is missing", at)
        name, end = self._string(at)
        end = self._skip(end)
        if not self._text.startswith(":", end):
            raise self._error("a colon is missing", end)
        return Member(name, at, self._value(self._skip(end + 1), depth + 1))


@lru_cache(maxsize=4)
def _parse(text: str, comments: bool, trailing_commas: bool) -> Node | None:
    """Cached, as each change reads the text several times, and some files have megabytes."""
    return _Parser(text, comments=comments, trailing_commas=trailing_commas).document()


def _number(text: str) -> JsonValue:
    try:
        return int(text)
    except ValueError:  # a fraction, or more digits than Python converts
        return float(text)


@dataclass(frozen=True, slots=True)
class Jsonc:
    """JSON of one dialect, as a format."""

    comments: bool = True
    trailing_commas: bool = True

    def read_value(self, text: str) -> JsonValue:
        node = self._parse(text)
        return {} if node is None else node.value

    def written(self, text: str) -> JsonValue:
        """What `text` says, to be compared: numbers as they are written. Raises FormatError."""
        node = self._parse(text)
        return {} if node is None else node.written

    def _parse(self, text: str) -> Node | None:
        return _parse(text, self.comments, self.trailing_commas)

    def insert(self, text: str, path: Path, value: JsonValue) -> str:
        """Return `text` with a new member at `path`, and missing objects on the way."""
        root = self._parse(text)
        if root is None:
            end = newline(text)
            made = _render(_nested(path, value), "", "  ", end)
            return f"{text}{'' if not text or text.endswith(end) else end}{made}{end}"
        node, rest = self._walk(text, root, path)
        unit = _unit(text, root, node)
        return apply_edits(text, _insertion(text, node, rest, value, unit))

    def replace(self, text: str, path: Path, value: JsonValue) -> str:
        root, around, member = self._locate(text, path)
        there = member.node
        if isinstance(there.value, list) and isinstance(value, list):
            items = [(each.node.start, each.node.end) for each in there.members]
            brackets = Brackets(text, there.start, there.end, items, _LINE_COMMENT)
            if (edits := brackets.edits(there.value, value, json_of)) is not None:
                return apply_edits(text, edits)
        if (
            there.value == {}
            and isinstance(value, Mapping)
            and _COMMENT.search(text, there.start, there.end)
        ):
            for name, each in value.items():
                text = self.insert(text, (*path, name), each)
            return text
        made = json_of(value)
        if _is_multiline(text, around):
            unit = _unit(text, root, around)
            made = _render(value, indent_of(text, member.start), unit, newline(text))
        return apply_edits(text, [Edit(there.start, there.end, made)])

    def cut(self, text: str, path: Path) -> str:
        _, around, member = self._locate(text, path)
        ways = [apply_edits(text, edits) for edits in _cuttings(text, around, member)]
        value = member.node.value
        for each in ways:
            with suppress(FormatError):
                if self.insert(each, path, value) == text:
                    return each
        return ways[-1]

    def check(self, text: str, path: Path) -> None:
        if (root := self._parse(text)) is not None:
            self._walk(text, root, path[:-1])

    def _locate(self, text: str, path: Path) -> tuple[Node, Node, Member]:
        """The whole, the object around the member at `path`, and that."""
        root = self._parse(text)
        around, rest = (None, path) if root is None else self._walk(text, root, path[:-1])
        found = [each for each in around.members if each.name == path[-1]] if around else []
        if root is None or around is None or rest or not found:
            raise FormatError(f'there is no "{".".join(path)}"')
        return root, around, found[0]

    def _walk(self, text: str, node: Node, path: Path) -> tuple[Node, Path]:
        """The object at `path`, as far as there is one, and the rest of the path."""
        for place, name in enumerate(path):
            self._check_object(text, node, path[:place])
            found = [each for each in node.members if each.name == name]
            if not found:
                return node, path[place:]
            node = found[0].node
        self._check_object(text, node, path)
        return node, ()

    def _check_object(self, text: str, node: Node, path: Path) -> None:
        line = line_number(text, node.start)
        what = f'"{path[-1]}"' if path else "the file"
        if node.kind != "object":
            raise FormatError(f"{what} is no object", line)
        if (twice := find_twice(each.name for each in node.members)) is not None:
            raise FormatError(f'{what} has "{twice}" twice: leave one of them', line)


def _nested(path: Path, value: JsonValue) -> JsonValue:
    for name in reversed(path):
        value = {name: value}
    return value


def _is_multiline(text: str, node: Node) -> bool:
    return bool(node.members) and "\n" in text[node.start : node.members[0].start]


def _unit(text: str, root: Node, node: Node) -> str:
    """By how much an inner line is indented more: as around it, else as at the top."""
    for each in (node, root):
        if _is_multiline(text, each):
            inner = indent_of(text, each.members[0].start)
            outer = indent_of(text, each.start)
            if inner.startswith(outer) and len(inner) > len(outer):
                return inner[len(outer) :]
    return "  "


def _insertion(text: str, node: Node, path: Path, value: JsonValue, unit: str) -> list[Edit]:
    value = _nested(path[1:], value)
    name = json_of(path[0])
    end = newline(text)
    if not node.members:
        return [_first(text, node, name, value, unit)]
    last = node.members[-1]
    closing = "," if node.trailing is not None else ""
    comma = [] if closing else [Edit(last.node.end, last.node.end, ",")]
    behind = last.node.end if node.trailing is None else node.trailing + 1
    if not _is_multiline(text, node):
        made = f" {name}: {json_of(value)}{closing}"
        if comma:
            return [Edit(behind, behind, f",{made}")]
        return [Edit(behind, behind, made)]
    indent = indent_of(text, last.start)
    made = f"{end}{indent}{name}: {_render(value, indent, unit, end)}{closing}"
    place = _behind_comment(text, behind)
    if place == behind and comma:
        return [Edit(behind, behind, f",{made}")]
    return [*comma, Edit(place, place, made)]


def _first(text: str, node: Node, name: str, value: JsonValue, unit: str) -> Edit:
    end, outer = newline(text), indent_of(text, node.start)
    inside = text[node.start + 1 : node.end - 1]
    at = node.start + 1
    while found := _COMMENT.search(text, at, node.end - 1):
        at = found.end()
    if at > node.start + 1 and "\n" not in text[at : node.end - 1]:
        return Edit(at, at, f" {name}: {json_of(value)}")
    made = f"{end}{outer}{unit}{name}: {_render(value, outer + unit, unit, end)}"
    closes = "" if "\n" in inside[at - node.start - 1 :] else f"{end}{outer}"
    return Edit(at, at, f"{made}{closes}")


def _behind_comment(text: str, at: int) -> int:
    """Behind the comments that follow on the same line, where nothing else does."""
    end = at
    while found := re.compile(r"[ \t]*(//[^\n]*|/\*[^\n]*?\*/)").match(text, end):
        end = found.end()
    if text[:end].endswith("\r"):
        end -= 1
    rest = text[end : text.find("\n", end)] if "\n" in text[end:] else text[end:]
    return end if not rest.strip() else at


def _cuttings(text: str, around: Node, member: Member) -> Iterator[list[Edit]]:
    """Yield ways to remove a member; the last is for one that we did not write."""
    place = around.members.index(member)
    before = around.members[place - 1] if place else None
    end = member.node.end if member.comma is None else member.comma + 1
    edits = []
    if member.comma is None and before is not None and before.comma is not None:
        edits.append(Edit(before.comma, before.comma + 1, ""))
    beside = text[around.start + 1 : member.start] + text[end : around.end - 1]
    if not beside.strip(_BLANK):
        yield [Edit(around.start + 1, around.end - 1, "")]
    blank = len(text[: member.start].rstrip(_BLANK))
    whole = [*edits, Edit(blank, end, "")]
    yield whole
    follows = len(text) - len(text[end:].lstrip(" \t"))
    line_ends = text[follows : follows + 1] in ("", "\r", "\n")
    if not line_ends:
        yield [*edits, Edit(member.start, follows, "")]


def _render(value: JsonValue, indent: str, unit: str, end: str) -> str:
    """Return `value` in lines indented by `indent`; short plain lists in one line."""
    inner = indent + unit
    if isinstance(value, Mapping) and value:
        rows = [
            f"{json_of(name)}: {_render(each, inner, unit, end)}" for name, each in value.items()
        ]
        opening, closing = "{}"
    elif isinstance(value, list) and value and len(indent) + len(json_of(value)) > 80:
        rows = [_render(each, inner, unit, end) for each in value]
        opening, closing = "[]"
    else:
        return json_of(value)
    lines = f",{end}".join(f"{inner}{row}" for row in rows)
    return f"{opening}{end}{lines}{end}{indent}{closing}"
