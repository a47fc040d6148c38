"""A program that asks one ABP question at its terminal and prints what came back: `python asker.py REQUEST`.

SIGUSR1 has the app tell something meanwhile, SIGUSR2 withdraws the question, SIGINT is what the demo makes of it.
"""

from __future__ import annotations

import json
import signal
import sys

import anyio
from anyio.abc import TaskStatus

from abp_bridge.hosts.terminal import Terminal
from abp_bridge.protocols.abp import decode_question


async def ask() -> None:
    terminal = Terminal()
    question = decode_question(json.loads(sys.argv[1]), id="q", origin="https://app.example")
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        await tasks.start(heed, terminal, scope)
        with scope:
            reply = await terminal.ask(question)
            print("REPLY", json.dumps([reply.outcome.value, dict(reply.content), terminal.interrupts]))
        tasks.cancel_scope.cancel()


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
