"""Where a bridge's own page is, by the links to it that the bridge gives while a fixture is played:
the fixture's person opens nothing else, whatever the fixture says.

A bridge shows people what apps say, so an address that the fixture itself said is none of the
bridge's. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import urlsplit

from abp_bridge.core.json_value import JsonValue, member_names, walk
from abp_bridge.trace.format import HOST, PERSON

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ADDRESS = re.compile(r"http://[^\s\"'<>\\]+", re.IGNORECASE)

Origin = tuple[str, int]  # host and port; the scheme is http


def origin_of(url: str) -> Origin:
    """The host and port of an http address of this machine. Raises ValueError for any other."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host not in LOOPBACK:
        raise ValueError(f"{url} is no page of this machine's")
    return host, parts.port or 80


class PageLinks:
    """The links of one replay.

    Args:
        words: Texts that the bridge is started with, which may be the fixture's.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._origins: set[Origin] = set()
        self._said = "".join(map(_letters, words))

    def on_sent(self, value: JsonValue) -> None:
        """Somebody whom the fixture has speak says this to the bridge."""
        self._said += "".join(map(_letters, _texts(value)))

    def on_message(self, party: str, value: JsonValue) -> None:
        """The bridge says this to a party: a link is for the host, or the person themselves."""
        if party not in (HOST, PERSON):
            return
        for text in _texts(value):
            for url in _ADDRESS.findall(text):
                self._add(url)

    def _add(self, url: str) -> None:
        try:
            origin = origin_of(url)
        except ValueError:
            return
        if _letters(urlsplit(url).netloc) not in self._said:
            self._origins.add(origin)

    def check(self, url: str) -> None:
        """Raises ValueError where `url` is on no page that the bridge gave a link to."""
        if origin_of(url) not in self._origins:
            raise ValueError(f"{url} is on no page that this bridge gave a link to")


def _texts(value: JsonValue) -> Iterable[str]:
    yield from (str(each) for each in walk(value) if isinstance(each, str | int | float))
    yield from member_names(value)


def _letters(text: str) -> str:
    """What is left of a text however a bridge shows it: what cannot be seen it may drop."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return "".join(each for each in plain if each.isalnum())
