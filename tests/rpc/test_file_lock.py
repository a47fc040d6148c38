"""A lock on a file that another process has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abp_bridge.rpc.file_lock import lock

HOLDER = """
import fcntl, sys
with open(sys.argv[1]) as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_who_has_it_is_waited_for_no_longer_than_was_said_and_then_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with file.open() as ours, pytest.raises(BlockingIOError) as caught:
            lock(ours.fileno(), wait=0.01)
        assert f"process {holder.pid}" in str(caught.value)
        assert "try again" in str(caught.value)
        holder.stdin.close()
    with file.open() as ours:
        lock(ours.fileno())
