"""Who answered, where nobody is there to: headless hosts on a busy machine, the bridge compiled
anew for each run. `make hosts ARGS=--busy` prints how often that was right, the host having been
shown the question.

A run asks one question of each kind, each kind first in turn: the first one finds a bridge that has
just started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import hosts
from .hosts import calling
from .model import Model
from .stage import BRIDGE_ENV, Stage

Json = Any

RUNS = 20
POLICY = frozenset(
    f"host-policy by {row}"
    for row in ("headless-host", "faster-than-reading", "steady-latency", "always-preset")
)
DISMISSAL = frozenset({"unknown by maybe-headless"})
_OPTIONS = [
    {"value": name.lower(), "label": name} for name in ("Amsterdam", "Berlin", "Copenhagen")
]
_TRIP = {
    "type": "object",
    "properties": {"train": {"type": "boolean"}, "class": {"enum": [1, 2]}},
    "required": ["train", "class"],
}
KINDS: Mapping[str, Json] = {
    "confirm": {"method": "elicitation/confirm", "params": {"message": "Book?"}},
    "select": {
        "method": "elicitation/select",
        "params": {"prompt": "Which city?", "options": _OPTIONS},
    },
    "form": {"method": "elicitation/input", "params": {"prompt": "Which trip?", "schema": _TRIP}},
    "destructive": {
        "method": "elicitation/confirm",
        "params": {"message": "Delete all files?", "destructive": True},
    },
}


# --- a machine that is busy, and a bridge that nothing was compiled for ---------------------------

# Ends with who started it, also where that is killed.
_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(10**5):
        pass
"""


@contextmanager
def busy_machine() -> Iterator[None]:
    """Every processor is kept busy, and one process more than there are, so that all wait."""
    command = [sys.executable, "-I", "-S", "-c", _SPIN, str(os.getpid())]
    processes = [subprocess.Popen(command) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def cold_imports(folder: Path) -> Mapping[str, str]:
    """The environment of a bridge that compiles what it imports, as after an update."""
    return {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}


# --- hosts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Headless:
    """A host without a user: how it is run, and who may have answered."""

    name: str
    host: str
    ask: Callable[..., list[Json]]
    answerers: frozenset[str] = POLICY


def _by_the_model(prompt: Callable[..., None]) -> Callable[..., list[Json]]:
    def ask(stage: Stage, requests: list[Json], **bridge_env: str) -> list[Json]:
        script = calling("abp_call", capability="demo.ask_each", params={"requests": requests})
        prompt(stage, script, **bridge_env)
        responses: list[Json] = stage.last_json()
        return responses

    return ask


def _by_acpx(stage: Stage, requests: list[Json], **bridge_env: str) -> list[Json]:
    script = f"/demo_ask_each {json.dumps({'requests': requests})}"
    env = stage.environment(**BRIDGE_ENV, **bridge_env)
    responses: list[Json] = json.loads(hosts.acpx_exec(stage, "--approve-all", script, env=env))
    return responses


HEADLESS = (
    Headless("copilot -p", "copilot", _by_the_model(hosts.copilot_print)),
    Headless("codex exec", "codex", _by_the_model(hosts.codex_exec)),
    Headless("claude -p", "claude", _by_the_model(hosts.claude_print)),
    Headless("acpx --approve-all", "acpx", _by_acpx),
    Headless(
        "fast-agent go --message",
        "fastagent",
        _by_the_model(hosts.fast_agent_message),
        POLICY | DISMISSAL,
    ),
)


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture
def host(headless: Headless) -> str:
    return headless.host


@pytest.mark.parametrize("headless", HEADLESS, ids=lambda headless: headless.host)
def test_each_question_is_shown_and_nobody_who_is_not_there_has_answered(
    headless: Headless, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with busy_machine():
        runs = [_run(headless, program, tmp_path / f"run-{at}", at) for at in range(RUNS)]
    answers = [each for run in runs for each in run]
    wrong = [each for each in answers if not _is_right(headless, each)]
    right = Counter(each.kind for each in answers if each not in wrong)
    answerers = Counter(each.answerer for each in answers)
    slowest = max(each.response["metadata"]["latencyMs"] for each in answers)
    counts = ", ".join(f"{answerer} {times}" for answerer, times in answerers.items())
    with capsys.disabled():
        print(headless.name, *(f"{kind} {right[kind]}" for kind in KINDS), sep=" | ", end=" | ")
        print(f"slowest {slowest} ms | {counts}")
    assert wrong == []


@dataclass(frozen=True, slots=True)
class Answered:
    """What the app got for a question of one kind, and whether the host was shown it."""

    kind: str
    shown: bool
    response: Json

    @property
    def answerer(self) -> str:
        metadata = self.response["metadata"]
        return " by ".join([metadata["answeredBy"], *filter(None, [metadata.get("evidence")])])


def _run(headless: Headless, program: Path, folder: Path, first: int) -> list[Answered]:
    """What each kind of question got, the `first` of them asked before the others."""
    at = first % len(KINDS)
    kinds = [*KINDS][at:] + [*KINDS][:at]
    with Model() as model:
        stage = Stage(folder, program, model)
        responses = headless.ask(stage, [KINDS[kind] for kind in kinds], **cold_imports(folder))
        stage.referee()
    shown = [json.dumps(params) for params in _shown(stage)]
    return [
        Answered(kind, any(_words(kind) in params for params in shown), response)
        for kind, response in zip(kinds, responses, strict=True)
    ]


def _words(kind: str) -> str:
    params = KINDS[kind]["params"]
    return str(params.get("message") or params["prompt"])


def _shown(stage: Stage) -> Iterator[Json]:
    for record in (*stage.records("mcp"), *stage.records("acp")):
        for message in record.wire.sent():
            inputs = (message.get("result") or {}).get("inputRequests") or {}
            for request in (message, *inputs.values()):
                if request.get("method") in ("elicitation/create", "session/request_permission"):
                    yield request["params"]


def _is_right(headless: Headless, answered: Answered) -> bool:
    is_destroyed = answered.kind == "destructive" and answered.response.get("data") == {
        "confirmed": True
    }
    return answered.shown and answered.answerer in headless.answerers and not is_destroyed
