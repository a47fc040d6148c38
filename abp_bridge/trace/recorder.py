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
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from abp_bridge import VERSION
from abp_bridge.core import matrix
from abp_bridge.core.event import (
    ChoiceEvent,
    Event,
    InputRequestEvent,
    InputResolvedEvent,
    NoticeEvent,
    ProgressEvent,
    RungEvent,
    StepEvent,
)
from abp_bridge.core.json_text import is_deeper, parse
from abp_bridge.core.notice import describe
from abp_bridge.core.sanitize import redact_target
from abp_bridge.rpc.tap import Tap, observe_stream
from abp_bridge.settings import Settings, to_environment
from abp_bridge.trace.format import BRIDGE, TOOLS, Entry, Head, dump, spell, spell_head
from abp_bridge.trace.redact.answers import SecretAnswers, secrets_of
from abp_bridge.trace.redact.redactor import MAX_TEXT, Redactor, RedactorFullError
from abp_bridge.trace.redact.structure import SECRET

logger = logging.getLogger(__name__)

Json = Any

MAX_FILE = 64 * 2**20
DEEPEST = 200  # levels of a message
MAX_RAW = 2_000  # characters of a line that is no JSON
MAX_SESSIONS = 9  # processes that record beside each other under one name
TOO_MANY = "there were more secrets than can be kept in mind"


class Recorder:
    """The recording of one process. `command` is what it was started as: `serve`, or `acp`."""

    def __init__(
        self,
        path: str,
        settings: Settings,
        command: str,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._path = path
        self._settings = settings
        self._command = command
        self._environ = dict(environ)
        self._redactor = Redactor(env=_hidden(environ), places=_places(settings))
        self._answers = SecretAnswers(self._redactor.learn)
        self._apps = dict.fromkeys(settings.apps, "")
        self._launched = 0
        self._file: int | None = None
        self._began: float | None = None
        self._size = 0
        self._over = False

    # --- what is heard ---

    def tap(self, party: str) -> Tap:
        """A tap for the connection with a party: see `wire.tap`."""
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
        self._apps.setdefault(target, "")
        number = list(self._apps).index(target) + 1
        return "app" if number == 1 else f"app {number}"

    def observe(self, event: Event) -> None:
        """See `core.event.Observer`."""
        if isinstance(event, InputResolvedEvent) and event.question.secret:
            self.secret(secrets_of(event.question, event.answer.content))
        self._guarded(
            lambda: self._write(
                Entry(
                    "event", self._redactor.clean_members(_TOLD[type(event)](event)), ms=self._now()
                )
            )
        )

    def message(self, sender: str, to: str, message: Json) -> None:
        """A message that passed, wherever it was heard."""
        self._note(Entry("message", message, sender, to, self._now()))

    def closed(self, sender: str, to: str) -> None:
        """The sender has ended what it says."""
        if self._began is not None:
            self._note(Entry("closed", True, sender, to, self._now()))

    def secret(self, value: Json) -> None:
        """`value` must not stand in the trace, from now on."""
        self._guarded(lambda: self._redactor.learn(value))

    def filled(self, entry: Entry) -> None:
        """A person sent a page."""
        self._note(replace(entry, ms=self._now()))

    def _heard(self, sender: str, to: str, line: bytes | None, size: int) -> None:
        if line is None:
            self.closed(sender, to)
        elif not self._over and line.strip():
            self._line(Entry("raw", "", sender, to, self._now()), line, size)

    def _line(self, entry: Entry, line: bytes, size: int) -> None:
        """A line that passed: a message, or what can be said of it."""
        try:
            message = parse(line) if size == len(line) else None
        except ValueError:
            message = None
        if message is None:
            self._note(replace(entry, value=self._raw(entry, line, size)))
        elif is_deeper(message, DEEPEST):
            self._note(replace(entry, value=f"[cut {size} characters]"))
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

    def _guarded(self, write: Callable[[], None]) -> None:
        """Whatever it meets, a recording ends and its session does not."""
        if self._over:
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

    def _note(self, entry: Entry) -> None:
        self._guarded(lambda: self._write_down(entry))

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
        self._put(spell_head(head))

    def _now(self) -> int:
        return 0 if self._began is None else round((time.monotonic() - self._began) * 1000)

    def _write(self, entry: Entry) -> None:
        if self._file is None or self._over:
            return
        try:
            self._put(spell(entry))
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
        self._over = True
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


def _protocol(first: Json) -> str:
    """What the host speaks, by its first message."""
    params = first.get("params") if isinstance(first, Mapping) else None
    if not isinstance(params, Mapping):
        return ""
    asked = params.get("protocolVersion")
    if isinstance(asked, int):
        return f"acp {asked}"
    meta = params.get("_meta")
    modern = (
        meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, Mapping) else None
    )
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


def _request(event: InputRequestEvent) -> dict[str, Json]:
    question = event.question
    return {
        "event": "InputRequestEvent",
        "question": question.id,
        "app": question.origin,
        "method": question.kind.value,
        "shape": matrix.shape(question).value,
        "message": question.message,
    }


def _rung(event: RungEvent) -> dict[str, Json]:
    return {"event": "RungEvent", "question": event.question, "route": event.route}


def _step(event: StepEvent) -> dict[str, Json]:
    return {
        "event": "StepEvent",
        "question": event.question,
        "number": event.number,
        "title": event.title,
        "options": list(event.options),
    }


def _choice(event: ChoiceEvent) -> dict[str, Json]:
    return {
        "event": "ChoiceEvent",
        "question": event.question,
        "number": event.number,
        "label": event.label,
        "seconds": round(event.seconds, 3),
    }


def _resolved(event: InputResolvedEvent) -> dict[str, Json]:
    question, answer = event.question, event.answer
    return {
        "event": "InputResolvedEvent",
        "question": question.id,
        "outcome": answer.outcome.value,
        "answeredBy": answer.answered_by.value,
        "route": answer.route,
        "seconds": round(answer.latency, 3),
        **({"reason": answer.reason} if answer.reason else {}),
        "content": SECRET if question.secret and answer.content else dict(answer.content),
    }


def _notice(event: NoticeEvent) -> dict[str, Json]:
    return {
        "event": "NoticeEvent",
        "app": event.app,
        "name": event.notice.name,
        "says": describe(event.notice),
    }


def _progress(event: ProgressEvent) -> dict[str, Json]:
    progress = event.progress
    return {
        "event": "ProgressEvent",
        "app": event.app,
        "value": progress.value,
        "total": progress.total,
        "says": progress.message,
    }


_TOLD: dict[type, Callable[[Any], dict[str, Json]]] = {
    InputRequestEvent: _request,
    RungEvent: _rung,
    StepEvent: _step,
    ChoiceEvent: _choice,
    InputResolvedEvent: _resolved,
    NoticeEvent: _notice,
    ProgressEvent: _progress,
}
