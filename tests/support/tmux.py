"""A terminal that draws: a tmux server of its own with one pane, what stands on it now, and the
keys a person presses.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Self

from support.peer import PATIENCE

GLANCE = 0.02


class Pane:
    """A pane in which `command` runs.

    Keys are tmux's names (`Enter`, `Down`, `C-c`), anything else is typed as it is.
    """

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
        """The window is closed."""
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
        """Wait until `words` stand in the window, below what it says last of `below`; returns all
        of it.
        """
        deadline = time.monotonic() + PATIENCE
        while not _stands(words, below, shown := self.shown):
            assert time.monotonic() < deadline, f"never shown: {words!r}; this was:\n{shown}"
            time.sleep(GLANCE)
        return shown

    def press(self, *keys: str) -> None:
        for key in keys:
            named = key in (
                "Enter",
                "Up",
                "Down",
                "Left",
                "Right",
                "Space",
                "Tab",
                "Escape",
                "BSpace",
            ) or key.startswith("C-")
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
