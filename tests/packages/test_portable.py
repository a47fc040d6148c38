"""What of the bridge loads on Windows. Nothing here is a Windows: what that lacks is taken away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.harness import PATIENCE
from support.paths import ROOT

# What others load that is there on Windows in another form, then what Windows lacks.
BARE = """
import asyncio, os, shutil, signal, socket, subprocess, sys, tempfile
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for module, names in (
    (signal, "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH"),
    (os, "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK fchmod fork getegid geteuid getgid"
         " getpgid getpgrp getsid getuid killpg tcgetpgrp ttyname uname"),
    (socket, "AF_UNIX"),
):
    for name in names.split():
        delattr(module, name)
"""
SDK = "import mcp.server.stdio\n"
EACH = """
import importlib, pkgutil
import abp_bridge
modules = [each.name for each in pkgutil.walk_packages(abp_bridge.__path__, "abp_bridge.")]
for name in modules:
    if not name.endswith("__main__"):  # which runs
        importlib.import_module(name)
print(len(modules))
"""
RUN = """
from abp_bridge.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
NAMED = "os.name = 'nt'\n"  # as late as can be: paths are made by it


pytestmark = pytest.mark.process
PLAYED = ROOT / "fixtures/hosts/acpx/select-many.jsonl"


def bare(
    code: str, *arguments: str, before: str = "", patience: float = PATIENCE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` without what Windows lacks, and `before` with it."""
    return subprocess.run(
        [sys.executable, "-c", before + BARE + code, *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HOME": "/nowhere", **variables},
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


def test_every_module_loads_without_posix() -> None:
    ended = bare(EACH, before=SDK, patience=4 * PATIENCE)  # some 400 modules and what they need
    assert ended.stderr == ""
    assert int(ended.stdout) > 200


@pytest.mark.parametrize(
    "command", ["--help", "matrix", f"trace {PLAYED}", "install codex --print"]
)
def test_command_that_only_prints_runs_without_posix(command: str) -> None:
    ended = bare(RUN, *command.split())
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "abp" in ended.stdout.lower()


@pytest.mark.parametrize(
    ("module", "command", "said"),
    [
        ("serve", "serve", "'abp-bridge serve' runs on Linux and macOS only"),
        ("install", "install codex --yes", "what a host would start runs on Linux and macOS"),
    ],
)
def test_command_that_needs_posix_says_so(module: str, command: str, said: str) -> None:
    ended = bare(f"import abp_bridge.cli.{module}\n" + NAMED + RUN, *command.split())
    assert said in ended.stderr
    assert "on Windows, inside WSL." in ended.stderr
    assert (ended.returncode, ended.stdout) == (2, "")


def test_log_works_without_posix(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended = bare(RUN, "matrix", "--log-file", str(log), ABP_HEADLES="false")
    assert ended.returncode == 0
    assert "ABP_HEADLES" in ended.stderr
    assert "ABP_HEADLES" in log.read_text()
