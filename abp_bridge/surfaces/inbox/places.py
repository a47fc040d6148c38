"""Where bridges and the inbox find each other, and where the inbox keeps what lasts: folders of
this user's alone.

Hosts pass few variables on to what they launch. So a bridge may not know the runtime folder that a
shell knows: it takes the first place that there is, and the inbox looks into all of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from abp_bridge.jsonrpc.files import PlaceError, find_problem, private_folder

MAX_PATH = 103  # bytes of a Unix socket's address: 104 with its end on a Mac, 108 on Linux
_NAME = re.compile(r"(\d{1,10})-(\d{1,10})\.sock")


def runtime_folder() -> Path:
    """The first folder in which this process can be found, made if it is not there.

    Raises:
        PlaceError: None can be made, or is this user's alone.
    """
    problems = []
    for folder in _candidates():
        try:
            private_folder(folder)
        except PlaceError as problem:
            problems.append(str(problem))
        else:
            return folder
    raise PlaceError("; ".join(problems))


def runtime_folders() -> tuple[list[Path], list[str]]:
    """All in which a bridge of this user's may be found, and of those that are there and not used
    why: another user's has no say here, and may keep bridges from being found.
    """
    problems = {each: find_problem(each) for each in _candidates() if os.path.lexists(each)}
    fit = [each for each, problem in problems.items() if not problem]
    return fit, [problem for problem in problems.values() if problem]


def _candidates() -> Iterator[Path]:
    if only := os.environ.get("ABP_RUNTIME_DIR"):
        yield Path(os.path.expanduser(only))
        return
    user = os.getuid()
    for named in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        if os.path.isdir(named):
            yield Path(named) / "abp-bridge"
    yield Path(f"/tmp/abp-bridge-{user}")  # noqa: S108 (its owner and mode are checked)


def state_folder() -> Path:
    """Where what lasts is kept: `ABP_STATE_DIR`, or in the home folder. Not `XDG_STATE_HOME`: a
    bridge that is not told of it has to find the same.

    Raises:
        PlaceError: This user has no home.
    """
    if only := os.environ.get("ABP_STATE_DIR"):
        return Path(os.path.expanduser(only))
    home = os.path.expanduser("~")
    if home == "~":
        raise PlaceError("this user has no home")
    return _state_folder(home)


@lru_cache(maxsize=1)
def _state_folder(home: str) -> Path:
    """Made once: a bridge looks there after each question."""
    return Path(home, ".local", "state", "abp-bridge")


def socket_path(folder: Path) -> Path:
    """The address of this process in `folder`: its name says the process, and since when.

    Raises:
        PlaceError: It is too long for a Unix socket.
    """
    path = folder / f"{os.getpid()}-{int(time.time())}.sock"
    if len(os.fsencode(path)) >= MAX_PATH:
        raise PlaceError(f"{path} is too long for the address of a socket")
    return path


def sockets(folder: Path) -> Iterator[tuple[Path, int, int]]:
    """(socket, process, since when, in seconds since 1970) of who registered in `folder`."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if match := _NAME.fullmatch(name):
            yield folder / name, int(match[1]), int(match[2])


def remove(entry: Path) -> None:
    """Take an entry out of its folder, if it is there."""
    with contextlib.suppress(OSError):
        entry.unlink()
