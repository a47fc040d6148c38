"""Locks on files, by which processes know of each other. The one place that imports what a system
locks with, and only when something is locked: Windows has no `fcntl`.
"""

from __future__ import annotations


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
