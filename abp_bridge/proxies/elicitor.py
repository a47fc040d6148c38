"""Who puts questions to a host, as the proxies know them; `bridge` has one."""

from __future__ import annotations

from typing import Protocol

from abp_bridge.core.question import Answer, Question


class ElicitorApi(Protocol):
    """Who puts questions to a host, and answers each exactly once."""

    async def ask(self, question: Question) -> Answer:
        """Ask, and return how it was answered; what is no answer is one that says so."""
        ...
