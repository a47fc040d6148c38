"""Write a trace (`serve --record FILE`) of the bridge's connections and questions.

It never delays or ends a session: if the file cannot be written, recording stops with a line on
stderr. The file is created with the first message. `redactor` removes secrets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from abp_bridge import VERSION
from abp_bridge.conformance.format import (
    BEHIND,
    BRIDGE,
    MAX_MESSAGE_LEVELS,
    MODEL,
    TOOLS,
    Entry,
    Head,
    dump,
    dump_entry,
    dump_head,
    stand_in_scheme,
)
from abp_bridge.conformance.redactor import (
    MAX_TEXT,
    Redactor,
    RedactorFullError,
    SecretAnswers,
    secrets_of,
)
from abp_bridge.core import matrix
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, is_deeper, parse_json
from abp_bridge.core.ledger import describe_notice
from abp_bridge.core.redact.command import find_target_secrets, show_model, show_target
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.redact.texts import SECRET
from abp_bridge.jsonrpc.files import lock
from abp_bridge.jsonrpc.tap import Tap, observe_stream
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
from abp_bridge.settings import TABLE, Settings, to_environment, usual_settings

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
        """Prepare a recording; the file at `path` is created with the first message.

        Args:
            command: `serve`, `acp` or `mcp`.
            environ: Variables whose values must not appear in the trace.
        """
        self._path = path
        self._settings = settings
        self._command = command
        self._redactor = Redactor(env=_hidden(environ), places=_places(settings))
        self._redactor.learn(
            [
                secret
                for each in (*settings.apps, settings.sampling or "")
                for secret in find_target_secrets(each)
            ]
        )
        self._answers = SecretAnswers(self._redactor.learn)
        self._apps = list(dict.fromkeys(settings.apps))
        self._launched = 0
        self._file: int | None = None
        self._began = 0.0  # seconds of the clock that only goes forward
        self._size = 0
        self._ended = False

    # --- what is heard ---

    def tap(self, party: str) -> Tap:
        """Return a tap that records the connection with a party."""
        return partial(
            observe_stream,
            read=partial(self._on_line, party, BRIDGE),
            written=partial(self._on_line, BRIDGE, party),
        )

    def tools(self) -> Tap:
        """Return a tap for the agent's next launch of its server: each is a separate party."""
        self._launched += 1
        return self.tap(TOOLS if self._launched == 1 else f"{TOOLS} {self._launched}")

    def app(self, target: str) -> str:
        """Return the party of the app at `target`, the same at each start."""
        if target not in self._apps:
            self._apps.append(target)
        number = self._apps.index(target) + 1
        return "app" if number == 1 else f"app {number}"

    def observe(self, event: SessionEvent) -> None:
        """Record an event and learn the secret in its answer."""
        if isinstance(event, InputResolvedEvent) and event.question.secret:
            self.secret(secrets_of(event.question, event.answer.content))
        self.record(Entry("event", {"event": type(event).__name__, **_members(event)}))

    def message(self, sender: str, to: str, message: JsonValue) -> None:
        """Record a message."""
        self.record(Entry("message", message, sender, to))

    def on_close(self, sender: str, to: str) -> None:
        """Record that the sender closed."""
        self.record(Entry("closed", True, sender, to))

    def secret(self, value: JsonValue) -> None:
        """Keep `value` out of the trace from now on."""
        if not self._ended:
            with self._ending_on_error():
                self._redactor.learn(value)

    def record(self, entry: Entry) -> None:
        """Write an entry without its secrets, stamped with the current time; the first must be a
        message.
        """
        if self._ended or (self._file is None and entry.kind in ("event", "closed")):
            return
        with self._ending_on_error():
            if self._file is None:
                self._begin(entry)
            ms = round((time.monotonic() - self._began) * 1000)
            self._put(dump_entry(replace(entry, value=self._clean(entry), ms=ms)))

    def _on_line(self, sender: str, to: str, line: bytes | None, size: int) -> None:
        """Record a line: a message, or a description of it."""
        if line is None:
            self.on_close(sender, to)
        if not line or not line.strip() or self._ended:
            return
        try:
            message = parse_json(line) if size == len(line) else None
        except ValueError:
            message = None
        if message is not None and not is_deeper(message, MAX_MESSAGE_LEVELS):
            self.message(sender, to, message)
        else:
            raw = Entry("raw", line.decode(errors="replace"), sender, to)
            is_kept = message is None and size <= MAX_TEXT and not self._answers.may_be_answer(raw)
            self.record(raw if is_kept else replace(raw, value=f"[cut {size} characters]"))

    def _clean(self, entry: Entry) -> JsonValue:
        if entry.kind == "message":
            self._redactor.clean(entry.value)  # and what its names tell of is learned from it
            return self._redactor.clean_message(self._answers.without_secrets(entry))
        if entry.kind == "raw":  # first without its secrets, then as far as it is kept
            words = self._redactor.clean_text(entry.value)
            more = len(words) - MAX_RAW
            return words[:MAX_RAW] + (f" [cut {more} characters]" if more > 0 else "")
        if entry.kind in ("fill", "event"):
            line = as_object(entry.value)
            return {
                name: each if name in ("event", "press") else self._redactor.clean(each)
                for name, each in line.items()
            }
        return self._redactor.clean(entry.value)

    @contextlib.contextmanager
    def _ending_on_error(self) -> Iterator[None]:
        """End the recording at an exception; the session continues."""
        try:
            yield
        except RedactorFullError:
            self._stop(TOO_MANY, written=f"{TOO_MANY}; what came after is not here")
        except OSError as problem:
            self._stop(str(problem))
        except Exception as problem:
            logger.exception("a recording met something that it cannot write down")
            self._stop(f"it met something that it cannot write down ({type(problem).__name__})")

    # --- the file ---

    def _begin(self, first: Entry) -> None:
        """Create the file with its head. Raises OSError."""
        self._began = time.monotonic()
        self._file = _create(self._path)
        parties = {self.app(target): target for target in self._settings.apps}
        apps = [
            word
            for party, target in parties.items()
            for word in ("--app", f"{stand_in_scheme(target)}:{{{party}}}")
        ]
        clean = self._redactor.clean_text
        variables = to_environment(self._settings, usual_settings(self._command))
        behind = BEHIND.get(self._command)
        model = self._settings.sampling or ""
        overheard = [MODEL] if model.startswith(("acp:", "http:", "https:")) else []
        if overheard:  # others are named alike wherever they are
            name = model.partition("#")[2]
            stands = f"{{{MODEL}}}"
            stands = f"acp:{stands}" if model[:4] == "acp:" else f"{stands}#{name}"
            variables[TABLE["sampling"].variable] = stands
        head = Head(
            fixture=False,
            host=_protocol(first.value),
            run=(self._command, *apps, *(("--", f"{{{behind}}}") if behind else ())),
            env={name: clean(value) for name, value in variables.items()},
            apps={
                **{party: clean(show_target(target)) for party, target in parties.items()},
                **{party: clean(show_model(model)) for party in overheard},
            },
            bridge=VERSION,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._put(dump_head(head))

    def _put(self, line: str) -> None:
        assert self._file is not None
        data = line.encode(errors="replace")
        if self._size + len(data) > MAX_FILE:
            reason = f"it has {MAX_FILE} bytes; what came after is not here"
            self._stop(f"it has reached {MAX_FILE} bytes", written=reason)
            return
        self._size += len(data)
        if os.write(self._file, data) < len(data):
            raise OSError("the disk is full")

    def _stop(self, reason: str, *, written: str = "") -> None:
        """Write the reason to the file, if possible, and tell the user."""
        self._ended = True
        if self._file is not None:
            with contextlib.suppress(OSError):
                if written:
                    line = dump({"event": "RecordingEnded", "reason": written})
                    os.write(self._file, line.encode())
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None
        logger.warning("the recording ends here: %s. The session goes on", reason)


def _create(path: str) -> int:
    """Create a private file; if FILE exists, FILE.2 and so on. Raises OSError."""
    for number in range(1, MAX_SESSIONS + 1):
        name = path if number == 1 else f"{path}.{number}"
        file = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
        )
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(f"{name} is no file; a recording needs one")
        try:
            lock(file)
        except OSError:
            os.close(file)
            continue
        os.fchmod(file, 0o600)  # it may have been there before
        return file
    raise OSError(f"{MAX_SESSIONS} other bridges write to {path}")


def _protocol(first: JsonValue) -> str:
    """Return the host's protocol, from its first message."""
    message = as_object(first)
    params = as_object(message.get("params", message.get("payload")))
    asked = params.get("protocolVersion")
    if isinstance(asked, int):
        return f"acp {asked}"
    if "features" in params and "clientInfo" not in params:
        return f"abp {asked or ''}".strip()
    modern = as_object(params.get("_meta")).get("io.modelcontextprotocol/protocolVersion")
    return f"mcp {asked or modern or ''}".strip()


def _hidden(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without public variables."""
    public = ("LANG", "LANGUAGE", "TERM", "SHELL", "PATH", "PWD", "OLDPWD", "HOME", "_")
    ours = [name for name in environ if name.startswith("ABP_") and not holds_secret(name)]
    return {
        name: value
        for name, value in environ.items()
        if name not in public and name not in ours and not name.startswith(("LC_", "PYTHON"))
    }


def _places(settings: Settings) -> dict[str, str]:
    """Return this machine's paths and their replacements."""
    places = {sys.prefix: "[python]", tempfile.gettempdir(): "[tmp]", os.path.expanduser("~"): "~"}
    with contextlib.suppress(OSError):
        places[os.getcwd()] = "[cwd]"
    if settings.output_dir:
        places[os.path.abspath(settings.output_dir)] = "[output]"
    return places


# --- events as they stand in a trace --------------------------------------------------------------


def _members(event: SessionEvent) -> dict[str, JsonValue]:
    """Return an event's members without its time and empty reason."""
    match event:
        case InputRequestEvent(question=question):
            return {
                "question": question.id,
                "app": question.origin,
                "method": question.kind.value,
                "shape": matrix.shape(question).value,
                "message": question.message,
            }
        case AttemptEvent():
            return {"question": event.question, "route": event.route}
        case StepEvent():
            shown: JsonObject = {"title": event.title, "options": list(event.options)}
            return {"question": event.question, "number": event.number, **shown}
        case ChoiceEvent():
            pressed: JsonObject = {"label": event.label, "seconds": round(event.seconds, 3)}
            return {"question": event.question, "number": event.number, **pressed}
        case InputResolvedEvent(question=question, answer=answer):
            return {
                "question": question.id,
                "outcome": answer.outcome.value,
                "answeredBy": answer.answered_by.value,
                "route": answer.route,
                "seconds": round(answer.latency, 3),
                **({"reason": answer.reason} if answer.reason else {}),
                "content": SECRET if question.secret and answer.content else dict(answer.content),
            }
        case NoticeEvent(notice=notice):
            return {"app": event.app, "name": notice.name, "says": describe_notice(notice)}
        case ProgressEvent(progress=progress):
            said: JsonObject = {"total": progress.total, "says": progress.message}
            return {"app": event.app, "value": progress.value, **said}
