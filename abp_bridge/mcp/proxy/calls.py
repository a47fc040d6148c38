"""A server's tools and the host's open calls, with the notes for their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from abp_bridge.core.json_value import JsonObject, as_list, as_object, as_text
from abp_bridge.jsonrpc.protocol import Id

MAX_NOTES = 10  # different ones of one call
_MORE = "abp-bridge: and more of the kind, see its log."
MAX_TOOLS = 10_000  # of one server, that are remembered; of others nothing is known


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
