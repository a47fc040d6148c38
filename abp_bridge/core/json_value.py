"""JSON values and readers for untrusted ones, which never raise: a wrong type reads as empty."""

from __future__ import annotations

import json
import math
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard

MAX_VALUES = 500_000  # of one text: nothing else runs while it is read, for half a second

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
    """Return `value` with U+FFFD for lone surrogates, which UTF-8 readers refuse."""
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        marked = written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        whole: JsonValue = marked if isinstance(value, str) else json.loads(marked)
        return whole
    return value


def parse_json(source: str | bytes) -> JsonValue:
    """Parse one JSON value.

    Raises ValueError alone: for invalid JSON or UTF-8, too deep, too many values or a number out of
    range.
    """
    text = source.removeprefix(BOM_UTF8).decode() if isinstance(source, bytes) else source
    if text.count(",") >= MAX_VALUES and _has_more_values(text):
        raise ValueError(f"it holds more than {MAX_VALUES} values")
    try:
        value: JsonValue = DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as problem:
        if "set_int_max_str_digits" not in str(problem):  # advice for who writes Python
            raise
        digits = sys.get_int_max_str_digits()
        raise ValueError(f"it has a whole number of more than {digits} digits") from None
    return value


def _has_more_values(text: str) -> bool:
    """Whether there are `MAX_VALUES` commas outside of strings, or more strings than that makes."""
    plain = text.replace("\\\\", "").replace('\\"', "")
    if plain.count('"') > 4 * MAX_VALUES:  # those of a name and of a value
        return True
    return sum(outside.count(",") for outside in plain.split('"')[::2]) >= MAX_VALUES


def is_deeper(value: JsonValue, limit: int) -> bool:
    """Whether `value` is nested more than `limit` levels; a scalar is one level."""
    if not isinstance(value, (dict, list)):
        return limit < 1
    level = [value]
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for each in level
            if isinstance(each, (dict, list))
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(word: str) -> float:
    value = float(word)
    if math.isinf(value):
        raise ValueError(f"the number {word[:40]} is out of range")
    return value


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def is_number(value: JsonValue) -> TypeGuard[float]:
    """Whether `value` is a number, which true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def type_of(value: JsonValue) -> str:
    """The JSON type name of a Python value, `integer` for whole numbers."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    found = _TYPES.get(type(value))
    return found or next((name for kind, name in _TYPES.items() if isinstance(value, kind)), "null")


_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_equal(a: JsonValue, b: JsonValue) -> bool:
    """Equality as JSON has it: `True` is not `1`, `1.0` is `1`."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(json_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(json_equal(a[key], b[key]) for key in a)
    return bool(a == b)
