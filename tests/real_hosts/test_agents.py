"""Real ACP agents as apps of the bridge: they are prompted, ask for leave, and are cancelled."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from support.acp_harness import check_client
from support.harness import Hosted, accept, hosted, refuse, text

from .hosts import COLOUR, calling, claude_home, codex_home, goose_home, installed
from .model import Model
from .stage import PATIENCE, RECORDER, Record, Stage, recorded

Json = Any

MADE = "touch made.txt"
# agent -> its arguments, its home, what has it run a command, whether it asks before that
AGENTS: dict[str, tuple[list[str], Callable[[Stage], dict[str, str]], str, bool]] = {
    "goose": (
        ["acp"],
        lambda stage: goose_home(stage, "approve"),
        calling("shell", command=MADE),
        True,
    ),
    "claude": ([], claude_home, calling("Bash", command=MADE, description="It makes."), True),
    "codexacp": ([], codex_home, calling("exec_command", cmd=MADE), False),
}
ASKING = [name for name, row in AGENTS.items() if row[3]]


@asynccontextmanager
async def prompted(
    agent: str, model: Model, folder: Path, person: Callable[..., Any]
) -> AsyncIterator[tuple[Hosted, Stage]]:
    arguments, home, _, _ = AGENTS[agent]
    program = installed(agent)
    stage = Stage(folder, program, model)
    env = home(stage)
    os.chdir(stage.work)
    command = recorded(folder / "app", program, *arguments)
    async with hosted("--app", f"acp:{shlex.join(command)}", answer=person, env=env) as host:
        yield host, stage
    for path in sorted(folder.glob("app-*.jsonl")):
        lines = Record(path).lines
        said = [message for who, message in lines if who == "host"]
        check_client(said, [message for who, message in lines if who != "host"])


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())


def choosing(kind: str, shown: list[Json]) -> Callable[[Any], types.ElicitResult]:
    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        options = params.requested_schema["properties"]["answer"]["oneOf"]
        shown.append(options)
        [chosen, *_] = [
            each["const"]
            for each in options
            if kind in each["const"].replace("-", "_") and "always" not in each["const"]
        ]
        return accept(answer=chosen)(params)

    return person


@pytest.mark.parametrize("agent", AGENTS)
async def test_agent_is_prompted(agent: str, model: Model, tmp_path: Path) -> None:
    async with prompted(agent, model, tmp_path, choosing("allow", [])) as (host, _):
        result = await host.call("agent.prompt", prompt="Say hello.")
        data = json.loads(text(result))
        assert data["text"].endswith("Hello.")
        assert (data["stopReason"], data["usage"]["scope"]) == ("end_turn", "turn")
        with anyio.fail_after(PATIENCE):
            while "agent.command." not in str(await host.status()):
                pass


@pytest.mark.parametrize("agent", ASKING)
@pytest.mark.parametrize(("kind", "made"), [("allow", True), ("reject", False)])
async def test_permission_decides_what_the_agent_does(
    agent: str, kind: str, made: bool, model: Model, tmp_path: Path
) -> None:
    shown: list[Json] = []
    async with prompted(agent, model, tmp_path, choosing(kind, shown)) as (host, stage):
        result = await host.call("agent.prompt", prompt=AGENTS[agent][2])
        assert not result.is_error, result
        assert len(shown) == 1
        assert (stage.work / "made.txt").exists() is made


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_answer_to_a_form_of_claude_reaches_its_model(
    action: str, model: Model, tmp_path: Path
) -> None:
    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        assert "Which colour?" in params.message
        return (accept(question_0="Blue") if action == "accept" else refuse(action))(params)

    async with prompted("claude", model, tmp_path, person) as (host, _):
        script = calling("AskUserQuestion", questions=[COLOUR])
        result = await host.call("agent.prompt", prompt=script)
        assert not result.is_error, result
    heard = [words for who, words in model.requests[-1].said if who == "tool"][-1]
    assert ('"Which colour?"="Blue"' in heard) is (action == "accept")


# What an agent that asks for no leave is in the middle of.
LONG = calling("exec_command", cmd="touch begun.txt; sleep 60; touch made.txt")
GLANCE = 0.05  # seconds between two looks at a file


def middle(agent: str) -> str:
    return AGENTS[agent][2] if agent in ASKING else LONG


async def wait_for_middle(stage: Stage, asked: anyio.Event) -> None:
    with anyio.fail_after(PATIENCE):
        while not (asked.is_set() or (stage.work / "begun.txt").exists()):
            with anyio.move_on_after(GLANCE):
                await asked.wait()


def asked_once(asked: anyio.Event) -> Callable[[Any], types.ElicitResult | None]:
    def person(params: Any) -> types.ElicitResult | None:
        if asked.is_set():
            return choosing("reject", [])(params)
        asked.set()
        return None

    return person


@pytest.mark.parametrize("agent", AGENTS)
async def test_cancelled_call_leaves_the_agent_running(
    agent: str, model: Model, tmp_path: Path
) -> None:
    asked = anyio.Event()
    async with prompted(agent, model, tmp_path, asked_once(asked)) as (host, stage):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: host.call("agent.prompt", prompt=middle(agent)))
            await wait_for_middle(stage, asked)
            tasks.cancel_scope.cancel()
        result = await host.call("agent.prompt", prompt="Say hello.")
        assert not result.is_error, result
        assert not (stage.work / "made.txt").exists()


@pytest.mark.parametrize("agent", AGENTS)
async def test_agent_that_dies_is_restarted(agent: str, model: Model, tmp_path: Path) -> None:
    asked = anyio.Event()
    async with prompted(agent, model, tmp_path, asked_once(asked)) as (host, stage):
        ended: list[str] = []

        async def call() -> None:
            ended.append(text(await host.call("agent.prompt", prompt=middle(agent))))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await wait_for_middle(stage, asked)
            lines = Path("/proc").glob("[0-9]*/cmdline")
            wanted = f"{RECORDER}\0{tmp_path}"
            [recorder, *_] = [each.parent.name for each in lines if wanted in each.read_text()]
            os.killpg(os.getpgid(int(recorder)), signal.SIGKILL)
        assert ended[0].startswith("DISCONNECTED")
        again = await host.call("agent.prompt", prompt="Say hello.")
        assert not again.is_error, again
