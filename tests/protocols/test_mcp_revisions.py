"""What differs between stateful and stateless MCP, checked against `mcp_types`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods
from support.json_strategies import any_text, few, garbled, json_values
from support.mcp_messages import (
    CAPABILITIES,
    CONTENT,
    FORM,
    META,
    REQUESTS,
    RESULTS,
    SAMPLING,
    SERVER,
    STATEFUL,
    STATELESS,
    TASKS,
    TOOL,
    URL,
)

from abp_bridge.protocols.mcp import revisions
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.revisions import CROSSING, LISTENED, Crossing, InvalidParamsError

Json = Any

CLIENT = McpClientInfo(STATELESS, {"name": "c", "version": "1"}, {"elicitation": {}}, True, "info")
ENVELOPE: Json = {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}}
INITIALIZED: Json = {
    "protocolVersion": STATEFUL,
    "capabilities": {**CAPABILITIES, "tasks": {"list": {}}},
    "serverInfo": SERVER,
    "instructions": "DO THIS",
    "_meta": {"i": 1},
    "x-own": "keep",
}


# --- which requests cross ---


def _names(table: Mapping[tuple[str, str], object], version: str) -> set[str]:
    return {method for method, each in table if each == version}


def test_tables_have_all_requests_and_notifications_of_the_specification() -> None:
    stateful, stateless = (_names(methods.CLIENT_REQUESTS, each) for each in (STATEFUL, STATELESS))
    tasks = {f"tasks/{each}" for each in ("get", "update", "result", "list", "cancel")}
    assert CROSSING[False].keys() - tasks == stateful - tasks
    assert CROSSING[True].keys() - tasks == stateless - tasks
    passing = {method for method, what in CROSSING[True].items() if what is Crossing.PASSES}
    assert passing == {method for method, what in CROSSING[False].items() if what.name == "PASSES"}
    assert passing == (stateful & stateless) - tasks == set(RESULTS)
    assert methods.INPUT_REQUIRED_METHODS == revisions.CAN_ASK
    only_stateful = set[str]()
    for table in (methods.SERVER_NOTIFICATIONS, methods.CLIENT_NOTIFICATIONS):
        only_stateful |= _names(table, STATEFUL) - _names(table, STATELESS)
    progress, tasks_status = "notifications/progress", "notifications/tasks/status"
    assert only_stateful - {progress, tasks_status} == revisions.LEGACY_NOTIFICATIONS
    assert set(LISTENED) <= _names(methods.SERVER_NOTIFICATIONS, STATELESS)


@pytest.mark.parametrize(
    ("method", "client_modern", "server_modern", "what"),
    [
        ("tasks/get", True, True, Crossing.PASSES),
        ("resources/subscribe", False, False, Crossing.PASSES),
        ("resources/subscribe", False, True, Crossing.HERE),
        ("resources/subscribe", True, False, Crossing.REFUSED),
        ("tasks/get", False, True, Crossing.REFUSED),
        ("vendor/thing", False, True, Crossing.PASSES),
    ],
)
def test_crossing(method: str, client_modern: bool, server_modern: bool, what: Crossing) -> None:
    kinds = {"client_modern": client_modern, "server_modern": server_modern}
    assert revisions.crossing(method, **kinds) is what


# --- requests ---


@pytest.mark.parametrize("method", REQUESTS)
def test_request_of_a_stateful_client_has_an_envelope_for_a_stateless_server(method: str) -> None:
    params = REQUESTS[method]
    methods.validate_client_request(method, STATEFUL, params)
    for level in ("info", None):
        client = replace(CLIENT, version=STATEFUL, modern=False, level=level)
        task = {**(params or {}), "task": {"ttl": 1}}
        sent: Json = revisions.request_for(task, client, server_modern=True)
        methods.validate_client_request(method, STATELESS, sent)
        assert revisions.decode_envelope(sent) == replace(CLIENT, level=level)
        for each in (replace(CLIENT, level=level), client):
            back = revisions.request_for(sent, replace(each, modern=True), server_modern=False)
            assert back == (params or None)


def test_request_between_equal_kinds_passes() -> None:
    params: Json = {"a": 1, "task": {"ttl": 1}, "_meta": {"v/k": 1}}
    stateful = replace(CLIENT, modern=False)
    assert revisions.request_for(params, stateful, server_modern=False) is params
    sent: Json = revisions.request_for(params, CLIENT, server_modern=True)
    assert {**sent, "_meta": {"v/k": sent["_meta"]["v/k"]}} == params


def test_tasks_are_not_declared_to_the_other_kind() -> None:
    declared: Json = {"tasks": {"list": {}}, "extensions": {TASKS: {}, "io.x/y": {}}}
    client = McpClientInfo(STATEFUL, {}, declared)
    sent: Json = revisions.request_for({}, client, server_modern=True)
    assert sent["_meta"][f"{META}clientCapabilities"] == {"extensions": {"io.x/y": {}}}
    sent = revisions.request_for({}, replace(client, modern=True), server_modern=True)
    assert sent["_meta"][f"{META}clientCapabilities"] == declared


def test_retry_members_are_removed_for_a_stateful_server() -> None:
    params: Json = {"name": "t", "requestState": "s", "inputResponses": {}, "_meta": ENVELOPE}
    assert revisions.request_for(params, CLIENT, server_modern=False) == {"name": "t"}
    assert revisions.without_retry({"a": 1, "requestState": "s"}) == {"a": 1}


def test_envelope_without_client_info_and_log_level() -> None:
    meta = {**ENVELOPE, f"{META}clientInfo": 7, f"{META}logLevel": 7}
    read = revisions.decode_envelope({"_meta": meta})
    assert (read.info, read.level) == ({}, None)


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        (None, -32602, "protocolVersion and"),
        ({"_meta": 7}, -32602, "protocolVersion and"),
        ({"_meta": {**ENVELOPE, f"{META}protocolVersion": "2099-01-01"}}, -32022, "2099-01-01"),
    ],
)
def test_invalid_envelope_error_names_the_member(params: Json, code: int, words: str) -> None:
    with pytest.raises(InvalidParamsError, match=words) as refused:
        revisions.decode_envelope(params)
    assert refused.value.code == code
    assert (refused.value.data is not None) == (code == -32022)


def test_is_enveloped() -> None:
    assert revisions.is_enveloped({"_meta": ENVELOPE})
    plain: list[Json] = [None, {}, {"_meta": None}, {"_meta": {"progressToken": 1}}]
    assert not any(map(revisions.is_enveloped, plain))


def test_client_name() -> None:
    named = McpClientInfo("2025-11-25", {"name": "Codex", "version": "0.169"}, {})
    assert named.name == "Codex 0.169 (MCP 2025-11-25)"
    assert McpClientInfo("2025-11-25", {}, {}).name == "an unnamed host  (MCP 2025-11-25)"


def test_decode_retry() -> None:
    assert revisions.decode_retry({"name": "t"}) == (None, {})
    answers = {"q1": {"action": "accept"}}
    retry: Json = {"requestState": "s", "inputResponses": answers}
    assert revisions.decode_retry(retry) == ("s", answers)


@pytest.mark.parametrize(
    "params", [{"requestState": 7}, {"inputResponses": None}, {"inputResponses": {"q1": 7}}]
)
def test_invalid_retry_is_an_error(params: Json) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        revisions.decode_retry(params)
    assert refused.value.code == -32602


# --- results ---


@pytest.mark.parametrize("method", RESULTS)
def test_result_survives_translation(method: str) -> None:
    old: Json = RESULTS[method]
    methods.validate_server_result(method, STATEFUL, old)
    new: Json = revisions.result_for(method, old, SERVER, client_modern=True, server_modern=False)
    methods.validate_server_result(method, STATELESS, new)
    assert new["resultType"] == "complete"
    assert ("ttlMs" in new) == ("cacheScope" in new) == (method in methods.CACHEABLE_METHODS)
    to_stateful = {"client_modern": False, "server_modern": True}
    assert revisions.result_for(method, new, {}, **to_stateful) == old
    for kind in (True, False):
        kinds = {"client_modern": kind, "server_modern": kind}
        assert revisions.result_for(method, new, {}, **kinds) is new


def test_discover_result_of_a_stateful_server() -> None:
    methods.validate_server_result("initialize", STATEFUL, INITIALIZED)
    new = revisions.to_discovered(INITIALIZED)
    methods.validate_server_result("server/discover", STATELESS, new)
    assert new["supportedVersions"] == [STATELESS]
    back = revisions.to_initialized(new, STATEFUL)
    methods.validate_server_result("initialize", STATEFUL, back)
    without = {name: each for name, each in INITIALIZED["capabilities"].items() if name != "tasks"}
    assert back == {**INITIALIZED, "capabilities": {**without, "extensions": {"io.x/y": {}}}}


@pytest.mark.parametrize(
    ("asked", "gets"), [("2024-11-05", "2024-11-05"), ("2031-01-01", STATEFUL), (None, STATEFUL)]
)
def test_initialize_result_has_the_requested_version(asked: Json, gets: str) -> None:
    back = revisions.to_initialized({"capabilities": {}}, asked)
    methods.validate_server_result("initialize", STATEFUL, back)
    assert back["protocolVersion"] == gets


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": ["object"]}])
def test_stateful_tool_without_an_unreadable_output_schema(schema: Json) -> None:
    new = {"tools": [TOOL | {"outputSchema": schema}, {"name": "u", "inputSchema": {}}, 7]}
    tools: Json = revisions.to_legacy_result("tools/list", new)["tools"]
    without = {name: value for name, value in TOOL.items() if name != "outputSchema"}
    assert tools == [without, {"name": "u", "inputSchema": {}}, 7]


@pytest.mark.parametrize("structured", [[1, 2], "t", 7, None])
def test_stateful_result_has_unreadable_structured_content_as_text(structured: Json) -> None:
    new: Json = {"content": CONTENT, "structuredContent": structured, "resultType": "complete"}
    old: Json = revisions.to_legacy_result("tools/call", new)
    methods.validate_server_result("tools/call", STATEFUL, old)
    texts = [each["text"] for each in old["content"]]
    words = {str([1, 2]): "[1, 2]", "t": "t", "7": "7", "None": "null"}[str(structured)]
    assert texts == ["t", *([] if words == "t" else [words])]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"ttlMs": 5, "cacheScope": "public"}, (5, "public")),
        ({"ttlMs": -5, "cacheScope": "public"}, (0, "private")),
        ({"ttlMs": 5, "cacheScope": "own"}, (0, "private")),
    ],
)
def test_server_ttl_is_kept(said: Json, kept: Json) -> None:
    new = revisions.to_modern_result("tools/list", {"tools": [], **said}, SERVER)
    methods.validate_server_result("tools/list", STATELESS, new)
    assert (new["ttlMs"], new["cacheScope"]) == kept


def test_complete_result() -> None:
    assert revisions.complete_result({"content": []}, SERVER) == {
        "resultType": "complete",
        "content": [],
        "_meta": {f"{META}serverInfo": SERVER},
    }
    assert revisions.complete_result({}, SERVER, cached=True)["cacheScope"] == "private"
    requests: Json = {"q1": {"method": "roots/list", "params": {}}}
    asked = revisions.encode_round(requests, "sealed")
    methods.validate_server_result("tools/call", STATELESS, asked)
    assert revisions.complete_result(asked, SERVER)["resultType"] == "input_required"
    assert (asked["inputRequests"], asked["requestState"]) == (requests, "sealed")


@pytest.mark.parametrize(
    ("method", "old", "new"), [("resources/read", -32002, -32602), ("tools/call", -32002, -32002)]
)
def test_error_code_by_revision(method: str, old: Json, new: Json) -> None:
    error: Json = {"code": old, "message": "m", "data": {"uri": "stub://a"}, "x-own": 1}
    translated = {**error, "code": new}
    to_stateless = {"client_modern": True, "server_modern": False}
    to_stateful = {"client_modern": False, "server_modern": True}
    assert revisions.error_for(method, error, **to_stateless) == translated
    assert revisions.error_for(method, translated, **to_stateful) == error
    unnamed: Json = {"code": new, "message": "m"}
    assert revisions.error_for(method, unnamed, **to_stateful) is unnamed
    assert revisions.error_for(method, error, client_modern=True, server_modern=True) is error


# --- questions ---

ASKED: Json = {"_meta": {"e": 1, "progressToken": 0}, "task": {"ttl": 1}}


@pytest.mark.parametrize(
    ("method", "params", "kept", "need"),
    [
        (
            "elicitation/create",
            {**FORM, **ASKED},
            {"_meta": {"e": 1}},
            {"elicitation": {"form": {}}},
        ),
        ("elicitation/create", URL, {}, {"elicitation": {"url": {}}}),
        (
            "sampling/createMessage",
            {**SAMPLING, "_meta": {"progressToken": 0}},
            {},
            {"sampling": {}},
        ),
        ("roots/list", {}, {}, {"roots": {}}),
    ],
)
def test_question_of_a_stateful_server(method: str, params: Json, kept: Json, need: Json) -> None:
    new = revisions.to_modern_question(params)
    own = {name: each for name, each in params.items() if name not in ("task", "_meta")}
    assert new == {**own, **kept}
    asks: Json = {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": method, **_of(new)}},
    }
    methods.validate_server_result("tools/call", STATELESS, asks)
    assert revisions.asks_input(asks)
    assert revisions.questions_in(asks) == {"q": (method, new)}
    can = replace(CLIENT, capabilities=need)
    assert revisions.can_be_asked(can, method, params)
    assert not revisions.can_be_asked(replace(can, capabilities={}), method, params)
    assert not revisions.can_be_asked(can, "vendor/ask", params)


def _of(params: Json) -> Json:
    return {"params": params} if params else {}


@pytest.mark.parametrize(
    ("result", "asks"),
    [({"status": "input_required"}, True), ({"resultType": "complete"}, False), (None, False)],
)
def test_task_may_ask(result: Json, asks: bool) -> None:
    assert revisions.asks_input(result) is asks
    assert revisions.questions_in(result) == {}


def test_urls_required() -> None:
    error: Json = {
        "code": -32042,
        "message": "m",
        "data": {"elicitations": [{**URL, "elicitationId": "E1"}]},
    }
    assert revisions.urls_required(error) == [{**URL, "elicitationId": "E1"}]
    assert revisions.urls_required({**error, "data": {"elicitations": [3]}}) == [{}]
    assert revisions.urls_required({**error, "data": "x"}) == []
    assert revisions.urls_required({**error, "code": -32603}) == []


# --- notifications ---


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
    assert revisions.listens(wanted, method, params)
    assert not revisions.listens({}, method, params)
    assert not revisions.listens(wanted, "notifications/vendor/x", params)
    new: Json = revisions.tag(params, 8)
    methods.parse_server_notification(method, STATELESS, new)
    assert new["_meta"][f"{META}subscriptionId"] == 8
    assert revisions.untag(new) == params
    methods.parse_server_notification(method, STATEFUL, params)


def test_listen_filter_of_a_stateful_client() -> None:
    wanted = revisions.listen_filter(INITIALIZED["capabilities"], ["stub://a"])
    assert wanted == {
        "toolsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["stub://a"],
    }
    assert revisions.listen_filter({"tools": {}, "logging": {}}, []) == {}
    assert revisions.may_have_changed(wanted) == [
        (_told("tools/list_changed"), None),
        (_told("resources/list_changed"), None),
        (_told("resources/updated"), {"uri": "stub://a"}),
    ]


def test_decode_filter() -> None:
    wanted: Json = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": "yes",
        "resourceSubscriptions": ["abp://a/b"],
    }
    honoured = {"toolsListChanged": True, "resourceSubscriptions": ["abp://a/b"]}
    assert revisions.decode_filter({"notifications": wanted}) == honoured
    assert revisions.decode_filter({"notifications": {}}) == {}


@pytest.mark.parametrize(
    "wanted", [None, {"resourceSubscriptions": "abp://a"}, {"resourceSubscriptions": [1]}]
)
def test_invalid_filter_is_an_error(wanted: Json) -> None:
    with pytest.raises(InvalidParamsError):
        revisions.decode_filter({"notifications": wanted})


# --- any JSON ---

WORDS = ("_meta", "resultType", "ttlMs", "cacheScope", "tools", "content", "capabilities", "data")
VALUES = ("complete", 0, {f"{META}serverInfo": 1}, -32002, {"uri": "a"})
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
    new = revisions.to_modern_result(method, {**RESULTS.get(method, {}), **value}, SERVER)
    old = revisions.to_legacy_result(method, new)
    assert old == {**RESULTS.get(method, {}), **value}
    assert revisions.to_modern_result(method, old, SERVER) == new
    sent = revisions.request_for(value, replace(CLIENT, modern=False), server_modern=True)
    assert revisions.request_for(sent, CLIENT, server_modern=False) == (value or None)
    assert revisions.untag(revisions.tag(value, "s")) == value
    discovered = revisions.to_discovered({**value, "serverInfo": SERVER, "capabilities": {}})
    assert revisions.to_initialized(discovered, STATEFUL) == {
        **value,
        "serverInfo": SERVER,
        "capabilities": {},
        "protocolVersion": STATEFUL,
    }
    assert revisions.to_modern_question(value) == value


@few
@given(methods_of_both, junk, st.booleans())
def test_any_json_is_translated(method: str, value: Json, client_modern: bool) -> None:
    thing = value if isinstance(value, dict) else {"data": value, "code": value}
    kinds = {"client_modern": client_modern, "server_modern": not client_modern}
    revisions.error_for(method, thing, **kinds)
    revisions.result_for(method, value, SERVER, **kinds)
    revisions.request_for(value, replace(CLIENT, modern=client_modern), server_modern=client_modern)
    revisions.request_for(value, CLIENT, server_modern=not client_modern)
    revisions.to_discovered(thing)
    revisions.to_initialized(thing, value)
    revisions.to_modern_question(thing)
    revisions.can_be_asked(replace(CLIENT, capabilities=value), method, value)
    revisions.asks_input(value)
    revisions.questions_in(value)
    revisions.urls_required(thing)
    revisions.listens(thing, method, value)
    revisions.listen_filter(value, [])
    revisions.untag(revisions.tag(value, value))
