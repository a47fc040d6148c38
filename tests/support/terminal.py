"""A pseudo-terminal (`Tty`), a program on one (`Screen`), and a pane of tmux (`Pane`)."""

from __future__ import annotations

import fcntl
import os
import re
import select
import shlex
import shutil
import subprocess
import termios
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Self

from abp_bridge.conformance.user_drivers import Terminal, without_control
from support.peer import PATIENCE

GLANCE = 0.02  # seconds between looks at a pane
NAMED = ("Enter", "Up", "Down", "Left", "Right", "Space", "Tab", "Escape", "BSpace")  # tmux's keys
UP, DOWN, ENTER, ESCAPE = "\x1b[A", "\x1b[B", "\r", "\x1b"
SPACE, CTRL_C, CTRL_D, BACKSPACE = " ", "\x03", "\x04", "\x7f"


def _text(shown: bytes) -> str:
    return without_control(shown.decode(errors="replace")).replace("\r", "")


class Tty(Terminal):
    """A terminal that a bridge is given by `name`, and what it shows there."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.hang_up()

    def until(self, pattern: str) -> str:
        """What was shown until there was something of this pattern."""
        shown = ""
        while re.search(pattern, shown) is None:
            assert select.select([self.fd], [], [], PATIENCE)[0], shown
            shown += _text(os.read(self.fd, 65_536))
        return shown

    def now(self) -> str:
        shown = b""
        while select.select([self.fd], [], [], 0)[0]:
            shown += os.read(self.fd, 65_536)
        return _text(shown)

    def type(self, line: str) -> None:
        self.type_keys(f"{line}{ENTER}", PATIENCE)

    def code(self) -> str:
        shown = self.until(r"code [A-Z]{4}-[A-Z]{4}\s")
        return shown.rpartition("code ")[2].split()[0]


class Watched(Terminal):
    """A terminal; `shown` is everything shown so far, without control sequences."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self._before = termios.tcgetattr(self.device)
        self.raw = b""
        self._seen = 0

    @property
    def shown(self) -> str:
        return _text(self.raw)

    def until(self, words: str) -> str:
        """Wait until `words` are shown: what was shown in between."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(words, self._seen)) < 0:
            assert self._more(deadline), (
                f"never shown: {words!r}; this was:\n{self.shown[self._seen :]}"
            )
        between, self._seen = self.shown[self._seen : at], at + len(words)
        return between

    def press(self, *keys: str) -> None:
        for key in keys:
            self.type_keys(key, PATIENCE)

    def hang_up(self) -> None:
        super().hang_up()
        self.fd = self.device = -1

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was: it echoes, and gives whole lines."""
        return termios.tcgetattr(self.device)[:4] == self._before[:4]

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
        if ready:
            self.raw += os.read(self.fd, 65_536)
        return bool(ready)


class Screen(Watched):
    """A program on a terminal."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int = 100, rows: int = 60
    ) -> None:
        super().__init__(columns, rows)
        self.process = subprocess.Popen(
            command,
            stdin=self.device,
            stdout=self.device,
            stderr=self.device,
            env={"TERM": "xterm-256color", **env},
            start_new_session=True,
            # Else Ctrl-C would not be a signal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        if self.fd >= 0:
            self.hang_up()

    def end(self) -> int:
        """Wait for the program to end by itself: its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, (
                f"still running; it showed:\n{self.shown[self._seen :]}"
            )
            self._more(time.monotonic() + 0.05)
        while self._more(time.monotonic()):
            pass
        return self.process.returncode


class Pane:
    """A pane in which `command` runs. Keys are named as tmux names them, or typed as they are."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int = 100, rows: int = 40
    ) -> None:
        self._socket = f"abp-test-{uuid.uuid4().hex[:12]}"
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "ABP_TOOL_CACHE")
            if name in os.environ
        }
        self._env = {**kept, "LC_ALL": "C.UTF-8", **env}
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", os.devnull, "new-session", "-d", *size, shlex.join(command))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        subprocess.run(
            [_program(), "-L", self._socket, "kill-server"],
            env=self._env,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )

    @property
    def tty(self) -> str:
        return self._tmux("display-message", "-p", "#{pane_tty}").strip()

    @property
    def shown(self) -> str:
        """What stands in the window now; lines that wrap are joined."""
        return self._tmux("capture-pane", "-p", "-J")

    @property
    def ever_shown(self) -> str:
        """What stands there, and what was scrolled away."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def until(self, words: str, below: str = "") -> str:
        """Wait until `words` are in the window below the last `below`: all of it."""
        deadline = time.monotonic() + PATIENCE
        while not _stands(words, below, shown := self.shown):
            assert time.monotonic() < deadline, f"never shown: {words!r}; this was:\n{shown}"
            time.sleep(GLANCE)
        return shown

    def press(self, *keys: str) -> None:
        for key in keys:
            named = key in NAMED or key.startswith("C-")
            self._tmux("send-keys", *([key] if named else ["-l", "--", key]))

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def clear(self) -> None:
        """Take off the window what stands there, so that what is waited for is new."""
        self._tmux("send-keys", "-R")
        self._tmux("clear-history")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            [_program(), "-L", self._socket, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout


def _program() -> str:
    found = shutil.which("tmux")
    assert found is not None, "tmux is not installed: 'make tmux' does it"
    return found


def _stands(words: str, below: str, shown: str) -> bool:
    at = shown.rfind(below) if below else 0
    return at >= 0 and words in shown[at:]
