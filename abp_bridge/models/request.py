"""Convert a sampling question to messages for an agent, and its answer to the question's content;
and ask the user before a request is sent and before its answer leaves.

An agent is sent only what the user has seen: visible text, and images by kind and size. A request
with anything else is refused, never shortened.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping
from dataclasses import dataclass

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_number,
    as_object,
    as_text,
    as_texts,
)
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import (
    MAX_MESSAGE,
    Choice,
    Field,
    FieldType,
    Kind,
    Permission,
    Question,
    quote,
)
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.models.agent import (
    AgentMessage,
    AgentResponse,
    Image,
    ModelSettings,
    Role,
    images_of,
)
from abp_bridge.protocols.mcp.elicitation import encode_sampling
from abp_bridge.protocols.mcp.sampling import SAMPLED, is_servers_own

_ROLES: dict[JsonValue, Role] = {"user": "user", "assistant": "assistant"}
# Hints, or the user's decision: the answer lists them as ignored.
_IGNORED = ("modelPreferences", "includeContext", "metadata")
MAX_SENT = MAX_MESSAGE // 2  # characters; quoting, line by line, may double them
MAX_IMAGE = 5 * 2**20  # bytes: what each provider takes
MAX_IMAGES = 8 * 2**20  # bytes of all in one request; in base64 they fit a line of JSON-RPC
# The kinds that every provider takes -> what each begins with.
_IMAGES: Mapping[str, bytes] = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_STOP_REASONS = {"length": "maxTokens", "tool_calls": "toolUse", "stop_sequence": "stopSequence"}


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn, as it is sent to an agent.

    Attributes:
        ignored: Members of the request that are not sent.
        words: Everything that is sent, as the user sees it.
    """

    messages: tuple[AgentMessage, ...]
    settings: ModelSettings
    ignored: tuple[str, ...]
    words: str


def decode_request(question: Question) -> ModelRequest:
    """Decode a sampling question.

    Raises:
        RemoteProtocolError: An agent cannot be sent it, or it is too long to show.
    """
    params = encode_sampling(question)
    if params.get("tools") or "toolChoice" in params:
        raise RemoteProtocolError("the model would have to call tools of who asks, and has none")
    messages = [_decode_message(each) for each in as_list(params.get("messages"))]
    last = messages[-1] if messages else AgentMessage("user", "")
    if last.role != "user" or not (last.content or last.images):
        raise RemoteProtocolError("the last message to a model must be words of the user's")
    if sum(each.size for each in images_of(messages)) > MAX_IMAGES:
        raise _too_large()
    if system := _clean(params.get("systemPrompt") or ""):
        messages.insert(0, AgentMessage("system", system))
    settings = _decode_settings(params if is_servers_own(question.request) else {})
    if sum(map(len, [*(each.content for each in messages), *settings.stop_sequences])) > MAX_SENT:
        raise _too_long()
    return ModelRequest(
        tuple(messages),
        settings,
        tuple(word for word in _IGNORED if word in params),
        "\n\n".join([*map(_show, messages), *_show_stops(settings)]),
    )


def _clean(text: JsonValue) -> str:
    """Return a text without invisible characters."""
    if not isinstance(text, str):
        raise _no_text()
    if len(text) > MAX_MESSAGE:  # longer ones would be cut
        raise _too_long()
    return sanitize.message(text, MAX_MESSAGE)


def _no_text(what: JsonValue = "") -> RemoteProtocolError:
    named = f", and this is {sanitize.label(what, 40)}" if as_text(what) else ""
    return RemoteProtocolError(
        f"a model of the person's is sent text, and images in what the user says{named}"
    )


def _too_long() -> RemoteProtocolError:
    return RemoteProtocolError(
        f"a model is sent at most {MAX_SENT:,} characters, which its person can see"
    )


def _too_large() -> RemoteProtocolError:
    return RemoteProtocolError(
        f"a model is sent images of at most {MAX_IMAGE // 2**20} MiB each, and"
        f" {MAX_IMAGES // 2**20} MiB in all"
    )


def _decode_message(raw: JsonValue) -> AgentMessage:
    said = as_object(raw)
    role, content = _ROLES.get(as_text(said.get("role"))), said.get("content")
    blocks = [*map(as_object, content if isinstance(content, list) else [content])]
    images = [_decode_image(each) for each in blocks if each.get("type") == "image"]
    rest = [each for each in blocks if each.get("type") != "image"]
    texts = [as_text(each.get("text")) for each in rest if _is_text(each)]
    if role is None or not blocks or len(texts) != len(rest) or (images and role != "user"):
        odd = (each.get("type") for each in rest if not _is_text(each))
        raise _no_text(next(odd, "") if role else "")
    return AgentMessage(role, _clean("\n".join(texts)), tuple(images))


def _is_text(block: JsonObject) -> bool:
    return block.get("type", "text") == "text" and isinstance(block.get("text"), str)


def _decode_image(block: JsonObject) -> Image:
    """Decode an image whose bytes match its MIME type: providers refuse others."""
    data, kind = as_text(block.get("data")), as_text(block.get("mimeType"))
    if len(data) > MAX_IMAGE * 4 // 3 + 4:
        raise _too_large()
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        content = b""
    if kind not in _IMAGES or not content.startswith(_IMAGES[kind]):
        named = ", ".join(each.removeprefix("image/") for each in _IMAGES)
        raise RemoteProtocolError(f"an image must be one of {named}, in base64, and say which")
    return Image(data, kind, len(content))


def _decode_settings(params: JsonObject) -> ModelSettings:
    temperature = params.get("temperature")
    tokens = as_integer(params.get("maxTokens"))
    if params.get("maxTokens") is not None and not (tokens and tokens > 0):
        raise RemoteProtocolError("maxTokens must be a whole number above 0")
    if temperature is not None and as_number(temperature) is None:
        raise RemoteProtocolError("temperature must be a number")
    return ModelSettings(
        tokens,
        as_number(temperature),
        _decode_stops(params.get("stopSequences") or []),
    )


def _decode_stops(raw: JsonValue) -> tuple[str, ...]:
    stops = as_texts(raw)
    seen = all(sanitize.reveal(each) == each for each in stops)
    if not (isinstance(raw, list) and len(stops) == len(raw) and seen):
        raise RemoteProtocolError("stopSequences must be texts that can be seen")
    return tuple(stops)


def _show_stops(settings: ModelSettings) -> list[str]:
    stops = [f"'{sanitize.escape(each)}'" for each in settings.stop_sequences]
    return [f"stopSequences: {', '.join(stops)}"] if stops else []


def _show(message: AgentMessage) -> str:
    shown = [
        f"[{each.kind.removeprefix('image/').upper()} image, {each.size:,} bytes]"
        for each in message.images
    ]
    words = "\n".join(filter(None, [*shown, message.content]))
    return words if message.role == "user" else f"{message.role}: {words}"


def encode_response(
    question: Question, response: AgentResponse, text: str, model: str
) -> dict[str, JsonValue]:
    """Return the content of the question's answer.

    Args:
        text: The model's text, or the user's edit of it.
        model: The model's name, if the response has none.
    """
    if not is_servers_own(question.request):
        return {"result": text}
    why = response.stop_reason  # MCP's may be left out, where nobody has said why
    stop: JsonObject = {"stopReason": _STOP_REASONS.get(why, "endTurn")} if why else {}
    content: JsonObject = {"type": "text", "text": text}
    name = response.model or model
    return {SAMPLED: {"role": "assistant", "content": content, "model": name, **stop}}


def describe_response(
    response: AgentResponse, model: str, ignored: tuple[str, ...]
) -> dict[str, JsonValue]:
    """Return an answer's metadata: its model, usage, cost and ignored settings."""
    usage = response.usage
    cost = None if usage is None else usage.cost
    ignored += response.ignored
    tokens: dict[str, JsonValue] = {}
    if usage is not None:
        tokens = {"input": usage.input, "output": usage.output}
    return {
        "model": response.model or model,
        **({"usage": tokens} if tokens else {}),
        **({"cost": {"amount": cost.amount, "unit": cost.unit}} if cost is not None else {}),
        **({"ignored": list(ignored)} if ignored else {}),
    }


DECISION, ANSWER = "decision", "answer"
APPROVERS = (
    AnsweredBy.PERSON,
    AnsweredBy.SCRIPT,
)  # no one else may send a request or pass on an answer


class Decision(enum.Enum):
    """The user's decision; the value is what a host sends for it."""

    REFUSE = "refuse"
    SEND = "send"
    REVIEW = "review"  # send it, and show them the answer before it leaves
    SEND_ALL = "send-all"  # and whatever else this app sends in this session


class Review(enum.Enum):
    """The user's decision about an answer; the value is what a host sends for it."""

    KEEP = "keep"
    PASS = "pass"  # noqa: S105 - no password
    EDIT = "edit"


def make_approval(id: str, asked: Question, model: str, sent: str) -> Question:
    """Return the question whether `model` may be sent `sent`, the whole text, safe to show."""
    app = label(asked.origin)
    labels = {
        Decision.REFUSE: "Do not send it",
        Decision.SEND: "Send it",
        Decision.REVIEW: "Send it, and show me the answer first",
        Decision.SEND_ALL: f"Send it, and all that {app} sends in this session",
    }
    words = f"May this be sent to {label(model)}? The answer goes back to {app}."
    return _make_select(id, asked, [words, quote(sent)], labels)


def make_review(id: str, asked: Question, model: str, answer: str, *, editable: bool) -> Question:
    """Return the question whether a model's `answer` may leave."""
    app = label(asked.origin)
    labels = {
        Review.KEEP: "Keep it back",
        Review.PASS: f"Pass it on to {app}",
        Review.EDIT: "Change it first",
    }
    if not editable:
        del labels[Review.EDIT]
    words = f"{label(model)} answered. May this go to {app}?"
    return _make_select(id, asked, [words, quote(answer)], labels)


def make_edit(id: str, asked: Question, answer: str) -> Question:
    """Return the question that lets the user edit a model's `answer`."""
    field = Field(
        ANSWER, FieldType.TEXT, {"type": "string", "default": answer}, "Answer", default=answer
    )
    words = f"What you write here goes to {label(asked.origin)} as the model's answer."
    return _make_question(id, asked, Kind.INPUT, words, field)


def read_decision(answer: Answer) -> Decision:
    """Read the decision: refuse, unless the user or an answers file said otherwise."""
    return Decision(_chosen(answer, Decision.REFUSE.value))


def read_review(answer: Answer) -> Review:
    """Read the review: keep the answer back, unless the user or an answers file said otherwise."""
    return Review(_chosen(answer, Review.KEEP.value))


def _chosen(answer: Answer, safe: str) -> object:
    approved = answer.outcome is Outcome.ACCEPTED and answer.answered_by in APPROVERS
    return answer.content.get(DECISION) if approved else safe


def _make_select(
    id: str,
    asked: Question,
    paragraphs: list[str],
    labels: Mapping[Decision, str] | Mapping[Review, str],
) -> Question:
    values = [each.value for each in labels]
    field = Field(
        DECISION,
        FieldType.CHOICE,
        {"enum": values, "default": values[0]},
        "Decision",
        default=values[0],
        choices=tuple(Choice(each.value, each.value, words) for each, words in labels.items()),
    )
    return _make_question(id, asked, Kind.SELECT, "\n\n".join(paragraphs), field)


def _make_question(id: str, asked: Question, kind: Kind, whole: str, field: Field) -> Question:
    shown = message(whole)
    return Question(
        id,
        kind,
        shown,
        (field,),
        asked.origin,
        permits=Permission.SAMPLING,
        uncut="" if shown == whole else whole,
    )
