"""Runs one `JsonRpcProtocol` over a pair of byte streams: requests that wait for their response,
and an outbox that a flood cannot fill.

The outbox holds at most one message per key. Requests and responses have keys of their own and
always leave; notifications that speak of the same thing (one call's progress, one state field)
replace the one that still waits, so a stuck reader costs bounded memory and sees the newest.
"""

from __future__ import annotations

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

import anyio

from abp_bridge.rpc.protocol import (
    Event,
    Id,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    Response,
    UnmatchedResponse,
)

Json = Any

MAX_OUTBOX = 64 * 2**20
MAX_NOTIFICATIONS = 1_000  # that wait: of those with a key, and of those without
_BOUNDED = ("notification", "newest")
FAREWELL = 0.5  # seconds for what is still to be said when the other side says no more


class ByteReader(Protocol):
    async def receive(self) -> bytes: ...
    def close(self) -> None: ...


class ByteWriter(Protocol):
    def write_nowait(self, data: bytes | memoryview) -> int: ...
    async def writable(self) -> None: ...
    def close(self) -> None: ...


class RemoteError(Exception):
    """The other side answered a request of ours with a JSON-RPC error."""

    def __init__(self, error: Mapping[str, Json]) -> None:
        code = error.get("code")
        self.code = code if isinstance(code, int) else 0
        self.data = error.get("data")
        super().__init__(f"{error.get('message') or 'no message'} ({self.code})")


class ConnectionClosedError(Exception):
    """The connection ended before the response came."""


class JsonRpcConnection:
    """One connection.

    `on_message` gets requests and notifications in order and must not wait; `on_odd` gets what was
    dropped, for the record.

    `withdraw` says how a request of ours is taken back when nobody waits for it any more: (id,
    reason) -> (method, params).
    """

    def __init__(
        self,
        peer: JsonRpcProtocol,
        source: ByteReader,
        sink: ByteWriter,
        *,
        on_message: Callable[[Request | Notification], None],
        on_protocol_error: Callable[[UnmatchedResponse | InvalidMessage], None] = lambda odd: None,
        cancel_request: Callable[[Id, str], tuple[str, Json]] | None = None,
    ) -> None:
        self._peer = peer
        self._source = source
        self._sink = sink
        self._on_message = on_message
        self._on_protocol_error = on_protocol_error
        self._cancel_request = cancel_request
        self._waiting: dict[Id, _Waiter] = {}
        self._outbox: OrderedDict[tuple[str, Hashable], bytes] = OrderedDict()
        self._tail = memoryview(b"")
        self._queued = 0
        self._notifications: Counter[str] = Counter()
        self._serial = 0
        self._work = anyio.Event()
        self._room = anyio.Event()
        self._closed = False
        self.coalesced = 0
        self.dropped = 0

    async def run(self) -> None:
        """Carry messages until the other side closes either stream.

        Every request of ours that still waits then fails with ConnectionClosedError.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, tasks.cancel_scope)
                await self._read()
                with anyio.move_on_after(FAREWELL):
                    await self._until(0)
                tasks.cancel_scope.cancel()
        finally:
            self.close()

    def close(self) -> None:
        """End the connection from this side: what can still be written at once is, and both streams
        are closed. Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._flush()
        for waiter in self._waiting.values():
            waiter.done.set()
        self._source.close()
        self._sink.close()

    async def request(self, method: str, params: Json, *, reason: str = "no longer needed") -> Json:
        """Ask, and wait.

        Cancelling the wait takes the request back (`withdraw`). Raises RemoteError or
        ConnectionClosedError.
        """
        if self._closed:
            raise ConnectionClosedError(method)
        id, data = self._peer.request(method, params)
        waiter = self._waiting[id] = _Waiter()
        self._put(("request", id), data)
        try:
            await waiter.done.wait()
        finally:
            del self._waiting[id]
            if waiter.response is None:
                self._peer.forget(id)
                self._take_back(id, reason)
        if waiter.response is None:
            raise ConnectionClosedError(method)
        if waiter.response.error is not None:
            raise RemoteError(waiter.response.error)
        return waiter.response.result

    def notify(self, method: str, params: Json = None, *, key: Hashable = None) -> None:
        """Tell.

        Notifications with the same `key` that still wait become the newest of them; without one,
        each counts. Up to a bound.
        """
        kind = self._new_key("notification") if key is None else ("newest", key)
        self._put(kind, self._peer.notify(method, params))

    def respond(self, id: Id, result: Json) -> None:
        self._put(self._new_key("response"), self._peer.respond(id, result))

    def respond_error(self, id: Id, code: int, message: str, data: Json = None) -> None:
        self._put(self._new_key("response"), self._peer.respond_error(id, code, message, data))

    def translate(self, outward: Callable[[dict[str, Json]], dict[str, Json]]) -> None:
        """From now on each message of ours goes out as `outward` makes it."""
        self._peer.outward = outward

    def discard_request(self, id: Id) -> None:
        """The request with this id was cancelled by the other side: it gets no answer."""
        self._peer.discard_request(id)

    def is_open(self, id: Json) -> bool:
        return self._peer.is_open(id)

    async def sent(self) -> None:
        """Returns when everything that was to be said is written."""
        await self._until(0)

    async def _read(self) -> None:
        while data := await self._source.receive():
            for event in self._peer.receive(data):
                self._take(event)
            await self._until(MAX_OUTBOX)

    async def _until(self, size: int) -> None:
        """Wait until no more than `size` bytes are still to be written."""
        while self._queued > size:
            self._room = anyio.Event()
            await self._room.wait()

    def _take(self, event: Event) -> None:
        if isinstance(event, Response):
            waiter = self._waiting[event.id]  # the peer makes a stray of what nobody waits for
            waiter.response = event
            waiter.done.set()
        elif isinstance(event, (Request, Notification)):
            self._on_message(event)
        else:
            if isinstance(event, InvalidMessage):
                self._put(self._new_key("rejected"), event.reply)
            self._on_protocol_error(event)

    def _take_back(self, id: Id, reason: str) -> None:
        unsent = self._outbox.pop(("request", id), None)
        if unsent is not None:  # it never leaves now: nobody needs to know
            self._queued -= len(unsent)
        if unsent is not None or self._cancel_request is None or self._closed:
            return
        method, params = self._cancel_request(id, reason)
        self._put(("withdraw", id), self._peer.notify(method, params))

    # --- the outbox: `_tail` is what is left of the message that has begun to leave, `_outbox` hold

    def _new_key(self, kind: str) -> tuple[str, Hashable]:
        self._serial += 1
        return kind, self._serial

    def _put(self, key: tuple[str, Hashable], data: bytes) -> None:
        if self._closed:
            return
        if not self._tail and not self._outbox:
            self._tail = memoryview(data)[self._offer(data) :]
            self._queued += len(self._tail)
        elif key in self._outbox:
            self.coalesced += 1
            self._queued += len(data) - len(self._outbox[key])
            self._outbox[key] = data
        elif key[0] in _BOUNDED and (
            self._notifications[key[0]] >= MAX_NOTIFICATIONS
            or self._queued + len(data) > MAX_OUTBOX
        ):
            self.dropped += 1
        else:
            self._outbox[key] = data
            self._queued += len(data)
            self._notifications[key[0]] += key[0] in _BOUNDED
        if self._tail:
            self._work.set()

    def _offer(self, data: bytes) -> int:
        try:
            return self._sink.write_nowait(data)
        except OSError:
            # nobody reads any more: the writing task will meet the same error, and end the
            # connection
            return 0

    def _flush(self) -> None:
        """Write what the sink takes now.

        Returns with everything written or the sink full. Raises OSError when nobody reads any more.
        """
        while self._tail or self._outbox:
            if not self._tail:
                key, data = self._outbox.popitem(last=False)
                self._notifications[key[0]] -= key[0] in _BOUNDED
                self._tail = memoryview(data)
            written = self._sink.write_nowait(self._tail)
            self._queued -= written
            self._tail = self._tail[written:]
            if self._tail:
                return

    async def _write(self, scope: anyio.CancelScope) -> None:
        try:
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                while self._tail or self._outbox:
                    await self._sink.writable()
                    self._flush()
                    self._room.set()
        except OSError:
            scope.cancel()  # the other side is gone


class _Waiter:
    __slots__ = ("done", "response")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.response: Response | None = None
