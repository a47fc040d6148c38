"""README's first program as a stranger starts it, on a machine without a display."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from support.paths import ROOT
from support.terminal import Pane

PATHS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def test_the_first_program_asks_at_the_terminal_it_is_started_in(tmp_path: Path) -> None:
    (command,) = re.findall(r'^python3 .* --tty "\$\(tty\)" .*$', _readme(), re.MULTILINE)
    started = command.replace("notes.db", str(tmp_path / "notes.db"))
    script = f"cd {ROOT} && {started}; cat"
    with Pane(["sh", "-c", script], {"PATH": PATHS, "TERM": "screen-256color"}) as pane:
        shown = pane.until("Enter chooses")
        assert "Delete all 3 notes?" in shown
        assert "» No" in shown
        pane.press("Enter")
        assert "notes after: 3" in pane.until("notes after")


def _readme() -> str:
    return (ROOT / "README.md").read_text()
