"""What an app or a server asks of a model -> what an agent is sent, and its answer -> the content
of the question's answer.

An agent is sent what the person has seen: text, without what no eye sees in it. What it cannot be
sent is refused, never left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from abp_bridge.core import sanitize
from abp_bridge.core.agent_turn import AgentMessage, AgentResponse, Cost, ModelSettings, Role
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, as_texts
from abp_bridge.core.question import LONGEST_MESSAGE, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.elicitation import encode_sampling
from abp_bridge.protocols.mcp.sampling import SAMPLED, is_servers_own

_ROLES: dict[JsonValue, Role] = {"user": "user", "assistant": "assistant"}
# Advice, or what the person decides: that it is not followed is said with the answer.
_IGNORED = ("modelPreferences", "includeContext", "metadata")
MAX_TOKENS = 1_000_000  # nobody's answer is longer; a number beyond is none
MAX_STOPS = 16
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
    params = encode_sampling(question)
    if as_list(params.get("tools")) or "toolChoice" in params:
        raise RemoteProtocolError("the model would have to call tools of who asks, and has none")
    messages = [_decode_message(each) for each in as_list(params.get("messages"))]
    if not messages or messages[-1].role != "user":
        raise RemoteProtocolError("the last message to a model must be the user's")
    if system := sanitize.message(as_text(params.get("systemPrompt")), LONGEST_MESSAGE):
        messages.insert(0, AgentMessage("system", system))
    if sum(len(each.content) for each in messages) > LONGEST_MESSAGE // 2:
        raise RemoteProtocolError(
            f"a model is sent at most {LONGEST_MESSAGE // 2:,} characters, which its person can see"
        )
    return ModelRequest(
        tuple(messages),
        _decode_settings(params),
        tuple(word for word in _IGNORED if word in params),
        "\n\n".join(map(_show, messages)),
    )


def _decode_message(raw: JsonValue) -> AgentMessage:
    said = as_object(raw)
    role, content = _ROLES.get(said.get("role")), said.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = as_texts([as_object(block).get("text") for block in blocks])
    if role is None or len(texts) != len(blocks):
        raise RemoteProtocolError("a model of the bridge's own is sent text only")
    return AgentMessage(role, sanitize.message("\n".join(texts), LONGEST_MESSAGE))


def _decode_settings(params: JsonObject) -> ModelSettings:
    tokens, temperature = params.get("maxTokens"), params.get("temperature")
    whole = isinstance(tokens, int) and not isinstance(tokens, bool)
    number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if tokens is not None and not (whole and 0 < tokens <= MAX_TOKENS):  # type: ignore[operator]
        raise RemoteProtocolError(f"maxTokens must be a whole number from 1 to {MAX_TOKENS}")
    if temperature is not None and not number:
        raise RemoteProtocolError("temperature must be a number")
    stops = as_texts(as_list(params.get("stopSequences")))
    if len(stops) > MAX_STOPS:
        raise RemoteProtocolError(f"there may be at most {MAX_STOPS} stopSequences")
    return ModelSettings(
        tokens if isinstance(tokens, int) else None,
        float(temperature) if isinstance(temperature, (int, float)) else None,
        tuple(stops),
    )


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
