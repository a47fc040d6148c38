"""Apps at a WebSocket on a port of this machine: programs whose lines go as its messages, and apps
whose every message is the test's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from support.peer import PATIENCE, read_lines

Json = Any


@asynccontextmanager
async def at_socket(
    handle: Callable[[ServerConnection], Awaitable[None]], **options: Any
) -> AsyncIterator[str]:
    """A WebSocket server that handles each connection so: its address."""
    async with serve(handle, "127.0.0.1", 0, max_size=2**27, **options) as server:
        scheme = "wss" if "ssl" in options else "ws"
        yield f"{scheme}://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/abp"


@asynccontextmanager
async def program_at_socket(*command: str) -> AsyncIterator[str]:
    """A program that speaks ABP on a pipe, of its own for each connection: the address."""

    async def handle(socket: ServerConnection) -> None:
        async with await anyio.open_process(command, stderr=None) as program:
            assert program.stdin is not None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bring, socket, program)
                try:
                    async for message in socket:
                        assert isinstance(message, str), "a text frame"
                        assert "\n" not in message, "one message a frame"
                        await program.stdin.send(message.encode() + b"\n")
                except ConnectionClosed:
                    pass
                await program.stdin.aclose()
            await program.wait()

    async def bring(socket: ServerConnection, program: anyio.abc.Process) -> None:
        assert program.stdout is not None
        try:
            async for line in read_lines(program.stdout):
                await socket.send(line.decode())
        except ConnectionClosed:
            return
        await socket.close()

    async with at_socket(handle) as url:
        yield url


class SocketApp:
    """An app whose every message is the test's: `next` is what the bridge told it."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def next(self, method: str | None = None) -> Json:
        """The next message from the bridge, or the next with this method or type; None when there
        will be no more.
        """
        with anyio.fail_after(PATIENCE):
            async for frame in self.socket:
                message = json.loads(frame)
                if method in (None, message.get("method"), message.get("type")):
                    return message
        return None

    async def send(self, **message: Json) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}))

    async def write(self, data: str | bytes) -> None:
        await self.socket.send(data)

    async def open(self, *capabilities: str, id: str = "socket") -> None:
        """Answer `initialize` and the listing that follows it."""
        asked = await self.next("initialize")
        app = {"id": id, "name": id}
        await self.send(id=asked["id"], result={"sessionId": "s", "app": app, "capabilities": []})
        asked = await self.next("capabilities/list")
        await self.send(id=asked["id"], result=list(capabilities))


@asynccontextmanager
async def app_at_socket(
    play: Callable[[SocketApp], Awaitable[None]], **options: Any
) -> AsyncIterator[str]:
    """An app that does `play` on each connection: the address."""

    async def handle(socket: ServerConnection) -> None:
        await play(SocketApp(socket))

    async with at_socket(handle, **options) as url:
        yield url
