"""A call of a form that only a hand in the page can finish: its person has the window, does there
what the form wants, and says so. `form_call.py` has the way without a hand.
"""

from __future__ import annotations

import json

import anyio

from abp_bridge.apps.browser.window import NEXT_STEP
from abp_bridge.apps.webmcp.call import QUIET_LIMIT, ToolCall
from abp_bridge.apps.webmcp.page_form import PageForm
from abp_bridge.apps.webmcp.tool_session import CallRefusedError, Invocation
from abp_bridge.core.capability import CallResult
from abp_bridge.protocols.webmcp.form import Form
from abp_bridge.protocols.webmcp.hand import (
    end_hand,
    needs_window,
    says_done,
    unknown_after_hand,
)
from abp_bridge.protocols.webmcp.results import unsent_result

MAX_HANDED = 3  # times that they are asked whether its button can be pressed now


class CallEndedError(Exception):
    """The call is over, as `result` says."""

    def __init__(self, result: CallResult) -> None:
        super().__init__()
        self.result = result


class HandNeededError(Exception):
    """Only a hand in the page can finish the form, and there is a window; `str(error)` says why."""


class FormByHand(ToolCall):
    """What a call of a form does while its person has the page in hand."""

    _form: PageForm | None = None
    _sent = False

    async def _have_made_ready(self) -> None:
        """Have the person do what the page wants before any button of its form can be pressed.

        Raises:
            CallEndedError: They did not, or it is of no use.
        """
        why = "none of the form's buttons can be pressed yet"
        await self._check_window(why)
        wanted = (
            "Do there what the page wants before its button can be pressed, and do not press that:"
            " you are asked next what is to be sent."
        )
        with self._session.watch(self.tool) as self._invocation:
            try:
                ready = await self._ask_until_ready(self._invocation, why, wanted)
            except CallRefusedError as problem:
                raise CallEndedError(unknown_after_hand(str(problem))) from None
        self._invocation = None
        if not ready:
            raise CallEndedError(unknown_after_hand(why))

    async def _ask_until_ready(self, watched: Invocation, why: str, wanted: str) -> bool:
        """Whether a button can be pressed at last. Raises as `_have_made_ready`."""
        assert self._form is not None
        async with self._hand():
            for _ in range(MAX_HANDED):
                answer = await self._ask_hand(why, wanted)
                if watched.is_lost:
                    raise CallEndedError(unknown_after_hand(watched.gone or watched.hint))
                if not says_done(answer):
                    raise CallEndedError(end_hand(answer))
                if (await self._form.read()).ready:
                    return True
        return False

    async def _finish_by_hand(self, form: Form, why: str) -> CallResult:
        """The person looks over the form in its window, and sends it there."""
        assert self._invocation is not None
        await self._check_window(why)
        button = f"its button {json.dumps(form.button, ensure_ascii=False)}"
        wanted = (
            "Look over there what is filled in, add what is missing, and press"
            f" {button if form.button else 'its button'}."
        )
        async with self._hand():
            for limit in (QUIET_LIMIT, self._limit):
                answer = await self._ask_hand(why, wanted)
                if self._invocation.is_lost:
                    return await self._end_by_page()
                if not says_done(answer):
                    return end_hand(answer)
                self._sent = True
                self._report("the page is in its person's hands, who say that it is done")
                with anyio.move_on_after(limit):
                    await self._invocation.wait_lost()
                    return await self._end_by_page()
                wanted = "The page has not answered yet: press its button if you have not."
        return unknown_after_hand(f"the page did not answer within {self._limit:g} s")

    async def _end_by_page(self) -> CallResult:
        """What the page made of what its person did there."""
        assert self._invocation is not None
        self._sent = self._was_in_hand = True
        with anyio.move_on_after(QUIET_LIMIT):
            await self._invocation.wait_over()
        if self._invocation.response is not None:
            return self._decode(self._invocation.response, {})
        return unknown_after_hand(self._invocation.gone or self._invocation.hint)

    async def _check_window(self, why: str) -> None:
        """Raises CallEndedError where nobody can have the page in hand."""
        if not await self._page.window.exists():
            raise CallEndedError(needs_window(why, NEXT_STEP))
        if self._page.window.in_hand:
            words = "its person has the page in hand for another call"
            raise CallEndedError(unsent_result(words, "RATE_LIMITED", retryable=True))
