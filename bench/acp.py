"""ACP: what the proxy adds between an editor and its agent, the MCP server that it gives to agents,
and a question's round as a permission.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from bench.client import Editor
from bench.subjects import (
    FACE,
    LINE_PUMP,
    PROXY,
    PROXY_WITH_APP,
    PUMP,
    SDK_AGENT,
    SDK_AGENT_WITH_APP,
    Bench,
)
from bench.table import Row, Sample
from bench.traffic import TURN, Turns, in_turns, rounds

CHUNKS = 5_000


def acp(bench: Bench) -> list[Row]:
    return [*_carrying(bench), *_starting(bench), *_asking(bench)]


def _carrying(bench: Bench) -> list[Row]:
    """Messages through the proxy to an agent that answers at once, against the same agent behind
    the line pump.
    """
    turns: dict[str, Callable[[Editor], list[float]]] = {
        "request": _requests,
        "prompt": _prompts,
        "chunk": _chunks,
    }

    def begin(stack: ExitStack) -> Turns:
        subjects = {subject: bench.opened(stack, subject) for subject in (PROXY, LINE_PUMP)}
        return {
            f"{key} {subject}": (editor, partial(turn, editor))
            for key, turn in turns.items()
            for subject, editor in subjects.items()
        }

    took, cpu = _in_turns_afresh(begin, bench)
    rows = []
    for key, figure in (
        ("request", "request and response that only pass"),
        ("prompt", "prompt and response, both looked at"),
    ):
        ours, theirs = took[f"{key} {PROXY}"], took[f"{key} {LINE_PUMP}"]
        rows += [
            Row(f"acp.{key}", figure, "ms", ours, LINE_PUMP, theirs),
            Row(f"acp.{key}.p99", f"{figure}, p99", "ms", ours, LINE_PUMP, theirs, at="p99"),
            Row(
                f"acp.{key}.cpu",
                f"{figure}: CPU",
                "ms",
                cpu[f"{key} {PROXY}"],
                LINE_PUMP,
                cpu[f"{key} {LINE_PUMP}"],
            ),
        ]
    figure = f"one of {CHUNKS:,} chunks in a row"
    ours, theirs = (_times(1000, took[f"chunk {subject}"]) for subject in (PROXY, LINE_PUMP))
    rows.append(Row("acp.chunk", figure, "us", ours, LINE_PUMP, theirs))
    ours, theirs = (
        _times(1000 / CHUNKS, cpu[f"chunk {subject}"]) for subject in (PROXY, LINE_PUMP)
    )
    rows.append(Row("acp.chunk.cpu", f"{figure}: CPU", "us", ours, LINE_PUMP, theirs))
    return rows


def _starting(bench: Bench) -> list[Row]:
    """Spawn to the reply to `initialize`: of an agent behind the proxy, and of the server that the
    proxy gives to it, which is launched twice.
    """
    first, again = "first", "again"
    greeted: dict[str, list[float]] = {
        name: [] for name in (PROXY, PROXY_WITH_APP, LINE_PUMP, first, again, PUMP)
    }
    for number in range(1 + (4 if bench.quick else 25)):
        came: dict[str, float] = {}
        for subject in (PROXY, PROXY_WITH_APP, LINE_PUMP):
            with bench.edit(subject) as editor:
                came[subject] = editor.hail()
                if subject == PROXY_WITH_APP:
                    (server,) = editor.open()["_meta"]["mcpServers"]
                    for launch in (first, again):
                        with bench.launch(server) as relay:
                            came[launch], _, _ = relay.greet()
        with bench.start(PUMP) as pump:
            came[PUMP], _, _ = pump.greet()
        if number:  # the first round only fills caches
            for name, seconds in came.items():
                greeted[name].append(seconds * 1000)
    samples = {name: Sample(values) for name, values in greeted.items()}
    agent, server = (
        "spawn to initialize: an agent behind",
        "spawn to initialize: the agent's MCP server",
    )
    return [
        Row("acp.start", f"{agent} {PROXY}", "ms", samples[PROXY], LINE_PUMP, samples[LINE_PUMP]),
        Row(
            "acp.start.app",
            f"{agent} {PROXY_WITH_APP}",
            "ms",
            samples[PROXY_WITH_APP],
            LINE_PUMP,
            samples[LINE_PUMP],
        ),
        Row("acp.relay", server, "ms", samples[first], PUMP, samples[PUMP]),
        Row("acp.relay.again", f"{server}, once more", "ms", samples[again], PUMP, samples[PUMP]),
    ]


def _asking(bench: Bench) -> list[Row]:
    """A question's round as `traffic.questions` has it, as a permission: an app asks the bridge,
    which is the agent, against an agent that asks by itself, without a process behind it; and
    against one that carries the same app's questions, which is the same work.
    """
    carded = f"{SDK_AGENT} with cards"

    def begin(stack: ExitStack) -> Turns:
        face, sdk, carrier = (
            bench.opened(stack, subject) for subject in (FACE, SDK_AGENT, SDK_AGENT_WITH_APP)
        )
        prompts = {
            FACE: (face, f'/ask {{"count": {TURN + 1}, "together": 1}}'),
            SDK_AGENT: (sdk, f"{TURN + 1}"),
            carded: (sdk, f"{TURN + 1} cards"),
            SDK_AGENT_WITH_APP: (carrier, f"{TURN + 1} cards"),
        }
        return {
            name: (editor, partial(rounds, editor, "session/prompt", editor.words(text)))
            for name, (editor, text) in prompts.items()
        }

    took, cpu = _in_turns_afresh(begin, bench)
    figure, with_app = "permission, given at once", took[SDK_AGENT_WITH_APP]
    return [
        Row("acp.question", figure, "ms", took[FACE], SDK_AGENT, took[SDK_AGENT]),
        Row(
            "acp.question.p99",
            f"{figure}, p99",
            "ms",
            took[FACE],
            SDK_AGENT,
            took[SDK_AGENT],
            at="p99",
        ),
        Row("acp.question.cards", figure, "ms", took[FACE], carded, took[carded]),
        Row("acp.question.app", figure, "ms", took[FACE], SDK_AGENT_WITH_APP, with_app),
        Row("acp.question.cpu", "CPU of one permission", "ms", cpu[FACE], carded, cpu[carded]),
    ]


def _in_turns_afresh(
    begin: Callable[[ExitStack], Turns], bench: Bench
) -> tuple[dict[str, Sample], dict[str, Sample]]:
    """As `in_turns`, with processes that are started again and again: the place each has in memory
    and on the CPUs stays with it, good or bad.
    """
    took: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    for _ in range(2 if bench.quick else 10):
        with ExitStack() as stack:
            samples = in_turns(begin(stack), 2 if bench.quick else 5)
        for found, values in zip(samples, (took, cpu), strict=True):
            for name, sample in found.items():
                values.setdefault(name, []).extend(sample.values)
    return {name: Sample(values) for name, values in took.items()}, {
        name: Sample(values) for name, values in cpu.items()
    }


def _requests(editor: Editor) -> list[float]:
    return [editor.request("_bench/echo", {"text": "hello"})[0] for _ in range(TURN)]


def _prompts(editor: Editor) -> list[float]:
    return [editor.request("session/prompt", editor.words("0"))[0] for _ in range(TURN)]


def _chunks(editor: Editor) -> list[float]:
    id, left = editor.ask_for("session/prompt", editor.words(f"{CHUNKS} "))
    editor.skip(CHUNKS)
    came, _ = editor.wait_for(id)
    return [(came - left) / CHUNKS]


def _times(factor: float, sample: Sample) -> Sample:
    return Sample([each * factor for each in sample.values])
