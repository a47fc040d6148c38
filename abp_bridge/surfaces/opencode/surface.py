"""The questions API as a surface of one session."""

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
    """List questions for programs (`InputProvider`).

    `served` returns the endpoints of the process, which are loaded only when needed.
    """

    def __init__(self, served: Callable[[], QuestionsServer], page: Page, *, alone: bool) -> None:
        """If `alone`, the user has no page to go to, so a question waits for a program."""
        self._alone = alone
        self._served = served
        self._page = page
        self._session = f"ses_{secrets.token_hex(12)}"

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.QUESTIONS_API)]

    async def make_ready(self) -> str:
        """Serve, so that programs can wait for questions; return the address.

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
        """List the question for programs and on the page until it is answered.

        An invalid answer is rejected, and the question stays open.

        Raises:
            SurfaceUnsupportedError: It cannot be asked there, or no program has come recently.
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
