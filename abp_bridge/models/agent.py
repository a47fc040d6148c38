"""The interface of an agent or a model, `AgentProtocol`, and one turn of it in any protocol: its
messages, pieces, answer, cost and errors.

A local agent is a program with its own sessions, and often its own tools; a model behind an API
has neither.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from abp_bridge.core.json_value import JsonObject
from abp_bridge.errors import AbpBridgeError
from abp_bridge.models.streams import StreamParser, StreamPart

MAX_ANSWER = 4 * 2**20  # characters of all messages of one turn: a model may never stop
MAX_PARTS = 10_000  # messages, and tool calls, of one turn: each is kept, an empty one as well
SHORT = 500  # characters of an agent's own words in an error

Role = Literal["system", "user", "assistant"]
Scope = Literal["turn", "session", "period"]


class AgentErrorCode(enum.StrEnum):
    """Why there is no answer. A closed set."""

    NOT_AVAILABLE = "NOT_AVAILABLE"  # not installed or not configured
    AUTH_REQUIRED = "AUTH_REQUIRED"  # the user must sign in, or the key is wrong
    RATE_LIMITED = "RATE_LIMITED"  # too many requests
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"  # the model declines to answer this
    TRUNCATED = "TRUNCATED"  # the answer is not complete
    SESSION_UNKNOWN = "SESSION_UNKNOWN"  # there is no session to resume
    PROTOCOL = "PROTOCOL"  # a message that its protocol does not allow
    AGENT_DIED = "AGENT_DIED"
    NETWORK = "NETWORK"  # the model cannot be reached
    NO_IMAGES = "NO_IMAGES"  # it takes text only; nothing was sent
    FAILED = "FAILED"  # the agent says that it failed, as text only


class AgentError(AbpBridgeError):
    """A turn without an answer.

    Attributes:
        retry_after: Seconds until it may be tried again; None if not known.
        partial: The answer up to a requested limit of tokens.
    """

    def __init__(
        self,
        code: AgentErrorCode,
        message: str,
        *,
        retry_after: float | None = None,
        partial: AgentResponse | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.partial = partial


class EndlessTurnError(AgentError):
    """A turn beyond one of the bounds above: it `does` (a verb) more than `most` of `what`."""

    def __init__(self, does: str, most: int, what: str) -> None:
        super().__init__(
            AgentErrorCode.TRUNCATED, f"it {does} more than {most:,} {what} in one turn"
        )


class ToolsNeededError(AgentError):
    """It cannot run without its tools, or used them without permission."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message.

    Attributes:
        data: Base64.
        kind: Its MIME type, which its bytes match.
        size: Bytes.
    """

    data: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """One message of a conversation; only the user's have images."""

    role: Role
    content: str
    images: tuple[Image, ...] = ()


def images_of(messages: Sequence[AgentMessage]) -> list[Image]:
    """Return all images of a conversation, in order."""
    return [image for each in messages for image in each.images]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of a turn; None and empty leave them to the agent (`AgentResponse.ignored`).

    Attributes:
        max_tokens: Maximum tokens of the answer.
        stop_sequences: Texts that end the answer.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the settings that are set, as in MCP."""
        named = {
            "maxTokens": self.max_tokens is not None,
            "temperature": self.temperature is not None,
            "stopSequences": bool(self.stop_sequences),
        }
        return tuple(name for name, given in named.items() if given)


NO_SETTINGS = ModelSettings()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a turn."""

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """What something cost.

    Attributes:
        amount: In `unit`.
        unit: An ISO 4217 currency code.
        source: `agent`, or the name of a price table.
    """

    amount: float
    unit: str
    scope: Scope = "turn"
    source: str = "agent"


@dataclass(frozen=True, slots=True)
class Usage:
    """Input and output tokens, None if unknown; agents count them over different scopes."""

    scope: Scope = "turn"
    input: int | None = None
    output: int | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """A whole answer.

    Attributes:
        content: The text of its last message; None for none.
        tool_calls: The tools it called, in order.
        stop_reason: In the agent's own words.
        model: As the agent names it; may be empty.
        ignored: Settings it could not keep (`ModelSettings.given`).
    """

    content: str | None
    tool_calls: Sequence[ToolCall] = ()
    usage: Usage | None = None
    stop_reason: str | None = None
    model: str = ""
    ignored: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)


class ChunkKind(enum.StrEnum):
    """The named kinds of pieces of a turn; others keep the agent's own name."""

    TEXT = "text"
    THOUGHT = "thought"
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a turn; `kind` is a `ChunkKind` or the agent's own name."""

    kind: str
    text: str = ""
    data: JsonObject = field(default_factory=dict)


Transport = Literal["llm", "local_agent"]
OnChunk = Callable[[Chunk], None]
TIMEOUT_MS = 300_000  # agents work for minutes


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

    def find_obstacle(self, *, images: bool = False) -> str:
        """Return why it cannot be used, as far as can be seen without starting it; empty if it can.

        Args:
            images: Whether it would be sent images.
        """
        return ""

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
