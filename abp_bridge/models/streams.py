"""Parse agents' output from bytes that may be cut anywhere: JSON lines of programs, and server-sent
events or one JSON text of APIs.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from abp_bridge.core.json_value import JsonObject, parse_json
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.json_lines import MAX_LINE, JsonLines


@dataclass(frozen=True, slots=True)
class StreamPart:
    """A part of parsed output.

    Attributes:
        kind: A whole `message`; `partial` for an incomplete one; `eof`; or an `error`.
        error: What is wrong, safe to show.
    """

    kind: Literal["message", "partial", "eof", "error"]
    message: JsonObject = field(default_factory=dict)
    error: str = ""


PARTIAL, EOF = StreamPart("partial"), StreamPart("eof")
_DONE = b"[DONE]"  # OpenAI's word, in an event of its own, for the end of a stream
_CUT = "it ended within an event"


class EventStream:
    """Parses server-sent events; `is_whole` if the last one is complete."""

    def __init__(self) -> None:
        self.is_whole = False
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in `data`; names and comments are skipped.

        Raises:
            RemoteProtocolError: An event has more than `MAX_LINE` bytes.
        """
        first, *lines = data.split(b"\n")
        self._take(first)
        for line in lines:
            yield from self._end_line()
            self._take(line)

    def _take(self, data: bytes) -> None:
        self._line += data
        self._size += len(data)
        self.is_whole = self.is_whole and not data
        if self._size > MAX_LINE:
            raise RemoteProtocolError(f"an event of more than {MAX_LINE:,} bytes")

    def _end_line(self) -> Iterator[bytes]:
        line = bytes(self._line).removesuffix(b"\r")
        self._line.clear()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        self.is_whole = not line
        if self.is_whole:
            self._size = 0
            event, self._data = self._data, []
            if event:
                yield b"\n".join(event)


class LineStream:
    """Parses JSON objects, one a line."""

    def __init__(self) -> None:
        self._lines = JsonLines()
        self._told = 0  # of the lines that are no objects

    def feed(self, data: bytes) -> Sequence[StreamPart]:
        """Return the new messages and errors; `partial` is last if one has begun."""
        parts = [*self._parse(self._lines.feed(data))]
        return [*parts, PARTIAL] if self._lines.is_partial else parts

    def end(self) -> Sequence[StreamPart]:
        """Return what was left, an error if a message was cut, and `eof`."""
        return [*self._parse(self._lines.end()), EOF]

    def _parse(self, lines: Iterator[JsonObject]) -> Iterator[StreamPart]:
        try:
            for line in lines:
                yield from self._errors()
                yield StreamPart("message", line)
        except RemoteProtocolError as problem:
            yield _error(str(problem))
        yield from self._errors()

    def _errors(self) -> Iterator[StreamPart]:
        for _ in range(self._lines.ignored - self._told):
            yield _error("a line that is no JSON object")
        self._told = self._lines.ignored


class ApiStream:
    """Parses the answer of a model's API: server-sent events, or one JSON text."""

    def __init__(self) -> None:
        self._events = EventStream()
        self._text = bytearray()  # all of a JSON text, or blanks before anything
        self._is_text: bool | None = None  # not known yet

    def feed(self, data: bytes) -> Sequence[StreamPart]:
        """Return the new messages and errors; `partial` is last if one has begun."""
        if self._is_text is None:
            data = bytes(self._text) + data
            self._text.clear()
            begun = data.removeprefix(BOM_UTF8).lstrip()
            self._is_text = begun.startswith((b"{", b"[")) if begun else None
        if self._is_text is False:
            parts = [*self._parse(data)]
            return parts if self._events.is_whole else [*parts, PARTIAL]
        if len(self._text) + len(data) > MAX_LINE:
            return [_error(f"a text of more than {MAX_LINE:,} bytes")]
        self._text += data
        return [PARTIAL] if self._is_text else []

    def end(self) -> Sequence[StreamPart]:
        """Return what was left, an error if a message was cut, and `eof`."""
        if self._is_text:
            return [_message(bytes(self._text)), EOF]
        is_cut = self._is_text is False and not self._events.is_whole
        return [_error(_CUT), EOF] if is_cut else [EOF]

    def _parse(self, data: bytes) -> Iterator[StreamPart]:
        try:
            for event in self._events.feed(data):
                yield EOF if event.strip() == _DONE else _message(event)
        except RemoteProtocolError as problem:
            yield _error(str(problem))


def _message(text: bytes) -> StreamPart:
    try:
        value = parse_json(text)
    except ValueError as problem:
        return _error(f"it is no JSON: {problem}")
    if not isinstance(value, dict):
        return _error("it is no JSON object")
    return StreamPart("message", value)


def _error(words: str) -> StreamPart:
    return StreamPart("error", error=words)


StreamParser = LineStream | ApiStream
