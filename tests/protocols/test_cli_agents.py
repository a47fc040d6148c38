"""What the command lines of agents write: real streams, recorded with a scripted model (Claude Code
2.1.316, Codex 0.169.0, Goose 1.52.0, opencode 1.18.33, Qwen Code 0.24.4, Gemini CLI 0.61.0), and
lines made up for what they lack.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_strategies import json_values

from abp_bridge.core.agent_turn import (
    AgentError,
    AgentErrorCode,
    AgentResponse,
    Chunk,
    Cost,
    ToolCall,
    Usage,
)
from abp_bridge.protocols import cli_agents, json_lines
from abp_bridge.protocols.cli_agents import DIALECTS, CliTurn

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


def records(*attributes: Json) -> bytes:
    """Telemetry as they write it, with what every file of it has at its ends."""
    listed = [{"resource": {"attributes": {}}}, *({"attributes": each} for each in attributes)]
    return b"".join(json.dumps(each, indent=2).encode() + b"\n" for each in [*listed, {"scope": 1}])


def stopped(why: str, asked: str = "main") -> Json:
    """A record that says why a model stopped that was `asked` for the answer, or for a title."""
    context = "interaction" if asked == "main" else "standalone"
    about = {"finish_reasons": [why], "gen_ai.response.finish_reasons": [why]}
    return {**about, "role": asked, "llm_request.context": context}


STOPPED = records(stopped("stop"))


def cost(amount: float) -> Cost:
    return Cost(amount, "USD", "session")


WORDS: dict[str, Usage] = {
    "claude": Usage("turn", 1, 1, cost(0.000023999999999999997)),
    "codex": Usage("session", 1, 1),
    "goose": Usage("session", 1, 1),
    "opencode": Usage("turn", 1, 1),
    "qwen": Usage("session", 1, 1),
    "gemini": Usage("turn", 1, 1),
}


@pytest.mark.parametrize("name", WORDS)
def test_an_answer_in_words(name: str) -> None:
    chunks, turn = read(name, recorded(f"{name}-words"))
    response = turn.end(0, "", STOPPED)
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
    "goose": (ToolCall("turn_4", "shell", ECHO), "hi", Usage("session", 2, 2)),
    "opencode": (ToolCall("turn_10", "bash", SAYS_HI), "hi\n", Usage("turn", 2, 2)),
    "qwen": (
        ToolCall("turn_2", "run_shell_command", {**ECHO, "is_background": False}),
        "hi",
        Usage("session", 2, 2),
    ),
    "gemini": (
        ToolCall("run_shell_command__turn_5", "run_shell_command", ECHO),
        "hi",
        Usage("turn", 2, 2),
    ),
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_on_the_way(name: str) -> None:
    wanted, result, usage = TOOLS[name]
    chunks, turn = read(name, recorded(f"{name}-tool"))
    response = turn.end(0, "", STOPPED)
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
    "goose": Code.AUTH_REQUIRED,
    "opencode": Code.AUTH_REQUIRED,
    "qwen": Code.AUTH_REQUIRED,
    "gemini": Code.AUTH_REQUIRED,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_key_is_said_at_once(name: str) -> None:
    _, turn = read(name, recorded(f"{name}-wrong-key"))
    with pytest.raises(AgentError) as refused:
        turn.end(1, "")
    assert refused.value.code == REFUSED[name]
    assert turn.failure is refused.value
    words = ("no such key", "no such thing", "authentication_failed")
    assert any(each in str(refused.value) for each in words)


def test_a_session_that_is_not_there() -> None:
    _, turn = read("claude", recorded("claude-unknown-session"), resumes=True)
    with pytest.raises(AgentError, match="No conversation found") as lost:
        turn.end(1, "")
    assert lost.value.code == Code.SESSION_UNKNOWN
    for name, status in (("codex", 1), ("qwen", 1), ("gemini", 42)):
        _, turn = read(name, b"", resumes=True)
        with pytest.raises(AgentError, match="go on with s-1: Error: no rollout") as lost:
            turn.end(status, "Error: no rollout found\n")
        assert lost.value.code == Code.SESSION_UNKNOWN


LAST = (b'"turn.completed"', b'"type":"complete"', b'"type":"result"', b'"reason":"stop"')
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
                turn.end(status, "out of memory")
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
    assert torn.end(0, "", STOPPED) == turn.end(0, "", STOPPED)
    assert torn.session == turn.session


# --- lines made up --------------------------------------------------------------------------------


def play(name: str, *lines: Json) -> tuple[list[Chunk], AgentResponse | AgentError]:
    data = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    chunks, turn = read(name, data)
    try:
        return chunks, turn.end(0, "", STOPPED)
    except AgentError as problem:
        return chunks, problem


def claude(*blocks: Json, id: str = "m") -> Json:
    return {"type": "assistant", "message": {"id": id, "content": [*blocks]}}


def goose(*blocks: Json) -> Json:
    return {"type": "message", "message": {"id": "m", "role": "assistant", "content": [*blocks]}}


def step(reason: str, **more: Json) -> Json:
    return {"type": "step_finish", "part": {"reason": reason, **more}}


def result(**more: Json) -> Json:
    return {"type": "result", **more}


DONE = {"type": "result", "subtype": "success", "is_error": False, "result": "Yes."}
WENT = {"type": "turn.completed"}
OVER = {"type": "complete"}
GOOSE_CUT = {"userVisible": True, "outputTokenLimitReached": True}

# name: (dialect, lines, kinds and words of the chunks)
SAID: dict[str, tuple[str, Sequence[Json], list[tuple[str, str]]]] = {
    "claude thinks": (
        "claude",
        [claude({"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": ""}), DONE],
        [("thought", "Hm")],
    ),
    "claude thinks in pieces": (
        "claude",
        [
            {"type": "stream_event", "event": event}
            for event in (
                {"type": "message_start", "message": {"id": "m"}},
                {"delta": {"type": "thinking_delta", "thinking": "Hm"}},
                {"delta": {"type": "text_delta", "text": "Yes."}},
            )
        ]
        + [claude({"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Yes."}), DONE],
        [("thought", "Hm"), ("text", "Yes.")],
    ),
    "claude's model is away": (
        "claude",
        [{"type": "system", "subtype": "api_retry", "error_status": 529, "error": "busy"}, DONE],
        [("notice", "its model is tried again: busy")],
    ),
    "a line of claude's that is new": (
        "claude",
        [
            {"type": "system", "subtype": "compacted"},
            {"type": "user", "message": {"content": [{"type": "text", "text": "Go on"}]}},
            {},
            claude({"type": "text", "text": "Yes."}),
            DONE,
        ],
        [("system/compacted", ""), ("unknown", ""), ("text", "Yes.")],
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
    "goose thinks": (
        "goose",
        [goose({"type": "thinking", "thinking": "Hm"}, {"type": "image"}), {"type": "new"}, OVER],
        [("thought", "Hm"), ("image", ""), ("new", "")],
    ),
    "qwen's model is tried again": (
        "qwen",
        [{"type": "system", "subtype": "retry"}, result(usage={"input_tokens": 1})],
        [("notice", "its model is tried again")],
    ),
    "a line of gemini's that is new": (
        "gemini",
        [
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "message", "role": "assistant", "content": "Yes.", "delta": True},
            {"type": "new"},
            result(status="success"),
        ],
        [("text", "Yes."), ("new", "")],
    ),
    "opencode thinks": (
        "opencode",
        [{"type": "reasoning", "part": {"text": "Hm"}}, {"type": "new"}, step("stop")],
        [("thought", "Hm"), ("new", "")],
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
    "too many turns": (
        "claude",
        [{**DONE, "subtype": "error_max_turns", "is_error": True}],
        Code.TRUNCATED,
        "error_max_turns",
    ),
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
    "a refusal without words": (
        "claude",
        [{**DONE, "stop_reason": "refusal", "result": ""}],
        Code.REFUSED,
        "it says no more",
    ),
    "too often": (
        "claude",
        [{**DONE, "is_error": True, "api_error_status": 429, "result": "later"}],
        Code.RATE_LIMITED,
        "later",
    ),
    "no reason": ("codex", [{"type": "turn.failed"}], Code.FAILED, "and not why"),
    "goose's error": (
        "goose",
        [goose({"type": "error", "kind": "network", "message": "away"}), {"type": "error"}],
        Code.FAILED,
        "away",
    ),
    "an error that goose tells as its answer": (
        "goose",
        [
            goose({"type": "text", "text": "Too many requests"}),
            {**OVER, "input_tokens": 0, "output_tokens": 0},
        ],
        Code.FAILED,
        "no model has answered; it says itself: Too many requests",
    ),
    "goose, cut": (
        "goose",
        [
            goose({"type": "text", "text": "Hello."}),
            {"type": "message", "message": {"id": "m", "content": [], "metadata": GOOSE_CUT}},
            {**OVER, "input_tokens": 1, "output_tokens": 1},
        ],
        Code.TRUNCATED,
        "cut off (max_tokens), after 6",
    ),
    "a name only": (
        "opencode",
        [{"type": "error", "error": {"name": "Aborted"}}],
        Code.FAILED,
        "Aborted",
    ),
    "a length": ("opencode", [step("length", tokens={})], Code.TRUNCATED, "length"),
    "a command that no model has seen": (
        "qwen",
        [result(result="Prompts: 1", usage={"input_tokens": 0, "output_tokens": 0})],
        Code.FAILED,
        "no model has answered; it says itself: Prompts: 1",
    ),
    "qwen, in other words": (
        "qwen",
        [result(is_error=True, error={"message": "No auth type is selected"})],
        Code.FAILED,
        "No auth type is selected",
    ),
    "qwen, too often": (
        "qwen",
        [result(is_error=True, error={"message": "[API Error: 429 slow\ndown]"})],
        Code.RATE_LIMITED,
        "slow down",
    ),
    "gemini, cut": (
        "gemini",
        [result(status="error", error={"message": "[API Error: Incomplete JSON]"})],
        Code.FAILED,
        "Incomplete JSON",
    ),
    "gemini in a loop": (
        "gemini",
        [
            {"type": "error", "severity": "warning", "message": "Loop detected"},
            result(status="success"),
        ],
        Code.TRUNCATED,
        "Loop detected",
    ),
    "a step that is not the last": ("opencode", [step("tool-calls")], Code.TRUNCATED, "was over"),
}


@pytest.mark.parametrize("case", FAILED)
def test_a_turn_that_fails_says_how(case: str) -> None:
    name, lines, code, words = FAILED[case]
    _, problem = play(name, *lines)
    assert isinstance(problem, AgentError)
    assert (problem.code, words in str(problem)) == (code, True)


def test_of_several_messages_the_last_is_the_answer() -> None:
    said = [
        {"type": "text", "part": {"messageID": id, "text": text}}
        for id, text in (("a", "First"), ("b", "The "), ("b", "last"))
    ]
    _, response = play("opencode", *said, step("stop", cost=0.5, tokens={"input": 3}))
    assert isinstance(response, AgentResponse)
    assert (response.content, response.metadata) == ("The last", {"earlierMessages": ["First"]})
    assert response.usage == Usage("turn", 3, 0, Cost(0.5, "USD"))


def test_who_says_nothing_has_no_content() -> None:
    _, response = play("codex", WENT)
    assert isinstance(response, AgentResponse)
    assert (response.content, response.usage) == (None, Usage("session"))


def test_a_model_that_goes_on_and_on_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_agents, "MAX_ANSWER", 10)
    _, problem = play("goose", *[goose({"type": "text", "text": "x" * 6})] * 2, OVER)
    assert isinstance(problem, AgentError)
    assert problem.code == Code.TRUNCATED


def test_a_model_that_calls_and_calls_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_agents, "MAX_CALLS", 1)
    calls = [{"type": "tool_use", "id": id, "name": "look"} for id in ("a", "a", "b")]
    assert isinstance(play("claude", claude(*calls[:2]), DONE)[1], AgentResponse)
    _, problem = play("claude", claude(*calls), DONE)
    assert isinstance(problem, AgentError)
    assert problem.code == Code.TRUNCATED


def test_a_model_that_begins_and_begins_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_agents, "MAX_MESSAGES", 2)
    said = [{"type": "text", "part": {"messageID": id}} for id in ("a", "b", "b", "c")]
    assert isinstance(play("opencode", *said[:3], step("stop"))[1], AgentResponse)
    _, problem = play("opencode", *said, step("stop"))
    assert isinstance(problem, AgentError)
    assert (problem.code, "2 messages" in str(problem)) == (Code.TRUNCATED, True)


def test_a_line_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 10)
    _, turn = read("codex", b"x" * 11)
    with pytest.raises(AgentError) as problem:
        turn.end(0, "")
    assert problem.value.code == Code.PROTOCOL


def test_what_is_no_object_is_counted() -> None:
    lines = json_lines.JsonLines()
    data = b'art\n\n[1]\n{"a": 1}\r\n\xff\n{"b": 2'
    assert list(lines.feed(data)) == [{"a": 1}]
    assert lines.ignored == 3
    assert list(lines.feed(b"}")) == []
    assert list(lines.end()) == [{"b": 2}]


@given(st.sampled_from([*DIALECTS]), st.lists(json_values, max_size=4))
def test_whatever_a_line_holds_is_read(name: str, values: list[Json]) -> None:
    words = ["type", "subtype", "message", "item", "part", "event", "usage", "error", "content"]
    types = ["assistant", "user", "result", "item.completed", "message", "text", "step_finish"]
    lines = [
        {**dict.fromkeys(words, each), **({"type": kind} if kind else {})}
        for each in values
        for kind in ("", *types)
    ]
    play(name, *lines)


# --- telemetry ------------------------------------------------------------------------------------

TELLING = [name for name, dialect in DIALECTS.items() if dialect.telemetry is not None]
HALF = STOPPED[STOPPED.index(b'"finish_reasons"') :]
STOPS: dict[str, tuple[bytes, Code | None]] = {
    "at its end": (records(stopped("stop")), None),
    "at its end, after it went on": (records(stopped("length"), stopped("stop")), None),
    "at its limit": (records(stopped("stop"), stopped("length")), Code.TRUNCATED),
    "at its limit, as others write that": (records(stopped("MAX_TOKENS")), Code.TRUNCATED),
    "at its limit, and then had a title": (
        records(stopped("length"), stopped("stop", "utility_title")),
        Code.TRUNCATED,
    ),
    "by a filter": (records(stopped("content_filter")), Code.REFUSED),
    "and that is not said": (records({"finish_reasons": []}), Code.TRUNCATED),
    "and nothing is said": (b"", Code.TRUNCATED),
    "and half of that is left": (HALF, Code.TRUNCATED),
}


@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize("case", STOPS)
def test_where_its_lines_are_silent_its_telemetry_says_whether_an_answer_is_whole(
    case: str, name: str
) -> None:
    written, code = STOPS[case]
    _, turn = read(name, recorded(f"{name}-words"))
    if code is None:
        assert turn.end(0, "", written).stop_reason == "stop"
    else:
        with pytest.raises(AgentError) as problem:
            turn.end(0, "", written)
        assert problem.value.code == code


def test_telemetry_goes_into_a_file_without_prompts() -> None:
    assert TELLING == ["qwen", "gemini"]
    assert DIALECTS["gemini"].environment("/x") == {
        "GEMINI_TELEMETRY_ENABLED": "true",
        "GEMINI_TELEMETRY_TARGET": "local",
        "GEMINI_TELEMETRY_LOG_PROMPTS": "false",
        "GEMINI_TELEMETRY_OUTFILE": "/x",
    }
    assert DIALECTS["claude"].environment("/x") == {}


COMMANDS = {
    ("claude", False, False): "claude -p --output-format stream-json --verbose"
    " --include-partial-messages --session-id s --tools  --strict-mcp-config",
    ("codex", False, True): "codex exec --json --skip-git-repo-check -",
    ("codex", True, True): "codex exec resume s --json --skip-git-repo-check -",
    ("goose", True, False): "goose run -i - --output-format stream-json --name s --resume"
    " --no-profile",
    ("opencode", True, True): "opencode run --format json --session s",
    ("qwen", True, True): "qwen --output-format stream-json --include-partial-messages --resume s",
    ("gemini", True, True): "gemini --output-format stream-json --skip-trust --resume s",
}


@pytest.mark.parametrize(("name", "resumes", "tools"), COMMANDS)
def test_a_turn_has_its_command(name: str, resumes: bool, tools: bool) -> None:
    command = DIALECTS[name].command("s", resumes=resumes, tools=tools)
    assert " ".join(command) == COMMANDS[name, resumes, tools]


def test_who_cannot_be_had_without_tools_says_so() -> None:
    with pytest.raises(AgentError, match="Codex cannot be run without its tools") as problem:
        DIALECTS["codex"].command("s", resumes=False, tools=False)
    assert problem.value.code == Code.NOT_AVAILABLE


def test_two_are_told_to_call_nothing() -> None:
    qwen = DIALECTS["qwen"].command("s", resumes=False, tools=False)
    assert qwen[qwen.index("--max-tool-calls") + 1] == "0"
    gemini = DIALECTS["gemini"].command("s", resumes=False, tools=False)
    policy = tomllib.loads(Path(gemini[gemini.index("--admin-policy") + 1]).read_text())
    assert policy == {"rule": [{"toolName": "*", "decision": "deny", "priority": 999}]}
