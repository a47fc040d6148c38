"""Readers of JSON values: each takes what is of its kind, and makes nothing of the rest."""

from __future__ import annotations

import json
import sys

from hypothesis import given
from support.json_strategies import json_values

from abp_bridge.core.json_value import (
    JsonValue,
    as_integer,
    as_list,
    as_number,
    as_object,
    as_text,
    as_texts,
    leaves,
    map_texts,
    member_names,
    to_text,
    walk,
)


@given(json_values)
def test_each_value_is_of_one_kind_or_of_none(value: JsonValue) -> None:
    assert as_object(value) == (value if isinstance(value, dict) else {})
    assert list(as_list(value)) == (value if isinstance(value, list) else [])
    assert as_text(value, "else") == (value if isinstance(value, str) else "else")
    assert as_integer(value) == (value if type(value) is int else None)
    if (
        isinstance(value, (int, float))
        and type(value) is not bool
        and abs(value) <= sys.float_info.max
    ):
        assert as_number(value) == float(value)
    else:
        assert as_number(value) is None


def test_a_whole_number_has_no_fraction() -> None:
    assert [as_integer(value) for value in (3, 3.0, True, "3")] == [3, None, None, None]


def test_texts_are_those_of_a_list() -> None:
    assert as_texts(["a", 1, None, ["b"], "c"]) == ["a", "c"]
    assert as_texts("ab") == []
    assert as_texts({"a": "b"}) == []


def test_a_value_is_walked_with_what_is_inside() -> None:
    value: JsonValue = {"a": [1, {"b": "x"}], "c": None}
    assert list(walk(value)) == [value, [1, {"b": "x"}], 1, {"b": "x"}, "x", None]
    assert list(member_names(value)) == ["a", "c", "b"]


def test_the_leaves_of_a_value_are_its_texts_and_numbers() -> None:
    assert list(leaves({"a": ["x", "", {"b": 1.5}], "c": [None, True, 0]})) == ["x", 1.5, 0]


def test_texts_are_changed_and_the_names_of_members_stay() -> None:
    value: JsonValue = {"a": ["a", 1, {"a": "b"}], "c": None}
    assert map_texts(value, str.upper) == {"a": ["A", 1, {"a": "B"}], "c": None}


@given(json_values)
def test_text_stands_as_it_is_and_the_rest_as_json(value: JsonValue) -> None:
    assert (
        to_text(value) == value if isinstance(value, str) else json.loads(to_text(value)) == value
    )
