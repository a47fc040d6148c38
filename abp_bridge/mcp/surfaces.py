"""The surfaces of an MCP host: a form, a link to the page, its models.

A stateful host is sent a request; a stateless one gets the question with the next round of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import anyio

from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import BY_ACTION, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import Revealed, label
from abp_bridge.core.surface import WAYS, Advice, Surface
from abp_bridge.errors import AbpBridgeError
from abp_bridge.jsonrpc.connection import ConnectionClosedError, RemoteError, Reply
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND
from abp_bridge.mcp.connection import McpConnection
from abp_bridge.mcp.pending_call import FindPending, PendingCall, find_no_call
from abp_bridge.protocols.mcp import elicitation, sampling
from abp_bridge.protocols.mcp.client import (
    V2025_11_25,
    HostCapabilities,
    McpClientInfo,
    decode_capabilities,
)
from abp_bridge.protocols.mcp.elicitation import (
    decode_roots,
    form_version,
)
from abp_bridge.session.context import AskContext
from abp_bridge.session.elicited import decode_elicited, make_page_id
from abp_bridge.session.profiles import Profile, profile
from abp_bridge.session.surface import (
    HostDisconnectedError,
    Page,
    PageLink,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

# The capability that shows what goes to a surface.
FORM, URL, ROOTS = "form", "url", "roots"
_NEEDED = {Surface.MCP_FORM: FORM, Surface.MCP_URL: URL, Surface.MCP_SAMPLING: "sampling"}
# How a person has themselves asked elsewhere.
_PAGE, _TERMINAL = WAYS[Surface.PAGE].give, WAYS[Surface.TERMINAL].give
_ELSEWHERE = {
    Surface.TERMINAL: "be asked at a terminal",
    Surface.PAGE: "have a browser opened",
}
ROOTS_LIMIT = 5.0  # seconds for a host to say which folders it grants


class McpSurfaces:
    """One host's surfaces: a `HostSurfaces`.

    Args:
        find_pending: Finds the pending call that takes a question to a stateless host.
        ask_via_model: Whether the host's model may ask its user.
        revealed: Shows invisible characters, where the connection does not.
    """

    def __init__(
        self,
        connection: McpConnection,
        page: Page,
        find_pending: FindPending = find_no_call,
        *,
        ask_via_model: bool = False,
        revealed: Revealed | None = None,
    ) -> None:
        self._connection = connection
        self._revealed = revealed
        self._page = page
        self._find_pending = find_pending
        self._ask_via_model = ask_via_model
        self._not_supported: set[str] = set()  # declared, and turned out not to be there

    @property
    def name(self) -> str:
        return self._connection.client.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The surfaces that the host declared, best first, without those found missing."""
        host = self._find_host(calls)
        declared = {
            Surface.MCP_FORM: host.capabilities.form,
            Surface.MCP_URL: host.capabilities.url,
            Surface.MCP_SAMPLING: host.capabilities.sampling,
            Surface.MODEL_RELAY: self._ask_via_model,
        }
        return [
            host.variant(surface)
            for surface, has in declared.items()
            if has and _NEEDED.get(surface) not in self._not_supported
        ]

    def advise(self, question: Question, context: AskContext) -> Advice:
        """Return the setup hints for this host."""
        return self._find_host(context.calls).profile.advise(question)

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Show a question by a form, a link or the model (`InputProvider.prompt`)."""
        host = self._find_host(context.calls)
        if variant.surface is Surface.MODEL_RELAY:
            return await _ask_through_model(host.pending_call, question, problem)
        with host.asking():
            if variant.surface is Surface.MCP_URL:
                return await self._ask_by_url(host, question, context)
            reply = await self._request_input(
                host, _NEEDED[variant.surface], *_encode(question, variant, host, problem)
            )
            if variant.surface is Surface.MCP_SAMPLING:
                own = sampling.is_servers_own(question.request)
                decode = sampling.decode_whole if own else elicitation.decode_sampled
                content = decode(reply.result)
                return SurfaceResponse(Outcome.ACCEPTED, content, reply.seconds, reply.exact)
            return decode_elicited(reply, question)

    async def _ask_by_url(
        self, host: _HostState, question: Question, context: AskContext
    ) -> SurfaceResponse:
        """Show the question's own address, or one of our page."""
        if not question.link:
            return await self._ask_on_page(host, question, context)
        params = elicitation.encode_url(question, question.link, question.elicitation_id)
        reply = await self._request_input(host, URL, "elicitation/create", params)
        response = decode_elicited(reply, question)
        return replace(response, content={field.name: True for field in question.fields})

    async def _ask_on_page(
        self, host: _HostState, question: Question, context: AskContext
    ) -> SurfaceResponse:
        elicitation_id = make_page_id(question)

        async def send_link(page: PageQuestion) -> SurfaceResponse:
            params = elicitation.encode_url(
                question.with_note(page.directions), page.url, elicitation_id
            )
            reply = await self._request_input(host, URL, "elicitation/create", params)
            response = decode_elicited(reply, question)
            if response.outcome is Outcome.ACCEPTED and host.pending_call is not None:
                host.pending_call.note_link(question.id, partial(_describe_link, question, page))
            return response

        try:
            return await self._page.collect_answer(question, context, send_link)
        finally:
            if host.pending_call is not None:
                host.pending_call.forget_link(question.id)
            if host.client.version == V2025_11_25:  # it alone has a word for it
                self._connection.rpc.notify(
                    "notifications/elicitation/complete", {"elicitationId": elicitation_id}
                )

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Show the link in a form without fields, or through the model (`Host.send_link`)."""
        host = self._find_host(context.calls)
        if not host.capabilities.form or FORM in self._not_supported:
            return await _send_address_through_model(host, question, link)
        params = elicitation.encode_link(
            question,
            link.url,
            modes=host.capabilities.modes,
            waits=host.profile.waits_for_page,
        )
        with host.asking():
            reply = await self._request_input(host, FORM, "elicitation/create", params)
            response = decode_elicited(reply, question)
            return replace(response, variant=host.variant(Surface.MCP_FORM))

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """Return the folders that the host grants within `ROOTS_LIMIT` seconds (`Host.roots`)."""
        host = self._find_host(calls)
        if not host.capabilities.roots:
            return ()
        try:
            with anyio.fail_after(ROOTS_LIMIT):
                return decode_roots(
                    (await self._request_input(host, ROOTS, "roots/list", {})).result
                )
        except (TimeoutError, AbpBridgeError):  # it does not say, whyever
            return ()

    def _find_host(self, calls: Sequence[str]) -> _HostState:
        pending_call = self._find_pending(calls)
        client = self._connection.client if pending_call is None else pending_call.client
        return _HostState(
            pending_call,
            client,
            decode_capabilities(client.capabilities, client.version),
            profile(client.info.get("name"), client.capabilities),
        )

    async def _request_input(
        self, host: _HostState, need: str, method: str, params: JsonObject
    ) -> Reply:
        """Return the host's answer and its own time for it."""
        shown = params if self._revealed is None else as_object(self._revealed.outward(params))
        # With a handshake the question is a request of ours. Without one it is the result of the
        # tools/call that waits (`ToolCalls._attend`), and the retry brings the answer
        # (`ToolCalls.resume`).
        if not host.client.modern:
            try:
                reply = await self._connection.rpc.exchange(
                    method, shown, reason="the question is no longer open"
                )
            except ConnectionClosedError:
                raise HostDisconnectedError from None
            except RemoteError as error:
                # any other error may be about this question only
                lasting = error.code == METHOD_NOT_FOUND
                if lasting:
                    self._not_supported.add(need)
                raise SurfaceUnsupportedError(
                    f"the host answered: {label(error, 300)}", lasting=lasting
                ) from None
        elif host.pending_call is None:
            raise SurfaceUnsupportedError(
                "this host (MCP 2026-07-28) can be asked only while it waits for a tool call",
                lasting=False,
            )
        else:
            reply = await host.pending_call.wait_for_round(method, shown, need)
        if self._revealed is None:
            return reply
        return replace(reply, result=self._revealed.inward(reply.result))


@dataclass(frozen=True, slots=True)
class _HostState:
    """The host as its pending call declared it, if there is one, else as it did last."""

    pending_call: PendingCall | None
    client: McpClientInfo
    capabilities: HostCapabilities
    profile: Profile

    def variant(self, surface: Surface) -> SurfaceVariant:
        if surface in (Surface.MCP_SAMPLING, Surface.MODEL_RELAY):
            return SurfaceVariant(surface)
        profile = self.profile
        return SurfaceVariant(
            surface,
            form_version(self.client.version) if surface is Surface.MCP_FORM else "",
            profile.plain and surface is Surface.MCP_FORM,
            loopback=profile.loopback or surface is Surface.MCP_FORM,
            interactive=profile.interactive,
            titles=profile.titles,
            may_dismiss_unattended=profile.may_dismiss_unattended,
        )

    def asking(self) -> AbstractContextManager[None]:
        """Mark the call as waiting for the user while the block lasts."""
        return nullcontext() if self.pending_call is None else self.pending_call.ask_person()


def _describe_link(question: Question, page: PageQuestion) -> str:
    """Describe a link that the host has closed before there is an answer."""
    seen = "it was opened, and is not answered" if page.opened else "nobody has been at it yet"
    asked = f'{label(question.origin)} asked: "{label(question.summary, 300)}"'
    return (
        f"{asked}. This host's card with the link to its page is closed, and there is no answer"
        f" yet: {seen}. The question is still open, at that page and in abp-bridge inbox."
    )


async def _ask_through_model(
    pending_call: PendingCall | None, question: Question, problem: str
) -> SurfaceResponse:
    """Ask with the result of the call, which names `abp_answer`."""
    if pending_call is None or not pending_call.has_wait:
        raise SurfaceUnsupportedError(
            "its model can be asked only by the result of a tool call that waits for that, and"
            " there is none",
            lasting=False,
        )
    text = elicitation.encode_asked(question, problem)
    with pending_call.tell_model(question.id, text, asks=True) as message:
        await message.answered.wait()
    action, content = elicitation.decode_answered(message.answer)
    return SurfaceResponse(BY_ACTION[action], content)


async def _send_address_through_model(
    host: _HostState, question: Question, link: PageLink
) -> SurfaceResponse:
    pending_call, profile = host.pending_call, host.profile
    if not profile.has_model or pending_call is None or not pending_call.has_wait:
        given = [
            f"{words} ({profile.options[surface].give})"
            for surface, words in _ELSEWHERE.items()
            if surface in profile.options
        ]
        raise SurfaceUnsupportedError(
            f"this host can show no link to the page: {', or '.join(given)}", lasting=False
        )
    if not (place := await link.show_code()):
        raise SurfaceUnsupportedError(
            "this host shows no forms, and its model is given no link to the page: set up a"
            f" browser to be opened ({_PAGE}), or where to show the page's code ({_TERMINAL},"
            " --notify)",
            lasting=False,
        )
    words = elicitation.encode_address(question, link.address, place)
    with pending_call.tell_model(question.id, words):
        await anyio.sleep_forever()  # whoever asked stops this when the page has the answer
    raise AssertionError


def _encode(
    question: Question, variant: SurfaceVariant, host: _HostState, problem: str
) -> tuple[str, JsonObject]:
    """Return the method and parameters that show a question."""
    if variant.surface is Surface.MCP_SAMPLING:
        return "sampling/createMessage", elicitation.encode_sampling(question)
    return "elicitation/create", elicitation.encode_form(
        question,
        variant.version,
        modes=host.capabilities.modes,
        plain=variant.plain,
        titles=variant.titles,
        problem=problem,
    )
