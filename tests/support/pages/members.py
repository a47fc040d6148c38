"""A site that shows its app to members, and signs in everyone else.

`/?open` is the app for anybody. The sign-in page closes its window when Chromium has written the
session cookie: it does so once it has changed 512 cookies, or after 30 s.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.http_server import Reply, Request, serving

_COOKIE = "members_session"
WRITTEN = 60.0  # seconds in which Chromium has written a cookie to its file
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
# Who signed in closes the window too, as `login` asks them to; or stays, and sees the app.
_SIGN_IN = """<!doctype html><title>Sign in</title>
<script>
  fetch('/sign-in', { method: 'POST', body: 'user=Ada' }).then(async () => {
    if (location.search === '?stay') return location.replace('/');
    for (let each = 0; each < 600; each++)
      document.cookie = `filler${each}=1; Max-Age=900; Priority=Low`;
    await fetch('/kept');
    window.close();
  });
</script>"""


class Members:
    """A running site: counts of `signed_in` and `shown`. `profile` is where cookies are kept."""

    def __init__(self) -> None:
        self.here = ""
        self.profile = Path()
        self.signed_in = self.shown = 0
        self._session = secrets.token_hex(8)

    def answer(self, request: Request) -> Reply:
        if request.parts.path == "/sign-in":
            self.signed_in += 1
            cookie = f"{_COOKIE}={self._session}; HttpOnly; Path=/; SameSite=Strict; Priority=High"
            return Reply(headers={"Set-Cookie": cookie})
        if request.parts.path == "/kept":
            self._await_cookie()
            return Reply()
        is_member = f"{_COOKIE}={self._session}" in request.headers.get("cookie", "")
        if request.parts.path == "/who":
            return Reply(b"Ada" if is_member else b"nobody", "text/plain")
        if request.parts.path == "/sign-in-page":
            return Reply(_SIGN_IN.encode(), "text/html")
        if not is_member and request.parts.query != "open":
            return Reply(status=302, headers={"Location": "/sign-in-page"})
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
