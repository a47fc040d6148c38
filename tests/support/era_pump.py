"""`era_pump.py COMMAND...`: a server behind the translators between MCP's eras, and no more: what a
legacy host and a legacy server say to each other passes as it is.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import anyio

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.memory_pipe import write_all
from abp_bridge.jsonrpc.streams import take_over_stdio
from abp_bridge.jsonrpc.subprocess import spawn
from abp_bridge.mcp.proxy.eras import translated


async def pump(command: list[str], streams: tuple[ByteReader, ByteWriter]) -> None:
    era, discover_first = os.environ.get("ERA"), bool(os.environ.get("DISCOVER_FIRST"))
    assert era in (None, "legacy", "modern")
    pending_timeout = float(os.environ.get("PARK", "600"))
    async with (
        spawn(command) as child,
        translated(
            streams,
            (child.stdout, child.stdin),
            pending_timeout=pending_timeout,
            origin=lambda: "stub",
            era=era,  # type: ignore[arg-type]
            discover_first=discover_first,
        ) as sides,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(carry, sides.host[0], sides.server[1])
        await carry(sides.server[0], sides.host[1])
        tasks.cancel_scope.cancel()


async def carry(reader: ByteReader, writer: ByteWriter) -> None:
    with suppress(BrokenPipeError):  # its reader has ended
        while data := await reader.receive():
            await write_all(writer, data)
    writer.close()


def run(command: list[str]) -> None:
    anyio.run(pump, command, take_over_stdio(), backend_options=OPTIONS)


if __name__ == "__main__":
    run(sys.argv[1:])
