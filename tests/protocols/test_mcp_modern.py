"""Requests and results of MCP 2026-07-28."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.protocols.mcp import revisions as mcp_modern
from abp_bridge.protocols.mcp.client import McpClientInfo

Json = Any

META = "io.modelcontextprotocol/"
WHOLE: dict[str, Json] = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientCapabilities": {"elicitation": {}},
}


def test_decode_envelope() -> None:
    more = {f"{META}clientInfo": {"name": "x"}, f"{META}logLevel": "info"}
    read = mcp_modern.decode_envelope({"_meta": WHOLE | more})
    assert read == McpClientInfo(
        "2026-07-28", {"name": "x"}, {"elicitation": {}}, modern=True, level="info"
    )


def test_client_name() -> None:
    named = McpClientInfo("2025-11-25", {"name": "Codex", "version": "0.169"}, {})
    assert named.name == "Codex 0.169 (MCP 2025-11-25)"
    assert McpClientInfo("2025-11-25", {}, {}).name == "an unnamed host  (MCP 2025-11-25)"


@pytest.mark.parametrize("odd", [7])
def test_envelope_without_client_info_and_log_level(odd: Json) -> None:
    read = mcp_modern.decode_envelope(
        {"_meta": {**WHOLE, f"{META}clientInfo": odd, f"{META}logLevel": odd}}
    )
    assert (read.info, read.level) == ({}, None)


MALFORMED: dict[str, tuple[Json, int, str]] = {
    "nothing": (None, -32602, "protocolVersion and"),
    "an odd meta": ({"_meta": 7}, -32602, "protocolVersion and"),
    "an odd version": (
        {"_meta": {**WHOLE, f"{META}protocolVersion": 7}},
        -32602,
        "protocolVersion",
    ),
    "another version": (
        {"_meta": {**WHOLE, f"{META}protocolVersion": "2099-01-01"}},
        -32022,
        "2099-01-01",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_invalid_envelope_error_names_the_member(case: str) -> None:
    params, code, words = MALFORMED[case]
    with pytest.raises(mcp_modern.InvalidParamsError, match=words) as refused:
        mcp_modern.decode_envelope(params)
    assert refused.value.code == code
    assert (refused.value.data is not None) == (code == -32022)


def test_is_enveloped() -> None:
    assert mcp_modern.is_enveloped({"_meta": WHOLE})
    assert not any(
        mcp_modern.is_enveloped(params)
        for params in (None, {}, {"_meta": None}, {"_meta": {"progressToken": 1}})
    )


def test_complete_result() -> None:
    server = {"name": "s", "version": "1"}
    assert mcp_modern.complete_result({"content": []}, server) == {
        "resultType": "complete",
        "content": [],
        "_meta": {f"{META}serverInfo": server},
    }
    assert mcp_modern.complete_result({}, server, cached=True)["cacheScope"] == "private"
    asked = mcp_modern.encode_round({"q1": {"method": "m", "params": {}}}, "sealed")
    assert mcp_modern.complete_result(asked, server)["resultType"] == "input_required"
    assert (asked["inputRequests"], asked["requestState"]) == (
        {"q1": {"method": "m", "params": {}}},
        "sealed",
    )


def test_decode_retry() -> None:
    assert mcp_modern.decode_retry({"name": "t"}) == (None, {})
    assert mcp_modern.decode_retry(
        {"requestState": "s", "inputResponses": {"q1": {"action": "accept"}}}
    ) == ("s", {"q1": {"action": "accept"}})


@pytest.mark.parametrize(
    "params", [{"requestState": 7}, {"inputResponses": None}, {"inputResponses": {"q1": 7}}]
)
def test_invalid_retry_is_an_error(params: Json) -> None:
    with pytest.raises(mcp_modern.InvalidParamsError) as refused:
        mcp_modern.decode_retry(params)
    assert refused.value.code == -32602


def test_decode_filter() -> None:
    wanted: Json = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": "yes",
        "resourceSubscriptions": ["abp://a/b"],
    }
    assert mcp_modern.decode_filter({"notifications": wanted}) == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["abp://a/b"],
    }
    assert mcp_modern.decode_filter({"notifications": {}}) == {}


@pytest.mark.parametrize(
    "wanted", [None, {"resourceSubscriptions": "abp://a"}, {"resourceSubscriptions": [1]}]
)
def test_invalid_filter_is_an_error(wanted: Json) -> None:
    with pytest.raises(mcp_modern.InvalidParamsError):
        mcp_modern.decode_filter({"notifications": wanted})
