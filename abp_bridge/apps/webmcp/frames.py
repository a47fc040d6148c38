"""Sessions of the browser's protocol with frames of other origins: those that another process
shows, of which the page's own session hears nothing. Only the origins that the person named have
one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

import anyio
from playwright.async_api import CDPSession, Frame
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.fetch import site
from abp_bridge.apps.browser.page import AppPage

logger = logging.getLogger(__name__)

MAX_STRANGERS = 100  # origins of frames of which it is told that they came
ATTACH_LIMIT = 5.0  # seconds for a frame to be attached


def has_page(frame: Frame) -> bool:
    """Whether a frame shows a page: one that is still loading, or could not be loaded, has none
    that offers anything, and no origin by which it could be named.
    """
    return frame.url not in ("", "about:blank") and not frame.url.startswith("chrome-error:")


class FrameSessions:
    """The sessions with the frames of one page.

    Args:
        page: The page.
        allowed: The origins that the person named.
        connect: Hears of all that a session has; returns the id of its frame.
        on_gone: Is told the id of a frame that is there no more.
        on_stranger: Is called when there is a frame of an origin that is neither the page's nor
            named, the first of it.
    """

    def __init__(
        self,
        page: AppPage,
        allowed: Collection[str],
        connect: Callable[[CDPSession], Awaitable[str]],
        on_gone: Callable[[str], None],
        on_stranger: Callable[[], None],
    ) -> None:
        self._page = page
        self._allowed = allowed
        self._connect = connect
        self._on_gone = on_gone
        self._on_stranger = on_stranger
        self._strangers: set[str] = set()
        self._sessions: dict[Frame, tuple[CDPSession, str]] = {}
        self._attaching = anyio.Lock()

    def start(self) -> None:
        """Attach each such frame as it comes."""
        self._page.shown.on("framenavigated", self._on_navigated)
        self._page.shown.on("framedetached", self._on_detached)

    def _on_navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None or self._page.listener is None or not has_page(frame):
            return
        place = site(frame.url)
        if place in self._allowed:
            self._page.tasks.start_soon(self._attach, frame)
        elif not (self._page.is_own_site(frame.url) or place in self._strangers):
            self._on_new(place)

    def _on_new(self, place: str) -> None:
        if len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(place)
            self._on_stranger()

    def _on_detached(self, frame: Frame) -> None:
        _, id = self._sessions.pop(frame, (None, ""))
        if id:
            self._on_gone(id)

    async def _attach(self, frame: Frame) -> None:
        """Attach a frame, unless it is still; one of the page's own process cannot be, and need
        not.
        """
        async with self._attaching:
            with anyio.move_on_after(ATTACH_LIMIT) as limit, suppress(PlaywrightError):
                if frame in self._sessions and await _is_alive(self._sessions[frame][0]):
                    return
                session = await self._page.shown.context.new_cdp_session(frame)
                self._sessions[frame] = session, await self._connect(session)
            if limit.cancelled_caught:
                words = "tools of a frame of %s are not offered: it was not there within %g s"
                logger.warning(words, site(frame.url), ATTACH_LIMIT)


async def _is_alive(session: CDPSession) -> bool:
    with suppress(PlaywrightError):
        await session.send("Page.getFrameTree")
        return True
    return False
