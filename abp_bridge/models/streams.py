"""What agents say, read from bytes that may be cut anywhere (`StreamParser`): command lines and
ACP write JSON lines, the APIs of models events, or one JSON text where something is wrong.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence

from abp_bridge.core.json_value import JsonObject, parse_json
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.models.event_stream import MAX_EVENT, EventStream
from abp_bridge.models.turn import StreamPart
from abp_bridge.protocols.json_lines import JsonLines

PARTIAL, EOF = StreamPart("partial"), StreamPart("eof")
_DONE = b"[DONE]"  # OpenAI's word, in an event of its own, for the end of a stream
_CUT = "it ended within an event"


class LineStream:
    """Implements `StreamParser` for JSON objects, one a line."""

    def __init__(self) -> None:
        self._lines = JsonLines()
        self._told = 0  # of the lines that are no objects

    def feed(self, data: bytes) -> Sequence[StreamPart]:
        """What is new (`StreamParser.feed`)."""
        parts = [*self._read(self._lines.feed(data))]
        return [*parts, PARTIAL] if self._lines.is_partial else parts

    def end(self) -> Sequence[StreamPart]:
        """What was left (`StreamParser.end`)."""
        return [*self._read(self._lines.end()), EOF]

    def _read(self, lines: Iterator[JsonObject]) -> Iterator[StreamPart]:
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
    """Implements `StreamParser` for the answer of a model's API: server-sent events, or one JSON
    text.
    """

    def __init__(self) -> None:
        self._events = EventStream()
        self._text = bytearray()  # all of a JSON text, or blanks before anything
        self._is_text: bool | None = None  # not known yet

    def feed(self, data: bytes) -> Sequence[StreamPart]:
        """What is new (`StreamParser.feed`)."""
        if self._is_text is None:
            data = bytes(self._text) + data
            self._text.clear()
            begun = data.removeprefix(BOM_UTF8).lstrip()
            self._is_text = begun.startswith((b"{", b"[")) if begun else None
        if self._is_text is False:
            parts = [*self._read(data)]
            return parts if self._events.is_whole else [*parts, PARTIAL]
        if len(self._text) + len(data) > MAX_EVENT:
            return [_error(f"a text of more than {MAX_EVENT:,} bytes")]
        self._text += data
        return [PARTIAL] if self._is_text else []

    def end(self) -> Sequence[StreamPart]:
        """What was left (`StreamParser.end`)."""
        if self._is_text:
            return [_message(bytes(self._text)), EOF]
        is_cut = self._is_text is False and not self._events.is_whole
        return [_error(_CUT), EOF] if is_cut else [EOF]

    def _read(self, data: bytes) -> Iterator[StreamPart]:
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
