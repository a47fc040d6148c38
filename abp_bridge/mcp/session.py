"""An MCP host as the bridge sees it: its surfaces, notifications, tools and resources."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, next_progress
from abp_bridge.core.matrix import find_ways
from abp_bridge.core.question import Question
from abp_bridge.core.surface import WAYS, Advice, Surface
from abp_bridge.jsonrpc.protocol import INVALID_PARAMS, RpcError
from abp_bridge.mcp.connection import HostRequest, McpConnection
from abp_bridge.mcp.surfaces import McpSurfaces
from abp_bridge.mcp.tool_calls import ToolCalls, ToolTimeout
from abp_bridge.mcp.tool_list import WAIT
from abp_bridge.mcp.tools import McpTools, UnknownToolError, profile_of
from abp_bridge.protocols.mcp.client import V2025_03_26
from abp_bridge.protocols.mcp.results import encode_log, encode_progress, separate_texts
from abp_bridge.protocols.mcp.revisions import RESOURCE_NOT_FOUND, decode_retry
from abp_bridge.session.context import AskContext
from abp_bridge.session.host import Host, SessionError, state_uri
from abp_bridge.session.surface import Page

if TYPE_CHECKING:
    from abp_bridge.session.bridge import Bridge

MARGIN = 0.9  # of a host's patience is used: the rest is for the way back


class McpSession(McpSurfaces):
    """One session of one host: a `Host` for the bridge, tools and resources for the host.

    Args:
        begin: Makes the bridge's session that the tools call.
        pending_timeout: Seconds that a call is kept for the host to come back to.
        patience: Seconds that the host waits for a tool, if its user has set that.
        ask_via_model: Whether the host's model may ask its user.
    """

    def __init__(
        self,
        connection: McpConnection,
        begin: Callable[[Host], Bridge],
        page: Page,
        *,
        pending_timeout: float,
        patience: float | None = None,
        ask_via_model: bool = False,
    ) -> None:
        self._patience = patience
        self._calls = ToolCalls(
            connection.tasks,
            limit=pending_timeout,
            timeout_of=self._timeout_of,
            on_progress=self._on_progress,
        )
        super().__init__(connection, page, self._calls.find_pending, ask_via_model=ask_via_model)
        self._api = begin(self)
        self._toolbox = McpTools(self._api, self._calls, connection.tools)

    def advise(self, question: Question, context: AskContext) -> Advice:
        """Add the host's model to the setup hints."""
        advice = super().advise(question, context)
        if not self._find_host(context.calls).profile.has_model:
            return advice
        there = {variant.surface for variant in self.variants(context.calls)}
        relay = find_ways(question, there, {Surface.MODEL_RELAY: WAYS[Surface.MODEL_RELAY]})
        return replace(advice, ways=(*advice.ways, *map(str, relay.values())))

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """Log a notice, and send a state change to its subscribers."""
        field = notice.data.get("field") if notice.kind is NoticeKind.STATE_CHANGED else None
        self._connection.subscriptions.log(
            encode_log(notice, origin),
            key=None if field is None else ("state", app, str(field)),
        )
        if field is not None:
            self._tell_updated(state_uri(app, field))

    def _tell_updated(self, uri: str) -> None:
        """Send an update, unless the field has no resource."""
        subscriptions = self._connection.subscriptions
        if subscriptions.wants_updates(uri) and any(
            each.uri == uri for each in self._api.resources()
        ):
            subscriptions.updated(uri)

    def on_capabilities_changed(self) -> None:
        """Send that the tools changed, unless they are those that were expected."""
        if not self._toolbox.is_as_shown():
            self._connection.subscriptions.tools_changed()

    def on_resources_changed(self) -> None:
        self._connection.subscriptions.resources_changed()

    def lost_notifications(self) -> Mapping[str, int]:
        """Count the notifications that the connection or a newer progress report replaced."""
        return self._connection.rpc.lost_notifications(replaced=self._calls.replaced_progress)

    # --- what the host asks of the bridge ---

    def identify_call(self, request: HostRequest) -> None:
        """Note on `request` which call it comes back to."""
        params = request.params
        if request.client.modern:
            self._calls.identify_retry(request, params.get("requestState"))
        if params.get("name") == WAIT["name"]:
            self._calls.identify_wait(request, as_object(params.get("arguments")).get("call"))

    def list_tools(self, version: str) -> list[JsonObject]:
        """Return `tools/list` for this revision."""
        return self._toolbox.list(version)

    async def call_tool(self, request: HostRequest) -> JsonObject:
        """Answer `tools/call` with a CallToolResult or a stateless host's questions.

        Raises RpcError, InvalidParamsError.
        """
        params = request.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call needs the name of a tool")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "the arguments of a tool must be an object")
        request.tool, request.arguments = name, arguments or {}
        request.output_schema = self._connection.tools.promise_of(name, request.client.version)
        state, answers = decode_retry(params) if request.client.modern else (None, {})
        try:
            if state is not None:
                result = await self._calls.resume(request, state, answers)
            else:
                result = await self._toolbox.call_tool(request)
        except UnknownToolError as problem:
            raise RpcError(INVALID_PARAMS, str(problem)) from None
        return separate_texts(result) if profile_of(request).joins_texts else result

    def _timeout_of(self, request: HostRequest) -> ToolTimeout:
        row = profile_of(request)
        return ToolTimeout((self._patience or row.tool_timeout) * MARGIN, row.paused_while_asking)

    def _on_progress(self, request: HostRequest, progress: Progress) -> None:
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
                self._connection.subscriptions.log(words, key=("progress in words", token))

    def list_resources(self) -> list[JsonObject]:
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
        """Return the content of a resource; RpcError if there is none."""
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
