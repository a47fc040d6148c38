"""A request to a model's API and its answer as lines of JSON for a tap, so that they can be
recorded
and replayed like a program's. Headers are left out: the key is one of them.
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
    """The lines of one exchange, without `secrets`, which `hidden` replaces."""

    def __init__(self, tap: Tap, secrets: Sequence[str], hidden: str) -> None:
        self._pieces = _Pieces()
        self._source, self._sink = tap(self._pieces, _Nowhere())
        self._secrets = [each.encode() for each in secrets]
        self._hidden = hidden.encode()
        self._about: dict[str, JsonValue] = {}
        self._has_events = False
        self._rest = b""

    def on_request(self, request: str, body: JsonValue) -> None:
        """Write a request: its method and its path below the API's address, and its body."""
        self._sink.write_nowait(self._line({"http": request, "body": body}))

    async def on_response(self, status: int, headers: Mapping[str, str], *, events: bool) -> None:
        """Begin the answer, which is a stream of `events` or one text."""
        self._about = {"status": status}
        if RETRY_AFTER in headers:
            self._about[RETRY_AFTER] = headers[RETRY_AFTER]
        self._has_events = events
        if events:
            await self._tell(self._line(self._about))

    async def hear(self, data: bytes) -> None:
        """Take a piece of the answer."""
        *lines, rest = (
            (self._rest + data).split(b"\n") if self._has_events else (self._rest + data,)
        )
        self._rest = rest[:MAX_LINE]
        for line in lines:
            await self._on_line(line)

    async def end(self) -> None:
        """End the answer."""
        if self._has_events:
            await self._on_line(self._rest)
        elif self._about:
            await self._tell(self._line({**self._about, "body": _read(self._rest)}))
        self._rest = b""
        await self._tell(b"")

    def close(self) -> None:
        """Stop waiting for the answer. Idempotent."""
        self._sink.close()

    async def _on_line(self, line: bytes) -> None:
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
    """Returns the bytes put there."""

    def __init__(self) -> None:
        self.next = b""

    async def receive(self) -> bytes:
        return self.next

    def close(self) -> None: ...


class _Nowhere(ByteWriter):
    """Discards what is written."""

    def write_nowait(self, data: bytes | memoryview) -> int:
        return len(data)

    async def writable(self) -> None: ...

    def close(self) -> None: ...
