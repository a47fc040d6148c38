"""What is known of a server's tools, and which of the host's calls are open: where a question of
the server's may belong, and what is to be said of it with the call's result.

It only remembers: the router decides what passes, and `server_questions.py` what is asked.
"""

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
    """A tool as its server describes it: `harmless` is that it says that it destroys nothing, and
    the schema is of its structured results, empty if it names none.
    """

    name: str
    description: str = ""
    harmless: bool = False
    output_schema: JsonObject = field(default_factory=dict)


@dataclass(slots=True)
class OpenCall:
    """A `tools/call` of the host's that has no result yet.

    Attributes:
        tool: What is called.
        harmless: Whether the server says that this destroys nothing.
        notes: What its result is to say besides.
    """

    tool: str
    harmless: bool
    notes: list[str] = field(default_factory=list)


class Calls:
    """One server's tools, and the host's open calls by their ids.

    Attributes:
        tools: The tools that were listed, by name.
        open: The calls.
        gave_up: Whether one that may destroy something was taken back: its server may still ask.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.open: dict[Id, OpenCall] = {}
        self.gave_up = False

    def learn(self, result: JsonObject) -> bool:
        """Remember a page of `tools/list`: whether it is the last."""
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
        """The host calls a tool. One that was never listed may destroy something."""
        name = as_text(params.get("name"))
        tool = self.tool(name)
        self.open[id] = call = OpenCall(name, tool.harmless)
        return call

    def give_up(self, id: Id) -> bool:
        """The host takes a call back: whether it was open."""
        call = self.open.pop(id, None)
        self.gave_up |= call is not None and not call.harmless
        return call is not None

    def tool(self, name: str) -> Tool:
        """What is known of the tool `name`."""
        return self.tools.get(name) or Tool(name)

    def calls_in_flight(self) -> Sequence[str]:
        """The ids of the calls that a question may belong to now, the newest first."""
        return [str(id) for id in reversed(self.open)]

    def tools_called(self) -> Sequence[str]:
        """What those calls call, in that order."""
        return [call.tool for call in reversed(self.open.values())]

    def are_harmless(self) -> bool:
        """Whether a question belongs to a call that destroys nothing, whichever it is."""
        return bool(self.open and not self.gave_up) and all(
            call.harmless for call in self.open.values()
        )

    def note(self, words: str) -> None:
        """Say this with the result of each call that is open now."""
        for call in self.open.values():
            if words not in call.notes and len(call.notes) < MAX_NOTES:
                call.notes.append(words if len(call.notes) < MAX_NOTES - 1 else _MORE)


def _decode_tool(name: str, tool: JsonObject) -> Tool:
    """A hint that is missing, or no boolean, counts as destructive, as MCP has it."""
    hints = as_object(tool.get("annotations"))
    harmless = hints.get("readOnlyHint") is True or hints.get("destructiveHint") is False
    return Tool(
        name, as_text(tool.get("description")), harmless, as_object(tool.get("outputSchema"))
    )
