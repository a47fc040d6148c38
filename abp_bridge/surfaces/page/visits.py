"""Bring the user's browser to the page, in one tab for all questions; notice when it closes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from abp_bridge.surfaces.page import browser

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.surfaces.http import Server, Streams

OPEN_LIMIT = 5.0  # seconds for a browser to come, before the person is told of the page otherwise
CLOSED_LIMIT = 10.0  # seconds without a tab, for who loads it again or restores it
MAX_TABS = 1_000  # that are known to be open, of the person's own
MAX_TAB = 64  # characters of a tab's name; ours have 36
LATE_LIMIT = 25.0  # seconds more for a slow one, where they cannot be: hosts wait for 60
TAB_LIMIT = 2.0  # seconds after a page went out, in which its tab begins to listen


@dataclass(slots=True)
class Opening:
    """One attempt to open a browser; all questions asked meanwhile share it.

    `address` works once. `problem` says why it failed once it is `done`; `command` may still bring
    a
    browser.
    """

    address: str
    came: anyio.Event
    done: anyio.Event
    command: str = ""
    problem: str = ""

    @property
    def path(self) -> str:
        return urlsplit(self.address).path


class Visits:
    """The user's tabs at the page of `server`, which listen to its `streams`."""

    def __init__(self, tasks: TaskGroup, server: Server, streams: Streams) -> None:
        self.opening: Opening | None = None  # the last one
        self._tasks = tasks
        self._server = server
        self._streams = streams
        self._seen = -inf  # when the person's browser last asked for a page
        self._tabs: set[str] = set()  # that say that they are open
        self._gone, self._back = anyio.Event(), anyio.Event()  # of the last tab

    async def open_browser(self) -> str:
        """Open the page in one tab for all questions; return why that failed, or nothing."""
        with anyio.move_on_after(OPEN_LIMIT):
            await self._streams.wait_idle()  # a tab that closes now has not shown it
        listens_until = self._seen + TAB_LIMIT
        if not self._streams.open and (left := listens_until - anyio.current_time()) > 0:
            await anyio.sleep(left)
        if self._streams.open:  # a tab that shows what is asked next
            return ""
        if (opening := self.opening) is None or opening.done.is_set():
            address, came = f"{self._server.url}/go/{secrets.token_urlsafe(8)}", anyio.Event()
            if opening is not None and not opening.came.is_set():
                address, came = opening.address, opening.came  # its browser may be slow
            opening = self.opening = Opening(address, came, anyio.Event())
            self._tasks.start_soon(self._wait_browser, opening)
        await opening.done.wait()
        return opening.problem

    async def _wait_browser(self, opening: Opening) -> None:
        try:
            with anyio.move_on_after(OPEN_LIMIT):
                opening.command = await browser.open_browser(opening.address)
                await opening.came.wait()
        except browser.BrowserError as problem:
            opening.problem = f"No browser could be opened: {problem}"
        else:
            if not opening.came.is_set():
                command = opening.command or "its command"
                opening.problem = f"No browser could be opened: {command} ran, and none came"
        opening.done.set()

    async def wait_late_browser(self) -> bool:
        """Return whether a slow browser comes within `LATE_LIMIT`."""
        opening = self.opening
        if opening is None or not opening.command:
            return False
        with anyio.move_on_after(LATE_LIMIT):
            await opening.came.wait()
        return opening.came.is_set()

    async def wait_closed(self) -> None:
        """Wait until the last tab reports that it closes and none returns in `CLOSED_LIMIT`.

        Without scripts no tab reports, so this never returns.
        """
        while True:
            gone, back = self._gone, self._back
            await gone.wait()
            with anyio.move_on_after(CLOSED_LIMIT):
                await back.wait()
                continue
            return

    def mark_seen(self) -> None:
        """Note that the user's browser made a request."""
        self._seen = anyio.current_time()
        if self._gone.is_set():
            self._back.set()
            self._gone, self._back = anyio.Event(), anyio.Event()

    def come(self, tab: str) -> None:
        if len(self._tabs) < MAX_TABS:
            self._tabs.add(tab[:MAX_TAB])

    def leave(self, tab: str) -> None:
        """Forget a tab that was closed or shows another page; ignore an unknown name."""
        if (known := tab[:MAX_TAB]) in self._tabs:
            self._tabs.remove(known)
            if not self._tabs:
                self._gone.set()
