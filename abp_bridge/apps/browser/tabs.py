"""Where an app's page is shown: alone in a browser that begins empty, or beside others in one that
keeps what they are signed in to. Only apps that the person named get anything but the first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio
from playwright.async_api import Browser, BrowserContext
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.chromium import BrowserError, error_summary, run_chromium, run_profile
from abp_bridge.apps.browser.page import Tab
from abp_bridge.apps.browser.profile import use_profile
from abp_bridge.session.app import QuestionListener
from abp_bridge.settings import Settings

CLOSE_LIMIT = 0.4  # seconds for one page to close, where its browser stays

RunBrowser = Callable[[Settings], AbstractAsyncContextManager[Browser]]


class Tabs(Protocol):
    """Opens tabs for one app.

    Attributes:
        remembers: Whether the app may be signed in there: what it shows to anybody is then no
            measure of it.
        sign_in: What its person can do where it is signed in no more, as a sentence.
    """

    remembers: bool
    sign_in: str

    def open(self, address: str, listener: QuestionListener) -> AbstractAsyncContextManager[Tab]:
        """A tab for as long as the block.

        Args:
            address: What it is going to show.
            listener: Gets the person asked, where that is needed first.

        Raises:
            AppError: There is none; the message says what to do.
        """
        ...


class EmptyTabs:
    """Each in a browser of its own, which has seen nothing yet."""

    remembers = False
    sign_in = ""

    def __init__(self, settings: Settings, run_browser: RunBrowser = run_chromium) -> None:
        self._settings = settings
        self._run_browser = run_browser

    @asynccontextmanager
    async def open(self, address: str, listener: QuestionListener) -> AsyncIterator[Tab]:
        """Start a browser for it (`Tabs.open`)."""
        async with self._run_browser(self._settings) as browser:
            with browser_errors():
                context = await browser.new_context(
                    accept_downloads=True,
                    permissions=[],
                    service_workers="block",
                    no_viewport=not self._settings.headless,  # the page is as large as its window
                )
                tab = Tab(context, await context.new_page())
            yield tab


class ProfileTabs:
    """In the one browser of this process that uses the person's profile."""

    remembers = True
    sign_in = (
        "If it is no longer signed in there, its person can sign in again: abp-bridge login"
        " ADDRESS, with the same --profile."
    )

    def __init__(self, settings: Settings, folder: str) -> None:
        self._settings = settings
        self._browser = _shared(str(Path(folder).expanduser().resolve()))

    @asynccontextmanager
    async def open(self, address: str, listener: QuestionListener) -> AsyncIterator[Tab]:
        """Start the browser if this is its first (`Tabs.open`)."""
        async with self._browser.use(self._settings) as context:
            with browser_errors():
                page = await context.new_page()
            try:
                yield Tab(context, page, alone=False)
            finally:
                with anyio.move_on_after(CLOSE_LIMIT, shield=True), suppress(PlaywrightError):
                    await page.close()


class _SharedProfile:
    """Two browsers cannot have one profile: the apps of this process share one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._users = 0
        self._changing = anyio.Lock()
        self._open = AsyncExitStack()
        self._context: BrowserContext | None = None

    @asynccontextmanager
    async def use(self, settings: Settings) -> AsyncIterator[BrowserContext]:
        async with self._changing:
            if not self._users:
                self._context = await self._start(settings)
            self._users += 1
        assert self._context is not None
        try:
            yield self._context
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changing:
                    self._users -= 1
                    if not self._users:
                        await self._open.aclose()

    async def _start(self, settings: Settings) -> BrowserContext:
        async with AsyncExitStack() as stack:
            folder = str(stack.enter_context(use_profile(Path(self._folder))))
            seen = not settings.headless
            running = run_profile(settings, folder, accept_downloads=True, no_viewport=seen)
            context = await stack.enter_async_context(running)
            self._open = stack.pop_all()
        return context


@cache
def _shared(folder: str) -> _SharedProfile:
    return _SharedProfile(folder)


@contextmanager
def browser_errors() -> Iterator[None]:
    """What Playwright says is told as a `BrowserError`."""
    try:
        yield
    except PlaywrightError as problem:
        raise BrowserError(f"The browser failed: {error_summary(problem)}") from None
