"""A connection in motion: waiting for answers, taking questions back, and an outbox that a stuck
reader cannot fill.
"""

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
    Reply,
)
from abp_bridge.jsonrpc.protocol import (
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
)
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter

pytestmark = pytest.mark.anyio

Json = Any
PATIENCE = 10.0


class Source(ByteReader):
    """What the other side wrote."""

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
    """A reader that takes as much as it has room for. `room` of None is no end of it."""

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
    """A link and the other side of it."""

    def __init__(
        self, *, room: int | None = None, takes_back: bool = True, shared: bool = False
    ) -> None:
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
            shared=shared,
        )

    async def run(self) -> None:
        await self.link.run()
        self.ended.set()


@asynccontextmanager
async def running(**more: Any) -> AsyncIterator[Ends]:
    """A running link. It must end by itself when the other side ends."""
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


async def until(done: Callable[[], object]) -> None:
    """Let the others work until it is so."""
    while not done():
        await anyio.lowlevel.checkpoint()


async def test_a_request_waits_for_its_answer() -> None:
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
    "with a code that is none": ({"code": "x", "message": "no"}, 0, "no (0)"),
}


@pytest.mark.parametrize(("error", "code", "words"), ERRORS.values(), ids=ERRORS)
async def test_an_error_is_raised(error: Json, code: int, words: str) -> None:
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


async def test_what_the_other_side_says_arrives_in_order() -> None:
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


async def test_a_request_that_was_cancelled_by_them_gets_no_answer() -> None:
    async with running() as ends:
        ends.source.say(id=1, method="ask")
        await until(lambda: ends.messages)
        ends.link.discard_request(1)
        assert not ends.link.is_open(1)
    assert ends.sink.messages == []


async def test_a_wait_that_is_cancelled_takes_the_request_back() -> None:
    async with running() as ends:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends.link.request, "ask", {})
                await until(lambda: ends.sink.messages)
                scope.cancel()
        assert ends.sink.messages[1] == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "abp-1", "reason": "no longer needed"},
        }
        ends.source.say(id="abp-1", result="too late")
        await until(lambda: ends.odd)
        assert ends.odd == [UnmatchedResponse("abp-1")]


async def test_an_answer_that_came_first_is_not_taken_back() -> None:
    async with running() as ends:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends.link.request, "ask", {})
                await until(lambda: ends.sink.messages)
                ends.source.say(id="abp-1", result=1)
                await until(lambda: not ends.peer.waiting)
                scope.cancel()
    assert ends.sink.methods == ["ask"]


@pytest.mark.parametrize("takes_back", [True, False], ids=["with a word for it", "without"])
async def test_a_request_that_never_left_is_not_sent_any_more(takes_back: bool) -> None:
    async with running(room=0, takes_back=takes_back) as ends:
        ends.link.notify("first")  # the reader is stuck with this one
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends.link.request, "delete everything", {})
                await until(lambda: ends.peer.waiting)
                scope.cancel()
        ends.sink.make_room()
        ends.link.notify("last")
    assert ends.sink.methods == ["first", "last"]


async def test_an_answer_to_a_request_that_has_not_left_yet_ends_nothing_else() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")  # the reader is stuck with this one
        ends.source.say(id="abp-1", result="guessed")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.link.request, "ask", {})
        ends.sink.make_room()
        ends.link.notify("last")
    assert ends.sink.methods == ["first", "ask", "last"]


@pytest.mark.parametrize("stuck", [False, True], ids=["one write", "behind what waits"])
async def test_what_goes_before_a_request_is_read_before_it(stuck: bool) -> None:
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


async def test_what_nobody_waits_for_leaves_in_one_write_with_what_comes_next() -> None:
    async with running() as ends:
        ends.link.notify("ended", deferred=True)
        assert ends.sink.methods == []
        ends.link.notify("news")
        assert ends.sink.methods == ["ended", "news"]
        assert ends.sink.writes == 1


async def test_what_nobody_waits_for_leaves_before_somebody_elses_words() -> None:
    async with running(shared=True) as ends:
        ends.link.notify("ended", deferred=True)
        assert ends.sink.methods == ["ended"]


async def test_what_nobody_waits_for_leaves_though_nothing_comes_next() -> None:
    async with running() as ends:
        for name in ("ended", "ended too"):
            ends.link.notify(name, deferred=True)
        await until(lambda: ends.sink.writes)
        assert ends.sink.methods == ["ended", "ended too"]
        ends.link.notify("a third", deferred=True)
        await until(lambda: ends.sink.writes == 2)


async def test_what_nobody_waits_for_leaves_before_the_end() -> None:
    ends = Ends()
    ends.link.notify("ended", deferred=True)
    ends.link.close()
    assert ends.sink.methods == ["ended"]


async def test_what_is_postponed_is_made_after_what_somebody_waits_for() -> None:
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


async def test_what_is_postponed_leaves_before_the_end() -> None:
    ends = Ends()
    ends.link.postpone(partial(ends.link.notify, "ended", deferred=True))
    ends.link.close()
    assert ends.sink.methods == ["ended"]


async def test_nothing_is_postponed_that_somebody_elses_words_could_overtake() -> None:
    async with running(shared=True) as ends:
        ends.link.postpone(partial(ends.link.notify, "ended", deferred=True))
        assert ends.sink.methods == ["ended"]


async def test_a_request_that_has_begun_to_leave_is_taken_back() -> None:
    async with running(room=5) as ends:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends.link.request, "ask", {})
                await until(lambda: ends.sink.written)
                scope.cancel()
    assert ends.sink.methods == ["ask", "notifications/cancelled"]


async def test_without_a_word_for_it_nothing_is_taken_back() -> None:
    async with running(takes_back=False) as ends:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends.link.request, "ask", {})
                await until(lambda: ends.sink.messages)
                scope.cancel()
    assert ends.sink.methods == ["ask"]


async def test_when_the_other_side_ends_every_wait_ends() -> None:
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


async def test_what_is_still_to_be_said_is_said_when_the_other_side_stops_talking() -> None:
    async with running(room=3) as ends:
        for n in range(5):
            ends.link.notify("n", {"n": n})
        ends.source.end()
        await until(lambda: ends.source.asked == 1 and ends.sink.written)
        ends.sink.make_room()
        await ends.ended.wait()
    assert [message["params"]["n"] for message in ends.sink.messages] == [0, 1, 2, 3, 4]


async def test_a_reader_that_is_stuck_at_the_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "FAREWELL", 0.01)
    async with running(room=0) as ends:
        ends.link.notify("n")
        ends.source.end()
        await ends.ended.wait()
    assert ends.sink.messages == []


@pytest.mark.parametrize("stuck", [False, True], ids=["at once", "while it waits"])
async def test_a_reader_that_is_gone_ends_the_connection(stuck: bool) -> None:
    async with running(room=0 if stuck else None) as ends:
        if stuck:
            ends.link.notify("before")
            await anyio.lowlevel.checkpoint()
        ends.sink.break_down()
        with pytest.raises(ConnectionClosedError):
            await ends.link.request("ask", {})
        await ends.ended.wait()


async def test_what_was_said_before_the_reader_went_counts() -> None:
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


async def test_a_mistake_in_taking_a_message_ends_the_connection_and_every_wait() -> None:
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


async def test_a_connection_that_is_cancelled_says_nothing_of_it_and_keeps_no_descriptor() -> None:
    """However far it is: before a byte, in the turn in which bytes come, and after."""
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
async def test_a_connection_that_is_closed_here_ends_though_nobody_reads(turns: int) -> None:
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


async def test_several_can_wait_for_what_is_to_be_said() -> None:
    sent: list[int] = []

    async def wait(number: int) -> None:
        await ends.link.sent()
        sent.append(number)

    async with running(room=0) as ends, anyio.create_task_group() as tasks:
        ends.link.notify("n")
        for number in range(2):
            tasks.start_soon(wait, number)
        await until(lambda: ends.link._queued)
        await anyio.lowlevel.checkpoint()
        ends.sink.make_room()
    assert sent == [0, 1]


async def test_of_what_is_said_about_the_same_thing_a_stuck_reader_sees_the_newest() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")
        for n in range(10_000):
            ends.link.notify("progress", {"n": n}, key=("progress", 1))
            ends.link.notify("progress", {"n": -n}, key=("progress", 2))
        assert ends.link.coalesced == 19_998
        assert ends.link.dropped == 0
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == 3)
    assert [message["params"]["n"] for message in ends.sink.messages[1:]] == [9_999, -9_999]


async def test_of_what_has_no_key_the_oldest_are_dropped_beyond_a_bound_and_counted() -> None:
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


async def test_a_run_gives_way_before_what_came_earlier() -> None:
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


async def test_more_keys_than_the_bound_are_dropped_and_counted() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")
        for n in range(MAX_NOTIFICATIONS + 50):
            ends.link.notify("state", {"n": n}, key=("state", n))
        assert ends.link.dropped == 50
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == MAX_NOTIFICATIONS + 1)


async def test_large_notifications_are_dropped_before_they_fill_the_outbox(
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


async def test_answers_and_requests_are_never_dropped() -> None:
    async with running(room=0) as ends:
        for n in range(MAX_NOTIFICATIONS + 50):
            ends.link.notify("log", {"n": n})
        for n in range(2_000):
            ends.source.say(id=n, method="ask")
            if n % 50 == 0:
                await until(lambda n=n: len(ends.messages) > n)  # type: ignore[misc]
        await until(lambda: len(ends.messages) == 2_000)
        for n in range(2_000):
            if n % 2:
                ends.link.respond(n, n)
            else:
                ends.link.respond_error(n, -1, "no")
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == MAX_NOTIFICATIONS + 1 + 2_000)
        answered = [message["id"] for message in ends.sink.messages if "id" in message]
    assert answered == list(range(2_000))


async def test_two_answers_under_one_id_are_two_answers() -> None:
    async with running(room=0) as ends:
        ends.link.notify("first")
        for n in (1, 2):  # the second asks again before it has read the first answer
            ends.source.say(id=7, method="ask")
            await until(lambda n=n: len(ends.messages) == n)  # type: ignore[misc]
            ends.link.respond(7, n)
        ends.sink.make_room()
        await until(lambda: len(ends.sink.messages) == 3)
    assert [message["result"] for message in ends.sink.messages[1:]] == [1, 2]


async def test_messages_stay_whole_however_little_is_taken() -> None:
    async with running(room=0) as ends:
        sent = [{"n": "é" * n} for n in range(30)]
        for params in sent:
            ends.link.notify("n", params)
        while len(ends.sink.messages) < len(sent):
            ends.sink.make_room(7)
            await anyio.lowlevel.checkpoint()
        assert [message["params"] for message in ends.sink.messages] == sent


async def test_a_response_has_left_though_what_waits_behind_it_has_not() -> None:
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


async def test_the_time_of_a_reply_is_known_whatever_waits_behind_its_request() -> None:
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await ends.link.exchange("ask", {}))

    async with running(room=0) as ends:
        ends.link.notify("first")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.lowlevel.checkpoint()
            ends.link.notify("behind", {"it": "x" * 100})
            while len(ends.sink.messages) < 2:
                ends.sink.make_room(1)
                await anyio.lowlevel.checkpoint()
            ends.source.say(id=ends.sink.messages[1]["id"], result="yes")
    assert replies[0].result == "yes"
    assert replies[0].seconds > 0.0


async def test_nothing_more_is_read_from_somebody_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
def test_the_time_of_an_answer_ends_with_its_first_byte(ended: str) -> None:
    """However slowly the rest of its line comes, and after whatever line it begins."""
    took: list[float] = []

    async def ask(ends: Ends) -> None:
        try:
            took.append((await ends.link.exchange("ask", {})).seconds)
        except RemoteError as problem:
            took.append(problem.seconds)

    async def play() -> None:
        async with running() as ends, anyio.create_task_group() as tasks:
            tasks.start_soon(ask, ends)
            await anyio.sleep(1)
            id = ends.sink.messages[0]["id"]
            ends.source.write(b'{"jsonrpc": "2.0", "method": "tell"}\n{"jsonrpc": ')
            await anyio.sleep(2)
            ends.source.write(f'"2.0", "id": "{id}", '.encode())
            await anyio.sleep(3)
            ends.source.write(f"{ended}\n".encode())

    anyio.run(play, backend_options={"loop_factory": VirtualLoop})
    assert [round(each) for each in took] == [1]
