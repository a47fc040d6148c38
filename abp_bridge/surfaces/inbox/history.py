"""What was answered, when and how: a line for each question that ended, without what it said and
what was answered. Bridges write it, several at once; the inbox reads it.

It begins when a browser is paired, and goes with the pairing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from abp_bridge.core.answer import answer_digest
from abp_bridge.core.json_value import as_object, as_text, parse_json
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.files import PlaceError, lock
from abp_bridge.surfaces.inbox import pairing
from abp_bridge.surfaces.inbox.places import state_folder

if TYPE_CHECKING:
    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question

logger = logging.getLogger(__name__)

KEPT = 500  # lines
DAYS = 30  # that a line is kept
MAX_FILE = 1024 * 1024  # bytes that are read: more than `2 * KEPT` lines have
LOCK_LIMIT = 0.1  # seconds for another bridge that writes a line: questions wait meanwhile
_MAX_ASKER = 200  # characters
_NAME = "history.jsonl"


@dataclass(frozen=True, slots=True)
class Ended:
    """A question that is over: who asked by which method, its outcome, who answered, and the
    digest of the answer, empty where there was none, or a secret.
    """

    time: datetime
    asker: str
    kind: str
    outcome: str
    answered_by: str
    digest: str


def add(question: Question, answer: Answer) -> None:
    """Write a line, where the person has an inbox. Where that fails, the log says so."""
    try:
        kept = pairing.load()
        if kept is not None:
            _append(json.dumps(_describe(question, answer, kept.key)) + "\n")
    except PlaceError as problem:
        logger.warning("the history of the inbox lacks a question: %s", problem)
    except OSError as problem:
        logger.warning("the history of the inbox lacks a question: %s", problem.strerror)


def _describe(question: Question, answer: Answer, key: bytes) -> dict[str, str | None]:
    has_digest = answer.outcome is Outcome.ACCEPTED and not question.secret
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "asker": label(question.asker, _MAX_ASKER),
        "kind": question.kind.value,
        "outcome": answer.outcome.value,
        "answeredBy": answer.answered_by.value,
        "digest": answer_digest(key, answer.content) if has_digest else None,
    }


def _append(line: str) -> None:
    """Raises OSError."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(state_folder() / _NAME, flags, 0o600)
    with open(descriptor, "r+", encoding="utf-8", errors="replace") as file:
        lock(descriptor, wait=LOCK_LIMIT)
        lines = file.read(MAX_FILE).splitlines(keepends=True)
        oldest = (datetime.now(UTC) - timedelta(days=DAYS)).isoformat(timespec="seconds")
        old = sum(1 for _ in takewhile(lambda each: _time(each) < oldest, lines))
        if old or len(lines) >= 2 * KEPT:
            file.truncate(0)
            file.writelines(lines[max(old, len(lines) - KEPT) :])
        file.write(line)


def _time(line: str) -> str:
    """Of one line; empty where it is none, which is older than all."""
    try:
        return as_text(as_object(parse_json(line)).get("time"))
    except ValueError:
        return ""


def read() -> Sequence[Ended]:
    """What there is, the newest first, without lines that are none."""
    try:
        with open(state_folder() / _NAME, encoding="utf-8", errors="replace") as file:
            lines = file.read(MAX_FILE).splitlines()
    except (OSError, PlaceError):
        return ()
    oldest = datetime.now(UTC) - timedelta(days=DAYS)
    ended = [found for line in reversed(lines) if (found := _decode(line)) is not None]
    return [each for each in ended[:KEPT] if each.time >= oldest]


def _decode(line: str) -> Ended | None:
    try:
        members = as_object(parse_json(line))
        time = datetime.fromisoformat(as_text(members.get("time"))).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    names = ("asker", "kind", "outcome", "answeredBy", "digest")
    return Ended(time, *(label(as_text(members.get(name)), _MAX_ASKER) for name in names))


def forget() -> None:
    """Remove it. Raises PlaceError."""
    path = state_folder() / _NAME
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        raise PlaceError(f"{path} cannot be removed: {problem.strerror}") from None
