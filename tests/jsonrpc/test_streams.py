"""File descriptors as streams: nothing blocks, nothing else speaks on the wire, and what was shared
is left as it was.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, accept, listen

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")]

PATIENCE = 30.0
SERVE = [sys.executable, "-m", "abp_bridge", "serve"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}},
}


async def everything(source: StreamReader) -> bytes:
    data = b""
    with anyio.fail_after(PATIENCE):
        while piece := await source.receive():
            data += piece
    return data


async def test_a_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)
    os.write(writing, b"hello")
    assert await source.receive() == b"hello"
    os.close(writing)
    assert await everything(source) == b""
    source.close()


def test_what_comes_is_read_by_a_loop_that_always_has_other_work() -> None:
    async def read_at_work() -> bytes:
        reading, writing = os.pipe()
        source, read = StreamReader(reading), list[bytes]()

        async def read_on() -> None:
            read.append(await source.receive())

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_on)
                await anyio.wait_all_tasks_blocked()
                os.write(writing, b"hello")
                while not read:  # noqa: ASYNC110 (a loop that always has work)
                    await asyncio.sleep(0)
        os.close(writing)
        source.close()
        return read[0]

    assert anyio.run(read_at_work, backend_options=OPTIONS) == b"hello"


async def test_a_pipe_that_somebody_made_unblocking_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    source = StreamReader(reading)
    async with anyio.create_task_group() as tasks:
        read: list[bytes] = []

        async def read_on() -> None:
            read.append(await everything(source))

        tasks.start_soon(read_on)
        for word in (b"one ", b"two"):
            await anyio.lowlevel.checkpoint()
            os.write(writing, word)
        os.close(writing)
    assert read == [b"one two"]
    source.close()


async def test_a_wait_that_is_cancelled_as_something_comes_loses_nothing() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)
    for word in (b"one", b"two"):  # first with a new registration, then with the kept one
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(source.receive)
                await anyio.lowlevel.checkpoint()
                os.write(writing, word)
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        assert await source.receive() == word
    os.close(writing)
    source.close()


async def test_what_nobody_waits_for_is_not_read_and_keeps_nobody_busy() -> None:
    class Counted(StreamReader):
        told = 0

        def _on_readable(self) -> None:
            self.told += 1
            super()._on_readable()

    reading, writing = os.pipe()
    source = Counted(reading)
    os.write(writing, b"one")
    assert await source.receive() == b"one"
    os.write(writing, b"two")
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert source.told == 2
    assert os.read(reading, 100) == b"two"
    os.write(writing, b"three")
    assert await source.receive() == b"three"
    os.close(writing)
    source.close()


async def test_bytes_are_delivered_until_whoever_takes_them_pauses() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return data != b"enough"

    async with anyio.create_task_group() as tasks:

        async def deliver() -> None:
            assert await source.deliver(take)
            assert taken == [b"one", b"two", b"enough"]
            os.write(writing, b"more")
            assert await source.receive() == b"more"
            os.close(writing)
            assert not await source.deliver(take)

        tasks.start_soon(deliver)
        for word in (b"one", b"two", b"enough"):
            await anyio.lowlevel.checkpoint()
            os.write(writing, word)
            while taken[-1:] != [word]:
                await anyio.lowlevel.checkpoint()
    source.close()


async def test_a_mistake_in_taking_bytes_is_raised_to_who_delivers_them() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)

    def take(data: bytes) -> bool:
        raise KeyError(data)

    os.write(writing, b"one")
    with pytest.raises(KeyError):
        await source.deliver(take)
    os.close(writing)
    source.close()


async def test_whoever_takes_bytes_may_close_the_stream() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)

    def take(data: bytes) -> bool:
        source.close()
        return True

    os.write(writing, b"one")
    assert not await source.deliver(take)
    assert not await source.deliver(take)
    os.close(writing)


async def test_what_a_cancelled_wait_left_is_delivered_first() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)
    waiting = asyncio.create_task(source.receive())
    await anyio.lowlevel.checkpoint()
    os.write(writing, b"one")
    for _ in range(2):  # until it is read; whoever waited has not heard of it
        await anyio.lowlevel.checkpoint()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    os.write(writing, b"two")
    os.close(writing)
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    while await source.deliver(take):
        pass
    assert taken == [b"one", b"two"]
    source.close()


async def test_a_stream_that_is_closed_here_is_at_its_end() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)
    async with anyio.create_task_group() as tasks:
        read: list[bytes] = []

        async def read_on() -> None:
            read.append(await everything(source))

        tasks.start_soon(read_on)
        await anyio.lowlevel.checkpoint()
        source.close()
    assert read == [b""]
    assert await source.receive() == b""
    os.close(writing)


async def test_only_one_can_wait_for_a_stream() -> None:
    reading, writing = os.pipe()
    source = StreamReader(reading)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.receive)
        await anyio.lowlevel.checkpoint()
        with pytest.raises(anyio.BusyResourceError):
            await source.receive()
        os.close(writing)
    source.close()


async def test_an_accept_that_is_cancelled_as_somebody_connects_is_quiet(tmp_path: Path) -> None:
    bugs: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: bugs.append(context))
    with listen(str(tmp_path / "s")) as listening, socket.socket(socket.AF_UNIX) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(accept, listening)
                await anyio.lowlevel.checkpoint()
                client.connect(str(tmp_path / "s"))
                loop.call_soon(scope.cancel)  # in the turn in which the connection shows
        source, sink = await accept(listening)
        source.close()
        sink.close()
    assert bugs == []


async def test_a_socket_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        listen(str(tmp_path / "none" / "s"))


async def test_two_who_read_the_same_pipe_do_not_block_each_other() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    sources = [StreamReader(reading), StreamReader(os.dup(reading))]
    read: list[bytes] = []
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:

            async def read_one(source: StreamReader) -> None:
                read.append(await source.receive())

            for source in sources:
                tasks.start_soon(read_one, source)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            os.write(writing, b"one")
            while not read:
                await anyio.lowlevel.checkpoint()
            os.close(writing)
    assert sorted(read) == [b"", b"one"]
    for source in sources:
        source.close()


@pytest.mark.parametrize("place", [0, 1], ids=["the program is gone", "the terminal is gone"])
async def test_a_terminal_that_hung_up_is_at_its_end(place: int) -> None:
    ends = os.openpty()
    source = StreamReader(ends[place])
    os.close(ends[1 - place])
    assert await everything(source) == b""
    source.close()


async def test_a_connection_that_broke_is_at_its_end() -> None:
    ours, theirs = socket.socketpair()
    source = StreamReader(os.dup(ours.fileno()))
    ours.send(b"unread")  # closing with something unread resets the connection
    theirs.close()
    assert await everything(source) == b""
    source.close()
    ours.close()


async def test_what_cannot_be_polled_is_read_and_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    sink = StreamWriter(os.open(path, os.O_WRONLY | os.O_CREAT))
    await sink.writable()
    assert sink.write_nowait(b"x" * 1_000_000) == 1_000_000
    sink.close()
    source = StreamReader(os.open(path, os.O_RDONLY))
    assert len(await everything(source)) == 1_000_000
    source.close()
    nothing = StreamReader(os.open(os.devnull, os.O_RDONLY))
    assert await everything(nothing) == b""
    nothing.close()


async def test_a_full_pipe_takes_nothing_until_somebody_reads() -> None:
    reading, writing = os.pipe()
    sink = StreamWriter(writing)
    taken = 0
    while part := sink.write_nowait(b"x" * 100_000):
        taken += part
    assert sink.write_nowait(memoryview(b"x")) == 0
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sink.writable)
            await anyio.lowlevel.checkpoint()
            assert len(os.read(reading, taken)) == taken
    assert sink.write_nowait(b"y") == 1
    sink.close()
    os.close(reading)


async def test_a_pipe_that_nobody_reads_is_broken() -> None:
    reading, writing = os.pipe()
    sink = StreamWriter(writing)
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        sink.write_nowait(b"x")
    sink.close()


async def test_what_others_share_blocks_again_afterwards() -> None:
    reading, writing = os.pipe()
    sink = StreamWriter(os.dup(writing))
    assert not os.get_blocking(writing)
    sink.close()
    assert os.get_blocking(writing)
    os.close(reading)
    os.close(writing)


async def test_who_waits_to_write_to_what_is_closed_here_leaves_its_number_to_the_next() -> None:
    (reading, writing), after = os.pipe(), os.pipe()
    sink = StreamWriter(writing)
    while sink.write_nowait(b"x" * 65536):
        pass
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sink.writable)
            await anyio.lowlevel.checkpoint()
            sink.close()
            other = StreamWriter(os.dup2(after[1], writing))
            await other.writable()
            await sink.writable()
    other.close()
    for fd in (*after, reading):
        os.close(fd)


@pytest.mark.parametrize("end", [StreamReader, StreamWriter])
async def test_closing_twice_closes_nothing_of_others(
    end: type[StreamReader] | type[StreamWriter],
) -> None:
    kept, given = os.pipe() if end is StreamWriter else reversed(os.pipe())
    stream = end(given)
    stream.close()
    other = os.open(os.devnull, os.O_RDONLY)
    assert other == given, "the number that was given back is another's now"
    stream.close()
    os.fstat(other)
    os.close(other)
    os.close(kept)


# --- this process's own stdio, in a process of its own ---


def run(code: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )


def test_after_the_claim_nothing_else_speaks_or_listens_on_the_wire() -> None:
    code = """
import os, sys
from abp_bridge.jsonrpc.streams import take_over_stdio
source, sink = take_over_stdio()
print("a stray print", flush=True)
os.system("echo a stray child")
assert sys.stdin.read() == ""
sink.write_nowait(os.read(source._fd, 100))
"""
    ended = run(code, "for the wire")
    assert ended.stdout == "for the wire"
    assert ended.stderr == "a stray print\na stray child\n"


ALOUD = """
import os, sys, anyio
from abp_bridge.jsonrpc.stderr import Stderr
reading, writing = os.pipe()
os.dup2(writing, 2)
os.close(writing)
"""


def test_words_of_others_pass_as_fast_as_they_are_read_and_what_is_lost_is_said() -> None:
    code = """
async def main():
    aloud = Stderr(limit=200_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(aloud.copy_lines)
        for _ in range(10):
            aloud.say(b"x" * 50_000)
        heard = b""
        while not heard.endswith(b"in time\\n"):
            await anyio.wait_readable(reading)
            heard += os.read(reading, 65536)
        words, _, lost = heard.partition(b"abp-bridge: ")
        assert 200_000 <= len(words) < 500_000, len(words)
        assert len(words) + int(lost.split()[0]) == 500_000, lost
        aloud.say(b"again")
        await anyio.wait_readable(reading)
        assert os.read(reading, 100) == b"again"
        tasks.cancel_scope.cancel()
    print("done")
anyio.run(main)
"""
    assert run(ALOUD + code).stdout == "done\n"


def test_words_that_nobody_will_ever_read_keep_nobody_busy() -> None:
    code = """
os.close(reading)
class Counted(Stderr):
    flushes = 0
    def flush(self):
        self.flushes += 1
        super().flush()
async def main():
    aloud = Counted()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(aloud.copy_lines)
        aloud.say(b"hello")
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert aloud.flushes < 10, aloud.flushes
    print("done")
anyio.run(main)
"""
    assert run(ALOUD + code).stdout == "done\n"


def test_words_that_nobody_reads_at_the_end_are_counted_in_the_log() -> None:
    code = """
import logging
async def main():
    aloud, records = Stderr(), []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("abp_bridge").addHandler(handler)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(aloud.copy_lines)
        aloud.say(b"x" * 300_000)
        heard = len(os.read(reading, 100_000))
        tasks.cancel_scope.cancel()
        await aloud.aclose()
    os.set_blocking(reading, False)
    while True:
        try:
            heard += len(os.read(reading, 100_000))
        except BlockingIOError:
            break
    (said,) = records
    assert heard + int(said.split()[0]) == 300_000, (heard, said)
    print("done")
anyio.run(main)
"""
    assert run(ALOUD + code).stdout == "done\n"


def test_the_words_that_wait_are_read_to_their_end_while_it_closes() -> None:
    code = """
async def main():
    aloud = Stderr(limit=200_000)
    heard = b""
    async def read():
        nonlocal heard
        while not heard.endswith(b"in time\\n"):
            await anyio.wait_readable(reading)
            heard += os.read(reading, 65536)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(aloud.copy_lines)
        aloud.say(b"x" * 190_000)
        aloud.say(b"x" * 190_000)
        tasks.start_soon(read)
        await aloud.aclose()
    assert heard.startswith(b"x" * 190_000 + b"abp-bridge: 190000 bytes"), heard[-100:]
    print("done")
anyio.run(main)
"""
    assert run(ALOUD + code).stdout == "done\n"


def test_words_for_a_terminal_that_nobody_reads_hold_nobody_up() -> None:
    code = """
import pty
from abp_bridge.log import configure
async def main():
    configure()
    _, terminal = pty.openpty()
    os.dup2(terminal, 2)
    aloud = Stderr()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(aloud.copy_lines)
        aloud.say(b"x" * 100_000)
        await aloud.aclose()
    print("done")
anyio.run(main)
"""
    assert run(ALOUD + code).stdout == "done\n"


def test_words_that_nobody_will_ever_read_are_counted_in_the_log() -> None:
    code = """
import logging
os.close(reading)
async def main():
    aloud, records = Stderr(), []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("abp_bridge").addHandler(handler)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(aloud.copy_lines)
        aloud.say(b"x" * 1000)
        aloud.say(b"x" * 234)
        await aloud.aclose()
    assert records == ["1234 bytes of the agent's stderr were not read in time"], records
    print("done")
anyio.run(main)
"""
    assert run(ALOUD + code).stdout == "done\n"


def test_words_of_others_can_go_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        code = (
            "import anyio; from abp_bridge.jsonrpc.stderr import Stderr\n"
            "async def main(): Stderr().say(b'hello')\n"
            "anyio.run(main)"
        )
        subprocess.run([sys.executable, "-c", code], stderr=log, timeout=PATIENCE, check=True)
    assert (tmp_path / "log").read_bytes() == b"hello"


def test_a_host_that_offers_nothing_to_read_is_served_and_done() -> None:
    ended = subprocess.run(
        SERVE, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_file_can_be_the_host(tmp_path: Path) -> None:
    said, answered = tmp_path / "said", tmp_path / "answered"
    said.write_text(f"{json.dumps(HELLO)}\n")
    with said.open() as stdin, answered.open("w") as stdout:
        ended = subprocess.run(
            SERVE, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, b"")
    (answer,) = [json.loads(line) for line in answered.read_text().splitlines()]
    assert (answer["id"], answer["result"]["protocolVersion"]) == (1, "2025-11-25")


@pytest.mark.anyio
async def test_anothers_words_are_marked_and_revealed_as_they_come(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from abp_bridge.jsonrpc.stderr import Stderr

    aloud = Stderr(prefix=b"[x] ")
    pieces = (b"a\r", b"\nb\r", b"c\xc3", b"\xa4\n\x1b[2J")
    for piece in pieces:
        aloud.say(piece)
    aloud.flush()
    assert capfd.readouterr().err.replace("\r\n", "\n") == "[x] a\n[x] b\\rcä\n[x] \\u001b[2J"
