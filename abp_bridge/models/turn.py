"""One turn of an agent or a model, in no protocol's words: what it is sent, what it says meanwhile,
its answer with what that cost, and how a turn fails.
"""

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
    """Why there is no answer. The set is closed: each says what its caller can do."""

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
    """A turn that brought no answer.

    Attributes:
        code: Why.
        retry_after: Seconds after which it may be tried again, where it said so.
        partial: What came before the limit of tokens that was asked for, marked as such: no whole
            answer, and nothing else ever has one.
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
    """A turn that goes beyond one of the bounds above.

    Args:
        does: What it does too much of, as in `calls`.
        most: How many it may.
        what: Of what.
    """

    def __init__(self, does: str, most: int, what: str) -> None:
        super().__init__(
            AgentErrorCode.TRUNCATED, f"it {does} more than {most:,} {what} in one turn"
        )


class ToolsNeededError(AgentError):
    """It cannot be had without its own tools, or used them where it may not."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that goes with a message.

    Attributes:
        data: Its bytes in base64.
        kind: Its MIME type, which is what the bytes say too.
        size: Its bytes.
    """

    data: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """One message of a conversation; only a user's has images."""

    role: Role
    content: str
    images: tuple[Image, ...] = ()


def images_of(messages: Sequence[AgentMessage]) -> list[Image]:
    """All that go with a conversation, in order."""
    return [image for each in messages for image in each.images]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a turn asks of the model; None and empty leave it to the agent.

    An agent that cannot keep one of them names it in `AgentResponse.ignored`.

    Attributes:
        max_tokens: How many tokens the answer may have.
        temperature: As the model's API has it.
        stop_sequences: Words that end the answer.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those that were set, as MCP has them."""
        named = {
            "maxTokens": self.max_tokens is not None,
            "temperature": self.temperature is not None,
            "stopSequences": bool(self.stop_sequences),
        }
        return tuple(name for name, given in named.items() if given)


NO_SETTINGS = ModelSettings()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that was called in a turn, by its own name."""

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """What something cost.

    Attributes:
        amount: How many of `unit`.
        unit: A currency by its ISO 4217 code, or `turn` where a subscription pays.
        scope: Of what that is the cost.
        source: Who says so: `agent` itself, or a table of prices.
    """

    amount: float
    unit: str
    scope: Scope = "turn"
    source: str = "agent"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that went in and came out; None where nobody says.

    Attributes:
        scope: Of what these are the numbers: agents count differently.
    """

    scope: Scope = "turn"
    input: int | None = None
    output: int | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """A whole answer.

    Attributes:
        content: The text of its last message; None where it said nothing.
        tool_calls: The tools that it called on the way, in order.
        usage: What it took, where that is said.
        stop_reason: Why it stopped, in the agent's own word.
        model: The model that answered, by the agent's own name of it; empty where it says none.
        ignored: The settings that it could not keep (`ModelSettings.given`).
        metadata: What else it said of itself.
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
    """What a stream of bytes holds at one place.

    Attributes:
        kind: A whole `message`; `partial`, where one has begun that is not whole; `eof`, where
            nothing more comes; or an `error`.
        message: The message.
        error: What is wrong, safe to show.
    """

    kind: Parsed
    message: JsonObject = field(default_factory=dict)
    error: str = ""


class ChunkKind(enum.StrEnum):
    """What an agent says while its turn goes on; what has no name here passes by its own."""

    TEXT = "text"
    THOUGHT = "thought"
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a turn.

    Attributes:
        kind: A `ChunkKind`, or the agent's own word for what has none.
        text: Its words.
        data: The rest of it.
    """

    kind: str
    text: str = ""
    data: JsonObject = field(default_factory=dict)
