"""The questions API as a surface of one session: what may be asked there, and whose questions they
are. The endpoints are `server`'s.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from abp_bridge.core import matrix
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.question import FieldType, Question
from abp_bridge.core.surface import Surface
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import (
    OwnSurface,
    Page,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

if TYPE_CHECKING:
    from abp_bridge.surfaces.opencode.server import QuestionsServer


class QuestionsApi(OwnSurface):
    """Implements `InputProvider`.

    `served` gives the endpoints of the process; asked for when they are needed, for they are heavy.
    """

    def __init__(self, served: Callable[[], QuestionsServer], page: Page, *, alone: bool) -> None:
        """`alone` says that the person has no page to be pointed to while no program is there: then
        it waits for one.
        """
        self._alone = alone
        self._served = served
        self._page = page
        self._session = f"ses_{secrets.token_hex(12)}"

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The questions API, whoever listens (`InputProvider.variants`)."""
        return [SurfaceVariant(Surface.QUESTIONS_API)]

    async def make_ready(self) -> str:
        """Serve, so that programs can wait for questions: the address.

        Raises:
            SurfaceUnsupportedError: The port is taken, or the server did not start in time.
        """
        await self._served().serve()
        return self._served().url

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """List the question for programs, and on the page, until one answers.

        What does not fit is refused to the program that sends it, and the question stays.

        Raises:
            SurfaceUnsupportedError: It cannot be asked there, or no program has come lately.
        """
        cell = matrix.find_cell(matrix.shape(question), SurfaceVariant(Surface.QUESTIONS_API))
        if not cell.asks or any(each.type is FieldType.FILE for each in question.fields):
            raise SurfaceUnsupportedError(
                cell.how or "the questions API carries no files", lasting=False
            )
        await self._served().serve()
        if not self._alone and not self._served().visited:
            raise SurfaceUnsupportedError(
                "no program has come to the questions API lately", lasting=False
            )
        async with self._page.show(question, context) as shown:
            return await self._served().list_until_answered(question, self._session, shown)
