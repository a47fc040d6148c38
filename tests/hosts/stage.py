"""What every check has: a folder with a home of its own, a model, the bridge's command under a recorder, and afterwards the referee."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Wire

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
    wire: Wire = field(default_factory=Wire)
    stderr: list[str] = field(default_factory=list)
    closed: dict[str, float] = field(default_factory=dict)

    def results(self) -> Iterator[Json]:
        """The results of `tools/call`, in the order in which they came."""
        return self._results("tools/call")

    def tools(self) -> set[str]:
        """All that were ever listed."""
        return {tool["name"] for result in self._results("tools/list") for tool in result["tools"]}

    def _results(self, method: str) -> Iterator[Json]:
        asked = {message["id"] for message in self.wire.received(method)}
        return (message["result"] for message in self.wire.sent() if "result" in message and message["id"] in asked)


def read(path: Path) -> Record:
    """The record in `path` as far as it is written."""
    record = Record(path)
    for line in path.read_text().split("\n")[:-1]:  # what is still being written comes after the last line end
        entry = json.loads(line)
        if "message" in entry:
            record.wire.lines.append(("host" if entry["from"] == "host" else "bridge", entry["message"]))
        elif "stderr" in entry:
            record.stderr.append(entry["stderr"])
        else:
            record.closed[entry["closed"]] = entry["time"]
    return record


class Stage:
    """One check's place under `folder`; `program` is the host."""

    def __init__(self, folder: Path, program: Path, model: Model) -> None:
        self.program = program
        self.model = model
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True)

    def environment(self, **more: str) -> dict[str, str]:
        """For a host: nothing of the person who runs this."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "dumb", **more}

    def bridge(self, app: str = "demo") -> list[str]:
        return recorded(self.folder / "mcp", BRIDGE, "serve", "--app", app)

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
        """Every bridge spoke by the rules, left nothing on stderr, and ended quietly with its host."""
        records = self.records()
        assert records, "no bridge was started"
        for record in records:
            ended = self._ended(record.path)
            ended.wire.check()
            after = ended.closed["program"] - ended.closed.get("host", ended.closed["program"])
            assert after < QUIET_END, f"the bridge ended {after:g} s after its host, see {record.path}"
            assert ended.stderr == [], f"the bridge said {ended.stderr}"

    def _ended(self, path: Path) -> Record:
        until = time.monotonic() + QUIET_END
        while "program" not in (record := read(path)).closed:
            if time.monotonic() > until:
                os.kill(int(path.stem.rpartition("-")[2]), signal.SIGKILL)
                raise AssertionError(f"a bridge was still there {QUIET_END:g} s after its host, see {path}")
            time.sleep(0.05)
        return record


class Chat:
    """A conversation with a host, which shows questions on the way. A host's module says how a turn begins and ends."""

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
        assert any(told in text for _, text in self.stage.model.requests[-1].said), "the model was not told what the app got"
        return shown, json.loads(told)


def calling(tool: str, **arguments: Json) -> str:
    """A line of a script: the model calls a tool."""
    return f"CALL {tool} {json.dumps(arguments)}"


def asking(method: str, **params: Json) -> str:
    """A line of a script: the model has the demo app ask one thing."""
    return calling("abp_call", capability="demo.ask", params={"request": {"method": method, "params": params}})


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
