"""What every check has: a folder with a home of its own, a model, the bridge's command under a
recorder, and afterwards the referee.

Records are of four kinds: `mcp` (a host and our server), `acp` (a client and our agent), `proxy` (a
client and us before another agent) and `app` (us and an app).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.acp_harness import Wire as AcpWire
from support.harness import Wire

from . import install
from .model import Model
from .program import PATIENCE, Program, Question

Json = Any

RECORDER = Path(__file__).with_name("recorder.py")
BRIDGE = Path(sys.executable).with_name("abp-bridge")
BRIDGE_ENV = {"ABP_CHROME_SANDBOX": "0"} if os.geteuid() == 0 else {}
QUIET_END = 5.0

Check = Callable[["Stage"], None]


def recorded(prefix: Path, *command: str | Path) -> list[str]:
    """`command` with a recorder before it, whose records begin with `prefix`."""
    return [sys.executable, "-I", "-S", str(RECORDER), str(prefix), *map(str, command)]


@dataclass
class Record:
    """What passed one recorder; `closed` says when either side ended, in seconds."""

    path: Path
    lines: list[tuple[str, Json]] = field(
        default_factory=list
    )  # (who wrote it: "host" or "program", the message)
    stderr: list[str] = field(default_factory=list)
    closed: dict[str, float] = field(default_factory=dict)

    @property
    def wire(self) -> Wire:
        """What passed, as MCP."""
        return Wire(
            [("host" if who == "host" else "bridge", message) for who, message in self.lines]
        )

    @property
    def acp(self) -> AcpWire:
        """What passed, as ACP."""
        return AcpWire(
            [("client" if who == "host" else "agent", message) for who, message in self.lines]
        )

    def results(self) -> Iterator[Json]:
        """The results of `tools/call`, in the order in which they came."""
        return self._results("tools/call")

    def tools(self) -> set[str]:
        """All that were ever listed."""
        return {tool["name"] for result in self._results("tools/list") for tool in result["tools"]}

    def _results(self, method: str) -> Iterator[Json]:
        asked = {message["id"] for message in self.wire.received(method)}
        return (
            message["result"]
            for message in self.wire.sent()
            if "result" in message and message["id"] in asked
        )


def read(path: Path) -> Record:
    """The record in `path` as far as it is written."""
    record = Record(path)
    for line in path.read_text().split("\n")[
        :-1
    ]:  # what is still being written comes after the last line end
        entry = json.loads(line)
        if "message" in entry:
            record.lines.append((entry["from"], entry["message"]))
        elif "stderr" in entry:
            record.stderr.append(entry["stderr"])
        else:
            record.closed[entry["closed"]] = entry["time"]
    return record


class Stage:
    """One check's place under `folder`; `program` is the host, found like the others under
    `hosts`.
    """

    def __init__(self, folder: Path, program: Path, model: Model, hosts: Path) -> None:
        self.program = program
        self.model = model
        self._hosts = hosts
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        self.temporary = Path(
            tempfile.mkdtemp(prefix="hosts-")
        )  # not below `folder`: sockets have short names

    def other(self, host: str) -> Path:
        """The program of another host. Raises NotInstalled."""
        return install.program(host, self._hosts)

    def environment(self, **more: str) -> dict[str, str]:
        """For a host: nothing of the person who runs this."""
        places = {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", **places, **more}

    def bridge(self, app: str = "demo") -> list[str]:
        """The bridge as an MCP server."""
        return recorded(self.folder / "mcp", BRIDGE, "serve", "--app", app)

    def agent(self, app: str = "demo") -> list[str]:
        """The bridge as an ACP agent."""
        return recorded(self.folder / "acp", BRIDGE, "serve", "--app", app)

    def before(self, *agent: str | Path, app: str = "demo") -> list[str]:
        """The bridge before the ACP agent `agent`."""
        return recorded(self.folder / "proxy", BRIDGE, "acp", "--app", app, "--", *agent)

    def records(self, kind: str = "mcp") -> list[Record]:
        return [read(path) for path in sorted(self.folder.glob(f"{kind}-*.jsonl"))]

    def record(self, kind: str = "mcp") -> Record:
        """The only one of its kind."""
        (record,) = self.records(kind)
        return record

    def results(self) -> list[Json]:
        """What the tool calls gave so far."""
        return [result for record in self.records() for result in record.results()]

    def await_tool(self, name: str) -> None:
        """Until the host has listed it."""
        until = time.monotonic() + PATIENCE
        while not any(tool.endswith(name) for record in self.records() for tool in record.tools()):
            assert time.monotonic() < until, f"the host never listed {name}"
            time.sleep(0.05)

    def referee(self) -> None:
        """Every bridge spoke by the rules, said nothing on stderr, ended quietly with its host, and
        left nothing behind.
        """
        try:
            paths = [path for kind in _RULES for path in self.folder.glob(f"{kind}-*.jsonl")]
            assert paths, "no bridge was started"
            for path in paths:
                record = self._ended(path)
                after = record.closed["program"] - record.closed.get(
                    "host", record.closed["program"]
                )
                assert after < QUIET_END, f"the bridge ended {after:g} s after its host, see {path}"
                check = _RULES[path.name.partition("-")[0]]
                check(record)
            self._nothing_is_left()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def _ended(self, path: Path) -> Record:
        until = time.monotonic() + QUIET_END
        while "program" not in (record := read(path)).closed:
            if time.monotonic() > until:
                os.kill(int(path.stem.rpartition("-")[2]), signal.SIGKILL)
                raise AssertionError(
                    f"a bridge was still there {QUIET_END:g} s after its host, see {path}"
                )
            time.sleep(0.05)
        return record

    def _nothing_is_left(self) -> None:
        """No process whose home is ours (where there is a /proc to tell), and no temporary folder
        of the bridge's.
        """
        until = time.monotonic() + QUIET_END
        while processes := self._processes():
            if time.monotonic() > until:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                raise AssertionError(f"left behind: {processes}")
            time.sleep(0.05)
        kills = (
            self.program.name == "codex"
        )  # at once, when it ends itself: then nobody is left to take the browser's files away
        while (folders := self._folders()) and not kills:
            assert time.monotonic() < until, f"left behind: {folders}"
            time.sleep(0.05)

    def _folders(self) -> list[str]:
        return [
            path.name
            for path in self.temporary.iterdir()
            if path.name.startswith(("abp-", "playwright"))
        ]

    def _processes(self) -> dict[int, str]:
        """Those that were started with our home: their commands by their ids."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
                if f"HOME={self.home}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
        return found


def _check_server(record: Record) -> None:
    record.wire.check()
    assert record.stderr == [], f"the bridge said {record.stderr}"


def _check_agent(record: Record) -> None:
    record.acp.check()
    assert record.stderr == [], f"the bridge said {record.stderr}"


def _check_proxy(record: Record) -> None:
    """What the proxy says itself; the lines of its agent, whose stderr it shares, are not ours to
    judge.
    """
    AcpWire(
        [
            (who, message)
            for who, message in record.acp.lines
            if who == "client" or _is_the_proxys(message)
        ]
    ).check()
    said = [line for line in record.stderr if line.startswith(("abp-bridge", "Traceback"))]
    assert said == [], f"the bridge said {said}"


def _is_the_proxys(message: Json) -> bool:
    params = message.get("params") or {}
    marks = (message.get("id"), params.get("requestId"), params.get("update", {}).get("toolCallId"))
    return "method" in message and any(str(mark).startswith("abp-") for mark in marks)


_RULES: dict[str, Callable[[Record], None]] = {
    "mcp": _check_server,
    "acp": _check_agent,
    "proxy": _check_proxy,
}


class Chat:
    """A conversation with a host, which shows questions on the way.

    A host's module says how a turn begins and ends.
    """

    def __init__(self, stage: Stage, program: Program) -> None:
        self.stage = stage
        self.program = program

    def begin(self, script: str) -> None:
        raise NotImplementedError

    def finish(self) -> str:
        """Wait for the end of the turn: why it stopped, in the host's own word."""
        raise NotImplementedError

    def question(self) -> Question:
        """The next question that the host shows."""
        try:
            return self.program.questions.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("the host showed no question") from None

    def play(self, script: str, *answers: Json) -> list[Json]:
        """A whole turn, the person giving `answers` one after another: what was shown."""
        self.begin(script)
        shown = []
        for answer in answers:
            question = self.question()
            shown.append(question.params)
            question.answer(answer)
        stopped = self.finish()
        assert stopped in ("completed", "end_turn"), f"the turn stopped with {stopped}"
        assert self.program.questions.empty(), "the host showed one question more"
        return shown

    def ask(self, method: str, *answers: Json, **params: Json) -> tuple[list[Json], Json]:
        """Have the app ask one thing: (what was shown, the ABP response that the app got)."""
        shown = self.play(asking(method, **params), *answers)
        told = self.stage.results()[-1]["content"][0]["text"]
        assert any(told in text for _, text in self.stage.model.requests[-1].said), (
            "the model was not told what the app got"
        )
        return shown, json.loads(told)


def calling(tool: str, **arguments: Json) -> str:
    """A line of a script: the model calls a tool."""
    return f"CALL {tool} {json.dumps(arguments)}"


def asking(method: str, **params: Json) -> str:
    """A line of a script: the model has the demo app ask one thing."""
    return calling(
        "abp_call", capability="demo.ask", params={"request": {"method": method, "params": params}}
    )


def accept(**content: Json) -> Json:
    return {"action": "accept", "content": content}


DECLINE = {"action": "decline"}
CANCEL = {"action": "cancel"}


def gist(response: Json) -> tuple[Json, Json, Json]:
    """Of an ABP response: whether it is a success, its data, and who answered."""
    return response["success"], response.get("data"), response["metadata"]["answeredBy"]


def expect(found: Json, wanted: Json) -> None:
    """Fail with both when they are not the same: nothing rewrites assertions here."""
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"
