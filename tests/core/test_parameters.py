"""Parameters in words that a person can decide by."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.capability import describe_parameters
from abp_bridge.core.question import MAX_MESSAGE

Json = Any


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "Without parameters."),
        ({"a": 1, "b": ["x"]}, 'With:\na: 1\nb: ["x"]'),
        ({"a": "x" * 500, "b": 2}, f'With:\nb: 2\na: "{"x" * 500}"'),
        ({"password": "p"}, "With:\npassword: (not shown: its name is a secret's)"),
        (
            {"list": [{"token": "t", "n": 1}]},
            'With:\nlist: [{"token": "(not shown: its name is a secret\'s)", "n": 1}]',
        ),
        ({"a\nb": "c\u202ed"}, 'With:\na\\nb: "c\\u202ed"'),
    ],
)
def test_each_parameter_stands_on_a_line_whole_without_secrets(params: Json, words: str) -> None:
    assert describe_parameters(params) == words


def test_no_more_is_said_than_anybody_could_be_shown() -> None:
    params = {f"p{number}": "x" * 60_000 for number in range(100)}
    assert len(describe_parameters(params)) < 4 * MAX_MESSAGE
