"""Children: spoken to over pipes, never in the way, and surely ended with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from abp_bridge.jsonrpc import subprocess as process_module
from abp_bridge.jsonrpc.subprocess import STDERR_LINES, Child, spawn

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")]

PATIENCE = 30.0
BEFORE = os.environ.get("TMPDIR")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def line(child: Child) -> str:
    """Its next line; a bound so that no child can hold the tests."""
    data = b""
    with anyio.fail_after(PATIENCE):
        while not data.endswith(b"\n"):
            piece = await child.stdout.receive()
            assert piece, f"it ended: {child.ending}"
            data += piece
    return data.decode().strip()


async def ends(watched: int) -> None:
    """Wait until a process that `os.pidfd_open` watches has ended, whoever is to reap it."""
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(watched)
    os.close(watched)


@pytest.mark.usefixtures("patient")
async def test_a_child_hears_and_answers_and_ends_with_its_stdin() -> None:
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


async def test_a_child_gets_its_environment_and_folder(tmp_path: Path) -> None:
    code = "import os; print(os.environ['WORD'], os.getcwd(), flush=True)"
    async with spawn(python(code), env={"WORD": "hello"}, cwd=str(tmp_path)) as child:
        assert await line(child) == f"hello {tmp_path}"


async def test_a_child_has_nothing_of_what_was_set_for_a_browsers_driver(
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
    """A child that ends by itself has the time for it, also on a busy machine."""
    monkeypatch.setattr(process_module, "GRACE", 2.0)


@pytest.mark.usefixtures("impatient")
async def test_a_child_that_hears_nothing_is_killed() -> None:
    async with spawn(python(DEAF)) as child:
        assert await line(child) == "ready"
    assert child.process.returncode == -signal.SIGKILL
    assert child.ending == "signal 9"


@pytest.mark.usefixtures("patient")
async def test_a_child_that_only_ignores_the_end_of_its_stdin_is_told_to_end() -> None:
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
async def test_what_a_child_started_ends_with_it_however_well_it_ends_itself() -> None:
    async with spawn(python(FAMILY)) as child:
        grandchild = os.pidfd_open(int(await line(child)))
    assert child.process.returncode == 0
    await ends(grandchild)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
async def test_what_a_child_started_does_not_outlive_us_even_when_we_are_killed() -> None:
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


async def test_a_child_whose_guardian_was_ended_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "GUARDIAN", ("/bin/sh", "-c", "exit 1"))
    async with spawn(python("print('hello', flush=True)")) as child:
        assert await line(child) == "hello"


async def test_a_flood_of_complaints_does_not_hold_a_child_and_is_not_kept() -> None:
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
    "half a line": ("sys.stderr.write('one\\nNo fo')", "No fo"),
    "no text": ("sys.stderr.buffer.write(b'\\xff\\n')", "\ufffd"),
    "no end of a line": (
        "sys.stderr.write('x' * 1_000_000)",
        "x" * 300 + " … [700 more characters not shown]",
    ),
}


@pytest.mark.parametrize(("said", "kept"), LAST_WORDS.values(), ids=LAST_WORDS)
async def test_the_last_words_of_a_child_are_kept(said: str, kept: str) -> None:
    async with spawn(python(f"import sys; {said}; sys.exit(7)")) as child:
        with anyio.fail_after(PATIENCE):
            await child.process.wait()
            await child.heard.wait()
        assert child.ending == f"exit code 7; its last words: {kept}"


def _open_files() -> set[str]:
    return set(os.listdir("/dev/fd"))


async def test_a_childs_last_words_hold_no_secret_of_its_command() -> None:
    script = 'echo "bad key: $2" >&2; exit 1'
    async with spawn(["sh", "-c", script, "server", "--api-key", "hunter2"]) as child:
        await child.process.wait()
        await child.heard.wait()
    assert child.ending == "exit code 1; its last words: bad key: …"


async def test_a_secret_where_a_program_belongs_is_not_said() -> None:
    with pytest.raises(FileNotFoundError, match="there is no program 'API_KEY=…'"):
        async with spawn(["API_KEY=hunter2", "server"]):
            pytest.fail("it started")


async def test_a_program_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(
        FileNotFoundError, match="there is no program 'no-such-program' on this machine's PATH"
    ):
        async with spawn(["no-such-program", "-x"]):
            pytest.fail("it started")


async def test_a_child_that_cannot_be_started_leaves_nothing_open(tmp_path: Path) -> None:
    async with spawn(python("")):
        pass  # what asyncio opens once for all children is open now
    before = _open_files()
    with pytest.raises(FileNotFoundError):
        async with spawn(python(""), cwd=str(tmp_path / "nowhere")):
            pytest.fail("it started")
    assert _open_files() == before


async def test_a_child_leaves_nothing_open() -> None:
    async with spawn(python("")):
        pass
    before = _open_files()
    async with spawn(python("print('hello', flush=True)")) as child:
        await line(child)
    assert _open_files() == before


@pytest.mark.usefixtures("patient")
async def test_what_goes_wrong_meanwhile_is_raised_and_the_child_ends() -> None:
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


async def test_what_went_wrong_is_known_however_late_the_child_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "GRACE", 0.0)  # by then nobody has seen it end
    with pytest.RaisesGroup(ZeroDivisionError):
        async with spawn(python(DEAF)) as child:
            assert await line(child) == "ready"
            raise ZeroDivisionError
