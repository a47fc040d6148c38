"""Real command lines of agents (`abp-bridge agents`): turns, tools, limits, sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abp_bridge.models.agent import AgentError, AgentMessage, CliConfig, StartOptions
from abp_bridge.models.cli import DIALECTS, CliAgent

from .hosts import calling, claude_home, codex_home, installed
from .model import Model
from .stage import PATIENCE, Stage

LIMIT = round(1_000 * PATIENCE)  # milliseconds of a turn

Json = Any

pytestmark = pytest.mark.anyio

ECHO = "echo made"


# name -> how it is installed, its home, the tool that runs a command, whether without tools
AGENTS: dict[str, tuple[str, Callable[[Stage], dict[str, str]], str, bool]] = {
    "claude": ("claude", claude_home, calling("Bash", command=ECHO, description="It says."), True),
    "codex": ("codex", codex_home, calling("exec_command", cmd=ECHO), False),
}


def begin(name: str, model: Model, folder: Path, programs: pytest.MonkeyPatch) -> CliAgent:
    package, home, _, _ = AGENTS[name]
    stage = Stage(folder, installed(package), model)
    program = stage.program
    if name == "claude":
        program = program.parents[1] / "@anthropic-ai/claude-agent-sdk-linux-x64/claude"
    (folder / "bin").mkdir()
    (folder / "bin" / name).symlink_to(program)
    for variable, value in home(stage).items():
        programs.setenv(variable, value)
    programs.setenv("PATH", str(folder / "bin"), prepend=":")
    return CliAgent(DIALECTS[name], str(folder))


@pytest.mark.parametrize("name", AGENTS)
async def test_turns_of_one_session(
    name: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = begin(name, model, tmp_path, monkeypatch)
    assert (await agent.available()).ok
    without = AGENTS[name][3]
    session = await agent.start(StartOptions(cli_config=CliConfig(tools=not without)))
    hello = [AgentMessage("user", "/help me")]  # no command of its own
    response = await agent.send(session, hello, timeout_ms=LIMIT)
    assert response.content == "Hello."
    again = [AgentMessage("user", AGENTS[name][2])] if without else hello
    session, response = await agent.resume(session, again, timeout_ms=LIMIT)
    assert (response.content, response.tool_calls) == ("Hello.", ())
    usage = await agent.get_usage(session)
    assert usage is not None
    assert (usage.scope, usage.output) == ("session", 2)


@pytest.mark.parametrize("name", AGENTS)
async def test_a_tool_of_its_own(
    name: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = begin(name, model, tmp_path, monkeypatch)
    session = await agent.start(StartOptions(cli_config=CliConfig(tools=True)))
    script = [AgentMessage("user", AGENTS[name][2])]
    kinds: list[str] = []
    response = await agent.send(
        session, script, on_chunk=lambda chunk: kinds.append(chunk.kind), timeout_ms=LIMIT
    )
    assert response.content == "DONE"
    (call,) = response.tool_calls
    assert ECHO in json.dumps(call.arguments)
    assert [each for each in kinds if each.startswith("tool")] == ["tool_start", "tool_end"]


@pytest.mark.parametrize("name", AGENTS)
async def test_an_answer_that_its_model_cut_off_is_none(
    name: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = begin(name, model, tmp_path, monkeypatch)
    model.is_limited = True
    session = await agent.start(StartOptions(cli_config=CliConfig(tools=not AGENTS[name][3])))
    with pytest.raises(AgentError, match=r"max_|output token maximum") as problem:
        await agent.send(session, [AgentMessage("user", "Hello")], timeout_ms=LIMIT)
    assert problem.value.code == "FAILED", "both say no more than words"


@pytest.mark.parametrize("name", AGENTS)
async def test_a_session_that_is_not_there(
    name: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = begin(name, model, tmp_path, monkeypatch)
    lost = "00000000-0000-4000-8000-000000000000"
    await agent.start(StartOptions(session_id=lost, cli_config=CliConfig(tools=True)))
    with pytest.raises(AgentError) as problem:
        await agent.resume(lost, [AgentMessage("user", "Hello")], timeout_ms=LIMIT)
    assert problem.value.code == "SESSION_UNKNOWN"
