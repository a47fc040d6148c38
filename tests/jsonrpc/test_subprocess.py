"""Child processes: their pipes, their stderr, and how they and their children end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import anyio
import pytest

from abp_bridge.jsonrpc import subprocess as process_module
from abp_bridge.jsonrpc.subprocess import STDERR_LINES, Child, spawn

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups"),
]

PATIENCE = 30.0
BEFORE = os.environ.get("TMPDIR")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def line(child: Child) -> str:
    """Read the next line of a child."""
    data = b""
    with anyio.fail_after(PATIENCE):
        while not data.endswith(b"\n"):
            piece = await child.stdout.receive()
            assert piece, f"it ended: {child.ending}"
            data += piece
    return data.decode().strip()


async def ends(watched: int) -> None:
    """Wait until a process has exited, by its pidfd."""
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(watched)
    os.close(watched)


@pytest.mark.usefixtures("patient")
async def test_child_exits_when_its_stdin_closes() -> None:
    async with spawn(
        python(
            "import sys\nfor line in sys.stdin: print(line.strip().upper(),"
            " flush=True)\nsys.exit(3)"
        )
    ) as child:
        assert child.ending == "still running"
        for word in ("hello", "again"):
            assert child.stdin.write_nowait(f"{word}\n".encode()) == len(word) + 1
            assert await line(child) == word.upper()
    assert child.process.returncode == 3
    assert child.ending == "exit code 3"


async def test_child_environment_without_the_browser_driver_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", "/of/a/browser")
    monkeypatch.setenv("WORD", "hello")
    code = "import os; print(os.environ['WORD'], os.environ.get('TMPDIR'), flush=True)"
    async with spawn(python(code)) as child:
        assert await line(child) == f"hello {BEFORE}"


DEAF = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready',"
    " flush=True)\nwhile True: time.sleep(60)"
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACE", 0.05)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a child time to exit, also on a busy machine."""
    monkeypatch.setattr(process_module, "GRACE", 2.0)


@pytest.mark.usefixtures("impatient")
async def test_child_that_ignores_sigterm_is_killed() -> None:
    async with spawn(python(DEAF)) as child:
        assert await line(child) == "ready"
    assert child.process.returncode == -signal.SIGKILL
    assert child.ending == "signal 9"


@pytest.mark.usefixtures("impatient")
async def test_child_that_ignores_its_stdin_gets_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    kill = os.killpg

    def kill_patiently(group: int, sign: int) -> None:
        monkeypatch.setattr(process_module, "GRACE", PATIENCE)
        kill(group, sign)

    monkeypatch.setattr(os, "killpg", kill_patiently)
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_:"
        " sys.exit(5))\nprint('ready', flush=True)\nwhile True: time.sleep(60)"
    )
    async with spawn(python(code)) as child:
        assert await line(child) == "ready"
    assert child.process.returncode == 5


FAMILY = f"""
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", {DEAF!r}], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
@pytest.mark.usefixtures("patient")
async def test_grandchild_ends_with_the_child() -> None:
    async with spawn(python(FAMILY)) as child:
        grandchild = os.pidfd_open(int(await line(child)))
    assert child.process.returncode == 0
    await ends(grandchild)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
async def test_children_end_when_the_bridge_is_killed() -> None:
    code = f"""
import anyio
from abp_bridge.jsonrpc.subprocess import spawn
async def main():
    async with spawn({python(FAMILY)!r}) as child:
        grandchild = await child.stdout.receive()
        print(child.process.pid, grandchild.decode(), flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    with subprocess.Popen(python(code), stdout=subprocess.PIPE) as parent:  # noqa: ASYNC220
        assert parent.stdout is not None
        family = [os.pidfd_open(int(each)) for each in parent.stdout.readline().split()]
        parent.kill()
    for each in family:
        await ends(each)


async def test_child_runs_without_its_guardian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GUARDIAN", ("/bin/sh", "-c", "exit 1"))
    async with spawn(python("print('hello', flush=True)")) as child:
        assert await line(child) == "hello"


async def test_child_stderr_flood_is_read_and_bounded() -> None:
    code = (
        "import sys\nfor n in range(1_000): sys.stderr.write(f'{n} ' + 'x' * 10_000 +"
        " '\\n')\nprint('done', flush=True)"
    )
    async with spawn(python(code)) as child:
        assert await line(child) == "done"
        with anyio.fail_after(PATIENCE):
            await child.heard.wait()
        assert len(child.last_words) == STDERR_LINES
        assert child.last_words[-1].startswith("999 ")
        assert all(len(words) <= 1_000 for words in child.last_words)


LAST_WORDS = {
    "a line": ("sys.stderr.write('one\\n\\n  No font.\\n')", "No font."),
    "no end of a line": (
        "sys.stderr.write('x' * 1_000_000)",
        "x" * 300 + " … [700 more characters not shown]",
    ),
}


@pytest.mark.parametrize(("said", "kept"), LAST_WORDS.values(), ids=LAST_WORDS)
async def test_child_ending_has_its_last_stderr_line(said: str, kept: str) -> None:
    async with spawn(python(f"import sys; {said}; sys.exit(7)")) as child:
        with anyio.fail_after(PATIENCE):
            await child.process.wait()
            await child.heard.wait()
        assert child.ending == f"exit code 7; its last words: {kept}"


def _open_files() -> set[str]:
    return set(os.listdir("/dev/fd"))


async def test_child_ending_without_secrets_of_the_command() -> None:
    script = 'echo "bad key: $2" >&2; exit 1'
    async with spawn(["sh", "-c", script, "server", "--api-key", "hunter2"]) as child:
        await child.process.wait()
        await child.heard.wait()
    assert child.ending == "exit code 1; its last words: bad key: …"


async def test_missing_program_error_without_secrets() -> None:
    with pytest.raises(FileNotFoundError, match="there is no program 'API_KEY=…'"):
        async with spawn(["API_KEY=hunter2", "server"]):
            pytest.fail("it started")


async def test_missing_program_is_an_error() -> None:
    with pytest.raises(
        FileNotFoundError, match="there is no program 'no-such-program' on this machine's PATH"
    ):
        async with spawn(["no-such-program", "-x"]):
            pytest.fail("it started")


async def test_child_leaves_no_descriptor_open() -> None:
    async with spawn(python("")):
        pass
    before = _open_files()
    async with spawn(python("print('hello', flush=True)")) as child:
        await line(child)
    assert _open_files() == before


@pytest.mark.usefixtures("patient")
async def test_exception_in_the_block_ends_the_child_and_is_raised() -> None:
    children = []

    async def fail() -> None:
        code = "import sys; print('up', flush=True); sys.stdin.read()"
        async with spawn(python(code)) as child:
            children.append(child)
            assert await line(child) == "up"
            raise KeyError("bug")

    with pytest.raises(ExceptionGroup) as caught:
        await fail()
    assert isinstance(caught.value.exceptions[0], KeyError)
    assert children[0].process.returncode == 0
