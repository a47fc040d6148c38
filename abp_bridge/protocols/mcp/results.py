"""MCP's tools, results and notifications made from an app's capabilities, call results and
notices.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Container, Mapping, Sequence

from abp_bridge.core import sanitize
from abp_bridge.core.capability import CallResult, Capability, SavedFile, describe_place
from abp_bridge.core.json_value import Json, JsonValue, well_formed
from abp_bridge.core.notice import Notice, NoticeKind, Progress
from abp_bridge.core.ways import UnaskedQuestion, describe_unasked
from abp_bridge.protocols.mcp.versions import LOG_LEVELS, V2025_03_26, V2025_06_18, V2026_07_28

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
_NAME_LIMIT = 64
LOG = "notifications/message"


def tool_name(capability: str, taken: Container[str] = ()) -> str:
    """`export.pdf` -> `abp_export_pdf`: at most 64 letters, digits, `_` and `-`, different from all
    `taken`.
    """
    base = "abp_" + re.sub(r"[^A-Za-z0-9_-]+", "_", capability).strip("_")
    name, number = base[:_NAME_LIMIT], 2
    while name in taken:
        suffix = f"_{number}"
        name, number = base[: _NAME_LIMIT - len(suffix)] + suffix, number + 1
    return name


def encode_tool(name: str, capability: Capability, origin: str) -> dict[str, Json]:
    """A capability as a tool.

    Its schema keeps its properties; what hosts refuse at a schema's root is said in the description
    instead.
    """
    schema = {
        word: value
        for word, value in capability.input_schema.items()
        if word not in _ROOT_COMBINATORS
    }
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
    moved = {
        word: capability.input_schema[word]
        for word in _ROOT_COMBINATORS
        if word in capability.input_schema
    }
    shown = sanitize.label(capability.name)
    returned = capability.output_schema
    notes = [
        capability.description or f"The capability {shown}.",
        f"(Capability {shown} of the app {sanitize.label(origin)}.)",
        f"Deprecated: {capability.deprecated}." if capability.deprecated else "",
        "Experimental." if capability.experimental else "",
        "" if capability.available else "The app says that it is not available now.",
        f"The arguments must also fit {sanitize.message(_json(moved))}." if moved else "",
        # Not as an outputSchema: a host refuses a result without it, and a call may be parked.
        f"Its result fits {sanitize.message(_json(returned))}." if returned else "",
    ]
    description = " ".join(filter(None, notes))
    made: dict[str, Json] = {"name": name, "description": description}
    made |= {"title": capability.title} if capability.title else {}
    made |= {"inputSchema": well_formed(schema)}
    return made | ({"annotations": capability.hints} if capability.hints else {})


def encode_result(
    result: CallResult,
    *,
    summary: Sequence[str] = (),
    files: Sequence[SavedFile] = (),
    unasked: Sequence[UnaskedQuestion] = (),
    version: str = V2026_07_28,
) -> dict[str, Json]:
    """How a call ended -> CallToolResult.

    Args:
        result: The app's own.
        summary: What the app told while it ran, a line each.
        files: What was saved.
        unasked: What no person was asked.
        version: The revision of MCP that the host speaks.
    """
    if result.failure is not None:
        lines = [str(result.failure)]
        if result.failure.details is not None:
            lines.append(f"Details: {_json(result.failure.details)}")
        if result.failure.alternatives:
            lines.append(f"The app suggests instead: {', '.join(result.failure.alternatives)}")
        if result.data is not None:
            lines.append(f"Data: {_json(result.data)}")
    else:
        lines = [result.data if isinstance(result.data, str) else _json(result.data)]
    if isinstance(note := result.metadata.get("note"), str):
        lines.append(f"Note: {note}.")
    content: list[Json] = [_encode_text_block("\n".join(lines))]
    for file in files:
        content += [*_encode_embedded(file, version), _encode_link(file, version)]
    if summary:
        content.append(
            _encode_text_block(
                "While it ran, the app told:\n" + "\n".join(f"- {line}" for line in summary)
            )
        )
    if lines := describe_unasked(unasked):
        content.append(_encode_text_block("\n".join(lines)))
    return {"content": content, "isError": result.failure is not None}


def encode_text(words: str, *, error: bool = False) -> dict[str, Json]:
    """A CallToolResult of the bridge's own."""
    return {"content": [_encode_text_block(words)], "isError": error}


def encode_progress(
    token: JsonValue, progress: Progress, version: str = V2026_07_28
) -> dict[str, Json]:
    """The parameters of `notifications/progress`, without words in a `version` that has none."""
    params: dict[str, Json] = {
        "progressToken": token,
        "progress": _plain_number(progress.value),
    }
    if progress.total is not None:
        params["total"] = _plain_number(progress.total)
    if progress.message and version >= V2025_03_26:
        params["message"] = progress.message
    return params


def encode_log(notice: Notice, origin: str) -> dict[str, Json]:
    """The parameters of `notifications/message` for what an app told."""
    return {
        "level": _level(notice),
        "logger": origin,
        "data": {"event": notice.name, "data": well_formed(notice.data)},
    }


def _level(notice: Notice) -> str:
    """A server's own level of what it logs, and a page's console's."""
    logs = notice.name == LOG or notice.kind is NoticeKind.CONSOLE
    level = notice.data.get("level") if logs else None
    return str(level) if level in LOG_LEVELS else "error" if notice.failed else "info"


def _encode_text_block(words: str) -> dict[str, Json]:
    return {"type": "text", "text": well_formed(words)}


_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_WORDS = ("text/", "application/json")


def _encode_embedded(file: SavedFile, version: str) -> list[Json]:
    """What a model can see or hear of a file, beside the link to it."""
    kind = file.mime_type.partition(";")[0].strip().lower()
    if file.content is None:
        return []
    resource: dict[str, Json] = {"uri": file.uri, "mimeType": kind}
    if not file.path:  # nowhere else to be had
        return [{"type": "resource", "resource": resource | {"blob": _base64(file.content)}}]
    if kind in _PICTURES or kind.startswith("audio/"):
        data = _base64(file.content)
        if kind in _PICTURES or version >= V2025_03_26:
            return [{"type": kind.partition("/")[0], "data": data, "mimeType": kind}]
        return [{"type": "resource", "resource": resource | {"blob": data}}]
    if kind.startswith(_WORDS) and (words := _read(file.content, file.mime_type)) is not None:
        return [{"type": "resource", "resource": resource | {"text": words}}]
    return []


def _read(content: bytes, mime_type: str) -> str | None:
    """Text in the encoding that is declared; None when it is not."""
    declared = re.search(r"charset=\"?([\w.:-]+)", mime_type, re.IGNORECASE)
    try:
        return content.decode(declared[1] if declared else "utf-8")
    except (LookupError, UnicodeError):
        return None


def _encode_link(file: SavedFile, version: str) -> dict[str, Json]:
    saved = describe_place(file)
    if version < V2025_06_18:
        return _encode_text_block(
            f"{saved} ({file.mime_type}, {file.size} bytes), as the resource {file.uri}"
        )
    return {
        "type": "resource_link",
        "uri": file.uri,
        "name": file.name,
        "mimeType": file.mime_type,
        "size": file.size,
        "description": saved,
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _plain_number(value: float) -> float | int:
    return int(value) if value.is_integer() else value
