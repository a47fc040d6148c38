"""Who answered, where nobody is there to: headless hosts on a busy machine, the bridge compiled
anew for each run. `make hosts ARGS=--busy` prints how often that was told right.

A run asks one question of each kind, each kind first in turn: the first one finds a bridge that has
just started.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.pypi import find_python

from . import hosts
from .busy import busy_machine, cold_imports
from .conftest import TABLE
from .hosts import calling, installed
from .model import Model
from .stage import BRIDGE_ENV, Stage

Json = Any

RUNS = 20
NOBODY = ("host-policy", "unknown", "nobody")
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


# --- hosts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Headless:
    """A host without a person: what people call it, what is installed, and a run of it, in which
    the app asks `requests` one after the other: the ABP responses.
    """

    name: str
    host: str
    ask: Callable[..., list[Json]]


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
    Headless("fast-agent go --message", "fastagent", _by_the_model(hosts.fast_agent_message)),
)
# There is a recording of it for where it cannot run.
PYTHON = hosts.FAST_AGENT.python
runs_here = pytest.mark.skipif(find_python(PYTHON) is None, reason=f"it needs Python {PYTHON}")


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headless",
    [
        pytest.param(each, id=each.host, marks=[runs_here] if each.host == "fastagent" else [])
        for each in HEADLESS
    ],
)
def test_nobody_who_is_not_there_is_told_to_have_answered(
    headless: Headless, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    program = installed(headless.host)
    with busy_machine():
        runs = [_run(headless, program, tmp_path / f"run-{at}", at) for at in range(RUNS)]
    answers = [(kind, response) for run in runs for kind, response in run.items()]
    right = Counter(kind for kind, response in answers if _is_nobodys(kind, response))
    seen = Counter(_told(response) for _, response in answers)
    slowest = max(response["metadata"]["latencyMs"] for _, response in answers)
    told = ", ".join(f"{who} {times}" for who, times in seen.items())
    record_property(TABLE, [headless.name, *(right[kind] for kind in KINDS), slowest, told])
    assert [each for each in answers if not _is_nobodys(*each)] == []


def _run(headless: Headless, program: Path, folder: Path, first: int) -> Mapping[str, Json]:
    """What each kind of question got, the `first` of them asked before the others."""
    at = first % len(KINDS)
    kinds = [*KINDS][at:] + [*KINDS][:at]
    with Model() as model:
        stage = Stage(folder, program, model)
        responses = headless.ask(stage, [KINDS[kind] for kind in kinds], **cold_imports(folder))
        stage.referee()
    return dict(zip(kinds, responses, strict=True))


def _told(response: Json) -> str:
    """Who answered and, where somebody did, by which evidence."""
    metadata = response["metadata"]
    return " by ".join([metadata["answeredBy"], *filter(None, [metadata.get("evidence")])])


def _is_nobodys(kind: str, response: Json) -> bool:
    """No person is told to have answered, and nothing that destroys is confirmed."""
    is_destroyed = kind == "destructive" and response.get("data") == {"confirmed": True}
    return response["metadata"]["answeredBy"] in NOBODY and not is_destroyed
