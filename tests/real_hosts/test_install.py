"""Real hosts start what `abp-bridge install` wrote, and uninstall restores their files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.peer import RpcPeer

from .hosts import installed
from .model import Model
from .stage import BRIDGE, PATIENCE

CLAUDE = "@anthropic-ai/claude-agent-sdk-linux-x64/claude"  # that claude-agent-acp brings


@dataclass(frozen=True)
class Row:
    """A host: its package, its command that reads the entry and what that `shows`, the `file` that
    is written, and what its home has before (`$work`: its folder, `$model`: a model).
    """

    package: str
    command: tuple[str, ...]
    shows: str
    file: str
    files: Mapping[str, str] = field(default_factory=dict)
    program: str = ""


GOOSE = """GOOSE_PROVIDER: openai
GOOSE_MODEL: mock
OPENAI_HOST: $model
OPENAI_BASE_PATH: v1/chat/completions
GOOSE_DISABLE_KEYRING: true
"""
SETTINGS = '{\n  "ui": {"theme": "GitHub"}, // mine\n  "mcpServers": {}\n}'
# opencode puts that address into a file that has none
OPENCODE = '{\n  "$schema": "https://opencode.ai/config.json", // mine\n  "theme": "system",\n}\n'
COPILOT = '{\n    "mcpServers": {\n        // none yet\n    }\n}'
ROWS = {
    "goose": Row(
        "goose",
        ("doctor",),
        r"(?s)\A(?!.*Failed).*extensions ready",
        ".config/goose/config.yaml",
        {".config/goose/config.yaml": GOOSE},
    ),
    "claude": Row(
        "claude", ("mcp", "list"), r"abp: .*abp-bridge serve.*Connected", "", program=CLAUDE
    ),
    "copilot": Row(
        "copilot",
        ("mcp", "get", "abp"),
        r"(?s)Status: Enabled.*Timeout: 900000ms",
        ".copilot/mcp-config.json",
        {".copilot/mcp-config.json": COPILOT},
    ),
    "gemini": Row(
        "gemini",
        ("mcp", "list"),
        r"abp: .*Connected",
        ".gemini/settings.json",
        {
            ".gemini/settings.json": SETTINGS,
            ".gemini/trustedFolders.json": '{"$work": "TRUST_FOLDER"}',
        },
    ),
    "qwen": Row(
        "qwen",
        ("mcp", "list"),
        r"abp: .*Connected",
        ".qwen/settings.json",
        {".qwen/settings.json": '{\n  "$version": 4, // mine\n  "mcpServers": {}\n}'},
    ),
    "opencode": Row(
        "opencodecli",
        ("mcp", "list"),
        r"(?s)abp.*connected",
        ".config/opencode/opencode.jsonc",
        {".config/opencode/opencode.jsonc": OPENCODE},
    ),
}


def find_program(row: Row) -> Path:
    program = installed(row.package)
    modules = next(each for each in program.parents if each.name == "node_modules")
    return modules / row.program if row.program else program


def fill(text: str, work: Path, model: Model) -> str:
    return text.replace("$work", str(work)).replace("$model", model.url)


class Home:
    """A person's folder, with a folder to work in, and the bridge's command line there."""

    def __init__(self, folder: Path, files: Mapping[str, str], program: Path, model: Model) -> None:
        self.folder, self.work = folder / "home", folder / "work"
        self.work.mkdir(parents=True)
        for name, text in files.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fill(text, self.work, model))
        self.folder.mkdir(exist_ok=True)
        programs = folder / "bin"
        programs.mkdir()
        (programs / program.name).symlink_to(program)
        paths = f"{programs}:{os.environ['PATH']}"
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        self.environment = {**kept, "HOME": str(self.folder), "PATH": paths, "OPENAI_API_KEY": "x"}

    def run(self, *command: str | Path) -> str:
        ended = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)


@pytest.mark.parametrize("name", ROWS)
def test_host_starts_what_was_installed(name: str, tmp_path: Path, model: Model) -> None:
    row = ROWS[name]
    program = find_program(row)
    home = Home(tmp_path, row.files, program, model)
    home.run(BRIDGE, "install", name, "--app", "demo", "--yes")
    assert re.search(row.shows, home.run(program, *row.command))
    assert home.run(BRIDGE, "install", name, "--app", "demo").startswith("Nothing to do")
    home.run(BRIDGE, "uninstall", name, "--yes")
    if row.file:
        written = home.folder / row.file
        assert written.read_text() == fill(row.files[row.file], home.work, model)
        assert [each.name for each in written.parent.glob("*.before-abp-bridge")] == []


def test_codex_lists_our_tools(tmp_path: Path, model: Model) -> None:
    program = installed("codex")
    before = '# mine\nmodel = "mock"\n\n[analytics]\nenabled = false'
    home = Home(tmp_path, {".codex/config.toml": before}, program, model)
    home.run(BRIDGE, "install", "codex", "--app", "demo", "--yes")
    assert "startup_timeout_sec: 60" in home.run(program, "mcp", "get", "abp")
    log = tmp_path / "host.log"
    with RpcPeer([program, "app-server"], env=home.environment, cwd=home.work, log=log) as codex:
        client = {"name": "abp-bridge-tests", "version": "0"}
        codex.result("initialize", {"clientInfo": client, "capabilities": {}})
        codex.send("initialized")
        (server,) = codex.result("mcpServerStatus/list", {})["data"]
    assert server["name"] == "abp"
    assert {"abp_connect", "abp_call"} <= set(server["tools"])
    home.run(BRIDGE, "uninstall", "codex", "--yes")
    assert (home.folder / ".codex/config.toml").read_text() == before
