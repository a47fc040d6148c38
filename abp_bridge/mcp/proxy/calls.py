"""A server's tools and the host's open calls, with the notes for their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    json_equal,
)
from abp_bridge.jsonrpc import byte_edit
from abp_bridge.jsonrpc.protocol import Id

if TYPE_CHECKING:
    from abp_bridge.session.profiles import Profile

MAX_NOTES = 10  # different ones of one call
MAX_TOOLS = 10_000  # tools of one server that are remembered: it may list without an end
_MORE = "abp-bridge: and more of the kind, see its log."


_STRUCTURED = ("result", "structuredContent")
_ROOM: JsonObject = {"type": "object", "description": "What abp-bridge says beside the result."}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as its server describes it; `harmless` if it declares that it destroys nothing."""

    name: str
    description: str = ""
    harmless: bool = False
    output_schema: JsonObject = field(default_factory=dict)


@dataclass(slots=True)
class OpenCall:
    """A `tools/call` without a result yet; `notes` are added to its result."""

    tool: str
    harmless: bool
    notes: list[str] = field(default_factory=list)


class Calls:
    """One server's tools by name, and the host's open calls by id.

    Attributes:
        gave_up: Whether a possibly destructive call was cancelled: its server may still ask.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.open: dict[Id, OpenCall] = {}
        self.gave_up = False

    def learn(self, result: JsonObject) -> bool:
        """Remember a page of `tools/list`; True if it is the last."""
        for each in as_list(result.get("tools")):
            tool = as_object(each)
            name = as_text(tool.get("name"))
            known = self.tools.get(name)
            if name and (known or len(self.tools) < MAX_TOOLS):
                listed = _decode_tool(name, tool)
                # What destroyed something once is not harmless because its server says so later.
                harmless = listed.harmless and (known is None or known.harmless)
                self.tools[name] = replace(listed, harmless=harmless)
        return result.get("nextCursor") is None

    def begin(self, id: Id, params: JsonObject) -> OpenCall:
        """Note an open call. A tool that was never listed counts as destructive."""
        name = as_text(params.get("name"))
        tool = self.tool(name)
        self.open[id] = call = OpenCall(name, tool.harmless)
        return call

    def give_up(self, id: Id) -> bool:
        """Note that the host cancelled a call; False if it was not open."""
        call = self.open.pop(id, None)
        self.gave_up |= call is not None and not call.harmless
        return call is not None

    def tool(self, name: str) -> Tool:
        return self.tools.get(name) or Tool(name)

    def calls_in_flight(self) -> Sequence[str]:
        """The ids of the calls that a question may belong to, the newest first."""
        return [str(id) for id in reversed(self.open)]

    def tools_called(self) -> Sequence[str]:
        """The tools of those calls, in that order."""
        return [call.tool for call in reversed(self.open.values())]

    def are_harmless(self) -> bool:
        """Whether no open or cancelled call may be destructive."""
        return bool(self.open and not self.gave_up) and all(
            call.harmless for call in self.open.values()
        )

    def note(self, words: str) -> None:
        """Add this to the result of each open call."""
        for call in self.open.values():
            if words not in call.notes and len(call.notes) < MAX_NOTES:
                call.notes.append(words if len(call.notes) < MAX_NOTES - 1 else _MORE)


def _decode_tool(name: str, tool: JsonObject) -> Tool:
    """Decode a tool. A missing or invalid hint counts as destructive, as in MCP."""
    hints = as_object(tool.get("annotations"))
    harmless = hints.get("readOnlyHint") is True or hints.get("destructiveHint") is False
    return Tool(
        name, as_text(tool.get("description")), harmless, as_object(tool.get("outputSchema"))
    )


def make_room(line: bytes, result: JsonObject) -> bytes:
    """Return a list of tools whose closed output schemas allow the notes."""
    from abp_bridge.protocols.mcp.results import MEMBER, wants_room  # once needed

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
    from abp_bridge.protocols.mcp.results import MEMBER, has_room  # once needed

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
