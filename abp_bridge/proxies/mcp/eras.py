"""Which era each side of a proxy speaks, found out by its first line; and the streams on which it
speaks legacy to the proxy in any case.

A side that speaks legacy keeps its own bytes. Before one that does not, a translator stands:
`modern_host.py`, `modern_server.py`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_text import parse
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.modern import is_enveloped
from abp_bridge.protocols.mcp.translation import MODERN_REQUESTS, add_envelope
from abp_bridge.protocols.mcp.versions import ERAS, V2026_07_28, Era
from abp_bridge.proxies.mcp.era_connection import LONGEST
from abp_bridge.rpc.connection import ByteReader, ByteWriter
from abp_bridge.rpc.pipe import MemoryPipe, write_all
from abp_bridge.rpc.protocol import dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import TaskGroup

FAREWELL = 0.3  # seconds for what was said last to be translated
_DISCOVER = "abp-discover"  # the id of our own question what the server is


@asynccontextmanager
async def translated(
    host: tuple[ByteReader, ByteWriter],
    server: tuple[ByteReader, ByteWriter],
    *,
    park: float,
    era: Era | None = None,
    discover_first: bool = False,
) -> AsyncIterator[tuple[tuple[ByteReader, ByteWriter], tuple[ByteReader, ByteWriter]]]:
    """The streams of both sides, on which they speak legacy, for as long as the block lasts.

    The host's era is seen in the first line that it says. The server's is found out with the first
    that is written to it, which should be `initialize`: legacy is tried with that, and modern where
    the server refuses it (servers that speak both often ask only in legacy). What was said last is
    still translated: for `FAREWELL` seconds at most.

    Args:
        host: What the host says, and what it reads.
        server: The same of the server.
        park: How long a call is kept that a modern host has not come back for, in seconds.
        era: The only one to be tried with the server.
        discover_first: Whether modern is tried first: a server over HTTP asks only in that.
    """
    async with anyio.create_task_group() as tasks:
        hosts, servers = _Side(*host), _Side(*server)
        order = (era,) if era is not None else ERAS[::-1] if discover_first else ERAS
        negotiation = _Negotiation(servers, hosts, tasks, order)
        yield (
            (_HostReader(hosts, tasks, park), _SideWriter(hosts)),
            (_ServerReader(negotiation), _ServerWriter(negotiation)),
        )
        for side in (hosts, servers):
            if side.is_translated:
                side.writer.close()
        tasks.cancel_scope.deadline = anyio.current_time() + FAREWELL


class _Side:
    """What a side is read from and written to now: the side itself, or what translates it."""

    def __init__(self, reader: ByteReader, writer: ByteWriter) -> None:
        self.original = reader
        self.reader = reader
        self.writer = writer
        self.is_translated = False

    def stand_before(self) -> tuple[ByteReader, ByteWriter]:
        """Put a translator before it: what that reads and writes on the proxy's side."""
        said, heard = MemoryPipe(LONGEST), MemoryPipe(LONGEST)
        self.reader, self.writer, self.is_translated = said, heard, True
        return heard, said


class _Replayed(ByteReader):
    """What was read already, and then the rest."""

    def __init__(self, data: bytes, reader: ByteReader) -> None:
        self._data = data
        self._reader = reader

    async def receive(self) -> bytes:
        data, self._data = self._data, b""
        return data or await self._reader.receive()

    async def deliver(self, take: Callable[[bytes], bool]) -> bool:
        data, self._data = self._data, b""
        if data:
            take(data)
            return True
        return await self._reader.deliver(take)

    def peer_time(self) -> float:
        return self._reader.peer_time()

    def arrived(self) -> float:
        return self._reader.arrived()

    async def wait_closed(self) -> None:
        await self._reader.wait_closed()

    def close(self) -> None:
        self._reader.close()


class _SideReader(ByteReader):
    """Reads a side, whatever stands before it by now."""

    def __init__(self, side: _Side) -> None:
        self._side = side

    async def receive(self) -> bytes:
        return await self._side.reader.receive()

    def peer_time(self) -> float:
        return self._side.reader.peer_time()

    def arrived(self) -> float:
        return self._side.reader.arrived()

    async def wait_closed(self) -> None:
        await self._side.original.wait_closed()

    def close(self) -> None:
        self._side.reader.close()


class _HostReader(_SideReader):
    def __init__(self, side: _Side, tasks: TaskGroup, park: float) -> None:
        super().__init__(side)
        self._tasks = tasks
        self._park = park
        self._decided = False

    async def receive(self) -> bytes:
        if not self._decided:
            self._decided = True
            await self._decide()
        return await self._side.reader.receive()

    async def _decide(self) -> None:
        side = self._side
        data = await _first_line(side.original)
        side.reader = _Replayed(data, side.original)
        if _is_modern(data):
            from abp_bridge.proxies.mcp.modern_host import ModernHost

            outer = (side.reader, side.writer)
            host = ModernHost(outer, side.stand_before(), self._tasks, park=self._park)
            self._tasks.start_soon(host.run)


class _SideWriter(ByteWriter):
    """Writes to a side, whatever stands before it by now."""

    def __init__(self, side: _Side) -> None:
        self._side = side

    def write_nowait(self, data: bytes | memoryview) -> int:
        return self._side.writer.write_nowait(data)

    async def writable(self) -> None:
        await self._side.writer.writable()

    def close(self) -> None:
        self._side.writer.close()


class _Negotiation:
    """Finds out what a server speaks, by the first line that it is to be told."""

    def __init__(self, side: _Side, host: _Side, tasks: TaskGroup, order: tuple[Era, ...]) -> None:
        self.side = side
        self._host = host
        self.decided = anyio.Event()
        self._tasks = tasks
        self._order = order
        self._written = bytearray()  # before it was decided
        self._read = b""  # of the server, which is not for us
        self._rest = b""  # of the server, which nobody has looked at
        self._begun = False

    def write(self, data: bytes | memoryview) -> int:
        """Keep what is written until it is decided who gets it."""
        self._written += data
        if not self._begun and b"\n" in self._written:
            self._begun = True
            self._tasks.start_soon(self._run)
        return len(data)

    def close(self) -> None:
        """Nothing more is written."""
        if not self._begun:
            self._decide()
        self.side.writer.close()

    async def _run(self) -> None:
        first = bytes(self._written[: self._written.index(b"\n") + 1])
        with suppress(OSError):  # nobody reads: whoever writes next meets the same
            if not await self._adopt(first, as_object(_parse(first))):
                self.side.reader = _Replayed(self._read + self._rest, self.side.original)
        self._decide()

    def _decide(self) -> None:
        """From now on what stands before the server by now is spoken to."""
        self.decided.set()

    async def _adopt(self, first: bytes, hello: JsonObject) -> bool:
        """Whether a translator stands before the server now; else the server speaks for itself, and
        `_read` is what it has said.
        """
        order = self._order if hello.get("method") == "initialize" else ("legacy",)
        refusal = b""
        for era in order:
            if era == "modern":
                answer = await self._discover(hello)
                if "result" in answer:
                    self._translate(as_object(hello.get("params")), as_object(answer["result"]))
                    return True
                if answer:
                    refusal = refusal or dump({**answer, "id": hello.get("id")})
            elif era == order[-1]:  # whatever it says to that
                await write_all(self.side.writer, self._take(0))
                return False
            else:
                answer, refusal = await self._exchange(first, hello.get("id"))
                if "error" not in answer:
                    break
        self._read += refusal
        await write_all(self.side.writer, self._take(len(first)))
        return False

    def _take(self, start: int) -> bytes:
        """What was written so far, from `start` on: it goes to the server."""
        taken = bytes(self._written[start:])
        self._written.clear()
        return taken

    async def _discover(self, hello: JsonObject) -> JsonObject:
        params = add_envelope({}, _client(as_object(hello.get("params"))))
        asked: JsonObject = {"id": _DISCOVER, "method": "server/discover", "params": params}
        return (await self._exchange(dump({"jsonrpc": "2.0", **asked}), _DISCOVER))[0]

    async def _exchange(self, line: bytes, id: JsonValue) -> tuple[JsonObject, bytes]:
        """Say a line and wait for its answer: (what it says, its line).

        What the server says before goes to `_read`, what it has said after to `_rest`; at its end
        nothing is answered.
        """
        await write_all(self.side.writer, line)
        while True:
            while b"\n" in self._rest:
                each, _, self._rest = self._rest.partition(b"\n")
                message = as_object(_parse(each))
                if message.get("id") == id and "method" not in message:
                    return message, each + b"\n"
                self._read += each + b"\n"
            data = await self.side.original.receive()
            if not data:
                return {}, b""
            self._rest += data

    def _translate(self, hello: JsonObject, discovered: JsonObject) -> None:
        from abp_bridge.proxies.mcp.modern_server import ModernServer

        outer = (_Replayed(self._read + self._rest, self.side.original), self.side.writer)
        server = ModernServer(
            outer,
            self.side.stand_before(),
            self._tasks,
            _client(hello),
            discovered,
            verbatim=self._host.is_translated,
        )
        self.side.writer.write_nowait(self._take(0))
        self._tasks.start_soon(server.run)


class _ServerReader(_SideReader):
    def __init__(self, server: _Negotiation) -> None:
        super().__init__(server.side)
        self._server = server

    async def receive(self) -> bytes:
        if not self._server.decided.is_set():
            await self._server.decided.wait()
        return await self._side.reader.receive()


class _ServerWriter(_SideWriter):
    def __init__(self, server: _Negotiation) -> None:
        super().__init__(server.side)
        self._server = server

    def write_nowait(self, data: bytes | memoryview) -> int:
        decided = self._server.decided.is_set()
        return super().write_nowait(data) if decided else self._server.write(data)

    async def writable(self) -> None:
        await self._server.decided.wait()
        await super().writable()

    def close(self) -> None:
        self._server.close()


def _client(hello: JsonObject) -> McpClientInfo:
    """A client as the parameters of its `initialize` show it, to a modern server."""
    info, capabilities = as_object(hello.get("clientInfo")), hello.get("capabilities")
    return McpClientInfo(V2026_07_28, info, capabilities, modern=True)


async def _first_line(reader: ByteReader) -> bytes:
    data = b""
    while b"\n" not in data and len(data) <= LONGEST and (more := await reader.receive()):
        data += more
    return data


def _is_modern(data: bytes) -> bool:
    message = as_object(_parse(data.partition(b"\n")[0]))
    return is_enveloped(message.get("params")) or message.get("method") in MODERN_REQUESTS


def _parse(line: bytes) -> JsonValue:
    try:
        return parse(line)
    except ValueError:
        return None
