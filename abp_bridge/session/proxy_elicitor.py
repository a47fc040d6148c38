"""What puts a proxy's questions to a host; `bridge` loads it with the first question."""

from __future__ import annotations

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
