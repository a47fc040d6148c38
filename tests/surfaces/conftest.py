"""Who meets the bridge's own page: a real browser, somebody in it, and the desktop's programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, expect
from support.harness import PATIENCE, leave
from support.programs import Programs

from abp_bridge.apps.browser.chromium import run_chromium
from abp_bridge.settings import Settings

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium(Settings(chrome_sandbox=False, browser_timeout=20.0)) as running:
        yield running


@pytest.fixture
async def person(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 400, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    yield context
    await leave(context)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Programs(folder)
