"""Files of this user only, temporary folders of this process, and locks between processes.

Owner, type and mode of a private file are checked at each use. A new temporary folder removes those
of killed processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from abp_bridge.errors import AbpBridgeError

_PAUSE = 0.01  # seconds between two looks at a lock
_WAIT = "import fcntl, sys; fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX)"
_SEARCH_LIMIT = 0.05  # seconds to find who has it: who was to be locked out waits meanwhile


def lock(descriptor: int, wait: float = 0.0) -> None:
    """Lock the whole file until it is closed.

    Args:
        wait: Seconds to wait for another holder.

    Raises:
        BlockingIOError: Another process holds it; after a wait the message names the process.
        OSError: The file cannot be locked.
    """
    import fcntl

    until = time.monotonic() + wait
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            if time.monotonic() >= until:
                break
        time.sleep(_PAUSE)
    if (holder := find_holder(descriptor)) is not None:  # one look, where the others are sought
        which = f"process {holder}"
    elif users := " or ".join(_find_users(descriptor)):
        which = f"one of those that have it open: process {users}"
    else:
        which = "which, the system does not say"
    who = f"another program keeps it locked ({which})"
    raise BlockingIOError(errno.EWOULDBLOCK, f"{who}: end that, or try again")


async def wait_for_lock(descriptor: int) -> None:
    """Lock the whole file until it is closed, waiting without limit. Raises OSError."""
    import anyio

    # The lock is the open file's, which a child has too. A thread that waits could not be stopped.
    child = [sys.executable, "-I", "-S", "-c", _WAIT, str(descriptor)]
    ended = await anyio.run_process(
        child, pass_fds=[descriptor], start_new_session=True, check=False
    )
    if ended.returncode:
        raise OSError(errno.ENOLCK, f"it could not be waited for (exit code {ended.returncode})")


def find_holder(descriptor: int) -> int | None:
    """The process that locked the file, where the system tells."""
    file = os.fstat(descriptor)
    where = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, process, place, *_ = line.split()
            if (kind, place) == ("FLOCK", where) and Path("/proc", process).exists():
                return int(process)
    return None


def _find_users(descriptor: int) -> Iterator[str]:
    """Yield the other processes that have the file open, as far as found in time."""
    until = time.monotonic() + _SEARCH_LIMIT
    with contextlib.suppress(OSError):
        file = os.readlink(f"/proc/self/fd/{descriptor}")
        for process in Path("/proc").glob("[0-9]*"):
            if time.monotonic() > until:
                return
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                is_open = any(os.readlink(each) == file for each in process.glob("fd/*"))
                if is_open and process.name != str(os.getpid()):
                    yield process.name


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


_PREFIX, _LOCK_NAME = "abp-", ".lock"
_locks: dict[str, int] = {}  # by folder; the system lets them go when this process ends


def make_folder(parent: str | None = None) -> str:
    """Make a private folder in `parent` or the system's temporary folder. Raises OSError."""
    parent = parent or tempfile.gettempdir()
    _sweep(parent)
    begun = tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent)  # nobody sweeps this one
    descriptor = os.open(f"{begun}/{_LOCK_NAME}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    lock(descriptor)
    folder = os.path.join(parent, os.path.basename(begun)[1:])
    os.rename(begun, folder)
    _locks[folder] = descriptor
    return folder


def remove_folder(folder: str) -> bool:
    """Take a folder away that `make_folder` has made, with all in it. Whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    is_gone = not os.path.exists(folder)
    if is_gone and folder in _locks:
        os.close(_locks.pop(folder))
    return is_gone


def _sweep(parent: str) -> None:
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                _sweep_one(folder)


def _sweep_one(folder: Path) -> None:
    """Take it away if its process is gone. Raises OSError if it is not, or it is none of ours."""
    descriptor = os.open(folder / _LOCK_NAME, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(descriptor)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
