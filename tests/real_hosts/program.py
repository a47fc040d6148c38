"""A host as a program on pipes: JSON-RPC, one message a line, both ways.

It is asked by `request`; what it asks the person waits in `questions`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

Json = Any

PATIENCE = 60.0
GOODBYE = 10.0
A_MOMENT = 0.2  # that a person takes to answer: what is quicker is a host's policy, says the bridge


class HostFailed(Exception):
    """The host answered with an error, or ended."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the host's that a person must answer."""

    params: Json
    reply: Callable[[Json], None]

    def answer(self, answer: Json) -> None:
        time.sleep(A_MOMENT)
        self.reply(answer)


class Program:
    """A running host.

    Its messages carry `stamp`; `answers` are the methods that it is answered at once, `questions`
    those that are a person's.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str],
        transcript: Path,
        asks: str,
        answers: Mapping[str, Callable[[Json], Json]],
        stamp: Mapping[str, Json],
    ) -> None:
        self.questions: queue.Queue[Question] = queue.Queue()
        self.told: queue.Queue[Json] = queue.Queue()
        self._asks = asks
        self._answers = answers
        self._stamp = stamp
        self._ids = count(1)
        self._waiting: dict[int, Future[Json]] = {}
        self._writing = threading.Lock()
        self._transcript = transcript.open("w", buffering=1)
        self._stderr = transcript.with_suffix(".stderr").open("w")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=self._stderr,
            cwd=cwd,
            env=env,
            encoding="utf-8",
            bufsize=1,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *problem: object) -> None:
        """Leave as an editor does, by closing its stdin, then less gently; what is still left of
        its process group after that is killed.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        for less_gently in (self._process.terminate, self._process.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GOODBYE)
                break
            less_gently()
        self._process.wait(GOODBYE)
        self._end_group()
        self._reader.join(GOODBYE)
        self._transcript.close()
        self._stderr.close()

    def _end_group(self) -> None:
        until = time.monotonic() + GOODBYE
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(self._process.pid, 0)
                time.sleep(0.02)
            os.killpg(self._process.pid, signal.SIGKILL)

    def start(self, method: str, params: Json) -> Future[Json]:
        """Ask the host; the future is its result. Raises HostFailed from there."""
        id = next(self._ids)
        waiting: Future[Json] = Future()
        self._waiting[id] = waiting
        self._send({"id": id, "method": method, "params": params})
        return waiting

    def request(self, method: str, params: Json) -> Json:
        """Ask the host and wait. Raises HostFailed, or TimeoutError."""
        return self.start(method, params).result(PATIENCE)

    def tell(self, method: str, params: Json = None) -> None:
        self._send({"method": method} | ({} if params is None else {"params": params}))

    def hear(self, method: str) -> Json:
        """The params of the next notification of that name; others before it are passed over.

        Raises queue.Empty.
        """
        until = time.monotonic() + PATIENCE
        while (message := self.told.get(timeout=max(0.01, until - time.monotonic())))[
            "method"
        ] != method:
            pass
        return message["params"]

    def _send(self, message: dict[str, Json]) -> None:
        assert self._process.stdin is not None
        line = json.dumps({**self._stamp, **message})
        with self._writing:
            self._transcript.write(f'{{"from": "client", "message": {line}}}\n')
            self._process.stdin.write(line + "\n")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._transcript.write(f'{{"from": "host", "message": {line.rstrip()}}}\n')
            self._take(json.loads(line))
        for waiting in self._waiting.values():
            waiting.set_exception(HostFailed("the host ended"))

    def _take(self, message: Json) -> None:
        if "id" not in message:
            self.told.put(message)
        elif "method" not in message:
            waiting = self._waiting.pop(message["id"])
            if "error" in message:
                waiting.set_exception(HostFailed(json.dumps(message["error"])))
            else:
                waiting.set_result(message["result"])
        elif message["method"] == self._asks:
            self.questions.put(
                Question(
                    message["params"],
                    lambda answer: self._send({"id": message["id"], "result": answer}),
                )
            )
        elif (answer := self._answers.get(message["method"])) is not None:
            self._send({"id": message["id"], "result": answer(message["params"])})
        else:
            self._send(
                {"id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
            )
