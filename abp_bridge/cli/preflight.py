"""What can be seen of settings before a session needs them: the files, folders, programs and ports
that they name. Looking leaves nothing behind.

Most sessions name none: what only a look needs is imported for it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator

from abp_bridge.log import print_message
from abp_bridge.settings import Settings, SettingsError


def check_places(settings: Settings) -> None:
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
