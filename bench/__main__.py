"""`python -m bench [FIGURE...]`: measure, and print a table of ratios with their budgets."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.acp import acp
from bench.client import Broken
from bench.endurance import endurance, flood, shout, together
from bench.mcp import mcp
from bench.modern import modern, parked
from bench.peers import peers
from bench.start import busy, memory, start
from bench.subjects import Bench
from bench.table import Row, as_markdown, as_text
from bench.traffic import calls, questions

FIGURES: dict[str, Callable[[Bench], list[Row]]] = {
    "start": start,
    "memory": memory,
    "calls": calls,
    "questions": questions,
    "modern": modern,
    "parked": parked,
    "together": together,
    "endurance": endurance,
    "flood": flood,
    "shout": shout,
    "acp": acp,
    "mcp": mcp,
    "peers": peers,
    "busy": busy,
}


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(
            f"there is no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}"
        )
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )  # every child ends with its block
    gc.disable()  # the host's own pauses are not the bridge's
    rows: list[Row] = []
    broken: list[str] = []
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="abp-bench-") as scratch:
        bench = Bench(Path(scratch), quick=options.quick)
        for name in options.figures or FIGURES:
            sys.stderr.write(f"bench: {name}\n")
            try:
                rows += FIGURES[name](bench)
            except Broken as problem:
                broken.append(f"{name}: {problem}")
    after = os.getloadavg()
    machine = (
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {before[0]:.2f} before"
        f" and {after[0]:.2f} after"
    )
    if options.json:
        sys.stdout.write(
            json.dumps(
                {"machine": machine, "rows": [row.as_json() for row in rows], "broken": broken},
                indent=1,
            )
            + "\n"
        )
    else:
        sys.stdout.write(f"{(as_markdown if options.markdown else as_text)(rows)}\n\n{machine}\n")
    sys.stderr.writelines(f"bench: broken: {each}\n" for each in broken)
    missed = sum(row.kept is False for row in rows)
    return 2 if broken else int(options.check and missed > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="What the bridge costs, as ratios within one run."
    )
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(FIGURES)}"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: to see that it works, not to believe"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true", help="for docs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
