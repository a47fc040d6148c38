"""The conformance suite as npm brings it, run against the bridge for each revision of MCP; its own
account of the run is read back and judged.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest
from support import npm
from support.npm import Package
from support.puppets import scripted

from .adapter import Adapter
from .names import SCRIPT

Json = Any

HERE = Path(__file__).parent
EXPECTED = (HERE / "expected.yml").read_text()
PROXIED = (HERE / "proxied.yml").read_text()
BRIDGE = Path(sys.executable).with_name("abp-bridge")
SERVER = [str(BRIDGE), "serve", "--app", scripted(SCRIPT)]
PROXY = [str(BRIDGE), "mcp", "--page", "off", "--without-person", "--log-level", "error"]
COMMANDS = {
    "bridge": SERVER,
    # the same with the proxy in between, by the era that it speaks to the bridge
    "legacy": [*PROXY, "--era", "legacy", "--", *SERVER],
    "modern": [*PROXY, "--era", "modern", "--", *SERVER],
}
# What the proxy says where nobody can be asked, and it was started all the same.
ANNOUNCED = r"the bridge said on stderr: abp-bridge: nobody can be asked \(.*\): each .* 'cancel'"
REVISIONS = ["2025-11-25", "2026-07-28"]
LIMIT = 900.0  # seconds for one revision

CACHE = npm.CACHE / "conformance"
SUITE = Package(
    "@modelcontextprotocol/conformance",
    "0.2.0-alpha.12",
    "@modelcontextprotocol/conformance/dist/index.js",
)
NODE = Package("node", "24.21.0", "node/bin/node")
NODE_NEEDED = 22


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


@dataclass
class Run:
    """What came of one revision: whether the suite ended content, what it looked at, what the
    bridges did that a bridge must not do, and the scenarios that a server must pass to conform.

    `expected` is what is known to fail, as the suite's baselines have it.
    """

    expected: str

    content: bool = True
    checks: list[Check] = field(default_factory=list)
    complaints: Sequence[str] = ()
    required: Sequence[str] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """What is known to fail, and why."""
        return dict(re.findall(r"^  - (\S+) # (.+)$", self.expected, re.MULTILINE))

    def verdicts(self) -> Counter[str]:
        """How many scenarios passed, failed as expected, do not count, and failed."""
        return Counter(self._verdict(name) for name in {check.scenario for check in self.checks})

    def _verdict(self, scenario: str) -> str:
        wrong = [each for each in self.checks if each.scenario == scenario and each.failed]
        if not wrong:
            return "passed"
        if scenario not in self.required:
            return "unscored"
        return "expected" if all(each.name in self.reasons for each in wrong) else "failed"


@pytest.fixture(scope="module", params=product(REVISIONS, COMMANDS), ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The suite's whole run for one revision, or the scenarios of it that are asked for."""
    revision, command = request.param
    folder = tmp_path_factory.mktemp(request.param[1])
    only = request.config.getoption("--scenario")
    return anyio.run(_run, command, revision, only, folder)


def test_what_must_pass_passes(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n", ", ".join(f"{number} {verdict}" for verdict, number in run.verdicts().items()))
    assert run.checks, "the suite looked at nothing"
    assert [
        (check.name, check.words)
        for check in run.checks
        if check.failed and check.scenario in run.required and check.name not in run.reasons
    ] == []


def test_what_is_expected_to_fail_does_not_pass(run: Run) -> None:
    wrong = {check.name for check in run.checks if check.failed}
    passed = {check.name for check in run.checks if check.verdict == "SUCCESS"} - wrong
    assert not passed & set(run.reasons), "take it out of what is expected"


def test_a_bridge_does_nothing_that_it_must_not_do(run: Run) -> None:
    assert run.complaints == []


def test_the_suite_itself_says_that_all_is_well(run: Run) -> None:
    assert run.content


async def _run(name: str, revision: str, only: Sequence[str], folder: Path) -> Run:
    program = npm.program(SUITE, CACHE / "suite")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    kept["ABP_PERSON_FLOOR"] = "0"  # the suite is its own person, and a fast one
    adapter = Adapter(COMMANDS[name], kept, folder, by_client=name != "bridge")
    more = PROXIED.partition(f"{name}:\n")[2].partition("\nmodern:")[0]
    run = Run(f"{EXPECTED}\n{more}\n", required=_required(program, revision))
    async with adapter.served() as url:
        for scenario in only or [""]:
            content, checks = await _suite(program, url, revision, scenario, folder, run.expected)
            run.content = run.content and content
            run.checks += checks
    said = adapter.complaints
    run.complaints = [each for each in said if not re.fullmatch(ANNOUNCED, each)]
    return run


def _required(program: Path, revision: str) -> list[str]:
    listed = (program.parents[1] / "requirements" / f"{revision}.yaml").read_text()
    part = listed.partition("\nserver:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  - (\S+)$", part, re.MULTILINE)


async def _suite(
    program: Path, url: str, revision: str, scenario: str, folder: Path, expected: str
) -> tuple[bool, list[Check]]:
    """All that `revision` requires, or one `scenario` of it, against `url`: (whether all was as
    expected, the checks).
    """
    folder = folder / (scenario or "all")
    folder.mkdir(parents=True)
    baseline = folder / "expected.yml"
    baseline.write_text(expected)
    one = ["--scenario", scenario, "--spec-version", revision]
    what = one if scenario else ["--requirements", revision]
    command = [_node(), program, "server", "--url", url, *what, "-o", folder]
    with (folder / "output.txt").open("wb") as output:
        process = await anyio.open_process(
            [*map(str, command), "--expected-failures", str(baseline)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
        )
        try:
            with anyio.move_on_after(LIMIT):
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                code = await process.wait()
    paths = sorted(folder.glob("server-*/checks.json"))
    return code == 0, [check for path in paths for check in _checks(path)]


def _checks(path: Path) -> list[Check]:
    scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name.removeprefix("server-"))
    return [
        Check(scenario, each["id"], each["status"], each.get("errorMessage") or "")
        for each in json.loads(path.read_text())
    ]


def _node() -> str:
    """A Node that the suite runs on: the machine's, or one from npm."""
    if (found := shutil.which("node")) is not None:
        version = subprocess.run([found, "--version"], check=True, capture_output=True, text=True)
        if (match := re.match(r"v(\d+)\.", version.stdout)) and int(match[1]) >= NODE_NEEDED:
            return found
    return str(npm.program(NODE, CACHE / "node"))
