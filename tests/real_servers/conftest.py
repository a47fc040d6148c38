"""What a test of a real server has: the server's command, and who sits at the browser."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .servers import MongoDB, Person, installed


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture
def mongodb() -> Iterator[MongoDB]:
    """A database that counts what it is told to do, and does nothing."""
    program = installed("mongodb")
    stand_in = Path(__file__).with_name("mongo.mjs")
    command = ["node", str(stand_in), str(program.parents[1])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        yield MongoDB(program, int(process.stdout.readline()), process)
        assert process.stdin is not None
        process.stdin.close()
