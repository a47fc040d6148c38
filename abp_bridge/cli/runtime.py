"""What commands share at run time: the settings they were given, the log, signals, standard streams
and how a command gives up. Knows no command, and imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from abp_bridge.core.sanitize import reveal
from abp_bridge.errors import AbpBridgeError
from abp_bridge.settings import (
    TABLE,
    Setting,
    Settings,
    read_settings,
    read_values,
    warn_of_misspelt,
)
from abp_bridge.settings.values import read_duration

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup, TaskStatus


WRONG_USAGE = 2  # the exit code of a command that was not understood
# Windows has no hang-up.
SIGNALS = (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM))


# --- settings -------------------------------------------------------------------------------------


def add_setting_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Give `parser` the options of the settings that this command takes."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for name, row in TABLE.items():
        if row.flag and command in row.commands:
            if row.group not in groups:
                groups[row.group] = parser.add_argument_group(row.group)
            group, arguments = groups[row.group], _arguments(row)
            group.add_argument(
                row.flag, dest=name, default=None, help=_help(name, row), **arguments
            )


def _help(name: str, row: Setting) -> str:
    default = getattr(Settings(), name)
    if row.duration:
        return f"{row.help} (in seconds, or as 500ms, 2min; default: {default:g})"
    if row.shown:
        return f"{row.help} (default: {row.shown})"
    return f"{row.help} (default: {default})" if row.choices and row.const is None else row.help


def _arguments(row: Setting) -> dict[str, Any]:
    """How argparse has this row's option."""
    if row.choices is not None:
        alone = {"nargs": "?", "const": row.const} if row.const is not None else {}
        return {"choices": row.choices, "type": str.lower, **alone}
    if row.const is not None:
        return {"action": "store_const", "const": row.const}
    if row.repeated:
        return {"action": "append", "metavar": row.metavar}
    return {"type": argument_type(lambda text: row.parse(text, "s")), "metavar": row.metavar}


def argument_type(read: Callable[[str], object]) -> Callable[[str], object]:
    """`read` for argparse: what its ValueError says is what the person is told."""

    def checked(text: str) -> object:
        from argparse import ArgumentTypeError

        try:
            return read(text)
        except ValueError as problem:
            raise ArgumentTypeError(str(problem)) from None

    return checked


# A time that an option has, in seconds or with its unit.
SECONDS = argument_type(lambda text: read_duration(text, "s", positive=True))


def read_count(text: str) -> int:
    """A whole number, from 1 to 10000. Raises ValueError."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise ValueError(f"{text!r} must be a whole number, from 1 to 10000")
    return int(text)


def load_settings(
    options: argparse.Namespace, ignored: Sequence[str] = (), usual: Settings | None = None
) -> Settings:
    """The settings of this process: flags, then the environment without the variables `ignored`,
    then those that are `usual` for its command.

    Ends the process where one cannot be used.
    """
    environ = {name: value for name, value in os.environ.items() if name not in ignored}
    try:
        settings = read_settings(environ, usual, **_flags(options))
        if settings.answers is not None:
            from abp_bridge.cli.compose import answers

            answers(settings.answers)
        if settings.audit is not None:
            from abp_bridge.cli.compose import audit_log

            audit_log(settings.audit)
        if settings.sampling is not None:
            from abp_bridge.models.targets import check_model

            check_model(settings.sampling)
    except AbpBridgeError as problem:
        give_up(problem)
    return settings


def load_session_settings(
    options: argparse.Namespace, ignored: Sequence[str] = (), usual: Settings | None = None
) -> Settings:
    """`load_settings` of a process that is asked something only later: a terminal or place that is
    named and cannot be used ends it now.
    """
    from abp_bridge.cli.preflight import check_places

    settings = load_settings(options, ignored, usual)
    if settings.tty is not None:
        from abp_bridge.surfaces.terminal.device import check_terminal

        try:
            check_terminal(settings.tty)
        except AbpBridgeError as problem:
            give_up(f"--tty: {problem}")
    try:
        check_places(settings)
    except AbpBridgeError as problem:
        give_up(problem)
    return settings


def configure_log(options: argparse.Namespace) -> None:
    """Log as flags and environment say, and name what looks like a misspelt setting, or has another
    name by now.

    Ends the process where that cannot be.
    """
    from abp_bridge.log import configure

    try:
        only = ("log_level", "log_file")
        log = Settings(**read_values(os.environ, _flags(options), only))
        configure(log.log_level, log.log_file, own_only=getattr(options, "log_own_only", False))
    except AbpBridgeError as problem:
        give_up(problem)
    warn_of_misspelt(os.environ)


def _flags(options: argparse.Namespace) -> dict[str, object]:
    given = {name: getattr(options, name, None) for name in TABLE}
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }


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
    """Inside, no signal ends the process: `on_signal` gets its number, each time one comes (some
    hosts send SIGINT twice, then SIGTERM).
    """
    import anyio

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
