"""A tab of a browser that runs already and is its person's: found, asked for, used, and left.

Nothing is connected before the person has said yes: until then only the list of its tabs is read.
The tab and its browser stay open at the end, without anything of ours in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
from playwright.async_api import Browser, Page
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.chromium import BrowserError, attach_chromium
from abp_bridge.apps.browser.fetch import Guard, get, site
from abp_bridge.apps.browser.page import Tab
from abp_bridge.apps.browser.tabs import CLOSE_LIMIT, browser_errors
from abp_bridge.apps.elicitation import ask_permission
from abp_bridge.core.json_value import JsonValue, as_list, as_object, as_text, parse_json
from abp_bridge.core.sanitize import escape, label
from abp_bridge.session.app import AppError, QuestionListener
from abp_bridge.settings import Settings

LOOK_LIMIT = 5.0  # seconds for a browser to list its tabs
MAX_LIST = 4 * 2**20  # bytes of that list
MAX_TITLE = 80  # characters of a tab's title that are shown
RELOAD_AFTER = 1_500  # milliseconds after its end for a tab to load anew, when we are gone

_LOADED = " The tab is loaded anew, now and at the end: what was typed there and not sent is lost."
_SOCKET_PATH = re.compile(r"/devtools/browser/[\w-]{1,80}")


@dataclass(frozen=True, slots=True)
class _OpenTab:
    """A tab as its browser lists it."""

    id: str
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a browser says before anybody is connected: its name, its socket, its tabs."""

    name: str
    socket: str
    tabs: Sequence[_OpenTab]


class RunningTabs:
    """In the running browser at `url`, which is on this machine."""

    remembers = True
    sign_in = "If it is no longer signed in there, its person can sign in again in that browser."

    def __init__(self, settings: Settings, url: str) -> None:
        self._settings = settings
        self._url = url

    @asynccontextmanager
    async def open(self, address: str, listener: QuestionListener) -> AsyncIterator[Tab]:
        """Ask the person, then attach (`Tabs.open`)."""
        listing = await _look(self._url)
        there = [each for each in listing.tabs if site(each.url) == site(address)]
        wanted = next((each for each in there if each.url == address), next(iter(there), None))
        await self._ask(listener, listing.name, wanted, site(address))
        async with attach_chromium(self._settings, listing.socket) as browser:
            for context in browser.contexts:
                # Those of its other tabs are the person's; Playwright would dismiss them.
                context.on("dialog", lambda _: None)
            with browser_errors():
                page = await _find(browser, wanted) if wanted else await _open(browser)
            try:
                yield Tab(page.context, page, alone=False, shows=wanted is not None)
            finally:
                with anyio.move_on_after(CLOSE_LIMIT, shield=True), suppress(PlaywrightError):
                    await (_reload_later(page) if wanted else page.close())

    async def _ask(
        self, listener: QuestionListener, name: str, tab: _OpenTab | None, origin: str
    ) -> None:
        """Raises AppError unless a person says yes."""
        where = "in a new tab, which is closed at the end"
        if tab is not None:
            title = json.dumps(label(escape(tab.title), MAX_TITLE), ensure_ascii=False)
            where = f"in the tab {title} ({origin})"
        loaded = "" if tab is None else _LOADED
        words = (
            f"May {origin} be used in your running browser, {where}?\n\n"
            f"The browser: {label(name, MAX_TITLE)} at {self._url}\n\n"
            "The agent may then call what the page offers, signed in as you are."
            f"{loaded}"
        )
        refused = f"{origin} was not connected in the running browser"
        await ask_permission(listener, words=words, origin=origin, refused=refused)


async def _look(url: str) -> _Listing:
    """Raises BrowserError where no browser answers."""
    about = as_object(await _read(url, "/json/version"))
    path = urlsplit(as_text(about.get("webSocketDebuggerUrl"))).path
    if not _SOCKET_PATH.fullmatch(path):
        raise BrowserError(f"What answers at {url} is no Chromium that can be driven.")
    tabs = [
        _OpenTab(as_text(tab.get("id")), as_text(tab.get("title")), as_text(tab.get("url")))
        for tab in map(as_object, as_list(await _read(url, "/json/list")))
        if tab.get("type") == "page"
    ]
    # at the address that the person named, whatever host it says
    socket = f"ws{url.removeprefix('http')}{path}"
    return _Listing(as_text(about.get("Browser"), "a browser"), socket, tabs)


async def _read(url: str, path: str) -> JsonValue:
    guard = Guard([urlsplit(url).netloc])
    content = b""
    try:
        document = get(
            f"{url}{path}", guard, what="tabs", accept="application/json", limit=LOOK_LIMIT
        )
        async with document as file:
            if site(file.url) == site(url):
                async for data in file.body:
                    content += data
                    if len(content) > MAX_LIST:
                        raise ValueError(f"its list has more than {MAX_LIST} bytes")
        return parse_json(content)
    except (AppError, ValueError) as problem:
        raise BrowserError(
            f"No running browser answers at {url} ({label(problem, 200)}). Start one with"
            " --remote-debugging-port and a --user-data-dir of its own: Chrome opens no such port"
            " for the profile that is used every day."
        ) from None


async def _find(browser: Browser, wanted: _OpenTab) -> Page:
    """The page of the tab that the person was asked about."""
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


async def _open(browser: Browser) -> Page:
    if not browser.contexts:
        raise BrowserError("The running browser has no window.")
    return await browser.contexts[0].new_page()


async def _reload_later(page: Page) -> None:
    """Have the tab load anew when nothing of ours is attached any more: what was put into its page
    goes, and does not come back.
    """
    session = await page.context.new_cdp_session(page)
    frame = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
    # a world of its own: the page may have made `setTimeout` another
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame})
    given = {
        "expression": f"void setTimeout(() => location.reload(), {RELOAD_AFTER})",
        "contextId": world["executionContextId"],
    }
    await session.send("Runtime.evaluate", given)
