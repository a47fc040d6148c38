"""The bridge's own page: a question in the person's browser, on this machine, where neither host
nor model can see the answer.

`LazyPageServer` is the page as the hosts know it; the server behind it (`app.py`) is loaded and
started with the first question that needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.question import Outcome, Question
from abp_bridge.interfaces.surface import (
    Page,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.interfaces.surface import QuestionPage
    from abp_bridge.surfaces.opencode.server import QuestionsServer
    from abp_bridge.surfaces.page.app import PageApp


class LazyPageServer:
    """Implements `Page`. The server lives in `tasks`."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._page: PageApp | None = None
        self._questions: QuestionsServer | None = None

    @asynccontextmanager
    async def shown(self, question: Question) -> AsyncIterator[PageQuestion]:
        """See `Page.shown`."""
        if self._page is None:
            from abp_bridge.surfaces.page.app import PageApp

            self._page = PageApp(self._tasks)
        try:
            async with self._page.shown(question) as sheet:
                yield sheet
        except (OSError, TimeoutError) as problem:
            raise SurfaceUnsupportedError(
                f"the bridge's own page cannot be served: {problem}", lasting=True
            ) from None

    def questions(self, port: int, password: str) -> QuestionsServer:
        """The questions API of this process, which nothing listens for yet."""
        if self._questions is None:
            from abp_bridge.surfaces.opencode.server import QuestionsServer

            self._questions = QuestionsServer(self._tasks, port, password)
        return self._questions

    async def ask(
        self, question: Question, send_link: Callable[[PageQuestion], Awaitable[Outcome]]
    ) -> SurfaceResponse:
        """See `Page.ask`."""
        return await ask_by_link(self, question, send_link)


# times that a person is pointed to the page, and says that it is done, before nobody can have been
# there
POINTS = 3


class PageSurface:
    """The page as a surface of its own: an `InputProvider`.

    `point` tells the person of it: see `Host.send_link`.
    """

    def __init__(self, page: Page, point: Callable[[Question, str], Awaitable[Outcome]]) -> None:
        self._page = page
        self._point = point

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.PAGE)]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """See `InputProvider.ask`. The page checks what is filled in, and asks again itself."""

        async def point(sheet: PageQuestion) -> Outcome:
            for _ in range(POINTS):
                outcome = await self._point(question, sheet.url)
                if outcome is not Outcome.ACCEPTED or sheet.opened:
                    return outcome
            raise SurfaceUnsupportedError(
                f"the host said {POINTS} times that it is done, and nobody was on the page",
                lasting=False,
            )

        return await self._page.ask(question, point)


async def ask_by_link(
    page: QuestionPage, question: Question, send_link: Callable[[PageQuestion], Awaitable[Outcome]]
) -> SurfaceResponse:
    """What `Page.ask` does, for a page of any kind."""
    problems: list[Exception] = []
    async with page.shown(question) as sheet, anyio.create_task_group() as tasks:

        async def show() -> None:
            try:
                outcome = await send_link(sheet)
            except Exception as problem:
                problems.append(problem)
                tasks.cancel_scope.cancel()
            else:
                if outcome is not Outcome.ACCEPTED:
                    sheet.answer(SurfaceResponse(outcome), _LEFT[outcome])

        tasks.start_soon(show)
        reply = await sheet.answered()
        tasks.cancel_scope.cancel()
        return reply
    raise problems[0]


_LEFT = {
    Outcome.DECLINED: "This question is no longer open: it was declined where your agent runs.",
    Outcome.CANCELLED: "This question is no longer open: it was dismissed where your agent runs.",
}
