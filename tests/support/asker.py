"""A program that asks at its own terminal and prints what came back: `python asker.py REQUEST...`,
each an ABP question or an MCP form. SIGINT cancels, as in the demo.
"""

from __future__ import annotations

import json
import signal
import sys

import anyio
from anyio.abc import TaskStatus

from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.mcp.server_elicitation import decode_form
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.session.surface import SurfaceUnsupportedError
from abp_bridge.surfaces.terminal.surface import Terminal


async def ask() -> None:
    terminal = Terminal()
    async with anyio.create_task_group() as signals:
        await signals.start(cancel_at_sigint, terminal)
        async with anyio.create_task_group() as asking:
            for request in map(json.loads, sys.argv[1:]):
                decode = decode_form if "requestedSchema" in request else decode_question
                question = decode(request, id="q", origin="https://app.example")
                asking.start_soon(put, terminal, question)
        signals.cancel_scope.cancel()


async def put(terminal: Terminal, question: Question) -> None:
    try:
        reply = await terminal.prompt(question, NO_CONTEXT)
        told: list[object] = [reply.outcome.value, dict(reply.content), terminal.interrupts]
    except SurfaceUnsupportedError as why:
        told = ["refused", str(why), 0]
    print("REPLY", json.dumps(told))


async def cancel_at_sigint(terminal: Terminal, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT) as received:
        task_status.started()
        async for _ in received:
            terminal.interrupt()


anyio.run(ask)
