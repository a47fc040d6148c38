"""The page and the inbox in each of their states, as docs/screenshots.py goes through them, and
what becomes of what was typed: through errors, Back, loading again, later, and the death of the
bridge.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, expect
from support.harness import PATIENCE
from support.http_server import Reply, Request, serving
from support.paths import ROOT
from support.programs import Programs

from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.context import AskContext
from abp_bridge.surfaces.page.surface import LazyPageServer

Json = Any

pytestmark = pytest.mark.browser

_spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs/screenshots.py")
assert _spec is not None
assert _spec.loader is not None
screenshots: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(screenshots)

CONTRAST: Json = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}


async def test_axe_finds_nothing_in_any_state_light_or_dark(browser: Browser) -> None:
    found: dict[str, Json] = {}
    seen: list[str] = []

    async def look(tab: Page, name: str) -> None:
        seen.append(name)
        for scheme, options in (("light", None), ("dark", CONTRAST)):
            await tab.emulate_media(
                color_scheme=scheme,  # type: ignore[arg-type]
                reduced_motion="reduce",
            )
            results = await Axe().run(tab, options=options or {"resultTypes": ["violations"]})
            if results.violations_count:
                found[f"{name}, {scheme}"] = results.generate_report()
        await tab.emulate_media(color_scheme="light")
        assert await tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0

    async with asyncio.timeout(8 * PATIENCE):  # which sets no time of a question
        async with anyio.create_task_group() as tasks:
            await screenshots.visit(LazyPageServer(tasks), browser, look)
            tasks.cancel_scope.cancel()
        await screenshots.visit_inbox(browser, look)
    assert found == {}
    assert len(seen) == 22


CONTEXT = AskContext(timeout=600.0, app="https://bank.example", host="Codex 1 (MCP 2)")


def ask(**params: Json) -> Question:
    raw: Json = {"method": "elicitation/input", "params": params}
    return decode_question(raw, id="q", origin="https://app.example")


@asynccontextmanager
async def at(
    person: BrowserContext, question: Question, context: AskContext = CONTEXT
) -> AsyncIterator[Page]:
    async with anyio.create_task_group() as tasks:
        async with LazyPageServer(tasks).show(question, context) as sheet:
            tab = await person.new_page()
            await tab.goto(sheet.url)
            yield tab
        tasks.cancel_scope.cancel()


TWO: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "maxLength": 5},
        "key": {"type": "string", "title": "API key", "writeOnly": True},
    },
    "required": ["name"],
}


async def test_what_was_typed_is_there_after_errors_back_loading_again_and_later(
    person: BrowserContext,
) -> None:
    async with at(person, ask(prompt="Who?", schema=TWO)) as tab:
        name, key = tab.get_by_label("Name"), tab.get_by_label("API key")
        await name.press_sequentially("Grace Hopper")
        await key.fill("planted")
        await expect(name).to_have_value("Grace Hopper")  # nothing is cut
        await expect(tab.get_by_text("7 characters too many.")).to_be_visible()
        stored = await tab.evaluate("JSON.stringify({...sessionStorage})")
        assert "abp http" in stored
        assert "Grace" not in stored  # but as only this bridge's pages can read it
        await tab.reload()
        await expect(name).to_have_value("Grace Hopper")
        await expect(key).to_have_value("")
        await tab.evaluate("document.querySelector('form').noValidate = true")
        await name.press("Control+Enter")
        await expect(tab.get_by_role("alert")).to_contain_text("Name must")
        assert (await tab.title()).startswith("Error: https://app.example asks")
        await tab.reload()  # which asks for no form to be sent again
        await expect(name).to_have_value("Grace Hopper")
        await name.fill("Grace")
        await tab.get_by_role("button", name="Check your answers").click()
        await expect(tab.get_by_role("definition").first).to_have_text("Grace")
        await tab.go_back()
        await expect(name).to_have_value("Grace")
        await name.fill("Ada")
        await tab.get_by_role("button", name="Later").click()
        await expect(tab.get_by_role("heading")).to_have_text("Open questions")
        await tab.get_by_role("link").click()
        await expect(name).to_have_value("Ada")


SECRET_CHOICES: Json = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["blue", "red"], "writeOnly": True},
        "sure": {"type": "boolean", "sensitive": True},
        "note": {"type": "string", "title": "Note"},
    },
}


async def test_what_is_chosen_in_secret_is_not_kept_in_the_tab(person: BrowserContext) -> None:
    async with at(person, ask(prompt="?", schema=SECRET_CHOICES)) as tab:
        await tab.get_by_label("red").check()
        await tab.get_by_label("Yes").check()
        await tab.get_by_label("Note").fill("Ada")
        await tab.reload()
        await expect(tab.get_by_label("Note")).to_have_value("Ada")
        await expect(tab.get_by_label("red")).not_to_be_checked()
        await expect(tab.get_by_label("Yes")).not_to_be_checked()


async def test_a_question_is_the_name_of_its_field_and_an_apps_name_is_no_origin(
    person: BrowserContext,
) -> None:
    async with at(person, ask(prompt="Your name?", schema={"type": "string"})) as tab:
        await expect(tab.get_by_role("textbox", name="Your name?", exact=True)).to_be_focused()
        await expect(tab.locator(".who")).to_contain_text("https://app.example asks")
        await expect(tab.locator(".who")).to_contain_text(
            "It calls itself \u201chttps://bank.example\u201d. For Codex 1."
        )
        await tab.keyboard.press("Tab")
        await expect(tab.get_by_role("button", name="Send")).to_be_focused()


async def test_a_bridge_that_dies_is_said_and_who_has_its_port_then_gets_nothing_of_its_tab(
    person: BrowserContext, programs: Programs
) -> None:
    heard: list[Request] = []

    def answer(request: Request) -> Reply:
        heard.append(request)
        return Reply(b"<h1>abp-bridge</h1><p>Type your password again</p>", "text/html")

    command = [sys.executable, "-m", "abp_bridge", "ask", "input", "Name?", "--on", "page"]
    env = programs.environment(BROWSER=programs.add("browser"))
    with anyio.fail_after(2 * PATIENCE):
        async with await anyio.open_process(command, env=env) as bridge:
            tab = await person.new_page()
            await tab.goto((await programs.wait())[0][1])
            await tab.get_by_role("textbox").fill("Ada")
            bridge.kill()
            await bridge.wait()
    with serving(answer, urlsplit(tab.url).port or 0):
        await expect(tab.get_by_role("alert")).to_contain_text("The bridge has gone")
        await expect(tab.get_by_label("What you typed")).to_have_value("Ada")
        await expect(tab.get_by_role("button", name="Send")).to_be_disabled()
        assert {each.path.split("/")[2] for each in heard} == {"proof"}
        assert not [each for each in heard if each.headers["Cookie"] or each.body]
        await tab.reload()  # which a person may do: then what the tab keeps is theirs
        await expect(tab.get_by_text("Type your password")).to_be_visible()
        stored = await tab.evaluate("JSON.stringify({...sessionStorage})")
        assert "abp http" in stored
        assert "Ada" not in stored
