"""Agents as models: one of each kind, with a stand-in for its program."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from abp_bridge.models.acp import AcpAgent
from abp_bridge.models.agent import AgentMessage, Image
from abp_bridge.models.cli import DIALECTS, CliAgent
from abp_bridge.models.session import LocalAgent
from support.paths import APPS
from support.peer import PATIENCE

Json = Any


LIMIT = round(1_000 * PATIENCE)  # milliseconds of a turn
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(9)).decode()


def user(*words: str) -> list[AgentMessage]:
    return [AgentMessage("user", each) for each in words]


def with_image(words: str) -> list[AgentMessage]:
    return [AgentMessage("user", words, (Image(PNG, "image/png", 17),))]


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def install(folder: Path, environment: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with the stand-in of Claude Code."""
    for made in (programs := folder / "bin", sessions := folder / "sessions", folder / "work"):
        made.mkdir()
    program = programs / "claude"
    program.write_text(f"#!{sys.executable}\n{(APPS / 'cli_agent.py').read_text()}")
    program.chmod(0o755)
    environment.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    environment.setenv("STAND_IN_SESSIONS", str(sessions))
    return programs


def add_cli(programs: Path, name: str, says: Sequence[Json], keeps: str = "/dev/null") -> None:
    """Add a command line that always `says` these lines, and writes down what it was sent."""
    lines = "\n".join(map(json.dumps, says))
    program = programs / name
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n"
        f"with Path({keeps!r}).open('a') as kept:\n    kept.write(sys.stdin.read())\n"
        f"print({lines!r})\n"
    )
    program.chmod(0o700)


def acp(folder: Path, *how: str, agent: str = "acp_model") -> AcpAgent:
    """An ACP agent, which writes what it hears into `heard`."""
    program = str(APPS / f"{agent}.py")
    return AcpAgent([sys.executable, program, str(folder / "heard"), *how], str(folder / "work"))


AGENTS: Mapping[str, Callable[[Path], LocalAgent]] = {
    "cli": lambda folder: CliAgent(DIALECTS["claude"], str(folder / "work")),
    "acp": lambda folder: acp(folder, "resume"),
}
"""Of each kind, one in that folder."""
