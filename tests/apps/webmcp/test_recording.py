"""What is written down of a page's WebMCP tools (`--record`); it is played without a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp_types as types
import pytest
from support.browser import Browser
from support.harness import hosted, text
from support.pages.server import web

Json = Any

pytestmark = pytest.mark.browser

SECRET = "tr0ub4dor&3-ü"


def sign_in(url: str) -> None:
    browser = Browser()
    browser.open(url)
    browser.send(**{"field-0": "ann", "field-1": SECRET})
    browser.send()  # shown once more, to be checked
    assert "Thank you" in browser.page


async def person(params: Any) -> types.ElicitResult:
    if params.mode == "url":
        await anyio.to_thread.run_sync(sign_in, params.url)
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content={"name": "Eve", "guests": 4, "room": "out"})


@pytest.fixture
async def desk() -> AsyncIterator[str]:
    with web() as site:
        yield f"{site.here}/reception.html"


async def test_what_a_form_was_given_as_a_secret_is_in_no_recording(
    desk: str, tmp_path: Path
) -> None:
    trace = tmp_path / "desk.trace"
    async with hosted("--app", desk, "--record", str(trace), answer=person) as host:
        assert "[secret]" in text(await host.call("sign_in", user="ann"))
    written = trace.read_text()
    assert "Sign in" in written
    assert SECRET not in written
