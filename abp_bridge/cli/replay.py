"""`abp-bridge replay` and `abp-bridge trace`: finds fixtures, plays several at once, and says what
came of each.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from abp_bridge.cli.runtime import add_setting_options, argument_type, complain, read_count
from abp_bridge.errors import AbpBridgeError
from abp_bridge.replay.fixture import doubtful, reduce
from abp_bridge.replay.mismatch import ReplayMismatchError
from abp_bridge.replay.runner import THIS_BRIDGE, play
from abp_bridge.settings import read_duration
from abp_bridge.trace.format import Head, Recording, TraceError, dump, lines, read

if TYPE_CHECKING:
    import argparse

    from abp_bridge.cli.runtime import Subparsers

Json = Any

MAX_FILE = 256 * 2**20


class FixtureUnusableError(AbpBridgeError):
    """The command cannot do what it is asked; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one recording of a file."""

    path: str
    head: Head
    seconds: float
    problem: ReplayMismatchError | None = None


def add_parser(commands: Subparsers) -> None:
    """Add `replay`."""
    parser = commands.add_parser(
        "replay",
        help="play recorded hosts and apps against a bridge, and compare",
        usage=(
            "abp-bridge replay FIXTURE... [OPTION]...\n       abp-bridge replay --save TRACE"
            " FIXTURE"
        ),
        description=(
            "Plays the host's and the app's side of fixtures against a bridge that it starts, and"
            " compares what that says. A folder stands for the fixtures in it. Exits with 0 when"
            " all pass."
        ),
    )
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
        type=argument_type(lambda text: read_duration(text, "s", positive=True)),
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
    add_setting_options(parser, "replay")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Play fixtures, or make one. Returns the exit code."""
    if not options.save:
        return replay(
            options.paths,
            bridge=options.bridge,
            as_json=options.json,
            patience=options.patience,
            jobs=options.jobs,
        )
    if len(options.paths) != 2:
        words = "--save needs two names: the trace, and the fixture to make of it"
        return complain(words, "replay")
    trace, fixture = options.paths
    return save(trace, fixture, options.shows)


def replay(
    paths: Sequence[str], *, bridge: str | None, as_json: bool, patience: float, jobs: int
) -> int:
    """Returns the exit code: 0 when all passed, 1 when one did not, 2 when nothing could be
    played.
    """
    try:
        command = _command(bridge)
        files = _files(paths)
    except FixtureUnusableError as problem:
        return complain(str(problem), "replay")
    failed = anyio.run(
        _play_all, files, command, as_json, patience, jobs or max(2, 2 * (os.cpu_count() or 1))
    )
    return 1 if failed else 0


def save(trace: str, out: str, shows: str) -> int:
    """Make a fixture of a trace. Returns the exit code."""
    try:
        found = _read(trace)
        if os.path.exists(out):
            raise FixtureUnusableError(
                f"{out} is there already: remove it first, or give another name"
            )
        fixture = reduce(found[-1], shows)
        if not fixture.entries:
            raise FixtureUnusableError(f"{trace} holds no message")
        with open(out, "x", encoding="utf-8") as file:
            file.writelines(lines(fixture))
    except TraceError as problem:
        return complain(f"{trace}:{problem.line}: {problem}", "replay")
    except OSError as problem:
        return complain(f"{out} cannot be written: {problem.strerror}", "replay")
    except FixtureUnusableError as problem:
        return complain(str(problem), "replay")
    more = f" (the last of {len(found)} recordings in {trace})" if len(found) > 1 else ""
    if doubt := doubtful(found[-1]):
        sys.stderr.write(f"abp-bridge replay: {trace}: {doubt}\n")
    _print(
        f"{out}: {len(fixture.entries)} lines{more}. Read it before you share it, then: abp-bridge"
        f" replay {shlex.quote(out)}\n"
    )
    return 0


def show(path: str, *, as_json: bool, width: int | None, full: bool) -> int:
    """Draw a trace or a fixture. Returns the exit code."""
    from abp_bridge.trace.sequence_diagram import draw

    try:
        found = _read(path)
    except TraceError as problem:
        return complain(f"{path}:{problem.line}: {problem}", "trace")
    except FixtureUnusableError as problem:
        return complain(str(problem), "trace")
    columns = width or shutil.get_terminal_size((110, 24)).columns
    for recording in found:
        if as_json:
            _print("".join(lines(recording)))
        else:
            _print("".join(f"{line}\n" for line in draw(recording, columns, full=full)))
    return 0


def _command(bridge: str | None) -> list[str]:
    if bridge is None:
        return list(THIS_BRIDGE)
    try:
        words = shlex.split(bridge)
    except ValueError as problem:
        raise FixtureUnusableError(f"--bridge cannot be read as a command: {problem}") from None
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise FixtureUnusableError(f"--bridge: there is no program {words[0] if words else ''!r}")
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
                raise FixtureUnusableError(
                    f"there is no fixture in {path}: fixtures are files that end in .jsonl"
                )
            found += inside
        elif os.path.exists(path):
            found.append(path)
        else:
            raise FixtureUnusableError(f"there is no {path}")
    return found


def _read(path: str) -> list[Recording]:
    try:
        if os.path.getsize(path) > MAX_FILE:
            raise FixtureUnusableError(f"{path} has more than {MAX_FILE} bytes")
        return read(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise FixtureUnusableError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise FixtureUnusableError(f"{path} is no text") from None


async def _play_all(
    files: Sequence[str], bridge: Sequence[str], as_json: bool, patience: float, jobs: int
) -> int:
    """Several at once; what came of them is said in the order of the files.

    Returns how many did not pass.
    """
    done: dict[int, list[Played]] = {}
    said = failed = passed = 0
    limiter = anyio.CapacityLimiter(jobs)
    finished = anyio.Event()

    async def one(number: int, path: str) -> None:
        async with limiter:
            done[number] = await _play_file(path, bridge, patience)
        finished.set()

    async with anyio.create_task_group() as tasks:
        for number, path in enumerate(files):
            tasks.start_soon(one, number, path)
        while said < len(files):
            await finished.wait()
            finished = anyio.Event()
            while said in done:
                for played in done.pop(said):
                    _say(played, as_json)
                    failed += played.problem is not None
                    passed += played.problem is None
                said += 1
    _print(
        dump({"passed": passed, "failed": failed})
        if as_json
        else f"{passed} passed, {failed} failed\n"
    )
    return failed


async def _play_file(path: str, bridge: Sequence[str], patience: float) -> list[Played]:
    try:
        found = _read(path)
    except TraceError as problem:
        return [Played(path, Head(), 0, ReplayMismatchError(str(problem), problem.line))]
    except FixtureUnusableError as problem:
        return [Played(path, Head(), 0, ReplayMismatchError(str(problem)))]
    return [await _play(path, recording, bridge, patience) for recording in found]


async def _play(path: str, recording: Recording, bridge: Sequence[str], patience: float) -> Played:
    began = time.monotonic()
    problem: ReplayMismatchError | None = None
    fixture = recording
    try:
        if recording.unfinished:
            raise ReplayMismatchError("its last line is cut off: it cannot be played")
        fixture = reduce(recording)
        await play(fixture, bridge, patience=patience)
    except ReplayMismatchError as found:
        problem = found
    return Played(path, fixture.head, time.monotonic() - began, problem)


def _say(played: Played, as_json: bool) -> None:
    problem = played.problem
    if as_json:
        said: dict[str, Json] = {
            "fixture": played.path,
            "shows": played.head.shows,
            "passed": problem is None,
            "seconds": round(played.seconds, 2),
        }
        if problem is not None:
            said |= {
                "line": problem.line,
                "problem": str(problem),
                "details": list(problem.details),
            }
            said |= {"expected": problem.expected, "got": problem.got}
        _print(dump(said))
    elif problem is None:
        _print(f"ok    {_visible(played.path)}\n")
    else:
        _print("".join(f"{_visible(line)}\n" for line in _complaint(played, problem)))


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


_PLAIN = str.maketrans("─│◀▶·…⏎", "-|<>..>")


def _print(words: str) -> None:
    try:
        sys.stdout.write(words)
    except UnicodeEncodeError:  # not every terminal has every letter
        words = words.translate(_PLAIN)
        sys.stdout.write(
            words.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding)
        )
    sys.stdout.flush()
