"""The environment in which a bridge plays a fixture: a folder with its files, stand-ins for its
apps,
agent, server and browser, a terminal and a port. It also refuses commands of untrusted fixtures.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from abp_bridge.conformance import stand_in
from abp_bridge.conformance.connections import listen_as_model
from abp_bridge.conformance.format import (
    AGENT,
    BEHIND,
    HOST,
    MODEL,
    PERSON,
    SERVER,
    Head,
    Recording,
)
from abp_bridge.conformance.match import as_mismatch
from abp_bridge.conformance.redactor import path_replacer
from abp_bridge.conformance.stand_in import program_name
from abp_bridge.conformance.user_drivers import QuestionsClient, Terminal, free_port
from abp_bridge.core.json_value import JsonValue, as_object, as_text, walk
from abp_bridge.models.llm import PROVIDERS
from abp_bridge.protocols.acp.v1 import prompt_text
from abp_bridge.settings import TABLE
from abp_bridge.settings.table import Replayable, Setting
from abp_bridge.settings.values import OFF

# --- what a fixture may have started --------------------------------------------------------------

COMMANDS = ("serve", *BEHIND)
# Whether a value may be, and what would be right.
Rule = tuple[Callable[[str], object], str]
STANDS = re.compile(r"\{([^{}]*)\}")
TERMINAL, PORT, FOLDER = "{tty}", "{port}", "{folder}"
CONNECT = "abp_connect"

_ADDRESS = re.compile(r"\s*https?:", re.IGNORECASE)
_MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]*"
_APP = r"app(?: [A-Za-z0-9][A-Za-z0-9._-]{0,39})?"
# no colon: where a list of folders is expected, another would begin after it
_INSIDE = r"\{folder\}(?:/(?!\.\.?(?:/|:|\Z))[^/:{}\0]+)*/?"


def _rule(pattern: str, words: str) -> Rule:
    return re.compile(rf"(?:{pattern})\Z", re.DOTALL).match, words


_FILE = _rule(_INSIDE, "it must lie in {folder}")
_PLAIN = _rule(r"[A-Za-z0-9_.,: +-]*", "it must be plain: letters, digits and - + . , : _")
_LOCALE = _rule(r"[A-Za-z0-9_][A-Za-z0-9_.,@+-]*|", "it must be a plain name")
_ZONE = _rule(
    r"[A-Za-z0-9_+-][A-Za-z0-9_+,-]*(?:/[A-Za-z0-9_+-]+)*|", "it must be the name of a time zone"
)

# what a fixture may give for a setting -> what its variable may be
_BY_VARIABLE: Mapping[Replayable, Rule] = {
    "plain": _PLAIN,
    "file": _FILE,
    "files": _rule(rf"(?:{_INSIDE})?(?::{_INSIDE})*", "each must lie in {folder}"),
    "text": _rule(r"[^{}\0]*", "it must be text without { and }"),
    "app": _rule(
        rf"(?:stdio|mcp|acp):\{{{_APP}\}}|demo",
        "an app must be a stand-in, stdio:{app}, mcp:{app} or acp:{app}, or demo",
    ),
    "model": _rule(
        rf"cli:[a-z]+|acp:\{{{_APP}\}}|(?:openai|anthropic|google):{_MODEL_NAME}"
        rf"|\{{{MODEL}\}}#{_MODEL_NAME}",
        "a model must be a stand-in: acp:{app model}, cli:NAME, openai:NAME, anthropic:NAME,"
        " google:NAME, or {app model}#NAME",
    ),
    "terminal": _rule(re.escape(TERMINAL), "it must be {tty}"),
    "port": _rule(re.escape(PORT), "it must be {port}"),
    "page": _rule("off|link|", "it must be off or link: a replay opens no browser"),
}
# ... and what may follow its option, which names one file at a time
_BY_OPTION = {**_BY_VARIABLE, "files": _FILE}

# option -> its row, and what may follow it
OPTIONS: Mapping[str, tuple[Setting, Rule]] = {
    row.flag: (row, _BY_OPTION[row.replayable])
    for row in TABLE.values()
    if row.flag and row.replayable and {*COMMANDS} & {*row.commands}
}
# variable -> what it may be
VARIABLES: Mapping[str, Rule] = {
    row.variable: _BY_VARIABLE[row.replayable]
    for row in TABLE.values()
    if row.variable and row.replayable
} | {
    "TERM": _LOCALE,
    "LANG": _LOCALE,
    "LANGUAGE": _LOCALE,
    "TZ": _ZONE,
    "COLUMNS": _PLAIN,
    "LINES": _PLAIN,
    "NO_COLOR": _PLAIN,
}


def connects_elsewhere(message: JsonValue) -> bool:
    """Whether a tool call or prompt in this message makes the bridge open an arbitrary address."""
    return any(_ADDRESS.match(target) for each in walk(message) for target in _targets(each))


def _targets(value: JsonValue) -> tuple[str, str]:
    """Return the targets that a tool call or prompt connects."""
    call = as_object(value)
    is_connect = call.get("name") == CONNECT
    target = as_text(as_object(call.get("arguments")).get("target")) if is_connect else ""
    words = prompt_text(call.get("prompt")).strip().removeprefix("/connect").strip()
    return target, words


def parties(fixture: Recording) -> set[str]:
    """Return the parties that need a stand-in."""
    named = {name for word in fixture.head.run for name in STANDS.findall(word)}
    spoken = {entry.party for entry in fixture.entries}
    if model_of(fixture.head):
        spoken.add(MODEL)
    return {name for name in named | spoken if re.fullmatch(rf"{_APP}|{AGENT}|{SERVER}", name)} - {
        HOST,
        PERSON,
    }


def model_of(head: Head) -> str:
    """Return the bridge's model, or empty."""
    own = head.run[: head.run.index("--")] if "--" in head.run else head.run
    row = TABLE["sampling"]
    found = head.env.get(row.variable, "")
    for place, word in enumerate(own):
        option, given, value = word.partition("=")
        if option == row.flag:
            found = value if given else "".join(own[place + 1 : place + 2])
    return found


def is_api(model: str) -> bool:
    """Whether `model` is used over HTTP."""
    return bool(model) and not model.startswith(("cli:", "acp:"))


def find_refusals(fixture: Recording) -> Iterator[str]:
    """Yield why this fixture is not played."""
    yield from _in_run(fixture.head.run)
    for name, value in fixture.head.env.items():
        rule = VARIABLES.get(name, _LOCALE if re.fullmatch(r"LC_[A-Z]+", name) else None)
        if rule is None:
            yield f"env in the head: {name!r} is no setting that a fixture may make"
        elif not rule[0](value):
            yield f"env in the head: {name}={value!r} is refused: {rule[1]}"
    named = [program_name(party) for party in sorted(parties(fixture))]
    if len(named) > len(set(named)):
        yield f"two of its parties would have one name: {', '.join(sorted(parties(fixture)))}"


def _in_run(run: Sequence[str]) -> Iterator[str]:
    own = run[: run.index("--")] if "--" in run else run
    behind = BEHIND.get(own[0], "") if own else ""
    if not own or own[0] not in COMMANDS:
        yield f"run in the head must begin with {', '.join(COMMANDS[:-1])} or {COMMANDS[-1]}"
    elif run[len(own) :][:2] != (("--", f"{{{behind}}}") if behind else ()):
        stands = " and ".join(f'"{each}", ..., "--", "{{{BEHIND[each]}}}"' for each in BEHIND)
        yield f"run in the head: an agent or a server must be a stand-in: {stands}"
    left = list(own[1:])
    while left:
        option, given, value = left.pop(0).partition("=")
        if option not in OPTIONS:
            yield f"run in the head: {option!r} is no option that a fixture may use"
            continue
        row, rule = OPTIONS[option]
        if not row.takes_value:
            if given:
                yield f"run in the head: {option} takes no value"
        elif not given and row.const is not None and (not left or left[0].startswith("-")):
            continue
        elif not given and not left:
            yield f"run in the head: {option} needs a value"
        elif not rule[0](value := value if given else left.pop(0)):
            yield f"run in the head: {option} {value!r} is refused: {rule[1]}"


# --- the folder -----------------------------------------------------------------------------------

_KEPT = ("ABP_CHROME", "ABP_CHROME_SANDBOX")  # where the browser is says nothing of the bridge
BROWSER = "browser"  # the person's, as a stand-in: it says where it was opened
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY")
_PAGE_PORTS = range(20_000, 32_000)
_PASSWORD = "ABP_QUESTIONS_PASSWORD"  # noqa: S105


class Workspace:
    """The folder, stand-ins and devices of one fixture; close it after playing.

    The bridge runs in `folder`; stand-ins connect to `socket`; the user has `terminal` and
    `questions`;
    the page is at `page_port`; `model` is a model's API, or None. `replace_paths` hides this
    machine's
    paths, and `known` has the values of such words in a fixture.
    """

    def __init__(self, fixture: Recording) -> None:
        """Raises ReplayMismatchError if the system refuses."""
        self._head = fixture.head
        self._fills_in = any(entry.kind == "fill" for entry in fixture.entries)
        self.parties = parties(fixture)
        with ExitStack() as ends:
            with as_mismatch("there is no place for temporary files"):
                self._around = tempfile.mkdtemp(prefix="abp-replay-")
            ends.callback(shutil.rmtree, self._around, ignore_errors=True)
            self.folder = os.path.join(self._around, "here")
            self.socket = os.path.join(self._around, "s")
            self.terminal, self.questions = self._devices(ends)
            with as_mismatch(f"the fixture's files cannot be laid out in {self._around}"):
                self._lay_out()
            self.close = ends.pop_all().close
        home, temporary = os.path.expanduser("~"), tempfile.gettempdir()
        places = {self.folder: "[folder]", home: "~", temporary: "[tmp]"}
        self.replace_paths = path_replacer(places)
        # what stands for the words in brackets that are places
        self.known = {"[folder]": self.folder, "[tmp]": temporary, "[python]": sys.prefix}

    def _devices(self, ends: ExitStack) -> tuple[Terminal | None, QuestionsClient | None]:
        words = " ".join((*self._head.run, *self._head.env.values()))
        terminal = questions = None
        self._stands = {FOLDER: self.folder}
        self._variables: dict[str, str] = {}  # of the model's
        self.model = None
        with as_mismatch("a terminal cannot be made"):
            if TERMINAL in words:
                terminal = Terminal()
                ends.callback(terminal.hang_up)
                self._stands[TERMINAL] = terminal.name
        with as_mismatch("there is no free port"):
            self.page_port = _find_page_port() if self._fills_in else None
            if PORT in words:
                questions = QuestionsClient(free_port(), self._head.env.get(_PASSWORD, ""))
                ends.callback(questions.stop_connecting)
                self._stands[PORT] = str(questions.port)
            if is_api(model_of(self._head)):
                self.model = listen_as_model()
                ends.callback(self.model.close)
        return terminal, questions

    def _lay_out(self) -> None:
        os.mkdir(self.folder)
        for name, text in self._head.files.items():
            Path(self.folder, name).write_text(text, encoding="utf-8", newline="")
        folder = Path(self._around, "stand-ins")
        folder.mkdir()
        for party in self.parties:
            self._stands[f"{{{party}}}"] = self._add_stand_in(folder, party, "")
        self._programs = folder / "programs"
        self._programs.mkdir()
        self._add_model(self._programs)
        folder = folder / BROWSER
        folder.mkdir()
        self._browser = self._add_stand_in(folder, BROWSER, 'printf "%s\\n" "$1" | ')

    def _add_model(self, programs: Path) -> None:
        """Provide the model as a program on PATH, or as an address with a fake key, never the
        user's keys.
        """
        kind, _, name = model_of(self._head).partition(":")
        if kind == "cli":
            self._add_stand_in(programs, MODEL, "", name)
        if self.model is None:
            return
        port = self.model.getsockname()[1]
        self._stands[f"{{{MODEL}}}"] = address = f"http://127.0.0.1:{port}"
        if (provider := PROVIDERS.get(kind)) is not None:
            self._variables = dict.fromkeys((*provider.keys,), "stand-in")
            self._variables[provider.base_url] = address

    def _add_stand_in(self, folder: Path, party: str, says: str, name: str = "") -> str:
        path = folder / (name or stand_in.program_name(party))
        command = [sys.executable, "-IS", str(stand_in.__file__), self.socket, party]
        _write_program(path, f"{says}{'' if says else 'exec '}{shlex.join(command)}")
        return str(path)

    def command(self, bridge: Sequence[str]) -> list[str]:
        """Return the bridge's command; one with `{app}` gets no other arguments."""
        more = () if any(STANDS.search(word) for word in bridge) else self._head.run
        return [self._fill(word, shlex.quote) for word in (*bridge, *more)]

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the fixture's settings and the permitted variables of `environ`."""
        kept = {
            name: value
            for name, value in environ.items()
            if name not in _DESKTOP and (not name.startswith("ABP_") or name in _KEPT)
        }
        kept["BROWSER"] = shlex.quote(self._browser)
        kept["PATH"] = os.pathsep.join((str(self._programs), environ.get("PATH", os.defpath)))
        kept |= self._variables
        kept["ABP_TOOL_CACHE"] = OFF  # what apps offered elsewhere is nothing of the fixture's
        # no inbox of the person's finds the bridge, and their history has nothing of what it asks
        for name in ("ABP_RUNTIME_DIR", "ABP_STATE_DIR"):
            kept[name] = os.path.join(self._around, "inbox")
        if self.page_port is not None:
            kept["ABP_PAGE_PORT"] = str(self.page_port)
        kept["PYTHONSAFEPATH"] = "1"  # of the fixture's files none is a module
        return kept | {name: self._fill(value, str) for name, value in self._head.env.items()}

    def _fill(self, word: str, quote: Callable[[str], str]) -> str:
        """Fill in the words in braces, quoted inside a command."""
        if word in self._stands:
            return self._stands[word]
        return STANDS.sub(
            lambda found: quote(self._stands[found[0]]) if found[0] in self._stands else found[0],
            word,
        )


def _find_page_port() -> int:
    """Return a port for the bridge's page that most systems do not assign automatically."""
    for port in random.sample(_PAGE_PORTS, len(_PAGE_PORTS)):
        with suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError(f"each from {_PAGE_PORTS[0]} to {_PAGE_PORTS[-1]} is taken")


def _write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o700)
