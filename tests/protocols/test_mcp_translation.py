"""Messages between stateful and stateless MCP, checked against `mcp_types`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods
from support.json_strategies import any_text, few, garbled, json_values

from abp_bridge.protocols.mcp import revisions
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.revisions import LISTENED, decode_envelope, listens, tag

Json = Any

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SERVER: Json = {"name": "stub", "version": "9", "title": "Stub T", "x-own": [1]}
CLIENT = McpClientInfo(MODERN, {"name": "c", "version": "1"}, {"elicitation": {}}, True, "info")

ICON = {"src": "data:,x", "x-icon": 1}
TOOL: Json = {
    "name": "ask",
    "title": "T",
    "inputSchema": {"type": "object", "$defs": {"k": {"type": "null"}}, "x-own": 1},
    "outputSchema": {"type": "object", "properties": {"r": {}}},
    "annotations": {"destructiveHint": True, "x-ann": 2},
    "icons": [ICON],
    "execution": {"taskSupport": "optional"},
    "_meta": {"vendor/k": [1]},
    "x-unknown": "keep",
}
CONTENT: Json = [{"type": "text", "text": "t", "annotations": {"priority": 1}, "_meta": {"c": 1}}]

RESULTS: Mapping[str, Json] = {
    "tools/list": {"tools": [TOOL], "nextCursor": "p2", "_meta": {"l": 1}},
    "tools/call": {
        "content": CONTENT,
        "structuredContent": {"r": 1},
        "isError": True,
        "_meta": {"r": 1},
    },
    "prompts/list": {"prompts": [{"name": "p", "icons": [ICON]}]},
    "prompts/get": {"messages": [{"role": "user", "content": CONTENT[0]}], "x-own": None},
    "resources/list": {"resources": [{"uri": "stub://a", "name": "a", "size": 3}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "stub://{x}", "name": "t"}]},
    "resources/read": {"contents": [{"uri": "stub://a", "text": "x"}]},
    "completion/complete": {"completion": {"values": ["c"], "total": 7, "hasMore": True}},
}
REQUESTS: Mapping[str, Json] = {
    "tools/list": {"cursor": "p2"},
    "tools/call": {"name": "ask", "arguments": {"a": 1}, "_meta": {"progressToken": 7, "v/k": 1}},
    "prompts/list": None,
    "prompts/get": {"name": "p"},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "stub://a"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "x", "value": ""},
    },
}
INITIALIZED: Json = {
    "protocolVersion": LEGACY,
    "capabilities": {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "logging": {},
        "completions": {},
        "tasks": {"list": {}},
        "experimental": {"vendor/x": {"a": 1}},
        "extensions": {"io.x/y": {}, "io.modelcontextprotocol/tasks": {}},
    },
    "serverInfo": SERVER,
    "instructions": "DO THIS",
    "_meta": {"i": 1},
    "x-own": "keep",
}


@pytest.mark.parametrize("method", RESULTS)
def test_result_survives_translation(method: str) -> None:
    old: Json = RESULTS[method]
    methods.validate_server_result(method, LEGACY, old)
    new = translation.to_modern_result(method, old, SERVER)
    methods.validate_server_result(method, MODERN, new)
    assert new["resultType"] == "complete"
    assert translation.to_legacy_result(method, new) == old


@pytest.mark.parametrize("method", RESULTS)
def test_only_cacheable_results_have_a_ttl(method: str) -> None:
    new = translation.to_modern_result(method, RESULTS[method], SERVER)
    assert ("ttlMs" in new) == ("cacheScope" in new) == (method in methods.CACHEABLE_METHODS)


@pytest.mark.parametrize("method", REQUESTS)
def test_request_survives_translation(method: str) -> None:
    old: Json = REQUESTS[method]
    methods.validate_client_request(method, LEGACY, old)
    new: Json = translation.add_envelope(old, CLIENT)
    methods.validate_client_request(method, MODERN, new)
    assert decode_envelope(new) == CLIENT
    unleveled = replace(CLIENT, level=None)
    assert decode_envelope(translation.add_envelope(old, unleveled)) == unleveled
    assert translation.strip_envelope(new) == (old or {})


def test_initialize_params_of_a_stateless_client() -> None:
    params = translation.initialize_params(CLIENT)
    methods.validate_client_request("initialize", LEGACY, params)
    assert params["clientInfo"] == CLIENT.info
    unnamed = translation.initialize_params(McpClientInfo(MODERN, {}, {"tasks": {}}, True))
    methods.validate_client_request("initialize", LEGACY, unnamed)
    assert unnamed["capabilities"] == {}


def test_discover_result_of_a_stateful_server() -> None:
    methods.validate_server_result("initialize", LEGACY, INITIALIZED)
    new = translation.to_discovered(INITIALIZED)
    methods.validate_server_result("server/discover", MODERN, new)
    assert new["supportedVersions"] == [MODERN]
    back = translation.to_initialized(new, LEGACY)
    methods.validate_server_result("initialize", LEGACY, back)
    without = {name: each for name, each in INITIALIZED["capabilities"].items() if name != "tasks"}
    assert back == {**INITIALIZED, "capabilities": {**without, "extensions": {"io.x/y": {}}}}


@pytest.mark.parametrize(
    ("asked", "gets"), [("2024-11-05", "2024-11-05"), ("2031-01-01", LEGACY), (None, LEGACY)]
)
def test_initialize_result_has_the_requested_version(asked: Json, gets: str) -> None:
    back = translation.to_initialized({"capabilities": {}}, asked)
    methods.validate_server_result("initialize", LEGACY, back)
    assert back["protocolVersion"] == gets


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": ["object"]}])
def test_stateful_tool_without_an_unreadable_output_schema(schema: Json) -> None:
    new = {"tools": [TOOL | {"outputSchema": schema}, {"name": "u", "inputSchema": {}}, 7]}
    tools: Json = translation.to_legacy_result("tools/list", new)["tools"]
    without = {name: value for name, value in TOOL.items() if name != "outputSchema"}
    assert tools == [without, {"name": "u", "inputSchema": {}}, 7]


@pytest.mark.parametrize("structured", [[1, 2], "t", 7, None])
def test_stateful_result_has_unreadable_structured_content_as_text(structured: Json) -> None:
    new: Json = {"content": CONTENT, "structuredContent": structured, "resultType": "complete"}
    old: Json = translation.to_legacy_result("tools/call", new)
    methods.validate_server_result("tools/call", LEGACY, old)
    texts = [each["text"] for each in old["content"]]
    words = {str([1, 2]): "[1, 2]", "t": "t", "7": "7", "None": "null"}[str(structured)]
    assert texts == ["t", *([] if words == "t" else [words])]


@pytest.mark.parametrize(
    ("method", "old", "new"), [("resources/read", -32002, -32602), ("tools/call", -32002, -32002)]
)
def test_error_code_by_revision(method: str, old: Json, new: Json) -> None:
    error: Json = {"code": old, "message": "m", "data": {"uri": "stub://a"}, "x-own": 1}
    there: Json = translation.to_modern_error(method, error)
    assert there == {**error, "code": new}
    assert translation.to_legacy_error(method, there) == error


FORM: Json = {
    "mode": "form",
    "message": "Q",
    "requestedSchema": {"type": "object", "title": "TT", "properties": {"s": {"type": "string"}}},
    "_meta": {"e": 1, "progressToken": 0},
    "task": {"ttl": 1},
}
URL: Json = {"mode": "url", "message": "U", "url": "https://e.x/"}
SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
    "metadata": {"m": 1},
    "x-own": 1,
}


@pytest.mark.parametrize(
    ("method", "params", "need"),
    [
        ("elicitation/create", FORM, "form"),
        ("elicitation/create", URL, "url"),
        ("elicitation/create", {**URL, "elicitationId": "E1"}, "url"),
        ("sampling/createMessage", SAMPLING, "sampling"),
        ("roots/list", {}, "roots"),
    ],
)
def test_server_request_survives_translation(method: str, params: Json, need: str) -> None:
    assert translation.needed_capability(method, params) == need
    new: Json = translation.to_modern_question(method, params, "E1")
    methods.validate_server_result(
        "tools/call", MODERN, {"resultType": "input_required", "inputRequests": {"q": new}}
    )
    assert new["params"].get("elicitationId") == ("E1" if need == "url" else None)
    back, old = translation.to_legacy_question(new, "E1")
    methods.parse_server_request(back, LEGACY, old)
    linked = {"elicitationId": "E1"} if need == "url" else {}
    own = {"_meta": {"e": 1}} if params is FORM else {}
    assert back == method
    assert old == {
        **{k: v for k, v in params.items() if k not in ("task", "_meta")},
        **linked,
        **own,
    }


def test_may_have_changed() -> None:
    wanted: Json = {"toolsListChanged": True, "resourceSubscriptions": ["a", "b"]}
    assert translation.may_have_changed(wanted) == [
        ("notifications/tools/list_changed", None),
        ("notifications/resources/updated", {"uri": "a"}),
        ("notifications/resources/updated", {"uri": "b"}),
    ]


def test_urls_required() -> None:
    error: Json = {
        "code": -32042,
        "message": "m",
        "data": {"elicitations": [{**URL, "elicitationId": "E1"}]},
    }
    assert translation.urls_required(error) == [{**URL, "elicitationId": "E1"}]
    assert translation.urls_required({**error, "data": {"elicitations": [3]}}) == [{}]
    assert translation.urls_required({**error, "data": "x"}) == []
    assert translation.urls_required({**error, "code": -32603}) == []


def test_stateless_error_has_no_url() -> None:
    error: Json = {
        "code": -32042,
        "message": f"go to {URL['url']}",
        "data": {"elicitations": [{**URL, "elicitationId": "E1"}]},
    }
    said = translation.to_modern_error("tools/call", error)
    assert said["code"] == -32600
    assert URL["url"] not in f"{said}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"ttlMs": 5, "cacheScope": "public"}, (5, "public")),
        ({"ttlMs": -5, "cacheScope": "public"}, (0, "private")),
        ({"ttlMs": 5, "cacheScope": "own"}, (0, "private")),
    ],
)
def test_server_ttl_is_kept(said: Json, kept: Json) -> None:
    new = translation.to_modern_result("tools/list", {"tools": [], **said}, SERVER)
    methods.validate_server_result("tools/list", MODERN, new)
    assert (new["ttlMs"], new["cacheScope"]) == kept
    initialized: Json = translation.to_initialized(
        {"capabilities": {}, **said}, None, verbatim=True
    )
    assert {name: initialized[name] for name in said} == said


def _told(name: str) -> str:
    return f"notifications/{name}"


@pytest.mark.parametrize(
    ("method", "params", "wanted"),
    [
        (_told("tools/list_changed"), {}, {"toolsListChanged": True}),
        (_told("prompts/list_changed"), {"_meta": {"v": 1}}, {"promptsListChanged": True}),
        (_told("resources/updated"), {"uri": "a", "x": 1}, {"resourceSubscriptions": ["a", "b"]}),
    ],
)
def test_notification_goes_to_streams_that_listen(method: str, params: Json, wanted: Json) -> None:
    assert listens(wanted, method, params)
    assert not listens({}, method, params)
    new: Json = tag(params, 8)
    methods.parse_server_notification(method, MODERN, new)
    assert new["_meta"]["io.modelcontextprotocol/subscriptionId"] == 8
    assert translation.untag(new) == params
    methods.parse_server_notification(method, LEGACY, params)


def test_listen_filter_of_a_stateful_client() -> None:
    wanted = translation.listen_filter(INITIALIZED["capabilities"], ["stub://a"])
    assert wanted == {
        "toolsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["stub://a"],
    }
    assert translation.listen_filter({"tools": {}, "logging": {}}, []) == {}


@pytest.mark.parametrize(
    ("least", "level", "wanted"),
    [
        ("info", "info", True),
        ("error", "warning", False),
        (None, "emergency", False),
        ("odd", "emergency", False),
        ("emergency", "own", True),
    ],
)
def test_log_level_filter(least: str | None, level: str, wanted: bool) -> None:
    assert translation.logs(least, {"level": level, "data": 1}) is wanted


WORDS = ("_meta", "resultType", "ttlMs", "cacheScope", "tools", "content", "capabilities", "data")
VALUES = ("complete", 0, {"io.modelcontextprotocol/serverInfo": 1}, -32002, {"uri": "a"})
junk = json_values | garbled(WORDS, VALUES)
plain_meta = st.dictionaries(any_text.map("v/{}".format), json_values, min_size=1, max_size=3)
plain = st.builds(
    lambda members, meta: {**{f"x-{k}": v for k, v in members.items()}, **meta},
    st.dictionaries(any_text, json_values, max_size=4),
    plain_meta.map(lambda meta: {"_meta": meta}) | st.just({}),
)
methods_of_both = st.sampled_from([*sorted(RESULTS), "vendor/thing"])


@few
@given(methods_of_both, plain)
def test_unknown_members_survive_translation(method: str, value: Json) -> None:
    new = translation.to_modern_result(method, value, SERVER)
    back = translation.to_legacy_result(method, new)
    expected: Json = {"tools/list": {"tools": []}}.get(method, {})
    assert back == {**value, **expected}
    assert translation.strip_envelope(translation.add_envelope(value, CLIENT)) == value
    assert translation.untag(tag(value, "s")) == value
    discovered = translation.to_discovered({**value, "serverInfo": SERVER, "capabilities": {}})
    assert translation.to_initialized(discovered, LEGACY) == {
        **value,
        "serverInfo": SERVER,
        "capabilities": {},
        "protocolVersion": LEGACY,
    }
    question = translation.to_modern_question(method, value, "E1")
    assert translation.to_legacy_question(question, "E") == (method, value)


@few
@given(methods_of_both, plain)
def test_stateless_result_survives_translation(method: str, value: Json) -> None:
    new = translation.to_modern_result(method, {**RESULTS.get(method, {}), **value}, SERVER)
    old = translation.to_legacy_result(method, new)
    assert translation.to_modern_result(method, old, SERVER) == new


@few
@given(methods_of_both, junk)
def test_any_json_is_translated(method: str, value: Json) -> None:
    thing = value if isinstance(value, dict) else {"data": value, "code": value}
    for translate in (translation.to_legacy_error, translation.to_modern_error):
        translate(method, thing)
    translation.to_legacy_result(method, value)
    translation.to_modern_result(method, value, SERVER)
    translation.to_discovered(thing)
    translation.to_initialized(thing, value)
    translation.add_envelope(value, CLIENT)
    translation.strip_envelope(value)
    translation.to_legacy_question(value, "E")
    translation.to_modern_question(method, value, "E1")
    translation.needed_capability(method, value)
    translation.urls_required(thing)
    listens(thing, method, value)
    translation.listen_filter(value, [])
    translation.logs("info", value)
    translation.untag(tag(value, value))


def test_method_tables_fit_mcp_types() -> None:
    def names(table: Mapping[tuple[str, str], object], version: str) -> set[str]:
        return {method for method, each in table if each == version}

    old, new = names(methods.CLIENT_REQUESTS, LEGACY), names(methods.CLIENT_REQUESTS, MODERN)
    assert old - new == translation.LEGACY_REQUESTS
    assert new - old == translation.MODERN_REQUESTS
    assert methods.INPUT_REQUIRED_METHODS == translation.CAN_ASK
    told = names(methods.SERVER_NOTIFICATIONS, LEGACY) - names(methods.SERVER_NOTIFICATIONS, MODERN)
    said = names(methods.CLIENT_NOTIFICATIONS, LEGACY) - names(methods.CLIENT_NOTIFICATIONS, MODERN)
    assert told | said - {"notifications/progress"} == translation.LEGACY_NOTIFICATIONS
    assert set(RESULTS) == old & new
    listened = set(LISTENED)
    assert listened <= names(methods.SERVER_NOTIFICATIONS, MODERN)
