"""One conversation with an agent of any kind: a turn of it at a time, within its bound and until
somebody stops it, and what its turns took.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio

from abp_bridge.core.agent_turn import AgentError, AgentErrorCode, AgentResponse, Cost, Usage
from abp_bridge.interfaces.agent import StartOptions


@dataclass(slots=True)
class Session:
    """One conversation.

    Attributes:
        id: The agent's own name of it.
        options: How it was begun.
        folder: Where the agent works; empty for nowhere.
        usage: What its turns took so far.
    """

    id: str
    options: StartOptions
    folder: str = ""
    usage: Usage | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _scope: anyio.CancelScope | None = None

    async def run(
        self, turn: Callable[[], Awaitable[AgentResponse]], timeout: float, title: str
    ) -> AgentResponse:
        """One turn, once those before it have ended; what it took is counted.

        Args:
            turn: Has the answer; cancelled, it leaves nothing behind.
            timeout: Seconds that it may take.
            title: What people call the agent.

        Raises:
            AgentError: It was stopped, or not done in time, or brought no whole answer.
        """
        async with self._lock:
            limit = anyio.current_time() + timeout
            response = None
            with anyio.CancelScope(deadline=limit) as self._scope:
                response = await turn()
            self._scope = None
        if response is None:
            if anyio.current_time() >= limit:
                words = f"{title} was not done within {timeout:g} s"
                raise AgentError(AgentErrorCode.TIMEOUT, words)
            raise AgentError(AgentErrorCode.CANCELLED, "the turn was stopped")
        if response.usage is not None:
            self._count(response.usage)
        return response

    async def stop(self) -> None:
        """End the turn that runs, and wait for that."""
        if self._scope is not None:
            self._scope.cancel()
            async with self._lock:
                pass

    def _count(self, usage: Usage) -> None:
        """Add a turn's, unless it speaks of the session so far."""
        before = self.usage or Usage("session")
        if usage.scope == "turn":
            usage = replace(
                usage,
                input=(before.input or 0) + (usage.input or 0),
                output=(before.output or 0) + (usage.output or 0),
                cost=_add(before.cost, usage.cost),
            )
        self.usage = replace(usage, scope="session")


def _add(before: Cost | None, cost: Cost | None) -> Cost | None:
    if cost is None or before is None or cost.scope == "session":
        return cost or before
    return replace(cost, amount=before.amount + cost.amount)
