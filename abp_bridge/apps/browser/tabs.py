"""Where an app's page is shown: in an empty browser, in a kept profile, or in the user's browser.

Only apps that the user named get a profile or the user's browser. Until the user allows to attach
to that, only its list of tabs is read. Its tab stays open at the end, without anything of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from playwright.async_api import Browser, BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.chromium import (
    BrowserError,
    attach_chromium,
    error_summary,
    run_chromium,
    run_profile,
)
from abp_bridge.apps.browser.fetch import Guard, get, site
from abp_bridge.apps.browser.page_state import PAGE_LIMIT, Tab
from abp_bridge.apps.browser.profile import use_profile
from abp_bridge.apps.elicitation import ask_permission
from abp_bridge.core.json_value import JsonValue, as_list, as_object, as_text, parse_json
from abp_bridge.core.sanitize import escape, label
from abp_bridge.session.app import END_LIMIT, AppError, AppListener
from abp_bridge.settings import Settings

RunBrowser = Callable[[Settings], AbstractAsyncContextManager[Browser]]


class Tabs:
    """Opens tabs for one app, each in a new empty browser.

    Attributes:
        remembers: Whether the app may be signed in, so that its page differs from the public one.
        sign_in: A sentence that tells the user how to sign in again.
    """

    remembers = False
    sign_in = ""

    def __init__(self, settings: Settings, run_browser: RunBrowser = run_chromium) -> None:
        self._settings = settings
        self._run_browser = run_browser

    @asynccontextmanager
    async def open_tab(self, address: str, listener: AppListener) -> AsyncIterator[Tab]:
        """Open a tab for `address`, asking the user by `listener` if needed.

        Raises:
            AppError: No tab can be opened; the message says what to do.
        """
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


class ProfileTabs(Tabs):
    """Opens tabs in this process's only browser with the user's profile."""

    remembers = True
    sign_in = (
        "If it is no longer signed in there, its person can sign in again: abp-bridge login"
        " ADDRESS, with the same --profile."
    )

    def __init__(self, settings: Settings, folder: str) -> None:
        super().__init__(settings)
        self._browser = _shared(str(Path(folder).expanduser().resolve()))

    @asynccontextmanager
    async def open_tab(self, address: str, listener: AppListener) -> AsyncIterator[Tab]:
        """Start the browser if this is its first tab."""
        async with self._browser.use(self._settings) as context:
            with browser_errors():
                page = await context.new_page()
            try:
                yield Tab(context, page, alone=False)
            finally:
                with anyio.move_on_after(END_LIMIT, shield=True), suppress(PlaywrightError):
                    await page.close()


class ExtensionTabs(Tabs):
    """Opens tabs in a new browser with an extension from a folder."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        super().__init__(settings)
        self._folder = folder

    @asynccontextmanager
    async def open_tab(self, address: str, listener: AppListener) -> AsyncIterator[Tab]:
        args = [
            f"--disable-extensions-except={self._folder}",
            f"--load-extension={self._folder}",
        ]
        shown = {"accept_downloads": True, "no_viewport": not self._settings.headless}
        running = run_profile(self._settings, "", args=args, **shown)
        async with running as context:
            with browser_errors():
                page = await context.new_page()
            yield Tab(context, page, alone=False)


class _SharedProfile:
    """The browser that the apps of this process share, as a profile has only one."""

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
                self._context = await self._start_browser(settings)
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

    async def _start_browser(self, settings: Settings) -> BrowserContext:
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
    """Raise Playwright's errors as BrowserError."""
    try:
        yield
    except PlaywrightError as problem:
        raise BrowserError(f"The browser failed: {error_summary(problem)}") from None


RELOAD_AFTER = 1_500  # milliseconds after its end for a tab to load anew, when we are gone

_LOADED = " The tab is loaded anew, now and at the end: what was typed there and not sent is lost."
_SOCKET_PATH = re.compile(r"/devtools/browser/[\w-]{1,80}")


@dataclass(frozen=True, slots=True)
class _OpenTab:
    """A tab in the list of its browser."""

    id: str
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a browser reports before it is attached: its name, socket and tabs."""

    name: str
    socket: str
    tabs: Sequence[_OpenTab]


class RunningTabs(Tabs):
    """Opens tabs in the running browser at `url` on this machine."""

    remembers = True
    sign_in = "If it is no longer signed in there, its person can sign in again in that browser."

    def __init__(self, settings: Settings, url: str) -> None:
        super().__init__(settings)
        self._url = url

    @asynccontextmanager
    async def open_tab(self, address: str, listener: AppListener) -> AsyncIterator[Tab]:
        """Ask the user, then attach."""
        listing = await _look(self._url)
        there = [each for each in listing.tabs if site(each.url) == site(address)]
        wanted = next((each for each in there if each.url == address), next(iter(there), None))
        await self._ask_consent(listener, listing.name, wanted, site(address))
        async with attach_chromium(self._settings, listing.socket) as browser:
            for context in browser.contexts:
                # Those of its other tabs are the person's; Playwright would dismiss them.
                context.on("dialog", lambda _: None)
            with browser_errors():
                page = await _find_page(browser, wanted) if wanted else await _open_page(browser)
            try:
                yield Tab(page.context, page, alone=False, shows=wanted is not None)
            finally:
                with anyio.move_on_after(END_LIMIT, shield=True), suppress(PlaywrightError):
                    await (_reload_later(page) if wanted else page.close())

    async def _ask_consent(
        self, listener: AppListener, name: str, tab: _OpenTab | None, origin: str
    ) -> None:
        """Raise AppError unless the user accepts."""
        where = "in a new tab, which is closed at the end"
        if tab is not None:
            title = json.dumps(label(escape(tab.title), 80), ensure_ascii=False)
            where = f"in the tab {title} ({origin})"
        loaded = "" if tab is None else _LOADED
        words = (
            f"May {origin} be used in your running browser, {where}?\n\n"
            f"The browser: {label(name, 80)} at {self._url}\n\n"
            "The agent may then call what the page offers, signed in as you are."
            f"{loaded}"
        )
        refused = f"{origin} was not connected in the running browser"
        await ask_permission(listener, words=words, origin=origin, refused=refused)


async def _look(url: str) -> _Listing:
    """Return the browser's list, or raise BrowserError."""
    about = as_object(await _get_json(url, "/json/version"))
    path = urlsplit(as_text(about.get("webSocketDebuggerUrl"))).path
    if not _SOCKET_PATH.fullmatch(path):
        raise BrowserError(f"What answers at {url} is no Chromium that can be driven.")
    tabs = [
        _OpenTab(as_text(tab.get("id")), as_text(tab.get("title")), as_text(tab.get("url")))
        for tab in map(as_object, as_list(await _get_json(url, "/json/list")))
        if tab.get("type") == "page"
    ]
    # at the address that the person named, whatever host it says
    socket = f"ws{url.removeprefix('http')}{path}"
    return _Listing(as_text(about.get("Browser"), "a browser"), socket, tabs)


async def _get_json(url: str, path: str) -> JsonValue:
    guard = Guard([urlsplit(url).netloc])
    content = b""
    try:
        document = get(
            f"{url}{path}", guard, what="tabs", accept="application/json", limit=PAGE_LIMIT
        )
        async with document as file:
            if site(file.url) == site(url):
                async for data in file.body:
                    content += data
        return parse_json(content)
    except (AppError, ValueError) as problem:
        raise BrowserError(
            f"No running browser answers at {url} ({label(problem, 200)}). Start one with"
            " --remote-debugging-port and a --user-data-dir of its own: Chrome opens no such port"
            " for the profile that is used every day."
        ) from None


async def _find_page(browser: Browser, wanted: _OpenTab) -> Page:
    """Return the page of the tab that the user was asked about."""
    for context in browser.contexts:
        for page in context.pages:
            if site(page.url) != site(wanted.url):
                continue
            session = await context.new_cdp_session(page)
            target = (await session.send("Target.getTargetInfo"))["targetInfo"]
            await session.detach()
            if target["targetId"] == wanted.id:
                return page
    raise BrowserError("The tab that was asked about has gone, or shows something else by now.")


async def _open_page(browser: Browser) -> Page:
    if not browser.contexts:
        raise BrowserError("The running browser has no window.")
    return await browser.contexts[0].new_page()


async def _reload_later(page: Page) -> None:
    """Have the tab reload once we are detached, which removes our scripts from the page."""
    session = await page.context.new_cdp_session(page)
    frame = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
    # a world of its own: the page may have made `setTimeout` another
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame})
    given = {
        "expression": f"void setTimeout(() => location.reload(), {RELOAD_AFTER})",
        "contextId": world["executionContextId"],
    }
    await session.send("Runtime.evaluate", given)
