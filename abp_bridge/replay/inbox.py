"""What a bridge says while a fixture is played, to whomever: read line by line, counted, and put in
one queue in the order in which it comes.

It decides nothing but how much may be said: one that says more than any fixture can hold fails, and
fills no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from abp_bridge.core.json_value import JsonValue, is_deeper, map_texts, parse_json
from abp_bridge.replay.mismatch import ReplayMismatchError
from abp_bridge.trace.format import MAX_MESSAGE_LEVELS, PERSON

MAX_BYTES = 32 * 2**20  # of all that a bridge says in one fixture, to whomever
MAX_LINES = 50_000  # of the same
MAX_LEVELS = MAX_MESSAGE_LEVELS + 50  # a bridge may wrap what a fixture's line has

Receive = Callable[[], Awaitable[bytes]]
ReplacePaths = Callable[[str], str]  # a text with other words for the paths of this machine


class Inbox:
    """One replay's queue of (party, kind, value).

    The kind is that of a fixture's line, or one of these: `ended`, the bridge has; `screen`,
    something new stands on the terminal.
    """

    def __init__(
        self, replace_paths: ReplacePaths, observers: Mapping[str, Callable[[JsonValue], None]]
    ) -> None:
        """`observers` see each message to a party as it comes."""
        self._replace_paths = replace_paths
        self._observers = observers
        self._bytes = self._lines = 0
        self._queue: asyncio.Queue[tuple[str, str, JsonValue]] = asyncio.Queue()
        self._has_new_screen = False

    async def next(self) -> tuple[str, str, JsonValue]:
        """The next thing that was said, whenever it comes."""
        party, kind, value = await self._queue.get()
        if kind == "screen":
            self._has_new_screen = False
        return party, kind, value

    def put(self, party: str, kind: str, value: JsonValue = None) -> None:
        """Something was said to a party, or happened."""
        self._queue.put_nowait((party, kind, value))

    async def read(self, party: str, lines: AsyncIterator[bytes]) -> None:
        """Take in all that is said to `party`, to the end of it.

        Raises:
            ReplayMismatchError: a line is nothing that can be taken in, or there is too much.
        """
        async for line in lines:
            if line.strip():
                self._put_line(party, line)
        self.put(party, "closed", True)

    async def lines(self, receive: Receive) -> AsyncIterator[bytes]:
        """The lines of a stream that ends with nothing.

        Raises:
            ReplayMismatchError: it says too much.
        """
        rest = bytearray()
        while data := await receive():
            self._count(len(data), data.count(b"\n"))
            rest += data
            if b"\n" in data:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    yield line
        if rest:
            yield bytes(rest)

    def _put_line(self, party: str, line: bytes) -> None:
        try:
            message = parse_json(line)
        except ValueError:
            self.put(party, "raw", self._replace_paths(line.decode(errors="replace")))
        else:
            if party in self._observers:
                self._observers[party](message)
            self._put_message(party, message)

    def put_event(self, message: JsonValue, size: int) -> None:
        """What a program of the person's is sent, in so many bytes. Raises ReplayMismatchError."""
        self._count(size, 1)
        self._put_message(PERSON, message)

    async def watch(self, sizes: AsyncIterator[int]) -> None:
        """Take in that a terminal shows so many bytes more each time.

        Raises:
            ReplayMismatchError: there is too much.
        """
        async for size in sizes:
            self._count(size)
            if not self._has_new_screen:
                self._has_new_screen = True
                self.put(PERSON, "screen")

    def _put_message(self, party: str, message: JsonValue) -> None:
        if is_deeper(message, MAX_LEVELS):
            raise ReplayMismatchError(
                f"the bridge said something to the {party} that is nested more than {MAX_LEVELS}"
                " levels deep"
            )
        self.put(party, "message", map_texts(message, self._replace_paths))

    def _count(self, size: int, lines: int = 0) -> None:
        self._bytes += size
        self._lines += lines
        if self._bytes > MAX_BYTES or self._lines > MAX_LINES:
            most = f"{MAX_BYTES // 2**20} MiB" if self._bytes > MAX_BYTES else f"{MAX_LINES} lines"
            raise ReplayMismatchError(f"the bridge says too much: more than {most} in one fixture")
