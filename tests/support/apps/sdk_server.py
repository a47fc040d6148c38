"""An MCP server on the official SDK, which speaks whichever era its client does."""

from __future__ import annotations

import asyncio
import sys

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

server = MCPServer("sdk", title="On the SDK", instructions="Ask before you order.")


@server.tool()
async def numbers() -> list[int]:
    """Numbers."""
    return [1, 2, 3]


@server.resource("note://today")
def today() -> str:
    """Today's note."""
    return "rain"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}."


async def main() -> None:
    """Serve on stdin and stdout as this module has them."""
    core = server._lowlevel_server
    stdin, stdout = map(anyio.wrap_file, (sys.stdin, sys.stdout))
    async with stdio_server(stdin, stdout) as (received, sent):
        await core.run(received, sent, core.create_initialization_options())


asyncio.run(main())
