"""What a bridge says while a fixture is played, to whomever: read line by line, metered, and put in
one queue in the order in which it comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio

from abp_bridge.core.json_text import is_deeper, parse
from abp_bridge.replay.flood import Lines, Meter
from abp_bridge.replay.script import ReplayMismatchError
from abp_bridge.trace.format import DEEPEST, PERSON
from abp_bridge.trace.redact.paths import replace_paths

Json = Any

DEEPER = DEEPEST + 50  # levels: a bridge may wrap what a fixture's line has


class Inbox:
    """One replay's.

    What comes out is (party, kind, value), where the kind is one of a fixture's lines, or

    `ended` (the bridge has), `screen` (something new stands on the terminal) and `failed` (the
    value is the ReplayMismatchError that says how).
    """

    def __init__(
        self, places: Mapping[str, str], heard: Mapping[str, Callable[[Json], None]]
    ) -> None:
        """`places` are paths of this machine, and what is said for them.

        `heard` has who is told of each message to a party as it comes.
        """
        self._places = places
        self._heard = heard
        self._meter = Meter()
        self._said: deque[tuple[str, str, Json]] = deque()  # what goes in is metered
        self._more = anyio.Event()
        self._changed = False  # whether the terminal shows something that has not been looked at

    async def next(self) -> tuple[str, str, Json]:
        while not self._said:
            self._more = anyio.Event()
            await self._more.wait()
        party, kind, value = self._said.popleft()
        if kind == "screen":
            self._changed = False
        return party, kind, value

    async def read(self, party: str, receive: Callable[[], Awaitable[bytes]]) -> None:
        """All that is said to `party`, to the end of it."""
        try:
            async for line in self.lines(receive):
                self.line(party, line)
        except ReplayMismatchError as problem:
            self.failed(problem)
        else:
            self.say(party, "closed", True)

    async def lines(self, receive: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
        """The lines of a stream that ends with nothing.

        Raises ReplayMismatchError for a flood.
        """
        lines = Lines(self._meter)
        while data := await receive():
            for line in lines.take(data):
                yield line
        if rest := lines.rest():
            yield rest

    def line(self, party: str, line: bytes) -> None:
        """A line to `party`. Raises ReplayMismatchError for one that nothing can take."""
        if not line.strip():
            return
        try:
            message = parse(line)
        except ValueError:
            self.say(party, "raw", replace_paths(line.decode(errors="replace"), self._places))
        else:
            if party in self._heard:
                self._heard[party](message)
            self._message(party, message)

    def offered(self, message: Json, size: int) -> None:
        """What a program of the person's is sent. Raises ReplayMismatchError."""
        self._meter.count(size, 1)
        self._message(PERSON, message)

    def _message(self, party: str, message: Json) -> None:
        if is_deeper(message, DEEPER):
            raise ReplayMismatchError(
                f"the bridge said something to the {party} that is nested more than {DEEPER} levels"
                " deep"
            )
        self.say(party, "message", replace_paths(message, self._places))

    async def watch(self, sizes: AsyncIterator[int]) -> None:
        """A terminal, which shows so many bytes each time."""
        try:
            async for size in sizes:
                self._meter.count(size)
                if not self._changed:
                    self._changed = True
                    self.say(PERSON, "screen", None)
        except ReplayMismatchError as problem:
            self.failed(problem)

    def failed(self, problem: ReplayMismatchError) -> None:
        """Something that is done beside the conversation went wrong."""
        self.say(PERSON, "failed", problem)

    def say(self, party: str, kind: str, value: Json) -> None:
        self._said.append((party, kind, value))
        self._more.set()
