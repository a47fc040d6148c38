"""The files that a page gives while a call runs: what it prints, and the downloads that it starts.

Counts what is under way, so that the call's result can wait for it; page_files.py gets the files.
"""

from __future__ import annotations

import anyio

from abp_bridge.core.capability import AppFile
from abp_bridge.core.sanitize import label
from abp_bridge.session.app import DOWNLOAD_LIMIT

MAX_CALL_FILES = 10  # that a page may give during one call: more is no result
STAYED = "nowhere"  # as the page did not let itself be left
WINDOW = "a window"  # that the page opens: a download may be all that comes of it


class CallFiles:
    """What one call has been given, and what is still to come."""

    def __init__(self) -> None:
        self.files: list[AppFile] = []
        self.problems: list[str] = []
        self._taken = 0
        self._under_way = 0
        self._awaited: list[str] = []  # where the page went: a download, or another page
        self._early: list[str] = []  # what came before the page's own word of it
        self._changed = anyio.Event()

    def expect(self, url: str) -> None:
        """The page went to `url`, or opens a window."""
        for known in (url, STAYED):
            if known in self._early:
                self._early.remove(known)
                return
        if len(self._awaited) < MAX_CALL_FILES:
            self._awaited.append(url)

    def dismiss(self, url: str) -> None:
        """All that there is of going to `url` has come; or, for `STAYED`, nothing will."""
        if url == STAYED and self._awaited:
            self._awaited.clear()
        elif url in self._awaited:
            self._awaited.remove(url)
        elif len(self._early) < MAX_CALL_FILES:
            self._early.append(url)
        self._change()

    def close(self) -> None:
        """The page is gone, and nothing will come of it."""
        self._awaited.clear()
        self._change()

    def begin(self, url: str = "") -> bool:
        """A file is on its way, by a download from `url` if there is one. Whether it may be taken;
        then `end` must follow.
        """
        if url:
            kinds = [each for each in (url, WINDOW, *self._awaited) if each in self._awaited]
            self.dismiss(kinds[0] if kinds else url)  # it may have been redirected
        if self._taken >= MAX_CALL_FILES:
            return False
        self._taken += 1
        self._under_way += 1
        return True

    def end(self, given: AppFile | None, problem: str = "") -> None:
        """The file has come, or has not, for a reason."""
        if given is not None:
            self.files.append(given)
        if problem:
            self.problems.append(problem)
        self._under_way -= 1
        self._change()

    async def wait(self) -> None:
        """Wait until all has come, at most `DOWNLOAD_LIMIT`; what has not is a problem."""
        with anyio.move_on_after(DOWNLOAD_LIMIT):
            while self._awaited or self._under_way:
                await self._changed.wait()
        missing = [label(url, 200) for url in self._awaited]
        missing += [f"{self._under_way} files"] if self._under_way else []
        if missing:
            late = f"did not come within {DOWNLOAD_LIMIT:g} s"
            self.problems.append(f"what it went for ({', '.join(missing)}) {late}")
            self.close()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
