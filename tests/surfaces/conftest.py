"""The page in a real browser, the desktop's programs, and HTTP without TCP where no marker says
otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, expect
from support.harness import PATIENCE, leave
from support.local_http import without_tcp  # noqa: F401
from support.programs import Programs

expect.set_options(timeout=PATIENCE * 1000)


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
