"""We are the client of one MCP server, of either kind of revision, on its pipes.

    idle -- connect --> connecting -- hello answered --> ready -- its output ends --> idle
    any  -- close --> closed

The first request connects an idle server; the others wait. A request
that was sent when the connection ended fails, and is never sent again: nobody knows whether it was
carried out. After a second connection the server hears again what it was told: capabilities, log
level, subscriptions.

A server asks by a request, in a result (`input_required`, of a call or a task) or by the error
-32042. All three come to `LinkListener.answer` or `visit`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Protocol

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError, describe_bug
from abp_bridge.jsonrpc.connection import (
    ByteReader,
    ByteWriter,
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
    respond_internal_error,
)
from abp_bridge.jsonrpc.loop import Workers, now
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    MAX_PASSED_LINE,
    METHOD_NOT_FOUND,
    Id,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    RpcError,
    UnmatchedResponse,
    is_id,
)
from abp_bridge.jsonrpc.subprocess import GRACE, Child
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.mcp.connection import encode_cancel
from abp_bridge.protocols.mcp import revisions
from abp_bridge.protocols.mcp.client import LEGACY, MODERN, Era, McpClientInfo

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

# Seconds until a server that has not answered one hello is sent the other one too: it may only be
# slow to start, so the first good answer counts.
PROBE: Mapping[Era, float] = {"modern": 5.0, "legacy": 20.0}
HELLO_LIMIT = 120.0  # seconds for the last hello: npx and uvx fetch a program first
RESTORE_LIMIT = 5.0  # seconds to tell a server again what one before it was told
END_LIMIT = 1.0  # seconds for a process whose output has ended to end too
ORPHAN_LIMIT = 0.3  # seconds in which a process that has ended is read; a child of it may go on
FAREWELL = 0.3  # seconds for the last answers to leave: a host waits two for all of us
MAX_REQUESTS = 5_000  # of a server at once: each holds some kilobytes
MAX_KEPT = 1_000  # notifications for a server that is not connected yet
PAUSE = 0.1  # seconds before a round that brings no answer
COMPLETE_LIMIT = 10.0  # seconds for a server to say that an address was visited
LISTEN_LIMIT = 5.0  # seconds for a server to acknowledge a stream of changes
REOPENS, REOPEN_PAUSE, LASTING = 5, 0.2, 60.0  # of such a stream; the pause doubles
KEEPALIVE_INTERVAL = 20.0  # seconds between reports to a server that measures its user's time

UNKNOWN_OUTCOME = (
    "The outcome of this request is unknown: the server may have carried it out. abp-bridge does"
    " not send it again."
)
_ADVICE = (
    "See its stderr in the host's log. If its command is wrong, correct it in the host's"
    " configuration, after --."
)


class Pipes(Protocol):
    """The pipes of a server's process, or what behaves like them."""

    @property
    def stdout(self) -> ByteReader: ...

    @property
    def stdin(self) -> ByteWriter: ...


OpenPipes = Callable[[], AbstractAsyncContextManager[Pipes]]


class LostError(RpcError):
    """The connection ended while a request was open: nobody knows whether it was carried out."""


class LinkListener(Protocol):
    """Who answers a server and hears what it tells."""

    async def answer(
        self, method: str, params: JsonObject, call: str | None, id: Id | None = None
    ) -> JsonValue:
        """Answer what the server asks.

        Args:
            call: The call that it asks for, if that is known.
            id: Of the server's request, where it is one.

        Raises RpcError, RemoteError.
        """
        ...

    def passes(self, method: str, result: JsonObject, call: str | None) -> bool:
        """Whether a result that asks is returned as it is: the host answers it itself."""
        ...

    async def visit(
        self, error: RemoteError, links: Sequence[JsonObject], call: str | None
    ) -> None:
        """Send the user to the addresses of an error -32042.

        Raises RpcError where they do not go, or the error where it is passed on.
        """
        ...

    def on_notification(self, method: str, params: JsonObject | None) -> None:
        """Take a notification, in the order in which it came."""
        ...

    def on_malformed(self, reason: str, line: bytes) -> None:
        """Take the beginning of a line that is no message."""
        ...

    def on_end(self) -> None:
        """The connection has ended."""
        ...


@dataclass(slots=True)
class _Stream:
    """A stream of changes (`subscriptions/listen`).

    Attributes:
        id: Of the request that holds it.
        tried: Set once the server has acknowledged or refused it.
        has_gap: Whether changes may have gone unheard before it.
        attempt: The request that holds it, which the server may cancel.
    """

    wanted: JsonObject
    id: str = ""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    tried: anyio.Event = field(default_factory=anyio.Event)
    refusal: RemoteError | None = None
    has_gap: bool = False
    attempt: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class ServerLink:
    """One server.

    Args:
        open_pipes: Opens its pipes, once for each connection. Raises OSError.
        eras: The kinds of revision to try, the likelier first.
        client: What the server sees of its client.
        restarts: Whether a server that has ended is started again.
        name: Makes its name for the user.

    Attributes:
        hello: Its result of `initialize` or `server/discover`; empty before.
        modern: Whether it speaks the stateless revision.
        last_message: When its last message came, by the loop's clock.
        is_closed: Whether `close` was called.
    """

    def __init__(
        self,
        open_pipes: OpenPipes,
        listener: LinkListener,
        tasks: TaskGroup,
        *,
        eras: Sequence[Era],
        client: McpClientInfo,
        tap: Tap = unobserved_stream,
        restarts: bool = True,
        name: Callable[[], str] = lambda: "",
    ) -> None:
        self._open_pipes = open_pipes
        self._name = name
        self._restarts = restarts
        self._listener = listener
        self._tasks = tasks
        self._workers = Workers(tasks)
        self._tap = tap
        self.eras = eras
        self.client = client
        self.hello_params: JsonObject = {}  # further parameters of `initialize`
        self.hello_id: Id | None = None  # of the host's own `initialize`
        self.hello: JsonObject = {}
        self.modern = False
        self.last_message = 0.0
        self._ending = "the connection to {} ended."
        self.host: JsonRpcConnection | None = None  # that messages are passed on to
        self._prefix = f"abp-{os.urandom(4).hex()}-"
        self._rpc: JsonRpcConnection | None = None
        self._is_ready = self.is_closed = False
        self._connecting: anyio.Event | None = None
        self._opening: anyio.Event | None = None  # the pipes, until they end
        self._negotiation = anyio.CancelScope()
        self._problem: Exception | None = None  # why the last attempt to connect failed
        self._connection: anyio.CancelScope | None = None
        self._ended = anyio.Event()  # the connection of now
        self._connections = 0
        self._kept: list[tuple[str, JsonValue]] = []  # notifications for the next connection
        self._asked: dict[Id, anyio.CancelScope] = {}  # its requests that are being answered
        self._answered = anyio.Event()  # one of them
        self._completed: dict[str, anyio.Event] = {}  # by elicitationId
        self._uris: dict[str, None] = {}
        self._stream = _Stream({})
        self._streams: list[_Stream] = []  # those that are open: while one is replaced, both
        self._serial = count(1)

    @property
    def is_ready(self) -> bool:
        """Whether the server has answered a hello, and its connection goes on."""
        return self._is_ready

    @property
    def is_lost(self) -> bool:
        """Whether its pipes have ended or could not be opened, and nobody connects it now."""
        return self._rpc is None and self._connecting is None and self._ended.is_set()

    @property
    def version(self) -> str:
        """The MCP version that is spoken with it."""
        return MODERN[0] if self.modern else as_text(self.hello.get("protocolVersion"))

    @property
    def info(self) -> JsonObject:
        """Its `serverInfo`."""
        meta = as_object(self.hello.get("_meta"))
        return as_object(
            meta.get(revisions.SERVER) if self.modern else self.hello.get("serverInfo")
        )

    @property
    def capabilities(self) -> JsonObject:
        return as_object(self.hello.get("capabilities"))

    # --- the connection ---

    def start(self) -> None:
        """Open the pipes now: the server starts while its client does."""
        self._opening = opened = anyio.Event()
        self._ended = anyio.Event()
        self._connection = anyio.CancelScope(shield=True)  # it ends by `close`
        self._tasks.start_soon(self._hold, opened, self._ended, self._connection)

    async def connect(self) -> None:
        """Connect, unless it is connected. Who stops waiting does not stop it for others.

        Raises RemoteError (the server's refusal) or RpcError.
        """
        if self._is_ready:
            return
        if self.is_closed:
            raise RpcError(INTERNAL_ERROR, "the bridge is closing")
        if self._connections and not self._restarts:
            raise LostError(INTERNAL_ERROR, self.ending)
        if self._connecting is None:
            self._connecting = anyio.Event()
            self._tasks.start_soon(self._connect, self._connecting)
        await self._connecting.wait()
        if not self._is_ready:
            raise self._problem or RpcError(INTERNAL_ERROR, self.ending)

    async def _connect(self, connecting: anyio.Event) -> None:
        self._problem = None
        try:
            with anyio.CancelScope() as self._negotiation:
                await self._negotiate()
                self._is_ready = True
                self._connections += 1
                kept, self._kept = self._kept, []
                for method, params in kept:
                    self.notify(method, params)
                with anyio.move_on_after(RESTORE_LIMIT):
                    await self._restore()
        except (RemoteError, RpcError) as problem:
            self._problem = problem
        except Exception as bug:  # whatever it is: those who wait for the connection hear of it
            logger.exception("connecting the server failed")
            self._problem = RpcError(INTERNAL_ERROR, describe_bug(bug))
        finally:
            if not self._is_ready:
                with anyio.CancelScope(shield=True):
                    await self._disconnect()
            self._connecting = None
            connecting.set()

    async def _negotiate(self) -> None:
        """Send one hello after the other; the first good answer counts.

        A server that ends at one is started again for the next.
        """
        eras: list[Era] = list(self.eras) if not self.hello else [_era(self.modern)]
        problems: list[Exception] = []
        greeted: list[tuple[Era, JsonObject]] = []
        async with anyio.create_task_group() as attempts:

            async def greet(era: Era, tried: anyio.Event) -> None:
                try:
                    greeted.append((era, await self._greet(era)))
                    attempts.cancel_scope.cancel()
                except (RemoteError, RpcError) as problem:
                    problems.append(problem)
                except ConnectionClosedError as problem:
                    problems.append(problem)
                    await self._wait_ended()
                finally:
                    tried.set()

            for era in eras:
                if self._rpc is None:
                    try:
                        await self._open()
                    except RpcError as refused:
                        problems.append(refused)
                        break
                tried = anyio.Event()
                attempts.start_soon(greet, era, tried)
                with anyio.move_on_after(0.0 if era == eras[-1] else PROBE[era]):
                    await tried.wait()
            attempts.cancel_scope.deadline = anyio.current_time() + HELLO_LIMIT  # of all of them
        if greeted:
            self.modern, self.hello = greeted[0][0] == "modern", greeted[0][1]
            return
        for problem in problems:
            if not isinstance(problem, ConnectionClosedError):
                raise problem
        if problems:
            await self._wait_ended()
            raise RpcError(INTERNAL_ERROR, self.ending)
        raise RpcError(INTERNAL_ERROR, f"the server did not answer in {HELLO_LIMIT:g} s")

    async def _greet(self, era: Era) -> JsonObject:
        rpc = self._rpc
        if rpc is None:
            raise ConnectionClosedError("it ended")
        if era == "modern":
            asked = revisions.request_for({}, self._shown(era), server_modern=True)
            hello = as_object((await rpc.exchange("server/discover", asked, reason=None)).result)
            if not set(as_list(hello.get("supportedVersions"))) & set(MODERN):
                raise RpcError(INTERNAL_ERROR, "the server speaks no revision that is known here")
            return hello
        client = self._shown(era)
        params: JsonObject = {
            **self.hello_params,
            "protocolVersion": LEGACY[0] if client.modern else client.version,
            "capabilities": client.capabilities,
            "clientInfo": {"name": "an unnamed host", "version": "", **client.info},
        }
        hello = as_object(
            (await rpc.exchange("initialize", params, reason=None, id=self.hello_id)).result
        )
        rpc.notify("notifications/initialized")
        return hello

    def _shown(self, era: Era) -> McpClientInfo:
        if self.client.modern == (era == "modern"):
            return self.client
        declared = revisions.without_tasks(as_object(self.client.capabilities))
        return replace(self.client, capabilities=declared)

    async def _open(self) -> None:
        """Open the pipes. Raises RpcError where the server cannot be started."""
        if self._opening is None:
            self.start()
        assert self._opening is not None
        await self._opening.wait()
        if self._rpc is None:
            self._opening = None
            raise RpcError(INTERNAL_ERROR, self.ending)

    async def _hold(
        self, opened: anyio.Event, ended: anyio.Event, scope: anyio.CancelScope
    ) -> None:
        """Run one connection until it ends."""
        try:
            with scope:
                async with self._open_pipes() as pipes, anyio.create_task_group() as tasks:
                    self._rpc = rpc = self._make_rpc(pipes)
                    opened.set()
                    tasks.start_soon(_close_with_process, pipes, rpc)
                    await rpc.run()
                    self._is_ready = False
                    self._ending = await _describe_end(pipes)
                    tasks.cancel_scope.cancel()
        except (OSError, BaseExceptionGroup) as problem:
            if not (first := find_os_error(problem)):
                raise
            self._ending = f"{{}} cannot be started: {first}. {_ADVICE}"
        finally:
            if self._rpc is not None:
                self._opening = None
            self._rpc = None
            self._is_ready = False
            for asked in self._asked.values():
                asked.cancel()
            self._asked.clear()
            for stream in self._streams:
                stream.scope.cancel()
            self._stream = _Stream({})
            opened.set()
            ended.set()
            self._listener.on_end()

    @property
    def ending(self) -> str:
        """How its last process or connection ended, in words."""
        name = self._name()
        return self._ending.replace("{}", f"the server ({name})" if name else "the server", 1)

    def _make_rpc(self, pipes: Pipes) -> JsonRpcConnection:
        rpc: JsonRpcConnection

        def on_message(message: Request | Notification) -> None:
            self._on_message(rpc, message)

        def on_protocol_error(event: UnmatchedResponse | InvalidMessage) -> None:
            if isinstance(event, UnmatchedResponse):
                logger.info("a response of the server is dropped: no request is open for it")
                return
            if b'"id":null' not in event.reply:
                rpc.send_line(event.reply)
            self._listener.on_malformed(event.reason.removeprefix("Parse error: "), event.line)

        protocol = JsonRpcProtocol(self._prefix, max_line=MAX_PASSED_LINE, max_depth=None)
        protocol.batches = True
        rpc = JsonRpcConnection(
            protocol,
            *self._tap(pipes.stdout, pipes.stdin),
            on_message=on_message,
            on_protocol_error=on_protocol_error,
            cancel_request=encode_cancel,
            rejects=False,
        )
        rpc.feeds = self.host
        if self.host is not None:
            self.host.feeds = rpc
        return rpc

    async def _disconnect(self) -> None:
        """Let the server end by the end of its input, and end it if it does not."""
        if self._rpc is not None:
            self._rpc.end_output()
            with anyio.move_on_after(GRACE):
                await self._wait_ended()
        if self._connection is not None:
            self._connection.cancel()
            await self._wait_ended()

    async def _wait_ended(self) -> None:
        if self._connection is not None:
            await self._ended.wait()

    async def close(self) -> None:
        """End the connection, and the server with it."""
        self.is_closed = True
        self._negotiation.cancel()
        await self._disconnect()
        if self._connecting is not None:
            await self._connecting.wait()
        self._workers.close()

    async def settle(self) -> None:
        """Wait up to `FAREWELL` until the answers to the server are written."""
        with anyio.move_on_after(FAREWELL):
            while self._asked:
                self._answered = anyio.Event()
                await self._answered.wait()
            if self._rpc is not None:
                await self._rpc.sent()

    async def _restore(self) -> None:
        """Tell the server what one before it was told."""
        if self.modern and self._connections > 1:
            self.listen()
        elif self._connections > 1 and (rpc := self._rpc) is not None:
            told: list[tuple[str, JsonObject]] = [
                ("resources/subscribe", {"uri": uri}) for uri in self._uris
            ]
            if self.client.level is not None:
                told.insert(0, ("logging/setLevel", {"level": self.client.level}))
            for method, params in told:
                with suppress(RemoteError, ConnectionClosedError):
                    await rpc.exchange(method, params)
        if self._connections > 1:
            uris: list[JsonValue] = [*self._uris]
            changed = revisions.listen_filter(self.capabilities, uris)
            for each, given in revisions.may_have_changed(changed):
                self._listener.on_notification(each, given)

    # --- requests ---

    async def request(
        self,
        method: str,
        params: JsonValue = None,
        *,
        client: McpClientInfo | None = None,
        call: str | None = None,
        id: Id | None = None,
        reason: Callable[[], str] | None = None,
    ) -> JsonValue:
        """Return the result, after all that the server asks before it.

        Args:
            client: Who sends it, where that is not the link's own client.
            call: The call that it is, for what is asked.
            id: Of the request, if none with it is open.
            reason: Makes the reason of its cancellation.

        Raises RemoteError, RpcError.
        """
        given: JsonValue = params
        visited = False
        for _ in range(revisions.MAX_ROUNDS + 1):
            try:
                result = await self._exchange(method, given, client, id, reason)
            except RemoteError as error:
                links = revisions.urls_required(error.error)
                if not links or visited:
                    raise
                visited = True
                await self._visit(error, links, call)
                id = None
                continue
            id = None
            if not (self.modern and revisions.asks_input(result)):
                return result
            asked = as_object(result)
            if self._listener.passes(method, asked, call):
                return result
            answers = await self._answer_all(asked, call)
            if not answers:
                await anyio.sleep(PAUSE)
            if asked.get("status") == "input_required":  # of a task: the same request asks for it
                update = {**as_object(params), "inputResponses": answers}
                await self._exchange("tasks/update", update, client, None, reason)
                continue
            state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
            again = {"inputResponses": answers} if answers else {}
            given = {**revisions.without_retry(as_object(params)), **state, **again}
        raise RpcError(
            INTERNAL_ERROR, f"the server asked more than {revisions.MAX_ROUNDS} times for one call"
        )

    async def _exchange(
        self,
        method: str,
        params: JsonValue,
        client: McpClientInfo | None,
        id: Id | None,
        reason: Callable[[], str] | None,
    ) -> JsonValue:
        if not self._is_ready:
            await self.connect()
        rpc = self._rpc
        if rpc is None:
            raise LostError(INTERNAL_ERROR, self.ending)
        shown = self.client if client is None else client
        sent = revisions.request_for(params, shown, server_modern=self.modern)
        try:
            reply = await rpc.exchange(method, sent, id=id, reason=reason or "no longer needed")
        except ConnectionClosedError:
            with anyio.move_on_after(END_LIMIT + ORPHAN_LIMIT):
                await self._wait_ended()
            raise LostError(
                INTERNAL_ERROR, f"abp-bridge: {self.ending} {UNKNOWN_OUTCOME}"
            ) from None
        return reply.result

    async def _answer_all(self, asked: JsonObject, call: str | None) -> dict[str, JsonValue]:
        answers: dict[str, JsonValue] = {}
        problems: list[AbpBridgeError] = []

        async def answer(key: str, method: str, params: JsonObject) -> None:
            try:
                answers[key] = await self._listener.answer(method, params, call)
            except (RpcError, RemoteError) as problem:
                problems.append(problem)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for key, (method, params) in revisions.questions_in(asked).items():
                tasks.start_soon(answer, key, method, params)
        if problems:
            raise problems[0]
        return answers

    async def _visit(
        self, error: RemoteError, links: Sequence[JsonObject], call: str | None
    ) -> None:
        """Send the user to addresses, and wait until the server says that they were there, or for
        a while.
        """
        ids = [as_text(each.get("elicitationId")) for each in links]
        events = [self._completed.setdefault(id, anyio.Event()) for id in ids if id]
        try:
            await self._listener.visit(error, links, call)
            with anyio.move_on_after(COMPLETE_LIMIT):
                for event in events:
                    await event.wait()
        finally:
            for id in ids:
                self._completed.pop(id, None)

    def notify(self, method: str, params: JsonValue = None) -> None:
        """Pass a notification of the client on, if the server is there and its kind has it."""
        if self._rpc is None or not self._is_ready:
            if len(self._kept) < MAX_KEPT:
                self._kept.append((method, params))
            else:
                logger.warning("a notification of the host is dropped: the server is not there")
            return
        only_legacy = {*revisions.LEGACY_NOTIFICATIONS, "notifications/progress"}
        if not (self.modern and method in only_legacy):
            self._rpc.forward_notification(method, params)

    async def set_level(self, level: str) -> None:
        """Note from which level on the client wants logs; a stateful server is told."""
        self.client = replace(self.client, level=level)
        if not self.modern and "logging" in self.capabilities:
            await self.request("logging/setLevel", {"level": level})

    def note_subscription(self, uri: str, *, wanted: bool) -> None:
        """Note what the server was told, to tell it to the next one too."""
        self._uris.pop(uri, None)
        if wanted:
            self._uris[uri] = None

    async def subscribe(self, uri: str, *, wanted: bool) -> JsonValue:
        """Begin or stop to hear of changes of a resource. Raises RemoteError, RpcError."""
        before = uri in self._uris
        if not self.modern:
            method = "resources/subscribe" if wanted else "resources/unsubscribe"
            result = await self.request(method, {"uri": uri})
            self.note_subscription(uri, wanted=wanted)
            return result
        self.note_subscription(uri, wanted=wanted)
        if before != wanted:
            try:
                await self._replace_stream()
            except BaseException:  # refused or cancelled: as before
                self.note_subscription(uri, wanted=before)
                raise
        return {}

    # --- changes, of a stateless server to a client with a handshake ---

    def listen(self) -> None:
        """Hear from now on which lists and resources change."""
        if self.modern and not self.client.modern and self._is_ready and not self._stream.id:
            self._open_stream()

    def _open_stream(self) -> _Stream:
        """Open a stream for what is wanted now; return the one before, which goes on."""
        uris: list[JsonValue] = [*self._uris]
        before = self._stream
        self._stream = stream = _Stream(revisions.listen_filter(self.capabilities, uris))
        if stream.wanted:
            self._tasks.start_soon(self._hold_stream, stream)
        else:
            stream.tried.set()
        return before

    async def _replace_stream(self) -> None:
        before, stream = self._open_stream(), self._stream
        try:
            with anyio.move_on_after(LISTEN_LIMIT):
                await stream.tried.wait()
            if stream.refusal is not None:
                raise stream.refusal
            if not stream.tried.is_set():
                words = "the server did not acknowledge subscriptions/listen"
                raise RpcError(INTERNAL_ERROR, words)
        except BaseException:  # refused or cancelled: the stream before goes on
            stream.scope.cancel()
            self._stream = before
            raise
        before.scope.cancel()

    async def _hold_stream(self, stream: _Stream) -> None:
        """Keep a stream open. Where it ends it is opened again; a refusal is final."""
        failures = 0
        self._streams.append(stream)
        with stream.scope:
            while failures <= REOPENS and stream.refusal is None and self._rpc is not None:
                began = now()
                stream.id = f"{self._prefix}listen-{next(self._serial)}"
                params = {"notifications": stream.wanted}
                sent = revisions.request_for(params, self.client, server_modern=True)
                try:
                    with anyio.CancelScope() as stream.attempt:
                        await self._rpc.exchange("subscriptions/listen", sent, id=stream.id)
                except RemoteError as problem:
                    stream.refusal = problem
                except ConnectionClosedError:
                    break
                stream.tried.set()
                stream.has_gap = True
                failures = 1 if now() - began >= LASTING else failures + 1
                if stream.refusal is None:
                    await anyio.sleep(REOPEN_PAUSE * 2**failures)
            if self._is_ready and not self.is_closed:
                words = "the server closed its notification stream"
                reason = "" if stream.refusal is None else f": {label(stream.refusal, 300)}"
                logger.warning("%s%s", words, reason)
        self._streams.remove(stream)
        stream.tried.set()

    def _find_stream(self, id: JsonValue) -> _Stream | None:
        return next((each for each in self._streams if each.id == id), None)

    def _on_stream(self, stream: _Stream, method: str, params: JsonObject) -> None:
        """Take a notification of one of our own streams."""
        if stream is not self._stream and self._stream.tried.is_set():
            return  # a late one of a stream that was replaced
        if method != "notifications/subscriptions/acknowledged":
            self._listener.on_notification(method, revisions.untag(params) or None)
            return
        stream.tried.set()
        if stream.has_gap:
            stream.has_gap = False
            for each, changed in revisions.may_have_changed(stream.wanted):
                self._listener.on_notification(each, changed)

    # --- what the server says ---

    def _on_message(self, rpc: JsonRpcConnection, message: Request | Notification) -> None:
        self.last_message = now()
        if isinstance(message, Notification):
            # After what was read before it: a response wakes a task in the same way.
            asyncio.get_running_loop().call_soon(
                self._on_notification, message.method, message.params
            )
        elif message.method == "ping":
            rpc.respond(message.id, {})
        elif self.modern or len(self._asked) >= MAX_REQUESTS:
            if message.method == "elicitation/create":  # some servers take an error for consent
                rpc.respond(message.id, {"action": "cancel"})
                return
            words = "a server of this revision sends no requests"
            if not self.modern:
                words = f"{MAX_REQUESTS} requests of the server are open"
            rpc.respond_error(message.id, METHOD_NOT_FOUND, words)
        else:
            self._asked[message.id] = asked = anyio.CancelScope()
            self._workers.start_soon(self._answer, rpc, message, asked)

    async def _answer(
        self, rpc: JsonRpcConnection, message: Request, asked: anyio.CancelScope
    ) -> None:
        """Answer a request of the server; one that it withdraws gets no answer."""
        id, params = message.id, as_object(message.params)
        token = as_object(params.get("_meta")).get("progressToken")
        keepalive = anyio.CancelScope()
        if is_id(token):
            self._tasks.start_soon(_send_keepalive_progress, rpc, token, keepalive)
        with asked:
            try:
                rpc.respond(id, await self._listener.answer(message.method, params, None, id))
            except RemoteError as problem:
                rpc.forward_error(id, problem.error)
            except RpcError as problem:
                rpc.respond_error(id, problem.code, str(problem), problem.data)
            except Exception:  # a bug is logged, and the server gets one answer all the same
                respond_internal_error(rpc, id, message.method)
        keepalive.cancel()
        if self._asked.get(id) is asked:
            del self._asked[id]
        self._answered.set()
        if rpc.is_open(id):
            rpc.discard_request(id)

    def _on_notification(self, method: str, params: JsonValue) -> None:
        given = as_object(params)
        request = given.get("requestId")
        if method == "notifications/cancelled" and is_id(request):
            if (asked := self._asked.get(request)) is not None:
                self._listener.on_notification(method, given)
                asked.cancel()
            elif stream := self._find_stream(request):
                stream.attempt.cancel()
            return
        done = self._completed.get(as_text(given.get("elicitationId")))
        if done is not None and method == "notifications/elicitation/complete":
            done.set()
        subscription = as_object(given.get("_meta")).get(revisions.SUBSCRIPTION)
        if stream := self._find_stream(subscription):
            self._on_stream(stream, method, given)
        elif subscription is None or self.client.modern:
            self._listener.on_notification(method, None if params is None else given)


def _era(modern: bool) -> Era:
    return "modern" if modern else "legacy"


def find_os_error(problem: BaseException) -> OSError | None:
    """Return the OSError that a failure to open pipes is, maybe in a task group of theirs."""
    if isinstance(problem, BaseExceptionGroup):
        return next(filter(None, map(find_os_error, problem.exceptions)), None)
    return problem if isinstance(problem, OSError) else None


async def _describe_end(pipes: Pipes) -> str:
    if not isinstance(pipes, Child):
        return as_text(getattr(pipes, "ending", "")) or "the connection to {} ended."
    with anyio.move_on_after(END_LIMIT):
        await pipes.process.wait()
        await pipes.heard.wait()
    return f"{{}} ended ({pipes.exit}). {_ADVICE}"


async def _close_with_process(pipes: Pipes, rpc: JsonRpcConnection) -> None:
    """End the connection after its process: a child that it left behind may hold the pipe."""
    if isinstance(pipes, Child):
        await pipes.process.wait()
        came = -1.0
        while came != rpc.arrived or rpc.is_held:  # what it wrote before is read first
            came = rpc.arrived
            await anyio.sleep(ORPHAN_LIMIT)
        rpc.close()


async def _send_keepalive_progress(
    rpc: JsonRpcConnection, token: Id, scope: anyio.CancelScope
) -> None:
    with scope:
        for reports in count(1):
            await anyio.sleep(KEEPALIVE_INTERVAL)
            params: JsonObject = {"progressToken": token, "progress": reports}
            rpc.notify("notifications/progress", params, key=("progress", token))
