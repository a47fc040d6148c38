"""Patterns of apps, in the dialect of ECMA-262, tested in linear time.

How much of that a check may spend is `schema`'s to say.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

MAX_PATTERN = 5_000  # characters of a pattern, and of what its repetitions stand for


class Matcher(NamedTuple):
    """A test for a pattern, and how many states of it can be alive at each character."""

    test: Callable[[str], bool]
    size: int


@functools.lru_cache(maxsize=256)
def find_matcher(pattern: str) -> Matcher | None:
    """A linear-time test for an app's pattern, or None where the engine cannot run it (look-around,
    back references) or it is too large.

    Python's own `re` backtracks: a page's pattern and a person's long answer could hold the whole
    bridge for hours.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if (size := pattern_size(pattern)) > MAX_PATTERN:
        return None
    own = _ESCAPE.sub(lambda found: _ECMA.get(found[0], found[0]), pattern)
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=own, regex_engine="rust-regex"))
    except SchemaError:
        return None
    return Matcher(lambda value: bool(validator.isinstance_python(value)), size)


# What ECMA-262 means by them, where Rust means letters and digits of all languages.
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ECMA = {
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": "[A-Za-z0-9_]",
    r"\W": "[^A-Za-z0-9_]",
    r"\s": r"[\t-\r\p{Zs}\x{2028}\x{2029}\x{feff}]",
    r"\S": r"[^\t-\r\p{Zs}\x{2028}\x{2029}\x{feff}]",
}
_TOKEN = re.compile(r"\\[pPxu](?:\{[^{}]*\}|.)|\\.|\{\s*(\d*)\s*,?\s*(\d*)\s*\}|.", re.DOTALL)
_WIDE = {".": 5, "^": 5}  # many characters take many states: `[^a]` as `.` does
_WIDEST = 200  # a class by its Unicode name


def pattern_size(pattern: str) -> int:
    """How large an automaton a pattern needs, about; more than `MAX_PATTERN` once it is that."""
    if len(pattern) > MAX_PATTERN:
        return len(pattern)
    outer: list[int] = []
    total = last = 0
    for token in _TOKEN.finditer(pattern):
        if token[1] is not None:
            times = max(int(token[1][:9] or 0), int(token[2][:9] or 0), 1)
            total, last = total + last * (times - 1), last * times
        elif token[0] == "(":
            outer.append(total)
            total = 0
        elif token[0] == ")":
            last, total = total, total + (outer.pop() if outer else 0)
        elif token[0] not in "*+?":
            last = _WIDEST if token[0][:2] in (r"\p", r"\P") else _WIDE.get(token[0], 1)
            total += last
        if total + sum(outer) > MAX_PATTERN:
            return MAX_PATTERN + 1
    return total + sum(outer)
