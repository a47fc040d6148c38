"""How a call failed, in a line."""

from __future__ import annotations

import pytest

from abp_bridge.core.capability import CallResult, Failure, failed

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
