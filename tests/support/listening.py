"""`abp-bridge serve --listen`, for tests that are its agents."""

from __future__ import annotations

import re
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from support.harness import PATIENCE, SERVE, environment

SAID = re.compile(
    r"abp-bridge: ABP agents are served at (http://\S+) and (ws://\S+) until stdin ends"
)


@dataclass(frozen=True)
class Listening:
    """A running one: where its page and its WebSocket are, with the token."""

    page: str
    socket: str
    process: subprocess.Popen[bytes]

    @property
    def origin(self) -> str:
        return self.page.partition("/?")[0]

    def end(self) -> int:
        """Close its stdin and wait: the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


@contextmanager
def listening(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    words: str = "",
    command: Sequence[str] = SERVE,
) -> Iterator[Listening]:
    """A bridge that listens for as long as the block lasts, and then ends well, having said no more
    on its stderr than `words`.
    """
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**(env or {})),
    )
    with process:
        try:
            assert process.stderr is not None
            ready, _, _ = select.select([process.stderr], [], [], PATIENCE)
            assert ready, "it says where it listens"
            said = SAID.fullmatch(process.stderr.readline().decode().strip())
            assert said is not None
            running = Listening(said[1], said[2], process)
            yield running
            assert running.end() == 0
            told = process.stderr.read().decode()
            assert words in told if words else not told
        finally:
            process.kill()
