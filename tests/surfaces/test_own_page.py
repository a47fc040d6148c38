"""The page as a surface of its own (`--page`): hosts that open no addresses show its link in other
ways, and a secret goes to the app alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from playwright.async_api import BrowserContext, expect
from support.acp_harness import client
from support.browser import LINK, Browser
from support.harness import PATIENCE, hosted, text

Json = Any

KEY = "planted-key-7f3a"
SECRET: dict[str, Json] = {
    "prompt": "Enter your API key",
    "schema": {"type": "string", "title": "API key"},
}


@pytest.mark.browser
@pytest.mark.process
async def test_a_page_opens_by_itself_where_there_is_a_desktop(
    person: BrowserContext, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    opener = tmp_path / "xdg-open"
    opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new && mv {opened}.new {opened}\n')
    opener.chmod(0o755)
    desktop = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DISPLAY": ":7"}

    async def answer(params: Any) -> None:
        raise AssertionError(params)

    info = types.Implementation(name="codex-mcp-client", version="0.169.0")
    arguments = ["--app", "demo", "--page", "open", "--ask-on", "page"]
    async with (
        hosted(*arguments, answer=answer, client_info=info, env=desktop) as host,
        anyio.create_task_group() as tasks,
    ):

        async def act() -> None:
            with anyio.fail_after(PATIENCE):
                while not opened.exists():
                    await anyio.lowlevel.checkpoint()
            address = opened.read_text()
            assert LINK.search(address) is None, "everybody can read a command"
            tab = await person.new_page()
            await tab.goto(address)  # a file that leads there
            await tab.get_by_label("API key").fill(KEY)
            await tab.keyboard.press("Enter")
            await expect(tab.get_by_text("Thank you")).to_be_visible()

        tasks.start_soon(act)
        assert (await host.ask("elicitation/input", **SECRET))["data"] == {"value": KEY}


@pytest.mark.slow
async def test_a_person_who_is_on_the_page_may_be_rid_of_the_card() -> None:
    """Done is pressed again and again; what counts is that somebody followed the link."""
    browser = Browser()
    pressed = 0

    async def press(method: str, params: Json) -> Json:
        nonlocal pressed
        pressed += 1
        if pressed == 2:
            await anyio.to_thread.run_sync(browser.open, LINK.findall(json.dumps(params))[0])
            tasks.start_soon(send)
        return {"outcome": {"outcome": "selected", "optionId": "done"}}

    async def send() -> None:
        await anyio.to_thread.run_sync(lambda: browser.send(**{"field-0": KEY}))

    async with (
        client("--app", "demo", "--page", handler=press) as editor,
        anyio.create_task_group() as tasks,
    ):
        await editor.initialize({})
        _, words = await editor.prompt(
            await editor.new(),
            "/demo_ask"
            f" {json.dumps({'request': {'method': 'elicitation/input', 'params': SECRET}})}",
        )
    assert json.loads(words)["data"] == {"value": KEY}
    assert pressed == 2


@pytest.mark.slow
async def test_a_host_that_only_says_done_was_not_on_the_page_and_its_card_says_so() -> None:
    cards: list[str] = []

    def press(method: str, params: Json) -> Json:
        cards.append(json.dumps(params))
        return {"outcome": {"outcome": "selected", "optionId": "done"}}

    async with client("--app", "demo", "--page", handler=press) as editor:
        await editor.initialize({})
        _, words = await editor.prompt(
            await editor.new(),
            "/demo_ask"
            f" {json.dumps({'request': {'method': 'elicitation/input', 'params': SECRET}})}",
        )
    response, _ = json.JSONDecoder().raw_decode(words)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert (
        "said 3 times that it is done, and nobody was on the page" in response["error"]["message"]
    )
    assert ["Not answered yet: open the link" in card for card in cards] == [False, True, True]


@pytest.mark.slow
async def test_what_only_a_model_was_told_does_not_stop_a_hosts_clock() -> None:
    """Codex stops it for its own dialogs. Before its patience ends, the call says that it
    goes on.
    """
    info = types.Implementation(name="codex-mcp-client", version="0.169.0")
    options = ["--ask-via-model", "--ask-on", "model-relay"]
    async with hosted(
        "--app",
        "demo",
        *options,
        client_info=info,
        answer=lambda params: None,
        env={"ABP_HOST_PATIENCE": "500"},
    ) as host:
        await host.client.call_tool("abp_connect", {})
        told = text(
            await host.call(
                "demo.ask", request={"method": "elicitation/input", "params": {"prompt": "Name?"}}
            )
        )
        call = re.search(r'\{"call": "([^"]+)"\}', told)
        assert call is not None
        again = text(await host.client.call_tool("abp_wait", {"call": call[1]}))
    assert "waits for an answer of the person's" in again
