"""An MCP host of the legacy era as the bridge sees it: the surfaces it can ask on, what it is told, and the tools and resources it uses."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from abp_bridge.core.event import Observer, unobserved
from abp_bridge.core.matrix import Column, Surface
from abp_bridge.core.notice import Event, Notice, Progress
from abp_bridge.core.question import Outcome, Question
from abp_bridge.core.text import label
from abp_bridge.hosts.contract import Desk, DeskError, Host, HostGone, Reply, SurfaceRefused, state_uri
from abp_bridge.hosts.mcp.server import LEVELS, Handshake, Leg, Refusal
from abp_bridge.hosts.mcp.toolbox import Toolbox, UnknownTool
from abp_bridge.hosts.profiles import profile
from abp_bridge.protocols import mcp
from abp_bridge.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from abp_bridge.wire.link import Link, LinkClosed, RemoteError

Json = Any

RESOURCE_NOT_FOUND = -32002

_OUTCOMES = {
    mcp.Action.ACCEPT: Outcome.ACCEPTED,
    mcp.Action.DECLINE: Outcome.DECLINED,
    mcp.Action.CANCEL: Outcome.CANCELLED,
}


class McpSession:
    """One host, asked through `link`. `begin` makes the desk that this host's requests go to."""

    def __init__(self, link: Link, handshake: Handshake, begin: Callable[[Host], Desk]) -> None:
        self._link = link
        self._handshake = handshake
        self._capabilities = mcp.decode_capabilities(handshake.capabilities, handshake.version)
        self._refused: set[Surface] = set()
        self._desk = begin(self)
        self._toolbox = Toolbox(self._desk)

    # --- contract.Host: what the bridge asks of the host ---

    @property
    def name(self) -> str:
        """The host as it calls itself."""
        client = self._handshake.client
        return f"{client.get('name', 'an unnamed host')} {client.get('version', '')} (MCP {self._handshake.version})"

    @property
    def columns(self) -> Sequence[Column]:
        """The surfaces this host declared, best first, less those it turned out not to have."""
        plain = profile(str(self._handshake.client.get("name"))).plain
        declared = {
            Column(Surface.MCP_FORM, mcp.form_version(self._handshake.version), plain): self._capabilities.form,
            Column(Surface.MCP_URL): self._capabilities.url,
            Column(Surface.MCP_SAMPLING): self._capabilities.sampling,
        }
        return [column for column, has in declared.items() if has and column.surface not in self._refused]

    async def ask(self, question: Question, column: Column, problem: str = "", observe: Observer = unobserved) -> Reply:
        """See `Host.ask`."""
        if column.surface is Surface.MCP_SAMPLING:
            sampled = await self._request(column, "sampling/createMessage", mcp.encode_sampling(question))
            return Reply(Outcome.ACCEPTED, mcp.decode_sampled(sampled))
        form = mcp.encode_form(question, column.version, modes=self._capabilities.modes, plain=column.plain, problem=problem)
        action, content = mcp.decode_reply(await self._request(column, "elicitation/create", form), question)
        return Reply(_OUTCOMES[action], content)

    async def _request(self, column: Column, method: str, params: Json) -> Json:
        try:
            return await self._link.request(method, params, reason="the question is no longer open")
        except LinkClosed:
            raise HostGone from None
        except RemoteError as error:
            lasting = error.code in (METHOD_NOT_FOUND, INVALID_PARAMS)
            if lasting:
                self._refused.add(column.surface)
            raise SurfaceRefused(f"the host answered: {label(error, 300)}", lasting=lasting) from None

    def told(self, app: str, origin: str, notice: Notice) -> None:
        """See `Host.told`: a log message, and an update of the state it changes for those who subscribed."""
        params = mcp.encode_log(notice, origin)
        field = notice.data.get("field") if notice.event is Event.STATE_CHANGED else None
        if LEVELS.index(params["level"]) >= self._handshake.level:
            self._tell("notifications/message", params, key=None if field is None else ("state", app, str(field)))
        if field is not None and (uri := state_uri(app, field)) in self._handshake.subscribed:
            self._tell("notifications/resources/updated", {"uri": uri}, key=("updated", uri))

    def capabilities_changed(self) -> None:
        self._tell("notifications/tools/list_changed", key="tools")

    def resources_changed(self) -> None:
        self._tell("notifications/resources/list_changed", key="resources")

    def _tell(self, method: str, params: Json = None, key: Any = None) -> None:
        if self._handshake.initialized:
            self._link.notify(method, params, key=key)

    # --- what the host asks of the bridge ---

    def list_tools(self) -> list[Json]:
        return self._toolbox.list()

    async def call_tool(self, params: Mapping[str, Json], leg: Leg) -> Json:
        """`tools/call`. Raises Refusal for a call that is no call; cancelling it cancels the app's call."""
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if not isinstance(name, str):
            raise Refusal(INVALID_PARAMS, "tools/call needs the name of a tool")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise Refusal(INVALID_PARAMS, "the arguments of a tool must be an object")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        leg.report = self._progress(token)
        try:
            return await self._toolbox.call(name, arguments or {}, leg)
        except UnknownTool as problem:
            raise Refusal(INVALID_PARAMS, str(problem)) from None

    def _progress(self, token: Json) -> Callable[[Progress], None] | None:
        if not isinstance(token, (str, int)) or isinstance(token, bool):
            return None
        return lambda progress: self._link.notify("notifications/progress", mcp.encode_progress(token, progress), key=("progress", token))

    def list_resources(self) -> list[Json]:
        return [
            {"uri": each.uri, "name": each.name, "description": each.description, "mimeType": each.mime_type}
            | ({} if each.size is None else {"size": each.size})
            for each in self._desk.resources()
        ]

    def read_resource(self, uri: str) -> Json:
        """The content of one resource. Raises Refusal."""
        try:
            mime_type, content = self._desk.read(uri)
        except DeskError as problem:
            raise Refusal(RESOURCE_NOT_FOUND, str(problem)) from None
        shown = {"text": content} if isinstance(content, str) else {"blob": base64.b64encode(content).decode()}
        return {"uri": uri, "mimeType": mime_type, **shown}
