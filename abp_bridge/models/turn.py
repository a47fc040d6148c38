"""One turn of an agent or a model in any protocol: messages, pieces, answer, cost, errors."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from abp_bridge.core.json_value import JsonObject
from abp_bridge.errors import AbpBridgeError

MAX_ANSWER = 4 * 2**20  # characters of all messages of one turn: a model that goes on and on
MAX_MESSAGES = 10_000  # with an id of their own in one turn: each is kept, an empty one as well
MAX_CALLS = 10_000  # tools called in one turn, which all stand in its answer
SHORT = 500  # characters of an agent's own words in an error

Role = Literal["system", "user", "assistant"]
Parsed = Literal["message", "partial", "eof", "error"]
Scope = Literal["turn", "session", "period"]


class AgentErrorCode(enum.StrEnum):
    """Why there is no answer. A closed set."""

    NOT_AVAILABLE = "NOT_AVAILABLE"  # it is not installed, or nothing is configured
    AUTH_REQUIRED = "AUTH_REQUIRED"  # its user must sign in, or the key is wrong
    RATE_LIMITED = "RATE_LIMITED"  # its model is asked too often
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"  # the model declines to answer this
    TRUNCATED = "TRUNCATED"  # what came is not the whole answer
    SESSION_UNKNOWN = "SESSION_UNKNOWN"  # there is nothing to go on with
    PROTOCOL = "PROTOCOL"  # it says what its protocol has not
    AGENT_DIED = "AGENT_DIED"
    NETWORK = "NETWORK"  # its model cannot be reached
    NO_IMAGES = "NO_IMAGES"  # it takes text only, and has seen nothing of what it was to be sent
    FAILED = "FAILED"  # it says itself that it failed, in words only


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


@dataclass(frozen=True, slots=True)
class StreamPart:
    """A part of parsed output.

    Attributes:
        kind: A whole `message`; `partial` for an incomplete one; `eof`; or an `error`.
        error: What is wrong, safe to show.
    """

    kind: Parsed
    message: JsonObject = field(default_factory=dict)
    error: str = ""


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
