"""A call of a form that waits for its user: fill it in, show it, change it as they want, and
submit.

If only the user can finish it in the page, they get the window and say when they are done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from abp_bridge.apps.browser.page_state import PAGE_LIMIT
from abp_bridge.apps.browser.window import NEXT_STEP
from abp_bridge.apps.webmcp.call import GONE, QUIET_LIMIT, ToolCall, pause
from abp_bridge.apps.webmcp.page_form import PageForm
from abp_bridge.apps.webmcp.tool_session import (
    FORM_GONE,
    CallRefusedError,
    Invocation,
    PageSilentError,
)
from abp_bridge.core.capability import CallResult
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import MAX_LISTED
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.files import make_folder, remove_folder
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.webmcp.form import Entry, Form, withheld_controls
from abp_bridge.protocols.webmcp.form_question import (
    SEND,
    answered_states,
    changed_places,
    describe_unasked,
    files_wanted,
    find_changes,
    find_left_out,
    find_missing,
    make_arguments,
    make_confirm,
    make_question,
    read_file,
    show_sent,
)
from abp_bridge.protocols.webmcp.tools import (
    beforeunload_result,
    decode_response,
    end_hand,
    find_need,
    left_by_itself,
    needs_window,
    refusal_result,
    says_done,
    unknown_after_hand,
    unsent_result,
    was_ended,
)
from abp_bridge.session.app import END_LIMIT


class CallEndedError(Exception):
    """The call has ended with `result`."""

    def __init__(self, result: CallResult) -> None:
        super().__init__()
        self.result = result


class HandNeededError(Exception):
    """Only the user can finish the form in its window; `str(error)` says why."""


class FormByHand(ToolCall):
    """The part of a form's call in which the user works in the page."""

    _form: PageForm | None = None
    _sent = False

    async def _have_made_ready(self) -> None:
        """Have the user do what the page requires before a button of its form can be pressed."""
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
        """Ask until a button can be pressed."""
        assert self._form is not None
        async with self._hand():
            for _ in range(MAX_ASKED):
                answer = await self._ask_hand(why, wanted)
                if watched.is_lost:
                    raise CallEndedError(unknown_after_hand(watched.gone or watched.hint))
                if not says_done(answer):
                    raise CallEndedError(end_hand(answer))
                if (await self._form.read_form()).ready:
                    return True
        return False

    async def _finish_by_hand(self, form: Form, why: str) -> CallResult:
        """Have the user check and submit the form in its window."""
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
        """Return the page's response to what the user did."""
        assert self._invocation is not None
        self._sent = self._was_in_hand = True
        with anyio.move_on_after(QUIET_LIMIT):
            await self._invocation.wait_over()
        if self._invocation.response is not None:
            return self._decode(self._invocation.response, {})
        return unknown_after_hand(self._invocation.gone or self._invocation.hint)

    async def _check_window(self, why: str) -> None:
        """Raise CallEndedError if there is no window."""
        if not await self._page.window.exists():
            raise CallEndedError(needs_window(why, NEXT_STEP))
        if self._page.window.in_hand:
            words = "its person has the page in hand for another call"
            raise CallEndedError(unsent_result(words, "RATE_LIMITED", retryable=True))


logger = logging.getLogger(__name__)

MAX_ASKED = 3  # times that the user is asked about one form
OTHER_FORM = "the page has changed its form since it was asked about"
CHANGED = "The page has changed its form since you accepted it. Please look at it again."


class FormCall(FormByHand):
    """A call of a form (`ToolCall`)."""

    _was_stopped = False  # as it would have sent itself

    async def _make(self, params: JsonObject) -> CallResult:
        self._form = form = PageForm(self._session, self.tool)
        before = await form.read_form()
        if taken := sorted(withheld_controls(before).keys() & params.keys()):
            names = ", ".join(map(label, taken))
            why = f"{names} cannot be given in a call: the person gives it, where the form wants it"
            return unsent_result(why, "INVALID_PARAMS")
        try:
            if self.tool.autosubmit:
                return await self._send_at_once(params)
            if not before.ready:  # then the browser does not fill it in
                await self._have_made_ready()
            await self._invoke(params)
            waiting = await self._until_waiting()
            try:
                return await self._put_to_person(waiting)
            except HandNeededError as need:
                return await self._finish_by_hand(waiting, str(need))
        except CallEndedError as ended:
            return ended.result

    def _silent(self, why: str, params: JsonObject) -> CallResult:
        return super()._silent(why, params) if self._sent else unsent_result(why, "TIMEOUT")

    def _decode(self, response: JsonObject, sent: JsonObject) -> CallResult:
        if self._sent and was_ended(response):  # as a page empties a form that it has sent
            return self._nobody_knows("the page ended the call once its form was sent", sent)
        return super()._decode(response, sent)

    def _nobody_knows(self, why: str, sent: JsonObject) -> CallResult:
        if self._invocation is not None and self._invocation.has_stayed:
            self._sent = False
            return beforeunload_result()
        return super()._nobody_knows(why, sent)

    async def _leave(self) -> None:
        await super()._leave()
        invoked = self._invocation is not None and self._invocation.id
        if self._form is not None and (invoked or self._was_stopped) and not self._sent:
            with anyio.move_on_after(END_LIMIT), suppress(CallRefusedError):
                await self._form.reset()

    async def _send_at_once(self, params: JsonObject) -> CallResult:
        """Call a form that submits itself, after asking for required values that the call lacks.

        If it would submit anything else once filled in, it is stopped, and the user is asked again.

        Raises:
            CallEndedError: The user gave no values, or the form keeps changing.
        """
        assert self._form is not None
        why = ""
        for _ in range(MAX_ASKED):
            before = await self._form.read_form(is_called=True)
            places = find_missing(before)
            if places or why or describe_unasked(before):
                note = f"Nothing was sent yet: {why}." if why else ""
                await self._have_given(self._form, before, places, note)
            if not await self._form.guard():
                raise CallEndedError(unsent_result(OTHER_FORM))
            await self._obstacles.begin()
            self._sent = True
            await self._invoke(params)
            result = await self._wait(params)
            if result.failure is None or (stopped := await self._find_stopped()) is None:
                return result
            self._forget_call()
            named = ", ".join(find_changes(before, stopped, ())[:MAX_LISTED])
            why = f"its page changes {named or 'what it sends'} as it is filled in"
        raise CallEndedError(unsent_result(why))

    def _forget_call(self) -> None:
        """Drop a call that submitted nothing."""
        assert self._invocation is not None
        self._session.release(self._invocation)
        self._invocation, self._sent, self._was_stopped = None, False, True

    async def _find_stopped(self) -> Form | None:
        """Return the form that would have been submitted, if it differs from what was shown."""
        assert self._form is not None
        if self._invocation is None or self._invocation.response is None:
            return None
        with suppress(CallRefusedError, PageSilentError):
            return await self._form.read_stopped()
        return None

    async def _have_given(
        self, form: PageForm, before: Form, places: Sequence[int], note: str
    ) -> None:
        """Have the user give the values of the controls at `places`.

        Raises:
            CallEndedError: They did not, or the form has changed.
        """
        try:
            content = await self._accepted(await self._make_question(before, note, places))
        except HandNeededError as need:  # the call is what sends it: there is nothing to do by hand
            raise CallEndedError(unsent_result(str(need), "NOT_SUPPORTED")) from None
        now = await form.read_form(is_called=True)
        fixed = {at: each.state for at, each in enumerate(before.controls) if each.fixed}
        is_same = now.shape == before.shape and not changed_places(now, fixed)
        if not is_same or find_changes(before, now, ()):  # a place may be another's by now
            raise CallEndedError(unsent_result(OTHER_FORM))
        if places:
            await form.set(answered_states(before, content, places), places)
            await form.read_form(is_called=True)

    async def _until_waiting(self) -> Form:
        """Wait until the browser has filled in the form and it waits for the user.

        Raises:
            CallEndedError: The page has answered already, or does not fill it in.
        """
        assert self._form is not None
        assert self._invocation is not None
        with anyio.move_on_after(PAGE_LIMIT):
            while not (self._invocation.is_lost or self._invocation.has_lost_form):
                try:
                    form = await self._unless_over(self._form.read_form())
                except CallRefusedError:  # perhaps as its page goes on, of which is told later
                    with anyio.move_on_after(END_LIMIT):
                        await self._invocation.wait_lost()
                    if not self._invocation.is_lost:
                        raise
                    break
                if form is not None and form.active:
                    return form
                await pause()
            await pause()  # for what the browser says of it
        raise CallEndedError(self._describe_end("the page did not fill its form in"))

    def _describe_end(self, otherwise: str) -> CallResult:
        """Say how a call ended that we did not submit."""
        invocation = self._invocation
        if invocation is not None and invocation.response is not None:
            result = decode_response(invocation.response)
            if invocation.has_left and result.failure is None:  # what stands on the next page
                return left_by_itself()
            return result
        if self._page.lost or (invocation is not None and invocation.gone):
            return unsent_result(self._page.lost or GONE, "DISCONNECTED", retryable=True)
        if invocation is not None and invocation.is_lost:
            return unsent_result(invocation.hint, "CANCELLED")
        if invocation is not None and invocation.has_lost_form:
            return unsent_result(FORM_GONE, "CANCELLED")
        return unsent_result(otherwise)

    # --- asking ---

    async def _put_to_person(self, form: Form) -> CallResult:
        """Ask until the user has accepted what would be submitted and the form is valid.

        Raises:
            HandNeededError: They must do it in the page.
            CallEndedError: The call ended otherwise.
        """
        note = await self._describe_need(form)
        for _ in range(MAX_ASKED):
            question = await self._make_question(form, note)
            content = await self._accepted(question)
            states = answered_states(form, content)
            if left_out := find_left_out(form, content):
                logger.info("%d fields were left out of an answer", len(left_out))
                asked = make_confirm(question, form, states)
                await self._accepted(replace(asked, id=self._listener.new_question_id()))
            wanted = files_wanted(form, content)
            async with self._files(wanted) as files:
                await self._page.window.wait_free()
                filled = await self._fill(form, states, files)
                given = {each.first.name for each in wanted}
                note = self._find_reason(form, filled, states, given)
                if not note and (result := await self._submit(filled)) is not None:
                    return result
                note = note or CHANGED
            form = await self._read_again()
        why = (
            f"after {MAX_ASKED} times the form is still not as it was accepted: {note.rstrip('.')}"
        )
        if await self._page.window.exists():
            raise HandNeededError(why)
        return unsent_result(f"{why}. By hand it may go. {NEXT_STEP}")

    async def _describe_need(self, form: Form) -> str:
        """Return a note on a control that only the user can fill in.

        Raises:
            HandNeededError: There is a window for that.
            CallEndedError: There is none, and the form requires the control.
        """
        need = find_need(form)
        if need and await self._page.window.exists():
            raise HandNeededError(need)
        if form.stuck:
            raise CallEndedError(needs_window(need, NEXT_STEP))
        return f"But {need}. {NEXT_STEP}." if need else ""

    async def _make_question(
        self, form: Form, note: str, places: Sequence[int] | None = None
    ) -> Question:
        """Make a question of the form, or of a part of it."""
        try:
            return make_question(
                form,
                id=self._listener.new_question_id(),
                origin=self.origin,
                description=self.tool.description or self.tool.name,
                note=note,
                places=places,
            )
        except RemoteProtocolError as problem:
            if await self._page.window.exists():
                raise HandNeededError(str(problem)) from None
            raise CallEndedError(needs_window(str(problem), NEXT_STEP)) from None

    async def _accepted(self, question: Question) -> JsonObject:
        """Ask, and return what the user accepted.

        Raises:
            CallEndedError: They did not, or the page did not wait.
        """
        answer = await self._elicit(question)
        if self._invocation is not None and self._invocation.is_lost:
            raise CallEndedError(self._describe_end("the page ended the call"))
        unasked = answer.outcome is Outcome.UNSUPPORTED and question.secret
        if unasked and await self._page.window.exists():
            raise HandNeededError("nothing that you are asked on takes a secret")
        asks_only = question.kind is Kind.CONFIRM  # a form may have a field of that name
        said_no = asks_only and answer.content.get(SEND) is False
        if answer.outcome is not Outcome.ACCEPTED or said_no:
            raise CallEndedError(refusal_result(answer))
        secret = {each.name for each in question.fields if each.secret}
        self._hide([value for name, value in answer.content.items() if name in secret])
        return answer.content

    # --- looking again ---

    @staticmethod
    def _find_reason(
        accepted: Form, filled: Form, states: dict[int, JsonValue], given: set[str]
    ) -> str:
        """Return why the form cannot be submitted, or ""; `given` are file names."""
        if filled.shape != accepted.shape or changed_places(filled, states):
            return CHANGED
        if extra := find_changes(accepted, filled, given):
            named = ", ".join(extra[:MAX_LISTED])
            return f"{CHANGED} It would send another {named}."
        if filled.problems:
            return f"The form does not take it: {'; '.join(filled.problems)}."
        return ""

    async def _read_again(self) -> Form:
        assert self._form is not None
        form = await self._unless_over(self._form.read_form())
        if form is None:
            raise CallEndedError(self._describe_end("the page ended the call"))
        return form

    # --- filling in ---

    async def _fill(
        self, form: Form, states: dict[int, JsonValue], files: Sequence[tuple[Entry, str]]
    ) -> Form:
        """Fill in accepted values through the browser, so that scripts notice, and the rest
        directly.
        """
        assert self._form is not None
        changed = changed_places(form, states)
        if any(not form.controls[at].secret for at in changed):
            form = await self._invoke_again(form, states)
        rest = [at for at in changed_places(form, states) if not form.controls[at].fixed]
        if rest:
            await self._form.set(states, rest)
        for entry, path in files:
            await self._form.give_file(entry.places[0], path)
        return await self._read_again()

    async def _invoke_again(self, form: Form, states: dict[int, JsonValue]) -> Form:
        """Invoke one call at a time: cancelling a replaced call crashes the page."""
        assert self._invocation is not None
        if not await self._session.cancel_invocation(self._invocation):
            raise CallEndedError(unsent_result("the page does not let go of the call before"))
        if self._invocation.gone:
            raise CallEndedError(self._describe_end(GONE))
        self._session.release(self._invocation)
        await self._invoke(make_arguments(form, states, self.tool.schema))
        return await self._until_waiting()

    @asynccontextmanager
    async def _files(self, wanted: Sequence[Entry]) -> AsyncIterator[list[tuple[Entry, str]]]:
        """Write the user's files, each to its own folder, until the block ends."""
        folder = await anyio.to_thread.run_sync(make_folder) if wanted else ""
        given: list[tuple[Entry, str]] = []
        try:
            for number, entry in enumerate(wanted):
                if (path := await self._ask_file(entry, Path(folder, str(number)))) is not None:
                    given.append((entry, str(path)))
            yield given
        finally:
            if folder:
                remove_folder(folder)

    async def _ask_file(self, entry: Entry, folder: Path) -> Path | None:
        prompt = f"{entry.first.title}: a file for the form"
        params: JsonObject = {"prompt": prompt, "type": entry.first.accept}
        asked: JsonObject = {"method": "elicitation/resource", "params": params}
        question = decode_question(asked, id=self._listener.new_question_id(), origin=self.origin)
        content = await self._accepted(question)
        name, data = read_file(content)
        path = folder / name
        await anyio.Path(folder).mkdir(mode=0o700)
        await anyio.Path(path).write_bytes(data)
        return path

    # --- sending ---

    async def _submit(self, form: Form) -> CallResult | None:
        """Return the page's response, or None if the form changed since the last reading."""
        await self._obstacles.begin()
        self._sent, self._stopped = True, False
        self._report("the form is sent")
        sent, result = show_sent(form), None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._press)
            result = await self._wait(sent)
            tasks.cancel_scope.cancel()
        if self._stopped:
            self._sent = False
            return None
        return result

    async def _press(self) -> None:
        """Submit, until a dialog or the next page opens."""
        assert self._form is not None
        assert self._invocation is not None
        with suppress(CallRefusedError):
            if not await self._form.submit():
                self._stopped = True
                self._invocation.tell()
