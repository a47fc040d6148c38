"""We are the server of one MCP host, of either kind of revision.

A request of the host becomes a `HostRequest`, which the handler answers once: at once (`reply`),
or in a task (`handle`) that the host's cancellation cancels. The kind is a property of the request:
its envelope says stateless, a handshake on the connection stateful. Calls that outlive their
requests and wait for a retry are `tool_calls.ToolCalls`.

`serve` answers `initialize` and `tools/list` before anything heavy is loaded: this imports none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.lowlevel

from abp_bridge.core.json_value import JsonObject, as_object, as_text
from abp_bridge.jsonrpc.connection import (
    ConnectionClosedError,
    RemoteError,
    respond_internal_error,
)
from abp_bridge.jsonrpc.loop import Workers
from abp_bridge.jsonrpc.protocol import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Id,
    Notification,
    Request,
    RpcError,
    is_id,
)
from abp_bridge.mcp.connection import MAX_LISTENS, HostRequest, McpConnection
from abp_bridge.protocols.mcp.client import BATCHING, McpClientInfo
from abp_bridge.protocols.mcp.revisions import (
    MAX_UPDATES,
    InvalidParamsError,
    decode_envelope,
    decode_filter,
    is_enveloped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_REQUESTS = 5_000  # of a host at once: each holds some kilobytes
_STATELESS = ("server/discover", "subscriptions/listen")


class HostHandler(Protocol):
    """Who answers a host: the bridge's own session, or the proxy of a server."""

    def reply(self, request: HostRequest) -> JsonObject | None:
        """Return the result at once, or None to have `handle` called. Raises RpcError."""
        ...

    async def handle(self, request: HostRequest) -> JsonObject | None:
        """Return the result; None where the request has been answered.

        Raises RpcError, RemoteError (a server's error, passed on whole), ConnectionClosedError.
        """
        ...

    def notify(self, method: str, params: JsonObject | None) -> None:
        """Take a notification of the host."""
        ...


class HostFront:
    """The server side of one connection.

    Args:
        speaks_modern: Whether the stateless revision is spoken too.

    Attributes:
        handshaken: Whether the host has sent `initialize`.
    """

    def __init__(
        self, connection: McpConnection, handler: HostHandler, *, speaks_modern: bool = True
    ) -> None:
        self._connection = connection
        self._rpc = connection.rpc
        self._handler = handler
        self._legacy = connection.client  # as the host shows itself by its handshake
        self._speaks_modern = speaks_modern
        self.handshaken = False
        self._running: dict[Id, HostRequest] = {}
        self._idle = anyio.Event()
        self._workers = Workers(connection.tasks)

    def close(self) -> None:
        """End the tasks that wait for the next request."""
        self._workers.close()

    async def wait_idle(self) -> None:
        """Wait until each request has its answer."""
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()

    def introduce(self, version: str, params: JsonObject) -> None:
        """Note the host of an `initialize`, and the version that is spoken with it."""
        self.handshaken = True
        self._rpc.accept_batches(version in BATCHING)
        client = McpClientInfo(
            version, as_object(params.get("clientInfo")), params.get("capabilities")
        )
        self._connection.client = self._legacy = client

    def on_message(self, message: Request | Notification) -> None:
        """Take one message, without waiting."""
        params = as_object(message.params)
        if isinstance(message, Notification):
            if message.method == "notifications/cancelled":
                self._cancel(params)
            else:
                self._handler.notify(message.method, params if message.params is not None else None)
            return
        try:
            client = self._client_of(message.method, params)
            request = HostRequest(message.id, client, self._rpc.arrived, message.method, params)
            result = self._handler.reply(request)
            if result is not None:
                self._rpc.respond(message.id, result)
            elif len(self._running) >= MAX_REQUESTS:
                raise RpcError(INVALID_REQUEST, f"{MAX_REQUESTS} requests are open")
            else:
                self._running[message.id] = request
                self._workers.start_soon(self._run, request)
        except (RpcError, InvalidParamsError) as problem:
            self._rpc.respond_error(message.id, problem.code, str(problem), problem.data)
        except Exception:  # a bug in one handler is logged, and ends its request alone
            respond_internal_error(self._rpc, message.id, message.method)

    def _client_of(self, method: str, params: JsonObject) -> McpClientInfo:
        """Return who sent a request: by its envelope, else by the handshake."""
        if not self._is_modern(method, params):
            return self._legacy
        client = decode_envelope(params)
        if not self.handshaken:  # a handshake says for good who is there
            self._connection.client = client
        return client

    def _is_modern(self, method: str, params: JsonObject) -> bool:
        if not self._speaks_modern:
            return False
        if is_enveloped(params) or (method in _STATELESS and not self.handshaken):
            return True
        return self._connection.client.modern and not self.handshaken and method != "initialize"

    async def _run(self, request: HostRequest) -> None:
        """Answer a request; a cancelled one gets no answer (basic/utilities/cancellation)."""
        id, subscriptions = request.id, self._connection.subscriptions
        if request.client.level is not None:
            subscriptions.start_logging(id, request.client.level)
        with request.scope:
            try:
                # One that the same read cancelled has not begun.
                await anyio.lowlevel.checkpoint_if_cancelled()
                result = await self._handler.handle(request)
                subscriptions.stop_logging(id)
                if result is not None:
                    self._rpc.respond(id, result, request.on_sent)
            except RemoteError as problem:
                self._rpc.forward_error(id, problem.error)
            except (RpcError, InvalidParamsError) as problem:
                self._rpc.respond_error(id, problem.code, str(problem), problem.data)
            except ConnectionClosedError:
                pass  # the host is gone
            except Exception:  # as in `on_message`
                respond_internal_error(self._rpc, id, request.method)
        subscriptions.stop_logging(id)
        del self._running[id]
        if self._rpc.is_open(id):
            self._rpc.discard_request(id)
        if not self._running:
            self._idle.set()

    def _cancel(self, params: JsonObject) -> None:
        id = params.get("requestId")
        if is_id(id) and (request := self._running.get(id)) is not None:
            request.cancel_reason = as_text(params.get("reason"))
            request.cancel_request("the host cancelled the call")

    def cancel_all(self, reason: str) -> None:
        """Cancel all requests: nobody waits for their answers."""
        for request in list(self._running.values()):
            request.cancel_request(reason)

    async def hold_stream(self, request: HostRequest, lists: Sequence[str]) -> None:
        """Hold a `subscriptions/listen` of the host until it is cancelled.

        Args:
            lists: The words of a filter that are honoured.

        Raises RpcError, InvalidParamsError.
        """
        subscriptions = self._connection.subscriptions
        wanted = decode_filter(request.params, lists)
        if not subscriptions.listen(request.id, wanted):
            raise RpcError(
                INVALID_PARAMS,
                f"there can be at most {MAX_LISTENS} streams with {MAX_UPDATES} resources in all:"
                " end one first",
            )
        try:
            await anyio.sleep_forever()
        finally:
            subscriptions.unlisten(request.id)
