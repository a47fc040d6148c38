"""Server-sent events, as bytes that may be cut anywhere: what each of them says."""

from __future__ import annotations

from collections.abc import Iterator

from abp_bridge.errors import RemoteProtocolError

MAX_EVENT = 16 * 2**20  # bytes: an answer that comes in one piece is one event


class EventStream:
    """Reads one stream, and keeps what is not a whole event yet.

    Attributes:
        is_whole: Whether what has come ends with an event's end: an empty line.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of the events that end in `data`; names and comments are passed over.

        Raises:
            RemoteProtocolError: An event has more than `MAX_EVENT` bytes.
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
        if self._size > MAX_EVENT:
            raise RemoteProtocolError(f"an event of more than {MAX_EVENT:,} bytes")

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
