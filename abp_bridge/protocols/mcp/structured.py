"""A tool's `outputSchema`, and structured content that fits it.

Hosts refuse results that break the schema, and some refuse the whole list for one bad schema. So
only keywords that all validators read alike are published, with room for the bridge's own note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_number,
    as_object,
    well_formed,
)
from abp_bridge.core.normal_schema import normalize
from abp_bridge.core.schema import ANNOTATIONS, check, is_undecided
from abp_bridge.errors import RemoteProtocolError

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
