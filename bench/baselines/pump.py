"""A plain asyncio JSON-RPC pump: every line from the host is parsed, written again and passed to a
child, and the other way round.

`pump.py [--anyio] COMMAND ARG...`. It knows no protocol; a bridge that does should not cost much
more. `--anyio`: run by anyio, as whatever is built on that library, which takes time to load.
"""

from __future__ import annotations

import asyncio
import json
import sys

LIMIT = 2**24


async def main(command: list[str]) -> None:
    loop = asyncio.get_running_loop()
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LIMIT
    )
    assert child.stdin is not None
    assert child.stdout is not None
    reader = asyncio.StreamReader(limit=LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    await asyncio.gather(_carry(reader, child.stdin), _carry(child.stdout, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(json.dumps(json.loads(line), separators=(",", ":")).encode() + b"\n")
        await writer.drain()
    writer.close()


if sys.argv[1] == "--anyio":
    import anyio

    anyio.run(main, sys.argv[2:])
else:
    asyncio.run(main(sys.argv[1:]))
