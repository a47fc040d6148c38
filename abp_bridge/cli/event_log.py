"""Log a session's events at level debug, without what was asked, shown or answered."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from abp_bridge.core.sanitize import label
from abp_bridge.session.context import (
    AttemptEvent,
    ChoiceEvent,
    InputRequestEvent,
    InputResolvedEvent,
    NoticeEvent,
    ProgressEvent,
    SessionEvent,
    StepEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


def log_event(event: SessionEvent) -> None:
    """Write an event as one log line."""
    words, *values = _LINES[type(event)](event)
    logger.debug(words, *values)


def _request(event: InputRequestEvent) -> tuple[str, ...]:
    return "%s: %s asks %s", event.question.id, event.question.asker, event.question.kind.value


def _resolved(event: InputResolvedEvent) -> tuple[object, ...]:
    answer = event.answer
    words = "%s: %s by %s (%s) after %.3f s"
    by = answer.answered_by.value
    return words, event.question.id, answer.outcome.value, by, answer.evidence, answer.latency


_LINES: dict[type, Callable[..., tuple[object, ...]]] = {
    InputRequestEvent: _request,
    AttemptEvent: lambda event: ("%s: asked by %s", event.question, event.route),
    StepEvent: lambda event: (
        "%s: step %d, %d buttons",
        event.question,
        event.number,
        len(event.options),
    ),
    ChoiceEvent: lambda event: (
        "%s: step %d %s after %.3f s",
        event.question,
        event.number,
        "dismissed" if event.label is None else "pressed",
        event.seconds,
    ),
    InputResolvedEvent: _resolved,
    NoticeEvent: lambda event: ("%s tells %s", label(event.app), event.notice.kind.value),
    ProgressEvent: lambda event: ("%s is at %g", label(event.app), event.progress.value),
}
