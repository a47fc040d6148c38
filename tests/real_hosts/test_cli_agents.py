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

ECHO = "echo made"


# name -> its home, the tool that runs a command, whether it can run without tools
AGENTS: dict[str, tuple[Callable[[Stage], dict[str, str]], str, bool]] = {
    "claude": (claude_home, calling("Bash", command=ECHO, description="It says."), True),
    "codex": (codex_home, calling("exec_command", cmd=ECHO), False),
}


@pytest.fixture(params=AGENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def agent(name: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliAgent:
    """The agent on the PATH, with its home in `tmp_path`."""
    stage = Stage(tmp_path, installed(name), model)
    program = stage.program
    if name == "claude":
        program = program.parents[1] / "@anthropic-ai/claude-agent-sdk-linux-x64/claude"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).symlink_to(program)
    for variable, value in AGENTS[name][0](stage).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return CliAgent(DIALECTS[name], str(tmp_path))


async def test_turns_of_one_session(name: str, agent: CliAgent) -> None:
    assert (await agent.available()).ok
    _, script, without = AGENTS[name]
    session = await agent.start(StartOptions(cli_config=CliConfig(tools=not without)))
    hello = [AgentMessage("user", "/help me")]  # no command of its own
    response = await agent.send(session, hello, timeout_ms=LIMIT)
    assert response.content == "Hello."
    again = [AgentMessage("user", script)] if without else hello
    session, response = await agent.resume(session, again, timeout_ms=LIMIT)
    assert (response.content, response.tool_calls) == ("Hello.", ())
    usage = await agent.get_usage(session)
    assert usage is not None
    assert (usage.scope, usage.output) == ("session", 2)


async def test_tool_of_the_agent(name: str, agent: CliAgent) -> None:
    session = await agent.start(StartOptions(cli_config=CliConfig(tools=True)))
    script = [AgentMessage("user", AGENTS[name][1])]
    kinds: list[str] = []
    response = await agent.send(
        session, script, on_chunk=lambda chunk: kinds.append(chunk.kind), timeout_ms=LIMIT
    )
    assert response.content == "DONE"
    (call,) = response.tool_calls
    assert ECHO in json.dumps(call.arguments)
    assert [each for each in kinds if each.startswith("tool")] == ["tool_start", "tool_end"]


async def test_answer_cut_by_the_model(name: str, agent: CliAgent, model: Model) -> None:
    model.is_limited = True
    session = await agent.start(StartOptions(cli_config=CliConfig(tools=not AGENTS[name][2])))
    with pytest.raises(AgentError, match=r"max_|output token maximum") as problem:
        await agent.send(session, [AgentMessage("user", "Hello")], timeout_ms=LIMIT)
    assert problem.value.code == "FAILED"
