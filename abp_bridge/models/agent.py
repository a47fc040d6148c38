"""The interface of an agent or a model: `AgentProtocol`.

A local agent is a program with its own sessions, and often its own tools; a model behind an API
has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from abp_bridge.models.streams import StreamParser
from abp_bridge.models.turn import (
    NO_SETTINGS,
    AgentMessage,
    AgentResponse,
    Chunk,
    Cost,
    ModelSettings,
    StreamPart,
    Usage,
)

Transport = Literal["llm", "local_agent"]
OnChunk = Callable[[Chunk], None]
TIMEOUT_MS = 300_000  # for a turn of which nobody says more: agents work for minutes


def ignore_chunk(chunk: Chunk) -> None:
    """Ignore a chunk."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether an agent can be used here.

    Attributes:
        why_not: What is missing and how to fix it; empty if it can be used.
        version: As the agent says it; may be empty.
    """

    why_not: str = ""
    version: str = ""

    @property
    def ok(self) -> bool:
        """Whether it can be used."""
        return not self.why_not


@dataclass(frozen=True, slots=True)
class CliConfig:
    """How an agent's process is run.

    Attributes:
        tools: Whether the agent may use its own tools.
        environment: Variables added to ours; the key of a model behind an API may be one.
    """

    tools: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a session begins.

    Attributes:
        workspace: The agent's working directory, an absolute path; empty for a new, empty one.
        user_id: Comes back in each answer's `metadata.user`; sent nowhere.
        session_id: The session's id; empty for a new one.
    """

    workspace: str = ""
    user_id: str = ""
    session_id: str = ""
    cli_config: CliConfig = field(default_factory=CliConfig)


class AgentProtocol(Protocol):
    """One agent; bodies are defaults. Each turn of a session ends before its next begins."""

    transport_type: Transport  # a program here, or a model behind an API

    async def available(self) -> Availability:
        """Whether it can be used here; begins no session and never contains a key."""
        return Availability()

    async def start(self, options: StartOptions) -> str:
        """Begin a session and return its id. Raises AgentError."""
        ...

    async def send(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        stream: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> AgentResponse:
        """Run a turn that needs none of those before it.

        Args:
            session: The session's id.
            messages: The conversation, the last message the user's.
            on_chunk: Gets each piece by `stream_message`, unless `stream` is false.
            settings: Ignored ones are listed in the answer.
            timeout_ms: Milliseconds for the turn and its wait for earlier ones.

        Raises:
            AgentError: There is no whole answer.
        """
        ...

    async def resume(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        stream: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[str, AgentResponse]:
        """Run a turn that continues the session; return the session's id from now on and the
        answer.

        Raises:
            AgentError: There is no such session, or no whole answer.
        """
        ...

    async def stop(self, session: str) -> None:
        """End the session's turns; what `resume` needs remains. Idempotent, bounded."""
        ...

    def stream_message(self, session: str, chunk: Chunk, on_chunk: OnChunk = ignore_chunk) -> None:
        """Report a piece of a turn of that session to its listener."""
        on_chunk(chunk)

    def open_stream(self) -> StreamParser:
        """Return a parser for this agent's output."""
        ...

    def parse_stream(self, data: bytes) -> Sequence[StreamPart]:
        """Parse complete output; no bytes are the end. Use `open_stream` for output in pieces."""
        parser = self.open_stream()
        return parser.feed(data) if data else parser.end()

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """Return `messages` as an agent's prompt, or as JSON for a model behind an API."""
        ...

    async def get_usage(self, session: str) -> Usage | None:
        """Return what the session, or the billing period, has used; None if unknown."""
        return None

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """Return what an answer cost; None if unknown, which is not 0."""
        return None
