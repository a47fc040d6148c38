"""Real ACP agents as models (`--sampling acp:COMMAND`): turns, tools, stops, sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.http_server import Reply, json_reply
from support.http_server import Request as HttpRequest

from abp_bridge.models.acp import AcpAgent
from abp_bridge.models.agent import (
    AgentError,
    AgentMessage,
    CliConfig,
    StartOptions,
    ToolsNeededError,
)

from .hosts import calling, claude_home, codex_home, goose_home, installed, opencode_home, qwen_home
from .model import Model, Request
from .stage import PATIENCE, Stage

LIMIT = round(1_000 * PATIENCE)  # milliseconds of a turn

Json = Any

MADE = "touch made.txt"
LOST = "00000000-0000-4000-8000-000000000000"


def asking_opencode(stage: Stage) -> dict[str, str]:
    """It runs what it likes, unless it is told otherwise."""
    return {**opencode_home(stage), "OPENCODE_PERMISSION": '{"*": "ask"}'}


# name -> how it is installed, its arguments, its home, what has it run a command
AGENTS: dict[str, tuple[str, list[str], Callable[[Stage], dict[str, str]], str]] = {
    "claude": ("claude", [], claude_home, calling("Bash", command=MADE, description="It makes.")),
    "codex": (
        "codexacp",
        [],
        codex_home,
        # What its sandbox would stop it asks for only where the model says so.
        calling("exec_command", cmd=MADE, sandbox_permissions="require_escalated"),
    ),
    "goose": ("goose", ["acp"], goose_home, calling("shell", command=MADE)),
    "opencode": (
        "opencodecli",
        ["acp"],
        asking_opencode,
        calling("bash", command=MADE, description="It makes."),
    ),
    "qwen": (
        "qwen",
        ["--acp"],
        qwen_home,
        calling("run_shell_command", command=MADE, is_background=False),
    ),
}


class SlowModel(Model):
    """Answers at once, but for who says `Wait.`: until `go` is set."""

    fails = False  # every request, then

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def answer(self, request: HttpRequest) -> Reply:
        if self.fails and request.method == "POST":
            return json_reply({"error": {"message": "too many requests"}}, 429)
        return super().answer(request)

    def turn(self, form: Json, request: Request) -> bytes:
        if request.tools and any("Wait." in words for _, words in request.said[-2:]):
            self.asked.set()
            self.go.wait(PATIENCE)
        return super().turn(form, request)


@pytest.fixture
def model() -> Iterator[SlowModel]:
    with SlowModel() as model:
        try:
            yield model
        finally:
            model.go.set()


@pytest.fixture(params=AGENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stage(
    name: str, model: SlowModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    package, _, home, _ = AGENTS[name]
    stage = Stage(tmp_path, installed(package), model)
    for variable, value in home(stage).items():
        monkeypatch.setenv(variable, value)
    yield stage
    monkeypatch.undo()
    stage.check_nothing_is_left()


def begin(name: str, stage: Stage) -> AcpAgent:
    return AcpAgent([str(stage.program), *AGENTS[name][1]], str(stage.work))


def user(words: str) -> list[AgentMessage]:
    return [AgentMessage("user", words)]


async def test_turns_of_one_session(name: str, stage: Stage) -> None:
    agent = begin(name, stage)
    found = await agent.available()
    assert found.ok, found
    session = await agent.start(StartOptions(workspace=str(stage.work)))
    response = await agent.send(session, user("Hello there."), timeout_ms=LIMIT)
    assert (response.content, response.tool_calls) == ("Hello.", ())
    usage = await agent.get_usage(session)
    assert usage is None if name == "qwen" else usage is not None and usage.output == 1

    again, session = begin(name, stage), str(response.metadata["session"])
    await again.start(StartOptions(session_id=session, workspace=str(stage.work)))
    script = AGENTS[name][3]
    if name == "codex":  # what is refused ends its turn
        with pytest.raises(AgentError, match="was cancelled"):
            await again.resume(session, user(script), timeout_ms=LIMIT)
    else:
        same, response = await again.resume(session, user(script), timeout_ms=LIMIT)
        assert (same, response.stop_reason) == (session, "end_turn")
    told = [words for _, words in stage.model.requests[0].said]
    assert any("Hello there." in words for words in told)
    assert not (stage.work / "made.txt").exists()


async def test_stopped_turn_leaves_nothing(name: str, stage: Stage, model: SlowModel) -> None:
    agent = begin(name, stage)
    session = await agent.start(StartOptions())

    async def turn() -> None:
        with pytest.raises(AgentError) as problem:
            await agent.send(session, user("Wait."), timeout_ms=LIMIT)
        assert problem.value.code == "CANCELLED"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        assert await anyio.to_thread.run_sync(model.asked.wait, PATIENCE)
        await agent.stop(session)
    stage.check_nothing_is_left()


async def test_unknown_session_is_an_error(name: str, stage: Stage) -> None:
    with pytest.raises(AgentError) as problem:
        await begin(name, stage).resume(LOST, user("Hello."), timeout_ms=LIMIT)
    assert problem.value.code == "SESSION_UNKNOWN"


@pytest.mark.parametrize("name", ["codex", "goose"])
async def test_error_told_as_an_answer_is_an_error(
    name: str, stage: Stage, model: SlowModel
) -> None:
    model.fails = True
    agent = begin(name, stage)
    with pytest.raises(AgentError, match="no model has answered") as problem:
        await agent.send(await agent.start(StartOptions()), user("Hello."), timeout_ms=LIMIT)
    assert problem.value.code == "FAILED"


# What becomes of an answer that its model's limit cut; those that are not here pass it on as whole.
CUT = {"claude": "FAILED", "codex": "FAILED", "goose": "TRUNCATED"}


async def test_answer_cut_by_the_model(name: str, stage: Stage, model: SlowModel) -> None:
    model.is_limited = True
    agent = begin(name, stage)
    session = await agent.start(StartOptions())
    if name in CUT:
        with pytest.raises(AgentError) as problem:
            await agent.send(session, user("Hello."), timeout_ms=LIMIT)
        assert problem.value.code == CUT[name]
    else:
        response = await agent.send(session, user("Hello."), timeout_ms=LIMIT)
        assert response.stop_reason == "end_turn"


@pytest.mark.parametrize("name", ["opencode"])
async def test_agent_that_uses_a_tool_without_asking_has_no_answer(
    name: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENCODE_PERMISSION")
    agent = begin(name, stage)
    session = await agent.start(StartOptions())
    with pytest.raises(ToolsNeededError, match="without asking"):
        await agent.send(session, user(AGENTS[name][3]), timeout_ms=LIMIT)
    response = await agent.send(
        await agent.start(StartOptions(cli_config=CliConfig(tools=True))),
        user(AGENTS[name][3]),
        timeout_ms=LIMIT,
    )
    assert response.content == "DONE"
