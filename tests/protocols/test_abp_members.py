"""Misspelt members of an ABP request are named; unknown ones are the app's own."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.question import Kind
from abp_bridge.protocols.abp.questions import find_misspelt

Json = Any


def nested(levels: int) -> Json:
    return {"items": nested(levels - 1)} if levels else {"titel": "?"}


@pytest.mark.parametrize(
    ("kind", "params", "problems"),
    [
        (
            Kind.SELECT,
            {"message": "?", "options": [{"value": 1, "labl": "One"}, "two"]},
            ["'labl'"],
        ),
        (Kind.SELECT, {"optoins": ["a"]}, ["the params have 'optoins'"]),
        (Kind.CONFIRM, {"destructiv": True, "options": [{"labl": 1}]}, ["'destructiv'"]),
        (Kind.CONFIRM, {"message": "?", "myOwn": 1}, []),
        (Kind.INPUT, {"schema": {"properties": {"a": {"minLenght": 1}, "b": True}}}, ["minLenght"]),
        (
            Kind.INPUT,
            {"schema": {"anyOf": [{"patern": "x"}, {"requird": []}]}},
            ["patern", "requird"],
        ),
        (Kind.INPUT, {"schema": nested(40)}, ["titel"]),
        (Kind.INPUT, {"schema": "text"}, []),
    ],
)
def test_misspelt_member_is_named(kind: Kind, params: Json, problems: list[str]) -> None:
    found = list(find_misspelt(kind, params))
    assert [words in each for words, each in zip(problems, found, strict=True)] == [True] * len(
        found
    )
