"""Where in a message secrets stand: what the structure of a value says, and the names in it; and
which words a message needs to be one. Pure.

It knows no secret itself; which names tell of one, `core.redact.names` knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count

from abp_bridge.core.json_value import DECODER, JsonObject, JsonValue, is_deeper
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.redact.texts import SECRET
from abp_bridge.core.schema import KEYWORDS, parts
from abp_bridge.protocols.methods import METHODS

MAX_LEVELS = 100  # levels of JSON inside of text: no app nests more, and each is walked
TRIES = 64  # places in a text where JSON may begin: each may be read to the text's end

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
_DESCRIBES = frozenset(["$ref", "nullable", "contentEncoding", "contentMediaType", "x-order"])
_DESCRIBES |= KEYWORDS.union(_SUGGESTIONS)

_BEGINS = re.compile(r'\{\s*["}]|\[\s*(?:[\[{"\d-]|true\b|false\b|null\b)')
_NAMES_NEXT = re.compile(r"([\w .\[\]%-]{1,80})[\"']?\s{0,8}[:=]\s{0,8}\Z")


def blank(value: JsonValue) -> JsonValue:
    """The same shape, with no text and no number in it."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    if isinstance(value, list):
        return [blank(each) for each in value]
    return value if value is None or isinstance(value, bool) or value == "" else SECRET


def with_distinct_names(members: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """An object of these members: a name that repeats is numbered, so that none is lost."""
    kept: dict[str, JsonValue] = {}
    for name, value in members:
        names = (f"{name} {number}" for number in count(2))
        kept[name if name not in kept else next(each for each in names if each not in kept)] = value
    return kept


def part_of(name: str, around: str) -> str:
    """What a member is a part of: a `program`, or what one is `given`, if any.

    Args:
        name: The member's.
        around: What its object is a part of.
    """
    if name == "mcpServers":
        return "program"
    return "given" if around and name in ("env", "headers") else around


def names_secret(holder: JsonObject, name: str, around: str) -> bool:
    """Whether a member is a secret: by its name, the one beside it, or what it is a part of."""
    beside = holder.get("name", holder.get("key"))
    if name == "value" and isinstance(beside, str) and holds_secret(beside):
        return True
    is_given = around == "given" and not (name == "name" and "value" in holder)
    return is_given or holds_secret(name)


def is_option(word: JsonValue) -> bool:
    """Whether a secret is what comes after this in a list: as after `--api-key`."""
    return isinstance(word, str) and re.match(r"-[^=]*\Z", word) is not None and holds_secret(word)


def without_suggestions(
    schema: JsonValue, blank: Callable[[JsonValue], JsonValue] = blank
) -> JsonValue:
    """A schema of a secret without the values that it suggests; what can be chosen stays."""
    if isinstance(schema, Mapping):
        return {
            name: blank(each) if name in _SUGGESTIONS else without_suggestions(each, blank)
            for name, each in schema.items()
        }
    return [without_suggestions(e, blank) for e in schema] if isinstance(schema, list) else schema


def is_schema(value: JsonValue) -> bool:
    """Whether this describes a field, and is no value of one: it has what JSON Schema knows, and
    nothing else.
    """
    if not isinstance(value, Mapping):
        return False
    inside, kind = value.get("properties", {}), value.get("type", "string")
    return (
        all(_DESCRIBES.issuperset(part) for _, part in parts(value))
        and isinstance(inside, Mapping)
        and all(isinstance(each, Mapping) for each in inside.values())
        and all(each in _TYPES for each in (kind if isinstance(kind, list) else [kind]))
    )


def json_in(text: str) -> Iterator[tuple[int, int, JsonValue]]:
    """The JSON that stands in a text: from where to where, and what it is."""
    at = 0
    for _ in range(TRIES):
        found = _BEGINS.search(text, at)
        if found is None:
            return
        at = found.start() + 1
        with suppress(ValueError, RecursionError):
            value, end = DECODER.raw_decode(text, found.start())
            if not is_deeper(value, MAX_LEVELS):
                yield found.start(), end, value
                at = end


def names_next(text: str) -> bool:
    """Whether what comes after this text is named a secret by it."""
    found = _NAMES_NEXT.search(text[-200:])
    return found is not None and holds_secret(found[1])
