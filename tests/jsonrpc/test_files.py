"""A lock on a file that another process has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from abp_bridge.jsonrpc.files import lock

HOLDER = """
import fcntl, sys
with open(sys.argv[1]) as file:
    if sys.argv[2] == "lock":
        fcntl.flock(file, fcntl.LOCK_EX)
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def opened(file: Path, how: str) -> Iterator[int]:
    """Run a process that has the file open, locked or not; yield its id."""
    command = [sys.executable, "-c", HOLDER, str(file), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process.pid
        process.communicate()


@pytest.mark.process
def test_lock_names_the_process_that_holds_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with opened(file, "read"), opened(file, "lock") as holder:
        with file.open() as ours, pytest.raises(BlockingIOError) as caught:
            lock(ours.fileno(), wait=0.01)
        assert f"(process {holder})" in str(caught.value)
        assert "try again" in str(caught.value)
    with file.open() as ours:
        lock(ours.fileno())
