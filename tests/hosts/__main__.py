"""python -m tests.hosts [--hosts DIR] [--keep DIR] [codex goose claude acpx opencode]: the closing line is 'N passed, N failed'."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from . import acpx, claude, codex, goose, install, opencode
from .model import Model
from .stage import Check, Stage

HOSTS = {"codex": codex.CHECKS, "goose": goose.CHECKS, "claude": claude.CHECKS, "acpx": acpx.CHECKS, "opencode": opencode.CHECKS}


def main() -> int:
    options = _options()
    hosts: Path = options.hosts.resolve()
    keep: Path = options.keep or Path(tempfile.mkdtemp(prefix="abp-hosts-"))
    passed = failed = 0
    for host in options.host or HOSTS:
        try:
            program = install.program(host, hosts)
        except install.NotInstalled as problem:
            print(f"failed   {host} cannot be installed: {problem}", flush=True)
            failed += 1
            continue
        for check in HOSTS[host]:
            if _passes(check, keep.resolve() / host / check.__name__, program, hosts):
                passed += 1
            else:
                failed += 1
    if failed or options.keep:
        print(f"What went over the wires is in {keep}")
    else:
        shutil.rmtree(keep, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description="The bridge under real hosts, which ask a scripted model.")
    parser.add_argument(
        "--hosts", type=Path, default=install.CACHE, metavar="DIR", help=f"where the hosts are, or are to be installed ({install.CACHE})"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep homes, transcripts and recorded wires here")
    parser.add_argument("host", nargs="*", type=_host, help=f"which ones: {', '.join(HOSTS)} (all)")
    return parser.parse_args()


def _host(name: str) -> str:
    if name not in HOSTS:
        raise argparse.ArgumentTypeError(f"there are {', '.join(HOSTS)}")
    return name


def _passes(check: Check, folder: Path, program: Path, hosts: Path) -> bool:
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with Model() as model:
            stage = Stage(folder, program, model, hosts)
            try:
                check(stage)
            finally:
                stage.referee()
    except Exception:
        traceback.print_exc()
        verdict = "failed"
    else:
        verdict = "passed"
    print(f"{verdict}   {folder.parent.name}: {check.__name__.replace('_', ' ')} ({time.monotonic() - started:.1f} s)", flush=True)
    return verdict == "passed"


if __name__ == "__main__":
    sys.exit(main())
