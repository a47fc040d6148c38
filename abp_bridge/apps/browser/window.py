"""The window that shows an app's page to the user, and the page's dialogs.

The window is brought to the front if only the user can continue in the page. `confirm()` and
`prompt()` become questions during a call; other dialogs are closed and reported. While the user
works in the page, dialogs are left to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.fetch import site
from abp_bridge.apps.browser.files import STAYED, PageFiles
from abp_bridge.apps.browser.page_state import PAGE_LIMIT, PageState
from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.ledger import NoticeKind
from abp_bridge.core.sanitize import message
from abp_bridge.session.app import END_LIMIT

_UNSEEN = "HeadlessChrome"  # in what a browser without windows calls itself
NEXT_STEP = (
    "Its browser shows no window. Start abp-bridge with --headful (ABP_HEADLESS=false), on a"
    " desktop; or have it use a browser that runs there: --browser-url"
)


class Window:
    """The window of one page.

    Attributes:
        in_hand: Whether the user works in it, so that the page must not be touched.
    """

    def __init__(self, page: Page, cdp: CDPSession) -> None:
        self.in_hand = False
        self._page = page
        self._cdp = cdp
        self._free = anyio.Event()
        self._opened: list[Page] = []

    async def exists(self) -> bool:
        """Whether the user can see it."""
        with anyio.move_on_after(PAGE_LIMIT), suppress(PlaywrightError):
            about = await self._cdp.send("Browser.getVersion")
            return _UNSEEN not in about["userAgent"]
        return False

    async def bring_to_front(self) -> None:
        """Bring the tab to the front if possible."""
        with anyio.move_on_after(PAGE_LIMIT), suppress(PlaywrightError):
            window = await self._cdp.send("Browser.getWindowForTarget")
            if window["bounds"].get("windowState") == "minimized":
                given = {"windowId": window["windowId"], "bounds": {"windowState": "normal"}}
                await self._cdp.send("Browser.setWindowBounds", given)
            await self._page.bring_to_front()

    @contextmanager
    def hand(self) -> Iterator[list[Page]]:
        """Leave the window to the user, and yield the windows that the page opens meanwhile."""
        self.in_hand, self._free, self._opened = True, anyio.Event(), []
        try:
            yield self._opened
        finally:
            self.in_hand = False
            self._free.set()

    def on_opened(self, other: Page) -> None:
        """Keep a window that the page opened while the user works in it."""
        self._opened.append(other)

    async def wait_free(self) -> None:
        """Wait until the user no longer works in it."""
        while self.in_hand:
            await self._free.wait()


class Dialogs:
    """The dialogs of one page.

    Attributes:
        is_open: Whether one is open, which stops the page's scripts.
        count: The number opened so far.
    """

    def __init__(self, page: PageState, window: Window, files: PageFiles, cdp: CDPSession) -> None:
        self.is_open = False
        self.count = 0
        self._page = page
        self._window = window
        self._files = files
        self._cdp = cdp
        self._turns: set[anyio.CancelScope] = set()  # that are waited for
        self._asking = anyio.CancelScope()
        cdp.on("Page.javascriptDialogOpening", self._on_opening)
        cdp.on("Page.javascriptDialogClosed", self._on_closed)

    def stop_at(self, turn: anyio.CancelScope) -> None:
        """Cancel `turn`, a wait for the page, when a dialog opens, until `forget`."""
        self._turns.add(turn)

    def forget(self, turn: anyio.CancelScope) -> None:
        """No longer cancel `turn` when a dialog opens."""
        self._turns.discard(turn)

    def _on_closed(self, event: Mapping[str, Any]) -> None:
        self.is_open = False
        self._asking.cancel()  # in a window its person may have answered it

    def _on_opening(self, event: Mapping[str, Any]) -> None:
        page = self._page
        self.is_open = True
        self.count += 1
        for turn in self._turns:
            turn.cancel()
        if page.listener is None or self._window.in_hand:
            return
        kind = event.get("type")
        said, cut = page.console.replace_secrets(event.get("message", ""))
        words = message(said, beyond=cut)
        if kind == "beforeunload":  # it is dismissed
            self._files.dismiss(STAYED)
        own = event.get("frameId") == page.main_frame_id and page.is_own_site(event.get("url", ""))
        if own and self._files.is_calling and kind in ("confirm", "prompt") and not page.lost:
            default = event.get("defaultPrompt", "")
            default = default if page.console.replace_secrets(default) == (default, 0) else ""
            self._asking = anyio.CancelScope()
            page.tasks.start_soon(self._ask_dialog, kind, words, default, self._asking)
            return
        page.tasks.start_soon(self._close_dialog, False)
        frame = {} if own else {"frame": site(event.get("url", ""))}
        page.notify(
            NoticeKind.OTHER,
            f"notifications/dialog/{kind}",
            {"message": words, **frame, "outcome": "dismissed"},
        )

    async def _ask_dialog(
        self, kind: str, words: str, default: str, scope: anyio.CancelScope
    ) -> None:
        """Ask the user a `confirm()` or `prompt()` (X21), and close it with the answer.

        What a confirm() does is unknown, so it counts as destructive and only the user can accept
        it.
        """
        accept, typed = False, ""
        method = "elicitation/confirm"
        params: JsonObject = {"message": words, "destructive": True}
        if kind == "prompt":
            schema: JsonObject = {"type": "string", **({"default": default} if default else {})}
            method, params = "elicitation/input", {"prompt": words, "schema": schema}
        try:
            if self._page.listener is not None:
                asked: JsonObject = {"method": method, "params": params}
                response = await handle_elicitation(
                    asked, self._page.listener, self._page.origin, scope, presumed=True
                )
                if response["success"]:
                    data = as_object(response.get("data"))
                    accept = kind == "prompt" or data.get("confirmed") is True
                    typed = str(data.get("value", ""))
        finally:
            with anyio.CancelScope(shield=True):
                if not scope.cancel_called:
                    await self._close_dialog(accept, typed)

    async def _close_dialog(self, accept: bool, typed: str = "") -> None:
        given = {"accept": accept, "promptText": typed}
        with anyio.move_on_after(END_LIMIT), suppress(PlaywrightError):
            await self._cdp.send("Page.handleJavaScriptDialog", given)
