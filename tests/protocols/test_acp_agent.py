"""Capabilities, turns and permissions of an ACP agent."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.answer import Answer
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Kind
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.acp import agent

Json = Any

PLAIN = {"type": "object", "properties": {}}


def chunk(words: str, **more: Json) -> Json:
    content = {"type": "text", "text": words}
    return {"sessionUpdate": "agent_message_chunk", "content": content, **more}


def call(id: str = "t", update: str = "tool_call", **more: Json) -> Json:
    return {"sessionUpdate": update, "toolCallId": id, **more}


def play(*updates: Json, turn: agent.TurnDecoder | None = None) -> list[Json]:
    turn = turn or agent.TurnDecoder("c")
    return [told for update in updates for told in turn.add(update)]


# --- what it offers -------------------------------------------------------------------------------


def test_agent_name_is_its_title() -> None:
    about: Json = {"agentInfo": {"name": "w", "title": "The Worker"}, "protocolVersion": 1}
    info = agent.decode_info(about)
    assert (info.id, info.name, info.version) == ("w", "The Worker", "ACP 1")
    assert agent.decode_info({}).name == "an unnamed agent"


@pytest.mark.parametrize(
    ("declared", "takes"),
    [
        ({}, False),
        ({"sessionCapabilities": {"additionalDirectories": None}}, False),
        ({"sessionCapabilities": {"additionalDirectories": {}}}, True),
    ],
)
def test_agent_that_takes_directories(declared: Json, takes: bool) -> None:
    assert agent.takes_directories({"agentCapabilities": declared}) is takes


def test_sign_in_message_names_the_methods() -> None:
    methods = [{"id": "key"}, {"id": "b", "name": "Browser"}, {}]
    assert "It offers: key, Browser." in agent.decode_sign_in({"authMethods": methods}, "acp:x")
    assert agent.decode_sign_in({}, "acp:x").endswith("and sign in.")


def test_commands_are_capabilities() -> None:
    listed: Json = [
        {"name": "plan", "description": "Plans.", "input": {"hint": "of what"}},
        {"name": "stop"},
        {"description": "nameless"},
    ]
    entries = agent.list_commands({"availableCommands": listed})
    prompt, plan, stop = found = agent.decode_commands(entries)
    assert [each.name for each in found] == [
        "agent.prompt",
        "agent.command.plan",
        "agent.command.stop",
    ]
    assert (plan.title, plan.description) == ("/plan", "Plans.")
    assert plan.input_schema["properties"] == {
        "input": {"type": "string", "description": "of what"}
    }
    assert stop.input_schema == PLAIN
    assert all(each.destructive and each.presumed for each in found)
    assert prompt.input_schema["required"] == ["prompt"]
    assert "without a name cannot be called" in found.problems[0]


@pytest.mark.parametrize(
    ("capability", "params", "words"),
    [
        ("agent.prompt", {"prompt": "Hello"}, "Hello"),
        ("agent.command.plan", {"input": "a trip"}, "/plan a trip"),
        ("agent.command.plan", {}, "/plan"),
    ],
)
def test_encode_prompt(capability: str, params: Json, words: str) -> None:
    assert agent.encode_prompt(capability, params) == words


# --- a turn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        ([chunk("a"), chunk("b")], "ab"),
        ([chunk("a", messageId="1"), chunk("b", messageId="2")], "a\n\nb"),
        ([chunk("a"), call(), chunk("b")], "a\n\nb"),
        ([chunk("a"), {"sessionUpdate": "usage_update"}, chunk("b")], "ab"),
        ([call(), chunk("a")], "a"),
    ],
)
def test_turn_text_separates_messages(updates: Json, said: str) -> None:
    turn = agent.TurnDecoder("c")
    play(*updates, turn=turn)
    assert turn.result({"stopReason": "end_turn"}).data == {"text": said, "stopReason": "end_turn"}


def test_turn_data_has_attachments() -> None:
    turn = agent.TurnDecoder("c")
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    assert play({"sessionUpdate": "agent_message_chunk", "content": link}, turn=turn) == []
    assert turn.data == {"text": "", "attachment1": link}


def test_turn_text_is_progress_by_line() -> None:
    told = play(chunk("One\nTwo"), chunk(" and three"), {"sessionUpdate": "agent_thought_chunk"})
    assert [each.status for each in told] == ["Two", "Two and three", "thinking"]
    assert {each.operation for each in told} == {"c"}


def test_turn_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "MAX_SAID", 3)
    turn = agent.TurnDecoder("c")
    play(chunk("abc"), turn=turn)
    assert not turn.full
    assert play(chunk("d"), chunk("e"), turn=turn) == []
    assert turn.full
    result = turn.result({"stopReason": "cancelled"})
    assert result.failure is not None
    assert result.failure.code == "TRUNCATED"
    assert result.data == {"text": "abc", "stopReason": "cancelled"}


def test_tool_call_is_an_operation() -> None:
    told = play(
        call(title="Read x", kind="read"),
        call(update="tool_call_update", status="in_progress"),
        call(update="tool_call_update", status="failed"),
    )
    started, first, second, ended, last = told
    assert describe_notice(started) == "started Read x"
    assert started.data == {
        "operationId": "t",
        "capability": "Read x",
        "progressToken": "c",
        "kind": "read",
    }
    assert (first.status, first.value, second.value) == ("Read x", 0.0, 0.0)
    assert ended.kind is NoticeKind.COMPLETED
    assert ended.failed
    assert last.value == 1.0


def test_oldest_tool_calls_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "MAX_CALLS", 1)
    turn = agent.TurnDecoder("c")
    play(call("1", title="One"), call("2", title="Two"), turn=turn)
    assert turn.title({"toolCallId": "1"}) == "a tool call"
    assert turn.title({"toolCallId": "2"}) == "Two"
    assert turn.title({"toolCallId": "2", "title": "New"}) == "New"


def test_plan_is_progress() -> None:
    def entry(status: str) -> Json:
        return {"content": f"to be {status}", "status": status}

    plan = {"sessionUpdate": "plan", "entries": [entry("completed"), entry("in_progress")]}
    assert play(plan) == [Progress("c", 1.0, 2.0, "to be in_progress")]
    assert play({"sessionUpdate": "plan"}) == [Progress("c", 0.0, None, "its plan")]


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}, "mode is now ask"),
        ({"sessionUpdate": "usage_update", "used": 5}, 'usage is now {"used": 5}'),
        ({"sessionUpdate": "notice", "severity": "error", "title": "Disk"}, "error error: Disk"),
        ({"sessionUpdate": "notice", "title": "Disk"}, 'notifications/notice {"title": "Disk"}'),
        ({"sessionUpdate": "plan_2", "x": 1}, 'notifications/plan_2 {"x": 1}'),
        ({}, "notifications/session/update {}"),
    ],
)
def test_other_updates_are_notices(update: Json, says: str) -> None:
    [told] = play(update)
    assert describe_notice(told) == says


def test_message_between_turns_is_a_notice() -> None:
    [told] = play(chunk("late"), turn=agent.TurnDecoder())
    assert isinstance(told, Notice)
    assert told.name == "notifications/agent_message_chunk"
    assert told.data == {"content": {"type": "text", "text": "late"}}


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"stopReason": "end_turn"}, None),
        ({"stopReason": "refusal"}, "REFUSED"),
        ({"stopReason": "max_tokens"}, "TRUNCATED"),
        ({"stopReason": "cancelled"}, "CANCELLED"),
        ({"stopReason": "_tired"}, "TRANSPORT_ERROR"),
        ({}, "TRANSPORT_ERROR"),
    ],
)
def test_stop_reason_of_a_turn(result: Json, code: str | None) -> None:
    ended = agent.TurnDecoder("c").result(result)
    assert (ended.failure.code if ended.failure else None) == code
    assert ended.cancelled is (code == "CANCELLED")


def test_turn_usage_has_its_scope() -> None:
    result = agent.TurnDecoder("c").result({"stopReason": "end_turn", "usage": {"totalTokens": 1}})
    data: Json = result.data
    assert data["usage"] == {"scope": "turn", "totalTokens": 1}


@pytest.mark.parametrize(
    ("code", "word"), [(-32000, "PERMISSION_REQUIRED"), (1, "OPERATION_FAILED")]
)
def test_failed_turn_keeps_its_text(code: int, word: str) -> None:
    turn = agent.TurnDecoder("c")
    failed = turn.fail(code, "no", None)
    assert failed.failure is not None
    assert (failed.failure.code, failed.data) == (word, None)
    play(chunk("so far"), turn=turn)
    assert turn.fail(code, "no", None).data == {"text": "so far"}


# --- permissions ----------------------------------------------------------------------------------

OPTIONS: Json = [
    {"optionId": "1", "name": "Yes", "kind": "allow_once"},
    {"optionId": "2", "name": "Always", "kind": "allow_always"},
    {"optionId": "3", "name": "Never", "kind": "reject_always"},
    {"optionId": "4", "name": "No", "kind": "reject_once"},
    {"optionId": "5"},
    {"name": "without an id"},
]


def leave(title: str = "Do it", options: Json = OPTIONS, **tool_call: Json) -> Any:
    params = {"options": options, "toolCall": tool_call}
    return agent.decode_permission(params, title, id="q", origin="o")


def test_permission_options_are_choices() -> None:
    question = leave()
    [field] = question.fields
    assert (question.kind, question.message) == (Kind.SELECT, "Do it")
    assert [(each.value, each.label) for each in field.choices] == [
        ("1", "Yes"),
        ("2", "Always"),
        ("3", "Never"),
        ("4", "No"),
        ("5", "5"),
    ]
    assert field.choices[1].description == "The agent does not ask again."


@pytest.mark.parametrize(
    ("kind", "options", "safe"),
    [
        ("delete", OPTIONS, "4"),
        ("execute", OPTIONS[:3], "3"),
        ("execute", OPTIONS[:2], MISSING),
        ("read", OPTIONS, MISSING),
    ],
)
def test_destructive_permission_defaults_to_reject(kind: Json, options: Json, safe: Json) -> None:
    question = leave(options=options, kind=kind)
    assert question.fields[0].default == safe
    assert question.destructive is (kind != "read")


@pytest.mark.parametrize("options", [[], ["x"]])
def test_permission_without_options_is_refused(options: Json) -> None:
    with pytest.raises(RemoteProtocolError, match="at least one option"):
        leave(options=options)


@pytest.mark.parametrize(
    ("tool_call", "words"),
    [
        ({"rawInput": {"command": "ls"}}, 'With:\ncommand: "ls"'),
        ({"rawInput": "ls"}, 'With:\ninput: "ls"'),
        ({"rawInput": {"api_key": "k-1"}}, "With:\napi_key: (not shown: its name is a secret's)"),
        ({"locations": [{"path": "/x"}]}, "In /x"),
        ({"content": [{"type": "terminal"}, 5]}, "[terminal]\n\n[something]"),
        ({"content": [{"type": "diff", "path": "/x", "newText": "a"}]}, "/x:\n+ a"),
        ({"content": [{"type": "content", "content": {"text": "a\u202eb"}}]}, "a\\u202eb"),
        ({"content": [{"type": "content", "content": {"text": "Do it"}}]}, ""),
    ],
)
def test_permission_shows_the_tool_call(tool_call: Json, words: str) -> None:
    assert leave(**tool_call).message == "\n\n".join(filter(None, ("Do it", words)))


def test_refusal_rejects_once_and_never_always() -> None:
    refused: Json = agent.encode_refusal({"options": OPTIONS})
    assert refused["outcome"] == {"outcome": "selected", "optionId": "4"}
    assert agent.encode_refusal({"options": OPTIONS[:3]}) == agent.CANCELLED


def test_permission_keeps_the_uncut_tool_call() -> None:
    question = leave(rawInput={"text": "x" * 5_000})
    assert "more characters not shown" in question.message
    assert "x" * 5_000 in question.uncut


def answer(outcome: Outcome = Outcome.ACCEPTED, by: AnsweredBy = AnsweredBy.PERSON) -> Answer:
    return Answer(outcome, by, {"answer": "2"} if outcome is Outcome.ACCEPTED else {})


@pytest.mark.parametrize("by", [each for each in AnsweredBy if each is not AnsweredBy.HOST_POLICY])
def test_permission_answer_has_the_option_id_and_who_answered(by: AnsweredBy) -> None:
    sent = agent.encode_permission(leave(), answer(by=by))
    assert sent["outcome"] == {"outcome": "selected", "optionId": "2"}
    assert sent["_meta"] == {"abp": {"answeredBy": by.value}}


@pytest.mark.parametrize(
    ("given", "who"),
    [
        (answer(by=AnsweredBy.HOST_POLICY), "host-policy"),
        (answer(Outcome.DECLINED), "person"),
        (answer(Outcome.CANCELLED), "person"),
        (answer(Outcome.TIMED_OUT, AnsweredBy.NOBODY), "nobody"),
        (answer(Outcome.UNSUPPORTED, AnsweredBy.SCRIPT), "nobody"),
        (answer(Outcome.INVALID), "nobody"),
    ],
)
def test_permission_without_a_choice_is_cancelled_and_says_who_answered(
    given: Answer, who: str
) -> None:
    sent = agent.encode_permission(leave(), given)
    assert sent["outcome"] == agent.CANCELLED["outcome"]
    assert sent["_meta"] == {"abp": {"answeredBy": who}}
