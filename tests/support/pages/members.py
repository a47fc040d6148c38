"""A site that shows its app to members, and signs in everyone else.

`/?open` is the app for anybody, `/desk` a page with a WebMCP form. The sign-in page closes its
window when Chromium has written the session cookie, after up to 30 s; before that it may be lost.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.http_server import Reply, Request, serving

_COOKIE = "members_session"
WRITTEN = 60.0  # seconds in which Chromium has written down a cookie: it does so after 30
GLANCE = 0.2  # seconds between two looks at its file

_APP = """<!doctype html><title>Members</title>
<script>
  const app = { id: 'members', name: 'Members', version: '1.0.0' };
  const capabilities = [{ name: 'whoami', description: 'Who is signed in', available: true }];
  window.abp = {
    initialize: async () => ({ sessionId: 's', app, capabilities }),
    shutdown: async () => {},
    listCapabilities: async () => capabilities,
    call: async () => ({ success: true, data: (await (await fetch('/who')).text()) }),
  };
</script>"""
# A form that is sent as whoever is signed in.
_DESK = """<!doctype html><title>Desk</title>
<form toolname="book" tooldescription="Book a table">
  <label>Name <input name="name" required></label>
  <button>Book</button>
</form>
<script>
  document.forms[0].addEventListener('submit', (event) => {
    event.preventDefault();
    const book = async (name) => ({ name, by: await (await fetch('/who')).text() });
    event.respondWith(book(new FormData(event.target).get('name')));
  });
</script>"""
# Who signed in closes the window too, as `login` asks them to; or stays, and sees the app.
_SIGN_IN = """<!doctype html><title>Sign in</title>
<script>
  fetch('/sign-in', { method: 'POST', body: 'user=Ada' }).then(async () => {
    if (location.search === '?stay') return location.replace('/');
    await fetch('/kept');
    window.close();
  });
</script>"""


class Members:
    """A running site: counts of `signed_in` and `shown`. `profile` is where cookies are kept."""

    def __init__(self) -> None:
        self.here = ""
        self.profile = Path()
        self.on_signed_in: Callable[[], object] | None = None
        self.signed_in = self.shown = 0
        self._session = secrets.token_hex(8)

    def answer(self, request: Request) -> Reply:
        if request.parts.path == "/sign-in":
            self.signed_in += 1
            cookie = f"{_COOKIE}={self._session}; HttpOnly; Path=/; SameSite=Strict"
            return Reply(headers={"Set-Cookie": cookie})
        if request.parts.path == "/kept":
            (self.on_signed_in or self._await_cookie)()
            return Reply()
        is_member = f"{_COOKIE}={self._session}" in request.headers.get("cookie", "")
        if request.parts.path == "/who":
            return Reply(b"Ada" if is_member else b"nobody", "text/plain")
        if request.parts.path == "/sign-in-page":
            return Reply(_SIGN_IN.encode(), "text/html")
        if not is_member and request.parts.query != "open":
            return Reply(status=302, headers={"Location": "/sign-in-page"})
        if request.parts.path == "/desk":
            return Reply(_DESK.encode(), "text/html")
        self.shown += request.parts.path == "/"
        return Reply(_APP.encode(), "text/html")

    def _await_cookie(self) -> None:
        until = time.monotonic() + WRITTEN
        while not any(_COOKIE.encode() in each.read_bytes() for each in self._cookies()):
            if time.monotonic() > until:
                return
            time.sleep(GLANCE)

    def _cookies(self) -> Iterator[Path]:
        return self.profile.rglob("Cookies")


@contextmanager
def members() -> Iterator[Members]:
    site = Members()
    with serving(site.answer) as site.here:
        yield site
