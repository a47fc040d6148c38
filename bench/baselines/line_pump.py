"""The least that passes lines between an editor and an agent: whole lines are carried both ways as
they come, and nobody looks at one.

`line_pump.py COMMAND ARG...`. As `pump.py`, but without JSON, and on bare descriptors: nothing in
Python that waits for both could do less.
"""

from __future__ import annotations

import contextlib
import os
import sys

import anyio

CHUNK = 64 * 1024  # see bench/client.py


async def main(command: list[str]) -> None:
    child_in, to_child = os.pipe()
    from_child, child_out = os.pipe()
    async with await anyio.open_process(
        command, stdin=child_in, stdout=child_out, stderr=None
    ) as child:
        os.close(child_in)
        os.close(child_out)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_carry, 0, to_child)
                await _carry(from_child, 1)
                tasks.cancel_scope.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()


async def _carry(source: int, sink: int) -> None:
    os.set_blocking(sink, False)
    rest = b""
    while True:
        await anyio.wait_readable(source)
        if not (data := os.read(source, CHUNK)):
            break
        data = rest + data
        end = data.rfind(b"\n") + 1
        left, rest = memoryview(data)[:end], data[end:]
        while left:
            try:
                left = left[os.write(sink, left) :]
            except BlockingIOError:
                await anyio.wait_writable(sink)
    os.close(sink)


anyio.run(main, sys.argv[1:])
