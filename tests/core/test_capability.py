"""How a call failed, in a line."""

from __future__ import annotations

import pytest

from abp_bridge.core.capability import CallResult, Capability, Failure, describe_parameters, failed
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.question import MAX_MESSAGE

LINES = {
    "plain": (
        Failure("UNKNOWN_CAPABILITY", "There is none."),
        "UNKNOWN_CAPABILITY: There is none.",
    ),
    "worth another try": (
        Failure("TIMEOUT", "Operation timed out", retryable=True),
        "TIMEOUT: Operation timed out (retryable)",
    ),
    "worth another try later": (
        Failure("RATE_LIMITED", "Slow down", retryable=True, retry_after=1.5),
        "RATE_LIMITED: Slow down (retryable), after 1.5 s",
    ),
}


@pytest.mark.parametrize(("failure", "line"), LINES.values(), ids=LINES)
def test_a_failure_reads_as_abp_bridges_write_it(failure: Failure, line: str) -> None:
    assert str(failure) == line


def test_the_bridges_own_failures_have_the_apps_shape() -> None:
    assert failed("CANCELLED", "Stopped.", cancelled=True) == CallResult(
        failure=Failure("CANCELLED", "Stopped."), cancelled=True
    )
    assert failed("DISCONNECTED", "Gone.", retryable=True).failure == Failure(
        "DISCONNECTED", "Gone.", retryable=True
    )


@pytest.mark.parametrize(
    ("schema", "problems"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"minimum": 6}}}, 1),
        ({"properties": {"a": {"$ref": "#"}}}, 0),
        ({}, 0),
    ],
    ids=["through a reference", "what cannot be followed", "nothing said"],
)
def test_the_parameters_of_a_call_are_checked(schema: JsonObject, problems: int) -> None:
    capability = Capability("a.b", input_schema=schema)
    for _ in range(2):
        assert capability.parameter_errors({"a": 5}) == ["a must be at least 6, not 5"][:problems]


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
def test_parameters_are_shown_whole_without_secrets(params: JsonObject, words: str) -> None:
    assert describe_parameters(params) == words


def test_many_long_parameters_are_cut() -> None:
    params = {f"p{number}": "x" * 60_000 for number in range(100)}
    assert len(describe_parameters(params)) < 4 * MAX_MESSAGE
