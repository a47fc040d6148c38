"""A command's options from the settings table, and the settings as given.

Files, folders, programs and ports that they name are checked here, without side effects.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from abp_bridge.cli.runtime import give_up
from abp_bridge.errors import AbpBridgeError
from abp_bridge.log import print_message
from abp_bridge.settings import (
    TABLE,
    Setting,
    Settings,
    SettingsError,
    read_settings,
    read_values,
    warn_of_misspelt,
)
from abp_bridge.settings.values import read_duration

if TYPE_CHECKING:
    import argparse


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
    """Return the settings: flags, environment without `ignored`, then `usual`. Exit on errors."""
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
    """Return `load_settings`, and exit if a terminal or place that it names cannot be used."""
    settings = load_settings(options, ignored, usual)
    if settings.tty is not None:
        from abp_bridge.surfaces.terminal.device import check_terminal

        try:
            check_terminal(settings.tty)
        except AbpBridgeError as problem:
            give_up(f"--tty: {problem}")
    try:
        _check_places(settings)
    except AbpBridgeError as problem:
        give_up(problem)
    return settings


def configure_log(options: argparse.Namespace) -> None:
    """Set up logging, and warn about misspelt or renamed settings. Exit on errors."""
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


# --- places that settings name --------------------------------------------------------------------


def _check_places(settings: Settings) -> None:
    """Raises SettingsError where one of them cannot be used, with what would be right."""
    for check in (_check_record, _check_output, _check_chrome, _check_profile, _check_ports):
        for problem in check(settings):
            raise SettingsError(problem)


def _check_record(settings: Settings) -> Iterator[str]:
    path = settings.record
    if path is None:
        return
    with contextlib.suppress(OSError, ValueError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            yield f"--record {path!r} is no file: it must be one, or not be there yet"
        elif not os.access(path, os.W_OK):
            yield f"--record {path!r} cannot be written: name another file"
        return
    folder = os.path.dirname(path) or "."
    if problem := _find_problem(folder):
        yield (
            f"--record {path!r} cannot be written: {problem}. Name a file in a folder that is there"
        )


def _check_output(settings: Settings) -> Iterator[str]:
    if settings.output_dir is None:
        return
    wanted = os.path.abspath(settings.output_dir)
    folder = wanted
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)  # where it will be made
    if problem := _find_problem(folder):
        yield f"--output-dir {settings.output_dir!r} cannot be used: {problem}. Name another folder"


def _find_problem(folder: str) -> str:
    """Why no file can be made in this folder; empty where one can."""
    import tempfile

    try:
        if not os.path.isdir(folder):
            return f"{folder} is no folder" if os.path.lexists(folder) else f"there is no {folder}"
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        return f"nothing can be written in {folder} ({why})"


def _check_chrome(settings: Settings) -> Iterator[str]:
    if settings.chrome is None:
        return
    import shutil

    if not shutil.which(settings.chrome):
        yield (
            f"there is no program {settings.chrome!r}: set ABP_CHROME to the path of a Chromium or"
            " Chrome, or leave it out and one is looked for"
        )


def _check_profile(settings: Settings) -> Iterator[str]:
    if settings.profile is None:
        return
    from pathlib import Path

    from abp_bridge.apps.browser.profile import find_problem

    if problem := find_problem(Path(settings.profile).expanduser()):
        yield f"--profile: {problem}"


def _check_ports(settings: Settings) -> Iterator[str]:
    """A port that is taken now may be free when it is needed: another session has it."""
    ports = {
        "--page-port": ("the bridge's own page", settings.page_port),
        "--questions-api": ("the questions API", settings.questions_api),
    }
    for option, (what, port) in ports.items():
        if not port:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as problem:
            from abp_bridge.surfaces.http import describe_failure

            why = describe_failure(what, problem, port, option)
            if problem.errno != errno.EADDRINUSE:
                yield why
            else:
                print_message(f"{why}. It is tried again when it is needed")
