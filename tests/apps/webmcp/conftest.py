"""One web server and one browser for all tests of pages that need no more than a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser
from support.pages.server import Web, web
from support.tool_pages import SETTINGS

from abp_bridge.apps.browser.chromium import run_chromium


@pytest.fixture(scope="session")
def site() -> Iterator[Web]:
    with web() as running:
        yield running


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium(SETTINGS) as running:
        yield running
