"""MCP's results and notifications made from an app's call results and notices."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace

from abp_bridge.core.capability import CallResult, Failure, SavedFile, describe_place
from abp_bridge.core.event import Notice, NoticeKind, Progress
from abp_bridge.core.json_value import (
    Json,
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    well_formed,
)
from abp_bridge.core.surface import UnaskedQuestion, describe_unasked
from abp_bridge.core.words import find_codec
from abp_bridge.protocols.mcp.structured import Promise, encode_note, encode_structured
from abp_bridge.protocols.mcp.versions import LOG_LEVELS, V2025_03_26, V2025_06_18, V2026_07_28

LOG = "notifications/message"
_APART = "structuredContent"


def encode_result(
    result: CallResult,
    *,
    summary: Sequence[str] = (),
    files: Sequence[SavedFile] = (),
    unasked: Sequence[UnaskedQuestion] = (),
    version: str = V2026_07_28,
    promised: Promise | None = None,
) -> dict[str, Json]:
    """Encode a CallToolResult.

    Args:
        result: The app's result.
        summary: The app's events during the call, a line each.
        files: The saved files.
        unasked: Questions that could not be asked.
        version: The host's MCP revision.
        promised: The tool's `outputSchema`; a result that does not fit is an error.
    """
    structured: JsonObject | None = None
    if promised is not None and result.failure is None:
        structured, problems = _structure(
            result, [*summary, *describe_unasked(unasked)], files, promised
        )
        if problems:
            structured, result = None, _broken(result, problems)
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
    made: dict[str, Json] = {"content": content, "isError": result.failure is not None}
    return made | ({} if structured is None else {_APART: well_formed(structured)})


def separate_texts(result: JsonObject) -> JsonObject:
    """End each text block but the last with a newline, for hosts that join them."""
    blocks = list(map(as_object, as_list(result.get("content"))))
    texts = [{**each, "text": f"{each['text']}\n"} if "text" in each else each for each in blocks]
    return {**result, "content": [*texts[:-1], *blocks[-1:]]} if blocks else result


def _structure(
    result: CallResult, summary: Sequence[str], files: Sequence[SavedFile], promised: Promise
) -> tuple[JsonObject, list[str]]:
    """Return structured content that also holds the text, as a host may show nothing else.

    Data replaced by a file may not fit; that is not an error.
    """
    note: dict[str, JsonValue] = {
        "files": [{"uri": each.uri, "path": each.path} for each in files],
        "told": list(summary),
        "message": as_text(result.metadata.get("note")),
    }
    note = {name: each for name, each in note.items() if each}
    is_apart = result.structured is not None and not files
    data = result.structured if is_apart else result.data
    if is_apart and isinstance(result.data, list) and result.data[-1:] == [{_APART: data}]:
        note["data"] = result.data[:-1]  # the blocks that stood beside it
    structured, problems = encode_structured(data, note, promised)
    if problems and files:
        return encode_note({**note, "data": result.data}), []
    return structured, problems


def _broken(result: CallResult, problems: Sequence[str]) -> CallResult:
    words = (
        "The app's result does not fit the outputSchema that it gave for it:"
        f" {'; '.join(problems)}. What it returned follows"
    )
    return replace(result, failure=Failure("OPERATION_FAILED", words))


def encode_text(
    words: str, *, error: bool = False, note: JsonObject | None = None
) -> dict[str, Json]:
    """Return a CallToolResult of the bridge.

    Args:
        words: The text.
        error: Whether the call failed.
        note: Structured content in place of the app's, if the tool has an `outputSchema`.
    """
    made: dict[str, Json] = {"content": [_encode_text_block(words)], "isError": error}
    return made | ({_APART: well_formed(encode_note(note))} if note else {})


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
    """Text in the encoding that is declared; None when it is not, or in none of documents."""
    declared = re.search(r"charset=\"?([\w.:-]+)", mime_type, re.IGNORECASE)
    if (codec := find_codec(declared[1] if declared else "utf-8")) is None:
        return None
    try:
        return content.decode(codec.name)
    except UnicodeError:
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
