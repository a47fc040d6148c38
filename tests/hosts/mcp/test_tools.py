"""The bridge's own tools, without a host: what they say of the connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from abp_bridge.hosts.mcp.tool_request import ToolRequest
from abp_bridge.hosts.mcp.tools import McpTools
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.rpc.connection import MAX_NOTIFICATIONS, ByteReader, ByteWriter, JsonRpcConnection
from abp_bridge.rpc.protocol import JsonRpcProtocol

Json = Any


class Silent(ByteReader):
    async def receive(self) -> bytes:
        return b""

    def close(self) -> None: ...


class Stuck(ByteWriter):
    """Somebody who reads nothing."""

    def write_nowait(self, data: bytes | memoryview) -> int:
        return 0

    async def writable(self) -> None: ...
    def close(self) -> None: ...


class Desk:
    def status(self) -> dict[str, Json]:
        return {"host": "test"}


@pytest.mark.anyio
async def test_the_status_counts_the_notifications_that_the_host_never_got() -> None:
    connection = JsonRpcConnection(
        JsonRpcProtocol(), Silent(), Stuck(), on_message=lambda message: None
    )
    api: Any = Desk()
    nothing: Any = None
    tools = McpTools(api, nothing, asks_model=False, lost=connection.lost_notifications)

    request = ToolRequest(1, McpClientInfo("2025-11-25", {}, {}))
    request.tool = "abp_status"

    async def status() -> Json:
        result: Json = await tools.call(request)
        return json.loads(result["content"][0]["text"])

    connection.notify("first")  # has begun to leave
    assert await status() == {"host": "test"}
    for n in range(3):
        connection.notify("progress", {"n": n}, key="progress")
    for n in range(MAX_NOTIFICATIONS + 5):
        connection.notify("log", {"n": n})
    lost = {"replacedByNewer": 2, "dropped": 5}
    assert await status() == {"host": "test", "lostNotifications": lost}
