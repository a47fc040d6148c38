"""An ABP app's notifications -> `Notice` and `Progress`, in all documented shapes (X2, X4, X5,
X24).
"""

from __future__ import annotations

from collections.abc import Mapping

from abp_bridge.core import sanitize
from abp_bridge.core.event import Notice, NoticeKind, Progress
from abp_bridge.core.json_value import JsonValue, as_list, as_number, as_object, as_text
from abp_bridge.protocols.abp.envelope import payload_object

PREFIX = "notifications/"
PROGRESS = PREFIX + "progress"
WITHDRAWN = PREFIX + "elicitation/withdrawn"  # ours: an app waits for no answer any more
MAX_NUMBER = 1e15  # up to which a float still tells two steps apart

_EVENTS = {kind.value: kind for kind in NoticeKind if kind is not NoticeKind.OTHER}


def decode_notice(raw: JsonValue) -> Notice:
    """Decode `{event, data}` or `{method, params}`; an invalid one becomes an `OTHER` notice."""
    if not isinstance(raw, Mapping):
        return Notice(NoticeKind.OTHER, PREFIX + "unreadable", {"value": raw})
    name = raw.get("event", raw.get("method"))
    name = sanitize.label(name, 120) if isinstance(name, str) and name else "unnamed"
    name = name if name.startswith(PREFIX) else PREFIX + name
    data = payload_object(raw.get("data", raw.get("params")))
    kind = _EVENTS.get(name.removeprefix(PREFIX), NoticeKind.OTHER)
    if kind is NoticeKind.CAPABILITIES_CHANGED:
        data = decode_changes(data)
    operation = data.get("operationId")
    return Notice(kind, name, data, _name(operation) if operation is not None else None)


def decode_changes(raw: JsonValue) -> dict[str, list[str]]:
    """Decode CapabilityChanges `{added, removed, changed}`, with names or capabilities (X24)."""
    changes = as_object(raw)
    return {word: _names(changes.get(word)) for word in ("added", "removed", "changed")}


def decode_progress(raw: JsonValue) -> Progress | None:
    """Decode a progress report, or return None if it has no number.

    `percentage` may replace `progress` (X5). `estimatedRemaining` is in milliseconds.
    """
    report = as_object(raw)
    value, total, percentage = (
        _number(report.get(word)) for word in ("progress", "total", "percentage")
    )
    if value is None and percentage is None:
        return None
    if value is None or (total is None and percentage is not None):
        value, total = (percentage or 0.0) / 100, 1.0
    remaining = _number(report.get("estimatedRemaining"))
    token, operation = (
        None if report.get(word) is None else _name(report[word])
        for word in ("progressToken", "operationId")
    )
    return Progress(
        operation=operation or token,
        value=max(0.0, value),
        total=total if total is not None and total > 0 else None,
        status=sanitize.label(as_text(report.get("status", report.get("message")))),
        stage=sanitize.label(as_text(report.get("stage"))),
        remaining=None if remaining is None or remaining < 0 else remaining / 1000,
        token=token if operation else None,
    )


def _names(value: JsonValue) -> list[str]:
    named = [item.get("name") if isinstance(item, Mapping) else item for item in as_list(value)]
    return [_name(name) for name in named if isinstance(name, str)]


def _name(value: JsonValue) -> str:
    return sanitize.label(value, 120)


def _number(value: JsonValue) -> float | None:
    number = as_number(value)
    return number if number is not None and abs(number) < MAX_NUMBER else None
