"""What an agent, or a model, is to whoever wants one turn of it: `AgentProtocol`.

A local agent is a program on this machine, with its own sessions, and often its own tools; a model
behind an API has neither. Parsing what they say is the protocols' (`protocols/cli_agents.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from abp_bridge.core.agent_turn import (
    NO_SETTINGS,
    AgentMessage,
    AgentResponse,
    Chunk,
    Cost,
    ModelSettings,
    Usage,
)

Transport = Literal["llm", "local_agent"]
OnChunk = Callable[[Chunk], None]


def ignore_chunk(chunk: Chunk) -> None:
    """Nobody listens to the pieces of this turn."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether an agent can be had here.

    Attributes:
        why_not: What is missing, and what would mend it; empty where it can be had.
        version: Its own word for its version; empty where it says none.
    """

    why_not: str = ""
    version: str = ""

    @property
    def ok(self) -> bool:
        """Whether it can be had."""
        return not self.why_not


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a session begins.

    Attributes:
        workspace: The folder that the agent works in, as an absolute path; empty for one of its
            own, which is empty and goes with the session.
        user_id: Whom it works for, in the caller's own word: kept with the session, and told to
            nobody.
        session_id: The id that the session is to have; empty for a new one.
        tools: Whether the agent may use its own tools.
        environment: What its process is given beside ours.
    """

    workspace: str = ""
    user_id: str = ""
    session_id: str = ""
    tools: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class AgentProtocol(Protocol):
    """One agent. Sessions are named by ids; each turn of one ends before its next begins."""

    @property
    def transport_type(self) -> Transport:
        """Whether it is a program here or a model behind an API."""
        ...

    async def available(self) -> Availability:
        """Whether it can be had here, for which no session is begun."""
        ...

    async def start(self, options: StartOptions) -> str:
        """Begin a session: its id.

        Raises:
            AgentError: It cannot be had in this way.
        """
        ...

    async def send(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> AgentResponse:
        """One turn, the first of its session or one that needs nothing of those before.

        Args:
            session: The session's id.
            messages: What it is sent, the last one of the user's.
            on_chunk: Gets each piece as it comes.
            settings: What is asked of the model; what it ignores its answer says.
            timeout: Seconds for the whole turn, with its wait for those before it.

        Raises:
            AgentError: It brought no whole answer.
        """
        ...

    async def resume(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> tuple[str, AgentResponse]:
        """A turn that knows those before it (`send`): the session's id from now on, and its answer.

        Raises:
            AgentError: There is no such session, or it brought no whole answer.
        """
        ...

    async def stop(self, session: str) -> None:
        """End the session's turns, those that wait as well; what `resume` needs stays. Idempotent,
        bounded.
        """
        ...

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """`messages` as one text: an agent's prompt, or JSON where a model gets each by itself."""
        ...

    async def get_usage(self, session: str) -> Usage | None:
        """What the session has used, with its scope; None where nobody knows."""
        ...

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """What an answer cost; None where nobody knows, which is not 0."""
        ...
