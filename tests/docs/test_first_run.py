"""README's example, run as a new user would on a machine without a display."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from support.paths import ROOT
from support.terminal import Pane

PATHS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.terminal
def test_readme_example_asks_in_its_terminal(tmp_path: Path) -> None:
    (command,) = re.findall(r"^\$ (python3 .* abp-bridge mcp .*)$", _readme(), re.MULTILINE)
    started = command.replace("notes.db", str(tmp_path / "notes.db"))
    started = started.replace("abp-bridge mcp", 'abp-bridge mcp --tty "$(tty)"')
    script = f"cd {ROOT} && {started}; cat"
    with Pane(["sh", "-c", script], {"PATH": PATHS, "TERM": "screen-256color"}) as pane:
        shown = pane.until("Enter chooses")
        assert "Delete all 3 notes?" in shown
        assert "» No" in shown
        pane.press("Enter")
        assert "notes after: 3" in pane.until("notes after")


def _readme() -> str:
    return (ROOT / "README.md").read_text()
