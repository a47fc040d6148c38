"""Inline a JSON Schema's local references and `allOf`, and separate `null`, for `schema.check`.

`unsupported_keywords` names what remains.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple
from urllib.parse import unquote

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonValue, as_list, as_object, as_text, as_texts, is_deeper
from abp_bridge.core.schema import (
    ANNOTATIONS,
    BY_NAME,
    NESTED,
    SCHEMA_LEVELS,
    SEVERAL,
    Schema,
    is_valid,
)
from abp_bridge.errors import RemoteProtocolError

MAX_DEPTH = 64  # schemas and references within one another; the same
MAX_SIZE = 1_000_000  # characters with all references written out: a few can stand for millions
_VISIT = 25  # of those characters, that looking at a schema costs
_PATTERN = 4_000  # the same, that a pattern costs: compiling one takes up to 10 ms

# Keywords that look at one another: what is said with them is moved together, or not at all.
_TIED = (
    ("properties", "patternProperties", "additionalProperties"),
    ("items", "prefixItems"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
)
_TIES = {word: tied for tied in _TIED for word in tied}
_UNEVALUATED = {"unevaluatedItems", "unevaluatedProperties"}


def normalize(schema: Schema) -> Schema:
    """Return `schema` without local references, definitions and `allOf`.

    Raises:
        RemoteProtocolError: A reference is broken or circular, or the schema is too deep or large.
    """
    if is_deeper(schema, SCHEMA_LEVELS):
        raise RemoteProtocolError(f"the schema is nested more than {SCHEMA_LEVELS} levels deep")
    return as_object(_Walk().visit(schema, _Site(schema, (id(schema),))))


def without_null(schema: Schema) -> tuple[Schema, bool]:
    """Return a normal `schema` without null, and whether it allows null."""
    kinds = as_list(schema.get("type"))
    rest = dict(schema)
    if "null" in kinds and len(kinds) > 1:
        others = [kind for kind in kinds if kind != "null"]
        rest |= {"type": others[0] if len(others) == 1 else others, **_other_options(schema)}
    elif word := next((each for each in ("anyOf", "oneOf") if _has_null(schema.get(each))), None):
        parts = [part for part in as_list(rest.pop(word)) if not _is_null(part)]
        rest = merge(as_object(parts[0]) if len(parts) == 1 else {word: parts}, rest)
    else:
        return schema, False
    return rest, is_valid(None, schema)


def _other_options(schema: Schema) -> dict[str, JsonValue]:
    """Its options but null, each with its name."""
    values, names = as_list(schema.get("enum")), as_list(schema.get("enumNames"))
    options: dict[str, JsonValue] = {}
    for word, listed in (("enum", values), ("enumNames", names)):
        if None in values and len(listed) == len(values):
            options[word] = [
                each for each, value in zip(listed, values, strict=True) if value is not None
            ]
    return options


def _has_null(parts: JsonValue) -> bool:
    nulls = [_is_null(part) for part in as_list(parts)]
    return any(nulls) and not all(nulls)


def _is_null(part: JsonValue) -> bool:
    """Whether it is null and nothing else, and no option with a title of its own."""
    if not isinstance(part, Mapping) or "title" in part:
        return False
    return part.get("type") == "null" or part.get("enum", [part.get("const", "")]) == [None]


# --- what two schemas say of one thing ------------------------------------------------------------


def merge(first: Schema, second: Schema) -> dict[str, JsonValue]:
    """Return a schema that requires both; conflicting parts of `first` stay in `allOf`."""
    if not _UNEVALUATED.isdisjoint((*first, *second)):  # they look at all that stands beside them
        return {**second, "allOf": [*as_list(second.get("allOf")), first]}
    united = _unite(first, second)
    apart = {
        word: value
        for word, value in first.items()
        if word not in united and word not in ANNOTATIONS and _conflicts(word, first, second)
    }
    own = {word: value for word, value in first.items() if word not in apart}
    return {**own, **second, **united, **_all_of(first, second, *filter(None, [apart]))}


def _all_of(first: Schema, second: Schema, *more: JsonValue) -> dict[str, JsonValue]:
    kept = [*as_list(first.get("allOf")), *as_list(second.get("allOf")), *more]
    return {"allOf": kept} if kept else {}


def _unite(first: Schema, second: Schema) -> dict[str, JsonValue]:
    """What both say of one thing, where it can be said at once."""
    united = _all_of(first, second)
    if "required" in first and "required" in second:
        names = (*as_texts(first["required"]), *as_texts(second["required"]))
        united["required"] = list(dict.fromkeys(names))
    one, other = as_object(first.get("properties")), as_object(second.get("properties"))
    open_ended = all(word not in each for word in _TIED[0][1:] for each in (first, second))
    if one and other and open_ended:
        both = {name: _merge_parts(one[name], other[name]) for name in one if name in other}
        united["properties"] = {**one, **other, **both}
    return united


def _merge_parts(first: JsonValue, second: JsonValue) -> JsonValue:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return merge(first, second)
    return first if second is True or first is False else second


def _conflicts(word: str, first: Schema, second: Schema) -> bool:
    tied = _TIES.get(word, (word,))
    return any(each in second for each in tied) and not all(
        (each in first) is (each in second) and _is_same(first.get(each), second.get(each))
        for each in tied
    )


def _is_same(a: JsonValue, b: JsonValue) -> bool:
    """Surely equal: what is large is not looked through."""
    return a is b or (type(a) is type(b) and not isinstance(a, (list, Mapping)) and a == b)


# --- references -----------------------------------------------------------------------------------


class _Site(NamedTuple):
    """Where a schema stands: what its references begin at, and those that led to it."""

    root: Schema
    followed: tuple[int, ...]
    depth: int = 0


class _Walk:
    """One normalisation, and how much of it is left."""

    def __init__(self) -> None:
        self._left = MAX_SIZE

    def visit(self, part: JsonValue, at: _Site) -> JsonValue:
        """The normal form of a schema; what is none stays."""
        if not isinstance(part, Mapping):
            return part
        self._spend(_VISIT)
        if at.depth > MAX_DEPTH:
            raise RemoteProtocolError(
                f"the schema and its references are more than {MAX_DEPTH} levels deep"
            )
        root = part if at.depth and isinstance(part.get("$id"), str) else at.root
        at = _Site(root, at.followed, at.depth + 1)
        pieces = [self.visit(each, at) for each in as_list(part.get("allOf"))]
        done = {"$defs", "definitions", *(["allOf"] if pieces else [])}
        ref = as_text(part.get("$ref"))
        if ref == "#" or ref.startswith("#/"):
            pieces.insert(0, self._follow(ref, at))
            done.add("$ref")
        own = {
            word: self._inside(word, value, at) for word, value in part.items() if word not in done
        }
        self._spend(len(pieces) ** 2)  # each is merged with all before it
        nothing: dict[str, JsonValue] = {}
        return reduce(_fold, [*pieces, own], nothing) if pieces else own

    def _inside(self, word: str, value: JsonValue, at: _Site) -> JsonValue:
        """A keyword's value, with the schemas in it in their normal form."""
        if word in ("pattern", "patternProperties"):
            self._spend(_PATTERN * (1 if word == "pattern" else len(as_object(value))))
        if word not in NESTED:
            self._spend(len(word) + len(json.dumps(value, default=str)))
            return value
        made = [(name, self.visit(part, at)) for name, part in NESTED[word](value)]
        self._spend(len(word) + sum(len(name) + 1 for name, _ in made))
        if word in BY_NAME:
            return dict(made) or value
        return [each for _, each in made] or value if word in SEVERAL else made[0][1]

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise RemoteProtocolError(
                f"the schema has more than {MAX_SIZE} characters when its references are followed"
            )

    def _follow(self, ref: str, at: _Site) -> JsonValue:
        """What a local reference stands for, in its normal form."""
        self._spend(len(ref))
        shown = repr(sanitize.label(ref, 80))
        root: Schema = at.root
        target: JsonValue = root
        for name in unquote(ref).split("/")[1:]:
            target = _member(target, name.replace("~1", "/").replace("~0", "~"))
            root = as_object(target) if as_text(as_object(target).get("$id")) else root
        if not isinstance(target, (Mapping, bool)):
            raise RemoteProtocolError(f"the schema's reference {shown} leads nowhere")
        if id(target) in at.followed:
            raise RemoteProtocolError(f"the schema's reference {shown} leads back to itself")
        return self.visit(target, _Site(root, (*at.followed, id(target)), at.depth))


def _member(value: JsonValue, name: str) -> JsonValue:
    if isinstance(value, list):
        return value[int(name)] if name.isdecimal() and int(name) < len(value) else None
    return as_object(value).get(name)


def _fold(folded: dict[str, JsonValue], part: JsonValue) -> dict[str, JsonValue]:
    if isinstance(part, Mapping):
        return merge(folded, part)
    return merge({"not": {}}, folded) if part is False else folded
