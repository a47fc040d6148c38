"""Folders and files of this user only; owner, type and mode are checked at each use."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from abp_bridge.errors import AbpBridgeError

_OTHERS = 0o077  # what group and others may do


class PlaceError(AbpBridgeError):
    """There is no folder or file of this user's alone; the message says why."""


def private_folder(folder: Path) -> None:
    """Make `folder` or check that it belongs to this user only. Raises PlaceError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as problem:
        raise PlaceError(f"{folder} cannot be made: {problem.strerror}") from None
    if unfit := find_problem(folder):
        raise PlaceError(unfit)


def find_problem(folder: Path) -> str:
    """Why a folder is not used; empty where it is one of this user's alone."""
    try:
        found = folder.lstat()
    except OSError as problem:
        return f"{folder} cannot be looked at: {problem.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is no folder"
    if found.st_uid != os.getuid():
        return f"{folder} is another user's"
    return f"{folder} is open to others: chmod 700 it" if found.st_mode & _OTHERS else ""


def read_private(path: Path, limit: int) -> bytes:
    """Read a file that belongs to this user only and has at most `limit` bytes.

    Raises PlaceError if it does not, OSError if it cannot be read or is a link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as opened:
        found = os.fstat(opened.fileno())
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
        if not is_own or found.st_mode & _OTHERS:
            raise PlaceError(f"{path} is no file of this user's alone")
        content = opened.read(limit + 1)
    if len(content) > limit:
        raise PlaceError(f"{path} has more than {limit} bytes")
    return content


def write_private(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write a file for this user only, whole or not at all; with `new` never over another.

    Raises OSError, FileExistsError with `new`.
    """
    descriptor, begun = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with open(descriptor, "wb") as opened:
            opened.write(content)
        if new:
            os.link(begun, path)
        else:
            os.replace(begun, path)
    finally:
        Path(begun).unlink(missing_ok=True)
