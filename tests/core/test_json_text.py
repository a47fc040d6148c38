"""JSON text as RFC 8259 has it, and no laxer."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_strategies import json_values

from abp_bridge.core.json_value import MAX_VALUES, is_deeper, parse_json

Json = Any

NOT_JSON: dict[str, str | bytes] = {
    "nothing": "",
    "NaN": '{"a":NaN}',
    "a number that no float holds": "1e999",
    "a whole number of 5,000 digits": "7" * 5_000,
    "deep but whole": "[" * 100_000 + "]" * 100_000,
    "bytes that are not UTF-8": b'"\xff"',
    "a surrogate in bytes": b'"\xed\xa0\x80"',
    "two values": "1 2",
    "a raw control character": '"\x01"',
}


@pytest.mark.parametrize("source", NOT_JSON.values(), ids=NOT_JSON)
def test_invalid_json_is_a_value_error(source: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_json(source)


def test_error_for_a_number_with_too_many_digits_says_so() -> None:
    with pytest.raises(ValueError, match=r"^it has a whole number of more than 4300 digits$"):
        parse_json("7" * 5_000)


JSON: dict[str, tuple[str | bytes, Json]] = {
    "a byte order mark, as some systems write": (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
    "an escaped lone surrogate": (r'"\ud800"', "\ud800"),
    "4,300 digits": ("7" * 4_300, int("7" * 4_300)),
    "the largest float": ("1.7976931348623157e308", 1.7976931348623157e308),
    "a float too small to matter": ("1e-999", 0.0),
}


@pytest.mark.parametrize(("source", "value"), JSON.values(), ids=JSON)
def test_unusual_json_is_read(source: str | bytes, value: Json) -> None:
    assert parse_json(source) == value


@given(json_values)
def test_json_is_read_as_it_was_written(value: Json) -> None:
    assert parse_json(json.dumps(value)) == value


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_is_a_value_or_a_value_error(source: str | bytes) -> None:
    with contextlib.suppress(ValueError):
        value = parse_json(source)
        assert parse_json(json.dumps(value, allow_nan=False)) == value


LEVELS: dict[str, tuple[Json, int]] = {
    "a scalar": (1, 1),
    "an object": ({"a": 1}, 2),
    "the deepest branch counts": ({"a": 1, "b": [[2]]}, 4),
    "a long list is not a deep one": ([1] * 1_000, 2),
}


@pytest.mark.parametrize(("value", "levels"), LEVELS.values(), ids=LEVELS)
def test_levels_are_counted(value: Json, levels: int) -> None:
    assert not is_deeper(value, levels)
    assert is_deeper(value, levels - 1)


def test_any_depth_is_measured() -> None:
    value: Json = []
    for _ in range(50_000):
        value = [value]
    assert is_deeper(value, 128)
    while value:  # its own end would be as deep a recursion
        value = value.pop()


MANY = {
    "a list": "[" + "0," * MAX_VALUES + "0]",
    "names": "{" + ",".join(['"":0'] * (MAX_VALUES + 1)) + "}",
    "texts": "[" + ",".join(['""'] * (3 * MAX_VALUES)) + "]",
}


@pytest.mark.parametrize("source", MANY.values(), ids=MANY)
def test_json_with_too_many_values_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="more than 500000 values"):
        parse_json(source)


def test_commas_in_texts_are_no_values() -> None:
    words = ',"\\' * MAX_VALUES
    assert parse_json(json.dumps([words])) == [words]
