"""The surfaces of an ACP client: a question as its form, or as a walk of permissions.

The same for an agent's own session and for a proxied one.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from abp_bridge.core.event import ChoiceEvent, Observer, StepEvent, no_observer
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.menu import Menu, MenuResult
from abp_bridge.core.question import Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.hosts.profiles import profile
from abp_bridge.interfaces.surface import (
    HostDisconnectedError,
    Page,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.protocols import mcp
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.rpc.connection import ConnectionClosedError, JsonRpcConnection, RemoteError
from abp_bridge.rpc.protocol import INVALID_PARAMS, METHOD_NOT_FOUND

Json = Any

_OUTCOMES = {
    mcp.Action.ACCEPT: Outcome.ACCEPTED,
    mcp.Action.DECLINE: Outcome.DECLINED,
    mcp.Action.CANCEL: Outcome.CANCELLED,
}


# What a question's card says when it has ended.
_ENDINGS = {
    Outcome.ACCEPTED: "Answered.",
    Outcome.DECLINED: "Skipped.",
}


class ClientSurfaces:
    """How one session of one client can be asked, through `link`.

    `client` is the parameters of its `initialize`; ids of cards begin with `cards`.
    """

    def __init__(
        self,
        link: JsonRpcConnection,
        client: Mapping[str, Json],
        session: str,
        page: Page,
        cards: str = "abp:ask-",
    ) -> None:
        self.session = session
        self._page = page
        self.capabilities = acp.decode_capabilities(client.get("clientCapabilities"))
        self._link = link
        info = client.get("clientInfo")
        self._info: Mapping[str, Json] = info if isinstance(info, Mapping) else {}
        self._profile = profile(str(self._info.get("name")))
        self._refused: set[Surface] = set()
        self._cards = cards
        self._serial = 0

    @property
    def name(self) -> str:
        """The client as it calls itself."""
        return (
            f"{self._info.get('name', 'an unnamed client')} {self._info.get('version', '')} (ACP"
            f" {acp.VERSION})"
        )

    @property
    def variants(self) -> Sequence[SurfaceVariant]:
        """The surfaces this client has, best first, less those it turned out not to have.

        Every client can be asked for a permission.
        """
        found = {
            SurfaceVariant(Surface.ACP_FORM): self.capabilities.form,
            SurfaceVariant(Surface.ACP_URL): self.capabilities.url,
            SurfaceVariant(Surface.ACP_PERMISSION, buttons=self._profile.buttons): True,
        }
        return [
            column for column, has in found.items() if has and column.surface not in self._refused
        ]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
        *,
        call: str | None = None,
    ) -> SurfaceResponse:
        """See `Host.ask`.

        `call` is the tool call to show it on, if the client knows one; else, and for buttons, it
        has a card of its own.
        """

        def show(card: str) -> Awaitable[SurfaceResponse]:
            return self._show(question, variant, card, problem, observe)

        if call is not None and variant.surface is Surface.ACP_FORM:
            return await self._answered(variant, partial(show, call))
        return await self._answered(variant, partial(self._on_a_card, question, show))

    async def _answered(
        self, column: SurfaceVariant, shown: Callable[[], Awaitable[SurfaceResponse]]
    ) -> SurfaceResponse:
        """What the client answers on one surface; that it cannot, in the words of `Host.ask`."""
        try:
            return await shown()
        except RemoteError as error:
            if error.code == acp.REQUEST_CANCELLED:  # the client took it down
                return SurfaceResponse(Outcome.CANCELLED)
            lasting = error.code in (METHOD_NOT_FOUND, INVALID_PARAMS)
            if lasting and column.surface is not Surface.ACP_PERMISSION:
                self._refused.add(column.surface)
            raise SurfaceUnsupportedError(
                f"the client answered: {label(error, 300)}", lasting=lasting
            ) from None
        except ConnectionClosedError:
            raise HostDisconnectedError from None

    async def _on_a_card(
        self, question: Question, show: Callable[[str], Awaitable[SurfaceResponse]]
    ) -> SurfaceResponse:
        """A tool call that is the question's own: clients have one permission at a time on each
        (Zed drops the one before).
        """
        self._serial += 1
        card, ending = f"{self._cards}{self._serial}", ""
        self.update(acp.encode_question_card(card, question))
        try:
            reply = await show(card)
            ending = _ENDINGS.get(reply.outcome, "")
            return reply
        finally:
            self.update(acp.encode_ended(card, [ending or "Not answered."], [], failed=not ending))

    async def send_link(self, question: Question, url: str) -> Outcome:
        """See `Host.send_link`: by a permission to say "Done" or "Skip", on a card of its own."""
        column = SurfaceVariant(Surface.ACP_PERMISSION, buttons=self._profile.buttons)

        async def show(card: str) -> SurfaceResponse:
            asked = acp.encode_permission(
                question, acp.link_step(question, url), self.session, card
            )
            chosen = acp.decode_outcome(await self._request("session/request_permission", asked))
            return SurfaceResponse(acp.decode_link_outcome(chosen))

        return (await self._answered(column, partial(self._on_a_card, question, show))).outcome

    async def _show(
        self, question: Question, column: SurfaceVariant, call: str, problem: str, observe: Observer
    ) -> SurfaceResponse:
        if column.surface is Surface.ACP_PERMISSION:
            return await self._walk(question, column, call, observe)
        if column.surface is Surface.ACP_URL:
            return await self._ask_on_the_page(question, call)
        form = acp.encode_form(question, self.session, call, problem, plain=column.plain)
        action, content = mcp.decode_reply(
            await self._request("elicitation/create", form), question
        )
        return SurfaceResponse(_OUTCOMES[action], content)

    async def _ask_on_the_page(self, question: Question, call: str) -> SurfaceResponse:
        elicitation = f"abp-{question.id}"

        async def point(sheet: PageQuestion) -> Outcome:
            answer = await self._request(
                "elicitation/create",
                acp.encode_url(question, self.session, call, sheet.url, elicitation),
            )
            return _OUTCOMES[mcp.decode_reply(answer, question)[0]]

        try:
            return await self._page.ask(question, point)
        finally:
            self._link.notify("elicitation/complete", {"elicitationId": elicitation})

    async def _walk(
        self, question: Question, column: SurfaceVariant, call: str, observe: Observer
    ) -> SurfaceResponse:
        """A menu, step by step."""
        menu = Menu(question, column.buttons)
        for number in itertools.count(1):
            step, started = menu.step, anyio.current_time()
            observe(
                StepEvent(
                    started,
                    question.id,
                    number,
                    step.title,
                    tuple(option.label for option in step.options),
                )
            )
            chosen = acp.decode_outcome(
                await self._request(
                    "session/request_permission",
                    acp.encode_permission(question, step, self.session, call),
                )
            )
            now = anyio.current_time()
            pressed = next((option.label for option in step.options if option.id == chosen), None)
            observe(ChoiceEvent(now, question.id, number, pressed, now - started))
            if chosen is None:
                break
            after = menu.choose(chosen)
            if isinstance(after, MenuResult):
                return SurfaceResponse(after.outcome, after.content)
        return SurfaceResponse(Outcome.CANCELLED)

    async def _request(self, method: str, params: Json) -> Json:
        return await self._link.request(method, params, reason="the question is no longer open")

    def update(self, update: Json, key: Any = None) -> None:
        """Tell the client a `session/update`.

        Those with the same `key` that still wait become the newest of them.
        """
        self._link.notify("session/update", {"sessionId": self.session, "update": update}, key=key)
