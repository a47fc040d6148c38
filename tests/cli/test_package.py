"""What a program that embeds the bridge imports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.harness import PATIENCE
from support.mcp_proxy import SERVER

import abp_bridge
from abp_bridge.cli.main import COMMANDS, main


@pytest.mark.process
def test_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import abp_bridge;"
        "print(*sorted(set(sys.modules) - before))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ended.stdout.split() == ["abp_bridge"]


@pytest.mark.process
def test_version_imports_no_command() -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules));"
        "from abp_bridge.cli.main import main; main(['--version'])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    version, loaded = ended.stdout.splitlines()
    assert version == f"abp-bridge {abp_bridge.VERSION}"
    commands = {f"abp_bridge.cli.{module}" for module in COMMANDS.values()}
    assert not commands.intersection(loaded.split())


def test_main_restores_the_signals() -> None:
    before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert main(["check", "stdio:/nowhere/program"]) == 1
    after = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert after == before


@pytest.mark.parametrize("name", abp_bridge.__all__)
def test_package_has_every_name(name: str) -> None:
    assert getattr(abp_bridge, name) is not None
    assert name in dir(abp_bridge)


def test_package_without_a_name_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bridge_of_sighs'"):
        _ = abp_bridge.bridge_of_sighs  # type: ignore[attr-defined]


def test_package_errors_have_one_base() -> None:
    errors = [name for name in abp_bridge.__all__ if name.endswith("Error")]
    assert len(errors) > 5
    assert all(issubclass(getattr(abp_bridge, name), abp_bridge.AbpBridgeError) for name in errors)


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "room"),
    [
        (["serve"], "mcp.server"),
        (["serve", "--app", "acp:true"], "mcp.server"),
        (["mcp", "--", *SERVER], "mcp.proxy.proxy"),
    ],
)
def test_host_is_answered_before_a_session_is_imported(
    command: list[str], room: str, tmp_path: Path
) -> None:
    if "--" in command:
        command = [*command, str(tmp_path / "read"), str(tmp_path / "deeds")]
    can: dict[str, object] = {"elicitation": {}}
    greeting = {"protocolVersion": "2025-11-25", "capabilities": can, "clientInfo": {"name": "h"}}
    code = (
        "import atexit, sys;"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr));"
        f"from abp_bridge.cli.main import main; main({command!r})"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as host:
        watchdog = threading.Timer(PATIENCE, host.kill)
        watchdog.start()
        assert host.stdin is not None
        assert host.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
        host.stdin.write(json.dumps(message) + "\n")
        host.stdin.flush()
        answer = json.loads(host.stdout.readline())
        _, loaded = host.communicate()
        watchdog.cancel()
    assert answer["result"]["protocolVersion"] == "2025-11-25"
    rooms = {name for name in loaded.split() if name.startswith("abp_bridge.")}
    assert f"abp_bridge.{room}" in rooms
    heavy = {"acp", "mcp", "pydantic", *(["shutil", "tempfile"] if command[0] == "serve" else [])}
    assert not heavy.intersection(loaded.split())
    later = ("session", "apps", "surfaces", "conformance", "core.question", "core.schema")
    assert [name for name in sorted(rooms) if name.partition(".")[2].startswith(later)] == []
