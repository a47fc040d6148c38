"""A server on FastMCP that asks before each of its deeds."""

from fastmcp import Context, FastMCP

server: FastMCP = FastMCP("deeds")


@server.tool
async def name(context: Context) -> str:
    answer = await context.elicit("What is it to be called?", response_type=str)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool
async def pick(context: Context) -> str:
    answer = await context.elicit("Which of the two?", response_type=["left", "right"])
    return f"{answer.action} {getattr(answer, 'data', None)}"


server.run(show_banner=False)
