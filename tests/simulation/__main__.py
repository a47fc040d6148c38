"""`make soak`, `make soak ARGS='--seeds N --first SEED'`: many seeds, and what they came to."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from .mcp_calls import PAIRS, Session, play
from .test_simulation import run
from .world import Report

CHUNK = 20  # seeds that one process plays before it reports
CALLS = 16  # sessions for each seed of `mcp_calls`


def main() -> int:
    parser = argparse.ArgumentParser(description="Play sessions by seed, and print what happened.")
    parser.add_argument("--seeds", type=int, default=32_000, metavar="N", help="how many")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first")
    options = parser.parse_args()
    began, total, failed = time.monotonic(), Report(-1), 0
    seeds = range(options.first, options.first + options.seeds)
    with ProcessPoolExecutor() as pool:
        for done, report in enumerate(pool.map(run, seeds, chunksize=CHUNK), 1):
            total.add(report)
            if report.problems:
                failed += 1
                print(f"seed {report.seed} ({report.host}): {'; '.join(report.problems)}")
            if done % 500 == 0:
                print(f"{done} of {options.seeds} seeds", file=sys.stderr, flush=True)
    print(
        f"{options.seeds} seeds, a session each: {total.steps} steps, {total.calls} calls,"
        f" {total.questions} questions, {total.notices} notices"
    )
    for name, counts in {"answers by": total.answers, "faults": total.faults}.items():
        print(f"{name}: {', '.join(f'{word} {count}' for word, count in counts.most_common())}")
    failed += play_calls(range(options.first, options.first + options.seeds // CALLS + 1))
    print(f"{failed} sessions with problems, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def play_calls(seeds: range) -> int:
    """Play the calls of `abp-bridge mcp` in each pair; return how many sessions had problems."""
    calls, faults, failed = 0, Counter[str](), 0
    with ProcessPoolExecutor() as pool:
        for sessions in pool.map(play_pairs, seeds, chunksize=CHUNK):
            for each in sessions:
                calls += len(each.runs)
                faults += each.faults
                failed += bool(each.problems)
                if each.problems:
                    print(f"calls, seed {each.seed}, {each.pair}: {'; '.join(each.problems)}")
    print(f"{calls} calls of servers, with {faults.total()} faults")
    return failed


def play_pairs(seed: int) -> list[Session]:
    return [play(pair, seed) for pair in PAIRS]


if __name__ == "__main__":
    sys.exit(main())
