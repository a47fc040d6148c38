"""ABP notifications and progress, in each spelling of ABP's documents."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.protocols.abp import decode_changes, decode_notice, decode_progress

Json = Any

STATE = {"field": "title", "oldValue": "a", "newValue": "b"}

NOTICES: dict[str, tuple[Json, Notice]] = {
    "X2 event and data": (
        {"event": "notifications/state/changed", "data": STATE},
        Notice(NoticeKind.STATE_CHANGED, "notifications/state/changed", STATE),
    ),
    "X2 without the prefix": (
        {"event": "error", "data": {"code": "X"}},
        Notice(NoticeKind.ERROR, "notifications/error", {"code": "X"}),
    ),
    "started": (
        {"event": "operation/started", "data": {"operationId": "op", "capability": "a"}},
        Notice(
            NoticeKind.STARTED,
            "notifications/operation/started",
            {"operationId": "op", "capability": "a"},
            "op",
        ),
    ),
    "X24 only what changed": (
        {"event": "capabilities/list_changed", "data": {"changed": ["a"]}},
        Notice(
            NoticeKind.CAPABILITIES_CHANGED,
            "notifications/capabilities/list_changed",
            {"added": [], "removed": [], "changed": ["a"]},
        ),
    ),
    "an event of the app's own": (
        {"event": "cart", "data": {"n": 1}},
        Notice(NoticeKind.OTHER, "notifications/cart", {"n": 1}),
    ),
    "data that is no object": (
        {"event": "cart", "data": [1]},
        Notice(NoticeKind.OTHER, "notifications/cart", {"value": [1]}),
    ),
    "no name": ({"data": {"n": 1}}, Notice(NoticeKind.OTHER, "notifications/unnamed", {"n": 1})),
    "a word": ("hello", Notice(NoticeKind.OTHER, "notifications/unreadable", {"value": "hello"})),
}


@pytest.mark.parametrize(("raw", "notice"), NOTICES.values(), ids=NOTICES)
def test_decode_notice(raw: Json, notice: Notice) -> None:
    assert decode_notice(raw) == notice


CHANGES: dict[str, tuple[Json, dict[str, list[str]]]] = {
    "X24 all three": (
        {"added": ["a"], "removed": ["b"], "changed": ["c"]},
        {"added": ["a"], "removed": ["b"], "changed": ["c"]},
    ),
    "X24 none": ({}, {"added": [], "removed": [], "changed": []}),
    "whole capabilities": (
        {"added": [{"name": "a"}, {"id": "b"}, 5], "removed": "b"},
        {"added": ["a"], "removed": [], "changed": []},
    ),
}


@pytest.mark.parametrize(("raw", "changes"), CHANGES.values(), ids=CHANGES)
def test_decode_changes(raw: Json, changes: dict[str, list[str]]) -> None:
    assert decode_changes(raw) == changes


PROGRESS: dict[str, tuple[Json, Progress | None]] = {
    "with a total": ({"operationId": "op", "progress": 2, "total": 5}, Progress("op", 2, 5)),
    "X4 by its token": ({"progressToken": 7, "progress": 2, "total": 5}, Progress("7", 2, 5)),
    "X5 percentage only": ({"operationId": "op", "percentage": 25}, Progress("op", 0.25, 1)),
    "X5 percentage beside a step without a total": (
        {"progress": 3, "percentage": 25},
        Progress(None, 0.25, 1),
    ),
    "X5 percentage beside a step with a total": (
        {"progress": 3, "total": 4, "percentage": 10},
        Progress(None, 3, 4),
    ),
    "a count without a total": ({"progress": 17}, Progress(None, 17)),
    "more than 100 percent": ({"percentage": 150}, Progress(None, 1.5, 1)),
    "less than nothing": ({"progress": -1, "total": 5}, Progress(None, 0, 5)),
    "of nothing": ({"progress": 3, "total": 0}, Progress(None, 3)),
    "words and time left": (
        {
            "progress": 1,
            "total": 2,
            "status": "Sorting\n",
            "stage": "2",
            "estimatedRemaining": 1500,
        },
        Progress(None, 1, 2, "Sorting", "2", 1.5),
    ),
    "no number": ({"progress": "half", "percentage": True}, None),
    "invalid numbers": ({"progress": float("nan"), "percentage": 10**400}, None),
}


@pytest.mark.parametrize(("raw", "progress"), PROGRESS.values(), ids=PROGRESS)
def test_decode_progress(raw: Json, progress: Progress | None) -> None:
    assert decode_progress(raw) == progress
