"""`abp-bridge doctor` agrees with the hosts about what is sound."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .hosts import installed
from .model import Model
from .stage import BRIDGE, PATIENCE
from .test_install import ROWS, Home, Row, find_program

CODEX = Row("codex", (), "", ".codex/config.toml")
# What a host's own command is worth: Goose's begins a session, and is not run.
OWN = {"goose": "not tried"}
REFUSED = (
    "approval_policy = { granular = { rules = true } }",
    '[mcp_servers.x]\ncommand = "x"\nrequired = "yes"',
    '[mcp_servers.x]\ncommand = "x"\nargs = "y"',
    '[mcp_servers.x]\ncommand = "x"\nenv = { A = 1 }',
    '[mcp_servers.x]\ncommand = "x"\nurl = "http://x"',
    '[mcp_servers.x]\ncommand = "x"\ntool_timeout_sec = -1',
    '[mcp_servers.x]\ncommand = "x"\ndefault_tools_approval_mode = "no"',
    '[mcp_servers.x]\nargs = ["x"]',
)


def examine(home: Home, name: str) -> dict[str, Any]:
    ended = subprocess.run(
        [BRIDGE, "doctor", name, "--json"],
        cwd=home.work,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    told = json.loads(ended.stdout)
    assert ended.returncode == (0 if told["passed"] else 1)
    (section,) = told["sections"]
    return {each["check"]: each for each in section["findings"]}


@pytest.mark.parametrize("name", [*ROWS, "codex"])
def test_installed_entry_is_sound(name: str, tmp_path: Path, model: Model) -> None:
    row = ROWS.get(name, CODEX)
    home = Home(tmp_path, row.files, find_program(row), model)
    home.run(BRIDGE, "install", name, "--app", "demo", "--yes")
    found = examine(home, name)
    assert [each for each in found.values() if each["failed"]] == []
    assert found["start"]["verdict"] == "works"
    assert found["host's own"]["verdict"] == OWN.get(name, "works")


@pytest.mark.parametrize("text", REFUSED)
def test_codex_refuses_what_doctor_reports(text: str, tmp_path: Path, model: Model) -> None:
    program = installed("codex")
    home = Home(tmp_path, {".codex/config.toml": text + "\n"}, program, model)
    ended = subprocess.run(
        [program, "mcp", "list"],
        env=home.environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode != 0
    assert examine(home, "codex")["wrong value"]["failed"]
