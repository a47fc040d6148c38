"""What the schemas of MCP and ACP let a bridge say otherwise, and mean the same: tables.

A kind of object has, for each member that may be absent, what its absence means. It compares
nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core.json_value import JsonValue
from abp_bridge.replay.placeholders import ANY
from abp_bridge.trace.format import AGENT, HOST, TOOLS

REST = "*"  # the members that a table does not name
Absence = Mapping[str, Sequence[JsonValue]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object in a protocol. A list is of the kind of its items.

    Attributes:
        members: the kinds of its members; what is not named there is compared as it is.
        absence: by member, the values that say what its absence says, `[any]` where that is
            nothing that a bridge is held to; none where absent and present are never the same.
    """

    members: Mapping[str, Kind] = field(default_factory=dict)
    absence: Absence = field(default_factory=dict)

    def member(self, name: str) -> Kind:
        """What kind of object stands under `name`."""
        return self.members.get(name, self.members.get(REST, EXACT))

    def absent(self, name: str) -> Sequence[JsonValue]:
        """The values that say what the absence of `name` says."""
        return self.absence.get(name, self.absence.get(REST, ()))


EXACT = Kind()


def kind_of(party: str, host: str) -> Kind:
    """What kind a message to `party` is; `host` is what the head says of the host's protocol."""
    return _KINDS.get((host if party == HOST else party).partition(" ")[0], EXACT)


def _open(absence: Absence, known: Mapping[str, Kind] = EXACT.members) -> Kind:
    """A kind whose members are of the same kind, but for those that are known."""
    members = dict(known)
    members[REST] = Kind(members, absence)
    return members[REST]


_META = Kind({}, {REST: (ANY,), "io.modelcontextprotocol/subscriptionId": ()})
_OFFERED = _open({REST: (ANY, False, None)})  # to the host, who need not use it
_JSON_SCHEMA = {"required": ([],), "$schema": ("https://json-schema.org/draft/2020-12/schema",)}
_PROPERTIES = Kind({REST: Kind({}, _JSON_SCHEMA)})
_SCHEMA = Kind({"properties": _PROPERTIES}, _JSON_SCHEMA)

# --- MCP ---


def _noted(members: Mapping[str, Kind] = EXACT.members, absence: Absence = EXACT.absence) -> Kind:
    """A kind of MCP's that may have notes."""
    return Kind({"_meta": _META, **members}, {"_meta": ({},), **absence})


_CONTENT = _noted({"resource": _noted()})
_ASKED = Kind({"requestedSchema": _SCHEMA}, {"mode": ("form",)})
_TOOL = {
    "annotations": Kind(
        {},
        {
            "readOnlyHint": (False,),
            "destructiveHint": (True,),
            "idempotentHint": (False,),
            "openWorldHint": (True,),
        },
    ),
    "execution": Kind({}, {"taskSupport": ("forbidden",)}),
    "inputSchema": _SCHEMA,
    "outputSchema": _SCHEMA,
}
_PARAMS = {"messages": _noted({"content": _CONTENT}), **_ASKED.members}
_RESULT = {
    "capabilities": _OFFERED,
    "content": _CONTENT,
    "contents": _noted(),
    "inputRequests": Kind({REST: Kind({"params": _ASKED}, {"params": ({},)})}),
    "resources": _noted(),
    "resourceTemplates": _noted(),
    "tools": _noted(_TOOL, {"annotations": ({},), "execution": ({},)}),
}
_UNSAID: Absence = {"isError": (False,), "structuredContent": (ANY,), "instructions": (ANY,)}
_MCP = Kind(
    {
        "params": _noted(_PARAMS, {**_ASKED.absence, "includeContext": ("none",)}),
        "result": _noted(_RESULT, _UNSAID),
    },
    {"params": ({},)},
)

# --- ACP: null is absent, and whatever is no answer and nothing of a tool's own has notes ---

_NULL: Absence = {REST: (None,), "_meta": ({}, None)}
_AS_IT_IS = {"_meta": _META, "rawInput": EXACT, "rawOutput": EXACT, "requestedSchema": _SCHEMA}
_ITEM = _open(_NULL, _AS_IT_IS)
_OFF: Absence = {"fs": ({},), "auth": ({},)}
_CLIENT = _open({REST: (False, None), **_OFF, "_meta": ({}, None)}, {"_meta": _META})
_OFFERS = ("auth", "mcpCapabilities", "promptCapabilities", "sessionCapabilities")
_AGENT = Kind(_OFFERED.members, {**_OFFERED.absence, **dict.fromkeys(_OFFERS, (ANY, {}))})
_INITIALIZED: Absence = {
    **_NULL,
    "agentInfo": (ANY, None),
    "agentCapabilities": ({},),
    "authMethods": ([],),
}
_TO_CLIENT = Kind(
    {"params": _ITEM, "result": Kind({**_ITEM.members, "agentCapabilities": _AGENT}, _INITIALIZED)}
)
_TO_AGENT = Kind(
    {
        "params": Kind({**_ITEM.members, "clientCapabilities": _CLIENT}, _NULL),
        "result": Kind({"_meta": _META}, {"_meta": ({}, None)}),
    }
)

_KINDS = {
    "mcp": _MCP,
    TOOLS: _MCP,
    "acp": _TO_CLIENT,
    AGENT: _TO_AGENT,
    "abp": _open({"_meta": (ANY,)}),
}
