"""A program on a real pseudo-terminal: what it shows, read with a bound, and the keys a person
presses.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Self

from support.peer import PATIENCE

UP, DOWN, ENTER, ESCAPE, SPACE, CTRL_C, CTRL_D, BACKSPACE = (
    "\x1b[A",
    "\x1b[B",
    "\r",
    "\x1b",
    " ",
    "\x03",
    "\x04",
    "\x7f",
)

_CONTROL = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|\r")


class Tty:
    """A terminal that a bridge is given by `name`, and what it shows there of its page."""

    def __init__(self) -> None:
        self._ours, self._theirs = pty.openpty()
        self.name = os.ttyname(self._theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        os.close(self._ours)
        os.close(self._theirs)

    def until(self, pattern: str) -> str:
        """What was shown until there was something of this pattern."""
        shown = ""
        while re.search(pattern, shown) is None:
            assert select.select([self._ours], [], [], PATIENCE)[0], shown
            shown += _CONTROL.sub("", os.read(self._ours, 65_536).decode(errors="replace"))
        return shown

    def now(self) -> str:
        """What is shown and was not read yet."""
        shown = b""
        while select.select([self._ours], [], [], 0)[0]:
            shown += os.read(self._ours, 65_536)
        return _CONTROL.sub("", shown.decode(errors="replace"))

    def type(self, line: str) -> None:
        """A line of keys, and Enter."""
        os.write(self._ours, f"{line}{ENTER}".encode())

    def code(self) -> str:
        """The next code of a page."""
        shown = self.until(r"code [A-Z]{4}-[A-Z]{4}\s")
        return shown.rpartition("code ")[2].split()[0]


class Screen:
    """`shown` is everything shown so far, without what moves the cursor or colours."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int = 100, rows: int = 60
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.name = os.ttyname(self._theirs)
        self._before = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={"TERM": "xterm-256color", **env},
            start_new_session=True,
            # Else Ctrl-C would not be a signal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        self.raw = b""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        if self._ours >= 0:
            self.hang_up()

    @property
    def shown(self) -> str:
        return _CONTROL.sub("", self.raw.decode(errors="replace"))

    def until(self, words: str) -> str:
        """Wait until `words` are shown, after what was waited for before; returns what was shown in
        between.
        """
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(words, self._seen)) < 0:
            assert self._more(deadline), (
                f"never shown: {words!r}; this was:\n{self.shown[self._seen :]}"
            )
        between, self._seen = self.shown[self._seen : at], at + len(words)
        return between

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self._ours, key.encode())

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

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self._theirs)
        os.close(self._ours)
        self._theirs = self._ours = -1

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was: it echoes, and gives whole lines."""
        return termios.tcgetattr(self._theirs)[:4] == self._before[:4]

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        if ready:
            self.raw += os.read(self._ours, 65_536)
        return bool(ready)
