"""The entrance for ABP agents: a page with `window.abp`, its manifest and a WebSocket."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from html import escape
from pathlib import Path

import anyio
from anyio.abc import TaskStatus
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from abp_bridge import VERSION
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.loop import earliest_arrival
from abp_bridge.jsonrpc.memory_pipe import FrameReader, MemoryPipe, send_lines
from abp_bridge.protocols.abp import calls
from abp_bridge.surfaces import http

MAX_AGENTS = 16  # at once: each may start apps, and browsers
FAREWELL = 0.3  # seconds for the last words to leave

Attend = Callable[[ByteReader, ByteWriter], Awaitable[None]]

_FILES = Path(__file__).with_name("listen_page")
_REFUSALS: dict[int, Response] = {
    403: PlainTextResponse("Pages of this site may not connect: --listen-origin allows one.", 403),
    421: PlainTextResponse("This address is not called by that name.", 421),
    500: PlainTextResponse("The bridge failed at this.", 500),
}
_MANIFEST = {
    "abp": calls.VERSION,
    "app": {
        "id": "abp-bridge",
        "name": "abp-bridge",
        "version": VERSION,
        "description": "The apps of a bridge, for one more agent",
    },
}


class Listener:
    """Accept agents on a local port (0: any) from pages of `origins` while served.

    Raises:
        OSError: The port cannot be used.
    """

    def __init__(self, port: int, origins: Sequence[str]) -> None:
        self._socket = http.listen(port)
        self._token = secrets.token_urlsafe(32)
        self._origins = origins
        self._agents = 0
        self._attend: Attend | None = None

    @property
    def address(self) -> str:
        """Where an agent finds it, without the scheme: `HOST:PORT/PATH`, where `{}` is the path."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}/{{}}?token={self._token}"

    async def serve(
        self, attend: Attend, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled: `attend` has each connection, and returns when it is over."""
        self._attend = attend
        routes = [
            Route("/", self._show_page),
            Route("/abp.js", _send_script),
            Route("/abp.json", _send_manifest),
            WebSocketRoute("/abp", self._connect),
        ]
        framed = " ".join(self._origins) or "'none'"
        policy = (
            "default-src 'none'; script-src 'self'; connect-src 'self'; form-action 'none';"
            f" base-uri 'none'; frame-ancestors {framed}"
        )
        router = Router(routes, redirect_slashes=False)
        headers = {"Content-Security-Policy": policy}
        site = http.Site(router, _REFUSALS, headers, origins=self._origins)
        await http.serve(site, self._socket, websockets=_WebSocket, task_status=task_status)

    async def _show_page(self, request: Request) -> Response:
        page = (_FILES / "page.html").read_text(encoding="utf-8")
        return HTMLResponse(page.replace("{origins}", escape(" ".join(self._origins))))

    async def _connect(self, socket: WebSocket) -> None:
        given = socket.query_params.get("token", "")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            words = "The token in the address is wrong: the bridge wrote the whole of it to stderr."
            await socket.send_denial_response(PlainTextResponse(words, 403))
        elif self._agents >= MAX_AGENTS:
            words = f"{MAX_AGENTS} agents are connected: end one of them first."
            await socket.send_denial_response(PlainTextResponse(words, 503))
        else:
            self._agents += 1
            try:
                await self._carry(socket)
            finally:
                self._agents -= 1

    async def _carry(self, socket: WebSocket) -> None:
        assert self._attend is not None, "it is served"
        lines = MemoryPipe()

        async def receive() -> bytes | None:
            message = await socket.receive()
            if message["type"] != "websocket.receive":
                return None
            text: str | None = message.get("text")
            data: bytes = message["bytes"] if text is None else text.encode()
            return data

        async def carry_out() -> None:
            try:
                await send_lines(lines, socket.send_text)
                await socket.close()
            except WebSocketDisconnect:
                lines.close()

        await socket.accept()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carry_out)
            await self._attend(FrameReader(receive, lambda: socket.state.arrived), lines)
            lines.close()
            tasks.cancel_scope.deadline = anyio.current_time() + FAREWELL


async def _send_script(request: Request) -> Response:
    return Response((_FILES / "abp.js").read_bytes(), media_type="text/javascript")


async def _send_manifest(request: Request) -> Response:
    return JSONResponse(_MANIFEST)


class _WebSocket(WebSocketsSansIOProtocol):
    """Note when the last bytes came, and close what is not a handshake."""

    def data_received(self, data: bytes) -> None:
        if (scope := getattr(self, "scope", None)) is not None:
            scope["state"]["arrived"] = earliest_arrival()
        super().data_received(data)
        if self.conn.handshake_exc is not None:
            self.transport.close()
