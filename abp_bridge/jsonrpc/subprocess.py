"""A child process on pipes, in its own process group.

A guardian process ends the group if this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import Process

from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter

MAX_LINE = 4_096  # bytes that are kept of a line
STDERR_LINES = 20  # the last ones, in the error of a child that ended: more no one reads
GRACE = 0.3  # seconds to leave in after stdin closed, and again after SIGTERM
# It reads the group, and then a line for as long as the pipe's other end lives: where none comes,
# nobody else is left to end that group.
GUARDIAN = ("/bin/sh", "-c", 'read -r group && { read -r word || kill -s KILL -- "-$group"; }')


class Child:
    """A running child of a `command`."""

    def __init__(
        self,
        process: Process,
        source: StreamReader,
        sink: StreamWriter,
        overhear: Callable[[bytes], None],
        command: Sequence[str] = (),
    ) -> None:
        self.process = process
        self.stdout = source
        self.stdin = sink
        self._said: deque[bytes] = deque(maxlen=STDERR_LINES)
        self.heard = anyio.Event()  # its stderr has ended
        self._overhear = overhear
        self._command = command

    @property
    def exit(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if code is None:
            return "still running"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    @property
    def ending(self) -> str:
        """How it ended and what it said last, for an error message."""
        words = self.last_words
        last = f"; its last words: {label(words[-1], 300)}" if words else ""
        return f"{self.exit}{last}"

    @property
    def last_words(self) -> list[str]:
        """Return the last lines of its stderr without its command's secrets, each at most 1,000
        characters.
        """
        from abp_bridge.core.redact.command import find_secrets, hide

        secrets = find_secrets(self._command)
        lines = [line.decode(errors="replace").strip() for line in self._said]
        return [hide(line, secrets)[:1_000] for line in lines]

    async def listen(self) -> None:
        """Drain its stderr, so that it never blocks on it; only the last lines are kept."""
        assert self.process.stderr is not None
        rest = b""
        async for data in self.process.stderr:
            self._overhear(data)
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:MAX_LINE]  # the beginning of a long line says more than its end
            self._said.extend(line[:MAX_LINE] for line in lines if line.strip())
        if rest.strip():
            self._said.append(rest)
        self.heard.set()


# With it a program answers in the person's place, or acts in their name: no child is given it.
PRIVATE = frozenset({"ABP_MCP_TOKEN", "ABP_MODEL_KEY", "ABP_QUESTIONS_PASSWORD"})

# What apps/browser changes in our own environment, as Playwright's driver has it from there.
_CHANGED = ("DEBUG", "DEBUGP", "TMPDIR")
_UNCHANGED = {name: os.environ[name] for name in _CHANGED if name in os.environ}


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `environ` without `PRIVATE` and without our changes for Playwright's driver."""
    given = {name: value for name, value in environ.items() if name not in PRIVATE}
    if environ is not os.environ:
        return given
    return {name: given[name] for name in given if name not in _CHANGED} | _UNCHANGED


@asynccontextmanager
async def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    overhear: Callable[[bytes], None] = lambda data: None,
) -> AsyncIterator[Child]:
    """Run `command` while the block lasts; `overhear` gets its stderr. Raises OSError.

    On the way out its stdin is closed, then its group gets SIGTERM and after `GRACE` seconds
    SIGKILL.
    """
    if shutil.which(command[0]) is None:
        raise _missing_program(command[0])
    async with _guardian() as tell:
        given = child_environment() if env is None else env
        child = await _start_child(command, given, cwd, overhear)
        tell(f"{child.process.pid}\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.listen)
            try:
                yield child
            finally:
                with anyio.CancelScope(shield=True):
                    await _end_child(child)
                tasks.cancel_scope.cancel()
                # Else a wait for its end would be cancelled too, and what went wrong be lost.
                with anyio.CancelScope(shield=True):
                    await child.process.aclose()


def _missing_program(program: str) -> OSError:
    from abp_bridge.core.redact.command import clean_target

    name = clean_target(program)
    if os.path.dirname(program) and os.path.isfile(program):
        return PermissionError(f"{name!r} is a file that may not be run as a program")
    return FileNotFoundError(f"there is no program {name!r} on this machine's PATH")


async def _start_child(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    overhear: Callable[[bytes], None],
) -> Child:
    child_in, our_out = os.pipe()
    our_in, child_out = os.pipe()
    source, sink = StreamReader(our_in), StreamWriter(our_out)
    try:
        process = await anyio.open_process(
            command, stdin=child_in, stdout=child_out, env=env, cwd=cwd, start_new_session=True
        )
    except BaseException:
        source.close()
        sink.close()
        raise
    finally:
        os.close(child_in)
        os.close(child_out)
    return Child(process, source, sink, overhear, command)


@asynccontextmanager
async def _guardian() -> AsyncIterator[Callable[[str], None]]:
    """Somebody who outlives this process: what it is told first is the group that it ends then."""
    source, sink = os.pipe()

    def tell(words: str) -> None:
        with contextlib.suppress(OSError):  # it has been ended by somebody
            os.write(sink, words.encode())

    try:
        process = await anyio.open_process(
            GUARDIAN,
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
    except BaseException:
        os.close(sink)
        raise
    finally:
        os.close(source)
    try:
        yield tell
    finally:
        tell("\n")
        os.close(sink)
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def _end_child(child: Child) -> None:
    child.stdin.close()
    with anyio.move_on_after(GRACE):
        await child.process.wait()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        # The group may outlive its leader: it is signalled even when the leader has ended well.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, sign)
        with anyio.move_on_after(GRACE):
            await child.process.wait()
            if not _group_lives(child.process.pid):
                break
    child.stdout.close()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
