"""A server on the helper by which Okta's own asks before it deactivates somebody."""

from loguru import logger

logger.remove()

from mcp.server.fastmcp import Context, FastMCP  # noqa: E402
from okta_mcp_server.utils.elicitation import (  # noqa: E402
    DeactivateConfirmation,
    elicit_or_fallback,
)

server = FastMCP("okta helper")


@server.tool()
async def deactivate_user(context: Context) -> str:
    outcome = await elicit_or_fallback(
        context,
        message="Deactivate ada@example.com?",
        schema=DeactivateConfirmation,
        auto_confirm_on_fallback=True,
    )
    return "DEACTIVATED" if outcome.confirmed else "not done"


server.run()
