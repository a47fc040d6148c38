"""The dialogs of an app's page: `confirm()` and `prompt()` while a call runs are asked of the
person, all others are closed and told.

While the person has the page in hand they are shown in its window, and are theirs; so is each that
they answer there before anybody else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.call_files import STAYED
from abp_bridge.apps.browser.console import Console
from abp_bridge.apps.browser.fetch import site
from abp_bridge.apps.browser.page_files import PageFiles
from abp_bridge.apps.browser.window import Window
from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.core.event import NoticeKind
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.sanitize import message
from abp_bridge.session.app import AppListener

DISMISS_LIMIT = 0.4  # seconds for the browser to close a dialog


class DialogPage(Protocol):
    """What a page is to its dialogs (`page.AppPage`)."""

    lost: str
    main_frame_id: str
    window: Window
    console: Console
    files: PageFiles
    tasks: TaskGroup

    @property
    def listener(self) -> AppListener | None: ...
    @property
    def origin(self) -> str: ...
    def is_own_site(self, url: str) -> bool: ...
    def notify(self, event: NoticeKind, name: str, data: JsonObject) -> None: ...


class Dialogs:
    """The dialogs of one page.

    Attributes:
        is_open: Whether one is open: nothing of the page runs then.
        count: How many it has opened so far.
    """

    def __init__(self, page: DialogPage, cdp: CDPSession) -> None:
        self.is_open = False
        self.count = 0
        self._page = page
        self._cdp = cdp
        self._turns: set[anyio.CancelScope] = set()  # that are waited for
        self._asking = anyio.CancelScope()
        cdp.on("Page.javascriptDialogOpening", self._on_opening)
        cdp.on("Page.javascriptDialogClosed", self._on_closed)

    def stop_at(self, turn: anyio.CancelScope) -> None:
        """Cancel `turn`, a wait for the page, where a dialog opens; until `forget`."""
        self._turns.add(turn)

    def forget(self, turn: anyio.CancelScope) -> None:
        """No longer cancel `turn` where a dialog opens."""
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
        if page.listener is None or page.window.in_hand:
            return
        kind = event.get("type")
        said, cut = page.console.replace_secrets(event.get("message", ""))
        words = message(said, beyond=cut)
        if kind == "beforeunload":  # it is dismissed
            page.files.dismiss(STAYED)
        own = event.get("frameId") == page.main_frame_id and page.is_own_site(event.get("url", ""))
        if own and page.files.is_calling and kind in ("confirm", "prompt") and not page.lost:
            default = event.get("defaultPrompt", "")
            default = default if page.console.replace_secrets(default) == (default, 0) else ""
            self._asking = anyio.CancelScope()
            page.tasks.start_soon(self._ask, kind, words, default, self._asking)
            return
        page.tasks.start_soon(self._close, False)
        frame = {} if own else {"frame": site(event.get("url", ""))}
        page.notify(
            NoticeKind.OTHER,
            f"notifications/dialog/{kind}",
            {"message": words, **frame, "outcome": "dismissed"},
        )

    async def _ask(self, kind: str, words: str, default: str, scope: anyio.CancelScope) -> None:
        """Ask the person what a `confirm()` or `prompt()` asks (X21); close it with their answer.

        What a confirm() confirms, nobody knows: it is asked as one that destroys, so that only a
        person can say yes.
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
                    await self._close(accept, typed)

    async def _close(self, accept: bool, typed: str = "") -> None:
        given = {"accept": accept, "promptText": typed}
        with anyio.move_on_after(DISMISS_LIMIT), suppress(PlaywrightError):
            await self._cdp.send("Page.handleJavaScriptDialog", given)
