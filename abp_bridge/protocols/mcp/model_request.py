"""What an app or a server asks of a model -> what an agent is sent, and its answer -> the content
of the question's answer.

An agent is sent what the person has seen: text, without what no eye sees in it. What it cannot be
sent is refused, never left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from abp_bridge.core import sanitize
from abp_bridge.core.agent_turn import AgentMessage, AgentResponse, Cost, ModelSettings, Role
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_number,
    as_object,
    as_texts,
)
from abp_bridge.core.question import LONGEST_MESSAGE, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.elicitation import encode_sampling
from abp_bridge.protocols.mcp.sampling import SAMPLED, is_servers_own

_ROLES: dict[JsonValue, Role] = {"user": "user", "assistant": "assistant"}
# Advice, or what the person decides: that it is not followed is said with the answer.
_IGNORED = ("modelPreferences", "includeContext", "metadata")
MAX_SENT = LONGEST_MESSAGE // 2  # characters: quoted, line by line, they may be twice as many
MAX_TOKENS = 1_000_000  # nobody's answer is longer; a number beyond is none
MAX_STOPS = 16
MAX_STOP = 100  # characters of each: it ends an answer, and says nothing
_STOP_REASONS = {"length": "maxTokens", "tool_calls": "toolUse", "stop_sequence": "stopSequence"}


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn, as an agent is sent it.

    Attributes:
        messages: What it is sent.
        settings: What is asked of the model.
        ignored: The members of the request that no agent is sent.
        words: All that it is sent, as the person is shown it.
    """

    messages: tuple[AgentMessage, ...]
    settings: ModelSettings
    ignored: tuple[str, ...]
    words: str


def decode_request(question: Question) -> ModelRequest:
    """A sampling question -> what an agent is sent for it.

    Raises:
        RemoteProtocolError: It holds what an agent cannot be sent, or is too long to be shown.
    """
    task = question.request.get("task")
    if isinstance(task, str):  # its message may be the beginning of it
        question = replace(question, message=_clean(task))
    params = encode_sampling(question)
    if params.get("tools") or "toolChoice" in params:
        raise RemoteProtocolError("the model would have to call tools of who asks, and has none")
    messages = [_decode_message(each) for each in as_list(params.get("messages"))]
    if not messages or messages[-1].role != "user" or not messages[-1].content:
        raise RemoteProtocolError("the last message to a model must be words of the user's")
    if system := _clean(params.get("systemPrompt") or ""):
        messages.insert(0, AgentMessage("system", system))
    if sum(len(each.content) for each in messages) > MAX_SENT:
        raise _too_long()
    settings = _decode_settings(params if is_servers_own(question.request) else {})
    return ModelRequest(
        tuple(messages),
        settings,
        tuple(word for word in _IGNORED if word in params),
        "\n\n".join([*map(_show, messages), *_show_stops(settings)]),
    )


def _clean(text: JsonValue) -> str:
    """All of a text, without what no eye sees in it."""
    if not isinstance(text, str):
        raise _no_text()
    if len(text) > LONGEST_MESSAGE:  # longer ones would be cut
        raise _too_long()
    return sanitize.message(text, LONGEST_MESSAGE)


def _no_text() -> RemoteProtocolError:
    return RemoteProtocolError("a model of the person's is sent text only")


def _too_long() -> RemoteProtocolError:
    return RemoteProtocolError(
        f"a model is sent at most {MAX_SENT:,} characters, which its person can see"
    )


def _decode_message(raw: JsonValue) -> AgentMessage:
    said = as_object(raw)
    role, content = _ROLES.get(said.get("role")), said.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = as_texts([_text_of(as_object(block)) for block in blocks])
    if role is None or not texts or len(texts) != len(blocks):
        raise _no_text()
    return AgentMessage(role, _clean("\n".join(texts)))


def _text_of(block: JsonObject) -> JsonValue:
    return block.get("text") if block.get("type", "text") == "text" else None


def _decode_settings(params: JsonObject) -> ModelSettings:
    tokens, temperature = params.get("maxTokens"), params.get("temperature")
    whole = isinstance(tokens, int) and not isinstance(tokens, bool)
    if tokens is not None and not (whole and 0 < tokens <= MAX_TOKENS):  # type: ignore[operator]
        raise RemoteProtocolError(f"maxTokens must be a whole number from 1 to {MAX_TOKENS}")
    if temperature is not None and as_number(temperature) is None:
        raise RemoteProtocolError("temperature must be a number")
    return ModelSettings(
        tokens if isinstance(tokens, int) else None,
        as_number(temperature),
        _decode_stops(params.get("stopSequences") or []),
    )


def _decode_stops(raw: JsonValue) -> tuple[str, ...]:
    stops = as_texts(raw)
    seen = all(sanitize.reveal(each) == each and len(each) <= MAX_STOP for each in stops)
    if not (isinstance(raw, list) and len(stops) == len(raw) <= MAX_STOPS and seen):
        raise RemoteProtocolError(
            f"stopSequences must be at most {MAX_STOPS} texts of at most {MAX_STOP} characters that"
            " can be seen"
        )
    return tuple(stops)


def _show_stops(settings: ModelSettings) -> list[str]:
    stops = [f"'{sanitize.escape(each)}'" for each in settings.stop_sequences]
    return [f"stopSequences: {', '.join(stops)}"] if stops else []


def _show(message: AgentMessage) -> str:
    return message.content if message.role == "user" else f"{message.role}: {message.content}"


def encode_response(
    question: Question, response: AgentResponse, text: str, model: str
) -> dict[str, JsonValue]:
    """What a model answered -> the content of the question's answer.

    Args:
        question: What was asked of it.
        response: Its answer.
        text: The words that leave: its own, or the person's.
        model: The model's name, where it said none itself.
    """
    if not is_servers_own(question.request):
        return {"result": text}
    stop = _STOP_REASONS.get(response.stop_reason or "", "endTurn")
    content: JsonObject = {"type": "text", "text": text}
    name = response.model or model
    result: JsonObject = {"role": "assistant", "content": content, "model": name}
    return {SAMPLED: {**result, "stopReason": stop}}


def describe_response(
    response: AgentResponse, cost: Cost | None, model: str, ignored: tuple[str, ...]
) -> dict[str, JsonValue]:
    """What is told of an answer besides: who gave it, what it took, and what was not kept."""
    usage = response.usage
    tokens: dict[str, JsonValue] = {}
    if usage is not None:
        tokens = {"input": usage.input, "output": usage.output}
    return {
        "model": response.model or model,
        **({"usage": tokens} if tokens else {}),
        **({"cost": {"amount": cost.amount, "unit": cost.unit}} if cost is not None else {}),
        **({"ignored": list(ignored)} if ignored else {}),
    }
