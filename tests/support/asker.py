"""Ask on a terminal and print the answer: `python asker.py [--tty DEVICE] REQUEST...`.

SIGUSR1 has the app notify, SIGUSR2 withdraws the question.
"""

from __future__ import annotations

import json
import os
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
    requests = sys.argv[1:]
    terminal = Terminal(requests.pop(0) if requests[0] == "--tty" and requests.pop(0) else None)
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as signals:
        await signals.start(heed, terminal, scope)
        with scope:
            async with anyio.create_task_group() as asking:
                for request in map(json.loads, requests):
                    decode = decode_form if "requestedSchema" in request else decode_question
                    asking.start_soon(
                        put, terminal, decode(request, id="q", origin="https://app.example")
                    )
        signals.cancel_scope.cancel()


async def put(terminal: Terminal, question: Question) -> None:
    told: list[object] = ["late", {}, 0]
    with anyio.move_on_after(float(os.environ.get("ASKER_LIMIT", "inf"))):
        try:
            reply = await terminal.prompt(question, NO_CONTEXT)
            told = [reply.outcome.value, dict(reply.content), terminal.interrupts]
        except SurfaceUnsupportedError as why:
            told = ["refused", str(why), 0]
    print("REPLY", json.dumps(told))


async def heed(
    terminal: Terminal, scope: anyio.CancelScope, *, task_status: TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT) as received:
        task_status.started()
        async for number in received:
            if number is signal.SIGUSR1:
                terminal.say("the app told something")
            elif number is signal.SIGUSR2:
                scope.cancel()
            else:
                terminal.interrupt()


anyio.run(ask)
