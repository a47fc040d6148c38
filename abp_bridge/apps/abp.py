"""Apps that speak ABP, on pipes or over a WebSocket, in JSON-RPC or ABP's envelope.

docs/abp-on-a-pipe.md describes both bindings for authors of apps.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace

import anyio
import anyio.lowlevel

from abp_bridge import VERSION
from abp_bridge.apps.elicitation import SESSION_ENDED, handle_elicitation
from abp_bridge.apps.program import LIST_LIMIT, Pipes, ProgramApp
from abp_bridge.core.capability import AppInfo, CallResult, CapabilityList, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ConnectionClosedError, JsonRpcConnection, RemoteError
from abp_bridge.jsonrpc.loop import Workers
from abp_bridge.jsonrpc.protocol import (
    METHOD_NOT_FOUND,
    Id,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
    is_id,
)
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope, to_envelope
from abp_bridge.session.app import END_LIMIT, AppListener

START_LIMIT = 30.0  # seconds for `initialize`: some apps load a lot first
MAX_LINE = 64 * 2**20  # bytes: results with files in them come in one line


class AbpApp(ProgramApp):
    """An app that is connected while the `open` block runs.

    Args:
        origin: The name of the app that the user sees.
        connect: Connects the app while its block runs.
        place: The command or address, for messages.
        warnings: Risks of the connection.
        tap: Observes the pipes.
    """

    def __init__(
        self,
        origin: str,
        connect: Callable[[], AbstractAsyncContextManager[Pipes]],
        *,
        place: str = "on stdin and stdout",
        warnings: tuple[str, ...] = (),
        tap: Tap = unobserved_stream,
    ) -> None:
        super().__init__(origin, "app", tap)
        self._connect = connect
        self._place = place
        self._warnings = warnings
        self._binding = Binding()
        self._connection: JsonRpcConnection | None = None
        self._workers: Workers | None = None
        # the app's requests that are being answered
        self._questions: dict[Id, anyio.CancelScope] = {}

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Connect and initialize the app (`App.open_app`); shut it down at the end."""
        async with (
            self._program.report_to(listener),
            self._connect() as pipes,
            anyio.create_task_group() as tasks,
        ):
            self._workers = Workers(tasks)
            self._connection = JsonRpcConnection(
                JsonRpcProtocol(
                    max_line=MAX_LINE,
                    inward=self._binding.inward,
                    outward=self._binding.outward,
                ),
                *self._tap(self._program.overhear(pipes.stdout), pipes.stdin),
                on_message=self._on_message,
                on_protocol_error=self._on_protocol_error,
            )
            tasks.start_soon(self._run_connection, self._connection)
            tasks.start_soon(self._program.watch, lambda: pipes)
            opened = await self._initialize(pipes)
            try:
                yield opened
            finally:
                with anyio.move_on_after(END_LIMIT, shield=True):
                    await self._shut_down()
                self._program.listener = None
                self._end_questions(self._connection)
                tasks.cancel_scope.cancel()

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Send `capabilities/call`; an error of the app becomes a failed result."""
        try:
            returned = await self._request(
                "capabilities/call", abp.call_params(capability, params, call)
            )
            return self._program.clean(abp.decode_result(returned))
        except RemoteError as problem:
            return self._program.clean(failed("OPERATION_FAILED", str(problem)))
        except ConnectionClosedError:
            return await self._program.end_call()

    async def cancel_call(self, call: str, reason: str) -> None:
        """Send `capabilities/cancel`, and wait `END_LIMIT` for its response."""
        with anyio.move_on_after(END_LIMIT):
            with suppress(RemoteError, ConnectionClosedError):
                await self._request("capabilities/cancel", {"callId": call, "reason": reason})

    async def capabilities(self) -> CapabilityList:
        """Request `capabilities/list`; without that method, keep the list from `initialize`."""
        with anyio.move_on_after(LIST_LIMIT):
            try:
                return abp.decode_capabilities(await self._request("capabilities/list", {}))
            except RemoteError as refused:
                unknown, words = refused.code == METHOD_NOT_FOUND, self._program.quote(refused)
                return CapabilityList() if unknown else CapabilityList.failure(label(words, 300))
            except (ConnectionClosedError, RemoteProtocolError) as problem:
                return CapabilityList.failure(self._program.quote(problem))
        return CapabilityList.failure()

    async def _request(self, method: str, params: JsonObject) -> JsonValue:
        assert self._connection is not None, "the app is open"
        return await self._connection.request(method, dict(params))

    async def _initialize(self, pipes: Pipes) -> AppInfo:
        async with self._program.greeting(lambda: pipes, f"ABP {self._place}", START_LIMIT):
            answer = await self._request("initialize", abp.initialize_params(VERSION))
            opened = abp.decode_app_info(answer)
        listed = CapabilityList() if self._binding.envelope else await self.capabilities()
        return replace(
            opened,
            capabilities=abp.merge_capabilities(opened.capabilities, listed),
            warnings=tuple(dict.fromkeys([*self._warnings, *opened.warnings, *listed.problems])),
        )

    async def _run_connection(self, connection: JsonRpcConnection) -> None:
        await connection.run()
        self._program.ended.set()

    async def _shut_down(self) -> None:
        assert self._connection is not None
        params = {"reason": "the session ended"}
        if self._binding.envelope:
            self._connection.notify("shutdown", params)
            return
        with suppress(RemoteError, ConnectionClosedError):
            await self._request("shutdown", params)

    def _on_message(self, message: Request | Notification) -> None:
        listener = self._program.listener
        if listener is None or self._connection is None or self._workers is None:
            return
        if isinstance(message, Request):
            if message.method.startswith(("elicitation/", "sampling/")):
                self._questions[message.id] = anyio.CancelScope()
                self._workers.start_soon(self._answer_app, self._connection, message, listener)
            else:
                words = f"An ABP client has no method {message.method[:80]!r}"
                self._connection.respond_error(message.id, METHOD_NOT_FOUND, words)
        elif message.method == abp.WITHDRAWN:
            named = as_object(message.params).get("requestId")
            if is_id(named) and named in self._questions:
                self._questions[named].cancel()
        elif message.method != abp.PROGRESS:
            listener.on_notice(abp.decode_notice({"event": message.method, "data": message.params}))
        elif (progress := abp.decode_progress(message.params)) is not None:
            listener.on_progress(progress)

    def _on_protocol_error(self, odd: UnmatchedResponse | InvalidMessage) -> None:
        if isinstance(odd, InvalidMessage):
            self._program.on_malformed(odd.reason)

    async def _answer_app(
        self, connection: JsonRpcConnection, request: Request, listener: AppListener
    ) -> None:
        raw = {"method": request.method, "params": request.params}
        scope = self._questions[request.id]
        response = await handle_elicitation(raw, listener, self.origin, scope)
        del self._questions[request.id]
        if connection.is_open(request.id):
            connection.respond(request.id, response)

    def _end_questions(self, connection: JsonRpcConnection) -> None:
        """Withdraw the open questions."""
        for id in self._questions:
            if connection.is_open(id):
                connection.respond(id, abp.encode_withdrawn(SESSION_ENDED))


class Binding:
    """The binding that an app speaks: JSON-RPC or ABP's envelope.

    Our first line is valid in both, and the app's first line decides. Until then `envelope` is
    None.
    """

    def __init__(self) -> None:
        self.envelope: bool | None = None

    def inward(self, message: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Convert the app's message to JSON-RPC."""
        if self.envelope is None:
            self.envelope = is_envelope(message)
        return from_envelope(message) if self.envelope and is_envelope(message) else message

    def outward(self, message: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Convert our JSON-RPC message to the app's binding."""
        if self.envelope is None and "method" in message:
            return {**message, **to_envelope(message, time.time())}
        return to_envelope(message, time.time()) if self.envelope else message
