"""Tools, results, notices and sampling of an MCP server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult
from abp_bridge.core.ledger import Notice, NoticeKind
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp import elicitation, sampling, server
from abp_bridge.protocols.mcp.results import encode_log
from abp_bridge.protocols.mcp.tools import encode_tool

Json = Any

ALL = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}


def block(words: str, **more: Json) -> Json:
    return {"type": "text", "text": words, **more}


@pytest.mark.parametrize(
    ("hints", "destructive", "presumed"),
    [
        ({}, True, True),
        ({"readOnlyHint": True}, False, True),
        ({"destructiveHint": False}, False, True),
        ({"destructiveHint": True}, True, False),
    ],
)
def test_tool_without_hints_is_presumed_destructive(
    hints: Json, destructive: bool, presumed: bool
) -> None:
    [tool] = server.decode_tools([{"name": "a", "annotations": hints}], {})
    assert (tool.destructive, tool.presumed) == (destructive, presumed)


def test_tool_keeps_title_hints_and_output_schema() -> None:
    schema: Json = {"type": "object", "properties": {"n": {}}}
    hints: Json = {"readOnlyHint": True, "idempotentHint": 1, "title": "Old title"}
    listed: Json = {"name": "a", "title": "A", "outputSchema": schema, "annotations": hints}
    [tool] = server.decode_tools([listed], {})
    made = encode_tool("abp_a", tool, "mcp:server")
    assert made["title"] == "A"
    assert made["annotations"] == {"readOnlyHint": True}
    assert made["outputSchema"]["properties"]["n"] == {}
    assert '"n"' not in made["description"]
    [older] = server.decode_tools([{"name": "a", "annotations": hints}], {})
    assert older.title == "Old title"


def test_prompts_and_resources_are_capabilities() -> None:
    names = [each.name for each in server.decode_tools([], ALL)]
    assert set(names) == server.OWN
    without = [each.name for each in server.decode_tools([], {"resources": {"subscribe": False}})]
    assert without == ["resources.list", "resources.read"]


def test_unsupported_tools_are_problems() -> None:
    found = server.decode_tools(
        [{"name": "prompts.get"}, {}, "bare"], {"prompts": {}, "completions": {}, "tools": {}}
    )
    assert [each.name for each in found] == ["prompts.get", "prompts.list"]
    assert found.problems == (
        "capabilities without a name cannot be called: number 2, number 3",
        "its tool prompts.get stands where the bridge's own way to them would",
        "not carried: completion of arguments (completion/complete)",
    )


BLOB = {"uri": "a", "mimeType": "x/y", "blob": "AAAA"}
FILE = {"uri": "a", "mimeType": "x/y", "encoding": "base64", "content": "AAAA"}


@pytest.mark.parametrize(
    ("result", "data"),
    [
        ({"content": []}, []),
        ({"content": [block("a")]}, "a"),
        ({"content": [block("a", _meta={})]}, [block("a", _meta={})]),
        ({"content": [block("a"), block("b")]}, [block("a"), block("b")]),
        ({"content": [block("{}")], "structuredContent": {}}, {}),
        ({"content": [block("{}")], "structuredContent": {"b": 1}},
         [block("{}"), {"structuredContent": {"b": 1}}]),
        ({"content": [block("{")], "structuredContent": {}},
         [block("{"), {"structuredContent": {}}]),
        ({"content": [block("a")], "structuredContent": {"result": "a"}}, "a"),
        ({"content": [block("1"), block("2")], "structuredContent": {"result": [1, 2]}},
         {"result": [1, 2]}),
        ({"content": [block("1"), block("3")], "structuredContent": {"result": [1, 2]}},
         [block("1"), block("3"), {"structuredContent": {"result": [1, 2]}}]),
        ({"structuredContent": [1]}, [1]),
        ({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
         [{"type": "image", "mimeType": "image/png", "encoding": "base64", "content": "AAAA"}]),
        ({"content": [{"type": "resource", "resource": BLOB}]}, [{"type": "resource", **FILE}]),
        ({"content": [{"type": "resource", "resource": {"uri": "a", "text": "t"}}]},
         [{"type": "resource", "resource": {"uri": "a", "text": "t"}}]),
    ],
)  # fmt: skip
def test_decode_tool_result(result: Json, data: Json) -> None:
    assert server.decode_result(result) == CallResult(data)


@pytest.mark.parametrize(
    ("result", "code", "words", "data"),
    [
        ({"content": [], "isError": True}, "OPERATION_FAILED", "The server gave no reason.", []),
        ({"content": [block("a"), block("b")], "isError": True}, "OPERATION_FAILED", "a\nb",
         [block("a"), block("b")]),
        ({}, "TRANSPORT_ERROR", "the server returned no content, which a result of a tool has",
         None),
    ],
)  # fmt: skip
def test_decode_tool_error(result: Json, code: str, words: str, data: Json) -> None:
    made = server.decode_result(result)
    assert made.failure is not None
    assert (made.failure.code, made.failure.message, made.data) == (code, words, data)


def test_decode_contents_and_prompts() -> None:
    assert server.decode_contents({"contents": [{"uri": "a", "text": "t"}]}).data == "t"
    assert server.decode_contents({"contents": [BLOB, 3]}).data == [FILE, 3]
    unknown = {"uri": "a", "blob": "AAAA"}
    [made] = server.decode_contents({"contents": [unknown]}).data  # type: ignore[misc]
    assert made["mimeType"] == "application/octet-stream"  # type: ignore[call-overload, index]
    assert server.decode_contents({}).failure is not None
    prompt = {"resultType": "complete", "messages": []}
    assert server.decode_prompt(prompt).data == {"messages": []}


def test_decode_json_rpc_error() -> None:
    failure = server.decode_error(-32602, "bad", {"a": 1}).failure
    assert failure is not None
    assert (failure.code, failure.details) == ("INVALID_PARAMS", {"a": 1})
    assert str(server.decode_error(-5, "", None).failure) == (
        "OPERATION_FAILED: The server gave no reason. (-5)"
    )


@pytest.mark.parametrize(
    ("params", "kind", "level"),
    [
        ({"level": "info", "data": "x"}, NoticeKind.OTHER, "info"),
        ({"level": "error", "data": {"message": "x"}}, NoticeKind.ERROR, "error"),
        ({"level": 3}, NoticeKind.OTHER, "info"),
    ],
)
def test_log_message_keeps_its_level(params: Json, kind: NoticeKind, level: str) -> None:
    notice = server.decode_notice("notifications/message", params)
    assert notice.kind is kind
    assert encode_log(notice, "mcp:server")["level"] == level
    if kind is NoticeKind.ERROR:
        assert notice.data["message"] == "x"


def test_notification_is_a_notice() -> None:
    key = "io.modelcontextprotocol/subscriptionId"
    notice = server.decode_notice("vendor", {"a": 1, "_meta": {key: 3}})
    assert notice == Notice(NoticeKind.OTHER, "notifications/vendor", {"a": 1})
    kept = server.decode_notice("notifications/x", {"_meta": {key: 3, "u": 1}})
    assert kept.data == {"_meta": {"u": 1}}


def test_decode_list_change() -> None:
    old: Json = [{"name": "a"}, {"name": "b"}, {"name": "c", "title": "C"}]
    new: Json = [{"name": "b"}, {"name": "c", "title": "D"}, {"name": "d"}]
    changes = {"added": ["d"], "removed": ["a"], "changed": ["c"]}
    tools = server.decode_change("tools", old, new)
    assert (tools.kind, tools.data) == (NoticeKind.CAPABILITIES_CHANGED, changes)
    prompts = server.decode_change("prompts", old, new)
    assert (prompts.name, prompts.data) == ("notifications/prompts/list_changed", changes)
    many = [{"uri": str(number)} for number in range(server.MAX_NAMED + 2)]
    added = server.decode_change("resources", [], many).data["added"]
    assert added[-1] == "and 2 more"  # type: ignore[index]


# --- sampling -------------------------------------------------------------------------------------

MESSAGES = [
    {"role": "user", "content": {"type": "text", "text": "hi"}},
    {"role": "assistant", "content": [{"type": "image", "data": ""}, 3]},
]


def test_decode_sampling() -> None:
    params: Json = {"messages": MESSAGES, "maxTokens": 5, "_meta": {"progressToken": 1}}
    question = sampling.decode_sampling(params, id="q", origin="mcp:server")
    assert question.kind is Kind.SAMPLING
    assert question.message == "hi\n\nassistant: [image]\n[something]"
    assert elicitation.encode_sampling(question) == {"messages": MESSAGES, "maxTokens": 5}


@pytest.mark.parametrize("params", [{}, {"messages": []}])
def test_sampling_without_messages_is_refused(params: Json) -> None:
    with pytest.raises(RemoteProtocolError, match="at least one message"):
        sampling.decode_sampling(params, id="q", origin="mcp:server")


def test_refused_sampling_is_an_error() -> None:
    assert sampling.encode_refused("no\nmodel")["message"] == "no model"


def test_encode_sampled_answer() -> None:
    said: Json = {"role": "assistant", "content": {"type": "audio"}, "model": "m", "x": 1}
    whole = Answer(Outcome.ACCEPTED, AnsweredBy.MODEL, sampling.decode_whole(said))
    assert sampling.encode_sampled(whole) == said
    metered: Json = sampling.encode_sampled(replace(whole, metadata={"tokens": 5}))
    assert {**metered, "_meta": None} == {**said, "_meta": None}
    assert {"tokens": 5} in metered["_meta"].values()
    text = Answer(Outcome.ACCEPTED, AnsweredBy.MODEL, {"result": "hello"})
    assert sampling.encode_sampled(text) == {
        "role": "assistant",
        "content": {"type": "text", "text": "hello"},
        "model": "unknown",
    }
    data = Answer(Outcome.ACCEPTED, AnsweredBy.MODEL, {"result": {"files": ["a", "b"]}})
    assert sampling.encode_sampled(data)["content"] == {
        "type": "text",
        "text": '{"files": ["a", "b"]}',
    }
    with pytest.raises(RemoteProtocolError, match="without content"):
        sampling.decode_whole({"role": "assistant"})
