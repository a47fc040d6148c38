"""One MCP host's connection, as the server at its front and the session behind it share it.

Owns who the host is and what it wants to hear of. It answers nothing: `server.py` does, and
`session.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abp_bridge.mcp.subscriptions import Subscriptions
from abp_bridge.mcp.tool_list import ToolList
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.versions import LEGACY

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.jsonrpc.connection import JsonRpcConnection


class McpConnection:
    """Made first, and handed to both.

    Attributes:
        rpc: Carries the messages.
        tasks: Where calls run; it outlives `rpc`.
        subscriptions: What the host wants to hear of.
        client: The host as it showed itself last.
        tools: What it is shown of tools.
    """

    def __init__(
        self, rpc: JsonRpcConnection, tasks: TaskGroup, tools: ToolList | None = None
    ) -> None:
        self.rpc = rpc
        self.tools = tools or ToolList()
        self.tasks = tasks
        self.subscriptions = Subscriptions(rpc)
        self.client = McpClientInfo(LEGACY[0], {}, None)
