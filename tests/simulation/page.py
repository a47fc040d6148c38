"""The bridge's own page without a browser: a person who was sent there answers it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from abp_bridge.core.question import Outcome, Question
from abp_bridge.interfaces.surface import (
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.surfaces.page.surface import ask_by_link

from .person import Person

OUTCOMES = {"decline": Outcome.DECLINED, "dismiss": Outcome.CANCELLED}


class Shown:
    """Implements `PageQuestion`."""

    def __init__(self, question: Question, person: Person) -> None:
        self.url = f"http://page/{question.id}"
        self.address = self.url
        self.code = "0000"
        self.directions = ""
        self.opened = False
        self._question = question
        self._person = person
        self._answer: asyncio.Future[SurfaceResponse] = asyncio.get_running_loop().create_future()
        self._visit: asyncio.Task[None] | None = None

    async def open(self) -> str:
        self.visit()
        return ""

    async def wait_late_browser(self) -> bool:
        return False

    def visit(self) -> None:
        """The person is there."""
        if not self.opened:
            self.opened = True
            self._visit = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        asked = self._person.recognise(self._question.message)
        await asyncio.sleep(self._person.delay())
        if asked.wish == "ignore" or self._answer.done():
            return
        if asked.wish == "accept":
            asked.accept()
            value = next(iter(asked.data.values()))
            content = {self._question.fields[0].name: value}
            self.answer(SurfaceResponse(Outcome.ACCEPTED, content))
        else:
            asked.leave(asked.wish)
            self.answer(SurfaceResponse(OUTCOMES[asked.wish]))

    async def wait_answer(self) -> SurfaceResponse:
        return await self._answer

    def refuse(self, reason: str) -> None:
        if not self.opened and not self._answer.done():
            self._answer.set_exception(SurfaceUnsupportedError(reason, lasting=False))

    def answer(self, reply: SurfaceResponse, words: str = "") -> bool:
        if self._answer.done():
            return False
        self._answer.set_result(reply)
        return True

    def close(self) -> None:
        if self._visit is not None:
            self._visit.cancel()
        self._answer.cancel()


class Page:
    """Implements `PageServer`, as far as a session without a questions API needs it."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._shown: dict[str, Shown] = {}

    @asynccontextmanager
    async def show(self, question: Question) -> AsyncIterator[PageQuestion]:
        shown = Shown(question, self._person)
        self._shown[shown.url] = shown
        try:
            yield shown
        finally:
            shown.close()
            del self._shown[shown.url]

    async def ask(
        self, question: Question, send_link: Callable[[PageQuestion], Awaitable[SurfaceResponse]]
    ) -> SurfaceResponse:
        return await ask_by_link(self, question, send_link)

    def visit(self, url: str) -> None:
        """Follow a link, if it is still one."""
        if url in self._shown:
            self._shown[url].visit()

    def questions(self, port: int, password: str) -> Any:
        raise NotImplementedError
