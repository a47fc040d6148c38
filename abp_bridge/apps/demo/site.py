"""The built-in app in a browser: serves `page/` on a local port while the app is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.core.capability import AppInfo
from abp_bridge.session.app import AppError, AppListener, only_error
from abp_bridge.settings import Settings

_HERE = Path(__file__).parent
_FILES = {
    "/": (_HERE / "page/index.html", "text/html"),
    "/app.js": (_HERE / "page/app.js", "text/javascript"),
    "/style.css": (_HERE / "page/style.css", "text/css"),
    "/abp.json": (_HERE / "page/abp.json", "application/json"),
    "/script.json": (_HERE / "script.json", "application/json"),
}


class DemoPage(BrowserApp):
    """The built-in page, shown by name because its port changes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("http://127.0.0.1/", settings, named=True, origin="demo page")

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        async with (
            only_error(AppError),
            serve() as self._address,
            super().open_app(listener) as opened,
        ):
            yield opened


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """Serve the page to this machine, and yield its address."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, _serve_file)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 (anyio's, not Django's)
        yield f"http://127.0.0.1:{port}/"
        tasks.cancel_scope.cancel()


async def _serve_file(stream: SocketStream) -> None:
    async with stream:
        with suppress(
            anyio.IncompleteRead,
            anyio.DelimiterNotFound,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            request = await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", 2**14)
            path = (
                request.split(b" ", 2)[1].decode("latin-1").partition("?")[0]
                if request.startswith(b"GET ")
                else ""
            )
            await stream.send(_response(path))


def _response(path: str) -> bytes:
    file, kind = _FILES.get(path, (None, "text/plain"))
    status, body = (
        ("404 Not Found", b"There is nothing here.")
        if file is None
        else ("200 OK", file.read_bytes())
    )
    headers = [
        f"Content-Type: {kind}; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body
