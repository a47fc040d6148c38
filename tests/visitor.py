"""Somebody who opens a link of the bridge's own page and sends the form that is there, without a browser's window."""

from __future__ import annotations

import re
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

from harness import PATIENCE

LINK = re.compile(r"http://127\.0\.0\.1:\d+/open/[\w-]+")


class Browser:
    """One browser: it keeps its cookies."""

    def __init__(self) -> None:
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self.page = ""

    def open(self, url: str) -> str:
        with self._opener.open(url, timeout=PATIENCE) as response:
            self._url = response.url
            self.page = unescape(response.read().decode())
        return self.page

    def send(self, **filled: str) -> None:
        guard = re.search(r'name="guard" value="([^"]+)"', self.page)
        assert guard is not None, self.page
        with self._opener.open(self._url, urlencode({"guard": guard[1], "action": "send", **filled}).encode(), timeout=PATIENCE) as response:
            self.page = unescape(response.read().decode())


def type_on_the_page(words: str, key: str) -> None:
    """Follow the link in what somebody was shown, and send `key` as the answer to its only field."""
    found = LINK.search(words)
    assert found is not None, words
    browser = Browser()
    browser.open(found[0])
    browser.send(**{"field-0": key})
    assert "Thank you" in browser.page
