"""Headless hosts on a busy machine, with a bridge that is compiled anew for each run: none of their
answers is taken for a person's (`make hosts ARGS=--busy`).
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
YES = {"confirmed": True}
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
    responses: list[Json] = hosts.first_json(
        hosts.acpx_exec(stage, "--approve-all", script, env=env)
    )
    return responses


# host -> a run of it in which the app asks one question after another: the ABP responses
HEADLESS: Mapping[str, Callable[..., list[Json]]] = {
    "copilot": _by_the_model(hosts.copilot_print),
    "codex": _by_the_model(hosts.codex_exec),
    "claude": _by_the_model(hosts.claude_print),
    "acpx": _by_acpx,
    "fastagent": _by_the_model(hosts.fast_agent_message),
}


@pytest.mark.parametrize("host", HEADLESS)
def test_headless_host_is_never_a_person(
    host: str, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with busy_machine():
        runs = [_run(host, program, tmp_path / f"run-{at}", at) for at in range(RUNS)]
    answers = [each for run in runs for each in run]
    allowed = POLICY | DISMISSAL if host == "fastagent" else POLICY
    wrong = [each for each in answers if not each.is_right(allowed)]
    right = Counter(each.kind for each in answers if each not in wrong)
    slowest = max(each.response["metadata"]["latencyMs"] for each in answers)
    with capsys.disabled():
        print(host, dict(right), f"slowest {slowest} ms", Counter(map(str, answers)), sep=" | ")
    assert wrong == []


@dataclass(frozen=True, slots=True)
class Answered:
    """What the app got for a question of one kind, and whether the host was shown it."""

    kind: str
    shown: bool
    response: Json

    def __str__(self) -> str:
        metadata = self.response["metadata"]
        return " by ".join([metadata["answeredBy"], *filter(None, [metadata.get("evidence")])])

    def is_right(self, allowed: frozenset[str]) -> bool:
        is_destroyed = self.kind == "destructive" and self.response.get("data") == YES
        return self.shown and str(self) in allowed and not is_destroyed


def _run(host: str, program: Path, folder: Path, first: int) -> list[Answered]:
    """Ask a question of each kind, each kind first in turn: a bridge that has just started."""
    at = first % len(KINDS)
    kinds = [*KINDS][at:] + [*KINDS][:at]
    with Model() as model:
        stage = Stage(folder, program, model)
        requests = [KINDS[kind] for kind in kinds]
        responses = HEADLESS[host](stage, requests, **cold_imports(folder))
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
    """The params of each question that went to the host, in a request or in a result."""
    for record in (*stage.records("mcp"), *stage.records("acp")):
        for message in record.wire.sent():
            inputs = (message.get("result") or {}).get("inputRequests") or {}
            for request in (message, *inputs.values()):
                if request.get("method") in ("elicitation/create", "session/request_permission"):
                    yield request["params"]
