"""Somebody who opens a link of the bridge's own page and sends the form that is there, without a
browser's window.
"""

from __future__ import annotations

import re
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

import anyio.to_thread
import mcp_types as types

from support.harness import PATIENCE

PASSWORD = "hunter2"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/open/[\w-]+")


class Browser:
    """One browser: it keeps its cookies."""

    def __init__(self) -> None:
        self.cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self.cookies))
        self.page = ""

    def open(self, url: str) -> str:
        with self._opener.open(url, timeout=PATIENCE) as response:
            self.url = response.url
            self.page = unescape(response.read().decode())
        return self.page

    def listen(self) -> None:
        """Follow what is open, as a page with scripts does, until `close`."""
        home = urljoin(self.url, "../events")
        self._stream = self._opener.open(home, timeout=PATIENCE)
        self._stream.readline()

    def close(self) -> None:
        """The tab is closed."""
        self._stream.close()

    def send(self, **filled: str) -> None:
        """Fill the form in, and press a button: `action` says which."""
        self.post(guard=self._guard(), **{"action": "send", **filled})

    def post(self, **fields: str) -> None:
        """Send these, whatever the form has."""
        self._post(urlencode(fields).encode(), "application/x-www-form-urlencoded")

    def give(self, name: str, mime_type: str, content: bytes) -> None:
        """Pick a file for the only field of the form, and send it."""
        fields = f'--x\r\nContent-Disposition: form-data; name="guard"\r\n\r\n{self._guard()}\r\n'
        fields += '--x\r\nContent-Disposition: form-data; name="action"\r\n\r\nsend\r\n'
        file = (
            '--x\r\nContent-Disposition: form-data; name="field-0";'
            f' filename="{name}"\r\nContent-Type: {mime_type}\r\n\r\n'
        )
        self._post(
            fields.encode() + file.encode() + content + b"\r\n--x--\r\n",
            "multipart/form-data; boundary=x",
        )

    def _guard(self) -> str:
        found = re.search(r'name="guard" value="([^"]+)"', self.page)
        assert found is not None, self.page
        return found[1]

    def _post(self, body: bytes, kind: str) -> None:
        with self._opener.open(
            Request(self.url, body, {"Content-Type": kind}), timeout=PATIENCE
        ) as response:
            self.url = response.url
            self.page = unescape(response.read().decode())


def type_on_the_page(words: str, key: str) -> None:
    """Follow the link in what somebody was shown, and send `key` as the answer to its only
    field.
    """
    found = LINK.search(words)
    assert found is not None, words
    browser = Browser()
    browser.open(found[0])
    browser.send(**{"field-0": key})
    assert "Thank you" in browser.page


async def give_password(params: types.ElicitRequestParams) -> types.ElicitResult:
    """What a person does with the link that their host shows them: `PASSWORD` is in the form."""
    assert isinstance(params, types.ElicitRequestURLParams)
    browser = Browser()
    await anyio.to_thread.run_sync(browser.open, params.url)
    await anyio.to_thread.run_sync(lambda: browser.send(**{"field-0": PASSWORD}))
    return types.ElicitResult(action="accept")
