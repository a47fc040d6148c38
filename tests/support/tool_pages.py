"""A page with WebMCP tools as an app, in a shared browser, and a session that listens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from playwright.async_api import Browser, Page

from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.apps.webmcp.tools import WebMcpTools
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import AppInfo, CallResult, CapabilityList
from abp_bridge.core.ledger import Notice, Progress
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Question
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.settings import Settings

Json = Any

SETTINGS = Settings(chrome_sandbox=False, browser_timeout=20.0)
BRIEF = Settings(chrome_sandbox=False, browser_timeout=20.0, call_timeout=1.0)
PATIENCE = 20.0

Said = Callable[[Question], Answer | Awaitable[Answer] | None]


def accepted(**content: Json) -> Answer:
    return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content)


def as_shown(**changes: Json) -> Said:
    def answer(question: Question) -> Answer:
        shown = {each.name: each.default for each in question.fields if each.default is not MISSING}
        names = {each.name for each in question.fields}
        if names == {"send"}:
            return accepted(send=True)
        given = {name: value for name, value in changes.items() if name in names}
        return accepted(**{**shown, **given})

    return answer


@dataclass
class Person:
    """Whoever listens: `says` answers each question; None is an answer that never comes."""

    says: Said = lambda question: None
    questions: list[Question] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _something: anyio.Event = field(default_factory=anyio.Event)

    def new_question_id(self) -> str:
        return f"q{len(self.questions) + 1}"

    def can_sample(self) -> bool:
        return False

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        self.questions.append(question)
        self._happened()
        answer = self.says(question)
        if answer is None:
            await anyio.sleep_forever()
        assert answer is not None
        return answer if isinstance(answer, Answer) else await answer

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._happened()

    def on_progress(self, progress: Progress) -> None:
        self.progress.append(progress)
        self._happened()

    def on_disconnect(self, reason: str) -> None:
        self.reasons.append(reason)
        self._happened()

    async def until(self, reached: Callable[[], object]) -> None:
        with anyio.fail_after(PATIENCE):
            while not reached():
                await self._something.wait()

    def _happened(self) -> None:
        self._something.set()
        self._something = anyio.Event()


@dataclass
class Running:
    """An app that is connected. `page` is its page, for a test to act in its place."""

    app: BrowserApp
    person: Person
    opened: AppInfo
    page: Page

    async def call(self, tool: str, says: Said | None = None, /, **params: Json) -> CallResult:
        if says is not None:
            self.person.says = says
        return await self.app.call_capability(tool, params, "call-1")

    async def work(self, what: str, given: Json = None) -> None:
        assert (await self.call("work", what=what, given=given)).data == "done"

    async def offers(self, name: str) -> None:
        await self.lists(lambda listed: name in {each.name for each in listed})

    async def lists(self, wanted: Callable[[CapabilityList], object]) -> CapabilityList:
        """What it offers, once it is as `wanted`; as who lists again with each notice."""
        with anyio.fail_after(PATIENCE):
            while True:
                known = len(self.person.notices)
                if wanted(listed := await self.app.capabilities()):
                    return listed
                await self.person.until(partial(self._has_more, known))

    def _has_more(self, known: int) -> bool:
        return len(self.person.notices) > known


def lend(browser: Browser) -> Callable[[Settings], AbstractAsyncContextManager[Browser]]:
    """The browser of an app that leaves it running, and nothing of its own in it."""

    @asynccontextmanager
    async def lent(_: Settings) -> AsyncIterator[Browser]:
        try:
            yield browser
        finally:
            with anyio.CancelScope(shield=True):
                for context in browser.contexts:
                    await context.close()

    return lent


@asynccontextmanager
async def opened(
    browser: Browser, address: str, settings: Settings = SETTINGS
) -> AsyncIterator[Running]:
    person = Person()
    app = BrowserApp(address, settings, named=True, browser=lend(browser), tools=WebMcpTools())
    with anyio.fail_after(2 * PATIENCE):
        async with app.open_app(person) as about:
            [page] = browser.contexts[-1].pages
            yield Running(app, person, about, page)
