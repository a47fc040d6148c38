"""Recorded streams of Claude Code 2.1.316 and Codex 0.169.0, and lines that those lack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.models import cli
from abp_bridge.models.agent import (
    AgentError,
    AgentErrorCode,
    AgentResponse,
    Chunk,
    Cost,
    ToolCall,
    Usage,
)
from abp_bridge.models.cli import DIALECTS, CliTurn
from abp_bridge.protocols import json_lines

Json = Any
Code = AgentErrorCode

STREAMS = Path(__file__).with_name("cli_streams")
ECHO = {"command": "echo hi"}
SAYS_HI = {**ECHO, "description": "says hi"}


def read(name: str, lines: bytes, *, resumes: bool = False) -> tuple[list[Chunk], CliTurn]:
    turn = CliTurn(DIALECTS[name], "s-1", resumes=resumes)
    return list(turn.feed(lines)), turn


def recorded(name: str) -> bytes:
    return (STREAMS / f"{name}.jsonl").read_bytes()


def cost(amount: float) -> Cost:
    return Cost(amount, "USD", "session")


WORDS: dict[str, Usage] = {
    "claude": Usage("turn", 1, 1, cost(0.000023999999999999997)),
    "codex": Usage("session", 1, 1),
}


@pytest.mark.parametrize("name", WORDS)
def test_an_answer_in_words(name: str) -> None:
    chunks, turn = read(name, recorded(f"{name}-words"))
    response = turn.finish(0, "")
    assert (response.content, response.tool_calls) == ("Hello.", ())
    assert response.usage == WORDS[name]
    assert [each.text for each in chunks if each.kind == "text"] == ["Hello."]
    assert {each.kind for each in chunks} <= {"text", "notice"}


TOOLS: dict[str, tuple[ToolCall, str, Usage]] = {
    "claude": (
        ToolCall("turn_2", "Bash", SAYS_HI),
        "hi",
        Usage("turn", 2, 2, cost(0.000047999999999999994)),
    ),
    "codex": (ToolCall("item_1", "command_execution"), "hi\n", Usage("session", 2, 2)),
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_on_the_way(name: str) -> None:
    wanted, result, usage = TOOLS[name]
    chunks, turn = read(name, recorded(f"{name}-tool"))
    response = turn.finish(0, "")
    (call,) = response.tool_calls
    assert (call.id, call.name) == (wanted.id, wanted.name)
    assert call.arguments == wanted.arguments or "echo hi" in json.dumps(call.arguments)
    assert (response.content, response.usage) == ("DONE", usage)
    kinds = [each.kind for each in chunks if each.kind != "notice"]
    assert kinds == ["tool_start", "tool_end", "text"]
    (ended,) = [each.data for each in chunks if each.kind == "tool_end"]
    assert ended["id"] == wanted.id
    assert json.dumps(result)[1:-1] in json.dumps(ended)


REFUSED = {
    "claude": Code.AUTH_REQUIRED,
    "codex": Code.FAILED,  # it says so in words only
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_key_is_said_at_once(name: str) -> None:
    _, turn = read(name, recorded(f"{name}-wrong-key"))
    with pytest.raises(AgentError) as refused:
        turn.finish(1, "")
    assert refused.value.code == REFUSED[name]
    assert turn.failure is refused.value
    words = ("no such key", "no such thing", "authentication_failed")
    assert any(each in str(refused.value) for each in words)


def test_a_session_that_is_not_there() -> None:
    _, turn = read("claude", recorded("claude-unknown-session"), resumes=True)
    with pytest.raises(AgentError, match="No conversation found") as lost:
        turn.finish(1, "")
    assert lost.value.code == Code.SESSION_UNKNOWN
    _, turn = read("codex", b"", resumes=True)
    with pytest.raises(AgentError, match="go on with s-1: Error: no rollout") as lost:
        turn.finish(1, "Error: no rollout found\n")
    assert lost.value.code == Code.SESSION_UNKNOWN


LAST = (b'"turn.completed"', b'"type":"result"')
WHOLE = [path.stem for path in STREAMS.iterdir() if path.stem.endswith(("-words", "-tool"))]


@pytest.mark.parametrize("stream", WHOLE)
def test_what_was_cut_off_is_never_whole(stream: str) -> None:
    name = stream.partition("-")[0]
    lines = recorded(stream).splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if any(each in line for each in LAST))
    for cut in range(at):
        for status, code in ((0, Code.TRUNCATED), (1, Code.AGENT_DIED)):
            _, turn = read(name, b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
            with pytest.raises(AgentError) as problem:
                turn.finish(status, "out of memory")
            assert problem.value.code == code
            assert str(problem.value).endswith("out of memory")


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 20_000), max_size=8))
def test_where_the_bytes_are_cut_makes_no_difference(stream: str, cuts: list[int]) -> None:
    data, name = recorded(stream), stream.partition("-")[0]
    chunks, turn = read(name, data)
    places = sorted({0, len(data), *(each % len(data) for each in cuts)})
    torn = CliTurn(DIALECTS[name], "s-1")
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert [chunk for piece in pieces for chunk in torn.feed(piece)] == chunks
    assert torn.finish(0, "") == turn.finish(0, "")
    assert torn.session == turn.session


# --- lines made up --------------------------------------------------------------------------------


def play(name: str, *lines: Json) -> tuple[list[Chunk], AgentResponse | AgentError]:
    data = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    chunks, turn = read(name, data)
    try:
        return chunks, turn.finish(0, "")
    except AgentError as problem:
        return chunks, problem


def claude(*blocks: Json, id: str = "m") -> Json:
    return {"type": "assistant", "message": {"id": id, "content": [*blocks]}}


def codex_says(id: str, text: str) -> Json:
    item = {"type": "agent_message", "id": id, "text": text}
    return {"type": "item.completed", "item": item}


DONE = {"type": "result", "subtype": "success", "is_error": False, "result": "Yes."}
WENT = {"type": "turn.completed"}

# name: (dialect, lines, kinds and words of the chunks)
SAID: dict[str, tuple[str, Sequence[Json], list[tuple[str, str]]]] = {
    "claude thinks": (
        "claude",
        [claude({"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": ""}), DONE],
        [("thought", "Hm")],
    ),
    "claude's model is away": (
        "claude",
        [{"type": "system", "subtype": "api_retry", "error_status": 529, "error": "busy"}, DONE],
        [("notice", "its model is tried again: busy")],
    ),
    "codex thinks, and plans": (
        "codex",
        [
            {"type": "item.completed", "item": {"type": "reasoning", "id": "1", "text": "Hm"}},
            {"type": "item.started", "item": {"type": "agent_message", "id": "2"}},
            {"type": "item.updated", "item": {"type": "todo_list", "id": "3"}},
            {"type": "error", "message": "Reconnecting"},
            {"type": "thread.renamed"},
            WENT,
        ],
        [("thought", "Hm"), ("todo_list", ""), ("notice", "Reconnecting"), ("thread.renamed", "")],
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_on_the_way(case: str) -> None:
    name, lines, wanted = SAID[case]
    chunks, response = play(name, *lines)
    assert isinstance(response, AgentResponse)
    assert [(each.kind, each.text) for each in chunks] == wanted


# name: (dialect, lines, code, words of it)
FAILED: dict[str, tuple[str, Sequence[Json], Code, str]] = {
    "too many tokens": (
        "claude",
        [{**DONE, "stop_reason": "max_tokens"}],
        Code.TRUNCATED,
        "max_tokens",
    ),
    "a refusal": (
        "claude",
        [{**DONE, "stop_reason": "refusal", "result": "I will not."}],
        Code.REFUSED,
        "I will not.",
    ),
    "too often": (
        "claude",
        [{**DONE, "is_error": True, "api_error_status": 429, "result": "later"}],
        Code.RATE_LIMITED,
        "later",
    ),
    "no reason": ("codex", [{"type": "turn.failed"}], Code.FAILED, "and not why"),
}


@pytest.mark.parametrize("case", FAILED)
def test_a_turn_that_fails_says_how(case: str) -> None:
    name, lines, code, words = FAILED[case]
    _, problem = play(name, *lines)
    assert isinstance(problem, AgentError)
    assert (problem.code, words in str(problem)) == (code, True)


def test_of_several_messages_the_last_is_the_answer() -> None:
    said = [codex_says("1", "First"), codex_says("2", "The last")]
    _, response = play("codex", *said, WENT)
    assert isinstance(response, AgentResponse)
    assert (response.content, response.metadata) == ("The last", {"earlierMessages": ["First"]})


def test_a_model_that_goes_on_and_on_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "MAX_ANSWER", 10)
    _, problem = play("codex", *[codex_says("m", "x" * 6)] * 2, WENT)
    assert isinstance(problem, AgentError)
    assert problem.code == Code.TRUNCATED


def test_a_line_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 10)
    _, turn = read("codex", b"x" * 11)
    with pytest.raises(AgentError) as problem:
        turn.finish(0, "")
    assert problem.value.code == Code.PROTOCOL


def test_what_is_no_object_is_counted() -> None:
    lines = json_lines.JsonLines()
    data = b'art\n\n[1]\n{"a": 1}\r\n\xff\n{"b": 2'
    assert list(lines.feed(data)) == [{"a": 1}]
    assert lines.ignored == 3
    assert list(lines.feed(b"}")) == []
    assert list(lines.end()) == [{"b": 2}]


COMMANDS = {
    ("claude", False, False): "claude -p --output-format stream-json --verbose"
    " --include-partial-messages --session-id s --tools  --strict-mcp-config",
    ("codex", False, True): "codex exec --json --skip-git-repo-check -",
    ("codex", True, True): "codex exec resume s --json --skip-git-repo-check -",
}


@pytest.mark.parametrize(("name", "resumes", "tools"), COMMANDS)
def test_a_turn_has_its_command(name: str, resumes: bool, tools: bool) -> None:
    command = DIALECTS[name].command("s", resumes=resumes, tools=tools)
    assert " ".join(command) == COMMANDS[name, resumes, tools]


def test_who_cannot_be_had_without_tools_says_so() -> None:
    with pytest.raises(AgentError, match="Codex cannot be run without its tools") as problem:
        DIALECTS["codex"].command("s", resumes=False, tools=False)
    assert problem.value.code == Code.NOT_AVAILABLE
