"""A session with an MCP server of any revision, through the official SDK's client.

The SDK negotiates, matches responses, cancels, answers pings and holds the stream of changes open.
What it would drop, refuse or reorder bypasses its types. Importing this loads the SDK (0.5 s).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import anyio
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    Implementation,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import (
    ByteReader,
    ByteWriter,
    ConnectionClosedError,
    RemoteError,
)
from abp_bridge.jsonrpc.program_lines import (
    DUPLICATE_ID,
    FAREWELL,
    MAX_WAITING,
    NO_MESSAGE,
    MessageReader,
    MessageWriter,
    ProgramListener,
    as_error,
)
from abp_bridge.protocols.mcp import revisions
from abp_bridge.protocols.mcp.client import MODERN

if TYPE_CHECKING:
    from mcp.shared.dispatcher import DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.transport_context import TransportContext

logger = logging.getLogger(__name__)

NAME = "abp-bridge"
CANCELLED = "notifications/cancelled"
LOG_LEVEL = "info"  # the least that is wanted of a server's log: what a person may want to know

Beat = Callable[[float], Awaitable[None]]


class ServerListener(ProgramListener, Protocol):
    """Who takes what a server asks and tells."""

    async def on_request(self, method: str, params: JsonObject, beat: Beat) -> JsonObject | None:
        """Answer a request of the server; None leaves it to the SDK. RemoteError is sent as its
        error.

        Args:
            beat: Sends the server a rising number, as a sign of life.
        """
        ...


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server declared: name, title, MCP revision, capabilities and instructions."""

    name: str = ""
    title: str = ""
    version: str = ""
    capabilities: JsonObject = field(default_factory=dict)
    instructions: str = ""


class ServerSession:
    """One open session; `info` and `modern` are set once it has negotiated."""

    def __init__(
        self, client: ClientSession, dispatcher: _Dispatcher, declared: JsonObject
    ) -> None:
        self.info = ServerInfo()
        self.modern = False
        self._client = client
        self._dispatcher = dispatcher
        self._declared = declared
        self._envelope: JsonObject = {}

    async def negotiate(self, *, modern_first: bool) -> None:
        """Negotiate the revision, the likelier kind first.

        Raises RemoteError, ConnectionClosedError, RemoteProtocolError.
        """
        steps: list[Callable[[], Awaitable[object]]] = [
            self._client.initialize,
            self._client.discover,
        ]
        problems: list[Exception] = []
        for step in reversed(steps) if modern_first else steps:
            try:
                await step()
            except (MCPError, ValidationError, RuntimeError) as problem:
                if self._dispatcher.ended.is_set():
                    raise ConnectionClosedError("it ended before it answered") from None
                problems.append(problem)
            else:
                break
        else:
            raise _refusal(problems)
        self.info = info = _server_info(self._client)
        self.modern = info.version in MODERN
        self._envelope = {
            modern.VERSION: info.version,
            modern.CAPABILITIES: self._declared,
            modern.CLIENT: {"name": NAME, "version": VERSION},
            modern.LOG_LEVEL: LOG_LEVEL,
        }

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return its result as it came, without the SDK's validation.

        Raises RemoteError, ConnectionClosedError.
        """
        given = dict(params)
        if self.modern:
            given["_meta"] = {**as_object(given.get("_meta")), **self._envelope}
        try:
            result: JsonObject = await self._dispatcher.send_raw_request(method, given)
        except MCPError as problem:
            if problem.error.code == CONNECTION_CLOSED and self._dispatcher.ended.is_set():
                raise ConnectionClosedError("the server is gone") from None
            raise _remote_error(problem) from None
        return result

    async def listen(self, lists: Sequence[str], uris: Sequence[str]) -> None:
        """Hold the stateless revision's stream of changes open.

        Args:
            lists: Of `tools`, `prompts`, `resources`.
            uris: Of resources.

        Raises RemoteError if the server refuses or ends it.
        """
        try:
            async with listen(
                self._client,
                tools_list_changed="tools" in lists,
                prompts_list_changed="prompts" in lists,
                resources_list_changed="resources" in lists,
                resource_subscriptions=uris,
            ) as events:
                async for _ in events:
                    pass  # they were told as they came
        except (MCPError, SubscriptionLost) as problem:
            raise RemoteError({"code": 0, "message": label(str(problem), 300)}, 0.0) from None


def _server_info(client: ClientSession) -> ServerInfo:
    server, declared = client.server_info, client.server_capabilities
    has = declared.model_dump(by_alias=True, mode="json", exclude_none=True) if declared else {}
    return ServerInfo(
        name=server.name if server else "",
        title=(server.title or "") if server else "",
        version=client.protocol_version or "",
        capabilities=has,
        instructions=client.instructions or "",
    )


def _refusal(problems: Sequence[Exception]) -> Exception:
    """Return the problem to report: an invalid answer before an error."""
    for each in problems:
        if not isinstance(each, MCPError):
            words = f"it answered what is no handshake of MCP: {label(str(each), 200)}"
            return RemoteProtocolError(words)
    return next(_remote_error(each) for each in problems if isinstance(each, MCPError))


def _remote_error(problem: MCPError) -> RemoteError:
    error = problem.error
    return RemoteError({"code": error.code, "message": error.message, "data": error.data}, 0.0)


@asynccontextmanager
async def open_session(
    source: ByteReader,
    sink: ByteWriter,
    listener: ServerListener,
    *,
    has_roots: bool,
    can_sample: bool,
) -> AsyncIterator[ServerSession]:
    """Open a session with the server behind these streams; it has not negotiated yet."""
    inward_send, inward = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outward, outward_receive = anyio.create_memory_object_stream[SessionMessage](MAX_WAITING)
    dispatcher = _Dispatcher(inward, outward, listener)
    client = ClientSession(
        dispatcher=dispatcher,
        client_info=Implementation(name=NAME, version=VERSION),
        elicitation_callback=_DECLARED,
        sampling_callback=_DECLARED if can_sample else None,
        list_roots_callback=_DECLARED if has_roots else None,
    )
    offered = {"elicitation": True, "sampling": can_sample, "roots": has_roots}
    declared = {word: _MEMBERS.get(word, {}) for word, has in offered.items() if has}
    reader, writer = MessageReader(source, listener.on_malformed), MessageWriter(sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_carry_in, reader, inward_send, listener, dispatcher)
        tasks.start_soon(writer.carry, outward_receive, _encode)
        try:
            async with client:
                try:
                    yield ServerSession(client, dispatcher, declared)
                finally:
                    with anyio.move_on_after(FAREWELL, shield=True):
                        await dispatcher.settled()
                        outward.close()
                        await writer.written.wait()
        finally:
            tasks.cancel_scope.cancel()


_MEMBERS: JsonObject = {"elicitation": {"form": {}, "url": {}}}


async def _not_called(*_: object) -> NoReturn:
    raise AssertionError("what a server asks is answered before the SDK's types see it")


_DECLARED: Any = _not_called  # to be given it is to declare what it is for


class _Dispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher with `listener` first.

    The SDK's own rejects questions with types it does not know, drops unknown notifications, and
    may
    deliver a notification after a later result.
    """

    def __init__(self, source: Any, sink: Any, listener: ServerListener) -> None:
        super().__init__(source, sink)
        self.ended = anyio.Event()
        self.open: set[object] = set()  # the ids of its requests
        self._listener = listener
        self._answering = 0
        self._idle = anyio.Event()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run, with what the listener is given taken out."""

        def take(method: str, params: Any) -> bool:
            if on_notify_intercept is not None:
                on_notify_intercept(method, params)
            self._listener.on_notification(method, params or {})
            return True

        answer = partial(self._answer_request, on_request)
        await super().run(answer, on_notify, take, task_status=task_status)

    async def _answer_request(
        self,
        otherwise: OnRequest,
        context: DispatchContext[TransportContext],
        method: str,
        params: Any,
    ) -> dict[str, Any]:
        try:
            result = await self._listener.on_request(method, params or {}, context.progress)
            return await otherwise(context, method, params) if result is None else dict(result)
        except RemoteError as problem:
            raise MCPError(problem.code, str(problem.error.get("message"))) from None

    async def _handle_request(self, req: JSONRPCRequest, *arguments: Any, **named: Any) -> None:
        """The SDK's, which writes the answer too, turns after it has it."""
        self._answering += 1
        try:
            await super()._handle_request(req, *arguments, **named)
        finally:
            self.open.discard(req.id)
            self._answering -= 1
            if not self._answering:
                self._idle.set()
                self._idle = anyio.Event()

    async def settled(self) -> None:
        """Wait until each request of the server has its answer on the way."""
        while self._answering:
            await self._idle.wait()


async def _carry_in(
    reader: MessageReader,
    inward: MemoryObjectSendStream[SessionMessage | Exception],
    listener: ServerListener,
    dispatcher: _Dispatcher,
) -> None:
    """Bring the server's messages, until it ends, a line has no end or the SDK has left."""
    async with inward:
        with suppress(anyio.BrokenResourceError):  # the session is over: nobody waits for more
            while (given := await reader.receive()) is not None:
                message = _decode_message(given, listener)
                if isinstance(message, JSONRPCRequest):
                    if message.id in dispatcher.open:  # the SDK would answer it twice
                        listener.on_malformed(DUPLICATE_ID)
                        continue
                    dispatcher.open.add(message.id)
                if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
                    dispatcher.open.discard(as_object(message.params).get("requestId"))
                if message is not None:
                    await inward.send(SessionMessage(message))
        dispatcher.ended.set()
    listener.on_end()


def _decode_message(given: JsonObject, listener: ServerListener) -> JSONRPCMessage | None:
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_python(given, by_name=False)
    except ValidationError:
        listener.on_malformed(NO_MESSAGE)
        if (error := as_error(given, "server")) is None:
            return None
        message = jsonrpc_message_adapter.validate_python(error, by_name=False)
    return message


def _encode(item: SessionMessage) -> JsonObject:
    message: JsonObject = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return message
