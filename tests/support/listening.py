"""`abp-bridge serve --listen`, for tests that are its agents."""

from __future__ import annotations

import queue
import re
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from support import in_process
from support.harness import PATIENCE, SERVE, environment

SAID = re.compile(r"ABP agents are served at (http://\S+) and (ws://\S+) until stdin ends")


@dataclass(frozen=True)
class Listening:
    """A running one: where its page and its WebSocket are, with the token."""

    page: str
    socket: str
    process: subprocess.Popen[bytes] | in_process.PipeThread

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
    """A bridge that listens for as long as the block lasts, and then ends well.

    A process must have said no more on its stderr than `words`.
    """
    command, variables = [*command, "--listen", "127.0.0.1:0", *arguments], environment(**env or {})
    if not in_process.is_bridge(command):
        with _listening_process(command, variables, words) as running:
            yield running
        return
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    thread = in_process.start_bridge(command, variables, said.put)
    try:
        running = _found(said.get(timeout=PATIENCE), thread)
        yield running
        assert running.end() == 0
    finally:
        thread.kill()


@contextmanager
def _listening_process(
    command: Sequence[str], env: Mapping[str, str], words: str
) -> Iterator[Listening]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    with process:
        try:
            assert process.stderr is not None
            ready, _, _ = select.select([process.stderr], [], [], PATIENCE)
            assert ready, "it says where it listens"
            running = _found(process.stderr.readline().decode(), process)
            yield running
            assert running.end() == 0
            told = process.stderr.read().decode()
            assert words in told if words else not told
        finally:
            process.kill()


def _found(line: str, process: subprocess.Popen[bytes] | in_process.PipeThread) -> Listening:
    said = SAID.search(line)
    assert said is not None, line
    return Listening(said[1], said[2], process)
