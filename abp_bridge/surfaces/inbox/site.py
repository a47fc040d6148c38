"""The inbox itself: at a fixed address of this machine, for browsers that were paired.

A browser is paired by a code that its person was shown, or by an address that works once and was
opened for them, and stays paired until it is forgotten. Nothing is answered here: a press leads by
a link of the question's own bridge to its page. Every request must come from this user's programs,
and name this server as its host.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from math import inf
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from abp_bridge.jsonrpc.files import PlaceError
from abp_bridge.surfaces import http
from abp_bridge.surfaces.inbox import bridges, history, html, pairing
from abp_bridge.surfaces.inbox.bridges import Bridge, BridgeError, Overview
from abp_bridge.surfaces.inbox.open_question import OpenQuestion
from abp_bridge.surfaces.inbox.pairing import Pairing
from abp_bridge.surfaces.page.browser import same
from abp_bridge.surfaces.page.form import read_form
from abp_bridge.surfaces.page.web import (
    STATIC,
    Handler,
    is_own_user,
    looks_ahead,
    make_site,
    readers_words,
    static,
)

COOKIE = "abp-inbox"
COOKIE_AGE = 400 * 86_400  # seconds: what browsers keep at most, anew with each visit
MAX_CODES = 5  # wrong codes, after which there is none any more
CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no words come of them, and none is taken for a digit
CODE_LENGTH = 8  # letters
LOOK_EVERY = 1.0  # seconds between two looks at the bridges while somebody watches
BEAT = 15  # looks between signs of life on a stream
HERE = Path(__file__).parent / "static"


class Invitation:
    """How one browser more is paired, once: by a code, or by the path that it is opened at."""

    def __init__(self) -> None:
        self.code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
        self.path = f"/go/{secrets.token_urlsafe(8)}"
        self.is_open = True
        self._left = MAX_CODES

    @property
    def shown_code(self) -> str:
        """The code as a person reads it."""
        return f"{self.code[:4]}-{self.code[4:]}"

    def take_code(self, given: str) -> bool:
        """Whether that is the code; a wrong one is counted, and the last one ends it."""
        letters = "".join(filter(str.isalpha, given.upper()))
        right = same(letters, self.code)
        self._left -= not right
        self.is_open = self.is_open and self._left > 0
        return self.is_open and right


class Lookout:
    """What is open at all bridges, for all who watch: looked at once in `LOOK_EVERY`."""

    def __init__(self) -> None:
        self._found = Overview()
        self._looked = -inf
        self._looking = anyio.Lock()

    async def find(self, age: float = 0.0) -> Overview:
        """What is open now, or was at most `age` seconds ago."""
        asked = anyio.current_time()
        async with self._looking:
            if self._looked < asked - age:
                self._looked = anyio.current_time()
                self._found = await bridges.look()
            return self._found


class InboxSite:
    """The inbox of one user.

    Args:
        tasks: Where its server lives.
        kept: The browsers that are paired.
        invitation: How another is; None where none is.
    """

    def __init__(self, tasks: TaskGroup, kept: Pairing, invitation: Invitation | None) -> None:
        self._home = f"/{kept.home}/"
        self._key = kept.key
        self._invitation = invitation
        self._guard = secrets.token_urlsafe(32)
        self._lookout = Lookout()
        self._streams = http.Streams()
        self._server = http.Server(tasks, self._site())

    async def start(self, port: int) -> str:
        """Serve at `port`. Returns the address.

        Raises:
            OSError: The port cannot be used.
        """
        await self._server.start(port)
        return self._server.url

    def _site(self) -> http.Site:
        for_paired, home = self._for_paired, self._home
        routes = [
            Route("/", _same_user(self._enter), methods=["GET", "POST"]),
            Route("/go/{token}", _same_user(self._go)),
            static(STATIC / "form.css", "text/css", _same_user),  # the look is the page's
            static(HERE / "inbox.css", "text/css", _same_user),
            static(STATIC / "pointer.js", "text/javascript", _same_user),
            static(HERE / "inbox.js", "text/javascript", _same_user),
            Route(home, for_paired(self._list)),
            Route(f"{home}events", for_paired(self._events)),
            Route(f"{home}next", for_paired(self._next)),
            Route(f"{home}open/{{bridge}}/{{id}}", for_paired(self._open)),
            Route(f"{home}forget", for_paired(self._forget), methods=["POST"]),
        ]
        return make_site(routes, _notice, _same_user)

    def _for_paired(self, handle: Handler) -> Handler:
        """For paired browsers of this user's alone."""

        async def respond(request: Request) -> Response:
            if not _admits(_secret(request)):
                return _notice(request, "all.unpaired", 403)
            return await handle(request)

        return _same_user(respond)

    # --- pairing ---

    async def _enter(self, request: Request) -> Response:
        """The fixed address: says nothing of what is asked, and takes the code. A script that knows
        where its person's inbox is goes there.
        """
        invitation = self._invitation
        invited = invitation is not None and invitation.is_open
        if request.method != "POST":
            page = html.entrance_page(readers_words(request), self._server.port, invited=invited)
            return HTMLResponse(page)
        try:
            given = (await read_form(request, files=False)).first("code")
        except http.FormError as why:
            return _notice(request, "refused.form", why.status, f"refused.form_{why.status}")
        if invitation is None or not invitation.is_open:
            return _notice(request, "all.unpaired", 403)
        if invitation.take_code(given):
            return self._pair(invitation)
        words = readers_words(request)
        port, invited = self._server.port, invitation.is_open
        return HTMLResponse(html.entrance_page(words, port, invited=invited, wrong=True), 403)

    async def _go(self, request: Request) -> Response:
        """A browser that was opened for the person comes, led by a command that others may have
        read.
        """
        invitation = self._invitation
        if invitation is None or not same(request.url.path, invitation.path):
            return _notice(request, "refused.link", 403, "all.unpaired_words")
        if looks_ahead(request):
            return Response(status_code=204)
        if not invitation.is_open:
            return _notice(request, "refused.used", 403, "all.unpaired_words")
        return self._pair(invitation)

    def _pair(self, invitation: Invitation) -> Response:
        invitation.is_open = False
        kept, secret = (pairing.load() or Pairing(self._home.strip("/"), self._key)).add()
        pairing.save(kept)
        return self._keep_cookie(RedirectResponse(self._home, 303), secret)

    def _keep_cookie(self, response: Response, secret: str) -> Response:
        """Cookies do not know ports: below a path that only these pages know, no other server of
        this machine gets it.
        """
        response.set_cookie(
            COOKIE, secret, COOKIE_AGE, path=self._home, httponly=True, samesite="strict"
        )
        return response

    async def _forget(self, request: Request) -> Response:
        try:
            guard = (await read_form(request, files=False)).first("guard")
        except http.FormError as why:
            return _notice(request, "refused.form", why.status, f"refused.form_{why.status}")
        kept = pairing.load()
        if kept is None or not same(guard, self._guard):
            return _notice(request, "refused.page", 403)
        pairing.save(kept.remove(_secret(request)))
        response = _notice(request, "all.forgotten", 200, "all.unpaired_words")
        response.delete_cookie(COOKIE, path=self._home)
        return response

    # --- the list ---

    async def _list(self, request: Request) -> Response:
        found = await self._lookout.find()
        kept = pairing.load()
        page = html.inbox_page(
            self._home,
            found,
            _version(found),
            past=await anyio.to_thread.run_sync(history.read),
            paired=[] if kept is None else sorted(kept.browsers.values()),
            guard=self._guard,
            words=readers_words(request),
        )
        return self._keep_cookie(HTMLResponse(page), _secret(request))

    async def _events(self, request: Request) -> Response:
        """An event whenever the list is another, for as long as the browser is paired."""
        secret = _secret(request)

        async def versions() -> AsyncIterator[str]:
            seen, looks = "", 0
            while _admits(secret):
                version = _version(await self._lookout.find(LOOK_EVERY / 2))
                if version != seen:
                    yield f"data: {version}\n\n"
                elif looks % BEAT == 0:
                    yield ": open\n\n"
                seen, looks = version, looks + 1
                await anyio.sleep(LOOK_EVERY)

        return self._streams.response(versions())

    async def _open(self, request: Request) -> Response:
        """To the question, by a link of its bridge."""
        if looks_ahead(request):
            return Response(status_code=204)
        place = request.path_params["bridge"], request.path_params["id"]
        return await self._lead(request, *place)

    async def _next(self, request: Request) -> Response:
        """To the question that waits longest on a page; to the list, where there is none."""
        if looks_ahead(request):
            return Response(status_code=204)
        waiting = _waiting((await self._lookout.find()).bridges)
        if not waiting:
            return RedirectResponse(self._home, 303)
        bridge, question = waiting[0]
        return await self._lead(request, bridge.name, question.id)

    async def _lead(self, request: Request, bridge: str, question: str) -> Response:
        try:
            inbox = f"{self._server.url}{self._home}"
            link = await bridges.find_link(bridge, question, _secret(request), inbox)
        except BridgeError as why:
            words = readers_words(request)
            said = words(f"all.problem_{why}", command=html.pair_command(self._server.port))
            return HTMLResponse(html.notice_page(words, "all.not_there", said, self._home), 404)
        return RedirectResponse(link, 303)


def _waiting(found: Sequence[Bridge]) -> Sequence[tuple[Bridge, OpenQuestion]]:
    """What is answered on a page, the oldest first."""
    listed = [(each, question) for each in found for question in each.questions]
    return sorted(
        (each for each in listed if each[1].place == "page"), key=lambda each: each[1].since
    )


def _version(found: Overview) -> str:
    """A word that is another when the list is."""
    return sha256(repr(found).encode(errors="replace")).hexdigest()[:16]


def _secret(request: Request) -> str:
    return request.cookies.get(COOKIE, "")


def _admits(secret: str) -> bool:
    try:
        kept = pairing.load()
    except PlaceError:
        return False
    return kept is not None and kept.admits(secret)


def _same_user(handle: Handler) -> Handler:
    """For connections of this user's alone, as the kernel says."""

    async def respond(request: Request) -> Response:
        if not await is_own_user(request):
            return _notice(request, "all.user", 403)
        return await handle(request)

    return respond


def _notice(request: HTTPConnection, key: str, status: int, said: str = "") -> Response:
    """The sentences of `key`, or `said` in place of the second, in its reader's language."""
    words = readers_words(request)
    _, port = request.scope["server"]
    sentence = words(said or f"{key}_words", command=html.pair_command(port))
    return HTMLResponse(html.notice_page(words, key, sentence), status)
