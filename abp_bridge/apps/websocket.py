"""A WebSocket to an app with the interface of a program's pipes: one JSON message a text frame.

Importing this loads `websockets`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException
from websockets.http11 import Response
from websockets.uri import WebSocketURI, parse_uri

from abp_bridge.apps.abp import MAX_LINE
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.memory_pipe import FrameReader, MemoryPipe, send_lines
from abp_bridge.session.app import END_LIMIT, AppError

OPEN_LIMIT = 10.0  # seconds to be connected and let in
# Seconds between signs of life, and for one to come: an app that is busy gives none meanwhile.
PING_INTERVAL, PING_LIMIT = 30.0, 120.0


class AppSocket:
    """A connected app: `stdin` and `stdout` carry lines, `ending` says how it ended."""

    def __init__(self, socket: ClientConnection) -> None:
        self.stdin = MemoryPipe()
        self.stdout = FrameReader(self._receive_frame)
        self.ending = "its WebSocket was closed"
        self._socket = socket

    async def _receive_frame(self) -> bytes | None:
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed as problem:
            self._on_end(problem)
            return None

    async def carry_out(self) -> None:
        """Send what is written to `stdin` until it closes."""
        try:
            await send_lines(self.stdin, self._socket.send)
        except ConnectionClosed as problem:
            self._on_end(problem)

    def _on_end(self, problem: ConnectionClosed) -> None:
        self.stdin.close()
        self.ending = label(f"its WebSocket was closed: {problem}", 300)


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[AppSocket]:
    """Connect to the app at `url`, or raise AppError."""
    connection = await _open_socket(url)
    socket = AppSocket(connection)
    carrying = anyio.CancelScope(shield=True)  # what was written last leaves all the same

    async def carry_out() -> None:
        with carrying:
            await socket.carry_out()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carry_out)
            try:
                yield socket
            finally:
                socket.stdin.close()
                carrying.deadline = anyio.current_time() + END_LIMIT
    finally:
        with anyio.move_on_after(END_LIMIT, shield=True):
            await connection.close()
        connection.transport.abort()


def find_risks(url: str) -> tuple[str, ...]:
    """Return the risks of connecting to `url` for the user, as sentences.

    Raises:
        AppError: `url` is not a WebSocket address.
    """
    try:
        address = parse_uri(url)
    except (InvalidURI, ValueError):
        words = "is no address of a WebSocket, such as wss://HOST:PORT/PATH"
        raise AppError(f"{show_target(url)} {words}", "INVALID_PARAMS") from None
    if address.secure or _is_here(address):
        return ()
    words = (
        f"{show_target(url)} is not encrypted: who is on the way reads what is asked and answered."
        " Use wss://, or a tunnel to this machine"
    )
    return (words,)


def _is_here(address: WebSocketURI) -> bool:
    """Return whether the address is on this machine."""
    try:
        return address.host == "localhost" or ip_address(address.host).is_loopback
    except ValueError:
        return False


class _Connect(open_socket):
    """Follows no redirects."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


async def _open_socket(url: str) -> ClientConnection:
    shown = show_target(url)
    try:
        return await _Connect(
            url,
            max_size=MAX_LINE,
            open_timeout=OPEN_LIMIT,
            close_timeout=END_LIMIT,
            ping_interval=PING_INTERVAL,
            ping_timeout=PING_LIMIT,
            compression=None,
            proxy=None if _is_here(parse_uri(url)) else True,
        )
    except InvalidStatus as problem:
        raise AppError(f"{shown} {_describe_refusal(problem.response)}") from None
    except TimeoutError:
        words = f"{shown} opened no WebSocket within {OPEN_LIMIT:g} s: is an app served there?"
        raise AppError(words) from None
    except (WebSocketException, OSError, ImportError) as problem:
        if url.lower().startswith("wss:") and "WRONG_VERSION_NUMBER" in str(problem):
            words = f"{shown} speaks plain http there. Try ws{shown.removeprefix('wss')}"
            raise AppError(words) from None
        words = "Check the address, and that an app serves ABP over a WebSocket there"
        raise AppError(f"{shown} cannot be connected: {label(problem, 300)}. {words}.") from None


def _describe_refusal(response: Response) -> str:
    status = f"answered with HTTP {response.status_code} and opened no WebSocket"
    if target := response.headers.get("Location"):
        return f"{status}: it leads to {show_target(label(target, 200))}, which --app may name"
    said = ""
    if response.headers.get("Content-Type", "").startswith("text/plain"):
        said = label(response.body.decode(errors="replace"), 200)
    return f"{status} ({said})" if said else f"{status}: check the path, and its token"
