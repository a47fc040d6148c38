"""What tests of `abp-bridge mcp` need: a raw host, the proxy, and a server that asks as real ones
do. Both ends are checked against the official types.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_types import methods

from support.harness import RawHost, Wire
from support.paths import APPS

Json = Any

MCP = (sys.executable, "-m", "abp_bridge", "mcp")
SERVER = (sys.executable, str(APPS / "mcp_server.py"))
FORM: Json = {"form": {}}
DESKTOP = {"BROWSER": "true"}  # a command that says that it opened a browser
VERSION = "2025-11-25"


def _messages(line: Json) -> list[Json]:
    return line if isinstance(line, list) else [line]


class Proxied(RawHost):
    """A host on the proxy, with the server behind it."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = MCP,
    ) -> None:
        self.read_by_server, self.deeds_of_server = folder / "read", folder / "deeds"
        self.log_file = folder / "host.log"
        files = (str(self.read_by_server), str(self.deeds_of_server))
        arguments = (*arguments, "--", *SERVER, *files)
        super().__init__(*arguments, command=command, env=env, log=self.log_file)

    @property
    def deeds(self) -> list[str]:
        """What the server has done."""
        file = self.deeds_of_server
        return file.read_text().splitlines() if file.exists() else []

    def lines_to_server(self) -> list[bytes]:
        """The lines that the server read."""
        return self.read_by_server.read_bytes().splitlines(keepends=True)

    def to_server(self, method: str | None = None) -> list[Json]:
        """What the server read, as messages; with a method, their params."""
        read = [each for line in self.lines_to_server() for each in _messages(json.loads(line))]
        return (
            read
            if method is None
            else [each.get("params") for each in read if each.get("method") == method]
        )

    def wait_read(self) -> None:
        """Wait until the server has read all that this host has written."""
        self.result("tools/list")

    def asked(self) -> Json:
        """The next question that the host gets."""
        return self.until(lambda message: message.get("method") == "elicitation/create")

    def check(self) -> None:
        """The referee, at both ends."""
        wire = Wire()
        for line in self.log_file.read_text().splitlines():
            wire.lines.append(("host" if line.startswith("> ") else "bridge", json.loads(line[2:])))
        wire.check()
        for message in self.to_server():
            if message.get("method") is None and "action" in message.get("result", {}):
                methods.validate_client_result("elicitation/create", VERSION, message["result"])
            elif "method" in message and "id" in message:
                methods.parse_client_request(message["method"], VERSION, message.get("params"))
            elif "method" in message:
                methods.parse_client_notification(message["method"], VERSION, message.get("params"))


@contextmanager
def proxied(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = MCP,
    capabilities: Json = None,
) -> Iterator[Proxied]:
    """A host that has shaken hands with the server, and has its tools."""
    with Proxied(folder, *arguments, env=env, command=command) as host:
        assert "result" in host.initialize(**(capabilities or {}))
        host.result("tools/list")
        yield host
        host.check()
