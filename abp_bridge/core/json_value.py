"""JSON as Python has it, and the readers of what comes from outside.

A reader is total: it takes any JSON value, never raises, and what is not of its kind reads as
nothing. Whoever must refuse such a value, and say why, looks at its type.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
"""Any JSON value; read-only for whoever gets it."""

JsonObject = Mapping[str, JsonValue]

Json = Any
"""A JSON value that no type checker looks at: for what has not been moved to `JsonValue` yet."""


def as_object(value: JsonValue) -> JsonObject:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, (dict, Mapping)) else {}  # an ABC is asked slowly


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def as_text(value: JsonValue, default: str = "") -> str:
    """`value` if it is text, else `default`."""
    return value if isinstance(value, str) else default


def as_texts(value: JsonValue) -> list[str]:
    """The texts in a list, without what else is in it; empty when `value` is no list."""
    return [each for each in as_list(value) if isinstance(each, str)]


def as_number(value: JsonValue) -> float | None:
    """`value` if it is a number that a float can hold, else None. True and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


def as_integer(value: JsonValue) -> int | None:
    """`value` if it is a whole number, written without a fraction, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_count(value: JsonValue) -> int | None:
    """`value` if it is a whole number of at least 0, else None."""
    number = as_integer(value)
    return None if number is None or number < 0 else number


def walk(value: JsonValue) -> Iterator[JsonValue]:
    """`value`, and each value inside of it, the outer ones first."""
    yield value
    for each in value.values() if isinstance(value, Mapping) else as_list(value):
        yield from walk(each)


def leaves(value: JsonValue) -> Iterator[str | int | float]:
    """The texts and numbers in `value`; an empty text is none."""
    for each in walk(value):
        if isinstance(each, (str, int, float)) and not isinstance(each, bool) and each != "":
            yield each


def member_names(value: JsonValue) -> Iterator[str]:
    """The names of all members in `value`, however deep."""
    return (name for each in walk(value) if isinstance(each, Mapping) for name in each)


def map_texts(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """`value` with each text in it changed; the names of members stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: map_texts(each, change) for name, each in value.items()}
    return [map_texts(each, change) for each in value] if isinstance(value, list) else value


def to_text(value: JsonValue) -> str:
    """Text as it is, and anything else as JSON: what a person or a model is shown of a value."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def well_formed(value: JsonValue) -> JsonValue:
    """`value` with a mark (U+FFFD) for each half of a character, in the names of members too: who
    reads JSON as UTF-8 refuses the whole message for one.
    """
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        marked = written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        whole: JsonValue = marked if isinstance(value, str) else json.loads(marked)
        return whole
    return value
