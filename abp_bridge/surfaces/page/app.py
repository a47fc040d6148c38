"""The page itself: on this machine only, at a port of its own, for whoever brings a link that has
not been used before, or to its address the code that the person was shown.

It starts with the first question and ends with the session. A link works once: it makes the browser
that opens it the person's, by a cookie, and is no use to anybody who reads it later. An address
alone shows nothing, and whoever guesses at its code ends it. What is given to commands, which
others can read, leads this user's programs alone to all that is open, in one tab. Every request
must name this server as its host, and every answer come from a page of its own.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route, Router, request_response

from abp_bridge.core.question import Outcome, Question
from abp_bridge.interfaces.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces import http
from abp_bridge.surfaces.page import browser, controls, html, peer
from abp_bridge.surfaces.page.controls import Filled
from abp_bridge.surfaces.page.form import read as read_form
from abp_bridge.surfaces.page.html import View

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent / "static"
MAX_ENDED = 200  # questions that are over, of which the page can still say how
MAX_DRAFTS = 4  # filled-in forms that one question keeps: each may hold files
LONGEST_TOKEN = 64  # characters; ours have 43
MAX_CODES = 5  # wrong codes, after which a question has none any more
CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no words come of them, and none is taken for a digit
CODE_LENGTH = 8  # letters: 34 bits, of which somebody tries `MAX_CODES`
BEAT = 15.0  # seconds between signs of life on a stream
OPEN_LIMIT = 5.0  # seconds for a browser to come, before the person is told of the page otherwise
CLOSED_LIMIT = 10.0  # seconds without a tab, for who loads it again or restores it
MAX_TABS = 1_000  # that are known to be open, of the person's own
LATE_LIMIT = 25.0  # seconds more for a slow one, where they cannot be: hosts wait for 60
TAB_LIMIT = 2.0  # seconds after a page went out, in which its tab begins to listen

_CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_ENDED = {
    Outcome.ACCEPTED: "Thank you: your answer was sent.",
    Outcome.DECLINED: "You declined to answer. Whoever asked has been told.",
    Outcome.CANCELLED: "You cancelled the question. Whoever asked has been told.",
}
WITHDRAWN = "This question is no longer open: it was withdrawn, and no answer is needed any more."
TIMED_OUT = (
    "This question is no longer open: nobody answered it in time. Whoever asked has been told."
)
ELSEWHERE = "This question is no longer open: it was answered elsewhere."
CLOSED = "This question is no longer open: its page was closed. Whoever asked has been told."
MOVED = (
    "This question is no longer open here: it is asked elsewhere, or whoever asked was told that"
    " nobody could be asked."
)
GUESSED = f"a wrong code was given {MAX_CODES} times for its page"
STRANGER = "Open the link that your agent showed you. It works once, in one browser."
NOT_OURS = (
    "Only programs of the user who runs the bridge are let in here. Open this address in a browser"
    " of that user's on this machine: from a sandbox, or by a proxy, nobody can say whose it is."
)
USED = "It works once. Have it asked again to get another."


@dataclass(slots=True)
class _Link:
    """The way to one question, also when that is over.

    `token` makes a browser the person's, once: `mark` is what that one shows since. `address` is
    the path where it finds the question, and `words` what it finds there when that is over. `code`
    does the same as the token, at another path; `wrong` counts those that were none.
    """

    id: str
    token: str
    address: str
    code: str
    mark: str = ""
    words: str = ""
    wrong: int = 0


@dataclass(slots=True)
class _Opening:
    """One try to get a browser to the page; every question that is asked meanwhile waits for it.

    `address` leads there once; `problem` is why it failed, when it is `done`; `command` may still
    bring a browser then.
    """

    address: str
    came: anyio.Event
    done: anyio.Event
    command: str = ""
    problem: str = ""


class OpenForm:
    """One question on the page. Implements `PageQuestion`.

    Attributes:
        url: The link to it, good for one browser.
        address: Where it is for whoever has the `code`.
        directions: How somebody who came over SSH gets to either, if somebody did.
        opened: Whether the person has seen it.
    """

    def __init__(self, question: Question, site: str, link: _Link, app: PageApp) -> None:
        now, deadline = anyio.current_time(), anyio.current_effective_deadline()
        if question.timeout is not None:
            deadline = min(deadline, now + question.timeout)
        left = timedelta(seconds=deadline - now) if isfinite(deadline) else None
        self.question = question
        self.url = f"{site}/open/{link.token}"
        self.address = f"{site}/code/{link.id}"
        self.code = f"{link.code[:4]}-{link.code[4:]}"
        self.directions = browser.directions(site)
        self._app = app
        self.opened = False
        self.link = link
        self.asked = datetime.now()
        self.deadline = deadline
        self.until = None if left is None else self.asked + left
        self.ending = anyio.Event()
        self.drafts: dict[str, Filled] = {}
        self._reply: SurfaceResponse | None = None
        self._refusal = ""

    async def open(self) -> str:
        """Have the person's own browser at the page (`PageQuestion.open`)."""
        return await self._app.open_browser()

    async def wait_late_browser(self) -> bool:
        """Whether one comes that did not in time (`PageQuestion.wait_late_browser`)."""
        return await self._app.wait_late_browser()

    async def wait_closed(self) -> None:
        """Wait until the person closed the page, which cancels what they saw there
        (`PageQuestion.wait_closed`).
        """
        await self._app.wait_closed()
        if self.opened:
            self.answer(SurfaceResponse(Outcome.CANCELLED), CLOSED)

    async def wait_answer(self) -> SurfaceResponse:
        """The person's answer; content that fits the question, or none.

        Raises:
            SurfaceUnsupportedError: It was refused.
        """
        await self.ending.wait()
        if self._reply is None:  # who waits for it keeps it on the page
            raise SurfaceUnsupportedError(self._refusal, lasting=False)
        return self._reply

    def refuse(self, reason: str) -> None:
        """Ask nobody here any more, unless the person has seen it or it is over
        (`PageQuestion.refuse`).
        """
        if not (self.opened or self.link.words):
            self._refusal = reason
            self.close(MOVED)

    def answer(self, reply: SurfaceResponse, words: str = "") -> bool:
        """Answer it, unless it is over: False then.

        `words` are for whoever still has it open; empty for `ELSEWHERE`.
        """
        if self.link.words:
            return False
        self._reply = reply
        self.close(words or ELSEWHERE)
        return True

    def close(self, words: str) -> None:
        """It is over; the first words count."""
        self.link.words = self.link.words or words
        self.drafts.clear()
        self.ending.set()
        self._app.signal_change()

    def keep(self, filled: Filled) -> str:
        """Keep a form for later, with what no page shows again: the name to ask for it by."""
        name = secrets.token_urlsafe(8)
        self.drafts[name] = filled
        while len(self.drafts) > MAX_DRAFTS:
            del self.drafts[next(iter(self.drafts))]
        return name


class PageApp:
    """The page of one process (`QuestionPage`).

    Its server begins with the first question, and lives in `tasks`; at `port`, or any that is free.
    """

    def __init__(self, tasks: TaskGroup, port: int = 0) -> None:
        # Cookies are sent to every port of this machine, and to others' servers: below a path that
        # only its own pages know, they are not.
        self._home = f"/{secrets.token_urlsafe(16)}/"
        self._cookie = secrets.token_urlsafe(32)
        self._guard = secrets.token_urlsafe(32)
        self._links: dict[str, _Link] = {}  # by token
        self._asked: dict[str, _Link] = {}  # by id
        self._open: dict[str, OpenForm] = {}
        self._opening: _Opening | None = None  # the last one
        self._seen = -inf  # when the person's browser last asked for a page
        self._tabs: set[str] = set()  # that say that they are open
        self._gone, self._back = anyio.Event(), anyio.Event()  # of the last tab
        self._tasks = tasks
        self._port = port
        self._version = 0
        self._changed = anyio.Event()
        self._streams = http.Streams()
        self._server = http.Server(tasks, self._site())

    @asynccontextmanager
    async def show(self, question: Question) -> AsyncIterator[OpenForm]:
        """Put the question on the page for as long as the block lasts (`QuestionPage.show`).

        Raises:
            OSError: There is no port to be served at.
            TimeoutError: The server did not start in time.
        """
        await self._server.start(self._port)
        id, token = secrets.token_urlsafe(12), secrets.token_urlsafe(32)
        code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
        link = self._links[token] = self._asked[id] = _Link(id, token, f"{self._home}q/{id}", code)
        form = self._open[id] = OpenForm(question, self._server.url, link, self)
        self.signal_change()
        try:
            yield form
        finally:
            form.close(TIMED_OUT if anyio.current_time() >= form.deadline else WITHDRAWN)
            del self._open[id]
            self._forget_old()
            self.signal_change()

    def _forget_old(self) -> None:
        over = [link for link in self._asked.values() if link.id not in self._open]
        for link in over[:-MAX_ENDED]:
            del self._asked[link.id], self._links[link.token]

    def signal_change(self) -> None:
        """The inbox is another now."""
        self._version += 1
        self._changed.set()
        self._changed = anyio.Event()

    # --- the person's browser ---

    async def open_browser(self) -> str:
        """Have it at the page, in one tab for all. Returns why that failed, or nothing."""
        with anyio.move_on_after(OPEN_LIMIT):
            await self._streams.wait_idle()  # a tab that closes now has not shown it
        listens_until = self._seen + TAB_LIMIT
        if not self._streams.open and (left := listens_until - anyio.current_time()) > 0:
            await anyio.sleep(left)
        if self._streams.open:  # a tab that shows what is asked next
            return ""
        if (opening := self._opening) is None or opening.done.is_set():
            address, came = f"{self._server.url}/go/{secrets.token_urlsafe(8)}", anyio.Event()
            if opening is not None and not opening.came.is_set():
                address, came = opening.address, opening.came  # its browser may be slow
            opening = self._opening = _Opening(address, came, anyio.Event())
            self._tasks.start_soon(self._wait_browser, opening)
        await opening.done.wait()
        return opening.problem

    async def _wait_browser(self, opening: _Opening) -> None:
        try:
            with anyio.move_on_after(OPEN_LIMIT):
                opening.command = await browser.open_browser(opening.address)
                await opening.came.wait()
        except browser.BrowserError as problem:
            opening.problem = f"No browser could be opened: {problem}"
        else:
            if not opening.came.is_set():
                command = opening.command or "its command"
                opening.problem = f"No browser could be opened: {command} ran, and none came"
        opening.done.set()

    async def wait_late_browser(self) -> bool:
        """Whether one that was opened comes after all, within `LATE_LIMIT`."""
        opening = self._opening
        if opening is None or not opening.command:
            return False
        with anyio.move_on_after(LATE_LIMIT):
            await opening.came.wait()
        return opening.came.is_set()

    async def wait_closed(self) -> None:
        """Wait until the last tab has said that it closes, and none is back in `CLOSED_LIMIT`.

        Without scripts none says anything, and this never ends.
        """
        while True:
            gone, back = self._gone, self._back
            await gone.wait()
            with anyio.move_on_after(CLOSED_LIMIT):
                await back.wait()
                continue
            return

    def _mark_seen(self) -> None:
        """The person's browser is there."""
        self._seen = anyio.current_time()
        if self._gone.is_set():
            self._back.set()
            self._gone, self._back = anyio.Event(), anyio.Event()

    # --- the server ---

    def _site(self) -> http.Site:
        question = f"{self._home}q/{{id}}"
        own, both = self._own, ["GET", "POST"]
        routes = [
            Route("/open/{token}", self._follow),
            Route("/go/{token}", self._go),
            Route("/code/{id}", self._take_code, methods=both),
            _static("form.css", "text/css"),
            _static("form.js", "text/javascript"),
            Route(self._home, own(self._inbox)),
            Route(f"{self._home}events", own(self._changes)),
            Route(f"{self._home}here/{{tab}}", own(self._come), methods=["POST"]),
            Route(f"{self._home}left/{{tab}}", self._leave, methods=["POST"]),
            Route(question, self._of_question(self._fill), methods=both),
            Route(f"{question}/check/{{draft}}", self._of_question(self._check), methods=both),
            Route(f"{question}/events", own(self._events)),
        ]
        router = Router(routes, redirect_slashes=False, default=request_response(own(_not_found)))
        return http.Site(router, _REFUSALS, {"Content-Security-Policy": _CONTENT_POLICY})

    def _own(self, handle: _Handler) -> _Handler:
        """For the person's browser alone."""

        async def respond(request: Request) -> Response:
            if not _same(request.cookies.get(self._cookie_name, ""), self._cookie):
                return _notice("Who are you?", STRANGER, 403)
            self._mark_seen()
            return await handle(request)

        return respond

    @property
    def _cookie_name(self) -> str:
        return f"abp-{self._server.port}"

    # --- links ---

    async def _follow(self, request: Request) -> Response:
        """A link makes the browser that opens it the person's; then it is used up, but for that
        browser.
        """
        token = request.path_params["token"][:LONGEST_TOKEN]
        link = self._links.get(token)
        if link is None:
            return _notice(
                "This link is not known",
                "It may be of a question that is long over. Have it asked again to get another.",
                403,
            )
        if link.mark or link.id not in self._open:
            return self._show_used(request, link)
        if _looks_ahead(request):
            return Response(status_code=204)
        return self._admit(request, link)

    async def _take_code(self, request: Request) -> Response:
        """Whoever has its code is let in as by its link; who has none sees nothing of it."""
        link = self._asked.get(request.path_params["id"])
        if link is None:
            return _notice("Nothing here", "There is no such question, or it is long over.", 404)
        if link.mark or link.words:
            return self._show_used(request, link)
        if request.method != "POST":
            return HTMLResponse(html.code_page(link.wrong and MAX_CODES - link.wrong))
        try:
            given = (await read_form(request, files=False)).first("code")
        except http.FormError as why:
            return _notice("Not taken", str(why), why.status)
        if not await _is_own_user(request):  # a code may stand where others can read it
            return _notice("Not your page", NOT_OURS, 403)
        if link.mark or link.words:  # meanwhile
            return self._show_used(request, link)
        if _same("".join(filter(str.isalpha, given.upper())), link.code):
            return self._admit(request, link)
        link.wrong += 1
        if link.wrong >= MAX_CODES:
            logger.warning("%s", GUESSED)
            self._open[link.id].refuse(GUESSED)
            link.mark = "" if link.words else secrets.token_urlsafe(32)  # the person has it open
            return self._show_used(request, link)
        return HTMLResponse(html.code_page(MAX_CODES - link.wrong), 403)

    def _admit(self, request: Request, link: _Link) -> Response:
        """To the question, in a browser that alone may come this way again."""
        link.mark = secrets.token_urlsafe(32)
        return self._welcome(link.address, {request.url.path: link.mark})

    def _show_used(self, request: Request, link: _Link) -> Response:
        """What is behind a link that lets nobody in any more but the browser that it let in."""
        if not link.mark:
            return HTMLResponse(html.closed_page(link.words))
        if _same(request.cookies.get(self._cookie_name, ""), link.mark):
            return RedirectResponse(link.address, 303)
        return _notice("This link was used", USED, 403)

    async def _go(self, request: Request) -> Response:
        """The person's browser comes, led by a command that others may have read: to the question,
        to all where there are several, or where it is too late to how the last one ended.
        """
        opening = self._opening
        if opening is None or not _same(request.url.path, urlsplit(opening.address).path):
            return _notice("This link is not known", USED, 403)
        if not await _is_own_user(request):
            return _notice("Not your page", NOT_OURS, 403)
        if _looks_ahead(request):
            return Response(status_code=204)
        if opening.came.is_set():
            return _notice("This link was used", USED, 403)
        opening.came.set()
        links = [each.link for each in self._unanswered().values()] or [*self._asked.values()][-1:]
        return self._welcome(links[0].address if len(links) == 1 else self._home, {})

    def _welcome(self, address: str, marks: Mapping[str, str]) -> Response:
        """To `address`, in a browser that is the person's from now on, and has the `marks` below
        their paths.
        """
        self._mark_seen()
        response = RedirectResponse(address, 303)
        for path, value in {self._home: self._cookie, **marks}.items():
            response.set_cookie(self._cookie_name, value, httponly=True, samesite="lax", path=path)
        return response

    # --- what is open ---

    def _unanswered(self) -> dict[str, OpenForm]:
        return {id: each for id, each in self._open.items() if not each.link.words}

    def _view(self, form: OpenForm) -> View:
        others = len(self._unanswered().keys() - {form.link.id})
        place = (self._home, form.link.address, self._guard)
        return View(*place, form.asked, form.until, others, self._version)

    def _list(self) -> html.Inbox:
        listed = [(each.question, self._view(each)) for each in self._unanswered().values()]
        return html.Inbox(self._home, self._version, listed)

    async def _come(self, request: Request) -> Response:
        """A tab is there, whatever of the page it shows."""
        if len(self._tabs) < MAX_TABS:
            self._tabs.add(request.path_params["tab"][:LONGEST_TOKEN])
        return Response(status_code=204)

    async def _leave(self, request: Request) -> Response:
        """It is not: closed, or on its way to another page. Who does not know its name is nobody's
        tab.
        """
        tab = request.path_params["tab"][:LONGEST_TOKEN]
        if tab in self._tabs:
            self._tabs.remove(tab)
            if not self._tabs:
                self._gone.set()
        return Response(status_code=204)

    async def _inbox(self, request: Request) -> Response:
        return HTMLResponse(html.inbox_page(self._list()))

    async def _changes(self, request: Request) -> Response:
        """An event whenever the inbox is another than the version the client has."""

        return self._streams.response(self._versions(lambda: True))

    async def _versions(self, goes_on: Callable[[], bool]) -> AsyncIterator[str]:
        seen = -1
        while goes_on():
            changed = self._changed
            yield f"data: {self._version}\n\n" if seen != self._version else ": open\n\n"
            seen = self._version
            with anyio.move_on_after(BEAT):
                await changed.wait()

    # --- one question ---

    def _of_question(self, handle: _FormHandler) -> _Handler:
        """For a question that is open, with the form that was sent; else it is said to be over."""

        async def respond(request: Request) -> Response:
            id = request.path_params["id"]
            sent = None
            if request.method == "POST":
                form = self._unanswered().get(id)
                again = "draft" in request.path_params
                files = form is not None and not again and controls.takes_files(form.question)
                try:
                    sent = await read_form(request, files=files)
                except http.FormError as why:
                    return _notice("Not taken", str(why), why.status, self._list())
                if not _same(sent.first("guard"), self._guard):
                    words = "Open the question again, and send it from there."
                    return _notice("Not from this page", words, 403, self._list())
            form = self._unanswered().get(id)
            if form is None:
                return self._show_closed(id)
            form.opened = True
            return handle(request, form, sent)

        return self._own(respond)

    def _show_closed(self, id: str) -> Response:
        if (link := self._asked.get(id)) is None:
            return _notice("Nothing here", "There is no such question, or it is long over.", 404)
        return HTMLResponse(html.closed_page(link.words, self._list()))

    def _fill(self, request: Request, form: OpenForm, sent: Filled | None) -> Response:
        question = form.question
        if sent is None:
            draft = request.query_params.get("draft", "")
            kept = form.drafts.get(draft)
            page = html.question_page(question, self._view(form), kept, draft=draft if kept else "")
            return HTMLResponse(page)
        action = sent.first("action")
        if (outcome := _LEAVES.get(action)) is not None:
            return self._answer(form, SurfaceResponse(outcome))
        if controls.confirms(question) and action not in ("yes", "no"):
            return RedirectResponse(form.link.address, 303)
        filled = controls.merge_kept(question, sent, form.drafts.get(sent.first("draft")))
        if (changed := controls.change_rows(question, filled)) is not None:
            kept, place = changed
            return RedirectResponse(f"{form.link.address}?draft={form.keep(kept)}#{place}", 303)
        given = controls.content(question, filled)
        if wrong := controls.input_errors(question, given):
            kept = controls.drop_wrong(question, filled, wrong)
            page = html.question_page(question, self._view(form), kept, wrong, form.keep(kept))
            return HTMLResponse(page, 422)
        if len(question.fields) > 1:
            return RedirectResponse(f"{form.link.address}/check/{form.keep(filled)}", 303)
        return self._answer(form, SurfaceResponse(Outcome.ACCEPTED, given))

    def _check(self, request: Request, form: OpenForm, sent: Filled | None) -> Response:
        """The step before sending. What is secret stays here."""
        draft = request.path_params["draft"]
        if (kept := form.drafts.get(draft)) is None:
            return RedirectResponse(form.link.address, 303)
        if sent is None:
            return HTMLResponse(html.summary_page(form.question, self._view(form), kept, draft))
        given = controls.content(form.question, kept)
        if sent.first("action") != "send" or controls.input_errors(form.question, given):
            return RedirectResponse(f"{form.link.address}?draft={draft}", 303)
        return self._answer(form, SurfaceResponse(Outcome.ACCEPTED, given))

    def _answer(self, form: OpenForm, reply: SurfaceResponse) -> Response:
        form.answer(reply, _ENDED[reply.outcome])
        return RedirectResponse(form.link.address, 303)

    async def _events(self, request: Request) -> Response:
        """What is open changes, until the question has ended: then one event says so."""
        id = request.path_params["id"]
        form, link = self._open.get(id), self._asked.get(id)

        async def stream() -> AsyncIterator[str]:
            async for event in self._versions(lambda: form is not None and not form.link.words):
                yield event
            words = WITHDRAWN if link is None else link.words
            yield f"event: ended\ndata: {json.dumps(words)}\n\n"

        return self._streams.response(stream())


_LEAVES = {"decline": Outcome.DECLINED, "cancel": Outcome.CANCELLED}

_Handler = Callable[[Request], Awaitable[Response]]
_FormHandler = Callable[[Request, OpenForm, Filled | None], Response]


async def _not_found(request: Request) -> Response:
    return _notice("Nothing here", "There is nothing at this address.", 404)


async def _is_own_user(request: Request) -> bool:
    client, server = request.scope["client"], request.scope["server"]
    return await anyio.to_thread.run_sync(peer.is_own_user, tuple(client), tuple(server))


def _looks_ahead(request: Request) -> bool:
    """Whether no person asks for this yet."""
    purpose = request.headers.get("sec-purpose", request.headers.get("purpose", ""))
    return request.method != "GET" or "prefetch" in purpose


def _static(name: str, media_type: str) -> Route:
    response = Response((HERE / name).read_bytes(), media_type=media_type)
    return Route(f"/{name}", response, methods=["GET"])


def _notice(heading: str, words: str, status: int, inbox: html.Inbox | None = None) -> Response:
    """A page that says something; with the `inbox` to its person, whose tab is still there."""
    return HTMLResponse(html.notice_page(heading, words, inbox), status)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


_REFUSALS = {
    421: _notice("Not here", "This address is not served here.", 421),
    403: _notice("Not from there", "This comes from another site, and is not taken.", 403),
    500: _notice("This went wrong", "The page failed. Go back, and try again.", 500),
}
