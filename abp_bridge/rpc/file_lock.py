"""Locks on files, by which processes know of each other. The one place that imports what a system
locks with, and only when something is locked: Windows has no `fcntl`.
"""

from __future__ import annotations

import time

_PAUSE = 0.01  # seconds between two looks at a lock


def lock(descriptor: int, *, wait: bool = True) -> None:
    """Lock the whole file until it is closed.

    Args:
        descriptor: Of the open file.
        wait: Whether another's lock is waited for.

    Raises:
        BlockingIOError: Another has it, and it is not waited for.
        OSError: It cannot be locked.
    """
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def lock_within(descriptor: int, seconds: float) -> None:
    """Lock the whole file until it is closed, and wait no longer than that for another's lock.

    Raises:
        BlockingIOError: Another has it all that time.
        OSError: It cannot be locked.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return lock(descriptor, wait=False)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)
