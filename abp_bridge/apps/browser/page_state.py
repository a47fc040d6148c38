"""The state of an app's open page, shared by the page, its files and its dialogs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from anyio.abc import TaskGroup
from playwright.async_api import BrowserContext, Page

from abp_bridge.apps.browser.console import Console, SecretListener
from abp_bridge.apps.browser.fetch import site
from abp_bridge.core.event import Notice, NoticeKind
from abp_bridge.core.json_value import JsonObject
from abp_bridge.session.app import AppListener

SHORT_LIMIT = 0.4  # seconds for the page to react as its call or session ends: a host waits two
PAGE_LIMIT = 5.0  # seconds for what the page or its browser does immediately, unless it hangs


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab for an app; `alone` in its context; `shows` the app already and will be reloaded."""

    context: BrowserContext
    page: Page
    alone: bool = True
    shows: bool = False


class PageState:
    """The state of one page.

    Attributes:
        shown: Playwright's page.
        listener: Gets its events; None once the session has left.
        tasks: Runs its handlers.
        console: Its console.
        sites: The origins that it may show.
        lost: Why it is lost.
        main_frame_id: The CDP id of its main frame.
    """

    def __init__(self, page: Page, listener: AppListener, tasks: TaskGroup, alias: str) -> None:
        self.shown = page
        self.console = Console(self._tell, lambda: site(page.main_frame.url))
        self.listener: AppListener | None = SecretListener(listener, self.console)
        self.tasks = tasks
        self.sites: Collection[str] = ()
        self.lost = ""
        self.main_frame_id = ""
        self._alias = alias

    @property
    def origin(self) -> str:
        """The origin that the user sees."""
        return self._alias or site(self.shown.main_frame.url)

    def is_own_site(self, url: str) -> bool:
        """Return whether an address has the app's origin."""
        return site(url) in self.sites

    def note(self, words: str) -> None:
        """Notify the listener of a refusal."""
        shown, _ = self.console.replace_secrets(words)  # a page names its files as it likes
        self.notify(
            NoticeKind.ERROR, "notifications/error", {"code": "PERMISSION_DENIED", "message": shown}
        )

    def notify(self, event: NoticeKind, name: str, data: JsonObject) -> None:
        """Send the listener a notice of the bridge."""
        self._tell(Notice(event, name, data))

    def _tell(self, notice: Notice) -> None:
        if self.listener is not None:
            self.listener.on_notice(notice)
