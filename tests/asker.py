"""A program that asks its terminal and prints what came back: `python asker.py REQUEST...`, each an ABP question or an MCP form.

SIGUSR1 has the app tell something meanwhile, SIGUSR2 withdraws what is asked, SIGINT is what the demo makes of it.
"""

from __future__ import annotations

import json
import signal
import sys

import anyio
from anyio.abc import TaskStatus

from abp_bridge.core.question import Question
from abp_bridge.hosts.terminal import Terminal
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.mcp import decode_form


async def ask() -> None:
    terminal = Terminal()
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as signals:
        await signals.start(heed, terminal, scope)
        with scope:
            async with anyio.create_task_group() as asking:
                for request in map(json.loads, sys.argv[1:]):
                    decode = decode_form if "requestedSchema" in request else decode_question
                    asking.start_soon(put, terminal, decode(request, id="q", origin="https://app.example"))
        signals.cancel_scope.cancel()


async def put(terminal: Terminal, question: Question) -> None:
    reply = await terminal.ask(question)
    print("REPLY", json.dumps([reply.outcome.value, dict(reply.content), terminal.interrupts]))


async def heed(terminal: Terminal, scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
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
