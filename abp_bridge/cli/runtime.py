"""What commands share at run time: printing, signals and errors. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn

from abp_bridge.core.sanitize import reveal, reveal_json

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus


WRONG_USAGE = 2  # the exit code of a command that was not understood
# Windows has no hang-up.
SIGNALS = (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM))
_PLAIN = str.maketrans("─│◀▶·…⏎", "-|<>..>")


# --- stdout ---------------------------------------------------------------------------------------


def print_text(words: str) -> None:
    """Write `words` to stdout, with plainer signs for those that its encoding lacks."""
    encoding = stdout_encoding()
    try:
        words.encode(encoding)
    except UnicodeEncodeError:
        words = words.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    _write(words)


def print_json(text: str) -> None:
    """Write JSON to stdout, or lines of it (`shown_json`)."""
    _write(shown_json(text))


def shown_json(text: str) -> str:
    """The same JSON in letters that stdout has; what would not be seen there is an escape too."""
    text = reveal_json(text)
    try:
        text.encode(stdout_encoding())
    except UnicodeEncodeError:  # what is no ASCII stands in texts alone
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    return text


def stdout_encoding() -> str:
    """That of stdout; of one that keeps letters, and has none, an encoding that has them all."""
    return sys.stdout.encoding or "utf-8"


def _write(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()


# --- the end --------------------------------------------------------------------------------------


def complain(problem: object, command: str = "") -> int:
    """Say in one line what is wrong. Returns the exit code of a command that was not understood."""
    with contextlib.suppress(OSError):
        said = reveal(str(problem))
        sys.stderr.write(f"abp-bridge{f' {command}' if command else ''}: {said}\n")
    return WRONG_USAGE


class UsageExit(SystemExit):
    """The end of a process that cannot do what was asked for; `reason` has been said on stderr."""

    def __init__(self, reason: str) -> None:
        super().__init__(WRONG_USAGE)
        self.reason = reason


def give_up(problem: object) -> NoReturn:
    """End the process: what was asked for cannot be done."""
    complain(problem)
    raise UsageExit(str(problem))


def discard_stdout() -> None:
    """Nobody reads: nothing is left to be said at the end either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# --- signals --------------------------------------------------------------------------------------


@asynccontextmanager
async def signals_interrupt(on_signal: Callable[[int], object]) -> AsyncIterator[None]:
    """Call `on_signal` with each signal's number, as some hosts send several.

    Python delivers signals to the main thread: in another one this does nothing.
    """
    import anyio

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    async def watch(*, task_status: TaskStatus[None]) -> None:
        try:
            with anyio.open_signal_receiver(*SIGNALS) as received:
                task_status.started()
                try:
                    async for number in received:
                        on_signal(number)
                finally:
                    # Everything has ended; Python would speak of a late one on stderr.
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        except KeyboardInterrupt:
            pass  # another thread was sent one just as the receiver went
        finally:  # by being cancelled, as a rule
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    async with anyio.create_task_group() as signals:
        await signals.start(watch)
        yield
        signals.cancel_scope.cancel()


async def run_until_signal(work: Callable[[TaskGroup], Awaitable[int]]) -> int:
    """A signal ends everything at once, and quietly. Returns the exit code."""
    import anyio

    caught: list[int] = []
    code = 0
    working = anyio.CancelScope()

    def on_signal(number: int) -> None:
        caught.append(number)
        working.cancel()

    async with signals_interrupt(on_signal), anyio.create_task_group() as tasks:
        with working:
            code = await work(tasks)
        tasks.cancel_scope.cancel()
    return 128 + caught[0] if caught else code
