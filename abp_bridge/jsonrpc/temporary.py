"""Temporary folders of this process. A new one removes those of killed processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from abp_bridge.jsonrpc.file_lock import lock

PREFIX, LOCK = "abp-", ".lock"
_locks: dict[str, int] = {}  # by folder; the system lets them go when this process ends


def make_folder(parent: str | None = None) -> str:
    """Make a private folder in `parent` or the system's temporary folder. Raises OSError."""
    parent = parent or tempfile.gettempdir()
    _sweep(parent)
    begun = tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent)  # nobody sweeps this one
    descriptor = os.open(f"{begun}/{LOCK}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
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
    for folder in Path(parent).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                _sweep_one(folder)


def _sweep_one(folder: Path) -> None:
    """Take it away if its process is gone. Raises OSError if it is not, or it is none of ours."""
    descriptor = os.open(folder / LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(descriptor)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
