"""The user's approval before a call reaches the server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.errors import describe_bug
from abp_bridge.jsonrpc.protocol import Id

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.capability import Capability
    from abp_bridge.mcp.proxy.calls import Tool
    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

_NOT_LISTED = (
    "This server's tools have not been listed yet, so nobody knows whether --confirm names one of"
    " them: until then you are asked before every tool."
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
        tasks: TaskGroup,
    ) -> None:
        self._elicitor = elicitor
        self._chosen = chosen
        self._origin = origin
        self._tasks = tasks
        self._waiting: dict[Id, anyio.CancelScope] = {}
        self._serial = 0
        self._doubt: str | None = None  # why every tool needs approval; None: not known yet

    @property
    def is_on(self) -> bool:
        """Whether any tool was chosen."""
        return bool(self._chosen)

    def is_waiting(self, id: Id) -> bool:
        """Whether a call with this id waits for approval."""
        return id in self._waiting

    def asks_for(self, tool: Tool) -> bool:
        """Whether a call of `tool` needs approval."""
        if not self._chosen:
            return False
        from abp_bridge.session import approval  # loaded where it is needed only

        if self._doubt is None:
            self._doubt = _NOT_LISTED if approval.strange_names(self._chosen, ()) else ""
        return bool(self._doubt) or approval.needs_approval(_capability(tool), self._chosen)

    def check_names(self, tools: Sequence[Tool]) -> None:
        """Ask before every tool if a chosen name is not among all these tools."""
        if not self._chosen:
            return
        from abp_bridge.session import approval

        capabilities = [_capability(tool) for tool in tools]
        before, self._doubt = (
            self._doubt,
            " ".join(
                f"--confirm {name}: this server has no tool of that name{hint or '.'} Until that is"
                " mended you are asked before every tool."
                for name, hint in approval.strange_names(self._chosen, capabilities)
            ),
        )
        if self._doubt not in ("", before):
            logger.warning("%s", self._doubt)

    def request_approval(
        self,
        id: Id,
        tool: Tool,
        params: JsonObject,
        on_allowed: Callable[[], object],
        on_refused: Callable[[str], object],
    ) -> None:
        """Ask the user, then call one of both functions, unless the call is withdrawn.

        Args:
            id: The host's id of the call.
            on_refused: Takes the reason, in words for the model.
        """
        from abp_bridge.session import approval
        from abp_bridge.session.context import AskContext

        self._serial += 1
        question = approval.make_question(
            f"approval-{self._serial}",
            self._origin(),
            _capability(tool),
            as_object(params.get("arguments")),
        ).with_note(self._doubt or "")
        context = AskContext(calls=(str(id),), tools=(tool.name,))
        scope = self._waiting[id] = anyio.CancelScope()

        async def wait() -> None:
            with scope:
                try:
                    refused = approval.refusal(
                        tool.name, await self._elicitor.resolve(question, context)
                    )
                    words = "" if refused is None else str(refused.failure)
                except Exception as problem:
                    logger.exception("a call is refused: asking for approval failed")
                    words = f"{describe_bug(problem)} The tool was not called."
                if self._waiting.get(id) is not scope:
                    return  # it was taken back in the turn that answered it
                del self._waiting[id]
                if words:
                    on_refused(" ".join(filter(None, (words, question.note))))
                else:
                    on_allowed()

        self._tasks.start_soon(wait)

    def withdraw(self, id: Id) -> bool:
        """Stop asking about a call that the host cancelled; False if it was not waiting."""
        scope = self._waiting.pop(id, None)
        if scope is not None:
            scope.cancel()
        return scope is not None


def _capability(tool: Tool) -> Capability:
    from abp_bridge.core import sanitize
    from abp_bridge.core.capability import Capability

    description = sanitize.message(tool.description)
    return Capability(tool.name, description, destructive=not tool.harmless, presumed=True)
