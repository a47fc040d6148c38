"""A connection: answers, cancelled requests, and an outbox that a slow reader cannot fill."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from simulation.virtual_loop import VirtualLoop

from abp_bridge.jsonrpc import connection as link_module
from abp_bridge.jsonrpc.connection import (
    MAX_NOTIFICATIONS,
    ByteReader,
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
)
from abp_bridge.jsonrpc.protocol import (
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
)
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter

Json = Any
PATIENCE = 10.0


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """No test waits for real time to pass."""
    return "asyncio", {"loop_factory": VirtualLoop}


class Source(ByteReader):
    """What the peer writes."""

    def __init__(self) -> None:
        self._put, self._got = anyio.create_memory_object_stream[bytes](100)
        self.closed = False
        self.asked = 0

    def say(self, **message: Json) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self._put.send_nowait(data)

    def end(self) -> None:
        self.write(b"")

    async def receive(self) -> bytes:
        self.asked += 1
        return await self._got.receive()

    def close(self) -> None:
        self.closed = True
        self._put.close()
        self._got.close()


class Sink:
    """A reader that takes `room` bytes; None for any number."""

    def __init__(self, room: int | None = None) -> None:
        self.written = bytearray()
        self.writes = 0
        self.broken = False
        self.closed = False
        self._room = room
        self._changed = anyio.Event()

    @property
    def messages(self) -> list[Json]:
        """The whole lines so far."""
        return [json.loads(line) for line in bytes(self.written).split(b"\n")[:-1]]

    @property
    def methods(self) -> list[Json]:
        return [message.get("method") for message in self.messages]

    def make_room(self, room: int | None = None) -> None:
        self._room = room
        self._changed.set()

    def break_down(self) -> None:
        self.broken = True
        self._changed.set()

    def write_nowait(self, data: bytes | memoryview) -> int:
        if self.broken:
            raise BrokenPipeError
        self.writes += 1
        taken = bytes(data) if self._room is None else bytes(data[: self._room])
        self.written += taken
        if self._room is not None:
            self._room -= len(taken)
        return len(taken)

    async def writable(self) -> None:
        while self._room == 0 and not self.broken:
            self._changed = anyio.Event()
            await self._changed.wait()

    def close(self) -> None:
        self.closed = True


def withdraw(id: Json, reason: str) -> tuple[str, Json]:
    return "notifications/cancelled", {"requestId": id, "reason": reason}


class Ends:
    """A connection and its peer."""

    def __init__(self, *, room: int | None = None, takes_back: bool = True) -> None:
        self.source, self.sink = Source(), Sink(room)
        self.messages: list[Request | Notification] = []
        self.odd: list[UnmatchedResponse | InvalidMessage] = []
        self.ended = anyio.Event()
        self.peer = JsonRpcProtocol()
        self.link = JsonRpcConnection(
            self.peer,
            self.source,
            self.sink,
            on_message=self.messages.append,
            on_protocol_error=self.odd.append,
            cancel_request=withdraw if takes_back else None,
        )

    async def run(self) -> None:
        await self.link.run()
        self.ended.set()


@asynccontextmanager
async def running(**more: Any) -> AsyncIterator[Ends]:
    """Run a connection, which must end when its peer ends."""
    ends = Ends(**more)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.run)
            yield ends
            if not ends.source.closed:
                ends.source.end()
            ends.sink.make_room()
    assert ends.source.closed
    assert ends.sink.closed


@asynccontextmanager
async def cancelled_request(ends: Ends) -> AsyncIterator[None]:
    """Send a request and cancel the wait for its answer at the end."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.link.request, "ask", {})
            yield
            scope.cancel()


async def until(done: Callable[[], object]) -> None:
    """Let other tasks run until `done`."""
    while not done():
        await anyio.lowlevel.checkpoint()


async def test_request_returns_its_own_answer() -> None:
    async with running() as ends:
        async with anyio.create_task_group() as tasks:
            answers: list[Json] = []

            async def ask(n: int) -> None:
                answers.append(await ends.link.request("a", {"n": n}))

            tasks.start_soon(ask, 1)
            tasks.start_soon(ask, 2)
            await until(lambda: len(ends.sink.messages) == 2)
            ends.source.say(id="abp-2", result="second")
            ends.source.say(id="abp-1", result="first")
        assert answers == ["second", "first"]
        assert ends.sink.messages[0] == {
            "jsonrpc": "2.0",
            "id": "abp-1",
            "method": "a",
            "params": {"n": 1},
        }


ERRORS: dict[str, tuple[Json, int, str]] = {
    "in full": (
        {"code": -32601, "message": "no such thing", "data": {"a": 1}},
        -32601,
        "no such thing (-32601)",
    ),
    "without a message": ({"code": 5}, 5, "no message (5)"),
    "with an invalid code": ({"code": "x", "message": "no"}, 0, "no (0)"),
}


@pytest.mark.parametrize(("error", "code", "words"), ERRORS.values(), ids=ERRORS)
async def test_request_raises_the_error_of_its_answer(error: Json, code: int, words: str) -> None:
    async with running() as ends, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(RemoteError) as caught:
                await ends.link.request("a", {})
            assert (caught.value.code, str(caught.value), caught.value.data) == (
                code,
                words,
                error.get("data"),
            )

        tasks.start_soon(ask)
        await until(lambda: ends.sink.messages)
        ends.source.say(id="abp-1", error=error)


async def test_received_messages_arrive_in_order() -> None:
    async with running() as ends:
        ends.source.say(id=1, method="ask")
        ends.source.write(b"garbage\n")
        ends.source.say(id=9, result=1)
        ends.source.say(method="tell")
        await until(lambda: len(ends.messages) == 2)
        assert ends.messages == [Request(1, "ask", None), Notification("tell", None)]
        rejected, stray = ends.odd
        assert isinstance(rejected, InvalidMessage)
        assert stray == UnmatchedResponse(9)
        assert ends.link.is_open(1)
        ends.link.respond(1, {"ok": True})
        assert not ends.link.is_open(1)
        error, answer = ends.sink.messages
        assert error["error"]["code"] == -32700
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"ok": True}}


async def test_discarded_request_gets_no_answer() -> None:
    async with running() as ends:
        ends.source.say(id=1, method="ask")
        await until(lambda: ends.messages)
        ends.link.discard_request(1)
        assert not ends.link.is_open(1)
    assert ends.sink.messages == []


async def test_cancelled_request_is_cancelled_at_the_peer() -> None:
    async with running() as ends:
        async with cancelled_request(ends):
            await until(lambda: ends.sink.messages)
        assert ends.sink.messages[1] == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "abp-1", "reason": "no longer needed"},
        }
        ends.source.say(id="abp-1", result="too late")
        await until(lambda: ends.odd)
        assert ends.odd == [UnmatchedResponse("abp-1")]


async def test_answered_request_is_not_cancelled_at_the_peer() -> None:
    async with running() as ends, cancelled_request(ends):
        await until(lambda: ends.sink.messages)
        ends.source.say(id="abp-1", result=1)
        await until(lambda: not ends.peer.waiting)
    assert ends.sink.methods == ["ask"]


@pytest.mark.parametrize("takes_back", [True, False], ids=["with a word for it", "without"])
async def test_cancelled_request_that_was_not_sent_is_dropped(takes_back: bool) -> None:
    async with running(room=0, takes_back=takes_back) as ends:
        ends.link.notify("first")  # the reader is stuck with this one
        async with cancelled_request(ends):
            await until(lambda: ends.peer.waiting)
        ends.sink.make_room()
        ends.link.notify("last")
    assert ends.sink.methods == ["first", "last"]


async def test_answer_to_an_unsent_request_ends_only_its_wait() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")  # the reader is stuck with this one
        ends.source.say(id="abp-1", result="guessed")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.link.request, "ask", {})
        ends.sink.make_room()
        ends.link.notify("last")
    assert ends.sink.methods == ["first", "ask", "last"]


@pytest.mark.parametrize("stuck", [False, True], ids=["one write", "behind what waits"])
async def test_notification_before_a_request_is_sent_first(stuck: bool) -> None:
    async with running(room=0 if stuck else None) as ends:
        if stuck:
            ends.link.notify("first")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                ask = partial(ends.link.request, "ask", {}, after=("news", {"of": "it"}))
                tasks.start_soon(ask)
                await until(lambda: ends.peer.waiting)
                ends.sink.make_room()
                await until(lambda: "ask" in ends.sink.methods)
                scope.cancel()
    expected = ["news", "ask", "notifications/cancelled"]
    assert ends.sink.methods == (["first", *expected] if stuck else expected)
    assert stuck or ends.sink.writes == 2


async def test_deferred_notification_is_sent_with_the_next_message() -> None:
    async with running() as ends:
        ends.link.notify("ended", deferred=True)
        assert ends.sink.methods == []
        ends.link.notify("news")
        assert ends.sink.methods == ["ended", "news"]
        assert ends.sink.writes == 1


async def test_forwarded_notifications_of_one_turn_are_sent_together() -> None:
    async with running() as ends:
        for name in ("a", "b"):
            ends.link.forward_notification(name, None)
        await until(lambda: ends.sink.writes)
        assert (ends.sink.methods, ends.sink.writes) == (["a", "b"], 1)
        ends.link.forward_notification("c", None)
        ends.link.notify("d")
        assert ends.sink.methods == ["a", "b", "c", "d"]


async def test_connection_without_output_is_still_read() -> None:
    async with running(room=0) as ends:
        ends.link.notify("never sent")
        ends.link.end_output()
        ends.link.notify("too late")
        await ends.link.sent()
        ends.source.say(method="heard")
        await until(lambda: ends.messages)
        assert (ends.sink.closed, ends.sink.methods) == (True, [])


async def test_deferred_notification_is_sent_without_a_next_message() -> None:
    async with running() as ends:
        for name in ("ended", "ended too"):
            ends.link.notify(name, deferred=True)
        await until(lambda: ends.sink.writes)
        assert ends.sink.methods == ["ended", "ended too"]
        ends.link.notify("a third", deferred=True)
        await until(lambda: ends.sink.writes == 2)


async def test_postponed_message_is_made_after_others_are_sent() -> None:
    made: list[str] = []
    async with running() as ends:

        def tell() -> None:
            made.append("ended")
            ends.link.notify("ended", deferred=True)

        ends.link.postpone(tell)
        assert not made
        await until(lambda: ends.sink.writes)
        assert ends.sink.methods == made == ["ended"]
        ends.link.postpone(tell)
        ends.link.notify("news")
        assert ends.sink.methods == ["ended", "ended", "news"]
        assert ends.sink.writes == 2
    assert len(made) == 2


async def test_half_sent_request_is_completed_and_cancelled() -> None:
    async with running(room=5) as ends, cancelled_request(ends):
        await until(lambda: ends.sink.written)
    assert ends.sink.methods == ["ask", "notifications/cancelled"]


async def test_peer_disconnected_ends_every_request() -> None:
    async with running() as ends:
        async with anyio.create_task_group() as tasks:
            closed: list[str] = []

            async def ask(method: str) -> None:
                with pytest.raises(ConnectionClosedError, match=method):
                    await ends.link.request(method, {})
                closed.append(method)

            for method in ("a", "b"):
                tasks.start_soon(ask, method)
            await until(lambda: len(ends.sink.messages) == 2)
            ends.source.end()
        assert closed == ["a", "b"]
        await ends.ended.wait()
        with pytest.raises(ConnectionClosedError, match="after"):
            await ends.link.request("after", {})
        ends.link.notify("nobody hears it")
        ends.link.close()
    assert ends.sink.methods == ["a", "b"], "nothing is taken back from somebody who is gone"


async def test_peer_that_stopped_writing_is_still_sent_the_outbox() -> None:
    async with running(room=3) as ends:
        for n in range(5):
            ends.link.notify("n", {"n": n})
        ends.source.end()
        await until(lambda: ends.source.asked == 1 and ends.sink.written)
        ends.sink.make_room()
        await ends.ended.wait()
    assert [message["params"]["n"] for message in ends.sink.messages] == [0, 1, 2, 3, 4]


async def test_peer_that_stopped_reading_is_not_waited_for() -> None:
    async with running(room=0) as ends:
        ends.link.notify("n")
        ends.source.end()
        await ends.ended.wait()
    assert ends.sink.messages == []


@pytest.mark.parametrize("stuck", [False, True], ids=["at once", "while it waits"])
async def test_broken_pipe_ends_the_connection(stuck: bool) -> None:
    async with running(room=0 if stuck else None) as ends:
        if stuck:
            ends.link.notify("before")
            await anyio.lowlevel.checkpoint()
        ends.sink.break_down()
        with pytest.raises(ConnectionClosedError):
            await ends.link.request("ask", {})
        await ends.ended.wait()


async def test_answer_after_a_broken_pipe_counts() -> None:
    async with running() as ends:
        answers: list[Json] = []

        async def ask() -> None:
            answers.append(await ends.link.request("ask", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: ends.sink.messages)
            ends.sink.break_down()
            ends.link.notify("nobody reads it")
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            ends.source.say(id="abp-1", result={"success": True})
            ends.source.end()
        assert answers == [{"success": True}]
        await ends.ended.wait()


async def test_exception_in_a_message_handler_ends_the_connection() -> None:
    source, sink = Source(), Sink()

    def refuse(message: object) -> None:
        raise KeyError("bug")

    link = JsonRpcConnection(JsonRpcProtocol(), source, sink, on_message=refuse)
    source.write(b"garbage\n")
    source.say(method="tell")
    with anyio.fail_after(PATIENCE), pytest.raises(ExceptionGroup) as caught:
        await link.run()
    assert isinstance(caught.value.exceptions[0], KeyError)
    assert source.closed
    assert sink.closed


async def test_cancelled_connection_closes_its_descriptors_silently() -> None:
    """Before a byte, in the turn in which bytes come, and after."""
    heard: list[int] = []
    for turns in range(12):
        ours, theirs = os.pipe(), os.pipe()
        bugs: list[object] = []
        loop: Any = asyncio.get_running_loop()
        loop.call_exception_handler = bugs.append
        messages: list[Request | Notification] = []
        connection = JsonRpcConnection(
            JsonRpcProtocol(),
            StreamReader(ours[0]),
            StreamWriter(theirs[1]),
            on_message=messages.append,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            with anyio.move_on_after(PATIENCE):
                tasks.start_soon(connection.request, "ask", {})
                for turn in range(turns):
                    if turn == 3:
                        os.write(ours[1], b'{"jsonrpc":"2.0","method":"tell"}\n')
                        os.write(ours[1], b'{"jsonrpc":"2.0","id":"abp-1","result":1}\n')
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert bugs == []
        heard.append(len(messages))
        for fd in (ours[0], theirs[1]):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)
        os.close(ours[1])
        os.close(theirs[0])
    assert (heard[0], heard[-1]) == (0, 1)


@pytest.mark.parametrize("turns", [0, 5], ids=["at once", "while it waits"])
async def test_closed_connection_ends_with_an_unread_outbox(turns: int) -> None:
    ours, theirs = os.pipe(), os.pipe()
    connection = JsonRpcConnection(
        JsonRpcProtocol(),
        StreamReader(ours[0]),
        StreamWriter(theirs[1]),
        on_message=lambda message: None,
    )
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            connection.notify("long", {"words": "x" * 1_000_000})
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            connection.close()
    os.close(ours[1])
    os.close(theirs[0])


# --- a reader that does not read ---


async def test_slow_reader_gets_the_newest_notification_of_a_key() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")
        for n in range(1_000):
            ends.link.notify("progress", {"n": n}, key=("progress", 1))
            ends.link.notify("progress", {"n": -n}, key=("progress", 2))
        assert ends.link.coalesced == 1_998
        assert ends.link.dropped == 0
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == 3)
    assert [message["params"]["n"] for message in ends.sink.messages[1:]] == [999, -999]


async def test_oldest_notifications_beyond_the_limit_are_dropped_and_counted() -> None:
    async with running(room=0) as ends:
        for n in range(MAX_NOTIFICATIONS + 51):  # the first is already with the reader
            ends.link.notify("log", {"n": n})
        ends.link.notify("state", {"n": "newest"}, key="state")
        assert (ends.link.dropped, ends.link.coalesced) == (50, 0)
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == MAX_NOTIFICATIONS + 2)
        assert ends.sink.messages[-1]["params"] == {"n": "newest"}
        numbers = [message["params"]["n"] for message in ends.sink.messages[:-1]]
        assert numbers == [0, *range(51, MAX_NOTIFICATIONS + 51)]
        ends.link.notify("log", {"n": "again"})
        await until(lambda: len(ends.sink.messages) == MAX_NOTIFICATIONS + 3)
        assert ends.link.dropped == 50


async def test_notifications_of_the_longest_topic_are_dropped_first() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")
        ends.link.notify("log", {"n": "alarm"}, topic="alarm")
        for n in range(2 * MAX_NOTIFICATIONS):
            ends.link.notify("log", {"n": n}, topic="tick")
        ends.link.notify("log", {"n": "bell"}, topic="bell")
        assert ends.link.dropped == MAX_NOTIFICATIONS + 2
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == MAX_NOTIFICATIONS + 1)
    numbers = [message["params"]["n"] for message in ends.sink.messages[1:]]
    ticks = range(MAX_NOTIFICATIONS + 2, 2 * MAX_NOTIFICATIONS)
    assert numbers == ["alarm", *ticks, "bell"]


async def test_large_notifications_are_dropped_before_the_outbox_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "MAX_OUTBOX", 5_000)
    async with running(room=0) as ends:
        for n in range(10):
            ends.link.notify("log", {"n": n, "text": "x" * 1_000})
        assert ends.link.dropped == 6
        ends.source.say(id=1, method="ask")
        await until(lambda: ends.messages)
        ends.link.respond(1, "y" * 5_000)
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == 5)
    assert [message.get("id") for message in ends.sink.messages] == [None, None, None, None, 1]


async def test_responses_are_never_dropped() -> None:
    async with running(room=0) as ends:
        for n in range(MAX_NOTIFICATIONS + 50):
            ends.link.notify("log", {"n": n})
        for n in range(200):
            ends.source.say(id=n, method="ask")
            if n % 50 == 0:
                await until(lambda n=n: len(ends.messages) > n)  # type: ignore[misc]
        await until(lambda: len(ends.messages) == 200)
        for n in range(200):
            if n % 2:
                ends.link.respond(n, n)
            else:
                ends.link.respond_error(n, -1, "no")
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == MAX_NOTIFICATIONS + 1 + 200)
        answered = [message["id"] for message in ends.sink.messages if "id" in message]
    assert answered == list(range(200))


async def test_messages_stay_whole_in_short_writes() -> None:
    async with running(room=0) as ends:
        sent = [{"n": "é" * n} for n in range(30)]
        for params in sent:
            ends.link.notify("n", params)
        while len(ends.sink.messages) < len(sent):
            ends.sink.make_room(7)
            await anyio.lowlevel.checkpoint()
        assert [message["params"] for message in ends.sink.messages] == sent


async def test_response_is_reported_sent_before_what_follows_it() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")
        ends.source.say(id=1, method="ask")
        await until(lambda: ends.messages)
        sent: list[float] = []
        ends.link.respond(1, "an answer", sent.append)
        ends.link.notify("behind", {"it": "x" * 100})
        while len(ends.sink.messages) < 2:
            assert sent == []
            ends.sink.make_room(1)
            await anyio.lowlevel.checkpoint()
        assert len(sent) == 1


async def test_full_outbox_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MAX_OUTBOX", 200)
    async with running(room=0) as ends:
        ends.source.write(b"garbage\n" * 50)
        ends.source.say(method="tell")
        await until(lambda: len(ends.odd) == 50)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert (ends.source.asked, ends.messages) == (1, [])
        ends.sink.make_room()
        await until(lambda: ends.messages)
        assert len(ends.sink.messages) == 50, "every line that was no message has its error"


@pytest.mark.parametrize("ended", ['"result": 1}', '"error": {"code": -32800, "message": "no"}}'])
async def test_reply_time_ends_with_the_first_byte_of_the_reply(ended: str) -> None:
    took: list[float] = []

    async def ask() -> None:
        try:
            took.append((await ends.link.exchange("ask", {})).seconds)
        except RemoteError as problem:
            took.append(problem.seconds)

    async with running() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.sleep(1)
        id = ends.sink.messages[0]["id"]
        ends.source.write(b'{"jsonrpc": "2.0", "method": "tell"}\n{"jsonrpc": ')
        await anyio.sleep(2)
        ends.source.write(f'"2.0", "id": "{id}", '.encode())
        await anyio.sleep(3)
        ends.source.write(f"{ended}\n".encode())
    assert [round(each) for each in took] == [1]
