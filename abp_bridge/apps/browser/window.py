"""The window in which a person can see an app's page: whether there is one, brought to the front
when only a hand in the page can go on, and left to them as long as they have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError

SHOW_LIMIT = 5.0  # seconds for a window to come to the front
_UNSEEN = "HeadlessChrome"  # in what a browser without windows calls itself
NEXT_STEP = (
    "Its browser shows no window. Start abp-bridge with --headful (ABP_HEADLESS=false), on a"
    " desktop; or have it use a browser that runs there: --browser-url"
)


class Window:
    """The window of one page.

    Attributes:
        in_hand: Whether its person has it now, and nobody else may touch the page.
    """

    def __init__(self, page: Page, cdp: CDPSession) -> None:
        self.in_hand = False
        self._page = page
        self._cdp = cdp
        self._free = anyio.Event()
        self._opened: list[Page] = []

    async def exists(self) -> bool:
        """Whether a person can see it."""
        with anyio.move_on_after(SHOW_LIMIT), suppress(PlaywrightError):
            about = await self._cdp.send("Browser.getVersion")
            return _UNSEEN not in about["userAgent"]
        return False

    async def show(self) -> None:
        """Bring it to the front, and its tab in it; best effort."""
        with anyio.move_on_after(SHOW_LIMIT), suppress(PlaywrightError):
            window = await self._cdp.send("Browser.getWindowForTarget")
            if window["bounds"].get("windowState") == "minimized":
                given = {"windowId": window["windowId"], "bounds": {"windowState": "normal"}}
                await self._cdp.send("Browser.setWindowBounds", given)
            await self._page.bring_to_front()

    @contextmanager
    def hand(self) -> Iterator[list[Page]]:
        """Leave the window to its person for the length of the block.

        Yields:
            The windows that the page opens meanwhile: the person sees them, the caller closes them.
        """
        self.in_hand, self._free, self._opened = True, anyio.Event(), []
        try:
            yield self._opened
        finally:
            self.in_hand = False
            self._free.set()

    def on_opened(self, other: Page) -> None:
        """The page opened a window while its person has it."""
        self._opened.append(other)

    async def wait_free(self) -> None:
        """Wait until its person has let go of it."""
        while self.in_hand:
            await self._free.wait()
