"""Apps that are Chrome extensions (D10): a folder, loaded unpacked into a Chromium that knows
nobody, and its page, which has no manifest of ABP's: what it can do it says itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.apps.browser.chromium import run_profile
from abp_bridge.apps.browser.manifest import Manifest, NoManifestError
from abp_bridge.apps.browser.page import AppPage, Tab
from abp_bridge.apps.browser.tabs import browser_errors
from abp_bridge.core.capability import AppInfo
from abp_bridge.core.json_value import as_object, as_text, parse_json
from abp_bridge.core.sanitize import label
from abp_bridge.session.app import AppError, QuestionListener
from abp_bridge.settings import Settings

PAGE = "abp-app.html"  # what ABP's documents call it

_HINT = (
    f"An extension for ABP has {PAGE} beside its manifest.json. Google Chrome and Edge load no"
    " folder of an extension any more: ABP_CHROME names a Chromium."
)


class ExtensionApp(BrowserApp):
    """The extension in `target`, a folder that the person named.

    Raises:
        AppError: Its manifest.json cannot be read.
    """

    def __init__(self, target: str, settings: Settings) -> None:
        folder = Path(target).expanduser().resolve()
        super().__init__(
            "http://127.0.0.1/",
            settings,
            named=True,
            origin=f"extension {label(folder.name)}",
            tabs=_ExtensionTabs(settings, folder),
        )
        self._address = f"chrome-extension://{_find_id(folder)}/{PAGE}"

    async def _discover(self) -> Manifest:
        return Manifest(self._address, (), (), {})

    async def _visit(
        self, page: AppPage, found: Manifest | NoManifestError, sites: set[str]
    ) -> AppInfo:
        try:
            return await super()._visit(page, found, sites)
        except AppError as problem:
            raise problem.with_message(f"{problem} {_HINT}") from None


class _ExtensionTabs:
    remembers = False
    sign_in = ""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder

    @asynccontextmanager
    async def open(self, address: str, listener: QuestionListener) -> AsyncIterator[Tab]:
        """Start a browser with the extension (`Tabs.open`)."""
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


def _find_id(folder: Path) -> str:
    """The id that Chromium gives it: by the key in its manifest, else by its folder."""
    try:
        manifest = as_object(parse_json((folder / "manifest.json").read_bytes()))
        key = as_text(manifest.get("key"))
        known = base64.b64decode(key, validate=True) if key else os.fsencode(folder)
    except (OSError, ValueError, binascii.Error) as problem:
        words = f"extension {label(folder.name)}: its manifest.json cannot be read: {problem}"
        raise AppError(words, "INVALID_PARAMS") from None
    digits = hashlib.sha256(known).hexdigest()[:32]
    return "".join(chr(ord("a") + int(each, 16)) for each in digits)
