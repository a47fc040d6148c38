"""The place of a real host in one test: a home, a model, a recorded bridge, and a referee.

Records are of five kinds: `mcp` (a host and our server), `acp` (a client and our agent), `proxy` (a
client and us before an agent), `server` (a host and us before a server), `app` (us and an app).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.acp_harness import Wire as AcpWire
from support.harness import Wire
from support.puppets import trip

from abp_bridge.conformance.format import Recording
from abp_bridge.conformance.format import parse_recordings as read_trace

from .model import Model

Json = Any

RECORDER = Path(__file__).with_name("recorder.py")
BRIDGE = Path(sys.executable).with_name("abp-bridge")
BRIDGE_ENV = {"ABP_CHROME_SANDBOX": "0"} if os.geteuid() == 0 else {}
QUIET_END = 5.0  # seconds that a bridge has to end after its host
KINDS = ("mcp", "acp", "proxy", "server")
PATIENCE = 60.0  # seconds for a host to do anything
GLANCE = 0.05  # seconds between two looks at what tells nobody that it changes


def recorded(prefix: Path, *command: str | Path) -> list[str]:
    return [sys.executable, "-I", "-S", str(RECORDER), str(prefix), *map(str, command)]


def await_that(condition: Callable[[], Any], problem: str, limit: float = PATIENCE) -> None:
    until = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < until, problem
        time.sleep(GLANCE)


@dataclass
class Record:
    """What passed one recorder: messages as ("host" or "program", message), and when each ended."""

    path: Path
    lines: list[tuple[str, Json]] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    closed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in self.path.read_text().split("\n")[:-1]:  # the last may be half written
            entry = json.loads(line)
            if "message" in entry:
                self.lines.append((entry["from"], entry["message"]))
            elif "stderr" in entry:
                self.stderr.append(entry["stderr"])
            else:
                self.closed[entry["closed"]] = entry["time"]

    @property
    def wire(self) -> Wire:
        return Wire([("host" if who == "host" else "bridge", said) for who, said in self.lines])

    @property
    def acp(self) -> AcpWire:
        return AcpWire(self.wire.lines)

    def results(self, method: str = "tools/call") -> Iterator[Json]:
        asked = {message["id"] for message in self.wire.received(method)}
        for message in self.wire.sent():
            if "result" in message and message["id"] in asked:
                yield message["result"]

    def tools(self) -> set[str]:
        return {tool["name"] for result in self.results("tools/list") for tool in result["tools"]}

    def check(self) -> None:
        """Check that the bridge kept the rules and said nothing on stderr."""
        kind, stderr = self.path.name.partition("-")[0], self.stderr
        if kind == "server":  # whose lines, and stderr, are mostly that server's
            stderr = [line for line in stderr if line.startswith(("abp-bridge", "Traceback"))]
            # opencode ends what its servers have started before it ends them.
            stderr = [line for line in stderr if "ended (signal 15) before its host" not in line]
            stderr = [line for line in stderr if "nobody answered what" not in line]  # as it was
        elif kind == "mcp":
            self.wire.check()
        elif kind == "acp":
            self.acp.check()
        else:
            AcpWire(
                [(who, said) for who, said in self.acp.lines if _is_the_proxys(who, said)]
            ).check()
            stderr = [line for line in stderr if line.startswith(("abp-bridge", "Traceback"))]
        assert stderr == [], f"the bridge said {stderr}"


def _is_the_proxys(who: str, message: Json) -> bool:
    params = message.get("params") or {}
    marks = (message.get("id"), params.get("requestId"), params.get("update", {}).get("toolCallId"))
    ours = "method" in message and any(str(mark).startswith("abp-") for mark in marks)
    return who == "host" or ours


class Stage:
    """One test's place under `folder`; `program` is the host."""

    def __init__(self, folder: Path, program: Path, model: Model) -> None:
        self.folder = folder
        self.program = program
        self.model = model
        self.home = folder / "home"
        self.work = folder / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        # Not below `folder`: the names of sockets are short.
        self.temporary = Path(tempfile.mkdtemp(prefix="hosts-"))
        self.said: list[str] = []  # by the bridge as an agent that has no model, a turn each
        self._scripted: list[str] = []
        self._offered = ""
        self._server: list[str] = []

    def environment(self, **more: str) -> dict[str, str]:
        """For a host: nothing of the person who runs this."""
        places = {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", **places, **more}

    def script(self, steps: Json) -> None:
        """From now on bridges record, and their app does these steps when it is called."""
        self._scripted = ["--app", trip(self.folder, steps)]

    def offer(self, target: str) -> None:
        """From now on bridges offer this app, and record nothing: what it offers is remembered."""
        self._offered = target

    def stand_before(self, server: Sequence[str | Path]) -> None:
        """From now on the bridge is somebody else's MCP server, with us before it."""
        self._server = [str(each) for each in server]

    @property
    def server(self) -> list[str]:
        return self.bridge() if self._server else []

    def bridge(self, app: str = "demo", kind: str = "mcp", *, records: bool = True) -> list[str]:
        """The bridge as an MCP server or, where that is the `kind`, as an ACP agent."""
        if self._server:
            return recorded(self.folder / "server", BRIDGE, "mcp", "--", *self._server)
        return recorded(self.folder / kind, BRIDGE, "serve", *self._options(app, records))

    def before(self, *agent: str | Path, app: str = "demo") -> list[str]:
        """The bridge before the ACP agent `agent`; with no app, where `app` is empty."""
        return recorded(self.folder / "proxy", BRIDGE, "acp", *self._options(app), "--", *agent)

    def _options(self, app: str, records: bool = True) -> list[str]:
        offered = (self._scripted or ["--app", self._offered or app]) if app else []
        trace = ["--record", str(self.folder / "trace")] if self._scripted and records else []
        return [*offered, *trace]

    def records(self, kind: str = "mcp") -> list[Record]:
        return [Record(path) for path in sorted(self.folder.glob(f"{kind}-*.jsonl"))]

    def record(self, kind: str = "mcp") -> Record:
        (record,) = self.records(kind)
        return record

    def results(self, kind: str = "mcp") -> list[Json]:
        return [result for record in self.records(kind) for result in record.results()]

    def last_json(self) -> Json:
        return json.loads(self.results()[-1]["content"][0]["text"])

    def traces(self) -> list[Recording]:
        return [
            each
            for path in sorted(self.folder.glob("trace*"))
            for each in read_trace(path.read_text())
        ]

    def await_tools(self) -> None:
        """Until the host that runs has listed those of its bridge."""
        kind = "server" if self._server else "mcp"
        await_that(
            lambda: any(each.tools() for each in self.records(kind) if not each.closed),
            "the host listed no tools",
        )

    def referee(self) -> None:
        """Every bridge spoke by the rules, ended quietly with its host, and left nothing behind."""
        try:
            paths = [path for kind in KINDS for path in self._written(kind)]
            assert paths, "no bridge was started"
            for path in paths:
                _ended(path).check()
            self.check_nothing_is_left()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def _written(self, kind: str) -> Iterator[Path]:
        return self.folder.glob(f"{kind}-*.jsonl")

    def check_nothing_is_left(self) -> None:
        """No process with our home is left, and no temporary folder of the bridge."""
        try:
            await_that(lambda: not self._processes(), "processes are left behind", QUIET_END)
        finally:
            for process in self._processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        # Codex kills at once, when it ends itself: nobody is left to take a browser's files away.
        if self.program.name != "codex":
            await_that(
                lambda: not [*self.temporary.glob("abp-*"), *self.temporary.glob("playwright*")],
                "temporary folders are left behind",
                QUIET_END,
            )

    def _processes(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
                if f"HOME={self.home}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found


def _ended(path: Path) -> Record:
    try:
        await_that(
            lambda: "program" in Record(path).closed,
            f"a bridge is still there, see {path}",
            QUIET_END,
        )
    except AssertionError:
        os.kill(int(path.stem.rpartition("-")[2]), signal.SIGKILL)
        raise
    closed = Record(path).closed
    after = closed["program"] - closed.get("host", closed["program"])
    assert after < QUIET_END, f"the bridge ended {after:g} s after its host, see {path}"
    return Record(path)
