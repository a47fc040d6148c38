"""Hosts made of as little as possible, of MCP servers and of ACP agents: a child process, JSON
lines on unbuffered pipes, and a clock.

Every wait has a bound. Arrival times are taken right after the read that completed a line, before
it is parsed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

Json = Any

PATIENCE = 60.0
GRACE = 2.0
CHUNK = 64 * 1024  # what a pipe holds; more than that is asked of the system for each read anew
# Linux: a process's CPU clock has its number in it (MAKE_PROCESS_CPUCLOCK with CPUCLOCK_SCHED)
CPU_OF_PROCESS = 2

ANSWER = {"action": "accept", "content": {"confirmed": True}}
PROTOCOL = "2025-11-25"
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


class Broken(Exception):
    """What is measured does not work: it ended, kept silent, or answered an error."""


class Client:
    """One MCP server and the connection to it.

    Counts the notifications that come, and answers every question with `ANSWER` at once.
    """

    question = "elicitation/create"

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.name = name
        self.notifications = 0
        self.on_notification: Callable[[Json], None] = lambda message: None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 closed with the client
        self.spawned = time.perf_counter()
        self._child = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=dict(env),
            bufsize=0,
            start_new_session=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        os.set_blocking(self._in.fileno(), False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._out.fileno(), select.POLLIN)
        self._writable.register(self._in.fileno(), select.POLLOUT)
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._arrived = 0.0
        self._serial = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(quietly=kind is None)

    def end(self, *, quietly: bool = False) -> None:
        """Take the child away, and whatever it started. `quietly`: it may say goodbye first."""
        try:
            self._in.close()
            if quietly:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(GRACE)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait(PATIENCE)
            self._out.close()
            self._stderr.close()

    # --- messages ---

    def send(self, message: Mapping[str, Json]) -> float:
        """Write one message. Returns the time just before its first byte left."""
        data = memoryview(
            json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        )
        left = time.perf_counter()
        limit = left + PATIENCE
        while data:
            try:
                data = data[os.write(self._in.fileno(), data) :]
            except BlockingIOError:
                self._ready(self._writable, limit, "does not read")
            except OSError as problem:
                raise self._broken(f"cannot be written to: {problem}") from None
        return left

    def receive(self, patience: float = PATIENCE) -> tuple[float, Json]:
        """The next message, and when it came."""
        self._some(patience)
        return self._arrived, json.loads(self._lines.popleft())

    def skip(self, count: int) -> None:
        """Take the next `count` messages without a look at them, so that this side does not hold up
        who sends them.
        """
        while count:
            self._some(PATIENCE)
            taken = min(count, len(self._lines))
            for _ in range(taken):
                self._lines.popleft()
            count -= taken

    def ask_for(self, method: str, params: Mapping[str, Json]) -> tuple[int, float]:
        """Send a request without waiting for its response: (its id, when it left)."""
        self._serial += 1
        return self._serial, self.send({"id": self._serial, "method": method, "params": params})

    def wait_for(
        self, id: int, on_question: Callable[[float, Json], None] | None = None
    ) -> tuple[float, Json]:
        """The result of request `id`, and when it came.

        Questions that come meanwhile go to `on_question` (when it came, it), or are answered.
        """
        while True:
            came, message = self.receive()
            if "method" not in message:
                if message.get("id") != id:
                    raise self._broken(f"answered something else: {message}")
                if "result" not in message or message["result"].get("isError"):
                    raise self._broken(f"answered an error: {message}")
                return came, message["result"]
            if "id" not in message:
                self.notifications += 1
                self.on_notification(message)
            elif message["method"] != self.question:
                raise self._broken(f"asks {message['method']}")
            elif on_question is not None:
                on_question(came, message)
            else:
                self.answer(message)

    def answer(self, question: Json) -> float:
        """Answer a question. Returns the time just before the first byte left."""
        return self.send({"id": question["id"], "result": ANSWER})

    def request(self, method: str, params: Mapping[str, Json]) -> tuple[float, Json]:
        """One request and its result: (seconds, result)."""
        id, left = self.ask_for(method, params)
        came, result = self.wait_for(id)
        return came - left, result

    def tool(self, name: str, arguments: Mapping[str, Json]) -> tuple[float, Json]:
        """One call of a tool: (seconds, result)."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def call_modern(
        self, name: str, arguments: Mapping[str, Json], asked: Json = None
    ) -> tuple[int, float]:
        """Send a 2026-07-28 `tools/call`: (its id, when it left).

        `asked` is a result that asked for input: every question in it is answered.
        """
        params: dict[str, Json] = {"name": name, "arguments": arguments, "_meta": MODERN}
        if asked is not None:
            params |= {
                "requestState": asked["requestState"],
                "inputResponses": dict.fromkeys(asked["inputRequests"], ANSWER),
            }
        return self.ask_for("tools/call", params)

    def gather(self, ids: set[int]) -> list[Json]:
        """The results of all these requests, in the order in which they come."""
        results = []
        while ids:
            _, message = self.receive()
            if "id" in message and "method" not in message:
                ids.remove(message["id"])
                if "result" not in message:
                    raise self._broken(f"answered an error: {message}")
                results.append(message["result"])
        return results

    def greet(self) -> tuple[float, float, list[Json]]:
        """`initialize` and `tools/list`: (seconds from spawn to the first reply, to the second, the
        tools).
        """
        host = {
            "protocolVersion": PROTOCOL,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        id, _ = self.ask_for("initialize", host)
        greeted, _ = self.wait_for(id)
        self.send({"method": "notifications/initialized"})
        id, _ = self.ask_for("tools/list", {})
        listed, result = self.wait_for(id)
        return greeted - self.spawned, listed - self.spawned, result["tools"]

    # --- what the system says about the child ---

    def resident(self) -> float:
        """VmRSS in MiB."""
        with open(f"/proc/{self._child.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) / 1024
        raise self._broken("ended")  # what is left of a process that ended has no memory

    def cpu(self) -> float:
        """Seconds on a CPU, all its threads together, also those that have ended."""
        return time.clock_gettime((~self._child.pid << 3) | CPU_OF_PROCESS)

    def _some(self, patience: float) -> None:
        """Read until there is a whole line."""
        limit = time.perf_counter() + patience
        while not self._lines:
            self._ready(self._readable, limit, "says nothing")
            data = os.read(self._out.fileno(), CHUNK)
            self._arrived = time.perf_counter()
            if not data:
                raise self._broken("ended")
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(lines)

    def _ready(self, poll: select.poll, limit: float, silence: str) -> None:
        if not poll.poll(max(0.0, limit - time.perf_counter()) * 1000):
            raise self._broken(silence)

    def _broken(self, what: str) -> Broken:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 1_000))
        return Broken(
            f"{self.name} {what}. Its last words:"
            f" {self._stderr.read().decode(errors='replace').strip() or 'none'}"
        )


class Editor(Client):
    """One ACP agent and the connection to it.

    It shows no forms, and allows whatever it is asked for at once.
    """

    question = "session/request_permission"

    def answer(self, question: Json) -> float:
        """Allow what is asked for (`Client.answer`)."""
        allowed = next(
            option["optionId"]
            for option in question["params"]["options"]
            if option["kind"] == "allow_once"
        )
        return self.send(
            {
                "id": question["id"],
                "result": {"outcome": {"outcome": "selected", "optionId": allowed}},
            }
        )

    def hail(self) -> float:
        """`initialize`: the seconds from spawn to the reply."""
        editor = {
            "protocolVersion": 1,
            "clientCapabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        id, _ = self.ask_for("initialize", editor)
        came, _ = self.wait_for(id)
        return came - self.spawned

    def open(self) -> Json:
        """`session/new`: its result, whose id is that of every prompt from now on."""
        _, opened = self.request("session/new", {"cwd": "/", "mcpServers": []})
        self._session = opened["sessionId"]
        return opened

    def words(self, text: str) -> Json:
        """The parameters of a `session/prompt`."""
        return {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}
