"""The conformance suite as npm brings it: installed, run against an address, and its own account of
a run read back.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from support import npm
from support.npm import NotInstalled, Package

__all__ = ["CACHE", "REVISIONS", "Check", "NotInstalled", "Suite"]

Json = Any

CACHE = npm.CACHE / "conformance"
SUITE = Package(
    "@modelcontextprotocol/conformance",
    "0.2.0-alpha.12",
    "@modelcontextprotocol/conformance/dist/index.js",
)
NODE = Package("node", "24.21.0", "node/bin/node")
NODE_NEEDED = 22

REVISIONS = ("2025-11-25", "2026-07-28")
LIMIT = 900.0  # seconds for one revision


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the suite looked at: its verdict is SUCCESS, FAILURE, WARNING, INFO or
    SKIPPED.
    """

    scenario: str
    id: str
    verdict: str
    words: str

    @property
    def name(self) -> str:
        """As the suite's baselines have it."""
        return f"{self.scenario}:{self.id}"

    @property
    def failed(self) -> bool:
        """As the suite's own baseline has it, a warning counts."""
        return self.verdict in ("FAILURE", "WARNING")


class Suite:
    """The suite in the folder `cache`, installed there if it is missing, on a Node that is new
    enough. Raises NotInstalled.
    """

    def __init__(self, cache: Path) -> None:
        self._node = _node(cache)
        self._program = npm.program(SUITE, cache / "suite")

    def required(self, revision: str) -> list[str]:
        """The scenarios that a server must pass to conform to `revision`."""
        listed = (self._program.parents[1] / "requirements" / f"{revision}.yaml").read_text()
        return re.findall(
            r"^  - (\S+)$", listed.partition("\nserver:\n")[2].partition("\n\n")[0], re.MULTILINE
        )

    async def run(
        self, url: str, revision: str, scenario: str, expected: Path, folder: Path
    ) -> tuple[bool, list[Check]]:
        """All that `revision` requires, or one `scenario` of it, against `url`: (whether all was as
        `expected`, the checks).

        `folder` is made, and holds what the suite says.
        """
        what = (
            ["--scenario", scenario, "--spec-version", revision]
            if scenario
            else ["--requirements", revision]
        )
        command = [
            self._node,
            str(self._program),
            "server",
            "--url",
            url,
            *what,
            "--expected-failures",
            str(expected),
            "-o",
            str(folder),
        ]
        folder.mkdir(parents=True)
        with open(folder / "output.txt", "wb") as output:
            process = await anyio.open_process(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder
            )
            try:
                with anyio.move_on_after(LIMIT):
                    await process.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    if process.returncode is None:
                        process.kill()
                    code = await process.wait()
        return code == 0, [
            check for path in sorted(folder.glob("server-*/checks.json")) for check in _checks(path)
        ]


def _checks(path: Path) -> list[Check]:
    scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name.removeprefix("server-"))
    return [
        Check(scenario, each["id"], each["status"], each.get("errorMessage") or "")
        for each in json.loads(path.read_text())
    ]


def _node(cache: Path) -> str:
    """A Node that the suite runs on: the machine's, or one from npm."""
    found = shutil.which("node")
    if found is not None:
        told = subprocess.run(
            [found, "--version"], check=False, capture_output=True, text=True, timeout=60
        ).stdout
        if (match := re.match(r"v(\d+)\.", told)) and int(match[1]) >= NODE_NEEDED:
            return found
    return str(npm.program(NODE, cache / "node"))
