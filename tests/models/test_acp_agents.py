"""ACP agents as models: what they are told and refused, resuming, and misbehaving agents."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.acp_harness import check_client
from support.agents import LIMIT, PNG, acp, install, user, with_image
from support.harness import PATIENCE
from support.paths import APPS, TESTS

from abp_bridge.jsonrpc import program_lines as lines
from abp_bridge.models import acp as agents
from abp_bridge.models.acp import AcpAgent
from abp_bridge.models.agent import (
    AgentError,
    Chunk,
    CliConfig,
    StartOptions,
    ToolsNeededError,
    Usage,
)

Json = Any


class Heard:
    """What an agent heard, which the referee holds against `acp.schema`."""

    def __init__(self, log: Path) -> None:
        self._log = log

    @property
    def messages(self) -> list[Json]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def methods(self) -> list[str]:
        return [each["method"] for each in self.messages if "method" in each]

    def check(self) -> None:
        if self._log.exists():
            check_client([each for each in self.messages if "method" in each], [])


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    install(tmp_path, monkeypatch)
    found = Heard(tmp_path / "heard")
    yield found
    found.check()


async def answer(agent: AcpAgent, words: str, **options: Any) -> Any:
    session = await agent.start(StartOptions(**options))
    return await agent.send(session, user(words), timeout_ms=LIMIT)


async def failure(agent: AcpAgent, words: str, **options: Any) -> AgentError:
    with pytest.raises(AgentError) as problem:
        await answer(agent, words, **options)
    return problem.value


@pytest.mark.process
async def test_a_path_is_of_the_folder_that_it_was_written_in(
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent itself works in another."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "bin" / "agent"
    command = shlex.join([sys.executable, str(APPS / "acp_model.py"), str(tmp_path / "heard")])
    program.write_text(f"#!/bin/sh\nexec {command}\n")
    program.chmod(0o700)
    agent = AcpAgent(["bin/agent"], str(tmp_path / "work"))
    assert (await answer(agent, "Hi")).content
    copied = tmp_path / "agent.py"
    copied.write_text((APPS / "acp_model.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    for script in ("agent.py", "bin/../agent.py"):
        agent = AcpAgent([sys.executable, script, str(tmp_path / "heard")], str(tmp_path / "work"))
        assert (await answer(agent, "Hi")).content


# --- what it is told, and refused -----------------------------------------------------------------


async def test_an_image_goes_along_where_it_takes_them(heard: Heard, tmp_path: Path) -> None:
    agent = acp(tmp_path, "images")
    session = await agent.start(StartOptions())
    await agent.send(session, with_image("Look"), timeout_ms=LIMIT)
    [asked] = [each for each in heard.messages if each.get("method") == "session/prompt"]
    assert asked["params"]["prompt"] == [
        {"type": "text", "text": "Look"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ]


async def test_requests_of_a_model_agent_are_refused(heard: Heard, tmp_path: Path) -> None:
    response = await answer(acp(tmp_path), "ask")
    refused = {"outcome": {"outcome": "selected", "optionId": "p-3"}}
    assert json.loads(response.content) == {
        "session/request_permission": refused,
        "elicitation/create": {"action": "decline"},
        "fs/read_text_file": -32601,
    }
    [hello, begun, *_] = heard.messages
    offered = hello["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert offered["terminal"] is False
    assert "elicitation" not in offered
    assert begun["params"]["mcpServers"] == []


async def test_a_tool_that_it_used_without_asking_leaves_no_answer(
    heard: Heard, tmp_path: Path
) -> None:
    problem = await failure(acp(tmp_path), "use")
    assert isinstance(problem, ToolsNeededError)
    assert (problem.code, "may use none: rm -r x" in str(problem)) == ("FAILED", True)
    assert (
        await answer(acp(tmp_path), "use", cli_config=CliConfig(tools=True))
    ).content == "it is gone"


@pytest.mark.parametrize(("how", "set_by"), [("", "set_mode"), ("options", "set_config_option")])
async def test_agent_without_tools_is_put_in_its_most_cautious_mode(
    heard: Heard, tmp_path: Path, how: str, set_by: str
) -> None:
    response = await answer(acp(tmp_path, how), "Hi")
    [chosen] = [each["params"] for each in heard.messages if set_by in each.get("method", "")]
    assert "read-only" in chosen.values()
    assert response.model == ("large" if how else "")
    await answer(acp(tmp_path, how), "Hi", cli_config=CliConfig(tools=True))
    assert str(heard.methods()).count("session/set_") == 1


# --- going on -------------------------------------------------------------------------------------


async def test_what_is_replayed_is_not_told_again(heard: Heard, tmp_path: Path) -> None:
    first = await answer(acp(tmp_path, "load"), "Hi")
    chunks: list[Chunk] = []
    again, session = acp(tmp_path, "load"), first.metadata["session"]
    _, response = await again.resume(session, user("Hi"), on_chunk=chunks.append, timeout_ms=LIMIT)
    assert json.loads(response.content or "")["turns"] == 2
    assert not any("before" in each.text for each in chunks)
    assert heard.methods()[-4:-1] == ["initialize", "session/load", "session/set_mode"]
    with pytest.raises(AgentError, match=r"does not go on with x: no x \(-32002\)") as problem:
        await again.resume("x", user("Hi"), timeout_ms=LIMIT)
    assert problem.value.code == "SESSION_UNKNOWN"


# --- a turn that is given up ----------------------------------------------------------------------


async def test_a_turn_that_is_stopped_is_cancelled_first(heard: Heard, tmp_path: Path) -> None:
    agent = acp(tmp_path)
    session = await agent.start(StartOptions())
    begun = anyio.Event()

    def hear(chunk: Chunk) -> None:
        if chunk.kind == "text":
            begun.set()

    async def turn() -> None:
        with pytest.raises(AgentError, match="stopped"):
            await agent.send(session, user("wait"), on_chunk=hear, timeout_ms=LIMIT)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await begun.wait()
            await agent.stop(session)
    assert heard.methods()[-1] == "session/cancel"
    assert heard.messages[-1] == {"end": True}  # its stdin was closed once it had answered


async def test_what_who_listens_raises_is_raised_to_who_waits(heard: Heard, tmp_path: Path) -> None:
    def hear(chunk: Chunk) -> None:
        raise ZeroDivisionError

    agent = acp(tmp_path)
    session = await agent.start(StartOptions())
    with pytest.raises(BaseExceptionGroup) as problem:
        await agent.send(session, user("wait"), on_chunk=hear, timeout_ms=LIMIT)
    assert problem.group_contains(ZeroDivisionError)
    assert heard.methods()[-1] == "session/cancel"


# --- those that misbehave -------------------------------------------------------------------------


ENDS = {
    "malformed": ("PROTOCOL", "the agent's answer is no response of JSON-RPC"),
    "sign in": ("AUTH_REQUIRED", "and sign in. It offers: Sign in with a browser."),
    "refusal": ("REFUSED", "the agent refused to go on"),
    "flood": ("TRUNCATED", "it says more than 4,194,304 characters"),
    "die": ("AGENT_DIED", "exit code 7; its last words: the disk is on fire"),
    "endless": ("PROTOCOL", "can be understood no more: it has more than 10000 bytes"),
}


@pytest.mark.parametrize("words", ENDS)
@pytest.mark.slow
async def test_a_turn_that_did_not_end_well_brings_no_answer(
    heard: Heard, tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if words == "endless":
        monkeypatch.setattr(lines, "MAX_PASSED_LINE", 10_000)
        monkeypatch.setattr(agents, "END_LIMIT", 0.1)
    problem = await failure(acp(tmp_path, agent="unruly_agent"), words)
    code, said = ENDS[words]
    assert (problem.code, said in str(problem)) == (code, True), problem


STARTS = {
    "new": ("PROTOCOL", "it speaks version 2 of ACP, and this bridge 1"),
    "nameless": ("PROTOCOL", "session/new without a sessionId"),
    "signed out": ("AUTH_REQUIRED", "wants its user signed in first"),
    "mute": ("TIMEOUT", "did not answer within 0.2 s. Does it speak ACP?"),
}


@pytest.mark.parametrize("how", STARTS)
@pytest.mark.slow
async def test_one_that_cannot_be_begun_with_says_why(
    heard: Heard, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "mute":
        monkeypatch.setattr(agents, "START_LIMIT", 0.2)
    agent = acp(tmp_path, how, agent="unruly_agent")
    problem = await failure(agent, "Hi")
    code, said = STARTS[how]
    assert (problem.code, said in str(problem)) == (code, True), problem
    if how in ("new", "mute"):  # the others start no session to find out
        assert said in (await agent.available()).why_not


@pytest.mark.process
async def test_a_command_that_is_no_agent_is_not_available(tmp_path: Path) -> None:
    folder = str(tmp_path)
    none = await AcpAgent(["no-such-program"], folder).available()
    assert "cannot be started: there is no program 'no-such-program'" in none.why_not
    assert "(exit code 0)" in (await AcpAgent(["true"], folder).available()).why_not
    problem = await failure(AcpAgent(["no-such-program"], folder), "Hi")
    assert problem.code == "NOT_AVAILABLE"


# --- the official SDK, and a shell ----------------------------------------------------------------


async def test_an_agent_of_the_official_sdk(heard: Heard, tmp_path: Path) -> None:
    log = tmp_path / "passed"
    program = str(APPS / "sdk_agent.py")
    agent = AcpAgent([sys.executable, program, str(log)], str(tmp_path / "work"))
    option = {"optionId": "a", "name": "A", "kind": "allow_once"}
    asked = {"toolCall": {"toolCallId": "t"}, "options": [option]}
    form = {"type": "object", "properties": {"s": {"type": "string"}}}
    elicited = {"mode": "form", "message": "Which?", "requestedSchema": form}
    response = await answer(agent, json.dumps([{"permit": asked}, {"elicit": elicited}]))
    assert response.content == '{"outcome": {"outcome": "cancelled"}}{"action": "decline"}'
    assert response.usage == Usage("turn", 7, 3)
    passed = [json.loads(line) for line in log.read_text().splitlines()]
    told = [message for way, message in passed if way == "incoming"]
    check_client(told, [message for way, message in passed if way == "outgoing"])
