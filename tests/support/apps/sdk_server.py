"""An MCP server on the official SDK, which speaks whichever era its client does: it asks, samples
and tells as its handlers have it.
"""

from __future__ import annotations

import asyncio
import sys

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.types import Image
from mcp.server.stdio import stdio_server
from pydantic import BaseModel

server = MCPServer("sdk", title="On the SDK", instructions="Ask before you order.")


class Order(BaseModel):
    """What is ordered."""

    size: int
    note: str = "none"


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
async def order(context: Context) -> str:
    """Orders something."""
    await context.report_progress(1, 2, "asking")
    answer = await context.elicit("How many?", Order)
    await context.report_progress(2, 2, "asked")
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool()
async def numbers() -> list[int]:
    """Numbers."""
    return [1, 2, 3]


@server.tool()
async def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n" + bytes(40), format="png")


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
