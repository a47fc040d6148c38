"""Capabilities as MCP tools, and as text for a model. Descriptions carry what a revision lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping

from abp_bridge.core import sanitize
from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import Json, JsonObject, JsonValue, as_text, well_formed
from abp_bridge.protocols.mcp.client import V2025_03_26, V2025_06_18, V2026_07_28
from abp_bridge.protocols.mcp.results import Promise, promise

# Model providers refuse a whole tool list for one of these at the root of one schema; the bridge
# checks arguments against the original.
_ROOT_COMBINATORS = (
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "enum",
    "const",
    "if",
    "then",
    "else",
    "$ref",
)
_NAME_LIMIT = 64  # characters of a name: what model providers take
ABOUT = "abp-bridge/capability"  # in `_meta`: what ABP says and MCP has no word for
ROOM = 20_000  # characters of capabilities in one result: hosts cut longer ones, and do not say so


def tool_name(capability: str, taken: Container[str] = ()) -> str:
    """Return a unique name like `abp_export_pdf`: at most 64 letters, digits, `_` and `-`."""
    base = "abp_" + re.sub(r"[^A-Za-z0-9_-]+", "_", capability).strip("_")
    name, number = base[:_NAME_LIMIT], 2
    while name in taken:
        suffix = f"_{number}"
        name, number = base[: _NAME_LIMIT - len(suffix)] + suffix, number + 1
    return name


def encode_tool(
    name: str, capability: Capability, origin: str, version: str = V2026_07_28
) -> dict[str, Json]:
    """Encode a capability as a tool; what hosts refuse at a schema's root goes into the
    description.
    """
    schema, moved = _portable(capability.input_schema)
    promised = find_promise(capability.output_schema, version)
    made: dict[str, Json] = {
        "name": name,
        "description": _description(capability, origin, moved, promises=promised is not None),
    }
    has_titles = version >= V2025_06_18
    made |= {"title": capability.title} if capability.title and has_titles else {}
    made |= {"inputSchema": well_formed(schema)}
    made |= {} if promised is None else {"outputSchema": dict(promised.schema)}
    if version >= V2025_03_26 and (hints := _hints(capability)):
        title = {"title": capability.title} if capability.title and not has_titles else {}
        made |= {"annotations": {**title, **hints}}
    about = _about(capability)
    return made | ({"_meta": {ABOUT: about}} if about and version >= V2025_06_18 else {})


def find_promise(schema: JsonObject, version: str) -> Promise | None:
    """What a tool of a capability with this `outputSchema` promises, in a `version` that can."""
    return promise(schema) if version >= V2025_06_18 else None


def _portable(given: JsonObject) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """A schema that every host reads, and what is taken from its root for that."""
    schema = {word: value for word, value in given.items() if word not in _ROOT_COMBINATORS}
    properties, required = schema.get("properties"), schema.pop("required", None)
    schema["type"] = "object"
    # A host that reads one malformed schema may refuse the whole list of tools.
    named = properties.items() if isinstance(properties, Mapping) else ()
    schema["properties"] = {
        name: part if isinstance(part, (Mapping, bool)) else {} for name, part in named
    }
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        schema["required"] = required
    if not isinstance(schema.get("$schema", ""), str):
        del schema["$schema"]
    return schema, {word: given[word] for word in _ROOT_COMBINATORS if word in given}


def _description(capability: Capability, origin: str, moved: JsonObject, *, promises: bool) -> str:
    shown = sanitize.label(capability.name)
    returned = "" if promises else capability.output_schema
    notes = [
        capability.description or f"The capability {shown}.",
        f"(Capability {shown} of the app {sanitize.label(origin)}.)",
        *_remarks(capability),
        f"The arguments must also fit {sanitize.message(_json(moved))}." if moved else "",
        # Where no outputSchema can be kept to by whatever the bridge may have to answer.
        f"Its result fits {sanitize.message(_json(returned))}." if returned else "",
    ]
    return " ".join(filter(None, notes))


def _remarks(capability: Capability) -> Iterable[str]:
    """What a model should know before it calls, a sentence each."""
    if capability.deprecated:
        yield f"Deprecated: {capability.deprecated.rstrip('.')}."
    if capability.alternatives:
        yield f"Alternatives: {', '.join(capability.alternatives)}."
    if capability.experimental:
        yield "Experimental."
    if not capability.available:
        yield "The app says that it is not available now."
    if needs := [_requirement(each) for each in capability.requirements]:
        yield f"Requires {'; '.join(needs)}."


def _requirement(each: JsonObject) -> str:
    kind, words = as_text(each.get("type")), as_text(each.get("description"))
    said = ": ".join(filter(None, (kind, words))) or "something"
    met = {True: "met", False: "not met"}.get(each.get("met") is True)
    cure = as_text(each.get("resolution"))
    state = ", ".join(filter(None, (met if "met" in each else "", cure)))
    return f"{said} ({state})" if state else said


def _hints(capability: Capability) -> dict[str, JsonValue]:
    """MCP's annotations: the app's own, and what it says of destroying in ABP's words."""
    said: dict[str, JsonValue] = {}
    if capability.destructive and not capability.presumed:
        said["destructiveHint"] = True
    elif capability.harmless and capability.hints.get("readOnlyHint") is not True:
        said["destructiveHint"] = False
    return {**said, **capability.hints}


def _about(capability: Capability) -> dict[str, JsonValue]:
    about: dict[str, JsonValue] = {
        "requirements": list(capability.requirements),
        "deprecated": capability.deprecated,
        "alternatives": list(capability.alternatives),
        "experimental": capability.experimental,
    }
    kept = {name: value for name, value in about.items() if value}
    kept |= {} if capability.available else {"available": False}
    return {"name": capability.name, **kept} if kept else {}


# --- in words, for a host that does not list its tools again --------------------------------------


def describe_capability(tool: str, capability: Capability) -> dict[str, JsonValue]:
    """Return all a model needs to call it by `abp_call`; `tool` is empty without a tool."""
    about: dict[str, JsonValue] = {
        "name": capability.name,
        "tool": tool,
        "title": capability.title,
        "description": capability.description,
        "inputSchema": dict(capability.input_schema),
        "outputSchema": dict(capability.output_schema),
        "annotations": _hints(capability),
        **_about(capability),
    }
    return {name: each for name, each in about.items() if each not in ("", [], {})}


def describe_capabilities(tools: Iterable[tuple[str, Capability]], room: int = ROOM) -> str:
    """List capabilities, a line and a line of JSON each, within `room` characters.

    The others are named only. Long descriptions are in the JSON, as their lines could imitate ours.
    """
    lines: list[str] = []
    left_out: list[str] = []
    for tool, capability in tools:
        said = describe_capability(tool, capability)
        in_line = "\n" not in as_text(said.get("description", "\n"))
        about = f": {said.pop('description')}" if in_line else ""
        also = f" ({said.pop('tool')})" if tool else ""
        line = f"- {said.pop('name')}{also}{about}"
        line += f"\n  {_json(said)}" if said else ""
        room -= len(line)
        if room >= 0:
            lines.append(line)
        else:
            room += len(line)
            left_out.append(capability.name)
    if left_out:
        example = _json({"capability": left_out[0]})
        lines.append(
            f"Left out here for their length, {len(left_out)}: {', '.join(left_out)}. Their"
            f" parameters come with abp_status, one at a time: {example}."
        )
    return "\n".join(lines)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
