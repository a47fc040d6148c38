"""The format of traces and fixtures: JSON lines, a head and then what was said, one object a line.

docs/fixtures.md describes it. Pure.

A trace is what one bridge said and heard, as it was; a fixture is a conversation that any bridge
can be held to: the same lines, with words in brackets where a bridge may choose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abp_bridge.core.json_text import is_deeper, parse
from abp_bridge.core.matrix import QuestionShape, Surface

Json = Any

FORMAT = 1
_SURFACES = (*(surface.value for surface in Surface), "no elicitation")
_SHAPES = tuple(shape.value for shape in QuestionShape)
TRACE, FIXTURE = "abp-trace", "abp-fixture"
BRIDGE, HOST, AGENT, PERSON = "bridge", "host", "agent", "person"
# an agent's connection to the MCP server that the bridge gives it; the second launch of it is
# `tools 2`
TOOLS = "tools"

DEEPEST = 200  # levels of a message

_PARTY = r"host|agent|person|tools(?: [1-9]\d{0,3})?|app(?: [A-Za-z0-9][A-Za-z0-9._-]{0,39})?"
_WAY = re.compile(rf"(?:(?P<sender>{_PARTY})->bridge|bridge->(?P<to>{_PARTY}))\Z")


class TraceError(Exception):
    """A file that is no trace and no fixture, or not a whole one; the message says where, and what
    would be right.
    """

    def __init__(self, words: str, line: int = 0) -> None:
        super().__init__(words)
        self.line = line


@dataclass(frozen=True, slots=True)
class Head:
    """What a recording is of.

    `shows` says it in words, and `proves` names cells of the matrix: surface, version and shape.
    `host` is the protocol that the host speaks. `run` are the bridge's arguments, with `{app}` and
    `{agent}` where a stand-in goes; `env` its settings; `files` what lies in its folder. `apps`
    says what each app really was, where that is known.
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
    """One line.

    What passed (`kind`: message, raw, closed), what a person saw at a terminal (screen), what they
    or a program of theirs did (fill, keys, http), or what happened inside of the bridge (event).

    `sender` and `to` are parties, one of them the bridge; `line` is where it stands in its file,
    and `ms` when it was.
    """

    kind: str
    value: Json
    sender: str = ""
    to: str = ""
    ms: int | None = None
    line: int = 0

    @property
    def party(self) -> str:
        """Who the bridge speaks with here."""
        return self.to if self.sender == BRIDGE else self.sender

    @property
    def ours(self) -> bool:
        """Whether the bridge said it."""
        return self.sender == BRIDGE


@dataclass(frozen=True, slots=True)
class Recording:
    head: Head
    entries: tuple[Entry, ...]
    unfinished: bool = False  # its last line was cut off


KINDS = ("message", "raw", "closed", "fill", "screen", "keys", "http")
PRESSED = ("send", "yes", "no", "decline", "cancel")
_DONE = ("fill", "keys", "http")  # what only a person does, or a program of theirs


def read(text: str) -> list[Recording]:
    """The recordings of a file. Raises TraceError."""
    found: list[tuple[Head, list[Entry]]] = []
    lines = text.split("\n")
    unfinished = bool(lines[-1].strip())
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = parse(line)
        except ValueError as problem:
            if number == len(lines) and found:
                break  # the disk was full, or the bridge is still writing
            raise TraceError(
                f"this is not JSON: {str(problem)[:120]}. Each line must be one JSON object", number
            ) from None
        if not isinstance(value, Mapping):
            raise TraceError("this must be a JSON object", number)
        if is_deeper(value, DEEPEST + 1):  # the line around it is one too
            raise TraceError(f"this is nested more than {DEEPEST} levels deep", number)
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
    whole = [Recording(head, tuple(entries)) for head, entries in found]
    if unfinished:
        whole[-1] = Recording(whole[-1].head, whole[-1].entries, unfinished=True)
    return whole


def _head(value: Mapping[str, Json], line: int) -> Head:
    fixture = FIXTURE in value
    if value[FIXTURE if fixture else TRACE] != FORMAT:
        raise TraceError(f"this is of another version of the format: {FORMAT} is known here", line)
    if unknown := [name for name in value if name not in _HEAD]:
        raise TraceError(
            f"{unknown[0]!r} is nothing that a head can have; it has {', '.join(_HEAD)}", line
        )
    proves = value.get("proves", [])
    wanted: dict[str, Json] = {
        "shows": _text(value.get("shows", "")),
        "proves": tuple(
            _texts(each) for each in (proves if isinstance(proves, list) else [proves])
        ),
        "host": _text(value.get("host", "")),
        "run": _list(value.get("run", list(Head().run))),
        "env": _texts(value.get("env", {})),
        "files": _texts(value.get("files", {})),
        "apps": _texts(value.get("apps", {})),
        "bridge": _text(value.get("bridge", "")),
        "when": _text(value.get("when", "")),
        "patience": _number(value.get("patience")),
    }
    for name, found in wanted.items():
        if found is ... or (isinstance(found, tuple) and ... in found):
            raise TraceError(f"{name} in the head cannot be read: {_MUST[name]}", line)
    for cell in wanted["proves"]:
        if odd := [member for member in cell if member not in _PROVES]:
            raise TraceError(
                f"proves in the head: {odd[0]!r} is nothing that a cell can have; it has"
                f" {', '.join(_PROVES)}",
                line,
            )
        if "shape" in cell and cell["shape"] not in _SHAPES:
            raise TraceError(
                f"proves in the head: {cell['shape']!r} is no shape; there are"
                f" {', '.join(map(repr, _SHAPES))}",
                line,
            )
        if "surface" in cell and cell["surface"] not in _SURFACES:
            raise TraceError(
                f"proves in the head: {cell['surface']!r} is no surface; there are"
                f" {', '.join(_SURFACES)}",
                line,
            )
    for name in ("run", "env", "files"):
        if not all(map(_is_plain, _leaves(wanted[name]))):
            raise TraceError(
                f"{name} in the head: no command and no file can have a NUL, or half of a"
                " character, in it",
                line,
            )
    for name in wanted["files"]:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise TraceError(
                f"files in the head: {name!r} must be a plain name, without folders", line
            )
    return Head(fixture=fixture, **wanted)


_HEAD = (
    TRACE,
    FIXTURE,
    "shows",
    "proves",
    "host",
    "run",
    "env",
    "files",
    "patience",
    "apps",
    "bridge",
    "when",
)
_PROVES = ("surface", "version", "shape", "hint", "protocol", "event", "host", "by")
_MUST = {
    "shows": "it must be text",
    "proves": (
        'it must be an object such as {"surface": "mcp-form", "version": "2025-11-25", "shape":'
        ' "text"}, or a list of such'
    ),
    "host": "it must be text",
    "run": 'it must be a list of texts, such as ["serve", "--app", "stdio:{app}"]',
    "env": "it must be an object of texts",
    "files": "it must be an object of texts",
    "apps": "it must be an object of texts",
    "bridge": "it must be text",
    "when": "it must be text",
    "patience": "it must be a number of seconds, from 0 to 60",
}


def _leaves(value: Json) -> Iterable[str]:
    return [*value, *value.values()] if isinstance(value, Mapping) else value


def _is_plain(text: str) -> bool:
    """Whether a system takes it as text."""
    return "\0" not in text and _is_utf8(text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: Json) -> Json:
    return value if isinstance(value, str) else ...


def _list(value: Json) -> Json:
    return (
        tuple(value)
        if isinstance(value, list) and all(isinstance(each, str) for each in value)
        else ...
    )


def _texts(value: Json) -> Json:
    return (
        value
        if isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
        else ...
    )


def _number(value: Json) -> Json:
    if value is None:
        return None
    return (
        float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 60
        else ...
    )


def _entry(value: Mapping[str, Json], line: int) -> Entry:
    ms = value.get("ms")
    ms = ms if isinstance(ms, int) else None
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
    said = value[kind]
    if (kind in _DONE) != (sender == PERSON) or (kind == "screen" and found["to"] != PERSON):
        raise TraceError(
            'a person is shown a "screen", and does one of "fill", "keys" and "http"; nobody else'
            " does",
            line,
        )
    if kind == "fill":
        reads = {"reads": value["reads"]} if "reads" in value else {}
        said = {
            "open": value.get("open"),
            **reads,
            "fill": said,
            "press": value.get("press", "send"),
        }
    if kind == "http":
        said = {"http": said, **({"body": value["body"]} if "body" in value else {})}
    if (why := unreadable(kind, said)) is not None:
        raise TraceError(f"its {kind} cannot be read: {why}", line)
    return Entry(kind, said, sender or BRIDGE, BRIDGE if sender else found["to"], ms, line)


_SAID = {
    "raw": "it must be text",
    "fill": (
        f'"fill" must be a list, "open" the link, "press" one of {", ".join(PRESSED)}, and "reads",'
        " if it is there, a list of texts"
    ),
    "screen": "it must be a list of texts, the lines of a terminal",
    "keys": "it must be text, as it is typed",
    "http": 'it must be a request to the questions API, such as "GET /question"',
}


def unreadable(kind: str, value: Json) -> str | None:
    """What the value of a line should be, where it is not: as it stands, and with what a bridge
    chose filled in.
    """
    return None if kind not in _READABLE or _READABLE[kind](value) else _SAID[kind]


def _words(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _typed(value: Json) -> bool:
    return isinstance(value, str) and _is_utf8(value)


_HTTP = re.compile(r"(?:GET|POST) /[!-~ ]*\Z")
_READABLE: dict[str, Callable[[Json], bool]] = {
    "raw": _typed,
    "fill": lambda value: (
        isinstance(value["fill"], list)
        and isinstance(value["open"], str)
        and value["press"] in PRESSED
        and _words(value.get("reads", []))
    ),
    "screen": lambda value: _words(value) and bool(value),
    "keys": _typed,
    "http": lambda value: isinstance(value["http"], str) and _HTTP.match(value["http"]) is not None,
}


# --- writing ---


def lines(recording: Recording) -> Iterator[str]:
    """A recording as lines, each with its end."""
    yield spell_head(recording.head)
    for entry in recording.entries:
        yield spell(entry)


def spell_head(head: Head) -> str:
    members: dict[str, Json] = {
        FIXTURE if head.fixture else TRACE: FORMAT,
        "shows": head.shows,
        "proves": head.proves[0] if len(head.proves) == 1 else list(head.proves),
        "host": head.host,
        "run": list(head.run),
        "env": dict(head.env),
        "files": dict(head.files),
        "apps": dict(head.apps),
        "bridge": head.bridge,
        "when": head.when,
        "patience": head.patience,
    }
    return dump({name: value for name, value in members.items() if value not in ("", [], {}, None)})


def spell(entry: Entry) -> str:
    when = {} if entry.ms is None else {"ms": entry.ms}
    if entry.kind == "event":
        return dump({**when, **entry.value})
    said = entry.value if entry.kind in ("fill", "http") else {entry.kind: entry.value}
    return dump({**when, "way": f"{entry.sender}->{entry.to}", **said})


def dump(value: Json) -> str:
    """One line of a file. What UTF-8 cannot carry is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value)
    return text + "\n"


def is_request(message: Json) -> bool:
    return isinstance(message, Mapping) and "method" in message and "id" in message


def is_response(message: Json) -> bool:
    return (
        isinstance(message, Mapping)
        and "method" not in message
        and ("result" in message or "error" in message)
    )


def messages(entries: Iterable[Entry], *parties: str) -> Sequence[Entry]:
    return [entry for entry in entries if entry.kind == "message" and entry.party in parties]
