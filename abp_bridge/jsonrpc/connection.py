"""Run one `JsonRpcProtocol` over a pair of byte streams.

The outbox holds at most one message per key. Requests and responses always leave. A newer
notification replaces a waiting one about the same thing, and beyond a bound the oldest is dropped
and counted, so a peer that does not read costs bounded memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.errors import AbpBridgeError, describe_bug
from abp_bridge.jsonrpc.loop import earliest_arrival
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    Id,
    IncomingMessage,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    Response,
    UnmatchedResponse,
)

logger = logging.getLogger(__name__)

MAX_OUTBOX = 64 * 2**20  # bytes that wait to be written, before nothing more is read
MAX_PASSED = 256 * 1024  # bytes that wait to be passed on, before nothing more is read for them
MAX_NOTIFICATIONS = 1_000  # that wait: of those with a key, and of those without
_EACH, _NEWEST = "notification", "newest"  # of notifications: each counts, or the newest of a key
_BOUNDED = (_EACH, _NEWEST)
MAX_TOGETHER = 4 * 1024  # bytes of messages that wait, before they leave in a write of their own
DEFERRAL = 0.005  # seconds that what nobody waits for may wait for something to leave with
FAREWELL = 0.5  # seconds for what is still to be said when the other side says no more

OnSent = Callable[[float], None]  # when a message has left, by the reader's `peer_time`


class _Key(NamedTuple):
    """Identify a waiting message by `kind` and `id`; droppable ones share a `topic`."""

    kind: str
    id: Hashable
    topic: Hashable = None


class ByteReader(Protocol):
    """Where a connection's bytes come from. A class that derives from it owes the first two."""

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    def close(self) -> None:
        """Nothing more is received. Idempotent."""
        ...

    async def deliver(self, take: Callable[[bytes], bool]) -> bool:
        """Give `take` the bytes as they come while it returns True; return False at the end."""
        data = await self.receive()
        if data:
            take(data)
        return bool(data)

    def peer_time(self) -> float:
        """Return the loop's clock in seconds, without the time in which nothing was read."""
        return asyncio.get_running_loop().time()

    def arrived(self) -> float:
        """When what was received last may have come, at the earliest, in `peer_time`."""
        return earliest_arrival()

    async def wait_closed(self) -> None:
        """Wait until the other end stops writing; forever if that cannot be detected."""
        await anyio.sleep_forever()


class WrappedReader(ByteReader):
    """A reader that delegates to another one; subclasses may observe the bytes."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader

    def _overhear(self, data: bytes) -> None:
        """What comes, before whoever reads has it; empty at the end."""

    async def receive(self) -> bytes:
        """The other's next bytes (`ByteReader.receive`)."""
        data = await self._reader.receive()
        self._overhear(data)
        return data

    async def deliver(self, take: Callable[[bytes], bool]) -> bool:
        """In the turn in which the other does (`ByteReader.deliver`)."""

        def overhear(data: bytes) -> bool:
            self._overhear(data)
            return take(data)

        if await self._reader.deliver(overhear):
            return True
        self._overhear(b"")
        return False

    def peer_time(self) -> float:
        """The other's (`ByteReader.peer_time`)."""
        return self._reader.peer_time()

    def arrived(self) -> float:
        """As of the other (`ByteReader.arrived`)."""
        return self._reader.arrived()

    async def wait_closed(self) -> None:
        """As the other's end (`ByteReader.wait_closed`)."""
        await self._reader.wait_closed()

    def close(self) -> None:
        """Close the other (`ByteReader.close`)."""
        self._reader.close()


class ByteWriter(Protocol):
    """Where a connection's bytes go."""

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what fits now and return the number of bytes; OSError if the reader is gone."""
        ...

    async def writable(self) -> None:
        """Returns when something can be written again, or nobody reads any more."""
        ...

    def close(self) -> None:
        """Nothing more is written. Idempotent."""
        ...


class RemoteError(AbpBridgeError):
    """A JSON-RPC error in response to our request; `code` is 0 if it had none."""

    def __init__(self, error: JsonObject, seconds: float) -> None:
        self.error = error
        code = error.get("code")
        self.code = code if isinstance(code, int) else 0
        self.data = error.get("data")
        self.seconds = seconds
        super().__init__(f"{error.get('message') or 'no message'} ({self.code})")


class ConnectionClosedError(AbpBridgeError):
    """The connection ended before the response came."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a request.

    `seconds` is the peer's own time, from our last byte to its first, without time in which this
    process was busy. It is not `exact` if other work may be part of it.
    """

    result: JsonValue
    seconds: float
    exact: bool = True


class JsonRpcConnection:
    """One connection; owns both streams.

    Args:
        on_message: Gets requests and notifications, in order. It must not wait.
        on_protocol_error: Gets each dropped message, for the trace.
        cancel_request: (id of our request, reason) -> (method, params) of its cancellation.
        rejects: Whether a message that cannot be read is answered with an error.

    Attributes:
        feeds: The connection that what comes here is passed on to. While much waits there, nothing
            is read here.
        arrived: When the first byte of the current line came (the reader's `peer_time`).
        coalesced: Number of notifications replaced by a newer one.
        dropped: Number of notifications dropped because the peer did not read.
    """

    def __init__(
        self,
        protocol: JsonRpcProtocol,
        reader: ByteReader,
        writer: ByteWriter,
        *,
        on_message: Callable[[Request | Notification], None],
        on_protocol_error: Callable[[UnmatchedResponse | InvalidMessage], None] = lambda odd: None,
        cancel_request: Callable[[Id, str], tuple[str, JsonValue]] | None = None,
        rejects: bool = True,
    ) -> None:
        self._protocol = protocol
        self._reader = reader
        self._writer = writer
        self._on_message = on_message
        self._on_protocol_error = on_protocol_error
        self._cancel_request = cancel_request
        self._rejects = rejects
        self._waiting: dict[Hashable, _Waiter] = {}  # by the ids of our requests
        self._outbox: OrderedDict[_Key, bytes] = OrderedDict()
        self._tail: bytes | memoryview = b""
        self._on_sent: dict[_Key, OnSent] = {}  # of responses that wait to leave
        self._leaving: OnSent | None = None  # of the message that the tail ends with
        self._queued = 0
        self._notifications: Counter[str] = Counter()  # that wait, by kind
        self._topics: dict[str, dict[Hashable, dict[_Key, None]]] = {each: {} for each in _BOUNDED}
        self._serial = 0
        self._work = anyio.Event()
        self._room: anyio.Event | None = None  # that somebody waits for
        self._timer: asyncio.TimerHandle | None = None
        self._postponed: list[Callable[[], None]] = []
        self._unfinished: float | None = None  # when a line began that has no end yet
        self._closed = False
        self._broken = False  # nothing can be written any more
        self._is_mute = False  # nothing is to be
        self._is_flushing = False  # at the end of this turn
        self.feeds: JsonRpcConnection | None = None
        self.arrived = 0.0
        self.coalesced = 0
        self.dropped = 0

    def lost_notifications(self, *, replaced: int = 0) -> dict[str, int]:
        """Return counts of notifications that never left; `replaced` adds to the coalesced ones."""
        lost = {"replacedByNewer": self.coalesced + replaced, "dropped": self.dropped}
        return lost if any(lost.values()) else {}

    async def run(self, on_end: Callable[[], Awaitable[None]] | None = None) -> None:
        """Carry messages until either stream closes; open requests then fail with
        ConnectionClosedError.

        Args:
            on_end: Runs when the other side says no more, before anything is closed.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_outbox, tasks.cancel_scope)
                await self._read_stream()
                if on_end is not None and not self._broken and not self._closed:
                    await on_end()
                with anyio.move_on_after(0 if self._broken else FAREWELL):
                    await self.sent()
                tasks.cancel_scope.cancel()
        finally:
            self.close()

    def close(self) -> None:
        """Write what fits now and close both streams. Idempotent."""
        if self._closed:
            return
        self._tell_postponed()
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(OSError):
            self._flush()
        for waiter in self._waiting.values():
            waiter.wake()
        for each in (self, self.feeds):
            if each is not None and each._room is not None:
                each._room.set()
                each._room = None
        self._reader.close()
        self._writer.close()

    def end_output(self) -> None:
        """Write what fits now, close the writer, and drop what is said later. Reading continues."""
        with contextlib.suppress(OSError):
            self._flush()
        self._is_mute = True
        self._outbox.clear()
        self._tail, self._queued = b"", 0
        if self._room is not None:
            self._room.set()
        self._writer.close()

    @property
    def queued(self) -> int:
        """How many bytes wait to be written."""
        return self._queued

    async def request(
        self,
        method: str,
        params: JsonValue,
        *,
        reason: str = "no longer needed",
        after: tuple[str, JsonValue] | None = None,
        on_begin: Callable[[Id], object] | None = None,
    ) -> JsonValue:
        """The result of `exchange`, which says more."""
        reply = await self.exchange(method, params, reason=reason, after=after, on_begin=on_begin)
        return reply.result

    async def exchange(
        self,
        method: str,
        params: JsonValue,
        *,
        reason: str | Callable[[], str] | None = "no longer needed",
        after: tuple[str, JsonValue] | None = None,
        on_begin: Callable[[Id], object] | None = None,
        id: Id | None = None,
    ) -> Reply:
        """Send a request and wait for the reply. Cancelling the wait cancels the request.

        Args:
            reason: Sent with the cancellation; None where the request must not be cancelled.
            id: Of the request, if none with it is open.
            after: A notification (method, params) written just before the request.
            on_begin: Gets the request's id.

        Raises:
            RemoteError: The peer answered with an error.
            ConnectionClosedError: The peer is gone.
        """
        if self._closed:
            raise ConnectionClosedError(method)
        if after is not None:
            self.notify(*after, deferred=True)
        id, data = self._protocol.request(method, params, id)
        if on_begin is not None:
            on_begin(id)
        waiter = self._waiting[id] = _Waiter()
        self._enqueue(_Key("request", id), data)
        try:
            await waiter.done
        finally:
            del self._waiting[id]
            if waiter.response is None:
                self._protocol.forget(id)
                self._drop_request(
                    id, reason if reason is None or isinstance(reason, str) else reason()
                )
        if waiter.response is None:
            raise ConnectionClosedError(method)
        seconds = max(0.0, waiter.answered - waiter.sent)
        if waiter.response.error is not None:
            raise RemoteError(waiter.response.error, seconds)
        return Reply(waiter.response.result, seconds)

    def notify(
        self,
        method: str,
        params: JsonValue = None,
        *,
        key: Hashable = None,
        topic: Hashable = None,
        deferred: bool = False,
    ) -> None:
        """Send a notification; beyond `MAX_NOTIFICATIONS` or `MAX_OUTBOX` bytes the oldest is
        dropped.

        Args:
            key: A newer notification with the same key replaces a waiting one.
            topic: The largest topic loses its oldest notification first.
            deferred: Send it with the next message, or after `DEFERRAL`.
        """
        waiting = self._new_key(_EACH, topic) if key is None else _Key(_NEWEST, key, topic)
        self._enqueue(waiting, self._protocol.notify(method, params), deferred=deferred)

    def postpone(self, tell: Callable[[], None]) -> None:
        """Call `tell` at the end of this turn of the loop, after other messages are queued."""
        if not self._postponed:
            asyncio.get_running_loop().call_soon(self._tell_postponed)
        self._postponed.append(tell)

    def _tell_postponed(self) -> None:
        postponed, self._postponed = self._postponed, []
        for tell in postponed:
            tell()

    def respond(self, id: Id, result: JsonValue, on_sent: OnSent | None = None) -> None:
        """Answer request `id`; `on_sent` gets the time at which the last byte left.

        Raises LocalProtocolError if the request was answered already or never received.
        """
        key, data = self._new_key("response"), self._protocol.respond(id, result)
        if on_sent is not None and data:
            self._on_sent[key] = on_sent
        self._enqueue(key, data)

    def respond_error(self, id: Id, code: int, message: str, data: JsonValue = None) -> None:
        """Answer the other side's request `id` with an error; as `respond` otherwise."""
        self._enqueue(
            self._new_key("response"), self._protocol.respond_error(id, code, message, data)
        )

    def send_line(self, line: bytes) -> None:
        """Send a line that somebody else has made, as it is."""
        self._enqueue(self._new_key("line"), line)

    def forward_notification(self, method: str, params: JsonValue) -> None:
        """Pass a notification on, with those of the same turn of the loop.

        None is dropped: who reads them waits (`feeds`).
        """
        self._enqueue(self._new_key("line"), self._protocol.notify(method, params), deferred=True)
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._is_flushing = False
        if self._outbox and not self._tail:
            self._flush_now()

    def forward_error(self, id: Id, error: JsonObject) -> None:
        """Answer request `id` with another peer's error, member by member."""
        self._enqueue(self._new_key("response"), self._protocol.forward_error(id, error))

    def accept_batches(self, accepted: bool) -> None:
        """Whether the other side may send several messages as one from now on."""
        self._protocol.batches = accepted

    def discard_request(self, id: Id) -> None:
        """The request with this id was cancelled by the other side: it gets no answer."""
        self._enqueue(self._new_key("response"), self._protocol.discard_request(id))

    def is_open(self, id: JsonValue) -> bool:
        """Whether a request of the other side's with this id waits for our answer."""
        return self._protocol.is_open(id)

    async def sent(self) -> None:
        """Returns when everything that was to be said is written."""
        await self._until(0)

    async def _read_stream(self) -> None:
        while await self._reader.deliver(self._handle_bytes):
            await self._until(MAX_OUTBOX)
            if self.feeds is not None:
                await self.feeds._until(MAX_PASSED, self)
        if self._unfinished is not None and not self._closed:
            self._handle_bytes(b"\n")  # the last line had no end

    def _handle_bytes(self, data: bytes) -> bool:
        """Act on what came; whether more can be taken before what waits is written."""
        came = self._reader.arrived()
        self.arrived = came if self._unfinished is None else self._unfinished
        for event in self._protocol.receive(data):
            self._dispatch(event)
        self._unfinished = None if data.endswith(b"\n") else came if b"\n" in data else self.arrived
        return self._queued <= MAX_OUTBOX and not self.is_held

    @property
    def is_held(self) -> bool:
        """Whether nothing is read, as much waits to be passed on."""
        feeds = self.feeds
        return feeds is not None and feeds._queued > MAX_PASSED and not feeds._closed

    async def _until(self, size: int, feeder: JsonRpcConnection | None = None) -> None:
        """Wait until no more than `size` bytes are still to be written, or one of both closes."""
        while self._queued > size and not (self._closed or (feeder and feeder._closed)):
            self._room = self._room or anyio.Event()
            await self._room.wait()

    def _dispatch(self, event: IncomingMessage) -> None:
        if isinstance(event, Response):
            waiter = self._waiting[event.id]  # nothing else is a Response
            waiter.response = event
            waiter.answered = self.arrived
            waiter.wake()
        elif isinstance(event, (Request, Notification)):
            self._on_message(event)
        else:
            if isinstance(event, InvalidMessage) and self._rejects:
                self._enqueue(self._new_key("rejected"), event.reply)
            self._on_protocol_error(event)

    def _drop_request(self, id: Id, reason: str | None) -> None:
        unsent = self._outbox.pop(_Key("request", id), None)
        if unsent is not None:  # it never leaves now: nobody needs to know
            self._queued -= len(unsent)
        is_told = self._cancel_request is not None and reason is not None
        if unsent is not None or not is_told or self._closed:
            return
        assert self._cancel_request is not None
        assert reason is not None
        method, params = self._cancel_request(id, reason)
        self._enqueue(_Key("withdraw", id), self._protocol.notify(method, params))

    # --- the outbox ---
    # `_tail` is what is left of the message that has begun to leave, `_outbox` the ones after it.

    def _new_key(self, kind: str, topic: Hashable = None) -> _Key:
        self._serial += 1
        return _Key(kind, self._serial, topic)

    def _enqueue(self, key: _Key, data: bytes, *, deferred: bool = False) -> None:
        if self._closed or self._is_mute or not data:
            return
        if self._postponed:
            self._tell_postponed()
        if not (deferred or self._tail or self._outbox):  # nothing to go after, or with
            self._tail, self._queued = data, len(data)
            self._note_leaving(key)
            self._flush_now()
            return
        if key in self._outbox:
            self.coalesced += 1
            self._queued += len(data) - len(self._outbox[key])
            self._outbox[key] = data
        elif key.kind in _BOUNDED and not self._make_room(key, len(data)):
            self.dropped += 1
        else:
            self._outbox[key] = data
            self._queued += len(data)
            if key.kind in _BOUNDED:
                self._notifications[key.kind] += 1
                self._topics[key.kind].setdefault(key.topic, {})[key] = None
        if self._tail:
            return
        if deferred:
            self._wake_later()
        else:
            self._flush_now()

    def _make_room(self, key: _Key, size: int) -> bool:
        """Drop the oldest notifications, own topic first, until `size` fits; return whether it
        does.
        """
        kind, topics = key.kind, self._topics[key.kind]
        while self._outbox and (
            self._notifications[kind] >= MAX_NOTIFICATIONS or self._queued + size > MAX_OUTBOX
        ):
            topic = topics.get(key.topic) or max(topics.values(), key=len, default=None)
            if topic is None:
                return False
            oldest = next(iter(topic))
            self._queued -= len(self._outbox.pop(oldest))
            self._forget_notification(oldest)
            self.dropped += 1
        return True

    def _forget_notification(self, key: _Key) -> None:
        self._notifications[key.kind] -= 1
        topics = self._topics[key.kind]
        del topics[key.topic][key]
        if not topics[key.topic]:
            del topics[key.topic]

    def _wake_later(self) -> None:
        def wake() -> None:
            self._timer = None
            if self._outbox:  # nothing took it along
                self._flush_now()

        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DEFERRAL, wake)

    def _flush_now(self) -> None:
        try:
            self._flush()
        except OSError:  # nobody reads: the writing task meets the same error, and ends it all
            self._work.set()
        if self._tail:
            self._work.set()

    def _flush(self) -> None:
        """Write what the writer takes now, small messages together. Raises OSError."""
        while self._tail or self._outbox:
            self._tail = self._tail or self._next_to_write()
            written = self._writer.write_nowait(self._tail)
            self._queued -= written
            if written < len(self._tail):
                self._tail = memoryview(self._tail)[written:]
                break
            self._tail = b""
            self._note_sent()
        if self._room is not None:
            self._room.set()
            self._room = None

    def _next_to_write(self) -> bytes:
        # Nothing goes behind a message whose leaving somebody notes: it could be answered first.
        data = b""
        while self._outbox and len(data) < MAX_TOGETHER and self._leaving is None:
            key, more = self._outbox.popitem(last=False)
            if key.kind in _BOUNDED:
                self._forget_notification(key)
            self._note_leaving(key)
            data = data + more if data else more
        return data

    def _note_leaving(self, key: _Key) -> None:
        if key.kind == "request" and (waiter := self._waiting.get(key.id)) is not None:
            self._leaving = waiter.note_sent
        else:
            self._leaving = self._on_sent.pop(key, None)

    def _note_sent(self) -> None:
        if self._leaving is not None:
            self._leaving(self._reader.peer_time())
            self._leaving = None

    async def _write_outbox(self, scope: anyio.CancelScope) -> None:
        try:
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                while self._tail or self._outbox:
                    self._flush()
                    if self._tail:
                        await self._writer.writable()
        except OSError:  # nobody reads there any more: what was said before that still counts
            self._broken = True
            await anyio.sleep(FAREWELL)
            scope.cancel()


def respond_internal_error(connection: JsonRpcConnection, id: Id | None, where: str) -> None:
    """Log the current exception and answer the request with an internal error.

    Args:
        id: The request's id; None if no response is expected.
        where: The request's method.
    """
    problem = sys.exception()
    logger.error("request %.100r (%.100r) failed", id, where, exc_info=problem)
    if problem is not None and id is not None and connection.is_open(id):
        connection.respond_error(id, INTERNAL_ERROR, describe_bug(problem))


class _Waiter:
    """Who waits for a response. It stays even where the wait is cancelled in the same turn."""

    __slots__ = ("answered", "done", "response", "sent")

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.response: Response | None = None
        self.sent = self.answered = math.inf

    def note_sent(self, at: float) -> None:
        self.sent = at

    def wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
