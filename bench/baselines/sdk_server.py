"""The same two tools on the official Python SDK and nothing else: the cost of the SDK alone.

It logs no calls, which is in its favour.
"""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("sdk-echo", log_level="WARNING")


class Confirmation(BaseModel):
    confirmed: bool


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
async def ask(count: int, ctx: Context) -> str:
    for _ in range(count):
        await ctx.elicit("Go on?", Confirmation)
    return "done"


server.run("stdio")
