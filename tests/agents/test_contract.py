"""What every agent on this machine keeps, whatever is spoken to it: `AgentProtocol`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.agents import AGENTS, install, lives, user
from support.harness import PATIENCE

from abp_bridge.agents import acp
from abp_bridge.core.agent_turn import AgentError, Chunk, Cost, ModelSettings, Usage
from abp_bridge.interfaces.agent import AgentProtocol, StartOptions

Json = Any

pytestmark = pytest.mark.anyio

ONCE = Cost(0.5, "USD", "session")


@pytest.fixture(params=AGENTS)
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    install(tmp_path, monkeypatch)
    return str(request.param)


@pytest.fixture
def agent(kind: str, tmp_path: Path) -> AgentProtocol:
    return AGENTS[kind](tmp_path)


async def test_it_is_available_where_its_program_is(agent: AgentProtocol) -> None:
    found = await agent.available()
    assert found.ok
    assert "9.9" in found.version
    assert agent.transport_type == "local_agent"


async def test_a_turn_has_its_prompt_in_an_empty_folder_and_no_password_of_ours(
    agent: AgentProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABP_MCP_TOKEN", "hidden")
    chunks: list[Chunk] = []
    session = await agent.start(StartOptions(environment={"MORE": "1"}))
    response = await agent.send(
        session,
        user("One", "Two"),
        on_chunk=chunks.append,
        settings=ModelSettings(max_tokens=5, stop_sequences=("end",)),
        timeout=PATIENCE,
    )
    about = json.loads(response.content or "")
    assert (about["cwd"], about["turns"]) == ([], 1)
    assert about["prompt"] == agent.format_messages(user("One", "Two")).decode()
    assert "MORE" in about["env"]
    assert "ABP_MCP_TOKEN" not in about["env"]
    assert (response.content or "") in "".join(each.text for each in chunks if each.kind == "text")
    assert response.stop_reason == "end_turn"
    assert response.ignored == ("maxTokens", "stopSequences")
    assert response.usage == Usage("turn", 2, 3, ONCE)
    assert agent.estimate_cost(response) == ONCE


async def test_a_workspace_is_where_it_works(agent: AgentProtocol, tmp_path: Path) -> None:
    session = await agent.start(StartOptions(workspace=str(tmp_path)))
    response = await agent.send(session, user("Look"), timeout=PATIENCE)
    assert "sessions" in json.loads(response.content or "")["cwd"]


async def test_a_conversation_goes_on_after_a_restart(
    kind: str, agent: AgentProtocol, tmp_path: Path
) -> None:
    begun = await agent.start(StartOptions())
    first = await agent.send(begun, user("One"), timeout=PATIENCE)
    session = str(first.metadata["session"])
    again = AGENTS[kind](tmp_path)
    same, response = await again.resume(session, user("Two"), timeout=PATIENCE)
    assert (same, json.loads(response.content or "")["turns"]) == (session, 2)
    assert await again.get_usage(session) == Usage("session", 2, 3, ONCE)
    await again.resume(session, user("Three"), timeout=PATIENCE)
    assert await again.get_usage(session) == Usage("session", 4, 6, ONCE)
    with pytest.raises(AgentError, match="no other") as lost:
        await again.resume("other", user("Two"), timeout=PATIENCE)
    assert lost.value.code == "SESSION_UNKNOWN"
    with pytest.raises(AgentError, match="no session none was begun") as none:
        await again.send("none", user("Two"), timeout=PATIENCE)
    assert none.value.code == "SESSION_UNKNOWN"
    assert await again.get_usage("none") is None


async def test_two_sessions_at_once_have_their_own_answers(agent: AgentProtocol) -> None:
    said: dict[str, Json] = {}

    async def turn(words: str) -> None:
        options = StartOptions(user_id=words, environment={f"FOR_{words}": "1"})
        response = await agent.send(await agent.start(options), user(words), timeout=PATIENCE)
        said[words] = json.loads(response.content or ""), response.metadata["session"]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn, "one")
        tasks.start_soon(turn, "two")
    assert [said[words][0]["prompt"] for words in ("one", "two")] == ["one", "two"]
    assert "FOR_two" not in said["one"][0]["env"]
    assert "FOR_two" in said["two"][0]["env"]
    assert said["one"][1] != said["two"][1]


@pytest.mark.parametrize("how", ["stopped", "out of time", "its caller is cancelled"])
async def test_a_turn_that_ends_early_leaves_no_process(
    agent: AgentProtocol, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even of a program that ignores SIGTERM, and whatever it is told."""
    monkeypatch.setattr(acp, "CANCEL_LIMIT", 0.1)
    processes: list[int] = []
    session = await agent.start(StartOptions())
    begun = anyio.Event()

    def hear(chunk: Chunk) -> None:
        processes.append(int(chunk.text))
        begun.set()

    async with anyio.create_task_group() as tasks:

        async def turn() -> None:
            limit = 1.0 if how == "out of time" else PATIENCE
            with pytest.raises(AgentError) as problem:
                await agent.send(session, user("hang"), on_chunk=hear, timeout=limit)
            assert problem.value.code == ("TIMEOUT" if how == "out of time" else "CANCELLED")

        tasks.start_soon(turn)
        with anyio.move_on_after(PATIENCE if how != "out of time" else 2.0):
            await begun.wait()
        if how == "stopped":
            await agent.stop(session)
            await agent.stop(session)
        elif how != "out of time":
            tasks.cancel_scope.cancel()
    assert not any(map(lives, processes))
    await agent.stop("none")


async def test_one_that_dies_says_how_and_what_it_said_last(agent: AgentProtocol) -> None:
    session = await agent.start(StartOptions())
    with pytest.raises(AgentError, match=r"exit code 3.*out of memory") as problem:
        await agent.send(session, user("die"), timeout=PATIENCE)
    assert problem.value.code == "AGENT_DIED"
