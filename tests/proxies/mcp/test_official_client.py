"""The official client, in each mode that it has, with a server of either kind behind `abp-bridge
mcp`; `mcp_types` checks what the client is sent.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from support.harness import PATIENCE, Pipes, Wire, environment
from support.mcp_proxy import DESKTOP, MCP
from support.paths import APPS

STUB = str(APPS / "exotic_server.py")


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize(
    "mode", ["legacy", pytest.param("auto", marks=pytest.mark.process), "2026-07-28"]
)
@pytest.mark.slow
def test_the_official_client_is_asked_and_answers(mode: str, upstream: str, tmp_path: Path) -> None:
    wire = Wire()
    asked: list[str] = []

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"s": "yes"})

    async def play() -> None:
        command = (*MCP, "--", sys.executable, STUB, upstream)
        pipes = Pipes(command, wire, env=environment(**DESKTOP))
        with anyio.fail_after(PATIENCE):
            async with Client(pipes, mode=mode, elicitation_callback=answer) as client:
                listed = await client.list_tools()
                assert listed.tools[0].name == "ask"
                for tool, count in (("ask", 1), ("two", 3)):
                    result = await client.call_tool(tool, {"a": "x"})
                    assert not result.is_error
                    assert len(asked) == count
                read = await client.read_resource("stub://a")
                assert read.contents[0].uri == "stub://a"

    anyio.run(play)
    wire.check()
    spoken = "initialize" if mode == "legacy" else "server/discover"
    assert wire.received()[0]["method"] == spoken or mode == "2026-07-28"
    assert bool(wire.sent("elicitation/create")) == (mode == "legacy")
