"""Agents by their command lines, and `abp-bridge agents`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.agents import AGENTS, LIMIT, install, user
from support.harness import PATIENCE, run

from abp_bridge.models.agent import AgentError, AgentProtocol, StartOptions, Usage
from abp_bridge.models.session import LocalAgent

Json = Any


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with the stand-in, named claude."""
    return install(tmp_path, monkeypatch)


@pytest.fixture
def agent(path: Path, tmp_path: Path) -> LocalAgent:
    return AGENTS["cli"](tmp_path)


async def test_its_prompt_is_no_argument(agent: LocalAgent) -> None:
    """Everybody on the machine can read those."""
    session = await agent.start(StartOptions())
    response = await agent.send(session, user("Tell me"), timeout_ms=LIMIT)
    about = json.loads(response.content or "")
    assert about["prompt"] == "Tell me"
    assert not any("Tell" in each for each in about["argv"])


ENDINGS = {
    "leave": ("TRUNCATED", "it ended before its turn was over"),
    "refused": ("AUTH_REQUIRED", "authentication_failed"),
}


@pytest.mark.parametrize("word", ["leave", pytest.param("refused", marks=pytest.mark.process)])
async def test_a_turn_without_an_answer_says_why(agent: LocalAgent, word: str) -> None:
    session = await agent.start(StartOptions())
    with pytest.raises(AgentError) as problem:
        await agent.send(session, user(word), timeout_ms=LIMIT)
    code, words = ENDINGS[word]
    assert (problem.value.code, words in str(problem.value)) == (code, True)


@pytest.mark.process
async def test_a_whole_answer_counts_though_what_it_started_goes_on(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abp_bridge.models.cli.END_LIMIT", 0.1)
    said = json.dumps({"type": "result", "result": "blue", "stop_reason": "end_turn"})
    (path / "claude").write_text(f"#!/bin/sh\nsleep 1000 &\necho '{said}'\n")
    agent = AGENTS["cli"](tmp_path)
    session = await agent.start(StartOptions())
    response = await agent.send(session, user("Hi"), timeout_ms=LIMIT)
    assert response.content == "blue"
    assert response.usage == Usage(), "nobody said what it took"


@pytest.mark.process
async def test_it_is_available_where_its_program_is(
    agent: LocalAgent, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol: AgentProtocol = agent
    assert (await protocol.available()).version == "9.9 (a stand-in)"
    assert protocol.transport_type == "local_agent"
    monkeypatch.setenv("STAND_IN_BROKEN", "4")
    assert "exit code 4" in (await protocol.available()).why_not
    (path / "claude").write_text("no program")
    assert "cannot be started" in (await protocol.available()).why_not
    session = await protocol.start(StartOptions(workspace=str(path)))
    with pytest.raises(AgentError, match="cannot be started") as problem:
        await protocol.send(session, user("Hi"), timeout_ms=LIMIT)
    assert problem.value.code == "NOT_AVAILABLE"


# --- abp-bridge agents ----------------------------------------------------------------------------


@pytest.mark.process
def test_the_list_says_what_is_here_and_why_others_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(path))
    listed = run("agents").stdout.splitlines()
    assert listed[0] == "cli:claude      9.9 (a stand-in)"
    assert listed[1] == "cli:codex       no: there is no program codex on the PATH: install Codex"
    rows = [json.loads(line) for line in run("agents", "--json").stdout.splitlines()]
    assert rows[0] == {
        "name": "claude",
        "model": "cli:claude",
        "title": "Claude Code",
        "available": True,
        "version": "9.9 (a stand-in)",
        "transport": "local_agent",
        "withoutTools": True,
    }
    local = [row["available"] for row in rows if row["transport"] == "local_agent"]
    assert local == [True, False]


TRIED: dict[str, tuple[list[str], int, str]] = {
    "an answer": (["cli:claude", "--ask", "Hi"], 0, '"prompt": "Hi"'),
    "as JSON": (["cli:claude", "--ask", "Hi", "--json"], 0, '{"response": {"content": '),
    "no answer": (["cli:claude", "--ask", "die"], 1, "cli:claude brought no answer (AGENT_DIED): "),
    "no words": (["cli:claude"], 2, 'as in: agents cli:claude --ask "Hello"'),
    "tools that it must have": (["cli:codex", "--ask", "Hi"], 1, "; --tools lets it use them"),
    "another session": (["cli:claude", "--ask", "Hi", "--resume", "x"], 1, "SESSION_UNKNOWN"),
    "a typo": (["cli:clade"], 2, "there is no agent cli:clade: write cli: and one of claude, cod"),
}


@pytest.mark.parametrize("case", TRIED)
def test_one_is_tried_from_a_shell(path: Path, case: str) -> None:
    arguments, code, words = TRIED[case]
    ended = run("agents", *arguments)
    assert (ended.returncode, words in ended.stdout + ended.stderr) == (code, True), ended
    assert "Traceback" not in ended.stderr


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["utf-8:surrogateescape", "ascii:strict"])
def test_what_is_no_text_is_sent_to_nobody(path: Path, encoding: str) -> None:
    words = [sys.executable, "-m", "abp_bridge", "agents", "cli:claude", "--ask", "-"]
    ended = subprocess.run(
        words,
        input=b"a\xffb",
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    name = encoding.partition(":")[0].encode()
    assert ended.stderr == b"abp-bridge agents: what it is sent is no text in %b\n" % name
