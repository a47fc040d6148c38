"""A request to a model's API and its answer, as lines of JSON past a tap: what a program on pipes
would have exchanged, so that it can be overheard, and played, like one.

Headers stay away: the key is among them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from abp_bridge.core.json_value import JsonValue
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.tap import MAX_HEARD_LINE, Tap

# bytes of an event, and of an answer that has none: more than a tap keeps of a line, which so knows
# that it has not all of it
MAX_LINE = MAX_HEARD_LINE + 64
RETRY_AFTER = "retry-after"
_DATA = b"data:"


class Transcript:
    """What passes in one exchange, as it passes.

    Args:
        tap: Hears it.
        secrets: What no line may have, the longest first.
        hidden: Stands in their place.
    """

    def __init__(self, tap: Tap, secrets: Sequence[str], hidden: str) -> None:
        self._pieces = _Pieces()
        self._source, self._sink = tap(self._pieces, _Nowhere())
        self._secrets = [each.encode() for each in secrets]
        self._hidden = hidden.encode()
        self._about: dict[str, JsonValue] = {}
        self._has_events = False
        self._rest = b""

    def on_request(self, request: str, body: JsonValue) -> None:
        """A request is sent: `request` is its method and its path below the API's address."""
        self._sink.write_nowait(self._line({"http": request, "body": body}))

    async def on_response(self, status: int, headers: Mapping[str, str], *, events: bool) -> None:
        """Its answer begins.

        Args:
            status: Of HTTP.
            headers: Of the answer: when to try again is told.
            events: Whether it is a stream of events.
        """
        self._about = {"status": status}
        if RETRY_AFTER in headers:
            self._about[RETRY_AFTER] = headers[RETRY_AFTER]
        self._has_events = events
        if events:
            await self._tell(self._line(self._about))

    async def hear(self, data: bytes) -> None:
        """A piece of the answer."""
        *lines, rest = (
            (self._rest + data).split(b"\n") if self._has_events else (self._rest + data,)
        )
        self._rest = rest[:MAX_LINE]
        for line in lines:
            await self._on_line(line)

    async def end(self) -> None:
        """The answer is over."""
        if self._has_events:
            await self._on_line(self._rest)
        elif self._about:
            await self._tell(self._line({**self._about, "body": _read(self._rest)}))
        self._rest = b""
        await self._tell(b"")

    def close(self) -> None:
        """Nobody waits for more of it. Idempotent."""
        self._sink.close()

    async def _on_line(self, line: bytes) -> None:
        """The events' own names stand in what they say, wherever they have one."""
        said = line.removeprefix(_DATA).strip()
        if line.startswith(_DATA) and said:
            await self._tell(self._without_secrets(said) + b"\n")

    def _line(self, message: JsonValue) -> bytes:
        return self._without_secrets(json.dumps(message, ensure_ascii=False).encode()) + b"\n"

    def _without_secrets(self, line: bytes) -> bytes:
        for each in self._secrets:
            line = line.replace(each, self._hidden)
        return line

    async def _tell(self, data: bytes) -> None:
        self._pieces.next = data
        await self._source.receive()


def _read(body: bytes) -> JsonValue:
    text = body.decode(errors="replace")
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


class _Pieces(ByteReader):
    """What is received is what was put there."""

    def __init__(self) -> None:
        self.next = b""

    async def receive(self) -> bytes:
        return self.next

    def close(self) -> None:
        """There is nothing to close."""


class _Nowhere(ByteWriter):
    """What is written is gone."""

    def write_nowait(self, data: bytes | memoryview) -> int:
        return len(data)

    async def writable(self) -> None:
        """It is always ready for more."""

    def close(self) -> None:
        """There is nothing to close."""
