"""The ways to a question on the page: a link for one browser, and an address with a code."""

from __future__ import annotations

import secrets
from collections.abc import Container
from dataclasses import dataclass, field

from abp_bridge.session.surface import Ending

MAX_ENDED = 200  # questions that are over, of which the page can still say how
MAX_TOKEN = 64  # characters; ours have 43
MAX_CODES = 5  # wrong codes, after which a question has none any more
CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no words come of them, and none is taken for a digit
CODE_LENGTH = 8  # letters: 34 bits, of which somebody tries `MAX_CODES`
SHORTENED = 200  # characters of what a question said that are kept when it is over


def _new_code() -> str:
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))


@dataclass(slots=True)
class Link:
    """The way to one question; it outlives the question.

    Attributes:
        address: The path of the question.
        asked: The beginning of the question.
        token: Admits one browser, once.
        code: Does the same at another path; typed by the user.
        mark: The cookie of the admitted browser; empty before.
        ending: How the question ended; None while it is open.
        wrong: How many wrong codes were given.
        inbox: The inbox's address, if the user came from there.
    """

    id: str
    address: str
    asked: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    code: str = field(default_factory=_new_code)
    mark: str = ""
    ending: Ending | None = None
    wrong: int = 0
    inbox: str = ""

    def use(self) -> str:
        """Admit one browser and return its mark."""
        self.mark = secrets.token_urlsafe(32)
        return self.mark

    def is_code(self, given: str) -> bool:
        """Return whether `given` is the code, in any spelling; count a wrong one."""
        right = same("".join(filter(str.isalpha, given.upper())), self.code)
        self.wrong += not right
        return right


class Links:
    """All links of one page; the questions are below `home`."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._by_token: dict[str, Link] = {}
        self._by_id: dict[str, Link] = {}
        self._renewed: dict[str, str] = {}  # the token that was made last, by id

    def add(self, message: str) -> Link:
        id = secrets.token_urlsafe(12)
        link = Link(id, f"{self._home}q/{id}", message.partition("\n")[0][:SHORTENED])
        self._by_token[link.token] = self._by_id[id] = link
        return link

    def renew(self, link: Link) -> Link:
        """Make another link to the question; the previous renewed link stops working."""
        self._by_token.pop(self._renewed.get(link.id, ""), None)
        again = Link(link.id, link.address, link.asked)
        self._by_token[again.token] = again
        self._renewed[link.id] = again.token
        return again

    def by_token(self, token: str) -> Link | None:
        link = self._by_token.get(token[:MAX_TOKEN])
        if link is not None:
            link.ending = self._by_id[link.id].ending
        return link

    def by_id(self, id: str) -> Link | None:
        return self._by_id.get(id)

    @property
    def last(self) -> Link | None:
        return next(reversed(self._by_id.values()), None)

    def forget_old(self, is_open: Container[str]) -> None:
        """Forget the oldest ended questions."""
        over = [link for link in self._by_id.values() if link.id not in is_open]
        for link in over[:-MAX_ENDED]:
            del self._by_id[link.id], self._by_token[link.token]
            self._by_token.pop(self._renewed.pop(link.id, ""), None)


def same(given: str, wanted: str) -> bool:
    """Compare two secrets in constant time."""
    return secrets.compare_digest(given.encode(), wanted.encode())
