"""What a page wrote of its tools, the browser's own list apart: for `abp-bridge check`, as that has
neither what the browser refused nor what it passed over.

`written.js` is the other half of this module.
"""

from __future__ import annotations

from pathlib import Path

import anyio
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.chromium import error_summary
from abp_bridge.apps.browser.page import AppPage
from abp_bridge.core.json_value import JsonObject, as_object, parse_json

SCRIPT = Path(__file__).with_name("written.js")
READ_LIMIT = 2.0  # seconds
MAX_TEXT = 2**22  # characters of what is read


class WrittenTools:
    """What one page wrote: told to who overhears it, as `tools`."""

    def __init__(self, page: AppPage) -> None:
        self._page = page
        self._script = SCRIPT.read_text(encoding="utf-8")

    async def attach(self) -> None:
        """Note each registration from the page's first script on.

        Raises:
            PlaywrightError: The page is gone.
        """
        await self._page.shown.add_init_script(f"({self._script})(false)")

    async def tell(self) -> None:
        """Report what the page wrote so far, or `why` it cannot be read."""
        said: JsonObject = {"why": f"it did not say within {READ_LIMIT:g} s"}
        with anyio.move_on_after(READ_LIMIT):
            try:
                said = _decode(await self._page.shown.evaluate(f"({self._script})(true)"))
            except PlaywrightError as problem:
                said = {"why": error_summary(problem)}
        self._page.overhear("tools", said, False)


def _decode(text: object) -> JsonObject:
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return {"why": f"it is no text of at most {MAX_TEXT} characters"}
    try:
        return as_object(parse_json(text))
    except ValueError:
        return {"why": "it is no JSON"}
