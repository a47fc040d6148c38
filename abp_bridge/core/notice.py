"""What an app tells without asking: notices and progress, in no protocol's words.

`MonotonicProgress` turns whatever progress an app reports into what hosts accept: numbers that
only go up, on one scale, ending at completion.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_texts, to_text

LINE_LIMIT = 1_000  # characters; a log line of a host, and a line of a result


class NoticeKind(enum.Enum):
    """The value is the last part of ABP's notification name."""

    CAPABILITIES_CHANGED = "capabilities/list_changed"
    STATE_CHANGED = "state/changed"
    STARTED = "operation/started"
    COMPLETED = "operation/completed"
    ERROR = "error"
    OTHER = "other"  # an event ABP does not define; `Notice.name` says which


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an app told.

    `name` is the full ABP name; `operation` the operation it speaks of, if any.
    """

    kind: NoticeKind
    name: str
    data: JsonObject = field(default_factory=dict)
    operation: str | None = None

    @property
    def failed(self) -> bool:
        """An error, or an operation that says it did not succeed."""
        return self.kind is NoticeKind.ERROR or (
            self.kind is NoticeKind.COMPLETED and self.data.get("success") is False
        )


def describe(notice: Notice) -> str:
    """What an app told, in one line that is safe to show."""
    return sanitize.label(_line(notice), LINE_LIMIT)


def _line(notice: Notice) -> str:
    data = notice.data
    if notice.kind is NoticeKind.STATE_CHANGED:
        return f"{_short(data.get('field', 'its state'))} is now {_short(data.get('newValue'))}"
    if notice.kind is NoticeKind.STARTED:
        return f"started {_short(data.get('capability', notice.operation))}"
    if notice.kind is NoticeKind.COMPLETED:
        return f"{'failed' if notice.failed else 'completed'} {_short(notice.operation)}"
    if notice.kind is NoticeKind.ERROR:
        return (
            f"error {_short(data.get('code', 'without a code'))}:"
            f" {_short(data.get('message', 'no message'))}"
        )
    if notice.kind is NoticeKind.CAPABILITIES_CHANGED:
        parts = [f"{word} {', '.join(as_texts(names))}" for word, names in data.items() if names]
        return f"its capabilities changed{': ' + '; '.join(parts) if parts else ''}"
    return (
        f"{notice.name}"
        f" {_short({word: value for word, value in data.items() if word != 'operationId'})}"
    )


def _short(value: JsonValue) -> str:
    return sanitize.label(to_text(value), 300)


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress report.

    `value` counts up to `total` where that is known; `remaining` is in seconds.
    """

    operation: str | None
    value: float
    total: float | None = None
    status: str = ""
    stage: str = ""
    remaining: float | None = None

    @property
    def message(self) -> str:
        """Status, stage and time left in one line, as hosts show it."""
        left = "" if self.remaining is None else f"about {max(1, round(self.remaining))} s left"
        return " · ".join(
            part
            for part in (self.status, self.stage if self.stage != self.status else "", left)
            if part
        )


class MonotonicProgress:
    """The progress of one call as a host may see it: each value greater than the one before (MCP
    basic/patterns/progress).
    """

    def __init__(self) -> None:
        self._total: float | None = None
        self._last: Progress | None = None

    def next(self, report: Progress) -> Progress | None:
        """`report` on this call's scale, or None when it does not rise.

        A report without a total after one with a total cannot be placed.
        """
        if self._last is None:
            self._total = report.total
        value = self._on_scale(report)
        if value is None or (self._last is not None and value <= self._last.value):
            return None
        self._last = replace(report, value=value, total=self._total)
        return self._last

    def _on_scale(self, report: Progress) -> float | None:
        if self._total is None:
            return report.value
        if not report.total:
            return None
        return min(self._total, report.value * self._total / report.total)
