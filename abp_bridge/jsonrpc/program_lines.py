"""A program's lines as messages for the SDKs' connections. Malformed lines are reported and
dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from abp_bridge.core.json_value import JsonObject, JsonValue, is_deeper, parse_json
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.memory_pipe import write_all
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    MAX_DEPTH,
    MAX_PASSED_LINE,
    dump,
    is_id,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_WAITING = 1_000  # messages for a program that does not read; then who sends waits
FAREWELL = 0.3  # seconds for the last answers to leave: a host waits two for all of us
DUPLICATE_ID = "it has the id of a request that is still open"
NO_MESSAGE = "it is no message of JSON-RPC"
NO_RESPONSE = "answer is no response of JSON-RPC"


class ProgramListener(Protocol):
    """Who takes what a program tells."""

    def on_notification(self, method: str, params: JsonObject) -> None:
        """It told something; in the order in which it came, before later answers."""
        ...

    def on_malformed(self, reason: str) -> None:
        """It sent a line that is no message."""
        ...

    def on_end(self) -> None:
        """It says no more."""
        ...


class MessageReader:
    """Read a program's messages; `on_malformed` gets why a line is invalid."""

    def __init__(self, source: ByteReader, on_malformed: Callable[[str], None]) -> None:
        self._source = source
        self._on_malformed = on_malformed
        self._lines: deque[bytes] = deque()  # whole ones that are not read yet
        self._rest = bytearray()

    async def receive(self) -> dict[str, JsonValue] | None:
        """Return the next message with object `params`; None at the end or at an endless line."""
        while True:
            while self._lines:
                if (message := self._parse_line(self._lines.popleft())) is not None:
                    return message
            if len(self._rest) > MAX_PASSED_LINE:
                self._on_malformed(f"it has more than {MAX_PASSED_LINE} bytes")
                return None
            if not (data := await self._source.receive()):
                return None
            first, *lines = data.split(b"\n")
            self._rest += first
            for line in lines:
                self._lines.append(bytes(self._rest))
                self._rest = bytearray(line)

    def _parse_line(self, line: bytes) -> dict[str, JsonValue] | None:
        if not line.strip():
            return None
        try:
            message = parse_json(line)
            if is_deeper(message, MAX_DEPTH):
                raise ValueError("it is nested too deeply")
            if not isinstance(message, dict):
                raise ValueError(NO_MESSAGE)
        except ValueError as problem:
            self._on_malformed(label(str(problem), 200))
            return None
        if not isinstance(message.get("params", {}), dict):
            message["params"] = {}  # SDKs drop such a request, and the program would wait for ever
        return message


def as_error(message: JsonObject, who: str) -> dict[str, JsonValue] | None:
    """Return an error for a malformed response of `who`, or None if it is valid."""
    id = message.get("id")
    if "method" in message or not is_id(id) or isinstance(id, float):
        return None
    words = f"the {who}'s {NO_RESPONSE}"
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": words}}


class MessageWriter:
    """Write messages to a program; `written` is set when all have left."""

    def __init__(self, sink: ByteWriter) -> None:
        self.written = anyio.Event()
        self._sink = sink

    async def carry(
        self, outward: MemoryObjectReceiveStream[T], encode: Callable[[T], JsonValue]
    ) -> None:
        """Encode and send what `outward` brings until it is closed."""
        try:
            async for item in outward:
                await write_all(self._sink, dump(encode(item)))
        except OSError:
            logger.debug("the program reads no more", exc_info=True)
        finally:
            outward.close()
            self.written.set()
