"""An MCP host as the bridge sees it: the surfaces it can ask on, what it is told, and the tools and
resources it uses.

Who wants to hear what is `subscriptions`'; how a call waits for a host, `tool_calls`'. Here a
question finds its way to the host: as a request of ours in the legacy era, with the next round of
the call that carries it in the modern one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import anyio

from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.notice import Notice, NoticeKind, Progress, next_progress
from abp_bridge.core.question import Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.hosts.mcp.connection import McpConnection
from abp_bridge.hosts.mcp.parked_call import ParkedCall
from abp_bridge.hosts.mcp.tool_calls import ToolCalls, ToolTimeout
from abp_bridge.hosts.mcp.tool_definitions import WAIT
from abp_bridge.hosts.mcp.tool_request import ToolRequest
from abp_bridge.hosts.mcp.tools import McpTools, UnknownToolError
from abp_bridge.hosts.profiles import Profile, profile
from abp_bridge.interfaces.host import Host, SessionApi, SessionError, state_uri
from abp_bridge.interfaces.surface import (
    HostDisconnectedError,
    Page,
    PageLink,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.protocols.mcp import elicitation, model_messages
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.elicitation import (
    OUTCOMES,
    HostCapabilities,
    decode_roots,
    form_version,
)
from abp_bridge.protocols.mcp.modern import RESOURCE_NOT_FOUND, decode_retry
from abp_bridge.protocols.mcp.results import encode_log, encode_progress
from abp_bridge.protocols.mcp.versions import V2025_03_26, V2025_11_25
from abp_bridge.rpc.connection import ConnectionClosedError, RemoteError, Reply
from abp_bridge.rpc.errors import RpcError
from abp_bridge.rpc.protocol import INVALID_PARAMS, METHOD_NOT_FOUND

# The capability that shows what goes to a surface.
FORM, URL, ROOTS = "form", "url", "roots"
_NEEDED = {Surface.MCP_FORM: FORM, Surface.MCP_URL: URL, Surface.MCP_SAMPLING: "sampling"}
ROOTS_LIMIT = 5.0  # seconds for a host to say which folders it grants

MARGIN = 0.9  # of a host's patience is used: the rest is for the way back


class McpSession:
    """One session of one host: a `Host` for the bridge, and tools and resources for the host.

    Args:
        connection: Where the host is spoken to.
        begin: Makes what the tools work at.
        page: Where the person is sent.
        park: How long a call is kept for a host to come back to, in seconds.
        patience: How long the host waits for a tool, in seconds, where its user has changed that.
        ask_model: Whether the host's model may be asked to ask its user.
    """

    def __init__(
        self,
        connection: McpConnection,
        begin: Callable[[Host], SessionApi],
        page: Page,
        *,
        park: float,
        patience: float | None = None,
        ask_model: bool = False,
    ) -> None:
        self._connection = connection
        self._page = page
        self._patience = patience
        self._ask_model = ask_model
        self._not_supported: set[str] = set()  # declared, and turned out not to be there
        self._calls = ToolCalls(
            connection.tasks, limit=park, timeout_of=self._timeout_of, on_progress=self._on_progress
        )
        self._api = begin(self)
        self._toolbox = McpTools(self._api, self._calls, asks_model=ask_model)

    # --- Host: what the bridge asks of the host ---

    @property
    def name(self) -> str:
        """The host as it calls itself."""
        return self._connection.client.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The surfaces this host declared, best first, less those it turned out not to have.

        A modern one declares them with each request.
        """
        carrier = self._find_carrier(calls)
        declared = {
            carrier.variant(Surface.MCP_FORM): carrier.capabilities.form,
            carrier.variant(Surface.MCP_URL): carrier.capabilities.url,
            SurfaceVariant(Surface.MCP_SAMPLING): carrier.capabilities.sampling,
            SurfaceVariant(Surface.MODEL): self._ask_model,
        }
        return [
            variant
            for variant, has in declared.items()
            if has and _NEEDED.get(variant.surface) not in self._not_supported
        ]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Ask by a form, by a link to the page, or through the model (`InputProvider.ask`)."""
        carrier = self._find_carrier(question.calls)
        if variant.surface is Surface.MODEL:
            return await _ask_through_model(carrier.parked, question, problem)
        with carrier.asking():
            if variant.surface is Surface.MCP_URL:
                return await self._ask_on_page(carrier, question)
            reply = await self._request(
                carrier, _NEEDED[variant.surface], *_encode(question, variant, carrier, problem)
            )
            if variant.surface is Surface.MCP_SAMPLING:
                content = elicitation.decode_sampled(reply.result)
                return SurfaceResponse(Outcome.ACCEPTED, content, reply.seconds)
            return _decode_response(reply, question)

    async def _ask_on_page(self, carrier: _Carrier, question: Question) -> SurfaceResponse:
        named = not carrier.client.modern or carrier.profile.url_ids
        elicitation_id = f"abp-{question.id}" if named else None

        async def send_link(page: PageQuestion) -> SurfaceResponse:
            params = elicitation.encode_url(
                question.with_note(page.directions), page.url, elicitation_id
            )
            reply = await self._request(carrier, URL, "elicitation/create", params)
            return _decode_response(reply, question)

        try:
            return await self._page.ask(question, send_link)
        finally:
            if carrier.client.version == V2025_11_25:  # it alone has a word for it
                self._connection.rpc.notify(
                    "notifications/elicitation/complete", {"elicitationId": elicitation_id}
                )

    async def send_link(self, question: Question, link: PageLink) -> SurfaceResponse:
        """Show the link by a form without fields; or its address alone with the result of the call,
        of which the model then tells its user (`Host.send_link`).
        """
        carrier = self._find_carrier(question.calls)
        if not carrier.capabilities.form or FORM in self._not_supported:
            return await _send_address_through_model(carrier.parked, question, link)
        params = model_messages.encode_link(question, link.url, modes=carrier.capabilities.modes)
        with carrier.asking():
            reply = await self._request(carrier, FORM, "elicitation/create", params)
            response = _decode_response(reply, question)
            return replace(response, variant=carrier.variant(Surface.MCP_FORM))

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """Ask the host for the folders it grants, for at most `ROOTS_LIMIT` seconds; none where it
        does not say (`Host.roots`).
        """
        carrier = self._find_carrier(calls)
        if not carrier.capabilities.roots:
            return ()
        try:
            with anyio.fail_after(ROOTS_LIMIT):
                return decode_roots((await self._request(carrier, ROOTS, "roots/list", {})).result)
        except (TimeoutError, AbpBridgeError):  # it does not say, whyever
            return ()

    def _find_carrier(self, calls: Sequence[str]) -> _Carrier:
        parked = self._calls.find_parked(calls)
        client = self._connection.client if parked is None else parked.client
        return _Carrier(
            parked,
            client,
            elicitation.decode_capabilities(client.capabilities, client.version),
            profile(str(client.info.get("name"))),
        )

    async def _request(
        self, carrier: _Carrier, need: str, method: str, params: JsonObject
    ) -> Reply:
        """What the host answers, and its own time for it."""
        if not carrier.client.modern:
            return await self._request_legacy(need, method, params)
        if carrier.parked is None:
            raise SurfaceUnsupportedError(
                "a host of this era is asked only inside of a call, and none is running",
                lasting=False,
            )
        return await carrier.parked.ask(method, params, need)

    async def _request_legacy(self, need: str, method: str, params: JsonObject) -> Reply:
        try:
            return await self._connection.rpc.exchange(
                method, params, reason="the question is no longer open"
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

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """Log a notice for the host, and tell those who subscribed to the state that it changes
        (`Host.on_notice`).
        """
        field = notice.data.get("field") if notice.kind is NoticeKind.STATE_CHANGED else None
        self._connection.subscriptions.log(
            encode_log(notice, origin),
            key=None if field is None else ("state", app, str(field)),
        )
        if field is not None:
            self._connection.subscriptions.updated(state_uri(app, field))

    def on_capabilities_changed(self) -> None:
        """Tell those who listen that the tools are others (`Host.on_capabilities_changed`)."""
        self._connection.subscriptions.tools_changed()

    def on_resources_changed(self) -> None:
        """Tell those who listen that there are other resources (`Host.on_resources_changed`)."""
        self._connection.subscriptions.resources_changed()

    def lost_notifications(self) -> Mapping[str, int]:
        """What its connection lost, and the progress that gave way to newer while nobody waited for
        a call (`Host.lost_notifications`).
        """
        return self._connection.rpc.lost_notifications(replaced=self._calls.replaced_progress)

    # --- what the host asks of the bridge ---

    def identify_call(self, request: ToolRequest, params: JsonObject) -> None:
        """Note on `request` which call it comes back to, if it does."""
        if request.client.modern:
            self._calls.identify_retry(request, params.get("requestState"))
        if params.get("name") == WAIT["name"]:
            self._calls.identify_wait(request, as_object(params.get("arguments")).get("call"))

    def list_tools(self) -> list[JsonObject]:
        """The tools there are now, as `tools/list` has them."""
        return self._toolbox.list()

    async def call_tool(self, params: JsonObject, request: ToolRequest) -> JsonObject:
        """Answer `tools/call`: a CallToolResult, or what a modern host is asked first.

        Cancelling it cancels the app's call.

        Raises:
            RpcError: It names no tool, no tool of ours, or a `requestState` of no call.
            InvalidParamsError: What a modern host brings back is not what it was sent.
        """
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call needs the name of a tool")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "the arguments of a tool must be an object")
        request.tool, request.arguments = name, arguments or {}
        request.token = as_object(params.get("_meta")).get("progressToken")
        state, answers = decode_retry(params) if request.client.modern else (None, {})
        try:
            if state is not None:
                return await self._calls.resume(request, state, answers)
            return await self._toolbox.call(request)
        except UnknownToolError as problem:
            raise RpcError(INVALID_PARAMS, str(problem)) from None

    def _timeout_of(self, request: ToolRequest) -> ToolTimeout:
        row = profile(str(request.client.info.get("name")))
        return ToolTimeout((self._patience or row.tool_timeout) * MARGIN, row.paused_while_asking)

    def _on_progress(self, request: ToolRequest, progress: Progress) -> None:
        token = request.token
        if isinstance(token, (str, int)) and not isinstance(token, bool):
            request.progress = progress = next_progress(request.progress, progress)
            self._connection.rpc.notify(
                "notifications/progress",
                encode_progress(token, progress, request.client.version),
                key=("progress", token),
            )
            if request.client.version < V2025_03_26 and progress.message:  # it has no words there
                words: JsonObject = {"level": "info", "data": progress.message}
                self._connection.subscriptions.log(words, key=("progress", token))

    def list_resources(self) -> list[JsonObject]:
        """The resources there are now, as `resources/list` has them."""
        return [
            {
                "uri": each.uri,
                "name": each.name,
                "description": each.description,
                "mimeType": each.mime_type,
            }
            | ({} if each.size is None else {"size": each.size})
            for each in self._api.resources()
        ]

    def read_resource(self, uri: str) -> JsonObject:
        """The content of one resource, as `resources/read` has it.

        Raises:
            RpcError: There is no such resource.
        """
        try:
            mime_type, content = self._api.read(uri)
        except SessionError as problem:
            raise RpcError(RESOURCE_NOT_FOUND, str(problem), {"uri": uri}) from None
        shown = (
            {"text": content}
            if isinstance(content, str)
            else {"blob": base64.b64encode(content).decode()}
        )
        return {"uri": uri, "mimeType": mime_type, **shown}


@dataclass(frozen=True, slots=True)
class _Carrier:
    """How a question gets to the host: with a call that takes it along, if there is one, to the
    host as it showed itself there.
    """

    parked: ParkedCall | None
    client: McpClientInfo
    capabilities: HostCapabilities
    profile: Profile

    def variant(self, surface: Surface) -> SurfaceVariant:
        """A form or a link, as this host shows it."""
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
        """For as long as this lasts, the call waits for a person."""
        return nullcontext() if self.parked is None else self.parked.ask_person()


async def _ask_through_model(
    parked: ParkedCall | None, question: Question, problem: str
) -> SurfaceResponse:
    """With the result of the call, which names `abp_answer`."""
    if parked is None:
        raise SurfaceUnsupportedError(
            "a model is asked with the result of a call, and none is running", lasting=False
        )
    text = model_messages.encode_asked(question, problem)
    with parked.tell_model(question.id, text, asks=True) as message:
        await message.answered.wait()
    action, content = model_messages.decode_answered(message.answer)
    return SurfaceResponse(OUTCOMES[action], content)


async def _send_address_through_model(
    parked: ParkedCall | None, question: Question, link: PageLink
) -> SurfaceResponse:
    if parked is None:
        raise SurfaceUnsupportedError(
            "this host shows no forms, and no call is running whose result could point to the page",
            lasting=False,
        )
    if not (place := await link.show_code()):
        raise SurfaceUnsupportedError(
            "this host shows no forms, and its model is given no link to the page: set up a"
            " browser to be opened (--page open), or where to show the page's code (--tty DEVICE,"
            " --notify)",
            lasting=False,
        )
    words = model_messages.encode_address(question, link.address, place)
    with parked.tell_model(question.id, words):
        await anyio.sleep_forever()  # whoever asked stops this when the page has the answer
    raise AssertionError


def _encode(
    question: Question, variant: SurfaceVariant, carrier: _Carrier, problem: str
) -> tuple[str, JsonObject]:
    """A question as a request: its method and parameters."""
    if variant.surface is Surface.MCP_SAMPLING:
        return "sampling/createMessage", elicitation.encode_sampling(question)
    return "elicitation/create", elicitation.encode_form(
        question,
        variant.version,
        modes=carrier.capabilities.modes,
        plain=variant.plain,
        titles=variant.titles,
        problem=problem,
    )


def _decode_response(reply: Reply, question: Question) -> SurfaceResponse:
    action, content = elicitation.decode_reply(reply.result, question)
    return SurfaceResponse(OUTCOMES[action], content, reply.seconds)
