"""Open questions, each of which ends exactly once, and the events of a session, in order.

Times are in seconds of one monotonic clock. Only `InputResolvedEvent` has the answer, and never a
secret.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_texts, to_text
from abp_bridge.errors import LocalProtocolError

if TYPE_CHECKING:
    from abp_bridge.core.answer import Answer
    from abp_bridge.core.outcome import AnsweredBy, Outcome
    from abp_bridge.core.question import Question

REMEMBERED = 64  # ended questions that `abp_status` can still show


@dataclass(slots=True)
class Entry:
    """An open question.

    Attributes:
        question: The question.
        since: When it was opened, in seconds of the caller's clock.
        route: The last surface that showed it; empty for none.
        answer: Its answer.
    """

    question: Question
    since: float
    route: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class ClosedQuestion:
    """What is kept of a question that ended, without the user's answer.

    `kind` is the method, `latency` in seconds.
    """

    id: str
    kind: str
    message: str
    origin: str
    outcome: Outcome
    answered_by: AnsweredBy
    evidence: str
    route: str
    latency: float
    reason: str
    ways: tuple[str, ...] = ()


class Ledger:
    """The open questions of a session, oldest first, the last `REMEMBERED` ended ones, and counts.

    `late_count` counts answers that came after the end.
    """

    def __init__(self) -> None:
        self._open: dict[str, Entry] = {}
        self.ended: deque[ClosedQuestion] = deque(maxlen=REMEMBERED)
        self.ended_count = 0
        self.late_count = 0

    @property
    def open(self) -> Collection[Entry]:
        """The rows of the questions that have not ended, oldest first."""
        return self._open.values()

    def entry(self, id: str) -> Entry | None:
        """The row of the open question `id`; None when it has ended, or never was."""
        return self._open.get(id)

    def add(self, question: Question, now: float) -> Entry:
        """Open `question` at `now`, in seconds.

        Raises:
            LocalProtocolError: A question with its id is open.
        """
        if question.id in self._open:
            raise LocalProtocolError(f"question {question.id} is open already")
        entry = self._open[question.id] = Entry(question, now)
        return entry

    def show(self, id: str, route: str) -> None:
        """Record the surface that shows question `id`, unless the question has ended."""
        if (entry := self._open.get(id)) is not None:
            entry.route = route

    def settle(self, id: str, answer: Answer) -> bool:
        """End question `id` with `answer`; return False if it has ended already."""
        if (entry := self._open.pop(id, None)) is None:
            self.late_count += answer.outcome.row.is_given
            return False
        question = entry.question
        entry.answer = answer
        self.ended_count += 1
        self.ended.append(
            ClosedQuestion(
                question.id,
                question.kind.value,
                question.summary,
                question.origin,
                answer.outcome,
                answer.answered_by,
                answer.evidence,
                answer.route,
                answer.latency,
                answer.reason,
                answer.ways,
            )
        )
        return True


STEP = 1e-6  # of a progress value that has to rise where the app's stands still
SAME = 1e-3  # two values that are closer are one number to a person


class NoticeKind(enum.Enum):
    """The value is the last part of ABP's notification name."""

    CAPABILITIES_CHANGED = "capabilities/list_changed"
    STATE_CHANGED = "state/changed"
    STARTED = "operation/started"
    COMPLETED = "operation/completed"
    ERROR = "error"
    CONSOLE = "page/console"  # ours: a web page's console has an error or a warning
    OTHER = "other"  # an event ABP does not define; `Notice.name` says which


@dataclass(frozen=True, slots=True)
class Notice:
    """An app's notification.

    `name` is the full ABP name; `operation` the operation it is about, if any.
    """

    kind: NoticeKind
    name: str
    data: JsonObject = field(default_factory=dict)
    operation: str | None = None

    @property
    def failed(self) -> bool:
        """An error, or an operation that says it did not succeed."""
        if self.kind is NoticeKind.CONSOLE:
            return self.data.get("level") != "warning"
        return self.kind is NoticeKind.ERROR or (
            self.kind is NoticeKind.COMPLETED and self.data.get("success") is False
        )


def describe_notice(notice: Notice) -> str:
    """What an app told, in one line that is safe to show."""
    return sanitize.label(_line(notice), sanitize.LINE_LIMIT)


def _line(notice: Notice) -> str:
    data = notice.data
    if notice.kind is NoticeKind.STATE_CHANGED:
        return f"{_short(data.get('field', 'its state'))} is now {_short(data.get('newValue'))}"
    if notice.kind is NoticeKind.STARTED:
        return f"started {_short(data.get('capability', notice.operation))}"
    if notice.kind is NoticeKind.COMPLETED:
        called = _short(data.get("capability", notice.operation))
        return f"{'failed' if notice.failed else 'completed'} {called}"
    if notice.kind is NoticeKind.ERROR:
        return (
            f"error {_short(data.get('code', 'without a code'))}:"
            f" {_short(data.get('message', 'no message'))}"
        )
    if notice.kind is NoticeKind.CONSOLE:
        level = "a warning" if data.get("level") == "warning" else "an error"
        at = f" ({_short(data['at'])})" if data.get("at") else ""
        lost = f"; {_short(data['lost'])} before it were not told" if data.get("lost") else ""
        words = sanitize.label(to_text(data.get("message", "no message")), sanitize.LINE_LIMIT)
        return f"its page's console has {level}: {words}{at}{lost}"
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
    """A progress report.

    `value` counts up to `total` if known; `remaining` is in seconds; `token` is the call's own.
    """

    operation: str | None
    value: float
    total: float | None = None
    status: str = ""
    stage: str = ""
    remaining: float | None = None
    token: str | None = None

    @property
    def message(self) -> str:
        """Status, stage and time left in one line, as hosts show it."""
        left = "" if self.remaining is None else f"about {max(1, round(self.remaining))} s left"
        return " · ".join(
            part
            for part in (self.status, self.stage if self.stage != self.status else "", left)
            if part
        )


def next_progress(last: Progress | None, report: Progress) -> Progress:
    """Return `report` as a host may get it after `last`: higher (MCP basic/patterns/progress).

    A value that does not rise becomes the smallest step up, without a total that does not hold for
    it.
    """
    value, total = report.value, report.total
    if last is not None and last.total is not None and total == 1:
        value, total = value * last.total, last.total
    rising = value
    if last is not None and value <= last.value:
        rising = max(last.value + STEP, math.nextafter(last.value, math.inf))
    if rising - value < SAME and (total is None or rising <= total):
        return replace(report, value=rising, total=total)
    counted = f"{value:g}" + ("" if total is None else f" of {total:g}")
    stage = "" if report.stage == report.status else report.stage
    words = " · ".join(filter(None, (stage, counted)))
    return replace(report, value=rising, total=None, stage=words)
