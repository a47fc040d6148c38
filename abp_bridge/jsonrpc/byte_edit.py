"""Lines as bytes: cut out of a stream, and changed in one place without touching the rest.

A line that is read as JSON and written again is another line: duplicate members go, long numbers
change, escapes move. So a member is put into the text where it belongs, and every other byte stays
what it was. The id of a response is read from its first or last bytes, so that a long result need
not be read for it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterator, Sequence

from abp_bridge.core.json_value import JsonValue
from abp_bridge.jsonrpc.protocol import Id, is_id

MAX_LINE = 64 * 2**20  # bytes: of a longer line nothing is looked at

_WHITE = " \t\r\n\ufeff"
_DECODER = json.JSONDecoder()
_CODE = ("utf-8", "surrogatepass")  # as `json` reads bytes


class Cutter:
    """Cuts a stream into blocks of whole lines.

    What is longer than `longest` bytes passes in parts, so that memory stays bounded.
    """

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._begun: list[bytes] = []  # the beginning of a line
        self._size = 0
        self._passing = False  # inside a line that is too long to be kept

    def cut(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """The next bytes of the stream -> (block, whole): whole lines, or the next part of a line
        that is too long to be looked at.
        """
        if self._passing:
            end = data.find(b"\n") + 1 or len(data)
            self._passing = not data.endswith(b"\n", 0, end)
            yield data[:end], False
            data = data[end:]
        if end := data.rfind(b"\n") + 1:
            yield (b"".join([*self._begun, data[:end]]) if self._begun else data[:end]), True
            self._begun, self._size = [], 0
            data = data[end:]
        if data:
            self._begun.append(data)
            self._size += len(data)
        if self._size > self._longest:
            yield self.rest(), False
            self._passing = True

    def rest(self) -> bytes:
        """At the end of the stream: what came after the last line."""
        rest = b"".join(self._begun)
        self._begun, self._size = [], 0
        return rest


def parse_line(line: bytes) -> JsonValue:
    """What a line says, read generously: None for what is no JSON, and for a number in it that JSON
    or Python cannot hold (NaN, Infinity, 1e999, 5,000 digits).
    """
    return _parse(line, _CODE[1])


def parse_broken_line(line: bytes) -> JsonValue:
    """`parse_line`, also of what is no UTF-8: as the most forgiving of readers would."""
    found = parse_line(line)
    return _parse(line, "replace") if found is None else found


def _parse(line: bytes, errors: str) -> JsonValue:
    try:
        value: JsonValue = _READER.decode(line.decode(json.detect_encoding(line), errors))
    except (ValueError, RecursionError):
        return None
    return value


def _whole(word: str) -> int | None:
    try:
        return int(word)
    except ValueError:  # Python reads 4,300 digits at most
        return None


def _finite(word: str) -> float | None:
    value = float(word)
    return value if math.isfinite(value) else None


# Made once: making one costs more than reading a line.
_READER = json.JSONDecoder(parse_constant=lambda word: None, parse_float=_finite, parse_int=_whole)


def put_member(line: bytes, path: Sequence[str], value: JsonValue) -> bytes:
    """`line`, which is a JSON object, with `value` at `path`, and nothing else changed.

    Objects that are missing on the way are made, also where there is a `null`. Something else on
    the way: the line stays as it is.
    """
    text = _text(line)
    start, end, made = _place(text, _skip(text, 0), path, value)
    return (text[:start] + made + text[end:]).encode(*_CODE)


def put_in_items(
    line: bytes, path: Sequence[str], which: Container[int], inner: Sequence[str], value: JsonValue
) -> bytes:
    """`line` with `value` at `inner` of some items of the list at `path`, each as in `put_member`.

    The line is read once, however many they are.

    Args:
        line: A JSON object.
        path: Where the list is; what is none stays as it is.
        which: The indices of the items.
        inner: Where in each of them.
        value: What to put there.
    """
    text = _text(line)
    start = _find_value(text, path)
    if start is None or not text.startswith("[", start):
        return line
    parts, done = list[str](), 0
    for index, at in enumerate(_items(text, start)):
        if index in which:
            begin, end, made = _place(text, at, inner, value)
            parts += (text[done:begin], made)
            done = end
    return "".join((*parts, text[done:])).encode(*_CODE)


def append_item(line: bytes, path: Sequence[str], value: JsonValue) -> bytes:
    """`line` with `value` as the last item of the list at `path`, which is made as in `put_member`.

    Something else there stays as it is.
    """
    text = _text(line)
    start = _find_value(text, path)
    if start is None or text.startswith("null", start):
        return put_member(line, path, [value])
    if not text.startswith("[", start):
        return line
    _, end = _DECODER.raw_decode(text, start)
    empty = text[start + 1 : end - 1].strip(_WHITE) == ""
    return (text[: end - 1] + ("" if empty else ",") + _dump(value) + text[end - 1 :]).encode(
        *_CODE
    )


def cut_member(line: bytes, path: Sequence[str]) -> tuple[bytes, str]:
    """`line` without the member at `path`, and what stood there, as it stood; empty if none did.

    Of several with one name the last is what stood there: all of them go.
    """
    text, found = _text(line), ""
    *way, name = path
    while (at := _find_value(text, way)) is not None and text.startswith("{", at):
        if (start := _members(text, at).get(name)) is None:
            break
        end = _DECODER.raw_decode(text, start)[1]
        found = found or text[start:end]
        text = _without(text, at, start, end)
    return text.encode(*_CODE), found


def _without(text: str, at: int, start: int, end: int) -> str:
    """`text` without the member of the object at `at` whose value is from `start` to `end`."""
    before = [each for each in _members(text, at).values() if each < start]
    begin = _DECODER.raw_decode(text, max(before))[1] if before else at + 1
    after = _skip(text, end)
    if not before and text.startswith(",", after):
        end = after + 1
    return text[:begin] + text[end:]


def _find_value(text: str, path: Sequence[str]) -> int | None:
    """Where the value at `path` begins."""
    at: int | None = _skip(text, 0)
    for name in path:
        at = _members(text, at).get(name) if at is not None and text.startswith("{", at) else None
    return at


def _place(text: str, at: int, path: Sequence[str], value: JsonValue) -> tuple[int, int, str]:
    """(start, end, what to write between them) for `value` at `path` below the value at `at`."""
    if not path or text.startswith("null", at):
        for name in reversed(path):
            value = {name: value}
        return at, _DECODER.raw_decode(text, at)[1], _dump(value)
    if not text.startswith("{", at):
        return at, at, ""
    members = _members(text, at)
    if (member := members.get(path[0])) is not None:
        return _place(text, member, path[1:], value)
    for name in reversed(path):
        value = {name: value}
    last = _DECODER.raw_decode(text, at)[1] - 1
    return last, last, ("," if members else "") + _dump(value)[1:-1]


def _members(text: str, at: int) -> dict[str, int]:
    """The members of the object at `at`: where the value of each begins.

    Of two with one name the last counts, as everywhere.
    """
    found: dict[str, int] = {}
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        name, at = _DECODER.raw_decode(text, at)
        found[name] = at = _skip(text, _skip(text, at) + 1)
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text.startswith(",", at):
            at = _skip(text, at + 1)
    return found


def _items(text: str, at: int) -> Iterator[int]:
    """Where each item of the list at `at` begins."""
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        yield at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text.startswith(",", at):
            at = _skip(text, at + 1)


def _text(line: bytes) -> str:
    return line.decode(*_CODE)


def _skip(text: str, at: int) -> int:
    while text[at] in _WHITE:
        at += 1
    return at


def _dump(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_ID = rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
# Behind the brace of the whole message, and before it: no string holds these quotes unescaped.
_FIRST = re.compile(rb'\s*\{\s*%b,\s*"(?:result|error)"\s*:' % _ID)
_LAST = re.compile(rb",\s*%b\}\s*\Z" % _ID)
_RESULT_FIRST = re.compile(rb'\s*\{\s*"(?:result|error)"\s*:')
_BEGIN = 1_000  # bytes in which the first members of a request stand
_MEMBER = re.compile(rb'"([^"\\]*)"\s*:\s*("[^"\\]*"|[^\s,{}\[\]"]+)\s*,')
_SCALARS = re.compile(rb"\s*\{(?:\s*%b)*" % re.sub(rb"\((?!\?)", b"(?:", _MEMBER.pattern))
_END = 300  # bytes in which such an end stands


def find_response_id(line: bytes) -> Id | None:
    """The id of the request that `line` answers, which is a message; None where that is not
    certain, or it is no response.
    """
    found = _FIRST.match(line)
    if found is None and _RESULT_FIRST.match(line):
        found = _LAST.search(line, max(0, len(line) - _END))
    if found is None:
        return None
    return _decode_id(found[1])


def find_request_id(begin: bytes) -> Id | None:
    """The id of the request that a line begins with; None where its first members do not say."""
    named = dict(_MEMBER.findall(found[0])) if (found := _SCALARS.match(begin[:_BEGIN])) else {}
    return _decode_id(named[b"id"]) if {b"id", b"method"} <= named.keys() else None


def _decode_id(written: bytes) -> Id | None:
    try:
        id = json.loads(written)
    except ValueError:  # such as 007, or a string that is no UTF-8
        return None
    return id if is_id(id) else None
