"""From nothing to an answered `initialize` and `tools/list`, and what that leaves in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.subjects import ANYIO_PUMP, BRIDGE, COMMANDS, PUMP, SCRIPT, SDK, Bench
from bench.table import Row, Sample

BUSY = 4  # processes that spin, on each CPU
SPIN = (  # ends by itself if we cannot end it
    "import time\nend = time.time() + 120\nwhile time.time() < end: pass"
)


def start(bench: Bench) -> list[Row]:
    """Spawn to reply, one subject after another, again and again."""
    greeted, listed = _greetings(bench, 4 if bench.quick else 25)
    rows = []
    for ours in (BRIDGE, SCRIPT):
        for word, replies in (("initialize", greeted), ("tools/list", listed)):
            for other in (PUMP, ANYIO_PUMP, SDK):
                way = "script" if ours == SCRIPT else "module"
                key = f"start.{way}.{word}.{other.split()[0].lower()}"
                rows.append(
                    Row(
                        key,
                        f"spawn to {word}: {ours}",
                        "ms",
                        Sample(replies[ours]),
                        other,
                        Sample(replies[other]),
                    )
                )
    return rows


def busy(bench: Bench) -> list[Row]:
    """The same on a machine that has other things to do: what counts is Codex's one second."""
    _greetings(bench, 0)
    with _load(BUSY * (os.cpu_count() or 1)):
        _, listed = _greetings(bench, 2 if bench.quick else 10)
    figure = f"spawn to tools/list, {BUSY} busy processes per CPU"
    return [
        Row(
            "busy.tools/list",
            figure,
            "ms",
            Sample(listed[BRIDGE]),
            SDK,
            Sample(listed[SDK]),
            at="p99",
        )
    ]


def memory(bench: Bench) -> list[Row]:
    """VmRSS after `initialize` and `tools/list`, and after an app was connected and called."""
    idle: dict[str, list[float]] = {BRIDGE: [], SDK: []}
    connected: list[float] = []
    for number in range(1 + (2 if bench.quick else 5)):
        with ExitStack() as stack:
            found = {subject: bench.greeted(stack, subject).resident() for subject in idle}
            at_work = bench.connected(stack).resident()
        if number:  # who compiles its modules needs more
            connected.append(at_work)
            for subject, size in found.items():
                idle[subject].append(size)
    return [
        Row("memory.idle", "memory, idle", "MiB", Sample(idle[BRIDGE]), SDK, Sample(idle[SDK])),
        Row(
            "memory.connected",
            "memory, an app connected and called once",
            "MiB",
            Sample(connected),
            SDK,
            Sample(idle[SDK]),
        ),
    ]


def _greetings(bench: Bench, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Milliseconds to the two replies, by subject. The first round only fills caches."""
    greeted: dict[str, list[float]] = {subject: [] for subject in COMMANDS}
    listed: dict[str, list[float]] = {subject: [] for subject in COMMANDS}
    for number in range(rounds + 1):
        for subject in COMMANDS:
            client = bench.start(subject)
            try:
                first, second, _ = client.greet()
            finally:
                client.end()
            if number:
                greeted[subject].append(first * 1000)
                listed[subject].append(second * 1000)
    return greeted, listed


@contextmanager
def _load(processes: int) -> Iterator[None]:
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            # Each in a session of its own: the kernel shares the CPUs out by session, so together
            # they would weigh no more than one.
            spinning.append(
                subprocess.Popen([sys.executable, "-S", "-c", SPIN], start_new_session=True)
            )
        yield
    finally:
        for each in spinning:
            each.kill()
        for each in spinning:
            each.wait()
