"""The surfaces of an ACP client: a form, a walk of permissions, the page, or the chat.

An agent's own session and a proxied one share them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from abp_bridge.acp.turns import Chat, Turns
from abp_bridge.core.json_value import JsonObject, as_object, as_text
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.menu import Menu, MenuResult, Step
from abp_bridge.core.outcome import Action, AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import Revealed, label
from abp_bridge.core.surface import Advice, Surface
from abp_bridge.jsonrpc.connection import (
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
    Reply,
)
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import INVALID_PARAMS, METHOD_NOT_FOUND
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.host_words import MAX_HOST_WORDS
from abp_bridge.session.context import AskContext, ChoiceEvent, StepEvent
from abp_bridge.session.elicited import decode_elicited, find_machine, make_page_id
from abp_bridge.session.profiles import profile
from abp_bridge.session.surface import (
    HostDisconnectedError,
    Page,
    PageLink,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
    find_answerer,
    median,
)

_NO_CALL = "no call runs which the next prompt, as the answer, could go on with"
_NOT_OPEN = "the question is no longer open"


@dataclass(slots=True)
class _Card:
    """The tool call that shows one question; `announcement` is sent with the first request."""

    id: str
    announcement: JsonObject | None = None
    outcome: Outcome | None = None


class ClientSurfaces:
    """How one session of a client can be asked.

    Args:
        connection: The client's connection.
        client: The parameters of its `initialize`.
        session_id: May be set later, before the first question.
        page: The bridge's page.
        cards: The prefix of the ids of our tool calls.
        revealed: Shows what goes to the client, where the connection does not.
        on_chat: Called when a question opens in the chat, and when none is open any more; None
            without a chat.

    Attributes:
        turns: Its prompts: it can be asked only inside them.
        chat: The questions in the conversation.
        has_come_back: It has resumed a session or sent a second prompt.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        client: JsonObject,
        session_id: str,
        page: Page,
        cards: str = "abp:ask-",
        *,
        revealed: Revealed | None = None,
        on_chat: Callable[[], None] | None = None,
    ) -> None:
        self.session_id = session_id
        self._page = page
        self.capabilities = acp.decode_capabilities(client.get("clientCapabilities"))
        self._connection = connection
        self._revealed = revealed
        self._info = as_object(client.get("clientInfo"))
        row = profile(self._info.get("name"), client.get("clientCapabilities"))
        self._profile = row
        self._off = () if on_chat is not None else (Surface.ACP_CHAT,)
        self._permission_variant = SurfaceVariant(
            Surface.ACP_PERMISSION, buttons=row.buttons, interactive=row.interactive
        )
        chats = on_chat is not None and row.interactive is not False
        known = {
            SurfaceVariant(Surface.ACP_FORM, interactive=row.interactive): self.capabilities.form,
            SurfaceVariant(Surface.ACP_URL, interactive=row.interactive): self.capabilities.url,
            self._permission_variant: True,
            SurfaceVariant(Surface.ACP_CHAT, interactive=row.interactive): chats,
        }
        self._variants = [variant for variant, has in known.items() if has]
        self._refused: set[Surface] = set()
        self._cards = cards
        self.turns = Turns()
        self.chat = Chat(self.turns, self.say, on_chat or (lambda: None))
        self.has_come_back = False
        self._serial = 0

    @property
    def name(self) -> str:
        return (
            f"{as_text(self._info.get('name')) or 'an unnamed client'}"
            f" {as_text(self._info.get('version'))} (ACP {acp.VERSION})"
        )

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """Return its surfaces, best first, without those that it refused.

        Every client has permissions. The chat is only for clients without forms; one that may leave
        must have come back.
        """
        there = [each for each in self._variants if each.surface not in self._refused]
        forms = any(each.surface is Surface.ACP_FORM for each in there)
        has_chat = not forms and (self.has_come_back or not self._profile.may_leave)
        return [each for each in there if has_chat or each.surface is not Surface.ACP_CHAT]

    def advise(self, question: Question, context: AskContext) -> Advice:
        return self._profile.advise(question, self._off)

    @property
    def runs_call(self) -> bool:
        """Whether a call waits that the next prompt, as the answer, can continue."""
        return False

    def find_card(self, context: AskContext) -> str | None:
        """Return the tool call on which the client already shows the question's call."""
        return None

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Ask while a prompt runs (`InputProvider.prompt`)."""
        if variant.surface is Surface.ACP_CHAT:
            if not self.runs_call:
                raise SurfaceUnsupportedError(_NO_CALL, lasting=False)
            return await self.chat.show(question, problem)
        async with self.turns.asking():
            on_call = self.find_card(context) if variant.surface is Surface.ACP_FORM else None
            card = self._make_card(question) if on_call is None else _Card(on_call)
            try:
                if variant.surface is Surface.ACP_PERMISSION:
                    response = await self._walk(question, context, variant, card)
                elif variant.surface is Surface.ACP_URL:
                    response = await self._ask_on_page(question, context, card)
                else:
                    form = acp.encode_form(
                        question, self.session_id, card.id, problem, plain=variant.plain
                    )
                    response = await self._elicit(question, form, card)
                card.outcome = response.outcome
                return response
            except (RemoteError, ConnectionClosedError) as error:
                return self._without_outcome(variant, error)
            finally:
                if on_call is None:
                    self._end_card(card)
        raise AssertionError("a turn that ends raises")

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Ask the user to open `link`, by a permission with "Done" and "Skip" on its own card.

        Returns:
            Accepted for "Done", declined for "Skip", else cancelled.
        """
        async with self.turns.asking():
            card = self._make_card(question)
            try:
                step = acp.link_step(question, link.url)
                chosen, seconds, by = await self._request_permission(question, step, card)
                card.outcome = acp.decode_link_outcome(chosen)
                return SurfaceResponse(
                    card.outcome, seconds=seconds, variant=self._permission_variant, answered_by=by
                )
            except (RemoteError, ConnectionClosedError) as error:
                return self._without_outcome(self._permission_variant, error)
            finally:
                self._end_card(card)
        raise AssertionError("a turn that ends raises")

    def _without_outcome(
        self, variant: SurfaceVariant, error: RemoteError | ConnectionClosedError
    ) -> SurfaceResponse:
        """Return or raise what a client's error means; that it cancelled the question is not an
        error.
        """
        if isinstance(error, ConnectionClosedError):
            raise HostDisconnectedError from None
        if error.code == acp.REQUEST_CANCELLED:
            words = label(error, MAX_HOST_WORDS)
            return SurfaceResponse(Outcome.CANCELLED, seconds=error.seconds, host_words=words)
        lasting = error.code in (METHOD_NOT_FOUND, INVALID_PARAMS)
        if lasting and variant.surface is not Surface.ACP_PERMISSION:
            self._refused.add(variant.surface)
        words = f"the client answered: {label(error, 300)}"
        raise SurfaceUnsupportedError(words, lasting=lasting) from None

    def _make_card(self, question: Question) -> _Card:
        """Make the question's own tool call: Zed drops the earlier of two permissions on one."""
        self._serial += 1
        id = f"{self._cards}{self._serial}"
        return _Card(id, acp.encode_question_card(id, question))

    def _end_card(self, card: _Card) -> None:
        """Show how the question ended, if the client knows its card."""
        if card.announcement is None:
            # The app waits for its answer, and nobody for this.
            self._connection.postpone(partial(self._tell_ending, card))

    def _tell_ending(self, card: _Card) -> None:
        row = (card.outcome or Outcome.UNSUPPORTED).row
        failed = row.action is Action.CANCEL
        ended = acp.encode_ended(card.id, [row.card], [], failed=failed)
        self._connection.notify(*self._encode_update(ended), deferred=True)

    async def _elicit(self, question: Question, params: JsonObject, card: _Card) -> SurfaceResponse:
        reply = await self._connection.exchange(
            "elicitation/create", self._show(params), reason=_NOT_OPEN, after=self._announce(card)
        )
        return decode_elicited(self._read(reply), question)

    async def _ask_on_page(
        self, question: Question, context: AskContext, card: _Card
    ) -> SurfaceResponse:
        elicitation = make_page_id(question)

        async def send_link(page: PageQuestion) -> SurfaceResponse:
            noted = question.with_note(page.directions)
            params = acp.encode_url(noted, self.session_id, card.id, page.url, elicitation)
            return await self._elicit(question, params, card)

        try:
            return await self._page.collect_answer(question, context, send_link)
        finally:
            self._connection.notify("elicitation/complete", {"elicitationId": elicitation})

    async def _walk(
        self, question: Question, context: AskContext, variant: SurfaceVariant, card: _Card
    ) -> SurfaceResponse:
        """Ask by a menu, step by step."""
        menu, times = Menu(question, variant.buttons), list[float]()
        machines, ended = list[AnsweredBy | None](), MenuResult(Outcome.CANCELLED)
        for number in itertools.count(1):
            step = menu.step
            labels = tuple(option.label for option in step.options)
            context.observe(StepEvent(now(), question.id, number, step.title, labels))
            chosen, seconds, by = await self._request_permission(question, step, card)
            times.append(seconds)
            machines.append(by)
            pressed = next((option.label for option in step.options if option.id == chosen), None)
            context.observe(ChoiceEvent(now(), question.id, number, pressed, seconds))
            if chosen is None:
                break
            if isinstance(after := menu.choose(chosen), MenuResult):
                ended = after
                break
        by = find_answerer(machines)
        return SurfaceResponse(ended.outcome, ended.content, median(times), answered_by=by)

    async def _request_permission(
        self, question: Question, step: Step, card: _Card
    ) -> tuple[str | None, float, AnsweredBy | None]:
        """Return the id of the pressed option, the client's own seconds, and who pressed it if not
        a user.
        """
        params = acp.encode_permission(question, step, self.session_id, card.id)
        shown = self._show(params)
        reply = self._read(
            await self._connection.exchange(
                "session/request_permission", shown, reason=_NOT_OPEN, after=self._announce(card)
            )
        )
        return acp.decode_outcome(reply.result), reply.seconds, find_machine(reply)

    def _show(self, params: JsonObject) -> JsonObject:
        return params if self._revealed is None else as_object(self._revealed.outward(params))

    def _read(self, reply: Reply) -> Reply:
        if self._revealed is None:
            return reply
        return replace(reply, result=self._revealed.inward(reply.result))

    def _announce(self, card: _Card) -> tuple[str, JsonObject] | None:
        """Return the update that announces the card, once."""
        announcement, card.announcement = card.announcement, None
        return None if announcement is None else self._encode_update(announcement)

    def say(self, words: str) -> None:
        """Say something as the agent."""
        self.update(acp.encode_message(words))

    def update(self, update: JsonObject, key: Hashable = None, topic: Hashable = None) -> None:
        """Send a `session/update`; `key` and `topic` as in `JsonRpcConnection.notify`."""
        self._connection.notify(*self._encode_update(update), key=key, topic=topic)

    def _encode_update(self, update: JsonObject) -> tuple[str, JsonObject]:
        return "session/update", self._show({"sessionId": self.session_id, "update": update})
