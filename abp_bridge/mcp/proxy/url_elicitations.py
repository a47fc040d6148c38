"""Sends the user to the addresses of a URL-elicitation error (-32042) if the host shows none.

The host gets words, never the address: its model would read a token in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, as_text
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError, describe_bug
from abp_bridge.jsonrpc.protocol import Id

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

MAX_LINKS = 10  # of one error: nobody goes to more places for one call

_WENT = (
    "abp-bridge: this server wants its user at an address first, and they were sent there. Do this"
    " again when they are done."
)
_STAYED = "abp-bridge: this server wants its user at an address first, and they did not go there."


class UrlElicitations:
    """The addresses of one server.

    Args:
        origin: Makes the server's name for the user.
    """

    def __init__(self, elicitor: ElicitorApi, tasks: TaskGroup, origin: Callable[[], str]) -> None:
        self._elicitor = elicitor
        self._tasks = tasks
        self._origin = origin
        self._open: dict[Id, anyio.CancelScope] = {}
        # What is shown, with the elicitationId that its server may call done.
        self._shown: dict[anyio.CancelScope, str] = {}
        self._serial = 0

    def begin(
        self,
        id: Id,
        links: Sequence[JsonObject],
        tools: Sequence[str],
        on_end: Callable[[str], object],
    ) -> None:
        """Show each of these addresses in turn, once per request.

        Args:
            id: The host's request.
            links: The parameters of an `elicitation/create` each.
            on_end: Takes the outcome in words for the host's model, unless it is withdrawn.
        """
        if id in self._open:
            logger.warning("a second answer with addresses is passed over: the first is visited")
            return
        scope = self._open[id] = anyio.CancelScope()

        async def visit() -> None:
            with scope:
                try:
                    words = await self._visit_all(id, links, tools)
                except Exception as problem:
                    logger.exception("a person is not sent to an address: asking them failed")
                    words = f"{_STAYED} {describe_bug(problem)}"
                if self._open.get(id) is scope:  # else it was taken back meanwhile
                    del self._open[id]
                    on_end(words)

        self._tasks.start_soon(visit)

    def withdraw(self, id: Id) -> bool:
        """Stop: the request was cancelled or answered. False if it was not open."""
        scope = self._open.pop(id, None)
        if scope is not None:
            scope.cancel()
        return scope is not None

    def complete(self, elicitation: str) -> None:
        """Note that the user has visited each address of this `elicitationId`."""
        for shown, name in list(self._shown.items()):
            if elicitation and name == elicitation:
                shown.cancel()

    async def _visit_all(self, id: Id, links: Sequence[JsonObject], tools: Sequence[str]) -> str:
        if not 0 < len(links) <= MAX_LINKS:
            return f"{_STAYED} It named {len(links)} of them."
        for each in links:
            problem = ""  # none where its server says that they have been there
            with anyio.CancelScope() as shown:
                self._shown[shown] = as_text(each.get("elicitationId"))
                try:
                    problem = await self._visit(id, each, tools)
                finally:
                    del self._shown[shown]
            if problem:
                return f"{_STAYED} {label(problem, 1_000)}"
        return _WENT

    async def _visit(self, id: Id, link: JsonObject, tools: Sequence[str]) -> str:
        """Return why the user did not go there, or ""."""
        from abp_bridge.core.outcome import Outcome
        from abp_bridge.protocols.mcp.server_elicitation import (  # once needed
            decode_link,
            server_outcome,
        )
        from abp_bridge.session.context import AskContext

        self._serial += 1
        try:
            question = decode_link(link, id=f"visit-{self._serial}", origin=self._origin())
        except RemoteProtocolError as problem:
            return f"{problem}"
        context = AskContext(calls=(str(id),), tools=tuple(tools))
        answer = await self._elicitor.resolve(question, context)
        if server_outcome(question, answer) is Outcome.ACCEPTED:
            return ""
        return answer.reason or f"They answered: {answer.outcome.value}."
