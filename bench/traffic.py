"""What one message costs on its way through: calls down to an app, questions up to the person.

Subjects take turns in short rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from bench.client import Client, Json
from bench.subjects import PUMP, SDK, Bench
from bench.table import Row, Sample

TURN = 50
MORE = 200  # capabilities of an app that offers many


def calls(bench: Bench) -> list[Row]:
    """A tool call through to a stdio app, against echo tools that answer in their own process (SDK)
    or right behind it (pump).
    """
    echo = {"text": "hello"}
    with ExitStack() as stack:
        bridge, sdk, pump = (
            bench.connected(stack),
            bench.greeted(stack, SDK),
            bench.greeted(stack, PUMP),
        )
        rich = bench.connected(stack, more=MORE)
        took, cpu = in_turns(
            {
                "abp_call": (
                    bridge,
                    _calls_of(bridge, "abp_call", {"capability": "echo", "params": echo}),
                ),
                "abp_echo": (bridge, _calls_of(bridge, "abp_echo", echo)),
                "rich": (rich, _calls_of(rich, "abp_echo", echo)),
                SDK: (sdk, _calls_of(sdk, "echo", echo)),
                PUMP: (pump, _calls_of(pump, "echo", echo)),
            },
            4 if bench.quick else 40,
        )
    rows = []
    for name, figure in (
        ("abp_call", "call by abp_call"),
        ("abp_echo", "call by the capability's own tool"),
    ):
        rows += [
            Row(f"call.{name}", figure, "ms", took[name], SDK, took[SDK]),
            Row(f"call.{name}.p99", f"{figure}, p99", "ms", took[name], SDK, took[SDK], at="p99"),
        ]
    rows.append(
        Row(
            "call.rich",
            f"the same among {MORE} capabilities",
            "ms",
            took["rich"],
            "among 3",
            took["abp_echo"],
        )
    )
    rows.append(Row("call.pump", "call by abp_call", "ms", took["abp_call"], PUMP, took[PUMP]))
    rows.append(Row("call.cpu", "CPU of one call", "ms", cpu["abp_call"], SDK, cpu[SDK]))
    return rows


def questions(bench: Bench) -> list[Row]:
    """A question's round above the person: from the host's answer to its sight of the next
    question, which the app asks when the answer comes.
    """
    with ExitStack() as stack:
        bridge, sdk, pump = (
            bench.connected(stack),
            bench.greeted(stack, SDK),
            bench.greeted(stack, PUMP),
        )
        ask = {"count": TURN + 1, "together": 1}
        took, cpu = in_turns(
            {
                "bridge": (bridge, lambda: rounds_of(bridge, "abp_ask_2", ask)),
                SDK: (sdk, lambda: rounds_of(sdk, "ask", ask)),
                PUMP: (pump, lambda: rounds_of(pump, "ask", ask)),
            },
            4 if bench.quick else 40,
        )
    figure = "question, answered at once"
    return [
        Row("question.p50", figure, "ms", took["bridge"], SDK, took[SDK]),
        Row("question.p99", f"{figure}, p99", "ms", took["bridge"], SDK, took[SDK], at="p99"),
        Row("question.pump", figure, "ms", took["bridge"], PUMP, took[PUMP]),
        Row("question.cpu", "CPU of one question", "ms", cpu["bridge"], SDK, cpu[SDK]),
    ]


def rounds_of(client: Client, tool: str, arguments: Json) -> list[float]:
    """Call a tool that asks one question after another; the seconds from each answer to the next
    question.
    """
    return rounds(client, "tools/call", {"name": tool, "arguments": arguments})


def rounds(client: Client, method: str, params: Json) -> list[float]:
    """The same of any request."""
    took: list[float] = []
    answered: float | None = None

    def on_question(came: float, question: Json) -> None:
        nonlocal answered
        if answered is not None:
            took.append(came - answered)
        answered = client.answer(question)

    id, _ = client.ask_for(method, params)
    client.wait_for(id, on_question)
    return took


def _calls_of(client: Client, tool: str, arguments: Json) -> Callable[[], list[float]]:
    return lambda: [client.tool(tool, arguments)[0] for _ in range(TURN)]


Turns = Mapping[str, tuple[Client, Callable[[], list[float]]]]


def in_turns(turns: Turns, count: int) -> tuple[dict[str, Sample], dict[str, Sample]]:
    """Milliseconds, and milliseconds of the server's CPU per piece, by name.

    The first turn of each only warms up.
    """
    took: dict[str, list[float]] = {name: [] for name in turns}
    cpu: dict[str, list[float]] = {name: [] for name in turns}
    names = list(turns)
    for number in range(1 + count):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            client, turn = turns[name]
            before = client.cpu()
            pieces = turn()
            if number:
                took[name] += [each * 1000 for each in pieces]
                cpu[name].append((client.cpu() - before) * 1000 / len(pieces))
    return {name: Sample(values) for name, values in took.items()}, {
        name: Sample(values) for name, values in cpu.items()
    }
