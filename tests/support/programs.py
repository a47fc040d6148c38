"""Programs of a desktop, on a `PATH` of the tests' own: what was started, and with what."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from abp_bridge.surfaces.page import browser
from support.browser import Browser
from support.harness import PATIENCE


class Programs:
    """Programs in a folder of their own, each of which writes down how it was run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "log"
        self._log.touch()
        self._gate = folder / "gate"

    def add(self, name: str, code: int = 0, *, hangs: bool = False) -> str:
        """Add a program that notes how it was run, or `hangs` until it is released: its path."""
        file = self.folder / name
        noted = f'printf "%s\\n" "{name} $DISPLAY $TERM" "$@" "" >> {self._log}'
        if hangs:
            os.mkfifo(self._gate)
        waits = f"echo $$ > {self.folder}/pid; read -r end < {self._gate}" if hangs else ""
        env = f"env > {self.folder}/{name}.env"
        file.write_text(f"#!/bin/sh\n{env}\n{noted}\n{waits}\nexit {code}\n")
        file.chmod(0o755)
        return str(file)

    def run_here(self, patch: pytest.MonkeyPatch) -> None:
        """Note what the bridge starts, and start nothing."""
        run_process = anyio.run_process

        def note(command: Sequence[str], env: Mapping[str, str]) -> str:
            first = f"{Path(command[0]).name} {env.get('DISPLAY', '')} {env.get('TERM', '')}"
            with self._log.open("a") as log:
                log.write("\n".join([first, *command[1:], "\n"]))
            given = "".join(f"{name}={value}\n" for name, value in env.items())
            (self.folder / f"{Path(command[0]).name}.env").write_text(given)
            return ""

        async def run(command: Sequence[bytes], **how: Any) -> Any:
            if command[0] != b"notify-send":
                return await run_process(command, **how)
            if shutil.which("notify-send", path=os.environ["PATH"]) is None:
                raise FileNotFoundError(errno.ENOENT, "No such file", "notify-send")
            note([each.decode() for each in command], how["env"])
            return SimpleNamespace(returncode=0)

        patch.setattr(browser, "_run_command", note)
        patch.setattr(anyio, "run_process", run)

    def release(self) -> None:
        with contextlib.suppress(OSError):  # none does
            os.close(os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK))

    @property
    def hanging(self) -> bool:
        return Path(f"/proc/{(self.folder / 'pid').read_text().strip()}").exists()

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": f"{self.folder}:/usr/bin:/bin", **more}

    def runs(self) -> list[list[str]]:
        """What was run: name, display and terminal, then the arguments."""
        return [run.split("\n") for run in self._log.read_text().split("\n\n") if run]

    async def wait(self, count: int = 1) -> list[list[str]]:
        with anyio.fail_after(PATIENCE):
            while len(self.runs()) < count:
                await anyio.lowlevel.checkpoint()
        return self.runs()


class Desktop:
    """A desktop whose browser writes down where it was opened, for a person to come later."""

    def __init__(self, folder: Path) -> None:
        self._opened = folder / "opened"
        os.mkfifo(self._opened)
        program = folder / "browser"
        program.write_text(f'#!/bin/sh\necho "$1" > {self._opened}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.env = {"BROWSER": str(program)}

    def address(self) -> str:
        return self._opened.read_text().strip()

    def visit(self) -> Browser:
        browser = Browser()
        browser.open(self.address())
        return browser
