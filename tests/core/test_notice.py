"""What an app tells, in a line; and progress that only goes up."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.core.notice import (
    LINE_LIMIT,
    MonotonicProgress,
    Notice,
    NoticeKind,
    Progress,
    describe,
)

Json = Any

LINES: dict[str, tuple[NoticeKind, Mapping[str, Json], str | None, str]] = {
    "state": (
        NoticeKind.STATE_CHANGED,
        {"field": "title", "newValue": "Hello"},
        None,
        "title is now Hello",
    ),
    "state as JSON": (
        NoticeKind.STATE_CHANGED,
        {"field": "page", "newValue": {"n": 1}},
        None,
        'page is now {"n": 1}',
    ),
    "state without a field": (NoticeKind.STATE_CHANGED, {}, None, "its state is now null"),
    "started": (NoticeKind.STARTED, {"capability": "export.pdf"}, "op-1", "started export.pdf"),
    "started, only an id": (NoticeKind.STARTED, {}, "op-1", "started op-1"),
    "completed": (NoticeKind.COMPLETED, {"success": True}, "op-1", "completed op-1"),
    "completed, and failed": (NoticeKind.COMPLETED, {"success": False}, "op-1", "failed op-1"),
    "an error": (
        NoticeKind.ERROR,
        {"code": "RENDER_ERROR", "message": "No font."},
        None,
        "error RENDER_ERROR: No font.",
    ),
    "an error without words": (NoticeKind.ERROR, {}, None, "error without a code: no message"),
    "capabilities": (
        NoticeKind.CAPABILITIES_CHANGED,
        {"added": ["a", "b"], "removed": [], "changed": ["c"]},
        None,
        "its capabilities changed: added a, b; changed c",
    ),
    "capabilities, nobody says which": (
        NoticeKind.CAPABILITIES_CHANGED,
        {"added": []},
        None,
        "its capabilities changed",
    ),
    "something of the app's own": (NoticeKind.OTHER, {"n": 1}, None, 'notifications/own {"n": 1}'),
    "a field that would repaint the line": (
        NoticeKind.STATE_CHANGED,
        {"field": "a\u202eb\nc", "newValue": "\x1b[2J"},
        None,
        "ab c is now [2J",
    ),
    "a field that is no name": (
        NoticeKind.STATE_CHANGED,
        {"field": {"a": 1}, "newValue": 1},
        None,
        '{"a": 1} is now 1',
    ),
}


@pytest.mark.parametrize(("event", "data", "operation", "line"), LINES.values(), ids=LINES)
def test_what_an_app_tells_is_a_line(
    event: NoticeKind, data: Mapping[str, Json], operation: str | None, line: str
) -> None:
    assert describe(Notice(event, "notifications/own", data, operation)) == line


def test_a_line_is_never_long_and_says_what_is_missing() -> None:
    told = describe(
        Notice(NoticeKind.STATE_CHANGED, "n", {"field": "f" * 999, "newValue": "x" * 10_000})
    )
    assert (
        told == f"{'f' * 300} … [699 more characters not shown] is now {'x' * 300} … [9700 more"
        " characters not shown]"
    )
    many = describe(Notice(NoticeKind.CAPABILITIES_CHANGED, "n", {"added": ["name" * 10] * 1_000}))
    assert len(many) < LINE_LIMIT + 50
    assert many.endswith(" more characters not shown]")


FAILED = {
    "an error": (NoticeKind.ERROR, {}, True),
    "an operation that failed": (NoticeKind.COMPLETED, {"success": False}, True),
    "an operation that does not say": (NoticeKind.COMPLETED, {}, False),
    "a start": (NoticeKind.STARTED, {"success": False}, False),
}


@pytest.mark.parametrize(("event", "data", "failed"), FAILED.values(), ids=FAILED)
def test_what_counts_as_failed(event: NoticeKind, data: Mapping[str, Json], failed: bool) -> None:
    assert Notice(event, "n", data).failed is failed


MESSAGES = {
    "nothing to say": (Progress("op", 1), ""),
    "all of it": (
        Progress("op", 1, status="Sorting", stage="2 of 3", remaining=2.4),
        "Sorting · 2 of 3 · about 2 s left",
    ),
    "a stage that repeats the status": (
        Progress("op", 1, status="Sorting", stage="Sorting"),
        "Sorting",
    ),
    "almost there": (Progress("op", 1, remaining=0.0), "about 1 s left"),
}


@pytest.mark.parametrize(("progress", "message"), MESSAGES.values(), ids=MESSAGES)
def test_progress_in_words(progress: Progress, message: str) -> None:
    assert progress.message == message


# Reports as (value, total), and what a host sees of them.
CLIMBS: dict[str, tuple[list[tuple[float, float | None]], list[tuple[float, float | None]]]] = {
    "steps": ([(1, 4), (2, 4), (4, 4)], [(1, 4), (2, 4), (4, 4)]),
    "repeats and steps back are dropped": ([(1, 4), (1, 4), (0, 4), (3, 4)], [(1, 4), (3, 4)]),
    "another scale is translated": ([(1, 4), (75, 100), (1, 1)], [(1, 4), (3, 4), (4, 4)]),
    "more than all is all": ([(1, 4), (9, 4), (10, 4)], [(1, 4), (4, 4)]),
    "no total": ([(5, None), (7, None)], [(5, None), (7, None)]),
    "a total that comes late is not used": ([(5, None), (7, 10)], [(5, None), (7, None)]),
    "a total that is lost cannot be placed": ([(1, 4), (3, None), (3, 4)], [(1, 4), (3, 4)]),
    "a total of nothing": ([(1, 4), (2, 0.0)], [(1, 4)]),
}


@pytest.mark.parametrize(("reports", "seen"), CLIMBS.values(), ids=CLIMBS)
def test_progress_only_goes_up(
    reports: list[tuple[float, float | None]], seen: list[tuple[float, float | None]]
) -> None:
    rising = MonotonicProgress()
    shown = [rising.next(Progress("op", value, total, "Working")) for value, total in reports]
    assert [(each.value, each.total) for each in shown if each is not None] == seen
    assert all(each.status == "Working" for each in shown if each is not None)


amounts = st.floats(0, 1e15)


@given(st.lists(st.tuples(amounts, st.none() | amounts)))
def test_whatever_an_app_reports_rises_and_stays_below_its_total(
    reports: list[tuple[float, float | None]],
) -> None:
    rising = MonotonicProgress()
    seen = [
        shown
        for value, total in reports
        if (shown := rising.next(Progress("op", value, total))) is not None
    ]
    assert all(before.value < after.value for before, after in pairwise(seen))
    assert len({each.total for each in seen}) <= 1, "one scale for one call"
    assert all(each.total is None or 0 <= each.value <= each.total for each in seen)
