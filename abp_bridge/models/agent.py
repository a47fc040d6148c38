"""What an agent, or a model, is to whoever wants one turn of it: `AgentProtocol`.

A local agent is a program on this machine, with its own sessions, and often its own tools; a model
behind an API has neither. Parsing what they say is the protocols' (`models/cli_turn.py`).
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
class CliConfig:
    """How an agent's own process is run.

    Attributes:
        tools: Whether the agent may use its own tools.
        environment: What it is given beside ours; of a model behind an API its key, too.
    """

    tools: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a session begins.

    Attributes:
        workspace: The folder that the agent works in, as an absolute path; empty for one of its
            own, which is empty and goes with the session.
        user_id: Whom it works for, in the caller's own word: it comes back with each answer
            (`metadata.user`), and is told to nobody else.
        session_id: The id that the session is to have; empty for a new one.
        cli_config: How its process is run.
    """

    workspace: str = ""
    user_id: str = ""
    session_id: str = ""
    cli_config: CliConfig = field(default_factory=CliConfig)


class AgentProtocol(Protocol):
    """One agent. Sessions are named by ids; each turn of one ends before its next begins.

    What has a body here is what holds for an agent that is derived from this and says no more.
    """

    transport_type: Transport  # a program here, or a model behind an API

    async def available(self) -> Availability:
        """Whether it can be had here, for which no session is begun: yes, where it needs nothing.
        Never says a key.
        """
        return Availability()

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
        stream: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> AgentResponse:
        """One turn, the first of its session or one that needs nothing of those before.

        Args:
            session: The session's id.
            messages: What it is sent, the last one of the user's.
            on_chunk: Gets each piece as it comes, by `stream_message`.
            settings: What is asked of the model; what it ignores its answer says.
            stream: Whether pieces are told at all.
            timeout_ms: Milliseconds for the whole turn, with its wait for those before it.

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
        stream: bool = True,
        timeout_ms: int = TIMEOUT_MS,
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

    def stream_message(self, session: str, chunk: Chunk, on_chunk: OnChunk = ignore_chunk) -> None:
        """A piece of a turn of that session has come: whoever listens is told, as it is."""
        on_chunk(chunk)

    def open_stream(self) -> StreamParser:
        """What reads a stream of this agent's, from its beginning."""
        ...

    def parse_stream(self, data: bytes) -> Sequence[StreamPart]:
        """What stands in `data` by itself, with nothing before it: no bytes are the end.

        A message in two pieces is read by `open_stream`.
        """
        parser = self.open_stream()
        return parser.feed(data) if data else parser.end()

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """`messages` as one text: an agent's prompt, or JSON where a model gets each by itself."""
        ...

    async def get_usage(self, session: str) -> Usage | None:
        """What the session has used, or the billing period, where the agent tells that: its scope
        says which. None where nobody knows.
        """
        return None

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """What an answer cost; None where nobody knows, which is not 0."""
        return None
