"""What an app offers, for hosts that list tools only once: in their first list from the second
session on, and whole in what they read when they connect or call.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, Implementation
from support.harness import MODERN, Hosted, RawHost, hosted, text
from support.puppets import scripted

Json = Any

ADD: Json = {
    "name": "add",
    "description": "Adds.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "outputSchema": {
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
    },
    "annotations": {"readOnlyHint": True},
    "requirements": [{"type": "state", "description": "An open sheet", "met": True}],
    "steps": [{"return": {"sum": 3}}],
}


class Sheet:
    """An app whose capabilities a test may change between sessions, and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.env = {"ABP_TOOL_CACHE": str(self.cache)}
        self._script = folder / "sheet.json"
        self.offer(ADD)
        self.target = f"{scripted(self._script)} --key=hunter2-5f3a"
        self.arguments = ("--app", self.target)

    def offer(self, *capabilities: Json) -> None:
        app = {"id": "sheet", "name": "Sheet", "version": "1"}
        self._script.write_text(json.dumps({"app": app, "capabilities": capabilities}))


@pytest.fixture
def sheet(tmp_path: Path) -> Sheet:
    return Sheet(tmp_path)


async def tools(host: Hosted) -> dict[str, Json]:
    listed = await host.client.list_tools()
    return {tool.name: tool.model_dump(by_alias=True) for tool in listed.tools}


async def fill(sheet: Sheet) -> None:
    async with hosted(*sheet.arguments, env=sheet.env) as host:
        first = await tools(host)
        assert "abp_add" not in first
        told = first["abp_connect"]["description"]
        assert "are not listed yet" in told
        assert "call them by abp_call" in told
        assert (await host.status())["notConnected"][0]["toolsKnown"] is False
        await host.client.call_tool("abp_connect", {})


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
async def test_second_session_lists_the_tools_at_once(sheet: Sheet, version: str) -> None:
    await fill(sheet)
    async with hosted(*sheet.arguments, env=sheet.env, version=version) as host:
        first = await tools(host)
        status = await host.status()
        assert (status["apps"], status["notConnected"][0]["toolsKnown"]) == ({}, True)
        assert "are not listed yet" not in first["abp_connect"]["description"]
        result: CallToolResult = await host.client.call_tool("abp_add", {"a": 1})
        assert result.structured_content == {"sum": 3}
        assert list((await host.status())["apps"]) == ["sheet"]
        assert await tools(host) == first
    assert "notifications/tools/list_changed" not in json.dumps(host.wire.lines)
    tool = first["abp_add"]
    assert tool["inputSchema"] == ADD["inputSchema"]
    assert tool["outputSchema"]["properties"]["sum"] == {"type": "integer"}
    assert tool["annotations"]["readOnlyHint"] is True
    assert "Requires state: An open sheet (met)." in tool["description"]


async def test_call_of_a_removed_tool_lists_the_tools_there_are(sheet: Sheet) -> None:
    await fill(sheet)
    sheet.offer({**ADD, "name": "add.up"}, {"name": "other", "steps": []})
    async with hosted(*sheet.arguments, env=sheet.env) as host:
        assert "abp_add" in await tools(host)
        gone = await host.client.call_tool("abp_add", {"a": 1})
        again = await host.client.call_tool("abp_add", {"a": 1})
        assert {"abp_add_up", "abp_other"} <= set(await tools(host))
    assert gone.is_error
    assert text(gone) == text(again)
    assert "UNKNOWN_CAPABILITY: There is no capability 'add'. Known are add.up, other." in text(
        gone
    )
    assert json.dumps(ADD["inputSchema"]) in text(gone)
    assert "notifications/tools/list_changed" in json.dumps(host.wire.lines)


async def test_tool_cache_is_private_and_holds_no_command(sheet: Sheet) -> None:
    await fill(sheet)
    found = [sheet.cache, *sheet.cache.iterdir()]
    assert sorted(each.suffix for each in found) == ["", "", ".json"]
    for each in found:
        wanted = 0o700 if each.is_dir() else 0o600
        assert stat.S_IMODE(each.stat().st_mode) == wanted
        assert b"hunter2" not in each.name.encode() + (b"" if each.is_dir() else each.read_bytes())
    [kept] = sheet.cache.glob("*.json")
    kept.write_text("[" * 100_000)
    await fill(sheet)  # the list is as in a first session, and what is there gives way
    async with hosted(*sheet.arguments, env=sheet.env) as host:
        assert "abp_add" in await tools(host)
    kept.chmod(0o644)
    await fill(sheet)


def test_listing_tools_starts_no_app(tmp_path: Path) -> None:
    cache, started = tmp_path / "cache", tmp_path / "started"
    app = ("--app", f"stdio:touch {started}")
    with RawHost(*app, "--ask-via-model", env={"ABP_TOOL_CACHE": str(cache)}) as host:
        host.initialize()
        names = [tool["name"] for tool in host.result("tools/list")["tools"]]
    assert names[-1] == "abp_answer"
    assert not cache.exists()
    assert not started.exists()


async def test_tool_cache_can_be_switched_off(sheet: Sheet, tmp_path: Path) -> None:
    off = {"ABP_TOOL_CACHE": "off", "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    async with hosted(*sheet.arguments, env=off) as host:
        assert "are not listed yet" not in (await tools(host))["abp_connect"]["description"]
        await host.client.call_tool("abp_connect", {})
    assert not (tmp_path / "xdg").exists()


# --- for a host that never lists again ------------------------------------------------------------


async def test_connect_lists_every_parameter(sheet: Sheet) -> None:
    long = {**ADD, "name": "long", "inputSchema": {"description": "x" * 20_000}}
    sheet.offer(ADD, long)
    async with hosted(*sheet.arguments) as host:
        words = text(await host.client.call_tool("abp_connect", {}))
        assert "- add (abp_add): Adds.\n" in words
        assert json.dumps(ADD["inputSchema"]) in words
        assert "Left out here for their length, 1: long." in words
        one = await host.client.call_tool("abp_status", {"capability": "long"})
        assert json.loads(text(one))["inputSchema"] == long["inputSchema"]
        none = await host.client.call_tool("abp_status", {"capability": "lnog"})
        assert none.is_error
        assert "There are: long, add." in text(none)


async def test_tool_listed_too_late_for_its_host_is_not_named(sheet: Sheet) -> None:
    """Qwen says of it that it is not registered; from the second session on it is."""
    qwen = Implementation(name="qwen-cli-mcp-client-sheets", version="0.0.1")
    said = []
    for _ in range(2):
        async with hosted(*sheet.arguments, env=sheet.env, client_info=qwen) as host:
            await tools(host)
            said.append(text(await host.client.call_tool("abp_connect", {})))
            said.append(text(await host.client.call_tool("abp_status", {"capability": "add"})))
    assert (
        "to be called by abp_call (this host does not list tools again):\n- add: Adds.\n" in said[0]
    )
    assert "each also a tool of its own:\n- add (abp_add): Adds.\n" in said[2]
    assert [json.loads(each).get("tool") for each in said[1::2]] == [None, "abp_add"]
