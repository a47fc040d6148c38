"""Agents by their command lines: a program that answers as Claude Code does, each word of its
prompt a thing that it does; and `abp-bridge agents` in front of it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.harness import PATIENCE, run

from abp_bridge.agents.cli import CliAgent
from abp_bridge.agents.targets import make_agent
from abp_bridge.core.agent_turn import AgentError, AgentMessage, Chunk, Cost, ModelSettings, Usage
from abp_bridge.interfaces.agent import AgentProtocol, StartOptions
from abp_bridge.protocols.cli_agents import DIALECTS

Json = Any

pytestmark = pytest.mark.anyio

PROGRAM = """\
import json, os, signal, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("9.9 (a stand-in)")
    sys.exit(int(os.environ.get("STAND_IN_BROKEN", "0")))
option = "--resume" if "--resume" in arguments else "--session-id"
session = arguments[arguments.index(option) + 1]
known = os.path.join(os.environ["STAND_IN_SESSIONS"], session)
if option == "--resume" and not os.path.exists(known):
    lost = dict(is_error=True, num_turns=0, errors=["no " + session])
    say(type="result", subtype="error_during_execution", **lost)
    sys.exit(1)
open(known, "a").write("turn\\n")
say(type="system", subtype="init", session_id=session)
prompt = sys.stdin.read()
word = prompt.split()[-1]
if word == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(type="assistant", message=dict(id="m", content=[dict(type="text", text=str(os.getpid()))]))
    time.sleep(1_000)
if word == "die":
    print("out of memory", file=sys.stderr)
    sys.exit(3)
if word == "leave":
    sys.exit(0)
if word == "refused":
    say(type="system", subtype="api_retry", error_status=401, error="authentication_failed")
    time.sleep(1_000)
about = dict(argv=arguments, prompt=prompt, cwd=os.listdir(), env=sorted(os.environ))
answer = json.dumps(dict(about, turns=len(open(known).readlines())))
say(type="assistant", message=dict(id="m", content=[dict(type="text", text=answer)]))
usage = dict(input_tokens=2, output_tokens=3)
say(type="result", result=answer, stop_reason="end_turn", usage=usage, total_cost_usd=0.5)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with the stand-in, named claude."""
    for folder in (programs := tmp_path / "bin", sessions := tmp_path / "sessions"):
        folder.mkdir()
    program = programs / "claude"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN_SESSIONS", str(sessions))
    return programs


@pytest.fixture
def agent(path: Path) -> Iterator[CliAgent]:
    with tempfile.TemporaryDirectory() as folder:
        yield CliAgent(DIALECTS["claude"], folder)


def user(*words: str) -> list[AgentMessage]:
    return [AgentMessage("user", each) for each in words]


def lives(process: int) -> bool:
    """Whether it is there, and not a zombie that nobody has buried yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_a_turn_has_its_prompt_on_stdin_in_an_empty_folder(
    agent: CliAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abp_bridge.rpc.subprocess.PRIVATE", frozenset({"ABP_MCP_TOKEN"}))
    monkeypatch.setenv("ABP_MCP_TOKEN", "hidden")
    chunks: list[Chunk] = []
    session = await agent.start(StartOptions(environment={"MORE": "1"}))
    response = await agent.send(session, user("Tell me"), on_chunk=chunks.append, timeout=PATIENCE)
    about = json.loads(response.content or "")
    assert (about["prompt"], about["cwd"], about["turns"]) == ("Tell me", [], 1)
    assert not any("Tell" in each for each in about["argv"])
    assert "MORE" in about["env"]
    assert "ABP_MCP_TOKEN" not in about["env"]
    assert [each.text for each in chunks] == [response.content]
    assert response.stop_reason == "end_turn"
    assert agent.estimate_cost(response) == Cost(0.5, "USD", "session")


async def test_a_conversation_goes_on_after_a_restart(agent: CliAgent) -> None:
    session = await agent.start(StartOptions())
    await agent.send(session, user("One"), timeout=PATIENCE)
    again = CliAgent(DIALECTS["claude"], agent.folder)
    same, response = await again.resume(session, user("Two"), timeout=PATIENCE)
    assert (same, json.loads(response.content or "")["turns"]) == (session, 2)
    assert await again.get_usage(session) == Usage("session", 2, 3, Cost(0.5, "USD", "session"))
    await again.resume(session, user("Three"), timeout=PATIENCE)
    assert await again.get_usage(session) == Usage("session", 4, 6, Cost(0.5, "USD", "session"))
    with pytest.raises(AgentError, match="no other") as lost:
        await again.resume("other", user("Two"), timeout=PATIENCE)
    assert lost.value.code == "SESSION_UNKNOWN"
    with pytest.raises(AgentError, match="no session none was begun"):
        await again.send("none", user("Two"), timeout=PATIENCE)
    assert await again.get_usage("none") is None


async def test_two_sessions_at_once_have_their_own_answers(agent: CliAgent) -> None:
    said: dict[str, Json] = {}

    async def turn(words: str) -> None:
        session = await agent.start(StartOptions(user_id=words))
        response = await agent.send(session, user(words), timeout=PATIENCE)
        said[words] = json.loads(response.content or ""), response.metadata["session"], session

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn, "one")
        tasks.start_soon(turn, "two")
    assert {words: about[0]["prompt"] for words, about in said.items()} == {
        "one": "one",
        "two": "two",
    }
    assert all(told == begun for _, told, begun in said.values())
    assert said["one"][2] != said["two"][2]


@pytest.mark.parametrize("how", ["stopped", "out of time", "its caller is cancelled"])
async def test_a_turn_that_ends_early_leaves_no_process(agent: CliAgent, how: str) -> None:
    """Not even of a program that ignores SIGTERM."""
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


ENDINGS = {
    "die": ("AGENT_DIED", "the exit code 3 before its turn was over: out of memory"),
    "leave": ("TRUNCATED", "it ended before its turn was over"),
    "refused": ("AUTH_REQUIRED", "authentication_failed"),
}


@pytest.mark.parametrize("word", ENDINGS)
async def test_a_turn_without_an_answer_says_why(agent: CliAgent, word: str) -> None:
    session = await agent.start(StartOptions())
    with pytest.raises(AgentError) as problem:
        await agent.send(session, user(word), timeout=PATIENCE)
    code, words = ENDINGS[word]
    assert (problem.value.code, words in str(problem.value)) == (code, True)


async def test_it_is_available_where_its_program_is(
    agent: CliAgent, path: Path, monkeypatch: pytest.MonkeyPatch
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
        await protocol.send(session, user("Hi"), timeout=PATIENCE)
    assert problem.value.code == "NOT_AVAILABLE"


# --- abp-bridge agents ----------------------------------------------------------------------------


def test_the_list_says_what_is_here_and_why_others_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(path))
    listed = run("agents").stdout.splitlines()
    assert listed[0] == "claude     9.9 (a stand-in)"
    assert listed[1] == "codex      no: there is no program codex on the PATH: install Codex"
    rows = [json.loads(line) for line in run("agents", "--json").stdout.splitlines()]
    assert rows[0] == {
        "name": "claude",
        "title": "Claude Code",
        "available": True,
        "version": "9.9 (a stand-in)",
        "transport": "local_agent",
        "withoutTools": True,
    }
    assert [row["available"] for row in rows] == [True] + [False] * (len(DIALECTS) - 1)


TRIED: dict[str, tuple[list[str], int, str]] = {
    "an answer": (["claude", "--ask", "Hi"], 0, '"prompt": "Hi"'),
    "as JSON": (["claude", "--ask", "Hi", "--json"], 0, '{"response": {"content": '),
    "no answer": (["claude", "--ask", "die"], 1, "claude brought no answer (AGENT_DIED): "),
    "no answer, as JSON": (["claude", "--ask", "die", "--json"], 1, '{"error": {"code": "AGENT_D'),
    "no words": (["claude"], 2, 'as in: agents claude --ask "Hello"'),
    "tools that it must have": (["codex", "--ask", "Hi"], 1, "; --tools lets it use them"),
    "another session": (["claude", "--ask", "Hi", "--resume", "x"], 1, "SESSION_UNKNOWN"),
    "a typo": (["clade"], 2, "choose from 'claude', 'codex'"),
}


@pytest.mark.parametrize("case", TRIED)
def test_one_is_tried_from_a_shell(path: Path, case: str) -> None:
    arguments, code, words = TRIED[case]
    ended = run("agents", *arguments)
    assert (ended.returncode, words in ended.stdout + ended.stderr) == (code, True), ended
    assert "Traceback" not in ended.stderr


async def test_what_is_asked_of_the_model_and_cannot_be_kept_is_named(agent: CliAgent) -> None:
    session = await agent.start(StartOptions())
    wanted = ModelSettings(max_tokens=5, stop_sequences=("end",))
    response = await agent.send(session, user("Tell me"), settings=wanted, timeout=PATIENCE)
    assert response.ignored == ("maxTokens", "stopSequences")


def test_a_model_is_named_by_its_kind(path: Path) -> None:
    assert isinstance(make_agent("cli:claude", str(path)), CliAgent)
    with pytest.raises(AgentError, match="cli: and one of claude"):
        make_agent("cli:clade", str(path))
    with pytest.raises(AgentError, match="'claude' is no model: write cli:NAME"):
        make_agent("claude", str(path))
