"""Long sessions and hard cases: thousands of questions, a thousand at once, and an app that floods
a host that does not listen.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from bench.client import PATIENCE, Broken, Client, Json
from bench.subjects import Bench
from bench.table import Row, Sample
from bench.traffic import rounds_of

FIELDS = 20
ASKED_IN_FLOOD = 50


def endurance(bench: Bench) -> list[Row]:
    """Questions one after another, ten a call: memory must not grow, and the last must cost what
    the first did.
    """
    count, step = (2_000, 10) if bench.quick else (10_000, 10)
    took: list[float] = []
    sizes: list[tuple[float, float]] = []
    with ExitStack() as stack:
        bridge = bench.connected(stack)
        for asked in range(0, count, step):
            took += rounds_of(bridge, "abp_ask_2", {"count": step, "together": 1})
            sizes.append(((asked + step) / 1000, bridge.resident()))
    part = len(took) // 10
    half = sizes[len(sizes) // 2 :]
    first, last = (
        Sample([each * 1000 for each in values]) for values in (took[part : 2 * part], took[-part:])
    )
    return [
        Row(
            "endurance.growth",
            f"{count:,} questions: growth per 1,000, second half",
            "MiB",
            Sample([_slope(half)]),
        ),
        Row(
            "endurance.size",
            f"{count:,} questions: memory",
            "MiB",
            Sample([size for _, size in sizes]),
        ),
        Row(
            "endurance.drift",
            f"{count:,} questions: the last tenth",
            "ms",
            last,
            "the second tenth",
            first,
        ),
    ]


def together(bench: Bench) -> list[Row]:
    """Many questions open at once: the host sees all of them before it answers the first.

    Milliseconds a question.
    """
    total = 1_000
    took: dict[int, list[float]] = {1: [], 10: [], 100: [], 1000: []}
    sizes: list[float] = []
    with ExitStack() as stack:
        bridge = bench.connected(stack)
        for number in range(1 + (2 if bench.quick else 15)):
            for wide, values in took.items():
                spent = _ask_together(bridge, total, wide)
                if number:
                    values.append(spent / total * 1000)
            sizes.append(bridge.resident())
    samples = {wide: Sample(values) for wide, values in took.items()}
    rows = [
        Row(
            f"together.{wide}",
            f"{wide:,} questions open at once, each",
            "ms",
            samples[wide],
            "1 open",
            samples[1],
        )
        for wide in (10, 100, 1000)
    ]
    return [
        *rows,
        Row("together.size", "1,000 questions open at once: memory after", "MiB", Sample(sizes)),
    ]


def flood(bench: Bench) -> list[Row]:
    """An app tells 100,000 things while its host does not read.

    Then the host reads: it must find the newest of every field, and every question.
    """
    count = 10_000 if bench.quick else 100_000
    expected = {
        f"field{number % FIELDS}": number
        for number in range(count - 2 * FIELDS, count)
        if number % 10 != 9
    } | {"late": count}
    done = bench.scratch / "flooded"
    newest: dict[str, int] = {}
    asked: set[Json] = set()

    def on_notification(message: Json) -> None:
        told = (
            message["params"]["data"]["data"]
            if message["method"] == "notifications/message"
            else {}
        )
        if "field" in told:
            newest[told["field"]] = told["newValue"]

    def on_question(came: float, question: Json) -> None:
        asked.add(question["id"])
        bridge.answer(question)

    with ExitStack() as stack:
        bridge = bench.connected(stack)
        bridge.on_notification = on_notification
        spent = bridge.cpu()
        id, seconds, growth = _unheard(
            bridge,
            "abp_flood",
            {"count": count, "fields": FIELDS, "questions": ASKED_IN_FLOOD, "done": str(done)},
        )
        spent = bridge.cpu() - spent
        _, result = bridge.wait_for(id, on_question)
        bridge.request("ping", {})
    stale = sum(newest.get(field) != value for field, value in expected.items())
    unanswered = ASKED_IN_FLOOD - (
        len(asked) if f'"confirmed": {len(asked)}' in result["content"][0]["text"] else 0
    )
    words = f"{count:,} notifications unread"
    return [
        Row("flood.growth", f"{words}: growth at most", "MiB", Sample([growth])),
        Row(
            "flood.stale",
            f"{words}: fields not at their newest (of {len(expected)})",
            "",
            Sample([stale]),
        ),
        Row(
            "flood.lost", f"{words}: questions lost (of {ASKED_IN_FLOOD})", "", Sample([unanswered])
        ),
        Row("flood.sent", f"{words}: what the host was sent", "", Sample([bridge.notifications])),
        Row("flood.time", f"{words}: time for each", "ms", Sample([seconds * 1000 / count])),
        Row("flood.cpu", f"{words}: CPU for each", "ms", Sample([spent * 1000 / count])),
    ]


def shout(bench: Bench) -> list[Row]:
    """The same host, and an app that tells what no bridge can know: things that are large, and
    things that all have different names.
    """
    rows = []
    for key, count, size in (
        ("large", 1_000, 200_000),
        ("names", 20_000 if bench.quick else 100_000, 1),
    ):
        with ExitStack() as stack:
            bridge = bench.connected(stack)
            done = bench.scratch / f"shouted-{key}"
            id, _, growth = _unheard(
                bridge, "abp_shout", {"count": count, "size": size, "done": str(done)}
            )
            bridge.wait_for(id)
        rows.append(
            Row(
                f"flood.{key}",
                f"{count:,} names and {size:,} bytes each, unread: growth at most",
                "MiB",
                Sample([growth]),
            )
        )
    return rows


def _unheard(bridge: Client, tool: str, arguments: Json) -> tuple[int, float, float]:
    """Call `tool` and read nothing until its app has made the file `done`: (the call's id, seconds,
    most MiB that the bridge grew).
    """
    before = most = bridge.resident()
    id, began = bridge.ask_for("tools/call", {"name": tool, "arguments": arguments})
    while not Path(arguments["done"]).exists():
        time.sleep(0.02)
        most = max(most, bridge.resident())
        if time.perf_counter() - began > 3 * PATIENCE:
            raise Broken(
                f"the bridge stopped reading its app: it did not take all of {tool} in"
                f" {3 * PATIENCE:g} s"
            )
    return id, time.perf_counter() - began, most - before


def _ask_together(client: Client, total: int, wide: int) -> float:
    """Seconds for `total` questions with `wide` of them open at once.

    The host answers only when it has seen them all.
    """
    waiting: list[Json] = []

    def on_question(came: float, question: Json) -> None:
        waiting.append(question)
        if len(waiting) == wide:
            for each in waiting:
                client.answer(each)
            waiting.clear()

    id, left = client.ask_for(
        "tools/call", {"name": "abp_ask_2", "arguments": {"count": total, "together": wide}}
    )
    came, _ = client.wait_for(id, on_question)
    return came - left


def _slope(points: list[tuple[float, float]]) -> float:
    """Of the straight line that fits best."""
    n = len(points)
    middle_x, middle_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum(
        (x - middle_x) ** 2 for x, _ in points
    )
