"""Which files of an output folder the bridge has saved, and when: so that old ones can go, and
nothing that anybody else put there or changed.

A line of JSON a file, in the folder itself. Other bridges may write there at the same time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import IO

from abp_bridge.core.json_value import as_object, as_text, parse_json
from abp_bridge.rpc.file_lock import lock

logger = logging.getLogger(__name__)

NAME = ".abp-results.jsonl"
KEPT_DAYS = 30  # what a person wants for longer, they have moved or changed by then
LOCK_LIMIT = 2.0  # seconds for another bridge that writes there: what is not noted then stays
_DAY = 86_400.0  # seconds


class SavedIndex:
    """The index of one folder.

    Args:
        folder: The output folder.
        clock: The time of day, in seconds.
    """

    def __init__(self, folder: str, clock: Callable[[], float] = time.time) -> None:
        self.path = os.path.join(folder, NAME)
        self._folder = folder
        self._clock = clock

    def exists(self) -> bool:
        """Whether anything was ever saved in the folder."""
        return os.path.exists(self.path)

    def add(self, path: str) -> None:
        """Note a file that was just saved. What cannot be noted stays in the folder."""
        try:
            status = os.stat(path)
            line = {
                "path": os.path.relpath(path, self._folder),
                "size": status.st_size,
                "changed": status.st_mtime_ns,
                "saved": int(self._clock()),
            }
            with self._locked() as index:
                index.seek(0, os.SEEK_END)
                index.write(json.dumps(line) + "\n")
        except OSError as problem:
            logger.info("%s will not be aged out: %s", path, problem)

    def sweep(self) -> None:
        """Remove what was saved more than `KEPT_DAYS` ago and is as it was then."""
        limit = self._clock() - KEPT_DAYS * _DAY
        if not self.exists():
            return
        try:
            with self._locked() as index:
                lines = index.readlines()
                kept = [line for line in lines if not self._age_out(line, limit)]
                if len(kept) < len(lines):
                    index.seek(0)
                    index.truncate()
                    index.writelines(kept)
        except OSError as problem:
            logger.warning("old results in %s stay: %s", self._folder, problem)

    def _age_out(self, line: str, limit: float) -> bool:
        """Whether the line is done with: its file is old, and now gone, or not ours any more."""
        try:
            noted = as_object(parse_json(line))
        except ValueError:
            return True
        saved, name = noted.get("saved"), as_text(noted.get("path"))
        if not isinstance(saved, int) or saved > limit:
            return not isinstance(saved, int)
        if not _is_ours(name) or os.path.islink(os.path.join(self._folder, os.path.dirname(name))):
            return True
        path = os.path.join(self._folder, name)
        with contextlib.suppress(OSError, ValueError):  # ValueError: no file has that name
            status = os.lstat(path)
            if (status.st_size, status.st_mtime_ns) == (noted.get("size"), noted.get("changed")):
                os.unlink(path)
                logger.info("%s was removed: it was saved more than %s days ago", path, KEPT_DAYS)
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[IO[str]]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.path, flags, 0o600)
        with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as index:
            lock(descriptor, wait=LOCK_LIMIT)
            yield index


def _is_ours(name: str) -> bool:
    """Whether it is where results are saved: in the folder, or in one of an app's in it."""
    parts = name.split("/")
    return len(parts) <= 2 and not {"", ".", ".."} & set(parts) and "\0" not in name
