"""Detects by its first line whether a side speaks stateful or stateless MCP.

The proxy itself speaks stateful MCP. A stateless side gets a translator in front of it
(`modern_host.py`, `modern_server.py`).
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, parse_json
from abp_bridge.jsonrpc.byte_edit import MAX_LINE
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, WrappedReader
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe, write_all
from abp_bridge.jsonrpc.protocol import INTERNAL_ERROR, dump, is_id
from abp_bridge.protocols.mcp.client import ERAS, V2026_07_28, Era, McpClientInfo
from abp_bridge.protocols.mcp.modern import is_enveloped
from abp_bridge.protocols.mcp.translation import MODERN_REQUESTS, add_envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from anyio.abc import TaskGroup

    from abp_bridge.mcp.pending_call import FindPending, PendingCall
    from abp_bridge.mcp.proxy.modern_host import ModernHost

logger = logging.getLogger(__name__)

OVERHEAD = 100  # bytes that a kept line costs beside its own: empty ones are not free
FAREWELL = 0.3  # seconds for what was said last to be translated
_TOO_MANY = "the server has not answered initialize yet, and too much waits for it"
_DISCOVER = "abp-discover"  # the id of our own question what the server is


@dataclass(frozen=True, slots=True)
class Sides:
    """A host and a server as streams of stateful MCP.

    Attributes:
        find_pending: Finds the call of a stateless host that takes a question.
    """

    host: tuple[ByteReader, ByteWriter]
    server: tuple[ByteReader, ByteWriter]
    find_pending: FindPending


@asynccontextmanager
async def translated(
    host: tuple[ByteReader, ByteWriter],
    server: tuple[ByteReader, ByteWriter],
    *,
    pending_timeout: float,
    origin: Callable[[], str],
    era: Era | None = None,
    discover_first: bool = False,
) -> AsyncIterator[Sides]:
    """Give the streams of both sides as stateful MCP while the block lasts.

    The server is tried with the host's `initialize`, and as stateless if it refuses that: servers
    that
    speak both often ask only when stateful. The last lines are translated for `FAREWELL` seconds.

    Args:
        pending_timeout: Seconds that a call is kept for a stateless host to come back to.
        origin: Makes the server's name for the user.
        era: The only one to try with the server.
        discover_first: Whether stateless is tried first: a server over HTTP asks only in that.
    """
    async with anyio.create_task_group() as tasks:
        hosts, servers = _Side(*host), _Side(*server)
        order = (era,) if era is not None else ERAS[::-1] if discover_first else ERAS
        negotiation = _Negotiation(servers, hosts, tasks, order)
        reader = _HostReader(hosts, tasks, pending_timeout, origin)
        yield Sides(
            (reader, _SideWriter(hosts)),
            (_ServerReader(negotiation), _ServerWriter(negotiation)),
            reader.find_pending,
        )
        for side in (hosts, servers):
            if side.is_translated:
                side.writer.close()
        tasks.cancel_scope.deadline = anyio.current_time() + FAREWELL


class _Side:
    """The current streams of a side: its own, or its translator's."""

    def __init__(self, reader: ByteReader, writer: ByteWriter) -> None:
        self.original = reader
        self.reader = reader
        self.writer = writer
        self.is_translated = False
        self.modern: ModernHost | None = None  # what stands before it, where that is one

    @property
    def is_modern(self) -> bool:
        """Whether it is a stateless host that has not fallen back."""
        return self.modern is not None and not self.modern.falls_back

    def stand_before(self) -> tuple[ByteReader, ByteWriter]:
        """Put a translator in front; return its streams on the proxy's side."""
        said, heard = MemoryPipe(MAX_LINE), MemoryPipe(MAX_LINE)
        self.reader, self.writer, self.is_translated = said, heard, True
        return heard, said


class _Replayed(WrappedReader):
    """Bytes that were read already, then the rest."""

    def __init__(self, data: bytes, reader: ByteReader) -> None:
        super().__init__(reader)
        self._data = data

    async def receive(self) -> bytes:
        data, self._data = self._data, b""
        return data or await self._reader.receive()

    async def deliver(self, take: Callable[[bytes], bool]) -> bool:
        data, self._data = self._data, b""
        if data:
            take(data)
            return True
        return await self._reader.deliver(take)


class _SideReader(ByteReader):
    """Reads the current stream of a side."""

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
    def __init__(
        self, side: _Side, tasks: TaskGroup, pending_timeout: float, origin: Callable[[], str]
    ) -> None:
        super().__init__(side)
        self._tasks = tasks
        self._pending_timeout = pending_timeout
        self._origin = origin
        self._decided = False

    def find_pending(self, calls: Sequence[str]) -> PendingCall | None:
        """Return the call that takes a question to a stateless host."""
        modern = self._side.modern
        return None if modern is None else modern.find_pending(calls)

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
            from abp_bridge.mcp.proxy.modern_host import ModernHost  # for who is one only

            outer = (side.reader, side.writer)
            inner = side.stand_before()
            side.modern = ModernHost(
                outer,
                inner,
                self._tasks,
                pending_timeout=self._pending_timeout,
                origin=self._origin,
            )
            self._tasks.start_soon(side.modern.translate)


class _SideWriter(ByteWriter):
    """Writes to the current stream of a side."""

    def __init__(self, side: _Side) -> None:
        self._side = side

    def write_nowait(self, data: bytes | memoryview) -> int:
        return self._side.writer.write_nowait(data)

    async def writable(self) -> None:
        await self._side.writer.writable()

    def close(self) -> None:
        self._side.writer.close()


class _Negotiation:
    """Detects what a server speaks; keeps the later lines until that is known."""

    def __init__(self, side: _Side, host: _Side, tasks: TaskGroup, order: tuple[Era, ...]) -> None:
        self.side = side
        self._host = host
        self.decided = anyio.Event()
        self.refused = bytearray()  # errors for the host, in the server's place
        self._changed = anyio.Event()  # either of both
        self._tasks = tasks
        self._order = order
        self._first = b""  # line for the server
        self._kept: list[bytes] = []  # the lines after it
        self._size = 0  # bytes of those, with `OVERHEAD` for each
        self._is_closing = False  # when all of them are written
        self._refusal = b""  # what the server said to the era that was tried first
        self._read = b""  # of the server, which is not for us
        self._rest = b""  # of the server, which nobody has looked at

    async def wait(self) -> None:
        """Wait until it is decided or there are errors for the host."""
        while not (self.decided.is_set() or self.refused):
            await self._changed.wait()

    def take_lines(self, data: bytes | memoryview) -> int:
        """Take lines for the server; the first is what it is tried with."""
        for line in bytes(data).splitlines(keepends=True):
            if not self._first:
                self._first = line
                self._tasks.start_soon(self._negotiate)
            elif self._size + len(line) + OVERHEAD <= MAX_LINE:
                self._kept.append(line)
                self._size += len(line) + OVERHEAD
            else:
                self._refuse(as_object(_parse(line)))
        return len(data)

    def _refuse(self, message: JsonObject) -> None:
        if "method" in message and is_id(message.get("id")):
            error: JsonObject = {"code": INTERNAL_ERROR, "message": _TOO_MANY}
            self.refused += dump({"jsonrpc": "2.0", "id": message["id"], "error": error})
            self._change()
        else:
            logger.error("a message of the host's is dropped: %s", _TOO_MANY)

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def close_input(self) -> None:
        self._is_closing = True
        if not self._first:
            self._decide()
        if self.decided.is_set():
            self.side.writer.close()

    async def _negotiate(self) -> None:
        hello = as_object(_parse(self._first))
        with suppress(OSError):  # nobody reads: whoever writes next meets the same
            if await self._find_translator(hello):
                self._kept.insert(0, self._first)
            else:
                self.side.reader = _Replayed(self._read + self._rest, self.side.original)
            while self._kept:  # more may come while it reads
                kept, self._kept, self._size = b"".join(self._kept), [], 0
                await write_all(self.side.writer, kept)
        self._decide()
        if self._is_closing:
            self.side.writer.close()

    def _decide(self) -> None:
        self.decided.set()
        self._change()

    async def _find_translator(self, hello: JsonObject) -> bool:
        """Try one revision after the other; True if the server needs a translator."""
        order = self._order if hello.get("method") == "initialize" else ("legacy",)
        for era in order:
            if era == "modern" and await self._try_modern(hello):
                return True
            if era == "legacy" and await self._try_legacy(hello, is_last=era == order[-1]):
                return False
        self._read += self._refusal
        return False

    async def _try_legacy(self, hello: JsonObject, *, is_last: bool) -> bool:
        """Send the host's `initialize`; False if the server refuses it and another try is left."""
        id = hello.get("id")
        if is_last:
            await write_all(self.side.writer, self._first)
            return True
        answer, line = await self._exchange(
            self._first, lambda message: message.get("id") == id or _is_request(message)
        )
        if "error" in answer and not _is_request(answer):
            self._refusal = line
            return False
        self._read += line
        return True

    async def _try_modern(self, hello: JsonObject) -> bool:
        """Send `server/discover`; True if the server answers, with a translator in front of it."""
        client = _client(as_object(hello.get("params")))
        params = add_envelope({}, client)
        asked: JsonObject = {"id": _DISCOVER, "method": "server/discover", "params": params}
        answer, _ = await self._exchange(
            dump({"jsonrpc": "2.0", **asked}),
            lambda message: message.get("id") == _DISCOVER and "method" not in message,
        )
        if "result" in answer:
            self._translate(client, as_object(answer["result"]))
            return True
        if answer:
            self._refusal = self._refusal or dump({**answer, "id": hello.get("id")})
        return False

    async def _exchange(
        self, line: bytes, answers: Callable[[JsonObject], bool]
    ) -> tuple[JsonObject, bytes]:
        """Write a line and return (the message that `answers` accepts, its line), or empty ones.

        Lines before it go to `_read`, bytes after it to `_rest`, `MAX_LINE` bytes at most.
        """
        await write_all(self.side.writer, line)
        while len(self._read) + len(self._rest) <= MAX_LINE:
            while b"\n" in self._rest:
                each, _, self._rest = self._rest.partition(b"\n")
                said = _parse(each)
                for message in map(as_object, said if isinstance(said, list) else [said]):
                    if answers(message):
                        return message, each + b"\n"
                self._read += each + b"\n"
            data = await self.side.original.receive()
            if not data:
                break
            self._rest += data
        return {}, b""

    def _translate(self, client: McpClientInfo, discovered: JsonObject) -> None:
        from abp_bridge.mcp.proxy.modern_server import ModernServer

        outer = (_Replayed(self._read + self._rest, self.side.original), self.side.writer)
        server = ModernServer(
            outer,
            self.side.stand_before(),
            self._tasks,
            client,
            discovered,
            is_verbatim=lambda: self._host.is_modern,
        )
        self._tasks.start_soon(server.translate)


class _ServerReader(_SideReader):
    def __init__(self, server: _Negotiation) -> None:
        super().__init__(server.side)
        self._server = server

    async def receive(self) -> bytes:
        await self._server.wait()
        if self._server.refused:
            refused = bytes(self._server.refused)
            self._server.refused.clear()
            return refused
        return await self._side.reader.receive()


class _ServerWriter(_SideWriter):
    def __init__(self, server: _Negotiation) -> None:
        super().__init__(server.side)
        self._server = server

    def write_nowait(self, data: bytes | memoryview) -> int:
        decided = self._server.decided.is_set()
        return super().write_nowait(data) if decided else self._server.take_lines(data)

    async def writable(self) -> None:
        await self._server.decided.wait()
        await super().writable()

    def close(self) -> None:
        self._server.close_input()


def _client(hello: JsonObject) -> McpClientInfo:
    """Return the stateless client for the parameters of an `initialize`."""
    info, capabilities = as_object(hello.get("clientInfo")), hello.get("capabilities")
    return McpClientInfo(V2026_07_28, info, capabilities, modern=True)


async def _first_line(reader: ByteReader) -> bytes:
    data = b""
    while b"\n" not in data and len(data) <= MAX_LINE and (more := await reader.receive()):
        data += more
    return data


def _is_modern(data: bytes) -> bool:
    message = as_object(_parse(data.partition(b"\n")[0]))
    return is_enveloped(message.get("params")) or message.get("method") in MODERN_REQUESTS


def _is_request(message: JsonObject) -> bool:
    return "method" in message and "id" in message


def _parse(line: bytes) -> JsonValue:
    try:
        return parse_json(line)
    except ValueError:
        return None
