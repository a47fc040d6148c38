"""Agents as models, for tests: one of each kind behind `AgentProtocol`, with a stand-in for its
program that knows the same words whatever it speaks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from abp_bridge.agents.acp import AcpAgent
from abp_bridge.agents.cli import CliAgent
from abp_bridge.agents.local import LocalAgent
from abp_bridge.core.agent_turn import AgentMessage
from abp_bridge.protocols.cli_agents import DIALECTS
from support.paths import APPS


def user(*words: str) -> list[AgentMessage]:
    return [AgentMessage("user", each) for each in words]


def lives(process: int) -> bool:
    """Whether it is there, and not a zombie that nobody has buried yet."""
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


def acp(folder: Path, *how: str, agent: str = "acp_model") -> AcpAgent:
    """An ACP agent, which writes what it hears into `heard`."""
    program = str(APPS / f"{agent}.py")
    return AcpAgent([sys.executable, program, str(folder / "heard"), *how], str(folder / "work"))


AGENTS: Mapping[str, Callable[[Path], LocalAgent]] = {
    "cli": lambda folder: CliAgent(DIALECTS["claude"], str(folder / "work")),
    "acp": lambda folder: acp(folder, "resume"),
}
"""Of each kind, one in that folder."""
