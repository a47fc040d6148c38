"""Run another program behind this process's stdio, with its stderr on ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from abp_bridge.jsonrpc.stderr import LAST_WORDS, Stderr
from abp_bridge.jsonrpc.subprocess import Child, spawn
from abp_bridge.log import print_message

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.acp.proxy.proxy import Side

NO_PROGRAM = 127


async def run_program(
    command: Sequence[str],
    roles: tuple[str, str],
    tasks: TaskGroup,
    carry: Callable[[Child, Stderr], Awaitable[Side]],
    on_failure: Callable[[str], Awaitable[object]],
    *,
    prefix: str = "",
) -> int:
    """Run the program, carry lines until one side ends, and return the exit code.

    Args:
        roles: The program and its host in messages: ("agent", "client").
        tasks: Ends with the program.
        carry: Carries the lines, and returns which side ended first.
        on_failure: Reports to the host why it cannot be started.
        prefix: What its lines on stderr begin with.
    """
    role, host = roles
    stderr = Stderr(role, prefix.encode())
    tasks.start_soon(stderr.copy_lines)
    try:
        async with spawn(command, overhear=stderr.say) as program:
            ended = await carry(program, stderr)
            if ended == "program":
                await wait_for_end(program)
            tasks.cancel_scope.cancel()
    except OSError as problem:
        print_message(f"the {role} cannot be started: {problem}")
        await on_failure(str(problem))
        tasks.cancel_scope.cancel()
        return NO_PROGRAM
    finally:
        await stderr.aclose()
    return _exit_code(program, ended, f"the {role} {command[0]}", host)


async def wait_for_end(program: Child) -> None:
    """It no longer speaks: let it end by itself, and its last words out; not for long."""
    with anyio.move_on_after(1):
        await program.process.wait()
    with anyio.move_on_after(LAST_WORDS):
        await program.heard.wait()


def _exit_code(program: Child, ended: str, name: str, host: str) -> int:
    code = program.process.returncode
    if code is None:
        return 0
    if ended == "program":
        print_message(f"{name} ended ({program.exit}) before its {host} did")
        return code if code >= 0 else 128 - code
    return max(code, 0)
