"""Files of the user that an app asks for.

A file that the app names is read if it is in a granted folder and the user allows it; any other the
user picks. A path is resolved before it is checked, so that no link leads out of a granted folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio

from abp_bridge.core import file
from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Question
from abp_bridge.core.sanitize import escape, label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.session.context import AskContext

READ_LIMIT = 10.0  # seconds for one file
MAX_URI = 4_096  # characters; the longest path that Linux opens
MAX_ROOTS = 100  # folders of a host that are looked at: each costs a call of the file system
FILE, CONFIRMED = "file", "confirmed"


class FileRefusedError(AbpBridgeError):
    """A named file that cannot be given.

    `private` reasons are for the user: the app learns nothing of what is there.
    """

    def __init__(self, why: str, *, private: bool = False) -> None:
        super().__init__(why)
        self.private = private


@dataclass(frozen=True, slots=True)
class _Named:
    """A file as it was when the user was asked; a file that replaces it may reuse its number."""

    path: Path
    identity: tuple[int, int, int]
    size: int
    mime_type: str


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A question for a file: for consent to read the `named` one, or for any."""

    question: Question
    named: _Named | None = None
    note: str = ""

    async def complete(self, answer: Answer) -> Answer:
        """Return the app's answer, with the file that the user allowed to read."""
        if self.note and answer.outcome is Outcome.UNSUPPORTED:
            return replace(answer, reason=f"{self.note} {answer.reason}")
        if self.named is None or answer.outcome is not Outcome.ACCEPTED:
            return answer
        if answer.content[CONFIRMED] is not True:
            return replace(
                answer, outcome=Outcome.DECLINED, content={}, reason="That was not allowed."
            )
        try:
            with anyio.fail_after(READ_LIMIT):
                content = await anyio.to_thread.run_sync(_read, self.named, abandon_on_cancel=True)
        except (OSError, FileRefusedError) as problem:  # a TimeoutError is an OSError
            reason = (
                f"It was allowed, but {self.named.path} cannot be read:"
                f" {problem or 'it took too long'}"
            )
            return replace(
                answer,
                outcome=Outcome.UNSUPPORTED,
                answered_by=AnsweredBy.NOBODY,
                content={},
                reason=reason,
            )
        return replace(
            answer,
            content={
                FILE: file.encode(file.File(content, self.named.mime_type, self.named.path.name))
            },
        )


class FileAccess:
    """Look at the files that apps name; `roots` returns the granted folders."""

    def __init__(self, roots: Callable[[AskContext], Awaitable[Sequence[str]]]) -> None:
        self._roots = roots

    async def look(self, question: Question, context: AskContext) -> FileRequest:
        """How a question for a file is to be asked."""
        try:
            named = await self._find(question, context)
        except FileRefusedError as why:
            named_it = f"The app names {label(question.request.get('uri'))}, which is not read"
            return FileRequest(
                replace(question, note=f"{named_it}: {why}."),
                note=f"{named_it}: {_NOT_THIS if why.private else why}.",
            )
        if named is None:
            return FileRequest(question)
        return FileRequest(_ask_consent(question, named), named)

    async def _find(self, question: Question, context: AskContext) -> _Named | None:
        """Return the file that the app names, if any. Raises FileRefusedError."""
        uri = question.request.get("uri")
        if not isinstance(uri, str) or not uri.strip():
            return None
        if len(uri) > MAX_URI:
            raise FileRefusedError(f"it is longer than {MAX_URI} characters")
        path = _local(uri)
        roots = await self._roots(context)
        accept = question.fields[0].accept
        with anyio.move_on_after(READ_LIMIT):
            return await anyio.to_thread.run_sync(
                _look, path, roots, accept, abandon_on_cancel=True
            )
        raise FileRefusedError("it could not be looked at in time")


def _ask_consent(question: Question, named: _Named) -> Question:
    """Return the question for consent; the bridge's words come before the app's."""
    field = Field(CONFIRMED, FieldType.BOOLEAN, {"type": "boolean"}, title="Allow")
    asked = f"May it read {safe_path(named.path)}? ({named.size} bytes, {named.mime_type})"
    return replace(
        question, fields=(field,), message=f"{asked}\n\n{question.introduce('The app says:')}"
    )


def safe_path(path: Path) -> str:
    """A path so that no two look alike: what cannot be seen is written as its code."""
    shown = escape(str(path).replace("\\", "\\\\"))
    return f'"{shown}"' if "  " in shown or shown != shown.strip() else shown


def _local(uri: str) -> Path:
    """Decode an absolute path or a file: URI. Raises FileRefusedError."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise FileRefusedError("that is no address") from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
    elif not parts.scheme:
        path = Path(uri)
    else:
        raise FileRefusedError("only files of this machine are read")
    if not path.is_absolute() or "\0" in str(path):
        raise FileRefusedError("it must be an absolute path")
    return path


def _look(path: Path, roots: Sequence[str], accept: Sequence[str]) -> _Named:
    granted = [root for root in map(_resolved, map(Path, roots[:MAX_ROOTS])) if root is not None]
    found, above = _resolved(path), _resolved(path.parent)
    # Whether a file exists is not told of any other place.
    if not any(
        place is not None and place.is_relative_to(root)
        for root in granted
        for place in (found, above)
    ):
        raise FileRefusedError(_OUTSIDE)
    if found is None or not any(found.is_relative_to(root) for root in granted):
        raise FileRefusedError(
            _OUTSIDE if found is not None else "there is no such file", private=True
        )
    try:
        status = found.stat()
    except OSError as problem:
        raise FileRefusedError(
            f"it cannot be looked at ({problem.strerror})", private=True
        ) from None
    mime_type = file.guess_type(found.name)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefusedError("it is no file", private=True)
    if status.st_size > file.MAX_SIZE:
        raise FileRefusedError(
            f"it has {status.st_size} bytes; at most {file.MAX_SIZE} can be given", private=True
        )
    if not file.admits(accept, mime_type):
        raise FileRefusedError(
            f"it is {mime_type}, and the app takes {' or '.join(accept)}", private=True
        )
    return _Named(found, _identity(status), status.st_size, mime_type)


_OUTSIDE = "it lies in no folder that was granted (--root)"
_NOT_THIS = "it is not there, or not such a file"


def _resolved(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True) if path.is_absolute() else None
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # links that go round in a circle; names that no file has
        return None


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _read(named: _Named) -> bytes:
    descriptor = os.open(named.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if _identity(os.fstat(descriptor)) != named.identity:
            raise FileRefusedError("it was replaced or changed meanwhile")
        content = opened.read(file.MAX_SIZE + 1)
    if len(content) > file.MAX_SIZE:
        raise FileRefusedError("it has grown too large meanwhile")
    return content
