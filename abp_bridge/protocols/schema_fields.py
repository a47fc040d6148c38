"""A property of a JSON schema -> a `Field`, for all protocols whose questions are schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from abp_bridge.core import sanitize
from abp_bridge.core.answer import carries
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    as_texts,
    to_text,
)
from abp_bridge.core.menu import MAX_ENTRIES, bounds, holds
from abp_bridge.core.options import decode_choices
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Missing
from abp_bridge.core.redact.names import gist, is_secret
from abp_bridge.core.schema import Schema, is_valid, without_null
from abp_bridge.errors import RemoteProtocolError

# What is asked where the answer is an object without members: nothing but to go on.
ACKNOWLEDGE = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"}, title="Go on")

MAX_FIELDS = 200  # fields of a form; every surface shows all of them
MAX_COLUMNS = 20  # of an entry of a list: each entry shows all of them


def asks_nothing(schema: Schema) -> bool:
    """Whether a normal schema wants an object without members."""
    free = any(schema.get(word) for word in ("patternProperties", "additionalProperties"))
    closed = "properties" in schema or schema.get("additionalProperties") is False
    named = schema.get("properties", {}) != {}
    return (
        kind_of(schema) in ("object", "")
        and closed
        and not (free or named)
        and is_valid({}, schema)
    )


def decode_fields(properties: JsonObject, required: JsonValue) -> tuple[Field, ...]:
    """Decode an object schema's `properties` and `required`, in order; the schema is normal.

    Raises RemoteProtocolError for more than `MAX_FIELDS`, or as `decode_field`.
    """
    if len(properties) > MAX_FIELDS:
        raise RemoteProtocolError(
            f"a question may have at most {MAX_FIELDS} fields, not {len(properties)}"
        )
    needed = as_texts(required)
    return tuple(
        decode_field(name, part, required=name in needed) for name, part in properties.items()
    )


def decode_field(name: str, part: JsonValue, *, required: bool) -> Field:
    """Decode a property with a normal schema; an invalid schema is a text field.

    A nullable field may be left empty, and is then null if `required`. A list of objects or a
    multi-type field becomes JSON if its control would change the default.
    Raises RemoteProtocolError for more than `MAX_CHOICES` options.
    """
    schema, nullable = without_null(as_object(part))
    kind, choices = _type(schema)
    columns = _columns(schema) if kind is FieldType.JSON else ()
    default, unseen = fitting(schema.get("default", MISSING), schema), ""
    if default is not MISSING and not choices and (shown := _revealed(default)):
        default, unseen = MISSING, f" (The app proposes what cannot be shown as it is: {shown})"
    columns = columns if holds(columns, schema, default) else ()
    if default is not MISSING and default is not None and not carries(kind, default):
        kind, choices = FieldType.JSON, ()
    description = sanitize.message(as_text(schema.get("description")), 1_000)
    return Field(
        name=name,
        type=FieldType.LIST if columns else kind,
        schema=schema,
        title=sanitize.label(as_text(schema.get("title"))),
        description=f"{description}{unseen}".strip(),
        required=required and not nullable,
        empty=None if required and nullable else MISSING,
        default=default,
        choices=choices,
        columns=columns,
    )


def _revealed(default: JsonValue) -> str:
    """Return a default that has invisible characters, made visible; "" for any other."""
    written = to_text(default)
    shown = sanitize.reveal(written)
    return "" if shown == written else sanitize.label(shown)


def _columns(schema: Schema) -> tuple[Field, ...]:
    """Return the fields of a list of flat objects; none if they cannot give each entry."""
    items = as_object(schema.get("items"))
    properties, required = as_object(items.get("properties")), as_texts(items.get("required"))
    listed = kind_of(schema) == "array" and "prefixItems" not in schema
    if (
        not (listed and kind_of(items) == "object" and 0 < len(properties) <= MAX_COLUMNS)
        or set(required) - properties.keys()
        or not bounds(schema).least <= MAX_ENTRIES
        or not bounds(schema).most
    ):
        return ()
    columns = decode_fields(properties, required)
    return columns if all(each.type in _FLAT for each in columns) else ()


def fitting(default: JsonValue | Missing, schema: Schema) -> JsonValue | Missing:
    """Return a default if it is a valid answer, else MISSING."""
    return default if default is not MISSING and is_valid(default, schema) else MISSING


_FLAT = set(FieldType) - {FieldType.LIST, FieldType.JSON, FieldType.FILE}
_TYPES = {
    "string": FieldType.TEXT,
    "number": FieldType.NUMBER,
    "integer": FieldType.INTEGER,
    "boolean": FieldType.BOOLEAN,
    "array": FieldType.JSON,
    "object": FieldType.JSON,
    "": FieldType.TEXT,
}


def _type(schema: Schema) -> tuple[FieldType, tuple[Choice, ...]]:
    if (choices := _choices(schema)) is not None:
        return FieldType.CHOICE, choices
    kind = kind_of(schema)
    items = schema.get("items")
    if kind == "array" and isinstance(items, Mapping) and (choices := _choices(items)) is not None:
        return FieldType.CHOICES, choices
    if kind == "" and any(
        word in schema for word in ("properties", "items", "allOf", "anyOf", "oneOf")
    ):
        return FieldType.JSON, ()
    return _TYPES.get(kind, FieldType.JSON), ()


def kind_of(schema: Schema) -> str:
    """The first type a schema names besides `null`; empty when it names none."""
    kinds = schema.get("type")
    names = [
        name
        for name in (kinds if isinstance(kinds, list) else [kinds])
        if isinstance(name, str) and name != "null"
    ]
    return names[0] if names else ""


def _choices(schema: Schema) -> tuple[Choice, ...] | None:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values:
        names = schema.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        return decode_choices(
            [(value, label, "") for value, label in zip(values, labels, strict=True)]
        )
    for word in ("oneOf", "anyOf"):
        parts = as_list(schema.get(word))
        constants = [part for part in parts if isinstance(part, Mapping) and "const" in part]
        if constants and len(constants) == len(parts):
            return decode_choices(
                [
                    (part["const"], part.get("title", part["const"]), part.get("description", ""))
                    for part in constants
                ]
            )
    return None


_TYPED = set(FieldType) - {FieldType.BOOLEAN, FieldType.CHOICE, FieldType.CHOICES, FieldType.FILE}


def mark_secrets(
    fields: tuple[Field, ...], around: Sequence[Schema], prompt: str, *, overrules: bool = True
) -> tuple[Field, ...]:
    """Return the fields with secrets marked, as `core.redact.names` decides.

    If only the prompt asks for a secret, all fields that can be typed are secrets.

    Args:
        fields: The fields.
        around: Schemas that may say more, the nearest first.
        prompt: The question's text.
        overrules: Whether the requester may declare that a field is not secret.
    """

    def find(wording: str) -> list[bool]:
        return [
            is_secret(
                each.name,
                each.schema,
                around,
                wording,
                typed=each.type in _TYPED,
                overrules=overrules,
            )
            for each in fields
        ]

    own = find("")
    guessed = not any(own) and any(each.type in _TYPED for each in fields)
    found = find(gist(prompt)) if guessed else own
    return tuple(
        _secret(field) if secret else field for field, secret in zip(fields, found, strict=True)
    )


def _secret(field: Field) -> Field:
    """The field as a secret. A list of them is typed as a whole, where nothing of it shows."""
    kind = FieldType.JSON if field.columns else field.type
    return replace(field, secret=True, type=kind, columns=())
