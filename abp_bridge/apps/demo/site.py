"""The built-in app in a browser: `page/` on a port of this machine for as long as the app is open,
and a browser that shows it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.core.capability import AppInfo, CallResult, Capability
from abp_bridge.core.json_value import Json
from abp_bridge.interfaces.app import AppError, AppListener, only_error
from abp_bridge.settings import Settings

_HERE = Path(__file__).parent
_FILES = {
    "/": (_HERE / "page/index.html", "text/html"),
    "/app.js": (_HERE / "page/app.js", "text/javascript"),
    "/style.css": (_HERE / "page/style.css", "text/css"),
    "/abp.json": (_HERE / "page/abp.json", "application/json"),
    "/script.json": (_HERE / "script.json", "application/json"),
}
_MAX_REQUEST = 16_384


class DemoPage:
    """See `apps.App`. Its address changes from time to time, so that it is called by its name."""

    renders = True

    def __init__(self, settings: Settings) -> None:
        self.origin = "demo page"
        self._settings = settings
        self._app: BrowserApp | None = None

    @asynccontextmanager
    async def open(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """See `App.open`."""
        async with only_error(AppError), serve() as address:
            self._app = BrowserApp(address, self._settings, named=True, origin=self.origin)
            async with self._app.open(listener) as opened:
                yield opened

    async def call(self, capability: str, params: Mapping[str, Json], call: str) -> CallResult:
        """See `App.call`."""
        return await self._opened.call(capability, params, call)

    async def cancel(self, call: str, reason: str) -> None:
        """See `App.cancel`."""
        await self._opened.cancel(call, reason)

    async def wait_idle(self) -> None:
        """Wait until the page's own turn is over (`App.wait_idle`)."""
        await self._opened.wait_idle()

    async def capabilities(self) -> tuple[Capability, ...]:
        """See `App.capabilities`."""
        return await self._opened.capabilities()

    async def render_pdf(self) -> bytes:
        """See `App.render_pdf`."""
        return await self._opened.render_pdf()

    @property
    def _opened(self) -> BrowserApp:
        assert self._app is not None, "the app is open"
        return self._app


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """The address at which the page is served, to this machine only."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, _answer)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/"  # noqa: S610 (anyio's, not Django's)
        tasks.cancel_scope.cancel()


async def _answer(stream: SocketStream) -> None:
    async with stream:
        with suppress(
            anyio.IncompleteRead,
            anyio.DelimiterNotFound,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            request = await BufferedByteReceiveStream(stream).receive_until(
                b"\r\n\r\n", _MAX_REQUEST
            )
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
