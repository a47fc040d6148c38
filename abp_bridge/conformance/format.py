"""The format of traces and fixtures (docs/fixtures.md): JSON lines, a head and then one entry a
line.

A trace is what one bridge sent and received. A fixture has the same lines with placeholders where a
bridge may choose, so that any bridge can be tested with it. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from abp_bridge.core.json_value import (
    Json,
    JsonObject,
    JsonValue,
    as_integer,
    as_number,
    is_deeper,
    parse_json,
)
from abp_bridge.core.matrix import QuestionShape
from abp_bridge.core.surface import Surface
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.abp.envelope import is_enveloped_request

FORMAT = 1
_SURFACES = (*(surface.value for surface in Surface), "no elicitation")
_SHAPES = tuple(shape.value for shape in QuestionShape)
TRACE, FIXTURE = "abp-trace", "abp-fixture"
BRIDGE, HOST, AGENT, SERVER, PERSON = "bridge", "host", "agent", "server", "person"
# the command of a proxy -> whom it stands before
BEHIND = {"acp": AGENT, "mcp": SERVER}
# an agent's connection to the MCP server that the bridge gives it; the second launch of it is
# `tools 2`
TOOLS = "tools"
MODEL = "app model"  # the person's own

MAX_MESSAGE_LEVELS = 200  # what nests more is cut in a trace, and refused in a file
MAX_PATIENCE = 60  # seconds that a fixture may wait: a test must end

_APPS = r"app(?: [A-Za-z0-9][A-Za-z0-9._-]{0,39})?"
_PARTY = rf"host|agent|server|person|tools(?: [1-9]\d{{0,3}})?|{_APPS}"
_WAY = re.compile(rf"(?:(?P<sender>{_PARTY})->bridge|bridge->(?P<to>{_PARTY}))\Z")


class TraceError(AbpBridgeError):
    """An invalid or incomplete trace or fixture; the message gives the place and the fix."""

    def __init__(self, words: str, line: int = 0) -> None:
        super().__init__(words)
        self.line = line


def stand_in_scheme(target: str) -> str:
    """Return the target scheme of an app's stand-in: `mcp`, `acp` or `stdio`."""
    scheme = target[:3].lower()
    return scheme if scheme in ("mcp", "acp") else "stdio"


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a recording.

    `shows` describes it; `proves` names cells of the matrix (surface, version, shape). `host` is
    the
    host's protocol. `run` has the bridge's arguments, with `{app}`, `{agent}` and `{server}` for
    stand-ins; `env` its settings; `files` its folder's files. `apps` has the original targets.
    """

    fixture: bool = True
    shows: str = ""
    proves: tuple[Mapping[str, str], ...] = ()
    host: str = ""
    run: tuple[str, ...] = ("serve", "--app", "stdio:{app}")
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    apps: Mapping[str, str] = field(default_factory=dict)
    bridge: str = ""
    when: str = ""
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a message (`message`, `raw`, `closed`), terminal output (`screen`), an act of the
    user or
    their program (`fill`, `keys`, `http`), or an `event` inside the bridge.

    `sender` and `to` are parties, one of them the bridge; `line` is its line number, `ms` its time.
    """

    kind: str
    value: Json
    sender: str = ""
    to: str = ""
    ms: int | None = None
    line: int = 0

    @property
    def party(self) -> str:
        """The bridge's peer."""
        return self.to if self.sender == BRIDGE else self.sender

    @property
    def ours(self) -> bool:
        """Whether the bridge sent it."""
        return self.sender == BRIDGE

    @property
    def members(self) -> JsonObject:
        """The line's members besides its parties."""
        return self.value if self.kind in _MEMBERS else {self.kind: self.value}


@dataclass(frozen=True, slots=True)
class Recording:
    """A head and its entries in order."""

    head: Head
    entries: tuple[Entry, ...]
    unfinished: bool = False  # its last line was cut off


KINDS = ("message", "raw", "closed", "fill", "screen", "keys", "http")
PRESSED = ("send", "yes", "no", "decline", "cancel")
_DONE = ("fill", "keys", "http")  # what only a person does, or a program of theirs


def parse_recordings(text: str) -> list[Recording]:
    """Parse the recordings in a file. Raises TraceError if one is invalid or incomplete."""
    found: list[tuple[Head, list[Entry]]] = []
    lines = text.split("\n")
    unfinished = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError as problem:
            if number == len(lines) and found:
                unfinished = True  # the disk was full, or the bridge is still writing
                break
            raise TraceError(
                f"this is not JSON: {str(problem)[:120]}. Each line must be one JSON object", number
            ) from None
        if not isinstance(value, Mapping):
            raise TraceError("this must be a JSON object", number)
        if is_deeper(value, MAX_MESSAGE_LEVELS + 1):  # the line around it is one too
            raise TraceError(f"this is nested more than {MAX_MESSAGE_LEVELS} levels deep", number)
        if TRACE in value or FIXTURE in value:
            found.append((_head(value, number), []))
        elif not found:
            raise TraceError(
                f'the first line must be a head, such as {{"{FIXTURE}": {FORMAT}, "shows": "..."}}',
                number,
            )
        else:
            found[-1][1].append(_entry(value, number))
    if not found:
        raise TraceError("it is empty: a trace or a fixture begins with a head line", 1)
    *whole, (head, entries) = found
    last = Recording(head, tuple(entries), unfinished)
    return [*(Recording(head, tuple(entries)) for head, entries in whole), last]


# --- reading: the head ---


def _head(value: JsonObject, line: int) -> Head:
    fixture = FIXTURE in value
    if value[FIXTURE if fixture else TRACE] != FORMAT:
        raise TraceError(f"this is of another version of the format: {FORMAT} is known here", line)
    if unknown := [name for name in value if name not in (TRACE, FIXTURE, *_HEAD)]:
        known = ", ".join((TRACE, FIXTURE, *_HEAD))
        raise TraceError(f"{unknown[0]!r} is nothing that a head can have; it has {known}", line)
    found: dict[str, Any] = {}
    for name in (name for name in _HEAD if name in value):
        try:
            found[name] = _HEAD[name](value[name])
        except ValueError as problem:
            raise TraceError(f"{name} in the head{problem}", line) from None
    return Head(fixture=fixture, **found)


def _must(be: str) -> ValueError:
    return ValueError(f" cannot be read: it must be {be}")


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise _must("text")
    return value


def _texts(value: JsonValue, be: str = "an object of texts") -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise _must(be)
    texts = {name: each for name, each in value.items() if isinstance(each, str)}
    if len(texts) < len(value):
        raise _must(be)
    return texts


def _parse_run(value: JsonValue) -> tuple[str, ...]:
    if not is_list_of_texts(value):
        raise _must('a list of texts, such as ["serve", "--app", "stdio:{app}"]')
    _check_plain(value)
    return tuple(value)


def _env(value: JsonValue) -> Mapping[str, str]:
    env = _texts(value)
    _check_plain([*env, *env.values()])
    return env


def _files(value: JsonValue) -> Mapping[str, str]:
    files = _env(value)
    for name in files:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ValueError(f": {name!r} must be a plain name, without folders")
    return files


def _patience(value: JsonValue) -> float | None:
    seconds = as_number(value)
    if value is not None and (seconds is None or not 0 < seconds <= MAX_PATIENCE):
        raise _must(f"a number of seconds, from 0 to {MAX_PATIENCE}")
    return seconds


def _proves(value: JsonValue) -> tuple[Mapping[str, str], ...]:
    return tuple(map(_cell, value if isinstance(value, list) else [value]))


def _cell(value: JsonValue) -> Mapping[str, str]:
    cell = _texts(
        value,
        'an object such as {"surface": "mcp-form", "version": "2025-11-25", "shape": "text"}, or a'
        " list of such",
    )
    for member in cell:
        if member not in _CELL:
            known = ", ".join(_CELL)
            raise ValueError(f": {member!r} is nothing that a cell can have; it has {known}")
    for member, words in (("shape", _SHAPES), ("surface", _SURFACES)):
        if cell.get(member, words[0]) not in words:
            known = ", ".join(map(repr, words))
            raise ValueError(f": {cell[member]!r} is no {member}; there are {known}")
    return cell


def _check_plain(texts: Iterable[str]) -> None:
    """Raise ValueError if the system does not accept these texts."""
    if not all("\0" not in text and _is_utf8(text) for text in texts):
        raise ValueError(": no command and no file can have a NUL, or half of a character, in it")


_HEAD: dict[str, Callable[[JsonValue], object]] = {
    "shows": _text,
    "proves": _proves,
    "host": _text,
    "run": _parse_run,
    "env": _env,
    "files": _files,
    "apps": _texts,
    "bridge": _text,
    "when": _text,
    "patience": _patience,
}
_CELL = ("surface", "version", "shape", "hint", "protocol", "event", "host", "by")


# --- reading: what was said ---


def _entry(value: JsonObject, line: int) -> Entry:
    ms = as_integer(value.get("ms"))
    if isinstance(value.get("event"), str):
        return Entry(
            "event", {name: each for name, each in value.items() if name != "ms"}, ms=ms, line=line
        )
    way = value.get("way")
    found = _WAY.match(way) if isinstance(way, str) else None
    if found is None:
        odd = "" if way is None else f"{str(way)[:60]!r} is none: "
        raise TraceError(
            f'{odd}this needs a "way", such as "host->bridge", "bridge->host", "bridge->app",'
            ' "app->bridge" or "bridge->app NAME"',
            line,
        )
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) != 1:
        raise TraceError(f"this must have exactly one of {', '.join(KINDS)}", line)
    kind, sender = kinds[0], found["sender"]
    if (kind in _DONE) != (sender == PERSON) or (kind == "screen" and found["to"] != PERSON):
        raise TraceError(
            'a person is shown a "screen", and does one of "fill", "keys" and "http"; nobody else'
            " does",
            line,
        )
    said = _value(kind, value)
    if (why := unreadable(kind, said)) is not None:
        raise TraceError(f"its {kind} cannot be read: {why}", line)
    return Entry(kind, said, sender or BRIDGE, BRIDGE if sender else found["to"], ms, line)


# What a person does has more than one member; in this order they are written.
_MEMBERS = {"fill": ("open", "reads", "fill", "press"), "http": ("http", "body")}
_DEFAULTS: JsonObject = {"open": None, "press": "send"}


def _value(kind: str, value: JsonObject) -> JsonValue:
    if kind not in _MEMBERS:
        return value[kind]
    whole = {**_DEFAULTS, **value}
    return {name: whole[name] for name in _MEMBERS[kind] if name in whole}


def unreadable(kind: str, value: Json) -> str | None:
    """Return what the value of a line should be, or None if it is valid."""
    is_readable, words = _READABLE.get(kind, (lambda _: True, ""))
    return None if is_readable(value) else words


def is_list_of_texts(value: JsonValue) -> TypeGuard[list[str]]:
    """Whether `value` is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_utf8_text(value: JsonValue) -> bool:
    return isinstance(value, str) and _is_utf8(value)


_HTTP = re.compile(r"(?:GET|POST) /[!-~ ]*\Z")
# By kind: whether it can be read, and what it must be.
_READABLE: dict[str, tuple[Callable[[Json], bool], str]] = {
    "raw": (_is_utf8_text, "it must be text"),
    "fill": (
        lambda value: (
            isinstance(value["fill"], list)
            and isinstance(value["open"], str)
            and value["press"] in PRESSED
            and is_list_of_texts(value.get("reads", []))
        ),
        f'"fill" must be a list, "open" the link, "press" one of {", ".join(PRESSED)}, and "reads",'
        " if it is there, a list of texts",
    ),
    "screen": (
        lambda value: is_list_of_texts(value) and bool(value),
        "it must be a list of texts, the lines of a terminal",
    ),
    "keys": (_is_utf8_text, "it must be text, as it is typed"),
    "http": (
        lambda value: isinstance(value["http"], str) and _HTTP.match(value["http"]) is not None,
        'it must be a request to the questions API, such as "GET /question"',
    ),
}


# --- writing ---


def lines(recording: Recording) -> Iterator[str]:
    """Yield a recording's lines, with line ends."""
    yield dump_head(recording.head)
    for entry in recording.entries:
        yield dump_entry(entry)


def dump_head(head: Head) -> str:
    """Encode a head as one line; empty members are left out."""
    members = {name: getattr(head, name) for name in _HEAD}
    if len(head.proves) == 1:
        members["proves"] = head.proves[0]
    kind = FIXTURE if head.fixture else TRACE
    return dump({kind: FORMAT} | {name: each for name, each in members.items() if each})


def dump_entry(entry: Entry) -> str:
    """Encode an entry as one line."""
    when = {} if entry.ms is None else {"ms": entry.ms}
    if entry.kind == "event":
        return dump({**when, **entry.value})
    return dump({**when, "way": f"{entry.sender}->{entry.to}", **entry.members})


def dump(value: JsonValue) -> str:
    """Encode one line; what UTF-8 cannot hold is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return f"{text if _is_utf8(text) else json.dumps(value)}\n"


def is_request(message: JsonValue) -> bool:
    """Whether it is a request."""
    is_rpc = isinstance(message, Mapping) and message.keys() >= {"method", "id"}
    return is_rpc or is_enveloped_request(message)


def is_response(message: JsonValue) -> bool:
    """Whether it is a response."""
    return (
        isinstance(message, Mapping)
        and "method" not in message
        and ("result" in message or "error" in message)
    )
