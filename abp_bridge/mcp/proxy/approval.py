"""The user's approval before a call reaches the server (`--confirm`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from itertools import count
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject, as_object, is_deeper
from abp_bridge.errors import describe_bug
from abp_bridge.jsonrpc.protocol import INVALID_PARAMS, MAX_DEPTH, RpcError

if TYPE_CHECKING:
    from abp_bridge.core.capability import Capability
    from abp_bridge.mcp.proxy.calls import Calls, ProxyCall, Tool
    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

_SHOWN = ("name", "arguments")
_NOT_SHOWN = (
    "this call is not made, as it needs the user's approval (--confirm) and cannot be shown to"
    " them: a tool has a name, and its arguments are an object that is not nested deeply, and"
    " neither is spelt in two ways"
)


class Approval:
    """Asks the user before the calls of the chosen tools (`Settings.confirm`).

    Args:
        origin: Makes the server's name for the user.
    """

    def __init__(
        self,
        elicitor: ElicitorApi,
        chosen: Collection[str],
        origin: Callable[[], str],
        calls: Calls,
    ) -> None:
        self._elicitor = elicitor
        self._chosen = chosen
        self._origin = origin
        self._calls = calls
        self._serial = count(1)
        self._doubt = ""  # why every tool needs approval

    @property
    def is_on(self) -> bool:
        """Whether any tool was chosen."""
        return bool(self._chosen)

    async def find_refusal(self, call: ProxyCall, params: JsonObject) -> str:
        """Ask the user if the call needs their approval; return why it is not made, or "".

        Raises RpcError for a call that cannot be shown. The server's tools have been listed.
        """
        from abp_bridge.session import approval  # once needed
        from abp_bridge.session.context import AskContext

        name, arguments = params.get("name"), params.get("arguments")
        is_shown = isinstance(name, str) and isinstance(arguments, (dict, type(None)))
        if not is_shown or is_deeper(params, MAX_DEPTH) or _is_ambiguous(params):
            raise RpcError(INVALID_PARAMS, _NOT_SHOWN)
        if call.tool not in self._calls.tools:
            return (
                "It was not called. The user wants to be asked before some tools of this server"
                " (--confirm), and the server lists no tool of this name."
            )
        tool = self._calls.tool(call.tool)
        self._check_names()
        if not self._doubt and not approval.needs_approval(_capability(tool), self._chosen):
            return ""
        id = f"approval-{next(self._serial)}"
        question = approval.make_question(
            id, self._origin(), _capability(tool), as_object(arguments)
        ).with_note(self._doubt)
        context = AskContext(calls=(call.id,), tools=(tool.name,))
        try:
            answer = await self._elicitor.resolve(question, context)
            refused = approval.refusal(tool.name, answer)
        except Exception as problem:  # whatever it is: no yes, no call
            logger.exception("a call is refused: asking for approval failed")
            return f"{describe_bug(problem)} The tool was not called."
        if refused is None:
            return ""
        return " ".join(filter(None, (str(refused.failure), question.note)))

    def _check_names(self) -> None:
        """Ask before every tool if a chosen name is not among the server's tools."""
        from abp_bridge.session import approval

        capabilities = [_capability(tool) for tool in self._calls.tools.values()]
        before, self._doubt = (
            self._doubt,
            " ".join(
                f"--confirm {name}: this server has no tool of that name{hint or '.'} Until that is"
                " corrected you are asked before every tool."
                for name, hint in approval.strange_names(self._chosen, capabilities)
            ),
        )
        if self._doubt not in ("", before):
            logger.warning("%s", self._doubt)


def _is_ambiguous(params: JsonObject) -> bool:
    """Whether some readers take another member for what was shown.

    Go's encoding/json ignores case; C ends a text at NUL.
    """
    others = (name.partition("\0")[0].casefold() for name in params if name not in _SHOWN)
    return any(name in _SHOWN for name in others)


def _capability(tool: Tool) -> Capability:
    from abp_bridge.core import sanitize
    from abp_bridge.core.capability import Capability

    description = sanitize.message(tool.description)
    return Capability(tool.name, description, destructive=not tool.harmless, presumed=True)
