"""What a page's console says, its uncaught errors and failed requests, as notices: bounded, with no
answer that was a secret, and told as the page's own words.

Nothing of it is trusted: a page writes there what it likes.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator

import anyio

from abp_bridge.core.command_line import show_target
from abp_bridge.core.json_value import JsonValue, as_count, as_object, as_text
from abp_bridge.core.notice import Notice, NoticeKind, describe
from abp_bridge.core.question import Answer, Question
from abp_bridge.core.sanitize import label
from abp_bridge.interfaces.app import AppListener

logger = logging.getLogger(__name__)

NAME = f"notifications/{NoticeKind.CONSOLE.value}"
LAST = 5  # lines in the error of a page that cannot be connected
LONGEST = 600  # characters of a line
BURST, RATE = 50.0, 2.0  # lines that are told at once, and more of them in a second
SHORTEST_SECRET = 4  # characters: of a shorter one nothing could be read any more
HIDDEN = "[secret]"


class Console:
    """The console of one page.

    Args:
        tell: Gets each line, as a notice.
        own: The page's own site.
        clock: Seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        tell: Callable[[Notice], None],
        own: Callable[[], str],
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._tell = tell
        self._own = own
        self._clock = clock
        self._last: deque[str] = deque(maxlen=LAST)
        self._room = BURST
        self._then = clock()
        self._lost = 0
        self._secrets: set[str] = set()

    def add(self, said: JsonValue) -> None:
        """A line that inject.js heard: `{level, message, at, lost}`."""
        members = as_object(said)
        level = "warning" if members.get("level") == "warning" else "error"
        self._lost += as_count(members.get("lost")) or 0
        self.write(level, as_text(members.get("message")), as_text(members.get("at")))

    def write(self, level: str, words: str, at: str = "") -> None:
        """A line, and where it comes from; one that there is no room for is counted."""
        now = self._clock()
        self._room = min(BURST, self._room + (now - self._then) * RATE)
        self._then = now
        if self._room < 1:
            self._lost += 1
            return
        self._room -= 1
        data: dict[str, JsonValue] = {
            "level": level,
            "message": label(self._without_secrets(words), LONGEST),
            **({"at": show_place(at, self._own())} if at else {}),
            **({"lost": self._lost} if self._lost else {}),
        }
        self._lost = 0
        notice = Notice(NoticeKind.CONSOLE, NAME, data)
        self._last.append(describe(notice))
        logger.info("a page's console has one more %s", level)  # its words may hold an answer
        self._tell(notice)

    def hide(self, value: JsonValue) -> None:
        """From now on no line shows the texts in `value`."""
        self._secrets.update(each for each in _texts(value) if len(each) >= SHORTEST_SECRET)

    @property
    def said(self) -> str:
        """Its last lines, as they end an error; empty where there are none."""
        return "".join(f" {line[:1].upper()}{line[1:].rstrip('.')}." for line in self._last)

    def _without_secrets(self, words: str) -> str:
        for each in sorted(self._secrets, key=len, reverse=True):
            words = words.replace(each, HIDDEN)
        return words


class SecretListener:
    """An app's listener for what a page asks: the console learns each secret that is answered."""

    def __init__(self, listener: AppListener, console: Console) -> None:
        self.new_question_id = listener.new_question_id
        self._listener = listener
        self._console = console

    async def ask(self, question: Question) -> Answer:
        """Ask on (`QuestionListener.ask`)."""
        answer = await self._listener.ask(question)
        if question.secret:
            self._console.hide(dict(answer.content))
        return answer


def show_place(at: str, own: str = "") -> str:
    """`http://localhost:3000/app.js?v=2:12:5` -> `/app.js:12:5` where it is on the page's `own`
    site: without what may be secret.
    """
    found = re.fullmatch(r"([^?#]*)(?:[?#].*?)?((?::\d+){0,2})", at, re.DOTALL)
    whole = f"{found[1]}{found[2]}" if found else at
    return label(whole.removeprefix(own) or whole)


def show_request(method: str, url: str) -> str:
    """A request as it is named in a line."""
    return label(f"{method} {show_target(url.partition('#')[0])}", LONGEST)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
