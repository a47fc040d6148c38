"""Translates a stateless server (2026-07-28) to a stateful one.

`input_required` becomes requests, and its streams become notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, to_text
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    Request,
    RpcError,
)
from abp_bridge.mcp.proxy.era_connection import connect_eras
from abp_bridge.protocols.mcp import translation
from abp_bridge.protocols.mcp.client import LOG_LEVELS, McpClientInfo
from abp_bridge.protocols.mcp.modern import MAX_ROUNDS, SUBSCRIPTION

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

ELICIT = "elicitation/create"
PAUSE = 0.1  # seconds before a retry that brings no answer: the server is busy
REOPENS = 5  # times in a row, of a stream that ends before it has lasted
REOPEN_PAUSE = 0.2  # seconds before the first of them; twice as long before each next
LASTING = 60.0  # seconds; intermediaries end streams that are idle for as long
LISTEN_LIMIT = 30.0  # seconds for a server to say that it tells of changes
DEFAULT_LEVEL = "info"  # of logs, as of a legacy server that was told none
_CANCEL: JsonObject = {"action": "cancel"}
_ACTIONS = ("accept", "decline", "cancel")


@dataclass(slots=True)
class _Stream:
    """A `subscriptions/listen`, reopened when it ends.

    Attributes:
        opening: Ends only its current request.
        tried: Set when the server has acknowledged or refused it.
        has_gap: Whether changes may have been missed while it was closed.
    """

    wanted: JsonObject
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    opening: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    id: JsonValue = None
    tried: anyio.Event = field(default_factory=anyio.Event)
    refusal: RemoteError | None = None
    has_gap: bool = False

    def begin(self, id: Id) -> None:
        """The server is asked for it by this id."""
        self.id = id


class ModernServer:
    """One stateless server as a stateful client sees it.

    Args:
        shown: The client as declared to the server.
        discovered: The server's answer to `server/discover`.
        is_verbatim: Whether the client is stateless too, behind its own translator.
    """

    def __init__(
        self,
        server: tuple[ByteReader, ByteWriter],
        client: tuple[ByteReader, ByteWriter],
        tasks: TaskGroup,
        shown: McpClientInfo,
        discovered: JsonObject,
        *,
        is_verbatim: Callable[[], bool],
    ) -> None:
        self._is_verbatim = is_verbatim
        self._connection = connect_eras(
            server, self.on_outer, client, self.on_inner, tasks=tasks, prefix="abp-s-"
        )
        self._server, self._front = self._connection.outer, self._connection.inner
        self._tasks = tasks
        logs = "logging" in as_object(discovered.get("capabilities"))
        self._client = replace(shown, level=DEFAULT_LEVEL if logs else None)
        self._discovered = discovered
        self._uris: dict[str, None] = {}
        self._stream = _Stream({})  # that is listened on
        self._streams = [self._stream]  # it, and while it is tried the one before
        self._replacing = anyio.Lock()
        self._elicitations = 0

    async def translate(self) -> None:
        """Translate until either side ends."""
        await self._connection.carry()

    async def _request(self, method: str, params: JsonValue) -> JsonValue:
        sent = translation.add_envelope(params, self._client)
        return await self._server.request(method, sent, reason="the client cancelled it")

    # --- the client ---

    def on_inner(self, message: Request | Notification) -> None:
        """Take a message of the client's."""
        if isinstance(message, Notification):
            self._on_notification(message)
            return
        make = partial(_ANSWERED.get(message.method, ModernServer._call), self, message)
        self._connection.answer_request(self._front, message, make, self._to_error)

    def _to_error(self, method: str, error: JsonObject) -> JsonObject:
        return error if self._is_verbatim() else translation.to_legacy_error(method, error)

    def _on_notification(self, message: Notification) -> None:
        if message.method == "notifications/cancelled":
            self._connection.cancel_request(self._front, as_object(message.params).get("requestId"))
        elif message.method == "notifications/initialized":
            self._open_stream().scope.cancel()
        elif message.method not in _NOT_FORWARDED:
            self._server.notify(message.method, message.params)

    async def _initialize(self, message: Request) -> JsonValue:
        asked = as_object(message.params).get("protocolVersion")
        return translation.to_initialized(self._discovered, asked, verbatim=self._is_verbatim())

    async def _ping(self, message: Request) -> JsonValue:
        return {}

    async def _set_level(self, message: Request) -> JsonValue:
        level = as_object(message.params).get("level")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"the level must be one of {', '.join(LOG_LEVELS)}")
        self._client = replace(self._client, level=to_text(level))
        return {}

    async def _subscribe(self, message: Request) -> JsonValue:
        uri = _uri(message)
        async with self._replacing:
            new = uri not in self._uris
            self._uris[uri] = None
            try:
                await self._listen()
            except BaseException:  # it is refused, or taken back
                if new:
                    self._uris.pop(uri, None)
                raise
        return {}

    async def _unsubscribe(self, message: Request) -> JsonValue:
        async with self._replacing:
            self._uris.pop(_uri(message), None)
            await self._listen()
        return {}

    async def _call(self, message: Request) -> JsonValue:
        """Pass a request on; what the server asks first, the client is asked."""
        given = translation.without_retry(as_object(message.params))
        result = as_object(await self._request(message.method, given))
        rounds = 0
        while result.get("resultType") == "input_required":
            if rounds == MAX_ROUNDS:
                raise RpcError(INTERNAL_ERROR, f"the server asked more than {MAX_ROUNDS} times")
            rounds += 1
            brought = await self._ask(result)
            result = as_object(await self._request(message.method, {**given, **brought}))
        if self._is_verbatim():
            return result
        return translation.to_legacy_result(message.method, result)

    async def _ask(self, asked: JsonObject) -> JsonObject:
        """All that one result asks, at once: what the retry brings."""
        requests = as_object(asked.get("inputRequests"))
        answers: dict[str, JsonValue] = {}
        refused: list[RpcError | ConnectionClosedError] = []

        async def ask(key: str, each: JsonValue) -> None:
            try:
                answers[key] = await self._ask_one(each)
            except (RpcError, ConnectionClosedError) as problem:
                refused.append(problem)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for key, each in requests.items():
                tasks.start_soon(ask, key, each)
        if refused:
            raise refused[0]
        if not requests:
            await anyio.sleep(PAUSE)
        state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
        return {**state, **({"inputResponses": answers} if answers else {})}

    async def _ask_one(self, asked: JsonValue) -> JsonValue:
        self._elicitations += 1
        method, params = translation.to_legacy_question(asked, f"abp-{self._elicitations}")
        try:
            result = await self._front.request(method, params, reason="it is no longer asked")
        except RemoteError as problem:
            if method == ELICIT:  # who cannot be asked has not agreed
                return _CANCEL
            raise RpcError(
                INTERNAL_ERROR, f"the server asked for {method}, and the host answered: {problem}"
            ) from None
        if method == ELICIT and as_object(result).get("action") not in _ACTIONS:
            return _CANCEL
        return result

    async def _listen(self) -> None:
        """Replace the stream with one for what the client wants now; keep the old one on failure.

        Raises RemoteError, or RpcError if the server does not answer.
        """
        before = self._open_stream()
        stream = self._stream
        self._streams = [before, stream]
        try:
            with anyio.move_on_after(LISTEN_LIMIT):
                await stream.tried.wait()
            if stream.refusal is not None:
                raise stream.refusal
            if not stream.tried.is_set():
                words = "the server has not said whether it tells of changes"
                raise RpcError(INTERNAL_ERROR, words)
        except BaseException:
            stream.scope.cancel()
            self._stream = before
            raise
        finally:
            self._streams = [self._stream]
        before.scope.cancel()

    def _open_stream(self) -> _Stream:
        """Begin another stream: the one before, which goes on."""
        before, capabilities = self._stream, self._discovered.get("capabilities")
        self._stream = stream = _Stream(translation.listen_filter(capabilities, [*self._uris]))
        self._streams = [stream]
        if stream.wanted:
            self._tasks.start_soon(self._hold_stream, stream)
        else:
            stream.tried.set()
        return before

    async def _hold_stream(self, stream: _Stream) -> None:
        """Keep a stream open: where it ends it is opened again, after a while, `REOPENS` times."""
        failures = 0
        with stream.scope, suppress(ConnectionClosedError):  # the stream ends with its server
            while True:
                began = anyio.current_time()
                problem = await self._hold_once(stream)
                stream.tried.set()
                stream.has_gap = True
                failures = 0 if anyio.current_time() - began >= LASTING else failures
                if failures == REOPENS:
                    break
                await anyio.sleep(REOPEN_PAUSE * 2**failures)
                failures += 1
            self._tell_closed(f"this server tells of no changes any more: {problem}")
        stream.tried.set()

    def _tell_closed(self, words: str) -> None:
        logger.warning("%s", words)
        said: JsonObject = {"level": "warning", "logger": "abp-bridge", "data": words}
        if translation.logs(self._client.level, said):
            self._front.notify("notifications/message", said)

    async def _hold_once(self, stream: _Stream) -> str:
        """Why the stream ended."""
        params = translation.add_envelope({"notifications": stream.wanted}, self._client)
        with anyio.CancelScope() as stream.opening:
            try:
                await self._server.request(
                    "subscriptions/listen",
                    params,
                    reason="the client cancelled it",
                    on_begin=stream.begin,
                )
            except RemoteError as problem:
                stream.refusal = problem
                return label(problem, 300)
            finally:
                stream.id = None
        return "its server ended it"

    @property
    def _heard_stream(self) -> _Stream:
        """The one whose changes are told: another only once it is acknowledged."""
        return self._stream if self._stream.tried.is_set() else self._streams[0]

    def _find_stream(self, id: JsonValue) -> _Stream | None:
        return next((each for each in self._streams if each.id is not None and each.id == id), None)

    def _on_acknowledged(self, stream: _Stream) -> None:
        stream.refusal = None
        stream.tried.set()
        if stream.has_gap:  # nobody told of what changed meanwhile
            stream.has_gap = False
            for method, params in translation.may_have_changed(stream.wanted):
                self._front.notify(method, params)

    # --- the server ---

    def on_outer(self, message: Request | Notification) -> None:
        """Take a message of the server's."""
        if isinstance(message, Request):  # basic/transports/stdio: it must not
            words = "a server of this revision sends no requests"
            self._server.respond_error(message.id, METHOD_NOT_FOUND, words)
            return
        meta = as_object(as_object(message.params).get("_meta"))
        if message.method == "notifications/subscriptions/acknowledged":
            if stream := self._find_stream(meta.get(SUBSCRIPTION, self._stream.id)):
                self._on_acknowledged(stream)
        elif message.method == "notifications/cancelled":
            if stream := self._find_stream(as_object(message.params).get("requestId")):
                stream.opening.cancel()
        elif SUBSCRIPTION not in meta or meta[SUBSCRIPTION] == self._heard_stream.id:
            self._front.notify(message.method, translation.untag(message.params) or None)


# What goes no further, as a modern server has no use for it: it has no handshake, and asks nothing
# whose progress could be told.
_NOT_FORWARDED = translation.LEGACY_NOTIFICATIONS | {"notifications/progress"}

_ANSWERED: dict[str, Callable[[ModernServer, Request], Awaitable[JsonValue]]] = {
    "initialize": ModernServer._initialize,
    "ping": ModernServer._ping,
    "logging/setLevel": ModernServer._set_level,
    "resources/subscribe": ModernServer._subscribe,
    "resources/unsubscribe": ModernServer._unsubscribe,
}


def _uri(message: Request) -> str:
    uri = as_object(message.params).get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, "a resource needs a uri")
    return uri
