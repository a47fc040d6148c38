"""An MCP host as the bridge sees it: the surfaces it can ask on, what it is told, and the tools and
resources it uses.

Who wants to hear what is `subscriptions`'; how a call waits for a host, `tool_calls`'. Here a
question finds its way to the host: as a request of ours in the legacy era, with the next round of
the call that carries it in the modern one.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from abp_bridge.core.event import ChoiceEvent, Observer, no_observer
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.notice import Event, Notice, Progress
from abp_bridge.core.question import Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.hosts.mcp.client import McpClientInfo
from abp_bridge.hosts.mcp.connection import McpConnection
from abp_bridge.hosts.mcp.errors import RESOURCE_NOT_FOUND
from abp_bridge.hosts.mcp.parked_call import ParkedCall, ToolRequest
from abp_bridge.hosts.mcp.tool_calls import ToolCalls, ToolTimeout
from abp_bridge.hosts.mcp.tools import McpTools, UnknownToolError
from abp_bridge.hosts.profiles import profile
from abp_bridge.interfaces.host import Host, SessionApi, SessionError, state_uri
from abp_bridge.interfaces.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    Page,
    PageQuestion,
    RouteChangedError,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.protocols import mcp
from abp_bridge.protocols.mcp.modern import decode_retry
from abp_bridge.rpc.connection import ConnectionClosedError, RemoteError
from abp_bridge.rpc.errors import RpcError
from abp_bridge.rpc.protocol import INVALID_PARAMS, METHOD_NOT_FOUND

Json = Any

# The capability that shows what goes to a surface.
_NEEDED = {Surface.MCP_FORM: "form", Surface.MCP_URL: "url", Surface.MCP_SAMPLING: "sampling"}
FORM, ROOTS = "form", "roots"
ROOTS_LIMIT = 5.0  # seconds for a host to say which folders it grants

MARGIN = 0.9  # of a host's patience is used: the rest is for the way back

COMPLETED = "2025-11-25"  # the version that has a word for it

_OUTCOMES = {
    mcp.Action.ACCEPT: Outcome.ACCEPTED,
    mcp.Action.DECLINE: Outcome.DECLINED,
    mcp.Action.CANCEL: Outcome.CANCELLED,
}


# (method, params) -> (what the host answered, in how many seconds since it was shown)
Put = Callable[[str, Json], Awaitable[tuple[Json, float | None]]]


class McpSession:
    """One session of one host, spoken to through `connection`.

    `begin` makes the desk that its tools work at; `page` is where its person is sent.

    `park` is how long a call is kept for a host to come back to; `patience` how long the host waits
    for a tool, where its user has changed that. Both are in seconds. `ask_model` says that its
    model may be asked to ask its user.
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
        self._patience_set = patience
        self._ask_model = ask_model
        self._refused: set[str] = set()  # capabilities that it declared, and turned out not to have
        self._calls = ToolCalls(
            connection.tasks, limit=park, patience=self._patience, tell=self._progressed
        )
        self._desk = begin(self)
        self._toolbox = McpTools(
            self._desk,
            self._calls,
            asks_model=ask_model,
            lost=connection.rpc.lost_notifications,
        )

    # --- Host: what the bridge asks of the host ---

    @property
    def name(self) -> str:
        """The host as it calls itself."""
        return self._connection.client.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The surfaces this host declared, best first, less those it turned out not to have.

        A modern one declares them with each request.
        """
        held = self._calls.find_carrier(calls)
        client = self._connection.client if held is None else held.client
        capabilities = mcp.decode_capabilities(client.capabilities, client.version)
        row = profile(str(client.info.get("name")))
        declared = {
            SurfaceVariant(
                Surface.MCP_FORM, mcp.form_version(client.version), row.plain
            ): capabilities.form,
            SurfaceVariant(Surface.MCP_URL, loopback=row.loopback): capabilities.url,
            SurfaceVariant(Surface.MCP_SAMPLING): capabilities.sampling,
            SurfaceVariant(Surface.MODEL): self._ask_model,
        }
        return [
            column
            for column, has in declared.items()
            if has and _NEEDED.get(column.surface) not in self._refused
        ]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """See `Host.ask`."""
        held = self._calls.find_carrier(question.calls)
        if variant.surface is Surface.MODEL:
            return await self._ask_through_the_model(held, question, problem)
        client = self._connection.client if held is None else held.client
        put = partial(self._put, held, client, _NEEDED[variant.surface])
        if held is not None:
            held.asks(+1)
        try:
            if variant.surface is Surface.MCP_URL:
                return await self._ask_on_the_page(client, put, question)
            answer, seconds = await put(*_encoded(question, variant, client, problem))
            if seconds is not None:  # since it was shown, which is what tells a person
                action = answer.get("action") if isinstance(answer, Mapping) else None
                observe(
                    ChoiceEvent(
                        anyio.current_time(),
                        question.id,
                        1,
                        action if isinstance(action, str) else None,
                        seconds,
                    )
                )
            if variant.surface is Surface.MCP_SAMPLING:
                return SurfaceResponse(Outcome.ACCEPTED, mcp.decode_sampled(answer))
            done, content = mcp.decode_reply(answer, question)
            return SurfaceResponse(_OUTCOMES[done], content)
        finally:
            if held is not None:
                held.asks(-1)

    async def _ask_on_the_page(
        self, client: McpClientInfo, put: Put, question: Question
    ) -> SurfaceResponse:
        named = not client.modern or profile(str(client.info.get("name"))).url_ids
        elicitation = f"abp-{question.id}" if named else None

        async def point(sheet: PageQuestion) -> Outcome:
            answer, _ = await put(
                "elicitation/create", mcp.encode_url(question, sheet.url, elicitation)
            )
            return _OUTCOMES[mcp.decode_reply(answer, question)[0]]

        try:
            return await self._page.ask(question, point)
        finally:
            if client.version == COMPLETED:
                self._connection.rpc.notify(
                    "notifications/elicitation/complete", {"elicitationId": elicitation}
                )

    async def _ask_through_the_model(
        self, held: ParkedCall | None, question: Question, problem: str
    ) -> SurfaceResponse:
        """With the result of the call, which names `abp_answer`."""
        if held is None:
            raise SurfaceUnsupportedError(
                "a model is asked with the result of a call, and none is running", lasting=False
            )
        with held.tell_model(question.id, mcp.encode_asked(question, problem), asks=True) as words:
            await words.answered.wait()
        action, content = mcp.decode_answered(words.answer)
        return SurfaceResponse(_OUTCOMES[action], content)

    async def send_link(self, question: Question, url: str) -> Outcome:
        """See `Host.send_link`: by a form without fields, or with the result of the call, which the
        model then tells its user of.
        """
        held = self._calls.find_carrier(question.calls)
        client = self._connection.client if held is None else held.client
        capabilities = mcp.decode_capabilities(client.capabilities, client.version)
        if capabilities.form and FORM not in self._refused:
            put = partial(self._put, held, client, FORM)
            if held is not None:
                held.asks(+1)
            try:
                answer, _ = await put(
                    "elicitation/create", mcp.encode_link(question, url, modes=capabilities.modes)
                )
                return _OUTCOMES[mcp.decode_reply(answer, question)[0]]
            finally:
                if held is not None:
                    held.asks(-1)
        if held is None:
            raise SurfaceUnsupportedError(
                "this host shows no forms, and no call is running whose result could point to the"
                " page",
                lasting=False,
            )
        if question.destructive or question.consents:
            raise SurfaceUnsupportedError(
                "this host shows no forms, and a model is not given the link to what it must not"
                " answer itself",
                lasting=False,
            )
        with held.tell_model(question.id, mcp.encode_link_message(question, url)):
            await anyio.sleep_forever()  # whoever asked stops this when the page has the answer
        raise AssertionError

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """See `Host.roots`."""
        held = self._calls.find_carrier(calls)
        client = self._connection.client if held is None else held.client
        if not mcp.decode_capabilities(client.capabilities, client.version).roots:
            return ()
        try:
            with anyio.fail_after(ROOTS_LIMIT):
                return mcp.decode_roots((await self._put(held, client, ROOTS, "roots/list", {}))[0])
        except (
            TimeoutError,
            SurfaceUnsupportedError,
            HostDisconnectedError,
            HostTimeoutError,
            RouteChangedError,
        ):
            return ()

    async def _put(
        self, held: ParkedCall | None, client: McpClientInfo, need: str, method: str, params: Json
    ) -> tuple[Json, float | None]:
        """What the host answers, and in how many seconds since it was shown, where that is
        known.
        """
        if not client.modern:
            return await self._request(need, method, params), None
        if held is None:
            raise SurfaceUnsupportedError(
                "a host of this era is asked only inside of a call, and none is running",
                lasting=False,
            )
        return await held.ask(method, params, need)

    async def _request(self, need: str, method: str, params: Json) -> Json:
        try:
            return await self._connection.rpc.request(
                method, params, reason="the question is no longer open"
            )
        except ConnectionClosedError:
            raise HostDisconnectedError from None
        except RemoteError as error:
            lasting = (
                error.code == METHOD_NOT_FOUND
            )  # anything else may be about this question only
            if lasting:
                self._refused.add(need)
            raise SurfaceUnsupportedError(
                f"the host answered: {label(error, 300)}", lasting=lasting
            ) from None

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """See `Host.on_notice`: a log message, and an update of the state it changes for those who
        subscribed.
        """
        field = notice.data.get("field") if notice.event is Event.STATE_CHANGED else None
        self._connection.subscriptions.log(
            mcp.encode_log(notice, origin),
            key=None if field is None else ("state", app, str(field)),
        )
        if field is not None:
            self._connection.subscriptions.updated(state_uri(app, field))

    def on_capabilities_changed(self) -> None:
        self._connection.subscriptions.tools_changed()

    def on_resources_changed(self) -> None:
        self._connection.subscriptions.resources_changed()

    # --- what the host asks of the bridge ---

    def claimed(self, params: Mapping[str, Json]) -> ParkedCall | None:
        """The call that a request comes back to."""
        return self._calls.find_by_state(params.get("requestState"))

    def list_tools(self) -> list[Json]:
        return self._toolbox.list()

    async def call_tool(self, params: Mapping[str, Json], leg: ToolRequest) -> Json:
        """`tools/call`.

        Raises Refusal or Malformed for a call that is no call; cancelling it cancels the app's
        call.
        """
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call needs the name of a tool")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "the arguments of a tool must be an object")
        leg.token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        state, answers = decode_retry(params) if leg.client.modern else (None, {})
        try:
            if state is not None:
                return await self._calls.resume(name, arguments or {}, leg, state, answers)
            return await self._toolbox.call(name, arguments or {}, leg)
        except UnknownToolError as problem:
            raise RpcError(INVALID_PARAMS, str(problem)) from None

    def _patience(self, leg: ToolRequest) -> ToolTimeout:
        row = profile(str(leg.client.info.get("name")))
        return ToolTimeout(
            (self._patience_set or row.tool_timeout) * MARGIN, row.paused_while_asking
        )

    def _progressed(self, leg: ToolRequest, progress: Progress) -> None:
        token = leg.token
        if isinstance(token, (str, int)) and not isinstance(token, bool):
            self._connection.rpc.notify(
                "notifications/progress",
                mcp.encode_progress(token, progress),
                key=("progress", token),
            )

    def list_resources(self) -> list[Json]:
        return [
            {
                "uri": each.uri,
                "name": each.name,
                "description": each.description,
                "mimeType": each.mime_type,
            }
            | ({} if each.size is None else {"size": each.size})
            for each in self._desk.resources()
        ]

    def read_resource(self, uri: str) -> Json:
        """The content of one resource. Raises Refusal."""
        try:
            mime_type, content = self._desk.read(uri)
        except SessionError as problem:
            raise RpcError(RESOURCE_NOT_FOUND, str(problem), {"uri": uri}) from None
        shown = (
            {"text": content}
            if isinstance(content, str)
            else {"blob": base64.b64encode(content).decode()}
        )
        return {"uri": uri, "mimeType": mime_type, **shown}


def _encoded(
    question: Question, column: SurfaceVariant, client: McpClientInfo, problem: str
) -> tuple[str, dict[str, Json]]:
    """A question as a request: its method and parameters."""
    if column.surface is Surface.MCP_SAMPLING:
        return "sampling/createMessage", mcp.encode_sampling(question)
    modes = mcp.decode_capabilities(client.capabilities, client.version).modes
    return "elicitation/create", mcp.encode_form(
        question, column.version, modes=modes, plain=column.plain, problem=problem
    )
