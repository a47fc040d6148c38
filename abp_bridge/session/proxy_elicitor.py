"""What puts a proxy's questions to a host; `bridge` loads it with the first question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from abp_bridge.session.context import AskContext

if TYPE_CHECKING:
    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question


class ElicitorApi(Protocol):
    """Who puts questions to a host, and answers each exactly once."""

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        """Ask, and return the one answer."""
        ...


class LazyElicitor:
    """One that `make` makes when there is something to ask."""

    def __init__(self, make: Callable[[], ElicitorApi]) -> None:
        self._make = make
        self._made: ElicitorApi | None = None

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        """Ask, and return how it was answered (`ElicitorApi.resolve`)."""
        self._made = self._made or self._make()
        return await self._made.resolve(question, context)
