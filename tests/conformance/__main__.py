"""python -m tests.conformance [--only SCENARIO]... [--keep DIR] [REVISION...]

The line that closes a revision counts what passed, what failed as expected, what does not count,
and what failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import uvicorn

from .adapter import Adapter
from .suite import CACHE, REVISIONS, Check, NotInstalled, Suite

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.yml"
REASONS: dict[str, str] = dict(
    re.findall(r"^  - (\S+) # (.+)$", EXPECTED.read_text(), re.MULTILINE)
)
VERDICTS = ("passed", "expected", "unscored", "failed")

BRIDGE = Path(sys.executable).with_name("abp-bridge")
COMMAND = [str(BRIDGE), "serve", "--app", f"stdio:{sys.executable} {HERE / 'app.py'}"]


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        suite = Suite(options.suite.resolve())
    except NotInstalled as problem:
        print(f"The suite cannot be installed: {problem}")
        return 1
    keep = Path(options.keep or tempfile.mkdtemp(prefix="abp-conformance-")).resolve()
    failed = 0
    try:
        for revision in options.revision or REVISIONS:
            folder = keep / revision
            shutil.rmtree(folder, ignore_errors=True)
            failed += anyio.run(_run, suite, revision, options.only, folder)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if failed or options.keep:
        print(f"The suite's own words, and what went over the pipes, are in {keep}")
    else:
        shutil.rmtree(keep, ignore_errors=True)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="The official MCP conformance suite against the stdio bridge.",
    )
    parser.add_argument(
        "--only", action="append", metavar="SCENARIO", help="only this scenario; may be repeated"
    )
    parser.add_argument(
        "--keep", metavar="DIR", help="keep the suite's output and the recorded pipes here"
    )
    parser.add_argument(
        "--suite",
        type=Path,
        default=CACHE,
        metavar="DIR",
        help=f"where the suite is, or is to be installed ({CACHE})",
    )
    parser.add_argument(
        "revision",
        nargs="*",
        type=_revision,
        help=f"which revisions of MCP: {', '.join(REVISIONS)} (all)",
    )
    return parser.parse_args()


def _revision(name: str) -> str:
    if name not in REVISIONS:
        raise argparse.ArgumentTypeError(f"there are {', '.join(REVISIONS)}")
    return name


async def _run(suite: Suite, revision: str, only: Sequence[str] | None, folder: Path) -> int:
    """One revision: how much went wrong that was not expected to."""
    folder.mkdir(parents=True)
    adapter = Adapter(COMMAND, _environment(), folder)
    checks: list[Check] = []
    content = True
    async with _served(adapter) as url:
        for scenario in only or [""]:
            fine, found = await suite.run(
                url, revision, scenario, EXPECTED, folder / (scenario or "all")
            )
            content = content and fine
            checks += found
    print(f"\nMCP {revision}")
    verdicts = _judged(checks, suite.required(revision))
    troubles = [f"the bridge {each}" for each in adapter.complaints] + _stale(checks)
    if not content and not troubles and not verdicts["failed"]:
        troubles = [f"the suite did not say that all is well, see {folder}"]
    for trouble in troubles:
        print(f"  failed    {trouble}")
    verdicts["failed"] += len(troubles)
    print(f"{revision}: {', '.join(f'{verdicts[word]} {word}' for word in VERDICTS)}")
    return verdicts["failed"]


def _environment() -> dict[str, str]:
    """What a host gives its servers: little."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


class Server(uvicorn.Server):
    """Leaves signals to the whole, which ends the suite and the bridges, too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _served(adapter: Adapter) -> AsyncIterator[str]:
    """The adapter on a port of its own; on the way out its bridges end, and with them what is still
    being streamed.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = Server(
            uvicorn.Config(
                adapter.app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5
            )
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            async with adapter.running():
                yield f"http://127.0.0.1:{port}/mcp"
            server.should_exit = True


def _judged(checks: Sequence[Check], required: Sequence[str]) -> Counter[str]:
    """A line for each scenario, with what failed in it and why.

    Returns how many there are of each verdict.
    """
    verdicts: Counter[str] = Counter()
    known = [*required, *sorted({check.scenario for check in checks} - {*required})]
    for scenario in sorted({check.scenario for check in checks}, key=known.index):
        here = [check for check in checks if check.scenario == scenario]
        wrong = [check for check in here if check.failed]
        verdict = "passed"
        if wrong:
            all_known = all(check.name in REASONS for check in wrong)
            verdict = (
                "unscored" if scenario not in required else "expected" if all_known else "failed"
            )
        verdicts[verdict] += 1
        good = sum(check.verdict == "SUCCESS" for check in here)
        print(f"  {verdict:<9} {scenario} ({good} of {good + len(wrong)} checks)")
        for check in wrong if scenario in required else ():
            print(
                f"            {check.id}:"
                f" {REASONS.get(check.name, ' '.join(check.words.split())[:300])}"
            )
    return verdicts


def _stale(checks: Sequence[Check]) -> list[str]:
    wrong = {check.name for check in checks if check.failed}
    passed = {check.name for check in checks if check.verdict == "SUCCESS"} - wrong
    return [f"{name} passes: take it out of {EXPECTED.name}" for name in REASONS if name in passed]


if __name__ == "__main__":
    sys.exit(main())
