"""The state of an app's open page, shared by its files and dialogs, and its console.

Console lines, uncaught errors and failed requests become notices: bounded, free of secret answers,
and untrusted, as the page writes what it likes.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from playwright.async_api import BrowserContext, Page

from abp_bridge.apps.browser.fetch import site
from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_object,
    as_text,
    leaves,
    member_names,
)
from abp_bridge.core.ledger import Notice, NoticeKind, describe_notice
from abp_bridge.core.question import Question
from abp_bridge.core.redact.texts import PIECE, SECRET, KnownTexts
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import parts
from abp_bridge.session.app import AppListener
from abp_bridge.session.context import NO_CONTEXT, AskContext

TURN_LIMIT = 1.0  # seconds that something else waits for what the page runs
PAGE_LIMIT = 5.0  # seconds for what the page or its browser does immediately, unless it hangs


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab for an app; `alone` in its context; `shows` the app already and will be reloaded."""

    context: BrowserContext
    page: Page
    alone: bool = True
    shows: bool = False


class PageState:
    """The state of one page.

    Attributes:
        shown: Playwright's page.
        listener: Gets its events; None once the session has left.
        tasks: Runs its handlers.
        console: Its console.
        sites: The origins that it may show.
        lost: Why it is lost.
        main_frame_id: The CDP id of its main frame.
    """

    def __init__(self, page: Page, listener: AppListener, tasks: TaskGroup, alias: str) -> None:
        self.shown = page
        self.console = Console(self._tell, lambda: site(page.main_frame.url))
        self.listener: AppListener | None = SecretListener(listener, self.console)
        self.tasks = tasks
        self.sites: Collection[str] = ()
        self.lost = ""
        self.main_frame_id = ""
        self._alias = alias

    @property
    def origin(self) -> str:
        """The origin that the user sees."""
        return self._alias or site(self.shown.main_frame.url)

    def is_own_site(self, url: str) -> bool:
        """Return whether an address has the app's origin."""
        return site(url) in self.sites

    def note(self, words: str) -> None:
        """Notify the listener of a refusal."""
        shown, _ = self.console.replace_secrets(words)  # a page names its files as it likes
        self.notify(
            NoticeKind.ERROR, "notifications/error", {"code": "PERMISSION_DENIED", "message": shown}
        )

    def notify(self, event: NoticeKind, name: str, data: JsonObject) -> None:
        """Send the listener a notice of the bridge."""
        self._tell(Notice(event, name, data))

    def _tell(self, notice: Notice) -> None:
        if self.listener is not None:
            self.listener.on_notice(notice)


logger = logging.getLogger(__name__)

NAME = f"notifications/{NoticeKind.CONSOLE.value}"
LAST = 5  # lines in the error of a page that cannot be connected
MAX_LINE = 600  # characters of a line, or of an address in it
FULL = "it has more than is told at once: what follows is counted"
BURST, RATE = 50.0, 2.0  # lines that are told at once, and more of them in a second
MAX_LOOKED_AT = 64 * 1024  # characters of a line, and of a secret that is looked for in it
CUT_SECRET = 64 * PIECE  # characters that the beginning of a secret takes, however it is spelled


class Console:
    """The console of one page.

    Args:
        tell: Gets each line as a notice.
        own: The page's origin.
        clock: A monotonic clock in seconds.
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
        self._is_full = False
        self._secrets = KnownTexts()
        self._knows_secrets = False

    def add_report(self, said: JsonValue) -> None:
        """Report a line from inject.js: `{level, message, cut, at, lost}`."""
        members = as_object(said)
        level = "warning" if members.get("level") == "warning" else "error"
        self._lost += as_count(members.get("lost")) or 0
        cut = as_count(members.get("cut")) or 0
        self.write_line(level, as_text(members.get("message")), as_text(members.get("at")), cut)

    def write_line(self, level: str, words: str, at: str = "", cut: int = 0) -> None:
        """Report a line, or count it if there is no room; the next line tells the count.

        Args:
            level: `error` or `warning`.
            words: The line, or its beginning.
            at: The script's address, line and column, if known.
            cut: Number of characters cut after `words`.
        """
        now = self._clock()
        self._room = min(BURST, self._room + (now - self._then) * RATE)
        self._then = now
        if self._room < 1:
            self._lost += 1
            if not self._is_full:
                self._is_full = True
                self._report({"level": "warning", "message": FULL})
            return
        self._room -= 1
        self._is_full = False
        shown, beyond = self.replace_secrets(words, cut)
        data: dict[str, JsonValue] = {
            "level": level,
            "message": label(shown, MAX_LINE, beyond=beyond),
            **({"at": self.show_place(at)} if at else {}),
            **({"lost": self._lost} if self._lost else {}),
        }
        self._lost = 0
        self._report(data)

    def _report(self, data: JsonObject) -> None:
        notice = Notice(NoticeKind.CONSOLE, NAME, data)
        self._last.append(describe_notice(notice))
        logger.info("a page's console has one more line")  # its words may hold an answer
        self._tell(notice)

    def hide(self, value: JsonValue) -> None:
        """Hide the texts and numbers in `value` from now on."""
        for each in leaves(value):
            whole = isinstance(each, float) and each.is_integer()
            for text in {str(each), str(int(each)) if whole else str(each)}:
                self._secrets.add_text(text[:MAX_LOOKED_AT], SECRET)
                self._knows_secrets = True

    def replace_secrets(self, words: str, cut: int = 0) -> tuple[str, int]:
        """Replace secret answers in `words`, in any encoding.

        If the cut split a secret, its beginning at the end of `words` goes too.

        Args:
            words: A text, or its beginning.
            cut: Number of characters cut after `words`.

        Returns:
            The remaining text, and the number of characters cut after it.
        """
        cut += len(words[MAX_LOOKED_AT:])
        words = words[:MAX_LOOKED_AT]
        shown = self._secrets.present_in([words]).replace(words)
        if cut and self._knows_secrets:
            cut += len(shown[-CUT_SECRET:])
            shown = shown[:-CUT_SECRET]
        return shown, cut

    def show_place(self, at: str) -> str:
        """Return a place in a script, without the host if it is the page's own."""
        return label(show_place(self.replace_secrets(at)[0], self._own()))

    def show_address(self, url: str) -> str:
        """Return an address without parts that may be secret."""
        shown, cut = self.replace_secrets(url)
        where = re.split(r"[?#]", re.sub(r"^([\w+]+://)[^/?#]*@", r"\1", shown))[0]
        return label(where, MAX_LINE, beyond=cut)

    @property
    def said(self) -> str:
        """Return the last lines, to append to an error."""
        return "".join(f" {line[:1].upper()}{line[1:].rstrip('.')}." for line in self._last)


class SecretListener:
    """An `AppListener` that tells the console each secret answer."""

    def __init__(self, listener: AppListener, console: Console) -> None:
        self.new_question_id = listener.new_question_id
        self.can_sample = listener.can_sample
        self.on_notice = listener.on_notice
        self.on_progress = listener.on_progress
        self.on_disconnect = listener.on_disconnect
        self._listener = listener
        self._console = console

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        answer = await self._listener.elicit(question, context)
        for field in question.fields:
            if field.secret and not field.choices:  # what there is to choose from is no secret
                value = answer.content.get(field.name)
                declared = {name for name, _ in parts(field.schema)}
                self._console.hide(value)
                self._console.hide([name for name in member_names(value) if name not in declared])
        return answer


def show_place(at: str, own: str = "") -> str:
    """Shorten a script's address: `http://localhost:3000/app.js?v=2:12:5` -> `/app.js:12:5`.

    The query may hold secrets; the host is dropped if it is `own`.
    """
    found = re.fullmatch(r"([^?#]*)(?:[?#].*?)?((?::\d+){0,2})", at, re.DOTALL)
    whole = f"{found[1]}{found[2]}" if found else at
    return whole.removeprefix(own) or whole
