"""The page's server: on this machine only, at a port of its own, for whoever brings a link that has not been used before.

It starts with the first question and ends with the session. A link works once: it makes the browser that opens it the person's, by a cookie, and is
no use to anybody who reads it later. Every request must name this server as its host, and every answer come from a page of its own.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from abp_bridge.core.question import Outcome, Question, review
from abp_bridge.hosts.contract import Reply
from abp_bridge.hosts.page.sheet import content, document, notice, sheet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskGroup

HERE = Path(__file__).parent
COOKIE = "abp"
MAX_BODY = 1024 * 1024
MAX_ENDED = 200
LONGEST_TOKEN = 64
START_LIMIT = 5.0
BEAT = 15.0  # seconds between signs of life on a stream

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_ENDED = {
    Outcome.ACCEPTED: "Thank you: your answer was sent to the app.",
    Outcome.DECLINED: "You declined to answer. The app has been told.",
    Outcome.CANCELLED: "You cancelled the question. The app has been told.",
}
WITHDRAWN = "This question is no longer open: it was answered elsewhere, or withdrawn."


class Sheet:
    """One question on the page. `url` is the link to it, good for one browser."""

    def __init__(self, question: Question, url: str) -> None:
        self.question = question
        self.url = url
        self._reply: Reply | None = None
        self._done = anyio.Event()

    async def answered(self) -> Reply:
        """The person's answer; content that fits the question, or none."""
        await self._done.wait()
        assert self._reply is not None
        return self._reply

    def answer(self, reply: Reply) -> bool:
        """The first answer counts; False for a later one."""
        if self._done.is_set():
            return False
        self._reply = reply
        self._done.set()
        return True


class LoopbackPage:
    """Implements `contract.Page`. It lives in `tasks`, and begins with the first question."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._port = 0
        self._starting = anyio.Lock()
        self._cookie = secrets.token_urlsafe(32)
        self._guard = secrets.token_urlsafe(32)
        self._links: dict[str, str] = {}  # token -> the question it opens
        self._open: dict[str, Sheet] = {}
        self._ended: dict[str, str] = {}  # what to say of those that are over
        self._endings: dict[str, anyio.Event] = {}

    @asynccontextmanager
    async def shown(self, question: Question) -> AsyncIterator[Sheet]:
        """The question is on the page for as long as the block lasts."""
        await self._start()
        id, token = secrets.token_urlsafe(8), secrets.token_urlsafe(32)
        made = self._open[id] = Sheet(question, f"http://127.0.0.1:{self._port}/open/{token}")
        self._links[token] = id
        self._endings[id] = anyio.Event()
        try:
            yield made
        finally:
            del self._open[id]
            self._links.pop(token, None)
            self._end(id, WITHDRAWN)
            self._endings.pop(id).set()

    def _end(self, id: str, words: str) -> None:
        self._ended.setdefault(id, words)
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    # --- the server ---

    async def _start(self) -> None:
        async with self._starting:
            if self._port:
                return
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
            quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
            server = _Server(uvicorn.Config(self._application(), lifespan="off", timeout_graceful_shutdown=0, **quiet))
            self._tasks.start_soon(self._serve, server, listener)
            with anyio.fail_after(START_LIMIT):
                await server.ready.wait()
            self._port = port

    async def _serve(self, server: _Server, listener: socket.socket) -> None:
        try:
            await server.serve([listener])
        finally:
            listener.close()

    def _application(self) -> Starlette:
        routes = [
            Route("/", self._checked(self._inbox)),
            Route("/open/{token}", self._checked(self._follow, known=False)),
            Route("/q/{id}", self._checked(self._show), methods=["GET"]),
            Route("/q/{id}", self._checked(self._take), methods=["POST"]),
            Route("/q/{id}/events", self._checked(self._events)),
            Route("/page.css", self._checked(_file("page.css", "text/css"), known=False)),
            Route("/page.js", self._checked(_file("page.js", "text/javascript"), known=False)),
        ]
        return Starlette(routes=routes)

    def _checked(self, handle: _Handler, *, known: bool = True) -> _Handler:
        """What holds for every request: who it is meant for, where it comes from, and whose it is."""

        async def checked(request: Request) -> Response:
            response = self._refusal(request, known) or await handle(request)
            response.headers.update(_HEADERS)
            return response

        return checked

    def _refusal(self, request: Request, known: bool) -> Response | None:
        here = {f"127.0.0.1:{self._port}", f"localhost:{self._port}"}
        origin = request.headers.get("origin")
        if request.headers.get("host") not in here:
            return _said("Not here", "This address is not served here.", 421)
        if origin is not None and origin not in {f"http://{host}" for host in here}:
            return _said("Not from there", "This comes from another site, and is not taken.", 403)
        if known and not hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self._cookie.encode()):
            return _said("Who are you?", "Open the link that your agent showed you. It works once, in one browser.", 403)
        return None

    async def _follow(self, request: Request) -> Response:
        """A link makes the browser that opens it the person's; then it is used up."""
        id = self._links.pop(request.path_params["token"][:LONGEST_TOKEN], None)
        if id is None:
            if hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self._cookie.encode()):
                return RedirectResponse("/", 303)
            return _said("This link was used", "It works once. Ask the app again to get another.", 403)
        response = RedirectResponse(f"/q/{id}", 303)
        response.set_cookie(COOKIE, self._cookie, httponly=True, samesite="lax", path="/")
        return response

    async def _inbox(self, request: Request) -> Response:
        asked = "".join(f'<li><a href="/q/{id}">{_escaped(each.question)}</a></li>' for id, each in self._open.items())
        words = f"<ul>{asked}</ul>" if asked else "<p>Nothing is asked now.</p>"
        return HTMLResponse(document("Open questions", f"<h1>Open questions</h1>{words}"))

    async def _show(self, request: Request) -> Response:
        id = request.path_params["id"]
        found = self._open.get(id)
        if found is None or id in self._ended:
            return self._over(id)
        return HTMLResponse(sheet(found.question, f"/q/{id}", self._guard))

    async def _take(self, request: Request) -> Response:
        id = request.path_params["id"]
        body = await _body(request)
        if body is None:
            return _said("Too large", f"An answer may have at most {MAX_BODY} bytes.", 413)
        filled = _read_form(body)
        if not hmac.compare_digest(_first(filled, "guard").encode(), self._guard.encode()):
            return _said("Not from this page", "Open the question again, and send it from there.", 403)
        found = self._open.get(id)
        if found is None or id in self._ended:
            return self._over(id)
        outcome = {"decline": Outcome.DECLINED, "cancel": Outcome.CANCELLED}.get(_first(filled, "action"), Outcome.ACCEPTED)
        given = content(found.question, filled) if outcome is Outcome.ACCEPTED else {}
        if outcome is Outcome.ACCEPTED and (problems := review(found.question, given)[1]):
            return HTMLResponse(sheet(found.question, f"/q/{id}", self._guard, filled, problems), 422)
        if found.answer(Reply(outcome, given)):
            self._end(id, _ENDED[outcome])
        return RedirectResponse(f"/q/{id}", 303)

    async def _events(self, request: Request) -> Response:
        """One event: the question has ended."""
        id = request.path_params["id"]

        async def stream() -> AsyncIterator[bytes]:
            while (ending := self._endings.get(id)) is not None and not ending.is_set():
                yield b": open\n\n"
                with anyio.move_on_after(BEAT):
                    await ending.wait()
            yield b"event: ended\ndata: " + json.dumps(self._ended.get(id, WITHDRAWN)).encode() + b"\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    def _over(self, id: str) -> Response:
        more = '<p><a href="/">Other questions</a></p>' if any(each not in self._ended for each in self._open) else "<p>You can close this page.</p>"
        return HTMLResponse(notice("Done", self._ended.get(id, WITHDRAWN), more))


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: signals are the bridge's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


_Handler = Callable[[Request], Awaitable[Response]]


def _file(name: str, kind: str) -> _Handler:
    async def serve(request: Request) -> Response:
        return Response((HERE / name).read_bytes(), media_type=kind)

    return serve


def _said(title: str, words: str, status: int) -> Response:
    return HTMLResponse(notice(title, words), status)


async def _body(request: Request) -> bytes | None:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            return None
    return data


def _read_form(body: bytes) -> dict[str, list[str]]:
    from urllib.parse import parse_qs

    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        return {}


def _first(filled: dict[str, list[str]], name: str) -> str:
    return filled.get(name, [""])[0]


def _escaped(question: Question) -> Any:
    from html import escape

    return escape(f"{question.origin}: {question.message}")
