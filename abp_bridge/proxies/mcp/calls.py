"""What is known of a server's tools, and which of the host's calls are open: where a question of
the server's may belong, and what is to be said of it with the call's result.

It remembers; what passes, and what is asked, is not its business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from abp_bridge.core import sanitize
from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.rpc.protocol import Id

MAX_TOOLS = 10_000  # of one server, that are remembered; of others nothing is known


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
    """

    def __init__(self) -> None:
        self.tools: dict[str, Capability] = {}
        self.open: dict[Id, OpenCall] = {}

    def learn(self, result: JsonObject) -> bool:
        """Remember a page of `tools/list`: whether it is the last."""
        for each in as_list(result.get("tools")):
            tool = as_object(each)
            if (name := as_text(tool.get("name"))) and len(self.tools) < MAX_TOOLS:
                self.tools[name] = _decode_tool(name, tool)
        return result.get("nextCursor") is None

    def begin(self, id: Id, params: JsonObject) -> OpenCall:
        """The host calls a tool. One that was never listed may destroy something."""
        name = as_text(params.get("name"))
        tool = self.tool(name)
        self.open[id] = call = OpenCall(name, not tool.destructive)
        return call

    def tool(self, name: str) -> Capability:
        """What is known of the tool `name`."""
        return self.tools.get(name) or Capability(name, destructive=True)

    def carriers(self) -> Sequence[str]:
        """The ids of the calls that a question may belong to now, the newest first."""
        return [str(id) for id in reversed(self.open)]

    def are_harmless(self) -> bool:
        """Whether a question belongs to a call that destroys nothing, whichever it is."""
        return bool(self.open) and all(call.harmless for call in self.open.values())

    def note(self, words: str) -> None:
        """Say this with the result of each call that is open now."""
        for call in self.open.values():
            call.notes.append(words)


def _decode_tool(name: str, tool: JsonObject) -> Capability:
    hints = as_object(tool.get("annotations"))
    return Capability(
        name,
        sanitize.message(as_text(tool.get("description"))),
        destructive=not _is_harmless(hints.get("readOnlyHint"), hints.get("destructiveHint")),
    )


def _is_harmless(read_only: JsonValue, destructive: JsonValue) -> bool:
    """As MCP has it: a hint that is absent, or none, says the worst."""
    return read_only is True or destructive is False
