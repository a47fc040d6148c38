"""The servers, each with how it is started, the host in front of the bridge, and the person."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import npm, pypi
from support.harness import environment
from support.npm import Package
from support.peer import RpcPeer
from support.visitor import Browser

Json = Any

HERE = Path(__file__).parent
PACKAGES = {
    name: Package(*row) for name, row in json.loads((HERE / "packages.json").read_text()).items()
}
PATIENCE = 60.0  # seconds for a server to start, and for anything else
GLANCE = 0.05  # seconds between two looks at a file
FORMS: dict[str, Json] = {"elicitation": {"form": {}, "url": {}}}


def installed(name: str) -> Path:
    """A server's program, installed if it is not there yet."""
    package = PACKAGES[name]
    source = pypi if package.python else npm
    program: Path = source.program(package, npm.CACHE / name)
    return program


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
    """A database that counts what it is told to do, and does nothing."""
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
        """What gives a bridge this person's browser."""
        program = self.folder / "browser"
        program.write_text(f'#!/bin/sh\necho "$1" >> {self.folder}/links\n')
        program.chmod(0o755)
        return {"BROWSER": str(program), "DISPLAY": ":0"}

    def look(self) -> str:
        """The page that was opened, as it is drawn without its tags."""
        links = self.folder / "links"
        until = time.monotonic() + PATIENCE
        while not links.exists() or not links.read_text().endswith("\n"):
            assert time.monotonic() < until, "no page was opened"
            time.sleep(GLANCE)
        return self.browser.open(links.read_text().split()[-1])

    def press(self, **fields: str) -> None:
        """Fill the form in, and press the button that `action` names."""
        self.browser.send(**fields)


class Host(RpcPeer):
    """A host that launches `abp-bridge mcp` where it launched a server."""

    patience = PATIENCE

    def __init__(
        self,
        server: list[str],
        *options: str,
        can: Mapping[str, Json],
        env: Mapping[str, str],
        bridge: bool = True,
        log: Path | None = None,
    ) -> None:
        proxy = [sys.executable, "-m", "abp_bridge", "mcp", *options, "--"] if bridge else []
        command = [*proxy, *server]
        super().__init__(command, env=environment(ABP_PERSON_FLOOR="400", **env), log=log)
        self.can = can

    def begin_session(self) -> Json:
        """Initialize: the whole response."""
        client = {"name": "a host", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": self.can, "clientInfo": client}
        return self.request("initialize", params)

    def greet(self) -> None:
        """Initialize, as a host does that gets what it expects."""
        response = self.begin_session()
        assert "result" in response, response
        self.send("notifications/initialized")

    def text_answering(self, call: int, response: Mapping[str, Json]) -> str:
        """`text`, where each question meanwhile has this response at once, be it an error."""
        asked = 0
        while (message := self.until(lambda each: "id" in each)).get("method"):
            assert message["method"] == "elicitation/create"
            self._send({"id": message["id"], **response})
            asked += 1
        assert asked
        assert message["id"] == call
        return _words(message["result"])

    def call(self, tool: str, **arguments: Json) -> int:
        """Begin a tool call: its id."""
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def text(self, call: int) -> str:
        """All words of a call's result."""
        return _words(self.response(call)["result"])


def _words(result: Json) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])
