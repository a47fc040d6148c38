"""The `ask` tool on the official Python SDK in the 2026-07-28 era: each round is a result, and its
state a count. Nothing is kept in between.
"""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

FORM = types.ElicitRequest(
    params=types.ElicitRequestFormParams(
        message="Go on?",
        requested_schema={
            "type": "object",
            "properties": {"confirmed": {"type": "boolean"}},
            "required": ["confirmed"],
        },
    )
)


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name="ask", input_schema={"type": "object"})],
        ttl_ms=0,
        cache_scope="private",
    )


async def call_tool(
    context: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    asked = int(params.request_state or 0)
    if asked == (params.arguments or {})["count"]:
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])
    return types.InputRequiredResult(input_requests={"q": FORM}, request_state=str(asked + 1))


async def main() -> None:
    server = Server("sdk-modern", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
