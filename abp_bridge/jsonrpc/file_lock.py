"""File locks between processes. `fcntl` is imported on first use."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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
