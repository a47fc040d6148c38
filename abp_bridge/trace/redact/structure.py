"""What the structure of a value says: which words a message needs to be one, and which values are
secrets by the names that they stand under. Pure.

It knows no secret itself; which names tell of one, `core.secret_names` knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import JSONDecoder

from abp_bridge.core.json_text import is_deeper
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, walk
from abp_bridge.core.secret_names import holds_secret
from abp_bridge.protocols.methods import METHODS

SECRET = "[secret]"  # noqa: S105
DEEPEST = 100  # levels of JSON inside of text: no app nests more, and each is walked
TRIES = 64  # places in a text where JSON may begin: each may be read to the text's end

Blank = Callable[[JsonValue], JsonValue]

# Names of members, and words that stand alone. All methods are words of a message too.
_WORDS = """
    jsonrpc 2.0 id method params result error type timestamp payload event data code message
    reason accept accepted decline declined cancel cancelled selected action outcome content success
    metadata string number integer boolean object array null text form url mode schema prompt
    options required properties enum oneOf anyOf items title description default const format value
    confirmed optionId sessionId toolCallId requestedSchema protocolVersion capabilities name
    arguments kind status
"""
KEPT = METHODS | frozenset(_WORDS.split())

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_SUGGESTIONS = ("default", "const", "example", "examples")
_SCHEMA_WORDS = """
    type title description format pattern enum enumNames oneOf anyOf allOf not $ref $schema $defs
    minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems
    maxItems uniqueItems properties required additionalProperties items prefixItems writeOnly
    readOnly deprecated sensitive nullable contentEncoding contentMediaType x-order
"""
_KEYWORDS = frozenset((*_SCHEMA_WORDS.split(), *_SUGGESTIONS))
_HANDED = ("env", "headers")  # what a program is given
_PROGRAMS = ("mcpServers", *_HANDED)


# --- values ---------------------------------------------------------------------------------------


def blank(value: JsonValue) -> JsonValue:
    """The same shape, with no text and no number in it."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    if isinstance(value, list):
        return [blank(each) for each in value]
    return value if value is None or isinstance(value, bool) or value == "" else SECRET


def leaves(value: JsonValue) -> Iterator[str | int | float]:
    """The texts and numbers in a value."""
    for each in walk(value):
        if isinstance(each, (str, int, float)) and not isinstance(each, bool) and each != "":
            yield each


def without_secret(holder: JsonObject, name: str, under: str, blank: Blank) -> JsonValue:
    """A member's value without what its name says is a secret.

    Args:
        holder: the object that the member is of.
        name: the member's.
        under: what the holder itself stands under, if that is one of `program_part`'s.
        blank: what makes a value that has to go into one that may stay.
    """
    value = holder[name]
    if under and name in _HANDED and isinstance(value, (list, Mapping)):
        return _without_values(value, blank)
    if _names_its_value(holder, name):
        return blank(value)
    if not holds_secret(name):
        return value
    return without_suggestions(value, blank) if _is_schema(value) else blank(value)


def program_part(name: str) -> str:
    """`name`, if programs and what they are given stand under it; else nothing."""
    return name if name in _PROGRAMS else ""


def follows_option(items: Sequence[JsonValue], place: int) -> bool:
    """Whether the text at this place is a secret by the word before it: as after `--api-key`."""
    before = items[place - 1] if place else None
    return (
        isinstance(items[place], str)
        and isinstance(before, str)
        and before.startswith("-")
        and "=" not in before
        and holds_secret(before)
    )


def without_suggestions(schema: JsonValue, blank: Blank = blank) -> JsonValue:
    """A schema of a secret without the values that it suggests; what can be chosen stays."""
    if isinstance(schema, Mapping):
        return {
            name: blank(each) if name in _SUGGESTIONS else without_suggestions(each, blank)
            for name, each in schema.items()
        }
    if isinstance(schema, list):
        return [without_suggestions(each, blank) for each in schema]
    return schema


def _without_values(handed: JsonValue, blank: Blank) -> JsonValue:
    """Variables and headers that a program is given: all of them, whatever they are called."""
    if isinstance(handed, Mapping):
        return {name: blank(each) for name, each in handed.items()}
    return [
        {**item, "value": blank(item["value"])}
        if isinstance(item, Mapping) and "value" in item
        else item
        for item in as_list(handed)
    ]


def _names_its_value(holder: JsonObject, member: str) -> bool:
    """Whether the name of this `value` stands beside it, and is a telling one."""
    name = holder.get("name", holder.get("key"))
    return member == "value" and isinstance(name, str) and holds_secret(name)


def _is_schema(value: JsonValue) -> bool:
    """Whether this describes a field, and is no value of one: it has what JSON Schema knows, and
    nothing else.
    """
    if not isinstance(value, Mapping) or not set(value) <= _KEYWORDS:
        return False
    inside, kind = value.get("properties", {}), value.get("type", "string")
    return (
        isinstance(inside, Mapping)
        and all(isinstance(each, Mapping) for each in inside.values())
        and all(each in _TYPES for each in (kind if isinstance(kind, list) else [kind]))
    )


_ORDINARY = re.compile(r"[a-z]+(?:[_./-][a-z]+)+|[\d.,:/-]{1,7}|\d{4}-\d\d-\d\d|[A-Za-z]{1,15}")
_MIXED = re.compile(r"\d|[a-z].*[A-Z]|[A-Z].*[a-z].*[A-Z]|[^\w\s./-]")


def looks_secret(text: str) -> bool:
    """Whether a text that stood under a telling name is worth looking for elsewhere: and is not
    anybody's word.
    """
    if len(text) < 8 or _ORDINARY.fullmatch(text):
        return False
    return len(text) >= 16 or _MIXED.search(text) is not None


# --- JSON in text ---------------------------------------------------------------------------------

_BEGINS = re.compile(r'\{\s*["}]|\[\s*(?:[\[{"\d-]|true\b|false\b|null\b)')
_NAMES_NEXT = re.compile(r"([\w .\[\]%-]{1,80})[\"']?\s{0,8}[:=]\s{0,8}\Z")


def _no_constant(word: str) -> JsonValue:
    raise ValueError(word)


_DECODER = JSONDecoder(parse_constant=_no_constant)


def json_in(text: str) -> Iterator[tuple[int, int, JsonValue]]:
    """The JSON that stands in a text: from where to where, and what it is."""
    at = 0
    for _ in range(TRIES):
        found = _BEGINS.search(text, at)
        if found is None:
            return
        at = found.start() + 1
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        if not is_deeper(value, DEEPEST):
            yield found.start(), end, value
            at = end


def names_next(text: str) -> bool:
    """Whether what comes after this text is named a secret by it."""
    found = _NAMES_NEXT.search(text[-200:])
    return found is not None and holds_secret(found[1])
