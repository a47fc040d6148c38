"""The one way to the network for a page that the person did not name: a SOCKS5 proxy on this
machine that connects to the addresses a `Guard` allows, and to those only.

Owns the proxy's connections; knows nothing of pages. Unlike what a browser lets be intercepted,
it sees sockets, beacons that outlive their page, and each redirect of theirs, and the address that
was checked is the one connected to. The protocol is RFC 1928, of which a browser uses CONNECT
without authentication.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from abp_bridge.apps.browser.fetch import CONNECT_LIMIT, Guard, reachable
from abp_bridge.session.app import Absence, AppError

logger = logging.getLogger(__name__)

GREETING_LIMIT = 10.0  # seconds for a browser to say where it wants to go
MAX_CONNECTIONS = 256  # at once; Chromium opens 32 to a proxy

_VERSION: Final = 5
_CONNECT: Final = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_SIZES = {_IPV4: 4, _IPV6: 16}
_DONE, _NOT_ALLOWED, _UNREACHABLE, _NO_SUCH_COMMAND = 0, 2, 4, 7
_NO_AUTHENTICATION = b"\x05\x00"

OnRefusal = Callable[[str, int, AppError], None]


class _SocksError(Exception):
    """The peer speaks no SOCKS5, or asks for what a browser never does."""


@asynccontextmanager
async def open_gate(guard: Guard, on_refusal: OnRefusal) -> AsyncIterator[str]:
    """Run the proxy as long as the block; then each of its connections is closed.

    Args:
        guard: Says which addresses may be reached.
        on_refusal: Gets the host, the port and why, for each connection that was refused.

    Yields:
        The proxy's address, as `socks5://127.0.0.1:PORT`.
    """
    gate = _Gate(guard, on_refusal)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener,
        anyio.create_task_group() as tasks,
    ):
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 (anyio's, not Django's)
        tasks.start_soon(listener.serve, gate.serve)
        yield f"socks5://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


class _Gate:
    def __init__(self, guard: Guard, on_refusal: OnRefusal) -> None:
        self._guard = guard
        self._on_refusal = on_refusal
        self._room = anyio.Semaphore(MAX_CONNECTIONS)

    async def serve(self, browser: SocketStream) -> None:
        """One connection, from the greeting until both ends are closed."""
        async with browser, self._room:
            try:
                with anyio.fail_after(GREETING_LIMIT):
                    host, port = await _read_request(browser)
                try:
                    server = await self._connect(host, port)
                except AppError as problem:
                    denied = problem.code == "PERMISSION_DENIED"
                    await _reply(browser, _NOT_ALLOWED if denied else _UNREACHABLE)
                    self._on_refusal(host, port, problem)
                    return
                async with server:
                    await _reply(browser, _DONE)
                    await _relay(browser, server)
            except _SocksError as problem:
                logger.warning("a connection to the gate of a page was closed: %s", problem)
            except (TimeoutError, OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                return  # as when a browser's direct connection breaks: the page hears it

    async def _connect(self, host: str, port: int) -> SocketStream:
        for address in await reachable(host, port, self._guard):
            try:
                with anyio.fail_after(CONNECT_LIMIT):
                    return await anyio.connect_tcp(address, port)
            except (OSError, TimeoutError) as problem:
                logger.info("%s at %s cannot be reached: %s", host, address, problem)
        raise AppError(f"{host}:{port} cannot be reached", absence=Absence.SERVER)


async def _read_request(browser: SocketStream) -> tuple[str, int]:
    """The host and port that the browser wants to be connected to."""
    buffered = BufferedByteReceiveStream(browser)
    try:
        version, methods = await buffered.receive_exactly(2)
        if version != _VERSION or 0 not in await buffered.receive_exactly(methods):
            raise _SocksError("it speaks no SOCKS5 without authentication.")
        await browser.send(_NO_AUTHENTICATION)
        version, command, _, kind = await buffered.receive_exactly(4)
        if version != _VERSION or command != _CONNECT:
            await _reply(browser, _NO_SUCH_COMMAND)
            raise _SocksError(f"it asked for command {command}.")
        if kind == _NAME:
            (size,) = await buffered.receive_exactly(1)
            host = (await buffered.receive_exactly(size)).decode("ascii")
        else:
            host = str(ipaddress.ip_address(await buffered.receive_exactly(_ADDRESS_SIZES[kind])))
        port = int.from_bytes(await buffered.receive_exactly(2))
    except (KeyError, ValueError, anyio.IncompleteRead) as problem:
        raise _SocksError(f"its request cannot be read ({type(problem).__name__}).") from None
    return host, port


async def _reply(browser: ByteSendStream, code: int) -> None:
    nowhere = bytes(6)  # the address and port that the proxy connects from, which nobody needs
    await browser.send(bytes([_VERSION, code, 0, _IPV4]) + nowhere)


async def _relay(browser: SocketStream, server: SocketStream) -> None:
    """What either says, to the other, until neither says more."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_copy, browser, server)
        await _copy(server, browser)


async def _copy(source: ByteReceiveStream, target: SocketStream) -> None:
    try:
        async for data in source:
            await target.send(data)
        await target.send_eof()
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await target.aclose()
