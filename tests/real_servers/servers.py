"""The servers, each with how it is started, the database behind one, and the person."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support import npm
from support.browser import Browser

HERE = Path(__file__).parent
PACKAGES = npm.read_packages(HERE / "packages.json")
PATIENCE = 60.0  # seconds for a server to start, and for anything else
GLANCE = 0.05  # seconds between two looks at a file


def installed(name: str) -> Path:
    """A server's program, installed if it is not there yet."""
    return npm.program(PACKAGES[name], npm.CACHE / name)


@dataclass
class MongoDB:
    """The stand-in for a database, and the server in front of it."""

    program: Path
    port: int
    process: subprocess.Popen[str]

    @property
    def command(self) -> list[str]:
        address = f"mongodb://127.0.0.1:{self.port}/?serverSelectionTimeoutMS=2000"
        return [str(self.program), "--telemetry", "disabled", "--connectionString", address]

    def commands(self) -> list[str]:
        """The database ends: what it was told in all."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        return self.process.stdout.read().split()


@contextmanager
def run_mongodb() -> Iterator[MongoDB]:
    program = installed("mongodb")
    with subprocess.Popen(
        ["node", str(HERE / "mongo.mjs"), str(program.parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield MongoDB(program, int(process.stdout.readline()), process)
        process.stdin.close()


@dataclass
class Person:
    """Somebody at a browser, into which the bridge's page is opened."""

    folder: Path
    browser: Browser = field(default_factory=Browser)

    @property
    def environment(self) -> dict[str, str]:
        program = self.folder / "browser"
        program.write_text(f'#!/bin/sh\necho "$1" >> {self.folder}/links\n')
        program.chmod(0o755)
        return {"BROWSER": str(program), "DISPLAY": ":0"}

    def look(self) -> str:
        links = self.folder / "links"
        until = time.monotonic() + PATIENCE
        while not links.exists() or not links.read_text().endswith("\n"):
            assert time.monotonic() < until, "no page was opened"
            time.sleep(GLANCE)
        return self.browser.open(links.read_text().split()[-1])

    def press(self, **fields: str) -> None:
        """Fill the form in, and press the button that `action` names."""
        self.browser.send(**fields)
