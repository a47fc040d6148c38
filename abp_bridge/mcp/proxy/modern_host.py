"""Translates a stateless host (2026-07-28) to a stateful one.

A question makes the running call pending (`PendingCall`), is sent as its result, and the retry
brings the answer. Outside a call this host cannot be asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.ledger import Progress
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    Request,
    RpcError,
)
from abp_bridge.mcp.connection import MAX_LISTENS, Subscriptions, ToolRequest
from abp_bridge.mcp.pending_call import PendingCall, RunningCall
from abp_bridge.mcp.proxy.era_connection import connect_eras
from abp_bridge.mcp.tool_calls import ToolCalls, ToolTimeout
from abp_bridge.protocols.mcp import translation
from abp_bridge.protocols.mcp.client import LOG_LEVELS, McpClientInfo, decode_capabilities
from abp_bridge.protocols.mcp.elicitation import encode_url
from abp_bridge.protocols.mcp.modern import (
    LISTENED,
    MAX_ROUNDS,
    MAX_UPDATES,
    SERVER,
    UPDATES,
    InvalidParamsError,
    decode_envelope,
    decode_filter,
    decode_retry,
)
from abp_bridge.protocols.mcp.server_elicitation import decode_link
from abp_bridge.session.host import SessionError
from abp_bridge.session.surface import HostTimeoutError, RouteChangedError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

CANCELLED = "notifications/cancelled"
# Turns of the loop from a line of the server's to its question here: it is cut, read, routed and
# asked on the way.
PROXY_TURNS = 20
_WORDS = tuple(word for word in LISTENED.values() if word != UPDATES)

# How a call of the server's ended: its result, or its error.
_Ended = JsonObject | RemoteError


@dataclass(slots=True)
class ServerCall(RunningCall):
    """A call of the server that outlives the host's requests; `id` names it in a `requestState`."""

    id: str
    token: JsonValue
    on_progress: Callable[[Progress], None]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def wait_idle(self) -> None:
        """Wait until questions sent at once have come through the proxy."""
        for _ in range(PROXY_TURNS):
            await anyio.lowlevel.checkpoint()

    def cancel(self, reason: str) -> None:
        self.scope.cancel()


@dataclass(frozen=True, slots=True)
class _Report(Progress):
    """A report of the server, complete."""

    params: JsonObject = field(default_factory=dict)


class ModernHost:
    """One stateless host as a stateful server sees it.

    Args:
        pending_timeout: Seconds that a call is kept for the host to come back to.
        origin: Makes the server's name for the user.

    Attributes:
        falls_back: The host speaks stateful MCP after all.
    """

    def __init__(
        self,
        host: tuple[ByteReader, ByteWriter],
        server: tuple[ByteReader, ByteWriter],
        tasks: TaskGroup,
        pending_timeout: float,
        origin: Callable[[], str],
    ) -> None:
        self._origin = origin
        self._connection = connect_eras(
            host, self.on_outer, server, self.on_inner, tasks=tasks, prefix="abp-h-"
        )
        self._host, self._server = self._connection.outer, self._connection.inner
        self._tasks = tasks
        self._subscriptions = Subscriptions(self._host)
        self._calls = ToolCalls(
            tasks,
            limit=pending_timeout,
            timeout_of=lambda request: ToolTimeout(float("inf")),
            on_progress=self._tell_progress,
            has_wait=False,
        )
        self._running: dict[str, ServerCall] = {}
        self._serial = 0
        self._links = 0  # that were named here
        self._introduced = False  # the host, to the server
        self._has_called = False  # whether the host has done more than to ask who is there
        self.falls_back = False
        self._ready = anyio.Event()
        self._initialized: JsonObject = {}
        self._refusal: RemoteError | None = None  # why there is no server to speak to
        self._level: str | None = None  # of logs, as the server was told
        self._levels: dict[Id, str] = {}  # that requests which run want to hear of

    async def translate(self) -> None:
        """Translate until either side ends."""
        await self._connection.carry()
        if replaced := self._calls.replaced_progress:
            logger.warning("reports of progress gave way to newer ones unheard: %d", replaced)

    def find_pending(self, calls: Sequence[str]) -> PendingCall | None:
        """Return a call that takes a question; the server does not say to which one it belongs."""
        return self._calls.find_pending(self._running)

    # --- the host ---

    def on_outer(self, message: Request | Notification) -> None:
        """Take a message of the host."""
        if isinstance(message, Notification):
            self._on_host_notification(message)
            return
        if message.method == "initialize" and not self._has_called:
            self.falls_back = True
        if self.falls_back:
            make = partial(self._answer_legacy, message)
            self._connection.answer_request(self._host, message, make, _keep_error)
            return
        try:
            client = decode_envelope(message.params)
            if message.method in translation.LEGACY_REQUESTS:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        except (RpcError, InvalidParamsError) as problem:
            self._host.respond_error(message.id, problem.code, str(problem), problem.data)
            return
        self._has_called |= message.method != "server/discover"
        if not self._introduced:
            self._introduced = True
            self._tasks.start_soon(self._introduce, translation.initialize_params(client))
        make = partial(self._answer_host, message, client, self._host.arrived)
        self._connection.answer_request(self._host, message, make, translation.to_modern_error)

    def _on_host_notification(self, message: Notification) -> None:
        if message.method == CANCELLED:
            self._connection.cancel_request(self._host, as_object(message.params).get("requestId"))
        elif self.falls_back:
            if message.method != "notifications/initialized":  # the server was told
                self._server.notify(message.method, message.params)
        elif message.method not in translation.LEGACY_NOTIFICATIONS:
            self._server.notify(message.method, message.params)

    async def _introduce(self, params: JsonObject) -> None:
        """Shake hands with the server for the host."""
        try:
            self._initialized = as_object(await self._server.request("initialize", params))
            self._server.notify("notifications/initialized")
        except RemoteError as problem:
            self._refusal = problem
        except ConnectionClosedError:
            return
        self._ready.set()

    async def _wait_introduced(self) -> None:
        """Wait for the handshake; RemoteError if the server refused it."""
        await self._ready.wait()
        if self._refusal is not None:
            raise self._refusal

    async def _answer_legacy(self, message: Request) -> JsonValue:
        """Answer a host that has fallen back."""
        if message.method == "initialize":
            return await self._initialize(as_object(message.params))
        await self._wait_introduced()
        return await self._server.request(message.method, message.params, reason=_TAKEN_BACK)

    async def _initialize(self, params: JsonObject) -> JsonObject:
        """Shake hands, again if the server refused the host as first declared."""
        if self._introduced:
            await self._ready.wait()
        if not self._introduced or self._refusal is not None:
            self._introduced, self._refusal = True, None
            await self._introduce(params)
        await self._wait_introduced()
        if "resultType" not in self._initialized:
            return self._initialized
        return translation.to_legacy_result("server/discover", self._initialized)

    async def _answer_host(
        self, message: Request, client: McpClientInfo, arrived: float
    ) -> JsonValue:
        await self._wait_introduced()
        if client.level is None:
            return await self._make(message, client, arrived)
        await self._lower_level(client.level)
        self._levels[message.id] = client.level
        try:
            return await self._make(message, client, arrived)
        finally:
            del self._levels[message.id]

    async def _make(self, message: Request, client: McpClientInfo, arrived: float) -> JsonValue:
        if message.method in translation.CAN_ASK:
            return await self._attach_host(message, client, arrived)
        if (make := _ANSWERED.get(message.method)) is not None:
            return await make(self, message)
        params = translation.strip_envelope(message.params)
        result = await self._server.request(message.method, params, reason=_TAKEN_BACK)
        return self._complete(message.method, result)

    def _complete(self, method: str, result: JsonValue) -> JsonObject:
        server = as_object(self._initialized.get("serverInfo"))
        return translation.to_modern_result(method, result, server)

    async def _lower_level(self, level: str) -> None:
        """Set the server to the lowest level that a request wants."""
        known = level in LOG_LEVELS and "logging" in self._capabilities
        lower = self._level is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(self._level)
        if known and lower:
            self._level = level
            with suppress(RemoteError):  # then it tells what it likes
                await self._server.request("logging/setLevel", {"level": level})

    @property
    def _capabilities(self) -> JsonObject:
        return as_object(self._initialized.get("capabilities"))

    async def _discover(self, message: Request) -> JsonValue:
        return translation.to_discovered(self._initialized)

    async def _listen(self, message: Request) -> JsonValue:
        """Hold a stream until the host ends it."""
        wanted = decode_filter(as_object(message.params), _WORDS)
        uris = as_list(wanted.get(UPDATES))
        new = [uri for uri in uris if not self._subscriptions.watches(uri)]
        if not self._subscriptions.listen(message.id, wanted):
            raise RpcError(
                INVALID_PARAMS,
                f"there can be at most {MAX_LISTENS} streams with {MAX_UPDATES} resources in all",
            )
        try:
            for uri in new:
                await self._server.request("resources/subscribe", {"uri": uri})
            await anyio.sleep_forever()
        finally:
            self._subscriptions.unlisten(message.id)
            self._tasks.start_soon(self._unsubscribe, uris)
        raise AssertionError

    async def _unsubscribe(self, uris: Sequence[JsonValue]) -> None:
        for uri in uris:
            if not self._subscriptions.watches(uri):
                with suppress(RemoteError, ConnectionClosedError):
                    await self._server.request("resources/unsubscribe", {"uri": uri})

    # --- calls ---

    async def _attach_host(
        self, message: Request, client: McpClientInfo, arrived: float
    ) -> JsonValue:
        """Attach the host to a call: its result, or its questions."""
        given = as_object(message.params)
        params = translation.strip_envelope(given)
        request = ToolRequest(message.id, client, arrived)
        request.tool = message.method
        request.arguments = {name: each for name, each in params.items() if name != "_meta"}
        request.token = as_object(given.get("_meta")).get("progressToken")
        state, answers = decode_retry(given)
        if state is None:
            start = partial(self._start_call, message.method, params, request.token)
            encode = partial(self._encode, message.method)
            try:
                result = await self._calls.begin(request, start, encode)
            except SessionError as problem:
                raise RpcError(INTERNAL_ERROR, str(problem)) from None
        else:
            self._calls.identify_retry(request, state)
            result = await self._calls.resume(request, state, answers)
        if result["resultType"] != "complete":
            result = {**result, "_meta": {SERVER: self._initialized.get("serverInfo")}}
        self._host.respond(message.id, result, request.on_sent)
        return None

    def _encode(self, method: str, ended: _Ended, request: ToolRequest) -> JsonObject:
        if isinstance(ended, RemoteError):
            raise ended
        return self._complete(method, ended)

    async def _start_call(
        self,
        method: str,
        params: JsonObject,
        token: JsonValue,
        on_progress: Callable[[Progress], None],
        on_end: Callable[[_Ended], None],
    ) -> ServerCall:
        self._serial += 1
        call = ServerCall(str(self._serial), token, on_progress)
        self._running[call.id] = call
        self._tasks.start_soon(self._run_call, call, method, params, on_end)
        return call

    async def _run_call(
        self,
        call: ServerCall,
        method: str,
        params: JsonObject,
        on_end: Callable[[_Ended], None],
    ) -> None:
        with call.scope, suppress(ConnectionClosedError):  # the host's is closed with it
            on_end(await self._finish(call, method, params))
        del self._running[call.id]

    async def _finish(self, call: ServerCall, method: str, params: JsonObject) -> _Ended:
        """Send the request, again after each visit that the server requires."""
        visits = 0
        while True:
            try:
                return as_object(await self._server.request(method, params, reason=_TAKEN_BACK))
            except RemoteError as problem:
                asked = translation.urls_required(problem.error)
                if not asked or visits == MAX_ROUNDS or not await self._visit(call, asked):
                    return problem
                visits += 1

    async def _visit(self, call: ServerCall, asked: Sequence[JsonObject]) -> bool:
        """Show the user each address; True if they accepted all."""
        pending = self._calls.find_pending([call.id])
        if pending is None or not _shows(pending.client, "url"):
            return False
        for each in asked:
            try:
                link = decode_link(each, id=self._new_link(), origin=self._origin())
                name = as_text(each.get("elicitationId")) or link.id
                shown = encode_url(link, link.link, name)
                reply = await pending.wait_for_round("elicitation/create", shown, "url")
            except (HostTimeoutError, RouteChangedError, RemoteProtocolError):
                return False
            if as_object(reply.result).get("action") != "accept":
                return False
        return True

    def _new_link(self) -> str:
        self._links += 1
        return f"abp-{self._links}"

    def _tell_progress(self, request: ToolRequest, progress: Progress) -> None:
        if request.token is not None and isinstance(progress, _Report):
            told = {**progress.params, "progressToken": request.token}
            self._host.notify("notifications/progress", told)

    # --- the server ---

    def on_inner(self, message: Request | Notification) -> None:
        """Take a message of the server."""
        if isinstance(message, Notification):
            self._on_server_notification(message.method, as_object(message.params))
        elif self.falls_back:
            ask = partial(self._host.request, message.method, message.params)
            self._connection.answer_request(self._server, message, ask, _keep_error)
        elif message.method == "ping":
            self._server.respond(message.id, {})
        elif (need := translation.needed_capability(message.method, message.params)) is None:
            words = f"a host of this era takes no requests: {message.method[:100]}"
            self._server.respond_error(message.id, METHOD_NOT_FOUND, words)
        else:
            ask = partial(self._ask, message, need)
            self._connection.answer_request(self._server, message, ask, _keep_error)

    async def _ask(self, message: Request, need: str) -> JsonValue:
        """Put a question into the next round of a call."""
        pending = self.find_pending(())
        if pending is None or not _shows(pending.client, need):
            raise RpcError(INVALID_REQUEST, _NOT_ASKED)
        asked = translation.to_modern_question(message.method, message.params, self._new_link())
        try:
            reply = await pending.wait_for_round(message.method, as_object(asked["params"]), need)
        except (HostTimeoutError, RouteChangedError) as problem:
            raise RpcError(INVALID_REQUEST, str(problem) or _NOT_ASKED) from None
        return reply.result

    def _on_server_notification(self, method: str, params: JsonObject) -> None:
        if method == CANCELLED:
            self._connection.cancel_request(self._server, params.get("requestId"))
        elif self.falls_back:
            self._host.notify(method, params or None)
        elif method == "notifications/progress":
            self._on_progress(params)
        elif method == "notifications/message":
            if any(translation.logs(level, params) for level in self._levels.values()):
                self._host.notify(method, params)
        elif method in LISTENED:
            self._subscriptions.notify(method, params)
        elif method not in translation.LEGACY_NOTIFICATIONS:
            self._host.notify(method, params or None)

    def _on_progress(self, params: JsonObject) -> None:
        token = params.get("progressToken")
        call = next((each for each in self._running.values() if each.token == token), None)
        if call is None:
            self._host.notify("notifications/progress", params)
        else:
            call.on_progress(_Report(None, 0.0, params=params))


def _keep_error(method: str, error: JsonObject) -> JsonObject:
    return error


_TAKEN_BACK = "the host cancelled it"
_NOT_ASKED = "a host of this era is asked only inside of a call, and by what it declares with it"

_ANSWERED: dict[str, Callable[[ModernHost, Request], Awaitable[JsonValue]]] = {
    "server/discover": ModernHost._discover,
    "subscriptions/listen": ModernHost._listen,
}


def _shows(client: McpClientInfo, need: str) -> bool:
    return bool(getattr(decode_capabilities(client.capabilities, client.version), need))
