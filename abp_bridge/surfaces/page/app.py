"""The page itself: on this machine only, at a port of its own, for whoever brings a link that has
not been used before.

It starts with the first question and ends with the session. A link works once: it makes the browser
that opens it the person's, by a cookie, and is no use to anybody who reads it later. Every request
must name this server as its host, and every answer come from a page of its own.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route, Router, request_response

from abp_bridge.core.question import FieldType, Outcome, Question
from abp_bridge.interfaces.surface import SurfaceResponse
from abp_bridge.surfaces import http
from abp_bridge.surfaces.page import form
from abp_bridge.surfaces.page.controls import (
    Filled,
    carried,
    confirms,
    content,
    input_errors,
    without,
)
from abp_bridge.surfaces.page.html import View, inbox, notice, over, sheet, summary

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

HERE = Path(__file__).parent / "static"
MAX_ENDED = 200
MAX_DRAFTS = 4  # filled-in forms that one question keeps
LONGEST_TOKEN = 64
START_LIMIT = 5.0
BEAT = 15.0  # seconds between signs of life on a stream

_CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_ENDED = {
    Outcome.ACCEPTED: "Thank you: your answer was sent to the app.",
    Outcome.DECLINED: "You declined to answer. The app has been told.",
    Outcome.CANCELLED: "You cancelled the question. The app has been told.",
}
WITHDRAWN = "This question is no longer open: it was withdrawn, and no answer is needed any more."
TIMED_OUT = "This question is no longer open: nobody answered it in time. The app has been told."
ELSEWHERE = "This question is no longer open: it was answered elsewhere."
STRANGER = "Open the link that your agent showed you. It works once, in one browser."


class OpenForm:
    """One question on the page. `url` is the link to it, good for one browser."""

    def __init__(self, question: Question, url: str) -> None:
        now, deadline = anyio.current_time(), anyio.current_effective_deadline()
        self.question = question
        self.url = url
        self.asked = datetime.now()
        self.deadline = (
            min(deadline, now + question.timeout) if question.timeout is not None else deadline
        )
        self.until = (
            self.asked + timedelta(seconds=self.deadline - now) if isfinite(self.deadline) else None
        )
        self.ending = anyio.Event()
        self.drafts: dict[str, Filled] = {}
        self.words = ""  # what to say to those who still have it open
        self.opened = False
        self._reply: SurfaceResponse | None = None
        self._done = anyio.Event()

    async def answered(self) -> SurfaceResponse:
        """The person's answer; content that fits the question, or none."""
        await self._done.wait()
        assert self._reply is not None
        return self._reply

    def answer(self, reply: SurfaceResponse, words: str = "") -> bool:
        """See `Sheet`."""
        if self._done.is_set():
            return False
        self._reply = reply
        self.close(words or ELSEWHERE)
        self._done.set()
        return True

    def close(self, words: str) -> None:
        """It is over; the first words count."""
        self.words = self.words or words
        self.drafts.clear()
        self.ending.set()

    def keep(self, filled: Filled) -> str:
        """Keep a form for later, with what no page shows again: the name to ask for it by."""
        name = secrets.token_urlsafe(8)
        self.drafts[name] = filled
        while len(self.drafts) > MAX_DRAFTS:
            del self.drafts[next(iter(self.drafts))]
        return name


@dataclass(slots=True)
class _Link:
    """The way to one question. `mark` is what the browser that has used it shows."""

    question: str
    mark: str = ""


class PageApp:
    """Implements `Page`. It lives in `tasks`, and begins with the first question."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._port = 0
        self._starting = anyio.Lock()
        # Cookies are sent to every port of this machine, and to others' servers: below a path that
        # only its own pages know, they are not.
        self._home = f"/{secrets.token_urlsafe(16)}/"
        self._cookie = secrets.token_urlsafe(32)
        self._guard = secrets.token_urlsafe(32)
        self._links: dict[str, _Link] = {}
        self._open: dict[str, OpenForm] = {}
        self._ended: dict[
            str, tuple[str, str]
        ] = {}  # of those that are over: what to say, and the link that led there
        self._version = 0
        self._changed = anyio.Event()
        self._streams = http.Streams()

    @asynccontextmanager
    async def shown(self, question: Question) -> AsyncIterator[OpenForm]:
        """The question is on the page for as long as the block lasts."""
        await self._start()
        id, token = secrets.token_urlsafe(8), secrets.token_urlsafe(32)
        made = self._open[id] = OpenForm(
            question, f"http://{http.ADDRESS}:{self._port}/open/{token}"
        )
        self._links[token] = _Link(id)
        self._turn()
        try:
            yield made
        finally:
            made.close(TIMED_OUT if anyio.current_time() >= made.deadline else WITHDRAWN)
            del self._open[id]
            self._ended[id] = made.words, token
            while len(self._ended) > MAX_ENDED:
                _, used = self._ended.pop(next(iter(self._ended)))
                del self._links[used]
            self._turn()

    def _turn(self) -> None:
        """The inbox is another now."""
        self._version += 1
        self._changed.set()
        self._changed = anyio.Event()

    # --- the server ---

    async def _start(self) -> None:
        async with self._starting:
            if self._port:
                return
            listener = http.listen()
            self._port = http.port_of(listener)
            try:
                with anyio.fail_after(START_LIMIT):
                    await self._tasks.start(http.serve, self._site(), listener)
            except BaseException:
                self._port = 0
                raise

    def _site(self) -> http.Site:
        question = f"{self._home}q/{{id}}"
        own = self._own
        routes = [
            Route("/open/{token}", self._follow),
            Route("/form.css", _file("form.css", "text/css")),
            Route("/form.js", _file("form.js", "text/javascript")),
            Route(self._home, own(self._inbox)),
            Route(f"{self._home}events", own(self._changes)),
            Route(question, own(self._show), methods=["GET"]),
            Route(question, own(self._take), methods=["POST"]),
            Route(f"{question}/check/{{draft}}", own(self._check), methods=["GET"]),
            Route(f"{question}/check/{{draft}}", own(self._send), methods=["POST"]),
            Route(f"{question}/events", own(self._events)),
        ]
        failed = _said("This went wrong", "The page failed. Go back, and try again.", 500)
        router = Router(routes, redirect_slashes=False, default=request_response(own(_nothing)))
        return http.Site(router, self._refuse, failed, {"Content-Security-Policy": _CONTENT_POLICY})

    def _refuse(self, request: Request) -> Response | None:
        """What holds for every request: who it is meant for, and where it comes from."""
        here = http.named(request, self._port)
        if not here:
            return _said("Not here", "This address is not served here.", 421)
        if http.cross_site(request, here):
            return _said("Not from there", "This comes from another site, and is not taken.", 403)
        return None

    def _own(self, handle: _Handler) -> _Handler:
        """For the person's browser alone."""

        async def checked(request: Request) -> Response:
            if not _same(request.cookies.get(self._cookie_name, ""), self._cookie):
                return _said("Who are you?", STRANGER, 403)
            return await handle(request)

        return checked

    @property
    def _cookie_name(self) -> str:
        return f"abp-{self._port}"

    # --- links ---

    async def _follow(self, request: Request) -> Response:
        """A link makes the browser that opens it the person's; then it is used up, but for that
        browser.
        """
        token = request.path_params["token"][:LONGEST_TOKEN]
        link = self._links.get(token)
        if link is None:
            return _said(
                "This link is not known",
                "It may be of a question that is long over. Ask the app again to get another.",
                403,
            )
        if link.mark:
            if _same(request.cookies.get(self._cookie_name, ""), link.mark):
                return RedirectResponse(self._address(link.question), 303)
            return _said(
                "This link was used", "It works once. Ask the app again to get another.", 403
            )
        if link.question in self._ended:
            return HTMLResponse(over(self._ended[link.question][0], self._home, 0))
        if request.method != "GET" or "prefetch" in request.headers.get(
            "sec-purpose", request.headers.get("purpose", "")
        ):
            return Response(status_code=204)  # somebody looks ahead: that is no person
        link.mark = secrets.token_urlsafe(32)
        self._open[link.question].opened = True
        response = RedirectResponse(self._address(link.question), 303)
        for value, path in ((self._cookie, self._home), (link.mark, f"/open/{token}")):
            response.set_cookie(self._cookie_name, value, httponly=True, samesite="lax", path=path)
        return response

    def _address(self, id: str) -> str:
        return f"{self._home}q/{id}"

    # --- what is open ---

    def _standing(self) -> dict[str, OpenForm]:
        return {id: each for id, each in self._open.items() if not each.words}

    def _others(self, id: str) -> int:
        return len(self._standing().keys() - {id})

    def _view(self, id: str, shown: OpenForm) -> View:
        asked = f"{shown.asked:%H:%M}"
        others = self._others(id)
        if shown.until is None:
            return View(self._home, self._address(id), self._guard, asked, others=others)
        return View(
            self._home,
            self._address(id),
            self._guard,
            asked,
            f"{shown.until:%H:%M}",
            int(shown.until.timestamp()),
            others,
        )

    async def _inbox(self, request: Request) -> Response:
        listed = [(each.question, self._view(id, each)) for id, each in self._standing().items()]
        return HTMLResponse(inbox(listed, self._home, self._version))

    async def _changes(self, request: Request) -> Response:
        """An event whenever the inbox is another than the version the client has."""

        async def stream() -> AsyncIterator[str]:
            told = -1
            while True:
                changed = self._changed
                yield f"data: {self._version}\n\n" if told != self._version else ": open\n\n"
                told = self._version
                with anyio.move_on_after(BEAT):
                    await changed.wait()

        return self._streams.response(stream())

    # --- one question ---

    def _find(self, request: Request) -> tuple[str, OpenForm | None]:
        id = request.path_params["id"]
        found = self._open.get(id)
        return id, None if found is None or found.words else found

    def _over(self, id: str) -> Response:
        if id not in self._open and id not in self._ended:
            return _said("Nothing here", "There is no such question, or it is long over.", 404)
        words = self._open[id].words if id in self._open else self._ended[id][0]
        return HTMLResponse(over(words, self._home, self._others(id)))

    async def _show(self, request: Request) -> Response:
        id, found = self._find(request)
        if found is None:
            return self._over(id)
        draft = request.query_params.get("draft", "")
        filled = found.drafts.get(draft)
        return HTMLResponse(
            sheet(found.question, self._view(id, found), filled, draft=draft if filled else "")
        )

    async def _take(self, request: Request) -> Response:
        id, found = self._find(request)
        files = found is not None and any(
            each.type is FieldType.FILE for each in found.question.fields
        )
        filled = await self._read(request, files=files)
        if isinstance(filled, Response):
            return filled
        if found is None or found.words:
            return self._over(id)
        if (outcome := _LEAVES.get(filled.first("action"))) is not None:
            return self._answer(id, found, SurfaceResponse(outcome))
        question = found.question
        if confirms(question) and filled.first("action") not in ("yes", "no"):
            return RedirectResponse(self._address(id), 303)
        filled = carried(question, filled, found.drafts.get(filled.first("draft")))
        given = content(question, filled)
        if wrong := input_errors(question, given):
            draft = found.keep(without(question, filled, wrong))
            return HTMLResponse(
                sheet(question, self._view(id, found), found.drafts[draft], wrong, draft), 422
            )
        if len(question.fields) > 1:
            return RedirectResponse(f"{self._address(id)}/check/{found.keep(filled)}", 303)
        return self._answer(id, found, SurfaceResponse(Outcome.ACCEPTED, given))

    async def _check(self, request: Request) -> Response:
        """The step before sending. What is secret stays here."""
        id, found = self._find(request)
        if found is None:
            return self._over(id)
        draft = request.path_params["draft"]
        if draft not in found.drafts:
            return RedirectResponse(self._address(id), 303)
        return HTMLResponse(
            summary(found.question, self._view(id, found), found.drafts[draft], draft)
        )

    async def _send(self, request: Request) -> Response:
        id, found = self._find(request)
        filled = await self._read(request, files=False)
        if isinstance(filled, Response):
            return filled
        if found is None or found.words:
            return self._over(id)
        draft = request.path_params["draft"]
        if (kept := found.drafts.get(draft)) is None:
            return RedirectResponse(self._address(id), 303)
        given = content(found.question, kept)
        if filled.first("action") != "send" or input_errors(found.question, given):
            return RedirectResponse(f"{self._address(id)}?draft={draft}", 303)
        return self._answer(id, found, SurfaceResponse(Outcome.ACCEPTED, given))

    async def _read(self, request: Request, *, files: bool) -> Filled | Response:
        """The form that was sent, if it is one of our own."""
        try:
            filled = await form.read(request, files=files)
        except http.FormError as why:
            return _said("Not taken", str(why), why.status)
        if not _same(filled.first("guard"), self._guard):
            return _said(
                "Not from this page", "Open the question again, and send it from there.", 403
            )
        return filled

    def _answer(self, id: str, found: OpenForm, reply: SurfaceResponse) -> Response:
        if found.answer(reply, _ENDED[reply.outcome]):
            self._turn()
        return RedirectResponse(self._address(id), 303)

    async def _events(self, request: Request) -> Response:
        """One event: the question has ended."""
        id = request.path_params["id"]
        found = self._open.get(id)

        async def stream() -> AsyncIterator[str]:
            while found is not None and not found.words:
                yield ": open\n\n"
                with anyio.move_on_after(BEAT):
                    await found.ending.wait()
            words = found.words if found is not None else self._ended.get(id, (WITHDRAWN,))[0]
            yield f"event: ended\ndata: {json.dumps(words)}\n\n"

        return self._streams.response(stream())


_LEAVES = {"decline": Outcome.DECLINED, "cancel": Outcome.CANCELLED}

_Handler = Callable[[Request], Awaitable[Response]]


async def _nothing(request: Request) -> Response:
    return _said("Nothing here", "There is nothing at this address.", 404)


def _file(name: str, kind: str) -> _Handler:
    @cache
    def read() -> bytes:
        return (HERE / name).read_bytes()

    async def respond(request: Request) -> Response:
        return Response(read(), media_type=kind)

    return respond


def _said(heading: str, words: str, status: int) -> Response:
    return HTMLResponse(notice(heading, words), status)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
