"""The page's server: on this machine only, at its own port, for the user's browser alone.

A link works once: it gives the browser that opens it a cookie. An address alone shows nothing and
asks for the code, which ends after `MAX_CODES` wrong ones. A link that a command opens, where other
users may read it, works for programs of this user only and leads to all open questions.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
from starlette.background import BackgroundTask
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from abp_bridge.core.outcome import BY_ACTION, Action, Outcome
from abp_bridge.core.question import Question
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import Ending, SurfaceResponse
from abp_bridge.surfaces import http
from abp_bridge.surfaces.page import controls, html
from abp_bridge.surfaces.page.browser import MAX_CODES, Link, Links, Visits, same
from abp_bridge.surfaces.page.controls import Filled, confirms
from abp_bridge.surfaces.page.form import OpenForm, read_form
from abp_bridge.surfaces.page.html import View
from abp_bridge.surfaces.page.web import (
    STATIC,
    Handler,
    is_own_user,
    looks_ahead,
    make_site,
    readers_words,
    static,
)
from abp_bridge.surfaces.page.words import Words

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

BEAT = 15.0  # seconds between signs of life on a stream
RETRY = 1_000  # milliseconds after which a browser comes back to a stream that broke
GUESSED = f"a wrong code was given {MAX_CODES} times for its page"


class PageSite:
    """The page of one process. Its server starts with the first question."""

    def __init__(self, tasks: TaskGroup, port: int = 0) -> None:
        # Cookies are sent to every port of this machine, and to others' servers: below a path that
        # only its own pages know, they are not.
        self._home = f"/{secrets.token_urlsafe(16)}/"
        self._cookie = secrets.token_urlsafe(32)
        self._guard = secrets.token_urlsafe(32)
        self._key = secrets.token_bytes(32)  # only pages have it, and none sends it
        self._links = Links(self._home)
        self._open: dict[str, OpenForm] = {}
        self._port = port
        self._version = 0
        self._changed = anyio.Event()
        self._streams = http.Streams()
        # a question whose browser comes once more -> until when that is waited for
        self._unshown: dict[str, float] = {}
        self._server = http.Server(tasks, self._site(), self._wait_shown)
        self._visits = Visits(tasks, self._server, self._streams)
        self.open_browser = self._visits.open_browser
        self.wait_late_browser = self._visits.wait_late_browser

    @asynccontextmanager
    async def open_form(self, question: Question, context: AskContext) -> AsyncIterator[OpenForm]:
        """Put the question on the page for as long as the block lasts (`Page.show`).

        Raises:
            OSError: The port cannot be used.
        """
        await self._server.start(self._port)
        link = self._links.add(question.summary)
        form = OpenForm(
            question,
            context,
            self._server.url,
            link,
            self._visits,
            on_change=self.signal_change,
            renew=partial(self._links.renew, link),
        )
        self._open[link.id] = form
        if context.asking is not None:
            context.asking.renew_url = form.renew_url
        self.signal_change()
        try:
            yield form
        finally:
            if context.asking is not None:
                context.asking.renew_url = None
            is_late = anyio.current_time() >= form.deadline
            form.finish(Ending.TIMED_OUT if is_late else Ending.WITHDRAWN)
            del self._open[link.id]
            self._links.forget_old(self._open)
            self.signal_change()

    def signal_change(self) -> None:
        """Tell every stream that the inbox has changed."""
        self._version += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def _mark_shown(self, id: str) -> None:
        if self._unshown.pop(id, None) is not None:
            self.signal_change()

    async def _wait_shown(self) -> None:
        """Wait until the user who just answered sees that it was sent."""
        while (until := max(self._unshown.values(), default=0.0)) > anyio.current_time():
            changed = self._changed
            with anyio.move_on_after(until - anyio.current_time()):
                await changed.wait()

    # --- the server ---

    def _site(self) -> http.Site:
        question = f"{self._home}q/{{id}}"
        for_person, both = self._for_person, ["GET", "POST"]
        routes = [
            Route("/open/{token}", self._follow),
            Route("/go/{token}", self._go),
            Route("/code/{id}", self._take_code, methods=both),
            static(STATIC / "form.css", "text/css"),
            static(STATIC / "pointer.js", "text/javascript"),
            static(STATIC / "form.js", "text/javascript"),
            Route(self._home, for_person(self._inbox)),
            Route(f"{self._home}events", for_person(self._changes)),
            Route(f"{self._home}proof/{{nonce}}", self._prove),
            Route(f"{self._home}here/{{tab}}", for_person(self._come), methods=["POST"]),
            Route(f"{self._home}left/{{tab}}", self._leave, methods=["POST"]),
            Route(question, self._of_question(self._fill), methods=both),
            Route(f"{question}/check/{{draft}}", self._of_question(self._check), methods=both),
            Route(f"{question}/events", for_person(self._events)),
        ]
        return make_site(routes, _notice, for_person)

    def _for_person(self, handle: Handler) -> Handler:
        """Admit the user's browser only."""

        async def respond(request: Request) -> Response:
            if not same(request.cookies.get(self._cookie_name, ""), self._cookie):
                return _notice(request, "refused.stranger", 403)
            self._visits.mark_seen()
            return await handle(request)

        return respond

    @property
    def _cookie_name(self) -> str:
        return f"abp-{self._server.port}"

    # --- links ---

    async def _follow(self, request: Request) -> Response:
        """Admit the first browser that opens a link."""
        link = self._links.by_token(request.path_params["token"])
        if link is None:
            return _notice(request, "refused.link", 403)
        if link.mark or link.id not in self._open:
            return self._show_used(request, link)
        if looks_ahead(request):
            return Response(status_code=204)
        return self._admit(request, link)

    async def _take_code(self, request: Request) -> Response:
        """Admit a browser that gives the code."""
        words = readers_words(request)
        link = self._links.by_id(request.path_params["id"])
        if link is None:
            said = words("refused.question_words")
            return _notice(request, "refused.nothing", 404, said=said)
        if link.mark or link.ending:
            return self._show_used(request, link)
        if request.method != "POST":
            return HTMLResponse(html.code_page(link.wrong and MAX_CODES - link.wrong, words))
        try:
            given = (await read_form(request, files=False)).first("code")
        except http.FormError as why:
            return _not_taken(request, why)
        if not await is_own_user(request):  # a code may stand where others can read it
            return _notice(request, "refused.user", 403)
        if link.mark or link.ending:  # meanwhile
            return self._show_used(request, link)
        if link.is_code(given):
            return self._admit(request, link)
        if link.wrong >= MAX_CODES:
            logger.warning("%s", GUESSED)
            self._open[link.id].refuse(GUESSED)
            if not link.ending:  # the person has it open
                link.use()
            return self._show_used(request, link)
        return HTMLResponse(html.code_page(MAX_CODES - link.wrong, words), 403)

    def _admit(self, request: Request, link: Link) -> Response:
        return self._welcome(link.address, {request.url.path: link.use()})

    def _show_used(self, request: Request, link: Link) -> Response:
        """Respond to a used link: only the admitted browser gets to the question."""
        if not link.mark:
            ending = link.ending or Ending.WITHDRAWN
            return HTMLResponse(html.closed_page(ending, readers_words(request)))
        if same(request.cookies.get(self._cookie_name, ""), link.mark):
            return RedirectResponse(link.address, 303)
        return _notice(request, "refused.used", 403)

    async def _go(self, request: Request) -> Response:
        """Admit the browser that a command opened: to the only question, to all, or to the last
        ending.
        """
        opening = self._visits.opening
        if opening is None or not same(request.url.path, opening.path):
            said = readers_words(request)("refused.used_words")
            return _notice(request, "refused.link", 403, said=said)
        if not await is_own_user(request):
            return _notice(request, "refused.user", 403)
        if looks_ahead(request):
            return Response(status_code=204)
        if opening.came.is_set():
            return _notice(request, "refused.used", 403)
        opening.came.set()
        links = [each.link for each in self._unanswered().values()]
        if not links and self._links.last is not None:
            links = [self._links.last]
        return self._welcome(links[0].address if len(links) == 1 else self._home, {})

    def _welcome(self, address: str, marks: Mapping[str, str]) -> Response:
        """Redirect to `address` with the cookies of the user's browser."""
        self._visits.mark_seen()
        response = RedirectResponse(address, 303)
        for path, value in {self._home: self._cookie, **marks}.items():
            response.set_cookie(self._cookie_name, value, httponly=True, samesite="lax", path=path)
        return response

    # --- what is open ---

    def _unanswered(self) -> dict[str, OpenForm]:
        return {id: each for id, each in self._open.items() if not each.link.ending}

    def _view(self, form: OpenForm, words: Words) -> View:
        return View(
            self._home,
            form.link.address,
            self._guard,
            form.asked,
            form.until,
            form.extends,
            others=len(self._unanswered().keys() - {form.link.id}),
            version=self._version,
            kept=form.last_draft is not None,
            words=words,
            key=self._key.hex(),
            context=form.context,
        )

    def _list(self, words: Words) -> html.Inbox:
        """List the open questions; postponed ones come last."""
        forms = sorted(self._unanswered().values(), key=lambda each: each.postponed)
        listed = [(each.question, self._view(each, words)) for each in forms]
        return html.Inbox(self._home, self._version, listed, self._key.hex())

    async def _prove(self, request: Request) -> Response:
        """Prove that this is still the same bridge: another program on its port lacks the key.

        The page asks without its cookie, before it sends or loads anything.
        """
        nonce = request.path_params["nonce"]
        proof = hmac.digest(self._key, f"proof {nonce}".encode(errors="replace"), "sha256")
        return Response(proof.hex(), media_type="text/plain")

    async def _come(self, request: Request) -> Response:
        self._visits.come(request.path_params["tab"])
        return Response(status_code=204)

    async def _leave(self, request: Request) -> Response:
        self._visits.leave(request.path_params["tab"])
        return Response(status_code=204)

    async def _inbox(self, request: Request) -> Response:
        words = readers_words(request)
        return HTMLResponse(html.inbox_page(self._list(words), words))

    async def _changes(self, request: Request) -> Response:
        """Send an event for each new version of the inbox."""

        return self._streams.response(self._versions(lambda: True))

    async def _versions(self, goes_on: Callable[[], bool]) -> AsyncIterator[str]:
        seen = -1
        yield f"retry: {RETRY}\n\n"
        while goes_on():
            changed = self._changed
            yield f"data: {self._version}\n\n" if seen != self._version else ": open\n\n"
            seen = self._version
            with anyio.move_on_after(BEAT):
                await changed.wait()

    # --- one question ---

    def _of_question(self, handle: _FormHandler) -> Handler:
        """Call `handle` with an open question and the form that was sent."""

        async def respond(request: Request) -> Response:
            id, words = request.path_params["id"], readers_words(request)
            sent = None
            if request.method == "POST":
                form = self._unanswered().get(id)
                again = "draft" in request.path_params
                files = form is not None and not again and controls.takes_files(form.question)
                try:
                    sent = await read_form(request, files=files)
                except http.FormError as why:
                    return _not_taken(request, why, self._list(words))
                if not same(sent.first("guard"), self._guard):
                    return _notice(request, "refused.page", 403, self._list(words))
            form = self._unanswered().get(id)
            if form is None:
                return self._show_closed(request, id)
            form.opened = True
            return handle(request, form, sent)

        return self._for_person(respond)

    def _show_closed(self, request: Request, id: str) -> Response:
        words = readers_words(request)
        if (link := self._links.by_id(id)) is None:
            said = words("refused.question_words")
            return _notice(request, "refused.nothing", 404, said=said)
        ending = link.ending or Ending.WITHDRAWN
        if request.method == "POST":
            if _is_script(request):
                return JSONResponse({"problem": html.late_words(ending, words)}, 409)
            return RedirectResponse(f"{link.address}?late", 303)
        ways = {"asked": link.asked, "all_open": link.inbox}
        late = "late" in request.query_params
        page = html.closed_page(ending, words, self._list(words), late=late, **ways)
        return HTMLResponse(page, background=BackgroundTask(self._mark_shown, id))

    def _fill(self, request: Request, form: OpenForm, sent: Filled | None) -> Response:
        if sent is None:
            words = readers_words(request)
            if (kept := form.last_draft) is None:
                return HTMLResponse(html.question_page(form.question, self._view(form, words)))
            view = self._view(form, words)
            page = html.question_page(form.question, view, kept.filled, kept.wrong, kept.name)
            return HTMLResponse(page)
        return self._take(request, form, sent)

    def _take(self, request: Request, form: OpenForm, sent: Filled) -> Response:
        """Respond to a form with a redirect, so that Back and Reload never send it again."""
        question, address = form.question, form.link.address
        action = sent.first("action")
        if (outcome := _LEAVES.get(action)) is not None:
            return self._submit(request, form, SurfaceResponse(outcome))
        brings = not (action == "more" and _is_script(request))  # what is filled in
        if brings and not controls.has_counts(question, sent):
            problem = http.FormError("It does not say how many entries a list has.", 400)
            return _not_taken(request, problem, self._list(readers_words(request)))
        before = form.draft(sent.first("draft"))
        filled = controls.merge_kept(question, sent, before.filled if before else None)
        if action in _STAYS:
            return self._stay(request, form, filled, action)
        if confirms(question) and action not in ("yes", "no"):
            return _lead(request, address)
        if (changed := controls.change_rows(question, filled)) is not None:
            kept, place = changed
            return _lead(request, f"{address}?draft={form.keep(kept).name}#{place}")
        given = controls.content(question, filled)
        if wrong := controls.input_errors(question, given, readers_words(request)):
            kept = controls.drop_wrong(question, filled, wrong)
            return _lead(request, f"{address}?draft={form.keep(kept, wrong).name}")
        if len(question.fields) > 1:
            return _lead(request, f"{address}/check/{form.keep(filled).name}")
        return self._submit(request, form, SurfaceResponse(Outcome.ACCEPTED, given))

    def _stay(self, request: Request, form: OpenForm, filled: Filled, action: str) -> Response:
        """Keep the question open with what was entered, for later or for longer."""
        stays_filled_in = confirms(form.question) or (action == "more" and _is_script(request))
        kept = None if stays_filled_in else form.keep(filled)
        if action == "later":
            form.postponed = 1 + max(each.postponed for each in self._open.values())
            self.signal_change()
            return _lead(request, self._home)
        form.extend()
        return _lead(request, f"{form.link.address}{f'?draft={kept.name}' if kept else ''}")

    def _check(self, request: Request, form: OpenForm, sent: Filled | None) -> Response:
        """Show the check before sending, or send. Secrets stay here."""
        words = readers_words(request)
        if (kept := form.draft(request.path_params["draft"])) is None:
            return _lead(request, form.link.address)
        if sent is None:
            view = self._view(form, words)
            return HTMLResponse(html.summary_page(form.question, view, kept.filled, kept.name))
        given = controls.content(form.question, kept.filled)
        if sent.first("action") != "send" or controls.input_errors(form.question, given, words):
            again = form.keep(kept.filled)  # the last there is: so Back finds the same
            return _lead(request, f"{form.link.address}?draft={again.name}")
        return self._submit(request, form, SurfaceResponse(Outcome.ACCEPTED, given))

    def _submit(self, request: Request, form: OpenForm, reply: SurfaceResponse) -> Response:
        if form.answer(reply, Ending(reply.outcome.row.page)):
            now = anyio.current_time()
            unshown = {id: until for id, until in self._unshown.items() if until > now}
            self._unshown = {**unshown, form.link.id: now + http.CLOSE_LIMIT}
        return _lead(request, form.link.address)

    async def _events(self, request: Request) -> Response:
        """Send changes and the deadline, then one event when the question ends."""
        id, words = request.path_params["id"], readers_words(request)
        form, link = self._open.get(id), self._links.by_id(id)

        async def stream() -> AsyncIterator[str]:
            async for event in self._versions(lambda: form is not None and not form.link.ending):
                yield event
                until = None if form is None else form.until
                if until is not None:
                    yield f"event: time\ndata: {int(until.timestamp())}\n\n"
            ending = (link and link.ending) or Ending.WITHDRAWN
            said = {"words": html.ending_words(ending, words), "sent": ending is Ending.SENT}
            yield f"event: ended\ndata: {json.dumps(said)}\n\n"

        return self._streams.response(stream())


_LEAVES = {each.value: BY_ACTION[each] for each in (Action.DECLINE, Action.CANCEL)}
_STAYS = ("later", "more")

_FormHandler = Callable[[Request, OpenForm, Filled | None], Response]


def _is_script(request: HTTPConnection) -> bool:
    """Return whether the page's script made the request."""
    return request.headers.get("accept") == "application/json"


def _lead(request: Request, address: str) -> Response:
    """Redirect to a page, or give its address to the page's script."""
    if _is_script(request):
        return JSONResponse({"to": address})
    return RedirectResponse(address, 303)


def _notice(
    request: HTTPConnection,
    key: str,
    status: int,
    inbox: html.Inbox | None = None,
    said: str = "",
) -> Response:
    """Respond with a message; with the `inbox` for the user."""
    words = readers_words(request)
    if _is_script(request):
        return JSONResponse({"problem": said or words(f"{key}_words")}, status)
    return HTMLResponse(html.notice_page(key, words, inbox, said), status)


def _not_taken(
    request: HTTPConnection, why: http.FormError, inbox: html.Inbox | None = None
) -> Response:
    said = readers_words(request)(f"refused.form_{why.status}")
    return _notice(request, "refused.form", why.status, inbox, said)
