"""What agents have in common that are programs on this machine: their sessions by id, one turn of
each at a time, what ends a turn early, and what the turns of a session have used.

A program runs for as long as its turn: between turns nothing of a session is left but its folder
and what the agent itself has kept.
"""

from __future__ import annotations

import abc
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import anyio

from abp_bridge.core.agent_turn import (
    NO_SETTINGS,
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    Cost,
    ModelSettings,
    Usage,
)
from abp_bridge.core.sanitize import label
from abp_bridge.interfaces.agent import (
    Availability,
    OnChunk,
    StartOptions,
    Transport,
    ignore_chunk,
)
from abp_bridge.protocols.prompts import format_prompt


@dataclass(slots=True)
class Session:
    """One conversation: `id` is the agent's own name of it, `scope` what ends its turn."""

    id: str
    folder: str
    options: StartOptions
    usage: Usage | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    scope: anyio.CancelScope | None = None

    def count(self, usage: Usage) -> None:
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


class LocalAgent(abc.ABC):
    """One program, and the sessions that were begun with it (`AgentProtocol`).

    Args:
        title: What people are told of it.
        folder: Where sessions without a workspace have theirs; who made it removes it.
    """

    transport_type: Transport = "local_agent"

    def __init__(self, title: str, folder: str) -> None:
        self.title = title
        self.folder = folder
        self._sessions: dict[str, Session] = {}

    @abc.abstractmethod
    async def available(self) -> Availability:
        """Whether it can be had here (`AgentProtocol.available`)."""

    async def start(self, options: StartOptions) -> str:
        """Begin a session, of which nothing runs yet (`AgentProtocol.start`)."""
        id = options.session_id or str(uuid.uuid4())
        folder = options.workspace or tempfile.mkdtemp(dir=self.folder)
        self._sessions[id] = Session(id, folder, options)
        return id

    async def send(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> AgentResponse:
        """Run it once, to its end (`AgentProtocol.send`)."""
        response = await self._run(session, messages, on_chunk, timeout, resumes=False)
        return replace(response, ignored=settings.given)

    async def resume(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> tuple[str, AgentResponse]:
        """Run it once more, in its own session (`AgentProtocol.resume`); one that another process
        began is known by the agent alone.
        """
        if session not in self._sessions:
            await self.start(StartOptions(session_id=session))
        response = await self._run(session, messages, on_chunk, timeout, resumes=True)
        return self._sessions[session].id, replace(response, ignored=settings.given)

    async def stop(self, session: str) -> None:
        """End its process, with all that it started (`AgentProtocol.stop`)."""
        known = self._sessions.get(session)
        if known is not None and known.scope is not None:
            known.scope.cancel()
            async with known.lock:
                pass

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """The prompt (`AgentProtocol.format_messages`)."""
        return format_prompt(messages).encode()

    async def get_usage(self, session: str) -> Usage | None:
        """What its turns took so far (`AgentProtocol.get_usage`); of the billing period no program
        tells.
        """
        known = self._sessions.get(session)
        return None if known is None else known.usage

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """What it said itself (`AgentProtocol.estimate_cost`)."""
        return None if response.usage is None else response.usage.cost

    # --- one turn ---

    @abc.abstractmethod
    async def _turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        """One turn, from the start of the program to its end, also where it is cancelled; sets
        `session.id` to the agent's own name.

        Raises:
            AgentError: It brought no whole answer.
        """

    async def _run(
        self,
        id: str,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        timeout: float,
        *,
        resumes: bool,
    ) -> AgentResponse:
        if (session := self._sessions.get(id)) is None:
            raise AgentError(
                AgentErrorCode.SESSION_UNKNOWN, f"no session {label(id, 80)} was begun"
            )
        async with session.lock:
            limit = anyio.current_time() + timeout
            scope = session.scope = anyio.CancelScope(deadline=limit)
            response = None
            with scope:
                response = await self._turn(session, messages, on_chunk, resumes=resumes)
            session.scope = None
        if response is None:
            if anyio.current_time() >= limit:
                words = f"{self.title} was not done within {timeout:g} s"
                raise AgentError(AgentErrorCode.TIMEOUT, words)
            raise AgentError(AgentErrorCode.CANCELLED, "the turn was stopped")
        self._sessions[session.id] = session
        if response.usage is not None:
            session.count(response.usage)
        return replace(response, metadata={**response.metadata, "session": session.id})
