"""The page of a server's question behind `abp-bridge mcp`, under a host that cannot be asked, in a
real Chromium: what stands there, and what each button makes of the deed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from playwright.async_api import BrowserContext, Page, expect
from support.mcp_proxy import Proxied, proxied
from support.paths import PYTHON
from support.programs import Desktop

Json = Any

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.process]


async def visit(person: BrowserContext, desktop: Desktop) -> Page:
    """The tab that the question opened."""
    tab = await person.new_page()
    await tab.goto(await anyio.to_thread.run_sync(desktop.address))
    await expect(tab.get_by_text(f"{PYTHON} mcp_server.py read deeds asks")).to_be_visible()
    return tab


def given(host: Proxied) -> Json:
    """The only answer that the server got: a person's, on the page."""
    (answer,) = [each["result"] for each in host.to_server() if "action" in each.get("result", {})]
    about = answer.pop("_meta")["abp"]
    assert (about["answeredBy"], about["route"][:4]) == ("person", "page")
    return answer


MORE = "Later", "Do not answer", "More time"
ASKED = {
    "mongodb": ("**Drop** the database `test`?", ["No", "Yes, do it", *MORE]),
    "okta": ("Deactivate the user?", ["No, do not", "Deactivate", *MORE]),
    "azure": ("Read the secret?", ["No, do not", "Read", *MORE]),
    "fastmcp": ("Name?", ["Send", "Later", "More time"]),
    "supabase": ("Run `drop table t`?", ["No, do not", "Run", *MORE]),
}


async def test_a_page_that_is_closed_leaves_the_deed_undone(
    person: BrowserContext, tmp_path: Path
) -> None:
    desktop = Desktop(tmp_path)
    with proxied(tmp_path, env=desktop.env) as host:
        call = host.begin_call("okta")
        tab = await visit(person, desktop)
        await tab.close()
        await anyio.to_thread.run_sync(host.response, call)
        assert given(host) == {"action": "cancel"}
        assert not host.deeds


async def test_a_form_that_is_not_taken_leaves_the_question_with_its_person(
    person: BrowserContext, tmp_path: Path
) -> None:
    """The page that says so is the person's tab as well: nobody has closed it."""
    desktop = Desktop(tmp_path)
    with proxied(tmp_path, env=desktop.env) as host:
        call = host.begin_call("fastmcp")
        tab = await visit(person, desktop)
        await tab.evaluate(
            """() => {
              const form = document.querySelector('form');
              form.insertAdjacentHTML('beforeend', '<textarea name="more"></textarea>');
              form.lastElementChild.value = 'x'.repeat(2 ** 20);
              HTMLFormElement.prototype.submit.call(form);
            }"""
        )
        await expect(tab.get_by_role("heading")).to_have_text("Not taken")
        assert await tab.locator("[data-inbox]").count() == 1
        await tab.get_by_role("link").click()
        await tab.get_by_label("Value").fill("Ada")
        await tab.get_by_role("button", name="Send", exact=True).click()
        await anyio.to_thread.run_sync(host.response, call)
        assert host.deeds == ["Ada"]


YES: dict[str, Json] = {
    "mongodb": {"confirmation": "Yes"},
    "okta": {"confirm": True},
    "azure": {"decision": "accept"},
    "fastmcp": {"value": "Ada"},
    "supabase": {},
}


# What a server does with a no is not the page's: tests/proxies/mcp has each of them.
@pytest.mark.parametrize(
    ("server", "action"),
    [*((server, "accept") for server in ASKED), ("mongodb", "decline"), ("azure", "cancel")],
)
async def test_a_button_on_the_page_decides(
    server: str, action: str, person: BrowserContext, tmp_path: Path
) -> None:
    desktop = Desktop(tmp_path)
    words, names = ASKED[server]
    decline, accept, cancel = names[0], names[1], "Do not answer"
    if server == "fastmcp":
        decline, accept, cancel = "Decline", "Send", "Cancel"
    with proxied(tmp_path, env=desktop.env) as host:
        call = host.begin_call(server)
        tab = await visit(person, desktop)
        await expect(tab.get_by_role("heading")).to_have_text(words)
        await expect(tab.get_by_role("button")).to_have_text(names)
        if server == "fastmcp" and action == "accept":
            await tab.get_by_label("Value").fill("Ada")
        pressed = {"accept": accept, "decline": decline, "cancel": cancel}[action]
        if pressed in ("Decline", "Cancel"):
            await tab.get_by_text("Do not answer").click()
        await tab.get_by_role("button", name=pressed, exact=True).click()
        said = await anyio.to_thread.run_sync(host.text, call)
        await expect(tab.get_by_role("button")).to_have_count(0)
        content = {"content": YES[server]} if action == "accept" else {}
        assert given(host) == {"action": action, **content}
        assert (len(host.deeds), said.startswith("done")) == ((1, True) if content else (0, False))
