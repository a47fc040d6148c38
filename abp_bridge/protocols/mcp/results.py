"""How a call ended -> CallToolResult, and structured content that fits the `outputSchema`.

Hosts refuse results that break the schema, and some refuse the whole list for one bad schema. So
only keywords that all validators read alike are published, with room for the bridge's own note.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from abp_bridge.core.capability import CallResult, Failure, SavedFile, describe_place
from abp_bridge.core.json_value import (
    Json,
    JsonObject,
    JsonValue,
    as_list,
    as_number,
    as_object,
    as_text,
    well_formed,
)
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.core.schema import ANNOTATIONS, check, is_undecided, normalize
from abp_bridge.core.surface import UnaskedQuestion, describe_unasked
from abp_bridge.core.words import find_codec
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.client import LOG_LEVELS, V2025_03_26, V2025_06_18, V2026_07_28

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


MEMBER = "abpBridge"  # of a structured result: what the bridge says itself
RESULT = "result"  # the app's data, where they are no object
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_NOTE: JsonObject = {
    "type": "object",
    "description": (
        "What the bridge says beside the app's data, or in their place: that the call still runs,"
        " which files were saved, what the app told."
    ),
    "properties": {
        "message": {"type": "string"},
        "call": {"type": "string", "description": "The call that still runs, for abp_wait."},
        "files": {"type": "array", "items": {"type": "object"}},
        "told": {"type": "array", "items": {"type": "string"}},
        "data": {"description": "The app's data, with the files where they were."},
    },
}


class _UnportableError(Exception):
    """Something that validators do not read alike."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The schema that a tool's results fit.

    Attributes:
        schema: The tool's `outputSchema`.
        wraps: Whether data that are not an object are in its member `RESULT`.
    """

    schema: JsonObject
    wraps: bool = False


def promise(schema: JsonObject) -> Promise | None:
    """Return what can be promised for results that fit `schema`, with room for `MEMBER`.

    Returns:
        None if not every result could fit.
    """
    if not schema:
        return None
    try:
        clean = _clean(normalize(schema), strict=False)
    except (RemoteProtocolError, _UnportableError):
        return None
    wraps = clean.get("type") != "object"
    if wraps:
        clean = {"type": "object", "properties": {RESULT: clean}, "required": [RESULT]}
    properties = as_object(clean.get("properties"))
    if MEMBER in properties:
        return None
    opened: dict[str, JsonValue] = {**clean, "properties": {**properties, MEMBER: _NOTE}}
    if "required" in opened:
        ways: list[JsonValue] = [{"required": opened.pop("required")}, {"required": [MEMBER]}]
        opened["allOf"] = [*as_list(opened.get("allOf")), {"anyOf": ways}]
    if check({MEMBER: {}}, opened):
        return None
    return Promise(as_object(well_formed(opened)), wraps)


def encode_structured(
    data: JsonValue, note: JsonObject, promised: Promise
) -> tuple[JsonObject, list[str]]:
    """Return `data` as structured content with the bridge's note, and what does not fit.

    Data too large to be checked go into `MEMBER`.
    """
    whole = {RESULT: data} if promised.wraps else data
    if not isinstance(whole, Mapping):
        return {}, ["it must be an object"]
    if MEMBER in whole:
        return {}, [f"its member {MEMBER} is the bridge's own"]
    made = {**whole, **encode_note(note)}
    problems = check(made, promised.schema)
    if problems and is_undecided(made, promised.schema):
        return encode_note({**note, "message": _UNCHECKED, "data": data}), []
    return made, problems


_UNCHECKED = "The app's data are too large to be checked against the tool's outputSchema."


def has_room(structured: JsonValue, schema: JsonObject) -> bool:
    """Whether the bridge's note may be added to a server's `structured` content."""
    if not isinstance(structured, Mapping) or MEMBER in structured:
        return False
    try:
        clean = _clean(normalize(schema), strict=False)
    except (RemoteProtocolError, _UnportableError):
        return False
    return not check({**structured, **encode_note({"message": ""})}, clean)


def wants_room(schema: JsonObject) -> bool:
    """Whether an `outputSchema` allows no extra members, so that it must name `MEMBER`."""
    named = schema.get("properties", {})
    closed = schema.get("additionalProperties", True) is not True
    return closed and isinstance(named, Mapping) and MEMBER not in named


def encode_note(note: JsonObject) -> dict[str, JsonValue]:
    """What the bridge has to say, alone; nothing where that is nothing."""
    return {MEMBER: dict(note)} if note else {}


# --- a schema that every validator reads alike ----------------------------------------------------


def _clean(part: JsonValue, *, strict: bool) -> dict[str, JsonValue]:
    """Return a schema without annotations and keywords that only some validators check.

    Args:
        part: The schema.
        strict: Whether dropping a keyword would change the meaning, as within `not`.

    Raises:
        _UnportableError: A keyword cannot be dropped.
    """
    if isinstance(part, bool):
        return {} if part else {"not": {}}
    if not isinstance(part, Mapping):
        raise _UnportableError
    made: dict[str, JsonValue] = {}
    for word, value in part.items():
        if word in ("title", "description") and isinstance(value, str):
            made[word] = value
        elif word in _LOOSE and not strict:
            continue
        elif (read := _READERS.get(word)) is not None:
            made[word] = read(value, strict)
        elif word not in ANNOTATIONS and not word.startswith("x-"):
            raise _UnportableError
    return made


# Patterns have dialects, formats are read in many ways, and fractions are rounded in some.
_LOOSE = ("pattern", "format", "multipleOf")


def _check(fits: bool, value: JsonValue) -> JsonValue:
    if not fits:
        raise _UnportableError
    return value


def _several(value: JsonValue) -> Sequence[JsonValue]:
    if not isinstance(value, list):
        raise _UnportableError
    return value


def _type(value: JsonValue, strict: bool) -> JsonValue:
    kinds = value if isinstance(value, list) else [value]
    known = all(isinstance(each, str) and each in _TYPES for each in kinds)
    return _check(bool(kinds) and known and len(set(map(str, kinds))) == len(kinds), value)


def _names(value: JsonValue, strict: bool) -> JsonValue:
    names = [each for each in _several(value) if isinstance(each, str)]
    return _check(len(set(names)) == len(_several(value)), value)


def _count(value: JsonValue, strict: bool) -> JsonValue:
    return _check(isinstance(value, int) and not isinstance(value, bool) and value >= 0, value)


def _number(value: JsonValue, strict: bool) -> JsonValue:
    return _check(as_number(value) is not None, value)


def _parts(strict: bool | None = None) -> Callable[[JsonValue, bool], JsonValue]:
    def read(value: JsonValue, around: bool) -> JsonValue:
        _check(bool(value), value)
        inner = around if strict is None else strict
        return [_clean(each, strict=inner) for each in _several(value)]

    return read


def _named_parts(value: JsonValue, strict: bool) -> JsonValue:
    _check(isinstance(value, Mapping), value)
    return {name: _clean(each, strict=strict) for name, each in as_object(value).items()}


def _additional(value: JsonValue, strict: bool) -> JsonValue:
    return value if isinstance(value, bool) else _clean(value, strict=strict)


_READERS: Mapping[str, Callable[[JsonValue, bool], JsonValue]] = {
    "type": _type,
    "enum": lambda value, strict: _check(bool(_several(value)), value),
    "const": lambda value, strict: value,
    "properties": _named_parts,
    "additionalProperties": _additional,
    "items": lambda value, strict: _clean(value, strict=strict),
    "required": _names,
    "allOf": _parts(),
    "anyOf": _parts(),
    "oneOf": _parts(strict=True),
    "not": lambda value, strict: _clean(value, strict=True),
    "uniqueItems": lambda value, strict: _check(isinstance(value, bool), value),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
}
