"""JSON text -> values: only what JSON has, and only what can be written out again.

Python's own reader is laxer in both.
"""

from __future__ import annotations

import json
import math
import sys
from codecs import BOM_UTF8
from typing import NoReturn

from abp_bridge.core.json_value import JsonValue

MAX_VALUES = 500_000  # of one text: nothing else runs while it is read, for half a second


def parse(source: str | bytes) -> JsonValue:
    """One JSON value.

    Raises ValueError, and nothing else, for what is not JSON, not UTF-8, too deep, more than
    `MAX_VALUES`, or a number out of range.
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
    """Whether `value` is nested more than `limit` levels deep; a value that holds nothing is one
    level.
    """
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
