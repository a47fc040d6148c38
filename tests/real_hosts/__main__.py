"""python -m tests.real_hosts [--hosts DIR] [--keep DIR] [codex goose claude acpx opencode]: the
closing line is 'N passed, N failed'.

With `--record [NAME]...` the fixtures of real hosts are made again instead: all, or those with such
a name.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from . import acpx, claude, codex, goose, install, opencode, recordings
from .model import Model
from .recordings import RECORDINGS, Recorded, RecordedStage
from .stage import Check, Stage

HOSTS = {
    "codex": codex.CHECKS,
    "goose": goose.CHECKS,
    "claude": claude.CHECKS,
    "acpx": acpx.CHECKS,
    "opencode": opencode.CHECKS,
}


@dataclass(frozen=True)
class Run:
    """One thing to do on a stage of its own."""

    host: str
    name: str
    stage: type[Stage]
    play: Check


def main() -> int:
    options = _options()
    hosts: Path = options.hosts.resolve()
    keep: Path = options.keep or Path(tempfile.mkdtemp(prefix="abp-hosts-"))
    passed = failed = 0
    for host, runs in groupby(_runs(options), key=lambda run: run.host):
        try:
            program = install.program(host, hosts)
        except install.NotInstalled as problem:
            print(f"failed   {host} cannot be installed: {problem}", flush=True)
            failed += 1
            continue
        for run in runs:
            if _passes(run, keep.resolve() / host / run.name, program, hosts):
                passed += 1
            else:
                failed += 1
    if failed or options.keep:
        print(f"What went over the wires is in {keep}")
    else:
        shutil.rmtree(keep, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _runs(options: argparse.Namespace) -> Iterator[Run]:
    if options.record is not None:
        for recorded in RECORDINGS:
            if not options.record or any(word in recorded.name for word in options.record):
                yield Run(recorded.host, recorded.name, RecordedStage, _making(recorded))
        return
    for host in options.host or HOSTS:
        for check in HOSTS[host]:
            yield Run(host, check.__name__, Stage, _checking(check))


def _checking(check: Check) -> Check:
    def play(stage: Stage) -> None:
        try:
            check(stage)
        finally:
            stage.referee()

    return play


def _making(recorded: Recorded) -> Check:
    def play(stage: Stage) -> None:
        assert isinstance(stage, RecordedStage)
        recordings.make(recorded, stage)

    return play


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real_hosts",
        description="The bridge under real hosts, which ask a scripted model.",
    )
    parser.add_argument(
        "--hosts",
        type=Path,
        default=install.CACHE,
        metavar="DIR",
        help=f"where the hosts are, or are to be installed ({install.CACHE})",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep homes, transcripts and recorded wires here"
    )
    parser.add_argument(
        "--record",
        nargs="*",
        metavar="NAME",
        help="make the fixtures of real hosts again, in fixtures/hosts/recorded",
    )
    parser.add_argument("host", nargs="*", type=_host, help=f"which ones: {', '.join(HOSTS)} (all)")
    return parser.parse_args()


def _host(name: str) -> str:
    if name not in HOSTS:
        raise argparse.ArgumentTypeError(f"there are {', '.join(HOSTS)}")
    return name


def _passes(run: Run, folder: Path, program: Path, hosts: Path) -> bool:
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with Model() as model:
            run.play(run.stage(folder, program, model, hosts))
    except Exception:
        traceback.print_exc()
        verdict = "failed"
    else:
        verdict = "passed"
    print(
        f"{verdict}   {run.host}: {run.name.replace('_', ' ')}"
        f" ({time.monotonic() - started:.1f} s)",
        flush=True,
    )
    return verdict == "passed"


if __name__ == "__main__":
    sys.exit(main())
