"""File descriptors as streams that do not block, and stderr."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from abp_bridge.jsonrpc import stderr as stderr_module
from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.stderr import Stderr
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, accept, listen

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot poll pipes")

PATIENCE = 30.0


async def everything(source: StreamReader) -> bytes:
    data = b""
    with anyio.fail_after(PATIENCE):
        while piece := await source.receive():
            data += piece
    return data


class Pipe:
    """A pipe whose reading end is a stream."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        self.source = StreamReader(self.reading)

    def write(self, data: bytes) -> None:
        os.write(self._writing, data)

    def end(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    def close(self) -> None:
        self.end()
        self.source.close()


@pytest.fixture
async def pipe() -> AsyncIterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_pipe_is_read_by_a_busy_loop() -> None:
    async def read_at_work() -> bytes:
        pipe, read = Pipe(), list[bytes]()

        async def read_on() -> None:
            read.append(await pipe.source.receive())

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_on)
                await anyio.wait_all_tasks_blocked()
                pipe.write(b"hello")
                while not read:  # noqa: ASYNC110 (a loop that always has work)
                    await asyncio.sleep(0)
        pipe.close()
        return read[0]

    assert anyio.run(read_at_work, backend_options=OPTIONS) == b"hello"


async def test_cancelled_receive_loses_no_bytes(pipe: Pipe) -> None:
    for word in (b"one", b"two"):  # first with a new registration, then with the kept one
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pipe.source.receive)
                await anyio.lowlevel.checkpoint()
                pipe.write(word)
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        assert await pipe.source.receive() == word


async def test_bytes_without_a_receiver_are_not_read() -> None:
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


async def test_deliver_until_the_callback_pauses(pipe: Pipe) -> None:
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return data != b"enough"

    async with anyio.create_task_group() as tasks:

        async def deliver() -> None:
            assert await pipe.source.deliver(take)
            assert taken == [b"one", b"two", b"enough"]
            pipe.write(b"more")
            assert await pipe.source.receive() == b"more"
            pipe.end()
            assert not await pipe.source.deliver(take)

        tasks.start_soon(deliver)
        for word in (b"one", b"two", b"enough"):
            await anyio.lowlevel.checkpoint()
            pipe.write(word)
            while taken[-1:] != [word]:
                await anyio.lowlevel.checkpoint()


async def test_deliver_raises_an_exception_of_the_callback(pipe: Pipe) -> None:

    def take(data: bytes) -> bool:
        raise KeyError(data)

    pipe.write(b"one")
    with pytest.raises(KeyError):
        await pipe.source.deliver(take)


async def test_deliver_callback_may_close_the_stream(pipe: Pipe) -> None:

    def take(data: bytes) -> bool:
        pipe.source.close()
        return True

    pipe.write(b"one")
    assert not await pipe.source.deliver(take)
    assert not await pipe.source.deliver(take)


async def test_deliver_begins_with_the_bytes_of_a_cancelled_receive(pipe: Pipe) -> None:
    waiting = asyncio.create_task(pipe.source.receive())
    await anyio.lowlevel.checkpoint()
    pipe.write(b"one")
    for _ in range(2):  # until it is read; whoever waited has not heard of it
        await anyio.lowlevel.checkpoint()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pipe.write(b"two")
    pipe.end()
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    while await pipe.source.deliver(take):
        pass
    assert taken == [b"one", b"two"]


async def test_closed_stream_is_at_its_end(pipe: Pipe) -> None:
    async with anyio.create_task_group() as tasks:
        read: list[bytes] = []

        async def read_on() -> None:
            read.append(await everything(pipe.source))

        tasks.start_soon(read_on)
        await anyio.lowlevel.checkpoint()
        pipe.source.close()
    assert read == [b""]
    assert await pipe.source.receive() == b""


async def test_second_receive_of_a_stream_is_refused(pipe: Pipe) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipe.source.receive)
        await anyio.lowlevel.checkpoint()
        with pytest.raises(anyio.BusyResourceError):
            await pipe.source.receive()
        pipe.end()


async def test_cancelled_accept_keeps_the_connection(tmp_path: Path) -> None:
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


async def test_listen_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        listen(str(tmp_path / "none" / "s"))


async def test_two_readers_of_a_pipe_do_not_block_each_other() -> None:
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
async def test_closed_terminal_is_at_its_end(place: int) -> None:
    ends = os.openpty()
    source = StreamReader(ends[place])
    os.close(ends[1 - place])
    assert await everything(source) == b""
    source.close()


async def test_reset_socket_is_at_its_end() -> None:
    ours, theirs = socket.socketpair()
    source = StreamReader(os.dup(ours.fileno()))
    ours.send(b"unread")  # closing with something unread resets the connection
    theirs.close()
    assert await everything(source) == b""
    source.close()
    ours.close()


async def test_file_is_read_and_written(tmp_path: Path) -> None:
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


async def test_full_pipe_is_writable_after_a_read() -> None:
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


async def test_closed_stream_leaves_a_shared_descriptor_blocking() -> None:
    reading, writing = os.pipe()
    sink = StreamWriter(os.dup(writing))
    assert not os.get_blocking(writing)
    sink.close()
    assert os.get_blocking(writing)
    os.close(reading)
    os.close(writing)


async def test_closed_descriptor_number_can_be_used_again_by_a_writer() -> None:
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
async def test_closing_twice_closes_no_other_descriptor(
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


# --- this process's own stdio ---------------------------------------------------------------------


def run(code: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )


@pytest.mark.process
def test_stdio_taken_over_is_not_used_by_prints_and_children() -> None:
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


@pytest.mark.process
def test_serve_with_files_as_stdin_and_stdout(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    said, answered = tmp_path / "said", tmp_path / "answered"
    said.write_text(f"{json.dumps(message)}\n")
    serve = [sys.executable, "-m", "abp_bridge", "serve"]
    with said.open() as stdin, answered.open("w") as stdout:
        ended = subprocess.run(
            serve, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, b"")
    (answer,) = [json.loads(line) for line in answered.read_text().splitlines()]
    assert (answer["id"], answer["result"]["protocolVersion"]) == (1, "2025-11-25")


@contextmanager
def stderr_to(fd: int) -> Iterator[None]:
    """Send this process's stderr to a descriptor."""
    kept = os.dup(2)
    os.dup2(fd, 2)
    os.close(fd)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@asynccontextmanager
async def copying(aloud: type[Stderr] = Stderr, **more: Any) -> AsyncIterator[tuple[Stderr, int]]:
    """Copy to a pipe that is this process's stderr; yield its reading end too."""
    reading, writing = os.pipe()
    with stderr_to(writing), anyio.fail_after(PATIENCE):
        stderr = aloud(**more)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stderr.copy_lines)
            yield stderr, reading
            tasks.cancel_scope.cancel()
    with suppress(OSError):  # the test may have closed it
        os.close(reading)


async def read_notice(reading: int) -> bytes:
    """Read up to the notice of what was lost."""
    heard = b""
    while not heard.endswith(b"in time\n"):
        await anyio.wait_readable(reading)
        heard += os.read(reading, 65536)
    return heard


async def test_stderr_copies_what_is_read_and_reports_what_is_lost() -> None:
    async with copying(limit=200_000) as (stderr, reading):
        for _ in range(10):
            stderr.say(b"x" * 50_000)
        words, _, lost = (await read_notice(reading)).partition(b"abp-bridge: ")
        assert 200_000 <= len(words) < 500_000
        assert len(words) + int(lost.split()[0]) == 500_000
        stderr.say(b"again")
        await anyio.wait_readable(reading)
        assert os.read(reading, 100) == b"again"


async def test_stderr_without_a_reader_is_not_tried_again() -> None:
    flushes: list[bool] = []

    class Counted(Stderr):
        def flush(self) -> None:
            flushes.append(True)
            super().flush()

    async with copying(Counted) as (stderr, reading):
        os.close(reading)
        stderr.say(b"hello")
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
    assert len(flushes) < 10


@pytest.mark.parametrize("read", [100_000, 0], ids=["a slow reader", "no reader"])
async def test_stderr_that_is_not_read_at_the_end_is_counted_in_the_log(
    read: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stderr_module, "LAST_WORDS", 0.01)
    async with copying() as (stderr, reading):
        if not read:
            os.close(reading)
        stderr.say(b"x" * 300_000)
        heard = len(os.read(reading, read)) if read else 0
        await stderr.aclose()
        if read:
            os.set_blocking(reading, False)
            with suppress(BlockingIOError):
                while piece := os.read(reading, read):
                    heard += len(piece)
    (said,) = caplog.messages
    assert said == f"{300_000 - heard} bytes of the agent's stderr were not read in time"


async def test_stderr_is_read_to_its_end_while_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr_module, "LAST_WORDS", PATIENCE)
    heard: list[bytes] = []

    async def read() -> None:
        heard.append(await read_notice(reading))

    async with copying(limit=200_000) as (stderr, reading), anyio.create_task_group() as tasks:
        stderr.say(b"x" * 190_000)
        stderr.say(b"x" * 190_000)
        tasks.start_soon(read)
        await stderr.aclose()
    assert heard[0].startswith(b"x" * 190_000 + b"abp-bridge: 190000 bytes")


@pytest.mark.process
def test_stderr_on_a_terminal_that_is_not_read_does_not_block() -> None:
    code = """
import anyio, os, pty
from abp_bridge.jsonrpc.stderr import Stderr
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
    assert run(code).stdout == "done\n"


async def test_stderr_can_be_a_file(tmp_path: Path) -> None:
    with stderr_to(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)):
        Stderr().say(b"hello")
    assert (tmp_path / "log").read_bytes() == b"hello"


async def test_stderr_of_another_program_is_prefixed_and_shows_control_characters(
    capfd: pytest.CaptureFixture[str],
) -> None:
    aloud = Stderr(prefix=b"[x] ")
    for piece in (b"a\r", b"\nb\r", b"c\xc3", b"\xa4\n\x1b[2J"):
        aloud.say(piece)
    aloud.flush()
    assert capfd.readouterr().err.replace("\r\n", "\n") == "[x] a\n[x] b\\rcä\n[x] \\u001b[2J"
