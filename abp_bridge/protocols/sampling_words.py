"""What an MCP server asks a model, in words: for people, and for who has no messages but a task."""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.sanitize import clean


def describe_request(request: JsonObject) -> str:
    """All that the parameters of a `sampling/createMessage` say, without what no eye sees in it."""
    return clean(describe_messages(as_list(request.get("messages"))))[0].strip()


def describe_messages(messages: Sequence[JsonValue]) -> str:
    """Messages one after the other, as they are: what is no text is named."""
    return "\n\n".join(map(_describe, messages))


def _describe(message: JsonValue) -> str:
    said = as_object(message)
    content = said.get("content")
    blocks = content if isinstance(content, list) else [content]
    words = [
        as_text(each.get("text")) or f"[{as_text(each.get('type'), 'something')}]"
        for each in map(as_object, blocks)
    ]
    role = as_text(said.get("role"), "user")
    return "\n".join(words) if role == "user" else f"{role}: " + "\n".join(words)
