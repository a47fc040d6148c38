"""One call of a page's tool, from its start to a result; `form_call.py` involves the user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeVar

import anyio
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.page import AppPage
from abp_bridge.apps.browser.window import NEXT_STEP
from abp_bridge.apps.webmcp.page_form import Obstacles
from abp_bridge.apps.webmcp.tool_session import (
    CallRefusedError,
    Invocation,
    PageSilentError,
    ToolSession,
)
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, leaves
from abp_bridge.core.ledger import Progress
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.redact.texts import SECRET, clean_question, clean_value
from abp_bridge.core.sanitize import message
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.schema_fields import decode_fields
from abp_bridge.protocols.webmcp.tools import (
    Tool,
    decode_response,
    end_hand,
    make_hand_question,
    reached_nobody,
    refusal_result,
    says_done,
    secret_properties,
    unknown_after_hand,
    unknown_outcome,
    unsent_result,
)
from abp_bridge.session.app import END_LIMIT, AppListener, only_error
from abp_bridge.session.context import AskContext

MOMENT = 0.02  # seconds
QUIET_LIMIT = 3.0  # seconds for an answer that probably never comes
LOOK_EVERY = 1.0  # seconds from one look at a page that runs a call to the next
NEXT_PAGE_LIMIT = 15.0  # seconds for the page that a call leads to: its having loaded is the answer
NOT_AWAITED = Answer(
    Outcome.WITHDRAWN, AnsweredBy.NOBODY, reason="The page no longer waits for it."
)
GONE = "its page is gone"
T = TypeVar("T")


class ToolCall:
    """A call of a page's function.

    Args:
        session: The page's tools.
        page: The page.
        tool: The tool.
        origin: The app's origin, as the user sees it.
        call: The bridge's id of the call.
        limit: Seconds that the page may be silent.
    """

    def __init__(
        self,
        session: ToolSession,
        page: AppPage,
        tool: Tool,
        *,
        origin: str,
        call: str,
        limit: float,
    ) -> None:
        self.tool = tool
        self.origin = origin
        self.id = call
        self._session = session
        self._page = page
        self._limit = limit
        self._invocation: Invocation | None = None
        self._given_secrets = False
        self._stopped = False  # nothing was sent after all
        self._obstacles = Obstacles(session, tool.frame)
        self._needs_hand = ""  # why, once something speaks for it
        self._may_hand = True  # it was not tried yet
        self._was_in_hand = False
        self._unseen = ""  # what a window would be needed for, and the way to one

    async def run_call(self, params: JsonObject) -> CallResult:
        """Make the call; raises nothing."""
        try:
            result = await self._make(params)
        except PageSilentError as problem:
            result = self._silent(str(problem), params)
        except CallRefusedError as problem:
            result = self._refused(str(problem))
        except RemoteProtocolError as problem:
            result = unsent_result(f"it cannot be put to anybody: {problem}", problem.code)
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave()
        return self._without_secrets(result)

    async def _make(self, params: JsonObject) -> CallResult:
        wanted = secret_properties(self.tool.schema)
        if wanted["properties"]:
            answer = await self._elicit(self._secret_question(wanted))
            if answer.outcome is not Outcome.ACCEPTED:
                return refusal_result(answer)
            self._hide(answer.content)
            params = {**params, **answer.content}
        if not self.tool.read_only:
            await self._obstacles.begin()
        await self._invoke(params)
        return await self._wait({} if self._given_secrets else params)

    async def _leave(self) -> None:
        if self._invocation is not None:
            await self._session.cancel_invocation(self._invocation, END_LIMIT)
            self._session.release(self._invocation)

    def _refused(self, words: str) -> CallResult:
        """Return the result of a call that the browser refused."""
        if self._page.lost:
            return unsent_result(GONE, "DISCONNECTED", retryable=True)
        return decode_response({"status": "Error", "errorText": words})

    def _silent(self, why: str, params: JsonObject) -> CallResult:
        """Return the result if it is unknown whether the page started the call."""
        return self._nobody_knows(why, {} if self._given_secrets else params)

    async def _invoke(self, params: JsonObject) -> None:
        self._invocation = await self._session.invoke(self.tool, params, self._limit)

    # --- waiting ---

    async def _wait(self, sent: JsonObject) -> CallResult:
        """Wait for the result, or return a failure; `sent` describes what was submitted."""
        while (result := await self._wait_once(sent)) is None:
            if self._needs_hand and self._may_hand:
                result = await self._go_on_by_hand()
                if result is not None:
                    return result
            self._report("the page has not answered yet")
        return result

    async def _wait_once(self, sent: JsonObject) -> CallResult | None:
        """Wait for the result; return None to restart the time limit after the user took part."""
        assert self._invocation is not None
        invocation, dialogs = self._invocation, self._page.dialogs.count
        hint, silent = invocation.hint, False
        quiet = NEXT_PAGE_LIMIT if invocation.has_left else QUIET_LIMIT
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_for_need)
            with anyio.move_on_after(min(quiet, self._limit) if hint else self._limit) as waiting:
                while not (
                    invocation.is_over
                    or invocation.hint != hint
                    or self._stopped
                    or (self._needs_hand and self._may_hand)
                ):
                    await invocation.wait_news()
            silent = waiting.cancelled_caught
            tasks.cancel_scope.cancel()
        if self._stopped:
            return unsent_result("the form was no longer what had been read")
        if invocation.response is not None:
            return self._decode(invocation.response, sent)
        if invocation.gone:
            return self._nobody_knows(invocation.gone, sent)
        asked = self._page.dialogs.is_open or self._page.dialogs.count != dialogs
        if asked or not silent:
            return None
        late = f"the page did not answer within {self._limit:g} s"
        return self._nobody_knows(hint or late, sent)

    def _decode(self, response: JsonObject, sent: JsonObject) -> CallResult:
        """Decode the page's response."""
        return decode_response(response)

    def _nobody_knows(self, why: str, sent: JsonObject) -> CallResult:
        if self._was_in_hand:
            return unknown_after_hand(why)
        if self.tool.read_only:
            return failed("TIMEOUT", f"There is no answer: {why}.", retryable=True)
        return unknown_outcome(f"{why}{self._unseen}", sent)

    async def _look_for_need(self) -> None:
        """Watch the page for an obstacle that only the user can remove."""
        before = ""
        while self._may_hand:
            await anyio.sleep(LOOK_EVERY)
            now = "" if self._page.dialogs.is_open else await self._obstacles.look()
            if now and now == before:
                await self._on_need(now)
                return
            before = now

    async def _on_need(self, why: str) -> None:
        assert self._invocation is not None
        if await self._page.window.exists():
            self._needs_hand = why
        else:  # it may end by itself all the same
            self._unseen = f"; {why}. {NEXT_STEP}"
        self._invocation.tell()

    # --- by hand ---

    async def _go_on_by_hand(self) -> CallResult | None:
        """Leave the page to the user during the call; return None if the result is awaited."""
        assert self._invocation is not None
        self._may_hand = False
        if self._page.window.in_hand:  # for another call
            return None
        async with self._hand():
            answer = await self._ask_hand(self._needs_hand, "Do there what the page wants.")
        self._was_in_hand = not reached_nobody(answer)
        if self._invocation.is_over or says_done(answer) or not self._was_in_hand:
            return None
        await self._session.cancel_invocation(self._invocation)
        return end_hand(answer)

    async def _ask_hand(self, why: str, wanted: str) -> Answer:
        """While the user works in the page, ask whether they are done."""
        await self._page.window.bring_to_front()
        return await self._elicit(
            make_hand_question(
                id=self._listener.new_question_id(),
                origin=self.origin,
                description=self.tool.description or self.tool.name,
                why=why,
                wanted=wanted,
            )
        )

    @asynccontextmanager
    async def _hand(self) -> AsyncIterator[None]:
        """Leave the page to the user, and close what it opens meanwhile."""
        with self._page.window.hand() as opened:
            try:
                yield
            finally:
                with anyio.move_on_after(END_LIMIT, shield=True), suppress(PlaywrightError):
                    for each in opened:
                        await each.close()

    def _report(self, status: str) -> None:
        """Restart the time limit: the page is not silent."""
        if self._page.listener is not None:
            self._page.listener.on_progress(Progress(None, 0.0, status=status, token=self.id))

    # --- asking ---

    @property
    def _listener(self) -> AppListener:
        listener = self._page.listener
        if listener is None:
            raise CallRefusedError("the session ended")
        return listener

    async def _elicit(self, question: Question) -> Answer:
        """Ask the user while the page waits.

        Raises:
            RemoteProtocolError: The question contains a secret that was given before.
        """
        asked = clean_question(question, self._session.hide)
        answer = await self._unless_over(self._listener.elicit(asked, AskContext(calls=(self.id,))))
        return NOT_AWAITED if answer is None else answer

    async def _unless_over(self, work: Coroutine[None, None, T]) -> T | None:
        """Return the result of `work`, or None if the page ended the call first."""
        done: list[T] = []
        invocation = self._invocation
        async with only_error(CallRefusedError), anyio.create_task_group() as tasks:

            async def watch() -> None:
                if invocation is not None:
                    await invocation.wait_lost()
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            done.append(await work)
            tasks.cancel_scope.cancel()
        return done[0] if done else None

    def _secret_question(self, wanted: JsonObject) -> Question:
        fields = decode_fields(as_object(wanted["properties"]), wanted["required"])
        return Question(
            self._listener.new_question_id(),
            Kind.INPUT,
            message(self.tool.description) or "Please fill this in.",
            tuple(replace(each, secret=True) for each in fields),
            self.origin,
            wrapped=False,
        )

    def _hide(self, given: JsonValue) -> None:
        """Remove secrets from a result."""
        for each in leaves(given):
            self._session.secrets.add_text(str(each), SECRET)
            self._session.knows_secrets = self._given_secrets = True

    def _without_secrets(self, result: CallResult) -> CallResult:
        if not self._session.knows_secrets:
            return result

        hide = self._session.hide
        problem = result.failure
        if problem is not None:
            details = clean_value(problem.details, hide)
            problem = replace(problem, message=hide(problem.message), details=details)
        return replace(
            result, data=clean_value(result.data, hide), failure=problem, structured=None
        )


async def pause() -> None:
    """Wait a moment for a page that acts without an event."""
    await anyio.sleep(MOMENT)
