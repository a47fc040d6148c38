"""A web server for this machine only, with the rules that all our servers share: limits on
connections, slow clients and streams, security headers, and no answer to other sites or host names.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import uvicorn
from anyio.abc import TaskGroup, TaskStatus
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from abp_bridge.errors import AbpBridgeError

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
BODY_LIMIT = 60.0  # seconds for a whole body to come
MAX_BODY = 1024 * 1024  # bytes, files apart
DRAINED = 8  # times of what is allowed is taken in and thrown away, so that a browser hears why
IDLE_LIMIT = 10.0  # seconds for a client to bring a whole request
CLOSE_LIMIT = 1.0  # seconds to close connections in: the person's browser is not waited for
MAX_CONNECTIONS = 128  # at once; a browser opens six
MAX_STREAMS = 48  # fewer, so that streams never take the last connection
BACKLOG = 64  # connections that wait to be taken
MAX_MESSAGE = 64 * 2**20  # bytes of a WebSocket's message: as of an app's
PING_INTERVAL, PING_LIMIT = 30.0, 120.0  # seconds between signs of life, and for one to come

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def listen(port: int) -> socket.socket:
    """Listen on this machine, at `port` or at any free one. Raises OSError."""
    return socket.create_server((ADDRESS, port), backlog=BACKLOG)


async def serve(
    app: Site,
    listener: socket.socket,
    *,
    websockets: type[asyncio.Protocol] | None = None,
    wait_last: Callable[[], Awaitable[None]] | None = None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, then until `wait_last` returns, at most `CLOSE_LIMIT` seconds.

    The class `websockets` speaks WebSocket; None refuses it.
    """
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws=websockets or "none",
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=PING_LIMIT,
        ws_per_message_deflate=False,
        lifespan="off",
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=0,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
    )
    server = _Server(config, task_status)
    try:
        await server.serve([listener])
    finally:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            if wait_last is not None:
                await wait_last()
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await server.shutdown([listener])


class Server:
    """Serve `site` on this machine, from the first `start` until `tasks` end.

    `port` is 0 and `url` empty before. `wait_last` is the argument of `serve`.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        site: Site,
        wait_last: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.port = 0
        self._wait_last = wait_last
        self._tasks = tasks
        self._site = site
        self._starting = anyio.Lock()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}" if self.port else ""

    async def start(self, port: int = 0) -> None:
        """Serve at `port`, or at any free one, unless it already does.

        Raises:
            OSError: The port cannot be used.
        """
        async with self._starting:
            if self.port:
                return
            listener = listen(port)
            self.port = listener.getsockname()[1]
            try:
                serving = partial(serve, wait_last=self._wait_last)
                await self._tasks.start(serving, self._site, listener)
            except BaseException:
                self.port = 0
                raise


def describe_failure(
    what: str, problem: OSError, port: int, option: str, *, fixed: bool = False
) -> str:
    """Return why `what` cannot be served at `port`, which `option` sets."""
    if not port:
        return f"{what} cannot be served: {problem}"
    return (
        f"{what} cannot be served: port {port} cannot be used ({os.strerror(problem.errno or 0)}):"
        f" end what uses it, or give another port to {option}"
        f"{'' if fixed else ' (0: any that is free)'}"
    )


class Site:
    """Routes, and the checks that every request passes first.

    Args:
        router: The routes.
        refusals: The responses to another host name (421), another site (403) and a failure (500).
        headers: Further headers of every response.
        check_access: Returns the response to a request that is not permitted, or None.
        origins: Other sites whose pages may make requests and embed pages.
    """

    def __init__(
        self,
        router: Router,
        refusals: Mapping[int, ASGIApp],
        headers: Mapping[str, str],
        check_access: Callable[[HTTPConnection], Response | None] = lambda request: None,
        origins: Collection[str] = (),
    ) -> None:
        self._router = router
        self._refusals = refusals
        self._headers = {**HEADERS, **headers}
        self._check_access = check_access
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"].endswith("http.response.start"):  # a WebSocket's, refused, too
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            await self._handler(HTTPConnection(scope))(scope, receive, sending)
        except ClientDisconnect:
            pass
        except Exception:  # a bug of ours
            logger.exception("a page of the bridge's own failed")
            if not begun:
                await self._refusals[500](scope, receive, sending)

    def _handler(self, request: HTTPConnection) -> ASGIApp:
        host, port = request.headers.get("host", ""), request.scope["server"][1]
        if host not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            return self._refusals[421]  # the page of somebody who rebinds names gets nothing
        if _cross_site(request, host, self._origins):
            return self._refusals[403]
        return self._check_access(request) or self._router


def _cross_site(request: HTTPConnection, here: str, allowed: Collection[str]) -> bool:
    """Return whether a page of another site makes this request; following a link is permitted.

    Old browsers do not say.
    """
    headers = request.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin in allowed:
        return False
    if origin is not None and origin != f"http://{here}":
        return True
    places = ("document", "iframe") if allowed else ("document",)
    follows = (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") in places
    )
    return site not in ("same-origin", "none") and not (
        follows and request.scope.get("method") in ("GET", "HEAD")
    )


class Streams:
    """The event streams of one server; `open` counts them."""

    def __init__(self) -> None:
        self.open = 0
        self._idle = anyio.Event()

    async def wait_idle(self) -> None:
        """Wait until no stream is open."""
        while self.open:
            await self._idle.wait()

    def response(self, events: AsyncIterator[str]) -> Response:
        """Send `events`, already in wire format, as they come."""
        if self.open >= MAX_STREAMS:
            return Response("Too many streams are open.", 503, media_type="text/plain")
        return StreamingResponse(self._count(events), media_type="text/event-stream")

    async def _count(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        self.open += 1
        try:
            async for event in events:
                yield event
        finally:
            self.open -= 1
            if not self.open:
                self._idle.set()
                self._idle = anyio.Event()


class _Protocol(H11Protocol):
    """Close a connection that brings no complete request; uvicorn has no timeout for that.

    A new connection beyond the limit closes the oldest idle one.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._made = self.loop.time()
        self._watch()
        if len(self.connections) >= MAX_CONNECTIONS:
            others = [each for each in self.connections if isinstance(each, _Protocol)]
            idle = [each for each in others if each is not self and each._is_idle()]
            if idle:
                min(idle, key=lambda each: each._made).transport.close()

    def _is_idle(self) -> bool:
        has_request = self.cycle is not None and not self.cycle.response_complete
        return not has_request and not self.transport.is_closing()

    def _watch(self) -> None:
        self.loop.call_later(IDLE_LIMIT, self._look, self.cycle)

    def _look(self, before: object) -> None:
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self._is_idle() and self.cycle is before:
            self.transport.close()
        else:
            self._watch()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the bridge handles signals."""

    def __init__(self, config: uvicorn.Config, ready: TaskStatus[None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Given up in the middle, nobody would stop listening: the loop would go on at the number of
        # a closed socket, which is the next connection's. It takes two turns of the loop.
        with anyio.CancelScope(shield=True):
            await super().startup(sockets)
        self._ready.started()


class FormError(AbpBridgeError):
    """A request body that is rejected with the HTTP `status`; the message says why."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


async def read_body(request: Request, limit: int) -> bytes:
    """Read a request's body.

    Raises:
        FormError: It has more than `limit` bytes, or took more than `BODY_LIMIT` seconds.
    """
    data, seen = bytearray(), 0
    with anyio.move_on_after(BODY_LIMIT) as clock:
        async for chunk in request.stream():
            seen += len(chunk)
            if seen <= limit:
                data += chunk
            elif seen > DRAINED * limit:
                break
    if clock.cancelled_caught:
        raise FormError("It took too long to send this. Try again.", 408)
    if seen > limit:
        raise FormError(f"This is too large: at most {limit} bytes can be taken.", 413)
    return bytes(data)
