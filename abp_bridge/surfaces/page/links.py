"""The ways to a question on the page: a link for one browser, an address with a code, and what is
found there when the question is over.
"""

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
    """The way to one question, also when that is over.

    `token` makes a browser the person's, once: `mark` is what that one shows since. `address` is
    the path where it finds the question, `ending` how that ended, and `asked` the beginning of what
    it said. `code` does the same as the token, at another path; `wrong` counts those that were
    none. `inbox` is where the person came from who came from there, as an address.
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
        """Let one browser in; the mark that it alone has from now on."""
        self.mark = secrets.token_urlsafe(32)
        return self.mark

    def is_code(self, given: str) -> bool:
        """Whether that is the code, however it is spelled; a wrong one is counted."""
        right = same("".join(filter(str.isalpha, given.upper())), self.code)
        self.wrong += not right
        return right


class Links:
    """All links of one page, whose questions are found below `home`."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._by_token: dict[str, Link] = {}
        self._by_id: dict[str, Link] = {}
        self._renewed: dict[str, str] = {}  # the token that was made last, by id

    def add(self, message: str) -> Link:
        """A link to a question that says `message`."""
        id = secrets.token_urlsafe(12)
        link = Link(id, f"{self._home}q/{id}", message.partition("\n")[0][:SHORTENED])
        self._by_token[link.token] = self._by_id[id] = link
        return link

    def renew(self, link: Link) -> Link:
        """Another link to the same question, for one browser; the one that was made so before it
        is no use any more.
        """
        self._by_token.pop(self._renewed.get(link.id, ""), None)
        again = Link(link.id, link.address, link.asked)
        self._by_token[again.token] = again
        self._renewed[link.id] = again.token
        return again

    def by_token(self, token: str) -> Link | None:
        """The link with this token."""
        link = self._by_token.get(token[:MAX_TOKEN])
        if link is not None:
            link.ending = self._by_id[link.id].ending
        return link

    def by_id(self, id: str) -> Link | None:
        """The link of this question."""
        return self._by_id.get(id)

    @property
    def last(self) -> Link | None:
        """The newest."""
        return next(reversed(self._by_id.values()), None)

    def forget_old(self, is_open: Container[str]) -> None:
        """Forget the oldest of those whose questions are over."""
        over = [link for link in self._by_id.values() if link.id not in is_open]
        for link in over[:-MAX_ENDED]:
            del self._by_id[link.id], self._by_token[link.token]
            self._by_token.pop(self._renewed.pop(link.id, ""), None)


def same(given: str, wanted: str) -> bool:
    """Whether a secret was given, found out in a time that says nothing of it."""
    return secrets.compare_digest(given.encode(), wanted.encode())
