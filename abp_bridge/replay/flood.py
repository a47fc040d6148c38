"""How much a bridge may say while a fixture is played.

One that says more than any fixture can hold fails, and fills no memory.
"""

from __future__ import annotations

from abp_bridge.replay.script import ReplayMismatchError

BYTES = 32 * 2**20  # of all that a bridge says in one fixture, to whomever
LINES = 50_000


class Meter:
    """Counts for one fixture."""

    def __init__(self) -> None:
        self._bytes = self._lines = 0

    def count(self, size: int, lines: int = 0) -> None:
        """Raises ReplayMismatchError for what is too much."""
        self._bytes += size
        self._lines += lines
        if self._bytes > BYTES:
            raise ReplayMismatchError(
                f"the bridge says too much: more than {BYTES // 2**20} MiB in one fixture"
            )
        if self._lines > LINES:
            raise ReplayMismatchError(
                f"the bridge says too much: more than {LINES} lines in one fixture"
            )


class Lines:
    """Bytes as they come -> whole lines."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._rest = bytearray()

    def rest(self) -> bytes:
        """What was begun and never ended."""
        return bytes(self._rest)

    def take(self, data: bytes) -> list[bytes]:
        """The lines that `data` ends. Raises ReplayMismatchError."""
        self._meter.count(len(data), data.count(b"\n"))
        self._rest += data
        if b"\n" not in data:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines
