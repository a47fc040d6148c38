"""The question page as a surface: neither host nor model sees the answer.

`LazyPageServer` loads and starts the server (`site.py`) with the first question.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.surface import Surface
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.session.surface import (
    OwnSurface,
    Page,
    PageLink,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.surfaces.opencode import QuestionsServer
    from abp_bridge.surfaces.page.site import PageSite


logger = logging.getLogger(__name__)


class LazyPageServer(Page):
    """The page of this process; its server runs in `tasks`, at `port` or any free port."""

    def __init__(self, tasks: TaskGroup, port: int = 0) -> None:
        self._tasks = tasks
        self._port = port
        self._page: PageSite | None = None
        self._questions: QuestionsServer | None = None

    async def open_browser(self) -> str:
        """Open the user's browser at the page; return why that failed, or nothing."""
        return "" if self._page is None else await self._page.open_browser()

    async def wait_late_browser(self) -> bool:
        """Return whether a slow browser comes after all."""
        return self._page is not None and await self._page.wait_late_browser()

    @property
    def is_used(self) -> bool:
        """Whether it has shown a question."""
        return self._page is not None

    @asynccontextmanager
    async def show(
        self, question: Question, context: AskContext = NO_CONTEXT
    ) -> AsyncIterator[PageQuestion]:
        """Put the question on the page for as long as the block lasts (`Page.show`).

        Raises:
            SurfaceUnsupportedError: The page cannot be served here.
        """
        if self._page is None:
            from abp_bridge.surfaces.page.site import PageSite

            self._page = PageSite(self._tasks, self._port)
        try:
            async with self._page.open_form(question, context) as shown:
                yield shown
        except OSError as problem:
            from abp_bridge.surfaces.http import describe_failure

            why = describe_failure("the bridge's own page", problem, self._port, "--page-port")
            raise SurfaceUnsupportedError(why, lasting=not self._port) from None

    def questions(self, port: int, password: str) -> QuestionsServer:
        """Return the questions API of this process; it does not listen yet."""
        if self._questions is None:
            from abp_bridge.surfaces.opencode import QuestionsServer

            self._questions = QuestionsServer(self._tasks, port, password)
        return self._questions


# times that the person is sent to the page, and says that it is done, before it is certain that
# nobody goes there
MAX_LINKS = 3
# what stands on the card that a host shows again
NOT_YET = "Not answered yet: open the link, and answer there."


class PageSurface(OwnSurface):
    """The page as a separate surface (`InputProvider`).

    Args:
        page: Where a question is shown.
        send_link: Shows the user the link; returns whether they go there.
        show_code: Shows the user the code (`PageLink`).
        opens: Whether to open the browser first; the link is sent if that fails.

    Attributes:
        place: Why the last question came to no browser, and how to get there over SSH.
    """

    def __init__(
        self,
        page: Page,
        send_link: Callable[[Question, AskContext, PageLink], Awaitable[SurfaceResponse]],
        show_code: Callable[[Question, PageQuestion], Awaitable[str]],
        *,
        opens: bool = False,
    ) -> None:
        self._page = page
        self._send_link = send_link
        self._show_code = show_code
        self._opens = opens
        self.place = ""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.PAGE)]

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Ask on the page, which validates the form itself.

        Raises:
            SurfaceUnsupportedError: The page cannot be served, the user cannot be sent there or did
                not come after `MAX_LINKS` links, or too many wrong codes were given.
        """
        place = ""

        async def send_link(shown: PageQuestion) -> SurfaceResponse:
            nonlocal place
            problem = await shown.open() if self._opens else ""
            place = " ".join(filter(None, (problem and f"{problem}.", shown.directions)))
            is_new, self.place = place != self.place, place
            if self._opens and not problem:
                return await _leave_to_page(shown)
            if is_new and place:
                logger.warning("%s", place)
            return await self._send_until_opened(question, context, shown, place)

        try:
            return await self._page.collect_answer(question, context, send_link)
        except SurfaceUnsupportedError as refusal:
            if not place:
                raise
            raise SurfaceUnsupportedError(f"{refusal}. {place}", lasting=refusal.lasting) from None

    async def _send_until_opened(
        self, question: Question, context: AskContext, shown: PageQuestion, place: str
    ) -> SurfaceResponse:
        show_code = partial(self._show_code, question, shown)
        link = PageLink(shown.url, shown.address, show_code)
        try:
            return await self._send_links(question.with_note(place), context, link, shown)
        except SurfaceUnsupportedError as refusal:
            is_coming = self._opens and await shown.wait_late_browser()
            if not (is_coming or shown.opened):
                shown.refuse(str(refusal))
                raise
        return await _leave_to_page(shown)

    async def _send_links(
        self, question: Question, context: AskContext, link: PageLink, shown: PageQuestion
    ) -> SurfaceResponse:
        for _ in range(MAX_LINKS):
            response = await self._send_link(question, context, link)
            if response.outcome is not Outcome.ACCEPTED or shown.opened:
                return response
            if NOT_YET not in question.note:
                question = question.with_note(NOT_YET)
        raise SurfaceUnsupportedError(
            f"the host said {MAX_LINKS} times that it is done, and nobody was on the page",
            lasting=False,
        )


async def _leave_to_page(shown: PageQuestion) -> SurfaceResponse:
    """Wait for the page; open another tab if it closes before the user saw the question.

    Raises:
        SurfaceUnsupportedError: No browser could be opened.
    """
    while True:
        await shown.wait_closed()
        if shown.opened:
            return SurfaceResponse(Outcome.CANCELLED)
        if problem := await shown.open():
            raise SurfaceUnsupportedError(problem, lasting=False)
