"""MCP: what the proxy adds between a host and its server, against the same server behind the line
pump, and how soon it is there, against `serve`.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from bench.client import Client
from bench.subjects import BRIDGE, MCP_LINE_PUMP, MCP_PROXY, Bench
from bench.table import Row, Sample
from bench.traffic import TURN, in_turns, rounds_of

# Characters of a call and of its result, which are parsed and written again.
SIZES = {"call": 1_000, "middle": 10_000, "long": 100_000}


def mcp(bench: Bench) -> list[Row]:
    return [*_carrying(bench), *_starting(bench)]


def _carrying(bench: Bench) -> list[Row]:
    with ExitStack() as stack:
        clients = {name: bench.greeted(stack, name) for name in (MCP_PROXY, MCP_LINE_PUMP)}
        figures = {
            key: (f"call and result of {size:,} characters", "x" * size)
            for key, size in SIZES.items()
        }
        turns = {
            f"{key} {name}": (client, partial(_calls, client, text))
            for key, (_, text) in figures.items()
            for name, client in clients.items()
        }
        took, cpu = in_turns(turns, 4 if bench.quick else 40)
    rows = []
    for key, (words, _) in figures.items():
        ours, theirs = f"{key} {MCP_PROXY}", f"{key} {MCP_LINE_PUMP}"
        rows += [
            Row(f"mcp.{key}", words, "ms", took[ours], MCP_LINE_PUMP, took[theirs]),
            Row(f"mcp.{key}.cpu", f"{words}: CPU", "ms", cpu[ours], MCP_LINE_PUMP, cpu[theirs]),
        ]
    return rows


def _calls(client: Client, text: str) -> list[float]:
    return [client.tool("echo", {"text": text})[0] for _ in range(TURN)]


def _starting(bench: Bench) -> list[Row]:
    """Spawn to the reply to `initialize`; and a question's round at an instant host."""
    times: dict[str, list[float]] = {name: [] for name in (MCP_PROXY, MCP_LINE_PUMP, BRIDGE)}
    for number in range(1 + (4 if bench.quick else 25)):
        for name, seen in times.items():
            with bench.start(name) as client:
                greeted, _, _ = client.greet()
            if number:  # the first fills caches
                seen.append(greeted * 1000)
    with ExitStack() as stack:
        client = bench.greeted(stack, MCP_PROXY)
        asked = [
            each * 1000 for each in rounds_of(client, "ask", {"count": 20 if bench.quick else 200})
        ]
    samples = {name: Sample(values) for name, values in times.items()}
    question = Sample(asked)
    words = f"spawn to initialize: a server behind {MCP_PROXY}"
    return [
        *(
            Row(f"mcp.start.{key}", words, "ms", samples[MCP_PROXY], name, samples[name])
            for key, name in (("pump", MCP_LINE_PUMP), ("serve", BRIDGE))
        ),
        Row("mcp.question", "question of a server's, round trip", "ms", question),
    ]
