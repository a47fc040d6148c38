"""Check values against JSON Schema 2020-12, describe errors in sentences, and normalize schemas.

`jsonschema-rs` checks; this module prepares the schema and words the errors. It gets no reference
or dialect, so nothing is fetched, and patterns run in linear time. `unsupported_keywords` names
what was left out. `normalize` inlines local references and `allOf`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import unquote

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    as_texts,
    is_deeper,
    is_number,
    well_formed,
)
from abp_bridge.core.words import plural
from abp_bridge.errors import RemoteProtocolError

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

Schema = JsonObject

MAX_LEVELS = 100  # levels of a value; messages have at most 128
SCHEMA_LEVELS = 2 * MAX_LEVELS  # a property is two; `jsonschema-rs` refuses more than about 250
MAX_WORK = 20_000_000  # rules times values (some 30 ns each), or characters times pattern weight
MAX_PROBLEMS = 20  # sentences; nobody fixes more in one go

_MAX_BITS = 13_000  # of an integer: Python turns at most 4,300 digits into text
_EXPLAINED = 100_000  # rules times values, or hundreds of characters: each error copies its value
# Bytes of a compiled pattern -> its weight: in half microseconds, what a character costs at most.
_PATTERN_WEIGHTS = {2**12: 1, 2**14: 1, 2**16: 16, 2**18: 256, 2**19: 256}
_PATTERN_ROOM = 2**20  # the same bytes, of all patterns of a schema; in memory up to six times that
_KEPT = 4_000  # characters of a schema that is kept

_ANNOTATION_NAMES = """
    $schema $id $comment $defs definitions title description default examples
    enumNames deprecated readOnly writeOnly sensitive
"""
ANNOTATIONS = frozenset(_ANNOTATION_NAMES.split())

# Format -> (what `jsonschema-rs` calls it, what a value is). As strict as AJV and pydantic, with
# which servers check what comes back: no `ada@localhost`, and in an address no letter beyond ASCII.
_FORMATS = {
    "email": ("email", "an e-mail address"),
    "uri": ("uri", "a full address with its scheme (https://...), in ASCII"),
    "date": ("date", "a date (YYYY-MM-DD)"),
    "date-time": ("date-time", "a date and time with its offset (2026-07-28T12:00:00Z)"),
}
FORMATS = frozenset(_FORMATS)


def check(value: JsonValue, schema: Schema, name: str = "") -> list[str]:
    """Return what is wrong with `value`, as at most `MAX_PROBLEMS` sentences.

    Args:
        value: The value; one too deep or too large does not fit.
        schema: The schema, without references.
        name: The value's name in the sentences.
    """
    size, compiled = _size(value), _compile(schema)
    reason = _excess(value, size, compiled)
    if reason or compiled is None:
        return [f"{name or 'the answer'} {reason}"]
    try:
        fits = compiled.validator.is_valid(value)
    except UnicodeEncodeError:  # half a character, which UTF-8 cannot write
        fits = compiled.validator.is_valid(well_formed(value))
    if fits:
        return []
    if max(size.values, size.characters // 100) * compiled.rules > _EXPLAINED:
        return [f"{name or 'the answer'} does not fit, and is too large to say why"]
    value = well_formed(value)
    errors = compiled.validator.iter_errors(value)
    problems = (each for error in errors for each in _sentences(error, value, compiled, name))
    return list(dict.fromkeys(islice(problems, MAX_PROBLEMS)))


def is_undecided(value: JsonValue, schema: Schema) -> bool:
    """Whether `value` or `schema` is too deep or too large to be checked."""
    return bool(_excess(value, _size(value), _compile(schema)))


def is_valid(value: JsonValue, schema: Schema) -> bool:
    """Whether `value` fits."""
    return not check(value, schema)


def unsupported_keywords(schema: Schema) -> tuple[str, ...]:
    """Return the unchecked keywords in `schema`, sorted, with known ones of a wrong type."""
    compiled = _compile(schema)
    return compiled.unchecked if compiled else ()


# --- the schemas inside a schema ------------------------------------------------------------------

_Members = Callable[[JsonValue], Iterable[tuple[str, JsonValue]]]


def _itself(value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    return [("", value)]


def _each(value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    return [("", each) for each in as_list(value)]


def _by_name(value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    return as_object(value).items()


# Keywords that hold schemas -> each of these with the property it is for.
BY_NAME = ("properties", "patternProperties", "dependentSchemas")
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = "items additionalProperties not if then else contains propertyNames"
NESTED: dict[str, _Members] = {
    **dict.fromkeys(_SINGLE.split(), _itself),
    **dict.fromkeys(SEVERAL, _each),
    **dict.fromkeys(BY_NAME, _by_name),
}


def parts(schema: Schema) -> list[tuple[str, Schema]]:
    """Return every schema inside `schema`, itself first, with the property it is for, if any."""
    found: list[tuple[str, Schema]] = [("", schema)]
    for _, part in found:
        for word, value in part.items():
            if (members := NESTED.get(word)) is not None:
                inner = members(value)
                found.extend((name, each) for name, each in inner if isinstance(each, Mapping))
    return found


# --- preparing a schema ---------------------------------------------------------------------------


class _Compiled(NamedTuple):
    """A schema that is ready to check values, and what checking costs."""

    schema: JsonValue
    validator: Draft202012Validator
    unchecked: tuple[str, ...]
    rules: int
    patterns: int  # sum of their weights


def _compile(schema: Schema) -> _Compiled | None:
    """Prepare a schema; None if it is too deep, or has an integer of over 4,300 digits."""
    if is_deeper(schema, SCHEMA_LEVELS):
        return None
    try:
        text = json.dumps(schema, default=str)
    except ValueError:
        return None
    small = len(text) <= _KEPT and '"pattern' not in text
    return _compile_small(text) if small else _compile_large(text)


def _compile_text(text: str) -> _Compiled:
    from jsonschema_rs import Draft202012Validator, EmailOptions, RegexOptions

    prepared = _Preparation()
    schema = prepared.read(well_formed(json.loads(text)))
    validator = Draft202012Validator(
        schema,
        validate_formats=True,
        retriever=_refuse,
        pattern_options=RegexOptions(size_limit=max(_PATTERN_WEIGHTS)),
        email_options=EmailOptions(require_tld=True, allow_display_text=False),
    )
    unchecked = tuple(sorted(prepared.unchecked))
    return _Compiled(schema, validator, unchecked, prepared.rules, prepared.patterns)


# A form has some 20 fields, each checked at every attempt to answer. Patterns take megabytes.
_compile_small = lru_cache(maxsize=32)(_compile_text)
_compile_large = lru_cache(maxsize=1)(_compile_text)


def _refuse(uri: str) -> NoReturn:
    """Refuse to fetch: the library reads `http:` and `file:` addresses by itself."""
    raise ValueError(f"{uri} is another document")


class _Preparation:
    """Copies the part of a schema that can be checked, and counts what checking costs."""

    def __init__(self) -> None:
        self.unchecked: set[str] = set()
        self.rules = 0
        self.patterns = 0
        self._room = _PATTERN_ROOM

    def read(self, part: JsonValue) -> dict[str, JsonValue] | bool:
        """Return the checkable copy of a schema; of anything else, the schema that fits all."""
        if not isinstance(part, Mapping):
            return part is not False
        kept: dict[str, JsonValue] = {}
        for word, value in part.items():
            if word in ANNOTATIONS or word.startswith("x-"):
                continue
            self.rules += 1 + (len(value) if isinstance(value, (list, Mapping)) else 0)
            if word in NESTED:
                self._read_nested(word, value, kept)
            elif word in ("format", "pattern"):
                self._read_text(word, value, kept)
            elif word in KEYWORDS and _is_readable(word, value):
                kept[word] = value
            else:
                self.unchecked.add(word)
        if "patternProperties" in part and "patternProperties" not in kept:
            kept.pop("additionalProperties", None)  # the pattern might allow the name
        return kept

    def _read_nested(self, word: str, value: JsonValue, kept: dict[str, JsonValue]) -> None:
        inner = [(name, self.read(each)) for name, each in NESTED[word](value)]
        named = inner if word == "patternProperties" and isinstance(value, Mapping) else []
        if not all(self._can_run(name) for name, _ in named):
            self.unchecked.add("pattern")
            return
        if word in BY_NAME and isinstance(value, Mapping):
            kept[word] = dict(inner)
        elif word in SEVERAL and inner:
            kept[word] = [each for _, each in inner]
        elif word not in (*BY_NAME, *SEVERAL) and isinstance(value, (Mapping, bool)):
            kept[word] = inner[0][1]
        else:
            self.unchecked.add(word)

    def _read_text(self, word: str, value: JsonValue, kept: dict[str, JsonValue]) -> None:
        if word == "format" and isinstance(value, str):
            if value in _FORMATS:
                kept[word] = _FORMATS[value][0]
            else:
                self.unchecked.add(f"format {value}")
        elif isinstance(value, str) and self._can_run(value):
            kept[word] = value
        else:
            self.unchecked.add(word)

    def _can_run(self, pattern: str) -> bool:
        """Whether there is room for a pattern, which is then counted."""
        size = _pattern_size(pattern)
        if size is None or size > self._room:
            return False
        self._room -= size
        self.patterns += _PATTERN_WEIGHTS[size]
        return True


@lru_cache(maxsize=256)
def _pattern_size(pattern: str) -> int | None:
    """Return how many bytes a compiled pattern has at most, or None if it cannot run."""
    from jsonschema_rs import Draft202012Validator, RegexOptions

    for size in _PATTERN_WEIGHTS:
        try:
            Draft202012Validator(
                {"pattern": pattern}, pattern_options=RegexOptions(size_limit=size)
            )
        except ValueError:
            continue
        return size
    return None


def _is_readable(word: str, value: JsonValue) -> bool:
    """Whether a keyword's value is what JSON Schema says it is."""
    from jsonschema_rs import meta

    return meta.is_valid({word: value})


# --- what checking costs --------------------------------------------------------------------------


class _Size(NamedTuple):
    values: int
    characters: int


def _excess(value: JsonValue, size: _Size, compiled: _Compiled | None) -> str:
    """Return why `value` cannot be checked; nothing if it can."""
    if is_deeper(value, MAX_LEVELS):
        return f"is nested more than {MAX_LEVELS} levels deep"
    if compiled is None:
        return "must fit a schema that is too large or too deep to check"
    if not size.values:
        return "has a number that cannot be checked"
    work = max(size.values * compiled.rules, size.characters * compiled.patterns)
    return "is too large to check" if work > MAX_WORK else ""


def _size(value: JsonValue) -> _Size:
    """Return how much is in `value`; nothing if it has NaN, Infinity or an integer too large."""
    values, characters = [value], 0
    for each in values:
        if isinstance(each, Mapping):
            characters += sum(map(len, each))
            values.extend(each.values())
        elif isinstance(each, str):
            characters += len(each)
        elif isinstance(each, list):
            values.extend(each)
        elif (isinstance(each, float) and not isfinite(each)) or (
            isinstance(each, int) and each.bit_length() > _MAX_BITS
        ):
            return _Size(0, 0)
    return _Size(len(values), characters)


# --- what is wrong, in words ----------------------------------------------------------------------

_ARTICLES = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}

# What a keyword asks of a value, before there is one.
LIMITS = {
    "format": "format {}",
    "minLength": "at least {} character{s}",
    "maxLength": "at most {} character{s}",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minProperties": "at least {} field{s}",
    "maxProperties": "at most {} field{s}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "pattern": "must match {}",
}

# What is wrong with a value that breaks a keyword: {} is the keyword's value.
_BROKEN = {
    "minLength": "must have at least {} character{s}",
    "maxLength": "must have at most {} character{s}",
    "minItems": "must name at least {}",
    "maxItems": "must name at most {}",
    "minProperties": "must have at least {} field{s} filled in",
    "maxProperties": "must have at most {} field{s} filled in",
    "minimum": "must be at least {}, not {value}",
    "maximum": "must be at most {}, not {value}",
    "exclusiveMinimum": "must be more than {}, not {value}",
    "exclusiveMaximum": "must be less than {}, not {value}",
    "multipleOf": "must be a multiple of {}, not {value}",
    "const": "must be {shown}, not {value}",
    "pattern": "must match the pattern {shown}",
    "uniqueItems": "must not name the same thing twice",
    "anyOf": "fits none of {count} allowed forms",
    "not": "has a form that is not allowed",
    **dict.fromkeys(("contains", "minContains"), "must name more of what it has to name"),
    "maxContains": "must name less of what it has to name",
}
KEYWORDS = ANNOTATIONS.union(
    NESTED, _BROKEN, ("type", "enum", "required", "dependentRequired", "format")
)


def _sentences(
    error: ValidationError, value: JsonValue, compiled: _Compiled, name: str
) -> Iterator[str]:
    """Word one error of `jsonschema-rs`."""
    from jsonschema_rs import ValidationErrorKind as Kind

    where = _joined(name, error.instance_path)
    limit = _follow(compiled.schema, error.schema_path)
    match error.kind:
        case Kind.Required(property=missing):
            yield f"{_joined(where, [missing])} is required"
        case Kind.AdditionalProperties(unexpected=names):
            yield from (f"{_joined(where, [each])} is not allowed" for each in names)
        case Kind.FalseSchema() if _is_closed(error.schema_path):
            members = as_object(_follow(value, error.instance_path))
            yield from (f"{_joined(where, [each])} is not allowed" for each in members)
        case Kind.FalseSchema():
            yield f"{where or 'the answer'} is not allowed"
        case Kind.PropertyNames():
            yield f"{where or 'the answer'} has a member whose name is not allowed"
        case Kind.OneOfMultipleValid(context=branches):
            fitting = sum(not errors for errors in branches)
            yield f"{where or 'the answer'} {_one_of(fitting, len(branches))}"
        case _:
            keyword = str(error.schema_path[-1])
            wrong = _follow(value, error.instance_path)
            yield f"{where or 'the answer'} {_problem(keyword, limit, wrong)}"


def _is_closed(path: Sequence[str | int]) -> bool:
    """Whether it leads to an `additionalProperties` that is no property's name."""
    return path[-1:] == ["additionalProperties"] and path[-2:-1] not in [[each] for each in BY_NAME]


def _problem(keyword: str, limit: JsonValue, wrong: JsonValue) -> str:
    """Say what is wrong with a value that breaks one keyword."""
    if keyword == "type":
        names = limit if isinstance(limit, list) else [limit]
        words = " or ".join(_ARTICLES[as_text(each)] for each in names)
        return f"must be {words}, not {_shown(wrong)}"
    if keyword == "format":
        words = next(words for name, words in _FORMATS.values() if name == limit)
        return f"must be {words}, not {_shown(wrong)}"
    if keyword == "enum":
        return f"must be one of {_listed(as_list(limit))}, not {_shown(wrong)}"
    if keyword == "oneOf":
        parts = [as_object(each) for each in as_list(limit)]
        if all("const" in each for each in parts):
            constants = _listed([each["const"] for each in parts])
            return f"must be one of {constants}, not {_shown(wrong)}"
        return _one_of(0, len(parts))
    return _BROKEN[keyword].format(
        limit,
        s=plural(limit) if is_number(limit) else "",
        shown=_shown(limit),
        value=_shown(wrong),
        count=len(as_list(limit)),
    )


def _one_of(fitting: int, count: int) -> str:
    return f"fits {fitting} of {count} allowed forms, and must fit exactly one"


def _follow(value: JsonValue, path: Iterable[str | int]) -> JsonValue:
    """Return what is at a path that exists."""
    for step in path:
        value = as_list(value)[step] if isinstance(step, int) else as_object(value)[step]
    return value


def _joined(path: str, steps: Iterable[str | int]) -> str:
    for step in steps:
        named = f"{path}.{step}" if path else str(step)
        path = f"{path}[{step}]" if isinstance(step, int) else named
    return path


def _listed(values: Sequence[JsonValue]) -> str:
    shown = ", ".join(map(_shown, values[:12]))
    return shown if len(values) <= 12 else f"{shown} and {len(values) - 12} more"


def _shown(value: JsonValue) -> str:
    """Return a value as JSON of at most 60 characters."""
    text = ""
    for piece in _WRITER.iterencode(value[:60] if isinstance(value, str) else value):
        text += piece
        if len(text) > 60:
            return text[:57] + "..."
    return text


_WRITER = json.JSONEncoder(ensure_ascii=False, default=str)


def describe_limits(schema: Schema, keywords: Iterable[str] = LIMITS) -> str:
    """Return what these `keywords` ask of a value, separated by commas; not safe to show."""
    return ", ".join(filter(None, (_limit_words(word, schema.get(word)) for word in keywords)))


def _limit_words(keyword: str, limit: JsonValue) -> str:
    text = as_text(limit)
    if keyword == "format" and text in _FORMATS:
        return _FORMATS[text][1]
    readable = text if keyword in ("format", "pattern") else is_number(limit)
    return LIMITS[keyword].format(limit, s=plural(limit)) if readable else ""


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
