"""`AgentProtocol`: what all agents do, then what those on this machine do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.agents import AGENTS, LIMIT, install, lives, user, with_image
from support.harness import PATIENCE
from support.llm_apis import WIRES, Speaker, make_llm, set_keys
from support.paths import TESTS

from abp_bridge.models import acp
from abp_bridge.models.agent import (
    AgentError,
    AgentProtocol,
    AgentResponse,
    Chunk,
    CliConfig,
    Cost,
    ModelSettings,
    StartOptions,
    Usage,
)

Json = Any

pytestmark = pytest.mark.slow

# What programs write: the same for each, a JSON object a line.
LINES = (TESTS / "models" / "cli_streams" / "claude-words.jsonl").read_bytes()
ONCE = Cost(0.5, "USD", "session")


class Local:
    """An agent in a process of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.agent: AgentProtocol = AGENTS[kind](folder)
        self.processes: list[int] = []
        self.transport, self.version = "local_agent", "9.9"
        self.limit = 1_000  # milliseconds in which it can begin a turn
        self.stream = LINES

    def hear(self, chunk: Chunk) -> None:
        """A turn that hangs says first which process it is."""
        self.processes.append(int(chunk.text))

    def said(self, response: AgentResponse) -> str:
        return str(json.loads(response.content or "")["prompt"])

    @property
    def is_busy(self) -> bool:
        return any(map(lives, self.processes))


class Remote:
    """A model behind an API."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.speaker = Speaker(kind)
        self.agent: AgentProtocol = make_llm(kind, self.speaker)
        self.transport, self.version = "llm", ""
        self.limit = 100
        self.stream = WIRES[kind].stream()

    def hear(self, chunk: Chunk) -> None:
        assert chunk.text in ("hang", ".")

    def said(self, response: AgentResponse) -> str:
        return response.content or ""

    @property
    def is_busy(self) -> bool:
        return not all(line.is_closed for line in self.speaker.lines)


@pytest.fixture(params=[*AGENTS, *WIRES])
def each(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Local | Remote:
    if request.param in AGENTS:
        install(tmp_path, monkeypatch)
        return Local(request.param, tmp_path)
    set_keys(monkeypatch)
    return Remote(request.param, tmp_path)


@pytest.mark.parametrize(
    "each", [pytest.param("cli", marks=pytest.mark.process), "acp", *WIRES], indirect=True
)
async def test_it_says_what_it_is_and_answers(each: Local | Remote) -> None:
    chunks: list[Chunk] = []
    found = await each.agent.available()
    assert (found.ok, each.version in found.version) == (True, True)
    assert each.agent.transport_type == each.transport
    session = await each.agent.start(StartOptions(session_id="mine", user_id="ann"))
    assert await each.agent.get_usage(session) is None
    response = await each.agent.send(session, user("One"), on_chunk=chunks.append, timeout_ms=LIMIT)
    assert session == "mine"
    assert each.said(response) == "One"
    assert b"One" in each.agent.format_messages(user("One"))
    assert (response.content or "") in "".join(said.text for said in chunks if said.kind == "text")
    assert (response.stop_reason or "").lower() in ("end_turn", "stop", "completed")
    used = await each.agent.get_usage(str(response.metadata.get("session", session)))
    assert response.usage is not None
    assert used is not None
    assert (used.scope, used.input) == ("session", response.usage.input)
    assert response.metadata["user"] == "ann"
    cost = each.agent.estimate_cost(response)
    assert cost is None or cost.amount > 0


EARLY = [
    ("cli", "out of time"),
    ("acp", "stopped"),
    ("acp", "its caller is cancelled"),
    *((kind, how) for kind in WIRES for how in ("stopped", "out of time")),
    ("openai", "its caller is cancelled"),
]


@pytest.mark.parametrize(
    ("each", "how"),
    [
        pytest.param(*case, marks=[pytest.mark.process] if case[0] in AGENTS else [])
        for case in EARLY
    ],
    indirect=["each"],
)
async def test_turn_that_ends_early_leaves_nothing_running(
    each: Local | Remote, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a process that ignores SIGTERM, or a turn that waits for this one."""
    monkeypatch.setattr(acp, "CANCEL_LIMIT", 0.1)
    session = await each.agent.start(StartOptions())
    begun = anyio.Event()

    def hear(chunk: Chunk) -> None:
        each.hear(chunk)
        begun.set()

    async with anyio.create_task_group() as tasks:

        async def turn() -> None:
            limit = each.limit if how == "out of time" else LIMIT
            with pytest.raises(AgentError) as problem:
                await each.agent.send(session, user("hang"), on_chunk=hear, timeout_ms=limit)
            assert problem.value.code == ("TIMEOUT" if how == "out of time" else "CANCELLED")

        tasks.start_soon(turn)
        tasks.start_soon(turn)
        with anyio.move_on_after(PATIENCE if how != "out of time" else each.limit / 500):
            await begun.wait()
        if how == "stopped":
            await each.agent.stop(session)
            await each.agent.stop(session)
        elif how != "out of time":
            tasks.cancel_scope.cancel()
    assert not each.is_busy
    await each.agent.stop("none")


async def test_agent_that_dies_in_a_turn_gives_no_answer(each: Local | Remote) -> None:
    session = await each.agent.start(StartOptions())
    with pytest.raises(AgentError) as problem:
        await each.agent.send(session, user("die"), timeout_ms=LIMIT)
    if isinstance(each, Local):
        assert problem.value.code == "AGENT_DIED"
        assert re.search("exit code 3.*out of memory", str(problem.value))
    else:
        assert problem.value.code in ("NETWORK", "TRUNCATED")
    assert not each.is_busy


async def test_a_session_that_was_not_begun_is_none(each: Local | Remote) -> None:
    with pytest.raises(AgentError, match="no session none was begun") as none:
        await each.agent.send("none", user("Two"), timeout_ms=LIMIT)
    assert none.value.code == "SESSION_UNKNOWN"
    assert await each.agent.get_usage("none") is None


# --- on this machine ------------------------------------------------------------------------------


@pytest.fixture(params=AGENTS)
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    install(tmp_path, monkeypatch)
    return str(request.param)


@pytest.fixture
def agent(kind: str, tmp_path: Path) -> AgentProtocol:
    return AGENTS[kind](tmp_path)


async def test_a_turn_has_its_prompt_in_an_empty_folder_and_no_password_of_ours(
    agent: AgentProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABP_MCP_TOKEN", "hidden")
    chunks: list[Chunk] = []
    session = await agent.start(StartOptions(cli_config=CliConfig(environment={"MORE": "1"})))
    response = await agent.send(
        session,
        user("One", "Two"),
        on_chunk=chunks.append,
        settings=ModelSettings(max_tokens=5, stop_sequences=("end",)),
        timeout_ms=LIMIT,
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


async def test_who_takes_no_images_says_so_and_is_sent_nothing(
    agent: AgentProtocol, tmp_path: Path
) -> None:
    session = await agent.start(StartOptions())
    with pytest.raises(AgentError, match="takes no images") as problem:
        await agent.send(session, with_image("Look"), timeout_ms=LIMIT)
    assert problem.value.code == "NO_IMAGES"
    heard = tmp_path / "heard"
    assert not heard.exists() or "Look" not in heard.read_text()


async def test_a_workspace_is_where_it_works(agent: AgentProtocol, tmp_path: Path) -> None:
    session = await agent.start(StartOptions(workspace=str(tmp_path)))
    response = await agent.send(session, user("Look"), timeout_ms=LIMIT)
    assert "sessions" in json.loads(response.content or "")["cwd"]


async def test_a_conversation_goes_on_after_a_restart(
    kind: str, agent: AgentProtocol, tmp_path: Path
) -> None:
    begun = await agent.start(StartOptions())
    first = await agent.send(begun, user("One"), timeout_ms=LIMIT)
    session = str(first.metadata["session"])
    again = AGENTS[kind](tmp_path)
    same, response = await again.resume(session, user("Two"), timeout_ms=LIMIT)
    assert (same, json.loads(response.content or "")["turns"]) == (session, 2)
    assert await again.get_usage(session) == Usage("session", 2, 3, ONCE)
    await again.resume(session, user("Three"), timeout_ms=LIMIT)
    assert await again.get_usage(session) == Usage("session", 4, 6, ONCE)
    with pytest.raises(AgentError, match="no other") as lost:
        await again.resume("other", user("Two"), timeout_ms=LIMIT)
    assert lost.value.code == "SESSION_UNKNOWN"


async def test_two_sessions_at_once_have_their_own_answers(agent: AgentProtocol) -> None:
    said: dict[str, Json] = {}

    async def turn(words: str) -> None:
        options = StartOptions(
            user_id=words, cli_config=CliConfig(environment={f"FOR_{words}": "1"})
        )
        response = await agent.send(await agent.start(options), user(words), timeout_ms=LIMIT)
        said[words] = json.loads(response.content or ""), response.metadata["session"]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn, "one")
        tasks.start_soon(turn, "two")
    assert [said[words][0]["prompt"] for words in ("one", "two")] == ["one", "two"]
    assert "FOR_two" not in said["one"][0]["env"]
    assert "FOR_two" in said["two"][0]["env"]
    assert said["one"][1] != said["two"][1]
