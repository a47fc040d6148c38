"""An MCP server's sampling request -> `Question`, and the model's reply -> its result."""

from __future__ import annotations

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, to_text
from abp_bridge.core.question import Kind, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.host_words import describe_messages

NO_ANSWER = -1  # the code of a request that was refused, as MCP's page on sampling has it
MAX_TASK = 32_000  # characters of what a model is asked, where people are told of it
ABOUT = "abp-bridge/model"  # in `_meta`: what an answer took, and what was not kept
# Of the request itself. Who declares no tasks answers as if none were asked for (MCP 2025-11-25).
_ENVELOPE = ("_meta", "task")
SAMPLED = "message"  # the member of an answer's content that has a host's whole result


def decode_sampling(raw: JsonValue, *, id: str, origin: str) -> Question:
    """Decode the parameters of `sampling/createMessage`.

    Args:
        raw: The parameters.
        id: The question's id.
        origin: The server, as the bridge knows it.

    Raises:
        RemoteProtocolError: There are no messages.
    """
    params = {word: value for word, value in as_object(raw).items() if word not in _ENVELOPE}
    messages = params.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RemoteProtocolError("sampling/createMessage needs a list of at least one message")
    return Question(
        id=id,
        kind=Kind.SAMPLING,
        message=sanitize.message(describe_messages(messages), MAX_TASK),
        fields=(),
        origin=origin,
        request=params,
    )


def is_servers_own(request: JsonObject) -> bool:
    """Whether these parameters of a question are those of a server's `sampling/createMessage`."""
    return "task" not in request and bool(as_list(request.get("messages")))


def decode_whole(result: JsonValue) -> dict[str, JsonValue]:
    """Return a `sampling/createMessage` result as the answer's content.

    Raises:
        RemoteProtocolError: It is empty.
    """
    if "content" not in as_object(result):
        raise RemoteProtocolError("the host's model answered without content")
    return {SAMPLED: result}


def encode_refused(why: str) -> JsonObject:
    """The error of a server's request that nobody answered."""
    return {"code": NO_ANSWER, "message": sanitize.label(why, sanitize.LINE_LIMIT)}


def encode_sampled(answer: Answer) -> dict[str, JsonValue]:
    """Encode the model's reply; a model other than an MCP host's is unknown."""
    if whole := as_object(answer.content.get(SAMPLED)):
        if not answer.metadata:
            return dict(whole)
        return {**whole, "_meta": {ABOUT: answer.metadata, **as_object(whole.get("_meta"))}}
    text = to_text(answer.content.get("result", ""))
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "unknown"}
