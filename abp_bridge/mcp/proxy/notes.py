"""Puts the bridge's notes into a call's response where the host's model reads them."""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    json_equal,
)
from abp_bridge.jsonrpc import byte_edit
from abp_bridge.protocols.mcp.results import MEMBER, has_room, wants_room
from abp_bridge.session.profiles import Profile

_STRUCTURED = ("result", "structuredContent")
_ROOM: JsonObject = {"type": "object", "description": "What abp-bridge says beside the result."}


def make_room(line: bytes, result: JsonObject) -> bytes:
    """Return a list of tools whose closed output schemas allow the notes."""
    closed = {
        index
        for index, tool in enumerate(as_list(result.get("tools")))
        if wants_room(as_object(as_object(tool).get("outputSchema")))
    }
    inner = ("outputSchema", "properties", MEMBER)
    return byte_edit.put_in_items(line, ("result", "tools"), closed, inner, _ROOM)


def add_notes(
    line: bytes, response: JsonObject, notes: Sequence[str], host: Profile, schema: JsonObject
) -> bytes:
    """Return the line of a response with `notes` added.

    Args:
        schema: The tool's `outputSchema` as the host has it; empty if there is none.
    """
    if "result" not in response:
        words = " ".join([as_text(as_object(response.get("error")).get("message")), *notes])
        return byte_edit.put_member(line, ("error", "message"), words)
    result = as_object(response["result"])
    if host.reads_structured and result.get("structuredContent") is not None:
        line, notes = _note_structured(line, result, notes, schema)
    for words in notes:
        text = f"\n{words}" if host.joins_texts else words
        line = byte_edit.append_item(line, ("result", "content"), {"type": "text", "text": text})
    return line


def _note_structured(
    line: bytes, result: JsonObject, notes: Sequence[str], schema: JsonObject
) -> tuple[bytes, Sequence[str]]:
    """Add the notes to the structured content, or turn that into text if no schema needs it."""
    structured = result.get("structuredContent")
    if has_room(structured, schema):
        note: JsonObject = {"message": "\n".join(notes)}
        return byte_edit.put_member(line, (*_STRUCTURED, MEMBER), note), notes
    if schema:
        return line, notes
    line, words = byte_edit.cut_member(line, _STRUCTURED)
    said = _is_said(structured, as_list(result.get("content")))
    return line, notes if said else [words, *notes]


def _is_said(structured: JsonValue, content: Sequence[JsonValue]) -> bool:
    """Whether a text of the content is the structured one as JSON."""
    texts = (as_object(each).get("text") for each in content)
    read = (byte_edit.parse_line(text.encode()) for text in texts if isinstance(text, str))
    return any(json_equal(each, structured) for each in read)
