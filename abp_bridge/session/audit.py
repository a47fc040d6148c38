"""The audit log: one line of JSON for each question.

It has a keyed digest of each answer, which the key's holder can check; a digest without a key could
be guessed for yes or no. Secrets have none.
"""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from abp_bridge.core.answer import DIGEST_KEY_LENGTH, answer_digest
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.mcp.server_elicitation import server_outcome
from abp_bridge.session.context import InputRequestEvent, InputResolvedEvent, Observer, SessionEvent

if TYPE_CHECKING:
    from abp_bridge.core.json_value import JsonObject
    from abp_bridge.core.question import Question

logger = logging.getLogger(__name__)

_PRIVATE = 0o600  # who was asked what is its person's own affair


class AuditError(AbpBridgeError):
    """The log or its key file cannot be used; the message says why."""


class AuditLog:
    """An append-only file that several processes may share; its key is beside it, in `.key`.

    Raises:
        AuditError: It cannot be written, or its key not be read.
    """

    def __init__(self, path: str) -> None:
        try:
            self._key = _read_key(f"{path}.key")
            self._file = _open_file(path, os.O_APPEND)
            self._torn = _is_torn(self._file)
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise AuditError(f"--audit {path!r} cannot be used: {why}") from None

    def observer(self) -> Observer:
        """Return the observer of one session; a line that cannot be written is logged."""
        asked: dict[str, float] = {}  # when, by question: another session has the same names

        def observe(event: SessionEvent) -> None:
            if isinstance(event, InputRequestEvent):
                asked[event.question.id] = time.time()
            elif isinstance(event, InputResolvedEvent):
                now = time.time()
                times = (asked.pop(event.question.id, now), now)
                line = json.dumps(self._line_of(event, times)) + "\n"
                self._append(line.encode(), event.question)

        return observe

    def _append(self, line: bytes, question: Question) -> None:
        """Append a line; first complete one that was cut."""
        rest = b"\n" * self._torn + line
        try:
            while rest:
                written = rest[: os.write(self._file, rest)]
                self._torn = not written.endswith(b"\n")
                rest = rest[len(written) :]
        except OSError as problem:
            logger.error(
                "--audit: the record of the question %s of %s is missing, it cannot be written: %s",
                question.id,
                question.asker,
                problem.strerror,
            )

    def _line_of(self, event: InputResolvedEvent, times: tuple[float, float]) -> JsonObject:
        question, answer, context = event.question, event.answer, event.context
        outcome = server_outcome(question, answer)
        asked, ended = (datetime.fromtimestamp(each, UTC).isoformat() for each in times)
        described: JsonObject = {
            "asked": asked,
            "ended": ended,
            "asker": question.asker,
            "origin": question.origin,
            "question": question.summary,
            "calls": list(context.calls),
            "tools": [label(each) for each in context.tools],
            "destructive": question.destructive,
            "outcome": outcome.value,
            "answeredBy": answer.answered_by.value,
            "evidence": answer.evidence,
            "route": answer.route,
            "reason": answer.reason,
        }
        if outcome is not Outcome.ACCEPTED or question.secret:
            return described
        return {**described, "answer": answer_digest(self._key, answer.content)}


def _open_file(path: str, flags: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, _PRIVATE)
    os.fchmod(descriptor, _PRIVATE)  # also where it was there before
    return descriptor


def _is_torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _read_key(path: str) -> bytes:
    """Read the key, or create it; of two created at once the first counts."""
    made = f"{path}.{os.getpid()}"
    descriptor = _open_file(made, os.O_EXCL)
    try:
        os.write(descriptor, os.urandom(DIGEST_KEY_LENGTH).hex().encode() + b"\n")
        os.link(made, path)
    except FileExistsError:
        pass
    finally:
        os.close(descriptor)
        os.unlink(made)
    with open(path, encoding="ascii") as file:
        key = bytes.fromhex(file.read().strip())
    if len(key) != DIGEST_KEY_LENGTH:
        raise ValueError(f"the key in {path} has not {DIGEST_KEY_LENGTH} bytes")
    return key
