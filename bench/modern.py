"""The era without server requests: what a question costs there, as a result and the call again, and
what a thousand calls cost that wait for it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.client import Broken, Client, Json
from bench.subjects import SDK, SDK_MODERN, Bench
from bench.table import Row, Sample
from bench.traffic import TURN, in_turns, rounds_of

ROUNDS = 9  # of one call: hosts allow ten
PARKED = 1_000


def modern(bench: Bench) -> list[Row]:
    """A question's round, as in `questions`: beside the legacy one on the same bridge, and the
    SDK's in both eras.
    """
    with ExitStack() as stack:
        bridge, legacy = bench.connected(stack), bench.connected(stack)
        sdk, sdk_legacy = stack.enter_context(bench.start(SDK_MODERN)), bench.greeted(stack, SDK)
        ask = {"count": TURN + 1, "together": 1}
        took, cpu = in_turns(
            {
                "modern": (
                    bridge,
                    lambda: _rounds(bridge, "abp_ask_2", {"count": ROUNDS + 1, "together": 1}),
                ),
                "legacy": (legacy, lambda: rounds_of(legacy, "abp_ask_2", ask)),
                SDK_MODERN: (sdk, lambda: _rounds(sdk, "ask", {"count": ROUNDS + 1})),
                SDK: (sdk_legacy, lambda: rounds_of(sdk_legacy, "ask", ask)),
            },
            4 if bench.quick else 40,
        )
    figure = "modern question, answered at once"
    return [
        Row("modern.sdk", figure, "ms", took["modern"], SDK_MODERN, took[SDK_MODERN]),
        Row(
            "modern.p99",
            f"{figure}, p99",
            "ms",
            took["modern"],
            SDK_MODERN,
            took[SDK_MODERN],
            at="p99",
        ),
        Row("modern.legacy", figure, "ms", took["modern"], "legacy question", took["legacy"]),
        Row("modern.sdk.legacy", "legacy question beside it", "ms", took["legacy"], SDK, took[SDK]),
        Row(
            "modern.cpu",
            "CPU of one modern question",
            "ms",
            cpu["modern"],
            SDK_MODERN,
            cpu[SDK_MODERN],
        ),
    ]


def parked(bench: Bench) -> list[Row]:
    """So many calls wait for their host to come back: what each costs, and what is left of them."""
    took: dict[int, list[float]] = {1: [], PARKED: []}
    grown = 0.0
    left: list[float] = []
    with ExitStack() as stack:
        bridge = bench.connected(stack)
        for number in range(1 + (2 if bench.quick else 8)):
            before = bridge.resident()
            for wide, values in took.items():
                spent, most = _park(bridge, wide)
                if number:
                    values.append(spent / PARKED * 1000)
            grown = (
                grown or (most - before) / PARKED * 1024
            )  # of the first time: later ones find the room that it made
            left.append(bridge.resident())
    samples = {wide: Sample(values) for wide, values in took.items()}
    return [
        Row(
            "parked.each",
            f"{PARKED:,} calls parked at once, each",
            "ms",
            samples[PARKED],
            "1 parked",
            samples[1],
        ),
        Row(
            "parked.memory",
            f"{PARKED:,} calls parked at once: memory of each",
            "KiB",
            Sample([grown]),
        ),
        Row(
            "parked.left",
            f"memory after {len(left)} times {PARKED:,} of them",
            "MiB",
            Sample(left[-1:]),
            "after the first",
            Sample(left[:1]),
        ),
    ]


def _rounds(client: Client, tool: str, arguments: Json) -> list[float]:
    """Call a tool that asks one question after another, and come back with each answer; the seconds
    from each answer to the next question.
    """
    took: list[float] = []
    id, _ = client.call_modern(tool, arguments)
    _, result = client.wait_for(id)
    while True:
        id, left = client.call_modern(tool, arguments, result)
        came, result = client.wait_for(id)
        if result["resultType"] == "complete":
            return took
        took.append(came - left)


def _park(client: Client, wide: int) -> tuple[float, float]:
    """Seconds for `PARKED` calls with a question each, `wide` of them parked at once, and the most
    MiB meanwhile.
    """
    arguments = {"count": 1, "together": 1}
    most, began = 0.0, time.perf_counter()
    for _ in range(0, PARKED, wide):
        asked = client.gather({client.call_modern("abp_ask_2", arguments)[0] for _ in range(wide)})
        if wide > 1:
            most = max(most, client.resident())
        ended = client.gather(
            {client.call_modern("abp_ask_2", arguments, result)[0] for result in asked}
        )
        if any(result["resultType"] != "complete" for result in ended):
            raise Broken("a call did not end after its question")
    return time.perf_counter() - began, most
