"""The two connections of a translator (`modern_host.py`, `modern_server.py`), and its open
requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.jsonrpc.byte_edit import MAX_LINE
from abp_bridge.jsonrpc.connection import (
    ByteReader,
    ByteWriter,
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
    respond_internal_error,
)
from abp_bridge.jsonrpc.protocol import Id, JsonRpcProtocol, Notification, Request, RpcError, is_id
from abp_bridge.mcp.connection import encode_cancel
from abp_bridge.protocols.mcp.modern import InvalidParamsError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)


OnMessage = Callable[[Request | Notification], None]  # must not wait


@dataclass(slots=True)
class EraConnection:
    """Both connections of a translator: `outer` to the host or server, `inner` to the proxy."""

    outer: JsonRpcConnection
    inner: JsonRpcConnection
    tasks: TaskGroup
    running: dict[tuple[JsonRpcConnection, Id], anyio.CancelScope] = field(default_factory=dict)

    async def carry(self) -> None:
        """Carry messages until either side ends, then close the other."""
        async with anyio.create_task_group() as tasks:
            for each, other in ((self.outer, self.inner), (self.inner, self.outer)):
                tasks.start_soon(_run_one, each, other)
        for each in (self.outer, self.inner):
            if lost := each.lost_notifications():
                logger.warning("notifications between the eras were lost: %s", lost)

    def answer_request(
        self,
        side: JsonRpcConnection,
        request: Request,
        make: Callable[[], Awaitable[JsonValue]],
        to_error: Callable[[str, JsonObject], JsonObject],
    ) -> None:
        """Answer a request of `side` with the result of `make`, in a task.

        Args:
            to_error: (method, error of the other side) -> the error for `side`.
        """
        self.running[side, request.id] = scope = anyio.CancelScope()
        self.tasks.start_soon(self._run_request, side, request, make, to_error, scope)

    async def _run_request(
        self,
        side: JsonRpcConnection,
        request: Request,
        make: Callable[[], Awaitable[JsonValue]],
        to_error: Callable[[str, JsonObject], JsonObject],
        scope: anyio.CancelScope,
    ) -> None:
        id, method = request.id, request.method
        with scope:
            try:
                result = await make()
                if side.is_open(id):
                    side.respond(id, result)
            except RemoteError as problem:
                side.forward_error(id, to_error(method, problem.error))
            except (RpcError, InvalidParamsError) as problem:
                side.respond_error(id, problem.code, str(problem), problem.data)
            except ConnectionClosedError:
                pass  # the other side is closed with it
            except Exception:
                respond_internal_error(side, id, method)
        del self.running[side, id]
        if side.is_open(id):
            side.discard_request(id)  # it was taken back, or nobody is left to ask

    def cancel_request(self, side: JsonRpcConnection, id: JsonValue) -> None:
        """Cancel a request of `side`, which gets no answer."""
        scope = self.running.get((side, id)) if is_id(id) else None
        if scope is not None:
            scope.cancel()


async def _run_one(each: JsonRpcConnection, other: JsonRpcConnection) -> None:
    await each.run()
    other.close()


def connect_eras(
    outer: tuple[ByteReader, ByteWriter],
    on_outer: OnMessage,
    inner: tuple[ByteReader, ByteWriter],
    on_inner: OnMessage,
    *,
    tasks: TaskGroup,
    prefix: str,
) -> EraConnection:
    """Return the connections of a translator; `prefix` starts the ids of its own requests."""
    return EraConnection(
        _connect(outer, on_outer, prefix), _connect(inner, on_inner, prefix), tasks
    )


def _connect(
    streams: tuple[ByteReader, ByteWriter], on_message: OnMessage, prefix: str
) -> JsonRpcConnection:
    protocol = JsonRpcProtocol(prefix, max_line=MAX_LINE)
    return JsonRpcConnection(
        protocol, *streams, on_message=on_message, cancel_request=encode_cancel
    )
