"""YAML block mappings. PyYAML finds the positions; plain words are compared as written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.text import (
    MAX_LEVELS,
    Brackets,
    Edit,
    FormatError,
    LimitError,
    Path,
    apply_edits,
    difference,
    find_twice,
    find_value,
    json_of,
    line_end,
    line_number,
    line_start,
    newline,
)

if TYPE_CHECKING:
    import yaml

# PyYAML takes long: a second for 30,000 values, or for 4 MiB of anything
MAX_YAML_VALUES = 20_000  # values, each as often as an alias names it
MAX_YAML_CHARACTERS = 2**20  # characters
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_DASH = re.compile(r"^ *-(?=\s|$)", re.MULTILINE)  # that an item in lines begins with
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
_JSON_WORDS: Mapping[str, JsonValue] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}
_EMPTY = ("", "~", "null")


@dataclass(slots=True)
class Node:
    """A value in a text.

    Attributes:
        kind: `mapping`, `list`, `scalar` or `alias`.
        start, end: Its span without blanks and comments around it.
        column: That of its first line.
        word: The text of a scalar, or an alias's name.
        mark: Its anchor and tag, and `plain` for an unquoted scalar.
        flow: It is in brackets.
        members: (name, value); list items have the name None.
    """

    kind: str
    start: int
    end: int
    column: int
    word: str = ""
    mark: tuple[str, ...] = ()
    flow: bool = False
    members: list[tuple[Node, Node]] = field(default_factory=list)

    def find(self, name: str) -> tuple[Node, Node] | None:
        found = (each for each in self.members if each[0].word == name)
        return next(found, None)


class Yaml:
    """YAML as a format."""

    def read_value(self, text: str) -> JsonValue:
        node = _parse(text)
        return {} if node is None else _value(node, _Anchors())

    def written(self, text: str) -> JsonValue:
        """Return the value of `text` with plain words as written."""
        node = _parse(text)
        return {} if node is None else _written(node)

    def check(self, text: str, path: Path) -> None:
        """Raise FormatError if a name on `path` is duplicate or not a mapping."""
        node = _parse(text)
        for place, name in enumerate(path):
            if node is None or node.kind == "alias":
                return
            _check_names(text, node, path[:place])
            node = found[1] if (found := node.find(name)) else None

    def insert(self, text: str, path: Path, value: JsonValue) -> str:
        """Return `text` with a new member at `path`, and missing mappings on the way."""
        root = _parse(text)
        if root is None:
            return _append(text, len(text), _lines(path, value, 0))
        node, rest = _walk(text, root, path)
        if node.kind == "scalar" or (node.flow and not node.members):
            return self._open_up(text, root, path[: len(path) - len(rest)], rest, value)
        if node.flow:
            raise FormatError(
                f"{_shown(path[: len(path) - len(rest)])} is written in one line, where nothing is"
                " added: write it a member a line",
                line_number(text, node.start),
            )
        return _append(text, _content_end(node), _lines(rest, value, node.column))

    def _open_up(self, text: str, root: Node, path: Path, rest: Path, value: JsonValue) -> str:
        """A mapping that is empty, or a null, gets lines of its own below its name."""
        if not path:
            inside = _inside(text, root).rstrip(" \t")
            bare = text[: root.start] + inside + text[root.end :]
            return _append(bare, root.start + len(inside), _lines(rest, value, 0))
        around, _ = _walk(text, root, path[:-1])
        found = around.find(path[-1])
        assert found is not None
        name, empty = found
        return _put_below(text, name, empty, _lines(rest, value, name.column + 2))

    def replace(self, text: str, path: Path, value: JsonValue) -> str:
        name, node = _member(text, path)
        if node.kind != "alias":
            _check_shared(text, node, path)
        there = find_value(self.read_value(text), path)
        if node.kind == "list" and isinstance(there, list) and isinstance(value, list):
            if not node.flow:
                return _edit_lines(text, name, node, there, value)
            if (edits := _brackets(text, node).edits(there, value, _scalar)) is not None:
                return apply_edits(text, edits)
        if node.kind == "scalar" and node.end > node.start and not isinstance(value, (list, dict)):
            return apply_edits(text, [Edit(node.start, node.end, _scalar(value))])
        lines = _lines(path[-1:], value, name.column)
        if len(lines) > 1 and len(path) > 1 and _member(text, path[:-1])[1].flow:
            start = max(node.start, name.end + 1)
            lead = "" if text[start - 1].isspace() else " "
            return apply_edits(text, [Edit(start, max(start, node.end), lead + json_of(value))])
        if len(lines) > 1 and (_is_null(node) or (node.flow and not node.members)):
            return _put_below(text, name, node, lines[1:])
        made = newline(text).join(lines).lstrip()
        return apply_edits(text, [Edit(name.start, _content_end(node, name), made)])

    def cut(self, text: str, path: Path) -> str:
        name, node = _member(text, path)
        start, edits = line_start(text, name.start), list[Edit]()
        if len(path) > 1:
            around, siblings = _member(text, path[:-1])
            if len(siblings.members) == 1:  # nothing at all is a null, which is no mapping
                behind = text.index(":", around.end) + 1
                edits.append(Edit(behind, behind, " {}"))
        if text[start : name.start].strip():
            raise FormatError(
                f"{_shown(path)} shares its line: take it out by hand",
                line_number(text, start),
            )
        end = line_end(text, _content_end(node, name) - 1)
        if end == len(text) and not text.endswith("\n") and start:
            start -= 2 if text[:start].endswith("\r\n") else 1
        return apply_edits(text, [*edits, Edit(start, end, "")])


# --- reading --------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _parse(text: str) -> Node | None:
    """Return the only document, or None if there are just comments. Cached."""
    import yaml

    if len(text) > MAX_YAML_CHARACTERS:
        raise LimitError(MAX_YAML_CHARACTERS, "characters")
    try:
        events = _events(text)
        first = next(events, None)
        node = None if first is None else _node(first, events, 0)
        list(events)  # whether it ends well
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        said = getattr(problem, "problem", None) or type(problem).__name__
        raise FormatError(f"this is no YAML: {said}", mark.line + 1 if mark else 0) from None
    if node is None:
        return None
    nothing = node.kind == "scalar" and node.start == node.end and not any(node.mark[:2])
    return None if nothing else node


def _events(text: str) -> Iterator[yaml.Event]:
    """The events of the only document, of values alone. Raises FormatError and YAMLError."""
    import yaml

    documents = count = 0
    for each in yaml.parse(text, Loader=yaml.SafeLoader):
        documents += isinstance(each, yaml.DocumentStartEvent)
        count += isinstance(each, yaml.NodeEvent)
        if documents > 1:
            raise FormatError("it has more than one document")
        if count > MAX_YAML_VALUES:
            raise LimitError(MAX_YAML_VALUES)
        if isinstance(each, (yaml.NodeEvent, yaml.CollectionEndEvent)):
            yield each


def _node(event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Node:
    import yaml

    start, end, column = _place(event)
    made = Node("scalar", start, end, column)
    if isinstance(event, yaml.AliasEvent):
        made.kind, made.word = "alias", str(event.anchor)
    elif isinstance(event, yaml.ScalarEvent):
        made.word = event.value
        made.mark = (event.anchor or "", event.tag or "", "" if event.style else "plain")
    else:
        assert isinstance(event, yaml.CollectionStartEvent)
        if depth == MAX_LEVELS:
            raise FormatError("it is nested too deeply")
        made.kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "list"
        made.flow = bool(event.flow_style)
        made.mark = (event.anchor or "", event.tag or "")
        _take_members(made, events, depth)
    return made


def _take_members(made: Node, events: Iterator[yaml.Event], depth: int) -> None:
    import yaml

    nothing = Node("scalar", 0, 0, 0)
    while not isinstance(each := next(events), yaml.CollectionEndEvent):
        name = nothing
        if made.kind == "mapping":
            name, each = _node(each, events, depth + 1), next(events)
        made.members.append((name, _node(each, events, depth + 1)))
    if made.flow:
        made.end = _place(each)[1]
    else:  # in lines, of which there is at least one
        name, value = made.members[-1]
        made.end = max(name.end, value.end)


def _place(event: yaml.Event) -> tuple[int, int, int]:
    start, end = event.start_mark, event.end_mark
    assert start is not None
    assert end is not None
    return start.index, end.index, start.column


class _Anchors:
    """Values by their anchors, and how many stand in the whole, each as often as it is named."""

    def __init__(self) -> None:
        self.size = 0
        self._values: dict[str, tuple[JsonValue, int]] = {}

    def keep(self, name: str, value: JsonValue, size: int) -> None:
        self._values[name] = value, size

    def find(self, name: str) -> JsonValue:
        value, size = self._values.get(name, (None, 1))
        self.count(size)
        return value

    def count(self, size: int) -> None:
        """Raises FormatError where there are too many: a few lines can stand for billions."""
        self.size += size
        if self.size > MAX_YAML_VALUES:
            raise FormatError(
                f"its aliases stand for too much: for more than {MAX_YAML_VALUES:,} values"
            )


def _value(node: Node, anchors: _Anchors) -> JsonValue:
    found: JsonValue
    before = anchors.size
    if node.kind == "alias":
        return anchors.find(node.word)
    anchors.count(1)
    if node.kind == "mapping":
        found = {name.word: _value(each, anchors) for name, each in node.members}
    elif node.kind == "list":
        found = [_value(each, anchors) for _, each in node.members]
    else:
        found = _plain(node.word) if "plain" in node.mark else node.word
    if node.mark[0]:
        anchors.keep(node.mark[0], found, anchors.size - before)
    return found


def _plain(word: str) -> JsonValue:
    if word.lower() in _JSON_WORDS:
        return _JSON_WORDS[word.lower()]
    if re.fullmatch(r"[-+]?\d{1,300}", word):
        return int(word)
    if re.fullmatch(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?", word):
        return float(word)
    return word


def _written(node: Node) -> JsonValue:
    if node.kind == "mapping":
        members = {name.word: _written(each) for name, each in node.members}
        return {"": list(node.mark), **members} if any(node.mark) else members
    if node.kind == "list":
        return [list(node.mark), *(_written(each) for _, each in node.members)]
    return (node.kind, node.word, *node.mark)


def _walk(text: str, node: Node, path: Path) -> tuple[Node, Path]:
    """Return the innermost existing mapping on `path`, and the rest of the path."""
    for place, name in enumerate(path):
        _check_mapping(text, node, path[:place])
        found = node.find(name)
        if found is None:
            return node, path[place:]
        node = found[1]
    _check_mapping(text, node, path)
    return node, ()


def _check_mapping(text: str, node: Node, path: Path) -> None:
    _check_shared(text, node, path)
    _check_names(text, node, path)


def _check_shared(text: str, node: Node, path: Path) -> None:
    if node.kind == "alias" or node.mark[0]:
        line = line_number(text, node.start)
        what = _shown(path)
        raise FormatError(f"{what} is shared by an anchor: what is added there counts twice", line)


def _check_names(text: str, node: Node, path: Path) -> None:
    """Raises FormatError for what is no mapping, or has a name twice."""
    line, what = line_number(text, node.start), _shown(path)
    if node.kind != "mapping" and not (_is_null(node) and path):
        raise FormatError(f"{what} is no mapping", line)
    if (twice := find_twice(name.word for name, _ in node.members)) is not None:
        raise FormatError(f'{what} has "{twice}" twice: leave one of them', line)


def _is_null(node: Node) -> bool:
    return node.kind == "scalar" and "plain" in node.mark and node.word.lower() in _EMPTY


def _inside(text: str, node: Node) -> str:
    """Return the comments inside the brackets of an empty value."""
    opening = re.compile(r"[{\[]").search(text, node.start, node.end) if node.flow else None
    return text[opening.end() : node.end - 1] if opening else ""


def _member(text: str, path: Path) -> tuple[Node, Node]:
    root = _parse(text)
    around, rest = (None, path) if root is None else _walk(text, root, path[:-1])
    found = around.find(path[-1]) if around is not None and not rest else None
    if found is None:
        raise FormatError(f"there is no {_shown(path)}")
    return found


def _shown(path: Path) -> str:
    return f'"{".".join(path)}"' if path else "the file"


# --- writing --------------------------------------------------------------------------------------


def _put_below(text: str, name: Node, empty: Node, lines: list[str]) -> str:
    """Replace an empty value by `lines`, below its name and comments."""
    behind = text.index(":", name.end) + 1
    start, end = max(behind, empty.start), max(behind, empty.end)
    before = (text[behind:start] + _inside(text, empty)).rstrip(" \t")
    after = text[end:]
    if before.endswith("\n"):  # it has a line of its own
        after = after.removeprefix("\r").removeprefix("\n")
    bare = f"{text[:behind]}{before}{after}"
    return _append(bare, behind + len(before), lines)


def _content_end(node: Node, name: Node | None = None) -> int:
    return max(node.end, name.end + 1 if name else 0)


def _append(text: str, at: int, lines: list[str]) -> str:
    """`lines` behind the line of what ends at `at`; the last line of the text ends as it did."""
    end = newline(text)
    place = line_end(text, at - 1) if at else 0
    made = end.join(lines)
    if not place or text[:place].endswith("\n"):
        return f"{text[:place]}{made}{end}{text[place:]}"
    return f"{text}{end}{made}"


def _brackets(text: str, node: Node) -> Brackets:
    items = [(each.start, each.end) for _, each in node.members]
    start = text.index("[", node.start)  # behind a tag
    return Brackets(text, start, node.end, items, r"#[^\r\n]*")


def _edit_lines(
    text: str, name: Node, node: Node, old: Sequence[JsonValue], new: Sequence[JsonValue]
) -> str:
    """Change a block list where the items differ; its comments stay."""
    start, end, made = difference(old, new)
    words = [_scalar(each) for each in made]
    places = _items(text, name, node)
    edits = [
        Edit(first, last, each)
        for (_, first, last), each in zip(places[start:end], words, strict=False)
    ]
    rest = words[end - start :]
    if rest:
        before = places[end - 1][2] if end else name.end + 1
        column = places[0][0] - line_start(text, places[0][0])
        text = _append(text, before, [f"{' ' * column}- {each}" for each in rest])
        return apply_edits(text, edits)
    gone = places[start + len(words) : end]
    edits += [_without_item(text, dash, last) for dash, _, last in gone]
    if not new:
        behind = text.index(":", name.end) + 1
        edits.append(Edit(behind, behind, " []"))
    after = apply_edits(text, edits)
    return after if text.endswith("\n") else after.removesuffix(newline(text))


def _items(text: str, name: Node, node: Node) -> list[tuple[int, int, int]]:
    """Return (dash, start, end) for each item of a block list."""
    found, before = list[tuple[int, int, int]](), name.end
    for _, each in node.members:
        dash = _DASH.search(text, before, each.start)
        if dash is None:
            raise FormatError(
                f'"{name.word}" is a list that begins within a line: write it an item a line',
                line_number(text, each.start),
            )
        end = len(text[: each.end].rstrip())
        found.append((dash.end() - 1, each.start, end))
        before = end
    return found


def _without_item(text: str, dash: int, end: int) -> Edit:
    """An item goes with its line; a comment behind it stays."""
    stop = line_end(text, end - 1)
    follows = text[end:stop].strip()
    if follows:
        return Edit(dash, text.index(follows, end), "")
    return Edit(line_start(text, dash), stop, "")


def _lines(path: Path, value: JsonValue, column: int) -> list[str]:
    """A member, in blocks as Goose writes them."""
    blank = " " * column
    name = _scalar(path[0])
    if len(path) > 1:
        return [f"{blank}{name}:", *_lines(path[1:], value, column + 2)]
    if isinstance(value, Mapping) and value:
        inner = [line for key, each in value.items() for line in _lines((key,), each, column + 2)]
        return [f"{blank}{name}:", *inner]
    if isinstance(value, list) and value:
        return [f"{blank}{name}:", *(f"{blank}- {_scalar(each)}" for each in value)]
    return [f"{blank}{name}: {_scalar(value)}"]


def _scalar(value: JsonValue) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json_of(value)
