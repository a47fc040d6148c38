"""What a bridge is started in to play a fixture: a folder of its own with the fixture's files,
stand-ins where its apps, its agent, its server and its person's browser go, a terminal and a port
where it needs them, and an environment that has no settings but the fixture's.

It starts nothing itself.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from abp_bridge.models.llm import PROVIDERS
from abp_bridge.replay import model_api, stand_in
from abp_bridge.replay.mismatch import as_mismatch
from abp_bridge.replay.opencode_client import QuestionsClient, free_port
from abp_bridge.replay.policy import (
    FOLDER,
    PORT,
    STANDS,
    TERMINAL,
    is_api,
    model_of,
    parties,
)
from abp_bridge.replay.terminal_driver import Terminal
from abp_bridge.settings.values import OFF
from abp_bridge.trace.format import MODEL, Recording
from abp_bridge.trace.redactor import path_replacer

_KEPT = ("ABP_CHROME", "ABP_CHROME_SANDBOX")  # where the browser is says nothing of the bridge
BROWSER = "browser"  # the person's, as a stand-in: it says where it was opened
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY")
_PAGE_PORTS = range(20_000, 32_000)
_PASSWORD = "ABP_QUESTIONS_PASSWORD"  # noqa: S105


class Workspace:
    """The folder, the stand-ins and the devices of one fixture; close it when it was played.

    `folder` is where the bridge runs, `socket` where its stand-ins connect, `terminal` and
    `questions` what its person uses, `page_port` where the bridge's page is, `model` where a model
    behind an API is asked, None where the fixture has none. `replace_paths` puts other words for
    paths of this machine, and `known` is what such words in a fixture stand for.
    """

    def __init__(self, fixture: Recording) -> None:
        """Raises ReplayMismatchError for what the system refuses."""
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
                ends.callback(terminal.close)
                self._stands[TERMINAL] = terminal.name
        with as_mismatch("there is no free port"):
            self.page_port = _find_page_port() if self._fills_in else None
            if PORT in words:
                questions = QuestionsClient(free_port(), self._head.env.get(_PASSWORD, ""))
                ends.callback(questions.close)
                self._stands[PORT] = str(questions.port)
            if is_api(model_of(self._head)):
                self.model = model_api.listen()
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
        """What the model is found by: a program on the PATH, or an address and a key that is none.

        The person's own keys are not there: a bridge sends them to nobody whom a fixture names.
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
        """The whole command: a bridge that is told where its app is gets no other arguments."""
        more = () if any(STANDS.search(word) for word in bridge) else self._head.run
        return [self._fill(word, shlex.quote) for word in (*bridge, *more)]

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The variables of the bridge: the fixture's settings, and no others of `environ`."""
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
        """A word with what stands for its words in braces; inside of a command it is quoted."""
        if word in self._stands:
            return self._stands[word]
        return STANDS.sub(
            lambda found: quote(self._stands[found[0]]) if found[0] in self._stands else found[0],
            word,
        )


def _find_page_port() -> int:
    """A port for the bridge's page, which a fixture's person opens and nothing else: one that most
    systems give nobody by themselves until the bridge listens there.
    """
    for port in random.sample(_PAGE_PORTS, len(_PAGE_PORTS)):
        with suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError(f"each from {_PAGE_PORTS[0]} to {_PAGE_PORTS[-1]} is taken")


def _write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o700)
