"""Streams of JSON objects, one a line, as bytes that may be cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator

from abp_bridge.core.json_value import JsonObject, parse_json
from abp_bridge.errors import RemoteProtocolError

MAX_LINE = 16 * 2**20  # bytes: answers with files in them come in one line


class JsonLines:
    """Reads JSON objects from one stream, line by line.

    Attributes:
        ignored: The number of lines that are not objects, such as banners.
    """

    def __init__(self) -> None:
        self.ignored = 0
        self._rest = bytearray()

    @property
    def is_partial(self) -> bool:
        """Whether a line has begun that is not whole yet."""
        return bool(self._rest.strip())

    def feed(self, data: bytes) -> Iterator[JsonObject]:
        """Yield the objects whose lines end in `data`.

        Raises:
            RemoteProtocolError: A line has more than `MAX_LINE` bytes.
        """
        first, *lines = data.split(b"\n")
        self._rest += first
        for line in lines:
            yield from self.end()
            self._rest += line
        self._check()

    def end(self) -> Iterator[JsonObject]:
        """Yield the object in the last, unterminated line, if it is one."""
        self._check()
        line = bytes(self._rest)
        self._rest.clear()
        try:
            message = parse_json(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            yield message
        else:
            self.ignored += bool(line.strip())

    def _check(self) -> None:
        if len(self._rest) > MAX_LINE:
            raise RemoteProtocolError(f"a line of more than {MAX_LINE:,} bytes")
