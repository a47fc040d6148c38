"""Writes a trace: `serve --record FILE`.

Hears what passes on the bridge's connections and what happens to its questions, and writes it down.

It never holds up a session and never ends one: a file that cannot be written ends the recording,
with a line on stderr. Nothing is written, and no file made, before the first message. What must not
be written, `redact` says.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any

from abp_bridge import VERSION
from abp_bridge.core import matrix
from abp_bridge.core.event import (
    Event,
    InputRequestEvent,
    InputResolvedEvent,
    NoticeEvent,
    ProgressEvent,
)
from abp_bridge.core.json_text import is_deeper, parse
from abp_bridge.core.json_value import JsonValue, as_object
from abp_bridge.core.notice import describe
from abp_bridge.core.sanitize import redact_target
from abp_bridge.rpc.tap import Tap, observe_stream
from abp_bridge.settings import Settings, to_environment
from abp_bridge.trace.format import BRIDGE, DEEPEST, TOOLS, Entry, Head, dump, dump_entry, dump_head
from abp_bridge.trace.redact.answers import SecretAnswers, secrets_of
from abp_bridge.trace.redact.redactor import MAX_TEXT, Redactor, RedactorFullError
from abp_bridge.trace.redact.structure import SECRET

logger = logging.getLogger(__name__)

MAX_FILE = 64 * 2**20  # bytes: a forgotten recording fills no disk
MAX_RAW = 2_000  # characters of a line that is no JSON
MAX_SESSIONS = 9  # processes that record beside each other under one name
TOO_MANY = "there were more secrets than can be kept in mind"


class Recorder:
    """The recording of one process."""

    def __init__(
        self,
        path: str,
        settings: Settings,
        command: str,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """
        Args:
            path: of the file, which is made with the first message.
            settings: what the bridge was started with; the head of the trace says it.
            command: what it was started as: `serve`, or `acp`.
            environ: whose values must not be read in the trace.
        """
        self._path = path
        self._settings = settings
        self._command = command
        self._redactor = Redactor(env=_hidden(environ), places=_places(settings))
        self._answers = SecretAnswers(self._redactor.learn)
        self._apps = list(dict.fromkeys(settings.apps))
        self._launched = 0
        self._file: int | None = None
        self._began: float | None = None
        self._size = 0
        self._ended = False

    # --- what is heard ---

    def tap(self, party: str) -> Tap:
        """A tap that writes down what passes on the connection with a party (`rpc.tap`)."""
        return partial(
            observe_stream,
            read=partial(self._heard, party, BRIDGE),
            written=partial(self._heard, BRIDGE, party),
        )

    def tools(self) -> Tap:
        """A tap for the agent's next connection to the server that it is given: each launch of it
        is a party of its own.
        """
        self._launched += 1
        return self.tap(TOOLS if self._launched == 1 else f"{TOOLS} {self._launched}")

    def app(self, target: str) -> str:
        """The party that the app at `target` is: the same each time it starts."""
        if target not in self._apps:
            self._apps.append(target)
        number = self._apps.index(target) + 1
        return "app" if number == 1 else f"app {number}"

    def observe(self, event: Event) -> None:
        """Write an event down, and learn the secret that it may answer with (`Observer`)."""
        if isinstance(event, InputResolvedEvent) and event.question.secret:
            self.secret(secrets_of(event.question, event.answer.content))
        self._ending_on_error(
            lambda: self._write(
                Entry("event", self._redactor.clean_members(_members(event)), ms=self._now())
            )
        )

    def message(self, sender: str, to: str, message: JsonValue) -> None:
        """A message that passed, wherever it was heard."""
        self._record(Entry("message", message, sender, to, self._now()))

    def closed(self, sender: str, to: str) -> None:
        """The sender has ended what it says."""
        if self._began is not None:
            self._record(Entry("closed", True, sender, to, self._now()))

    def secret(self, value: JsonValue) -> None:
        """`value` must not stand in the trace, from now on."""
        self._ending_on_error(lambda: self._redactor.learn(value))

    def filled(self, entry: Entry) -> None:
        """A person sent a page."""
        self._record(replace(entry, ms=self._now()))

    def _heard(self, sender: str, to: str, line: bytes | None, size: int) -> None:
        if line is None:
            self.closed(sender, to)
        elif not self._ended and line.strip():
            self._on_line(Entry("raw", "", sender, to, self._now()), line, size)

    def _on_line(self, entry: Entry, line: bytes, size: int) -> None:
        """A line that passed: a message, or what can be said of it."""
        try:
            message = parse(line) if size == len(line) else None
        except ValueError:
            message = None
        if message is None:
            self._record(replace(entry, value=self._raw(entry, line, size)))
        elif is_deeper(message, DEEPEST):
            self._record(replace(entry, value=f"[cut {size} characters]"))
        else:
            self.message(entry.sender, entry.to, message)

    def _raw(self, entry: Entry, line: bytes, size: int) -> str:
        """A line that is no message: first without its secrets, then as far as it is kept.

        What may answer a question for one is not kept at all.
        """
        if size > MAX_TEXT or self._answers.may_be_answer(entry):
            return f"[cut {size} characters]"
        words = self._redactor.clean_text(line.decode(errors="replace"))
        return words[:MAX_RAW] + (
            f" [cut {len(words) - MAX_RAW} characters]" if len(words) > MAX_RAW else ""
        )

    def _ending_on_error(self, write: Callable[[], None]) -> None:
        """Whatever it meets, a recording ends and its session does not."""
        if self._ended:
            return
        try:
            write()
        except RedactorFullError:
            self._end(TOO_MANY)
        except OSError as problem:
            self._end(str(problem))
        except Exception as problem:
            logger.exception("a recording met something that it cannot write down")
            self._end(f"it met something that it cannot write down ({type(problem).__name__})")

    def _record(self, entry: Entry) -> None:
        self._ending_on_error(lambda: self._write_down(entry))

    def _write_down(self, entry: Entry) -> None:
        if self._file is None:
            self._begin(entry)
        if entry.kind == "message":
            self._redactor.learn_named(entry.value)
            self._write(
                replace(
                    entry, value=self._redactor.clean_message(self._answers.without_secrets(entry))
                )
            )
        elif entry.kind == "fill":
            self._write(replace(entry, value=self._redactor.clean_members(entry.value)))
        else:
            self._write(replace(entry, value=self._redactor.clean(entry.value)))

    # --- the file ---

    def _begin(self, first: Entry) -> None:
        self._began = time.monotonic()
        self._file = _create(self._path)
        head = Head(
            fixture=False,
            host=_protocol(first.value),
            run=(
                self._command,
                *(
                    word
                    for target in self._settings.apps
                    for word in ("--app", f"stdio:{{{self.app(target)}}}")
                ),
                *_AGENT[self._command],
            ),
            env={
                name: self._redactor.clean_text(value)
                for name, value in to_environment(self._settings).items()
            },
            apps={
                self.app(target): self._redactor.clean_text(redact_target(target))
                for target in self._settings.apps
            },
            bridge=VERSION,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._put(dump_head(head))

    def _now(self) -> int:
        return 0 if self._began is None else round((time.monotonic() - self._began) * 1000)

    def _write(self, entry: Entry) -> None:
        if self._file is None or self._ended:
            return
        try:
            self._put(dump_entry(entry))
        except (OSError, ValueError) as problem:
            self._end(str(problem))

    def _put(self, line: str) -> None:
        assert self._file is not None
        data = line.encode(errors="replace")
        if self._size + len(data) > MAX_FILE:
            os.write(
                self._file,
                dump(
                    {
                        "event": "RecordingEnded",
                        "reason": f"it has {MAX_FILE} bytes; what came after is not here",
                    }
                ).encode(),
            )
            self._end(f"it has reached {MAX_FILE} bytes")
            return
        self._size += len(data)
        if os.write(self._file, data) < len(data):
            raise OSError("the disk is full")

    def _end(self, reason: str) -> None:
        self._ended = True
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None
        logger.warning("the recording ends here: %s. The session goes on", reason)


_AGENT: dict[str, Sequence[str]] = {"serve": (), "acp": ("--", "{agent}")}


def _create(path: str) -> int:
    """A file of ours alone: several bridges that record under one name each get their own (FILE,
    FILE.2, ...). Raises OSError.
    """
    for number in range(1, MAX_SESSIONS + 1):
        name = path if number == 1 else f"{path}.{number}"
        file = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
        )
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(f"{name} is no file; a recording needs one")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        os.fchmod(file, 0o600)  # it may have been there before
        return file
    raise OSError(f"{MAX_SESSIONS} other bridges write to {path}")


def _protocol(first: JsonValue) -> str:
    """What the host speaks, by its first message."""
    params = as_object(as_object(first).get("params"))
    asked = params.get("protocolVersion")
    if isinstance(asked, int):
        return f"acp {asked}"
    modern = as_object(params.get("_meta")).get("io.modelcontextprotocol/protocolVersion")
    return f"mcp {asked or modern or ''}".strip()


def _hidden(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what is public: settings of ours that hold no secret, and what says
    nothing of anybody.
    """
    public = ("LANG", "LANGUAGE", "TERM", "SHELL", "PATH", "PWD", "OLDPWD", "HOME", "_")
    ours = [name for name in environ if name.startswith("ABP_") and "PASSWORD" not in name]
    return {
        name: value
        for name, value in environ.items()
        if name not in public and name not in ours and not name.startswith(("LC_", "PYTHON"))
    }


def _places(settings: Settings) -> dict[str, str]:
    """Paths of this machine, and what is written for them."""
    places = {sys.prefix: "[python]", tempfile.gettempdir(): "[tmp]", os.path.expanduser("~"): "~"}
    with contextlib.suppress(OSError):
        places[os.getcwd()] = "[cwd]"
    if settings.output_dir:
        places[os.path.abspath(settings.output_dir)] = "[output]"
    return places


# --- events as they stand in a trace --------------------------------------------------------------


def _members(event: Event) -> dict[str, JsonValue]:
    """An event as it stands in a trace: without its time, and without a reason where none is."""
    readers = _READERS.get(type(event)) or {
        each.name: attrgetter(each.name) for each in fields(event) if each.name != "time"
    }
    members: dict[str, Any] = {name: read(event) for name, read in readers.items()}
    written: dict[str, JsonValue] = {"event": type(event).__name__}
    return written | {
        name: round(each, 3) if name == "seconds" else each
        for name, each in members.items()
        if (name, each) != ("reason", "")
    }


def _content(event: InputResolvedEvent) -> JsonValue:
    is_secret = event.question.secret and event.answer.content
    return SECRET if is_secret else dict(event.answer.content)


# What is written of an event and how each is read of it, where that is not what it has.
_READERS: dict[type, dict[str, Callable[[Any], JsonValue]]] = {
    InputRequestEvent: {
        "question": attrgetter("question.id"),
        "app": attrgetter("question.origin"),
        "method": attrgetter("question.kind.value"),
        "shape": lambda event: matrix.shape(event.question).value,
        "message": attrgetter("question.message"),
    },
    InputResolvedEvent: {
        "question": attrgetter("question.id"),
        "outcome": attrgetter("answer.outcome.value"),
        "answeredBy": attrgetter("answer.answered_by.value"),
        "route": attrgetter("answer.route"),
        "seconds": attrgetter("answer.latency"),
        "reason": attrgetter("answer.reason"),
        "content": _content,
    },
    NoticeEvent: {
        "app": attrgetter("app"),
        "name": attrgetter("notice.name"),
        "says": lambda event: describe(event.notice),
    },
    ProgressEvent: {
        "app": attrgetter("app"),
        "value": attrgetter("progress.value"),
        "total": attrgetter("progress.total"),
        "says": attrgetter("progress.message"),
    },
}
