"""`abp-bridge replay`: finds fixtures, plays several at once, and says what came of each."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.options import SECONDS, argument_type, read_count
from abp_bridge.cli.runtime import complain, print_json, print_text
from abp_bridge.cli.trace import load, place
from abp_bridge.conformance.fixture import doubtful, reduce
from abp_bridge.conformance.format import Head, Recording, TraceError, dump, lines
from abp_bridge.conformance.match import ReplayMismatchError
from abp_bridge.conformance.runner import THIS_BRIDGE, play
from abp_bridge.core.json_value import JsonValue
from abp_bridge.errors import AbpBridgeError

if TYPE_CHECKING:
    import argparse


MISSING = "name a fixture or a folder of them: abp-bridge replay fixtures/"
HELP = "play recorded hosts and apps against a bridge, and compare"
USAGE = """\
abp-bridge replay FIXTURE... [OPTION]...
       abp-bridge replay --save TRACE FIXTURE"""
DESCRIPTION = (
    "Plays the host's and the app's side of fixtures against a bridge that it starts, and compares"
    " what that says. A folder stands for the fixtures in it. Exits with 0 when all pass."
)


class ReplayUsageError(AbpBridgeError):
    """The command cannot do what it is asked; the message says what would be right."""


# How an argument of the bridge begins -> the extra that it needs, and one package of it.
EXTRAS = {
    ("openai:", "anthropic:", "google:"): ("models", "pydantic_ai"),
    ("http:", "https:", "demo:page"): ("browser", "playwright"),
}


@dataclass(frozen=True, slots=True)
class Played:
    """The result of one recording of a file; `needs` is the extra that is not installed."""

    path: str
    head: Head
    seconds: float
    problem: ReplayMismatchError | None = None
    needs: str = ""


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    """Add what is played, against what, and how it is told."""
    option = parser.add_argument
    option("paths", nargs="+", metavar="FIXTURE", help="a fixture, a trace, or a folder of them")
    option(
        "--bridge",
        metavar="CMD",
        help=(
            "another bridge; it is given the same arguments, unless CMD has {app} where its app"
            " goes"
        ),
    )
    option(
        "--save",
        action="store_true",
        help="make a fixture of a trace of 'serve --record', and play nothing",
    )
    option("--shows", metavar="WORDS", default="", help="with --save: what the fixture shows")
    option(
        "--patience",
        metavar="TIME",
        type=SECONDS,
        default=10.0,
        help="how long to wait for the bridge's next line (in seconds, or as 2min; default: 10)",
    )
    option(
        "--jobs",
        metavar="N",
        type=argument_type(read_count),
        default=0,
        help="how many to play at once (default: two for each processor)",
    )
    option("--json", action="store_true", help="one JSON object a line instead of words")


def run_replay(options: argparse.Namespace) -> int:
    """Play fixtures, or make one, and return 0 (passed), 1 (failed) or 2 (nothing played)."""
    try:
        if options.save:
            return _save(options.paths, options.shows)
        command, files = _command(options.bridge), _files(options.paths)
    except ReplayUsageError as problem:
        return complain(problem, "replay")
    jobs = options.jobs or max(2, 2 * (os.cpu_count() or 1))
    failed = anyio.run(_play_all, files, command, options.json, options.patience, jobs)
    return 1 if failed else 0


def _save(paths: Sequence[str], shows: str) -> int:
    if len(paths) != 2:
        raise ReplayUsageError("--save needs two names: the trace, and the fixture to make of it")
    trace, out = paths
    try:
        found = load(trace)
    except TraceError as problem:
        raise ReplayUsageError(place(trace, problem)) from None
    fixture = reduce(found[-1], shows)
    if not fixture.entries:
        raise ReplayUsageError(f"{trace} holds no message")
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.writelines(lines(fixture))
    except FileExistsError:
        words = f"{out} is there already: remove it first, or give another name"
        raise ReplayUsageError(words) from None
    except OSError as problem:
        raise ReplayUsageError(f"{out} cannot be written: {problem.strerror}") from None
    more = f" (the last of {len(found)} recordings in {trace})" if len(found) > 1 else ""
    if doubt := doubtful(found[-1]):
        complain(f"{trace}: {doubt}", "replay")
    print_text(
        f"{out}: {len(fixture.entries)} lines{more}. Read it before you share it, then: abp-bridge"
        f" replay {shlex.quote(out)}\n"
    )
    return 0


def _command(bridge: str | None) -> list[str]:
    if bridge is None:
        return list(THIS_BRIDGE)
    try:
        words = shlex.split(bridge)
    except ValueError as problem:
        raise ReplayUsageError(f"--bridge cannot be read as a command: {problem}") from None
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise ReplayUsageError(f"--bridge: there is no program {words[0] if words else ''!r}")
    # It runs in a folder of its own.
    return [
        os.path.abspath(found),
        *(os.path.abspath(word) if os.path.isfile(word) else word for word in words[1:]),
    ]


def _files(paths: Sequence[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(str(each) for each in Path(path).rglob("*.jsonl"))
            if not inside:
                raise ReplayUsageError(
                    f"there is no fixture in {path}: fixtures are files that end in .jsonl"
                )
            found += inside
        elif os.path.exists(path):
            found.append(path)
        else:
            raise ReplayUsageError(f"there is no {path}")
    return found


async def _play_all(
    files: Sequence[str], bridge: Sequence[str], as_json: bool, patience: float, jobs: int
) -> int:
    """Play several at once, report in the files' order, and return the failures' number."""
    results: dict[int, list[Played]] = {}
    finished = [anyio.Event() for _ in files]
    limiter = anyio.CapacityLimiter(jobs)
    passed = failed = skipped = 0

    async def play_file(number: int, path: str) -> None:
        async with limiter:
            results[number] = await _play_file(path, bridge, patience)
        finished[number].set()

    async with anyio.create_task_group() as tasks:
        for number, path in enumerate(files):
            tasks.start_soon(play_file, number, path)
        for number, is_finished in enumerate(finished):
            await is_finished.wait()
            for played in results.pop(number):
                _report(played, as_json)
                skipped += bool(played.needs)
                failed += played.problem is not None
                passed += played.problem is None and not played.needs
    counts = {"passed": passed, "failed": failed, "skipped": skipped}
    if as_json:
        print_json(dump(counts))
    else:
        more = f", {skipped} skipped" if skipped else ""
        print_text(f"{passed} passed, {failed} failed{more}\n")
    return failed


async def _play_file(path: str, bridge: Sequence[str], patience: float) -> list[Played]:
    try:
        found = load(path)
    except TraceError as problem:
        return [Played(path, Head(), 0, ReplayMismatchError(str(problem), problem.line))]
    return [await _play(path, recording, bridge, patience) for recording in found]


async def _play(path: str, recording: Recording, bridge: Sequence[str], patience: float) -> Played:
    began = time.monotonic()
    problem: ReplayMismatchError | None = None
    fixture = recording
    try:
        if recording.unfinished:
            raise ReplayMismatchError("its last line is cut off: it cannot be played")
        fixture = reduce(recording)
        if tuple(bridge) == THIS_BRIDGE and (extra := _missing_extra(fixture.head)):
            return Played(path, fixture.head, time.monotonic() - began, needs=extra)
        await play(fixture, bridge, patience=patience)
    except ReplayMismatchError as found:
        problem = found
    return Played(path, fixture.head, time.monotonic() - began, problem)


def _missing_extra(head: Head) -> str:
    """Return the extra that this fixture's bridge needs and that is not installed, or ""."""
    for starts, (extra, package) in EXTRAS.items():
        if any(word.startswith(starts) for word in head.run) and find_spec(package) is None:
            return extra
    return ""


def _report(played: Played, as_json: bool) -> None:
    problem = played.problem
    if as_json:
        print_json(dump(_members(played)))
    elif played.needs:
        print_text(f"skip  {_visible(played.path)}: needs extra '{played.needs}'\n")
    elif problem is None:
        print_text(f"ok    {_visible(played.path)}\n")
    else:
        print_text("".join(f"{_visible(line)}\n" for line in _complaint(played, problem)))


def _members(played: Played) -> dict[str, JsonValue]:
    problem = played.problem
    said: dict[str, JsonValue] = {
        "fixture": played.path,
        "shows": played.head.shows,
        "passed": problem is None and not played.needs,
        "seconds": round(played.seconds, 2),
    }
    if played.needs:
        said["skipped"] = f"needs extra '{played.needs}'"
    if problem is None:
        return said
    return said | {
        "line": problem.line,
        "problem": str(problem),
        "details": list(problem.details),
        "expected": problem.expected,
        "got": problem.got,
    }


def _complaint(played: Played, problem: ReplayMismatchError) -> Iterable[str]:
    yield f"FAIL  {played.path}"
    if played.head.shows:
        yield f"      {played.head.shows}"
    yield f"      {f'line {problem.line}: ' if problem.line else ''}{problem}"
    for detail in problem.details:
        yield f"        {detail}"


def _visible(line: str) -> str:
    """What a fixture or a bridge says must not move the cursor, nor be more than a line."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )
