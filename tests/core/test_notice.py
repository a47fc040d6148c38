"""What an app tells, in a line; and progress that only goes up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from abp_bridge.core import sanitize
from abp_bridge.core.ledger import (
    STEP,
    Notice,
    NoticeKind,
    Progress,
    describe_notice,
    next_progress,
)

Json = Any

LINES: dict[str, tuple[NoticeKind, Mapping[str, Json], str | None, str]] = {
    "state": (
        NoticeKind.STATE_CHANGED,
        {"field": "title", "newValue": "Hello"},
        None,
        "title is now Hello",
    ),
    "started": (NoticeKind.STARTED, {"capability": "export.pdf"}, "op-1", "started export.pdf"),
    "completed": (NoticeKind.COMPLETED, {"success": True}, "op-1", "completed op-1"),
    "an error": (
        NoticeKind.ERROR,
        {"code": "RENDER_ERROR", "message": "No font."},
        None,
        "error RENDER_ERROR: No font.",
    ),
    "capabilities": (
        NoticeKind.CAPABILITIES_CHANGED,
        {"added": ["a", "b"], "removed": [], "changed": ["c"]},
        None,
        "its capabilities changed: added a, b; changed c",
    ),
    "an error of a page's console": (
        NoticeKind.CONSOLE,
        {"level": "error", "message": "x is not a function", "at": "/app.js:12:5", "lost": 3},
        None,
        "its page's console has an error: x is not a function (/app.js:12:5); 3 before it were not"
        " told",
    ),
    "something of the app's own": (NoticeKind.OTHER, {"n": 1}, None, 'notifications/own {"n": 1}'),
    "a field that would repaint the line": (
        NoticeKind.STATE_CHANGED,
        {"field": "a\u202eb\nc", "newValue": "\x1b[2J"},
        None,
        "ab c is now [2J",
    ),
}


@pytest.mark.parametrize(("event", "data", "operation", "line"), LINES.values(), ids=LINES)
def test_notice_is_described_in_a_line(
    event: NoticeKind, data: Mapping[str, Json], operation: str | None, line: str
) -> None:
    assert describe_notice(Notice(event, "notifications/own", data, operation)) == line


def test_long_notice_is_cut_and_says_so() -> None:
    data = {"field": "f" * 999, "newValue": "x" * 10_000}
    assert describe_notice(Notice(NoticeKind.STATE_CHANGED, "n", data)) == (
        f"{'f' * 300} … [699 more characters not shown] is now"
        f" {'x' * 300} … [9700 more characters not shown]"
    )
    added = {"added": ["name" * 10] * 1_000}
    many = describe_notice(Notice(NoticeKind.CAPABILITIES_CHANGED, "n", added))
    assert len(many) < sanitize.LINE_LIMIT + 50
    assert many.endswith(" more characters not shown]")


@pytest.mark.parametrize(
    ("event", "data", "failed"),
    [
        (NoticeKind.ERROR, {}, True),
        (NoticeKind.COMPLETED, {"success": False}, True),
        (NoticeKind.CONSOLE, {"level": "error"}, True),
        (NoticeKind.CONSOLE, {"level": "warning"}, False),
        (NoticeKind.STARTED, {"success": False}, False),
    ],
)
def test_notice_of_a_failure(event: NoticeKind, data: Mapping[str, Json], failed: bool) -> None:
    assert Notice(event, "n", data).failed is failed


MESSAGES = {
    "nothing to say": (Progress("op", 1), ""),
    "all of it": (
        Progress("op", 1, status="Sorting", stage="2 of 3", remaining=2.4),
        "Sorting · 2 of 3 · about 2 s left",
    ),
    "almost there": (Progress("op", 1, remaining=0.0), "about 1 s left"),
}


@pytest.mark.parametrize(("progress", "message"), MESSAGES.values(), ids=MESSAGES)
def test_progress_in_words(progress: Progress, message: str) -> None:
    assert progress.message == message


# Reports as (value, total, status), and what a host sees of them: (value, total, message).
S = STEP
CLIMBS: dict[str, tuple[list[tuple[float, float | None, str]], list[Json]]] = {
    "steps": ([(1, 4, ""), (2, 4, "half"), (4, 4, "")], [(1, 4, ""), (2, 4, "half"), (4, 4, "")]),
    "a text that changes at an equal value": (
        [(1, 4, "a"), (1, 4, "b"), (1, 4, "c"), (2, 4, "d")],
        [(1, 4, "a"), (1 + S, 4, "b"), (1 + 2 * S, 4, "c"), (2, 4, "d")],
    ),
    "the last status, when all is done": (
        [(4, 4, "writing"), (4, 4, "done")],
        [(4, 4, "writing"), (4 + S, None, "done · 4 of 4")],
    ),
    "a rising total": (
        [(5, 10, ""), (6, 20, ""), (7, 15, "")],
        [(5, 10, ""), (6, 20, ""), (7, 15, "")],
    ),
    "a total that grows while nothing moves": (
        [(5, 10, ""), (5, 20, "more")],
        [(5, 10, ""), (5 + S, 20, "more")],
    ),
    "a second phase": (
        [(10, 10, "get"), (0, 5, "set"), (3, 5, "set"), (12, 14, "set")],
        [
            (10, 10, "get"),
            (10 + S, None, "set · 0 of 5"),
            (10 + 2 * S, None, "set · 3 of 5"),
            (12, 14, "set"),
        ],
    ),
    "a percentage of what was counted": (
        [(1, 4, ""), (0.75, 1, ""), (4, 4, "")],
        [(1, 4, ""), (3, 4, ""), (4, 4, "")],
    ),
    "more than all": ([(9, 4, "")], [(9, None, "9 of 4")]),
    "values that have no room for a step": (
        [(1e15, None, ""), (1e15, None, "still")],
        [(1e15, None, ""), (math.nextafter(1e15, math.inf), None, "still · 1e+15")],
    ),
}


def climb(reports: Iterable[Progress]) -> list[Progress]:
    """What a host sees of `reports`."""
    seen: list[Progress] = []
    for report in reports:
        seen.append(next_progress(seen[-1] if seen else None, report))
    return seen


@pytest.mark.parametrize(("reports", "seen"), CLIMBS.values(), ids=CLIMBS)
def test_progress_is_passed_on_and_only_rises(
    reports: list[tuple[float, float | None, str]], seen: list[Json]
) -> None:
    shown = climb(Progress("op", *report) for report in reports)
    assert [(pytest.approx(it.value, rel=1e-12), it.total, it.message) for it in shown] == seen


def test_stage_of_progress_is_before_the_count() -> None:
    first, second = Progress("op", 2, 2), Progress("op", 1, 2, "Writing", "page 1")
    assert climb([first, second])[1].message == "Writing · page 1 · 1 of 2"
    repeated = Progress("op", 1, 2, "Writing", "Writing")
    assert climb([first, repeated])[1].message == "Writing · 1 of 2"
