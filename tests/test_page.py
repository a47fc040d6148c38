"""The bridge's own page in a real Chromium: what a person sees and does there, who is let in, and where a secret goes and where it does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import anyio
import mcp_types as types
import pytest
from acp_harness import client
from harness import MODERN, PATIENCE, VERSIONS, Hosted, hosted
from playwright.async_api import Browser, BrowserContext, expect

from abp_bridge.apps.chrome import chrome
from abp_bridge.settings import Settings

Json = Any

pytestmark = pytest.mark.anyio

KEY = "planted-key-7f3a"
SECRET: dict[str, Json] = {"prompt": "Enter your API key", "schema": {"type": "string", "title": "API key"}}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chrome(Settings(chrome_sandbox=False, browser_timeout=20.0)) as running:
        yield running


@pytest.fixture
async def person(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 400, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    yield context
    await context.close()


async def type_key(person: BrowserContext, url: str) -> None:
    """With the keyboard alone."""
    tab = await person.new_page()
    await tab.goto(url)
    await expect(tab.get_by_label("API key")).to_be_focused()
    await tab.keyboard.type(KEY)
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_text("Thank you")).to_be_visible()


Act = Callable[[str], Coroutine[Any, Any, None]]


@asynccontextmanager
async def asked(act: Act, version: str = MODERN) -> AsyncIterator[Hosted]:
    """A host with url mode, whose person goes where it points and acts there; the session lasts until that is done."""

    async def answer(params: Any) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams), params
        tasks.start_soon(act, params.url)
        return types.ElicitResult(action="accept")

    async with hosted("--app", "demo", answer=answer, version=version) as host, anyio.create_task_group() as tasks:
        yield host


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
async def test_a_secret_goes_to_the_app_and_nowhere_else(person: BrowserContext, version: str) -> None:
    async with asked(lambda url: type_key(person, url), version) as host:
        # The demo returns what it got; so the app's own words are where it may be, and only there.
        response = await host.ask("elicitation/input", **SECRET)
        assert response["data"] == {"value": KEY}
        assert (response["metadata"]["route"], response["metadata"]["answeredBy"]) == ("mcp-url (on a page of the bridge's own)", "person")
        status = await host.status()
    assert KEY not in json.dumps(status)
    where = [who for who, message in host.wire.lines if KEY in json.dumps(message)]
    assert where == ["bridge"], "only in the result that the app itself returned"
    completed = host.wire.sent("notifications/elicitation/complete")
    assert len(completed) == (version == "2025-11-25")


async def test_an_acp_client_with_addresses_is_sent_to_the_page(person: BrowserContext) -> None:
    def answer(method: str, params: Json) -> Json:
        assert (method, params["mode"]) == ("elicitation/create", "url")
        tasks.start_soon(type_key, person, params["url"])
        return {"action": "accept"}

    async with client("--app", "demo", handler=answer) as editor, anyio.create_task_group() as tasks:
        await editor.initialize({"elicitation": {"url": {}}})
        request = {"request": {"method": "elicitation/input", "params": SECRET}}
        _, words = await editor.prompt(await editor.new(), f"/demo_ask {json.dumps(request)}")
        assert json.loads(words)["data"] == {"value": KEY}
        assert len(editor.wire.sent("elicitation/complete")) == 1


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_host_that_does_not_go_there_ends_the_question(action: str) -> None:
    async with hosted("--app", "demo", answer=lambda params: types.ElicitResult.model_validate({"action": action})) as host:
        response = await host.ask("elicitation/input", **SECRET)
    assert response["metadata"]["outcome"] == {"decline": "declined", "cancel": "cancelled"}[action]


@pytest.mark.parametrize(("button", "outcome"), [("Decline", "declined"), ("Cancel", "cancelled")])
async def test_the_person_can_say_no_on_the_page(person: BrowserContext, button: str, outcome: str) -> None:
    async def act(url: str) -> None:
        tab = await person.new_page()
        await tab.goto(url)
        await tab.get_by_role("button", name=button).click()
        await expect(tab.get_by_text("The app has been told")).to_be_visible()

    async with asked(act) as host:
        assert (await host.ask("elicitation/input", **SECRET))["metadata"]["outcome"] == outcome


async def test_what_does_not_fit_is_said_and_can_be_mended(person: BrowserContext) -> None:
    schema = {"type": "string", "minLength": 12, "format": "password", "pattern": "^planted"}

    async def act(url: str) -> None:
        tab = await person.new_page()
        await tab.goto(url)
        await tab.locator("input[type=password]").fill("wrong, and long enough")
        await tab.get_by_role("button", name="Send").click()
        await expect(tab.get_by_role("alert")).to_contain_text("pattern")
        assert await tab.locator("input[type=password]").input_value() == "", "a secret is not written into a page"
        await tab.locator("input[type=password]").fill(KEY)
        await tab.get_by_role("button", name="Send").click()
        await expect(tab.get_by_text("Thank you")).to_be_visible()

    async with asked(act) as host:
        assert (await host.ask("elicitation/input", prompt="Password?", schema=schema))["data"] == {"value": KEY}


FIELDS: Json = {
    "key": {"type": "string", "title": "API key", "writeOnly": True},
    "mail": {"type": "string", "title": "Mail", "format": "email"},
    "day": {"type": "string", "title": "Day", "format": "date"},
    "seats": {"type": "integer", "title": "Seats", "minimum": 1, "maximum": 9, "default": 2},
    "price": {"type": "number", "title": "Price"},
    "train": {"type": "boolean", "title": "By train"},
    "size": {"enum": ["S", "M"], "title": "Size"},
    "month": {"enum": [f"month {number}" for number in range(1, 13)], "title": "Month"},
    "meals": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "title": "Meals"},
    "more": {"type": "object", "title": "More"},
    "note": {"type": "string", "title": "Note", "maxLength": 2000},
    "left": {"type": "string", "title": "Left"},
}


async def fill_in(person: BrowserContext, url: str) -> None:
    """Everything there is to fill in, as a person would."""
    tab = await person.new_page()
    await tab.goto(url)
    await expect(tab.get_by_role("heading")).to_have_text("Everything")
    await expect(tab.get_by_text("demo asks")).to_be_visible()
    await tab.get_by_label("API key").fill(KEY)
    await tab.get_by_label("Mail").fill("a@b.c")
    await tab.get_by_label("Day").fill("2026-11-21")
    assert await tab.get_by_label("Seats").input_value() == "2"
    await tab.get_by_label("Price").fill("1.5")
    await tab.get_by_role("group", name="By train").get_by_label("No").check()
    await tab.get_by_role("group", name="Size").get_by_label("M", exact=True).check()
    month = tab.get_by_role("group", name="Month")
    await month.get_by_role("searchbox").fill("12")
    await expect(month.get_by_role("radio")).to_have_count(1)
    await month.get_by_label("month 12").check()
    for meal in ("a", "c"):
        await tab.get_by_role("group", name="Meals").get_by_label(meal, exact=True).check()
    await tab.get_by_label("More", exact=True).fill('{"x": [1]}')
    await tab.get_by_label("Note").fill("two\nlines")
    await tab.get_by_role("button", name="Check your answers").click()
    await tab.get_by_role("button", name="Send").click()
    await expect(tab.get_by_text("Thank you")).to_be_visible()


async def test_every_kind_of_field_has_its_control(person: BrowserContext) -> None:
    schema = {"type": "object", "properties": FIELDS, "required": [name for name in FIELDS if name != "left"]}
    async with asked(lambda url: fill_in(person, url)) as host:
        response = await host.ask("elicitation/input", prompt="Everything", schema=schema)
    assert response["data"]["value"] == {
        "key": KEY,
        "mail": "a@b.c",
        "day": "2026-11-21",
        "seats": 2,
        "price": 1.5,
        "train": False,
        "size": "M",
        "month": "month 12",
        "meals": ["a", "c"],
        "more": {"x": [1]},
        "note": "two\r\nlines",
    }


async def test_it_works_without_scripts(browser: Browser) -> None:
    plain = await browser.new_context(java_script_enabled=False)
    async with asked(lambda url: type_key(plain, url)) as host:
        assert (await host.ask("elicitation/input", **SECRET))["data"] == {"value": KEY}
    await plain.close()


async def test_two_tabs_answer_and_the_first_counts(person: BrowserContext) -> None:
    async def act(url: str) -> None:
        first, second = await person.new_page(), await person.new_page()
        await first.goto(url)
        await second.goto(first.url)
        await first.locator("input[type=password]").fill(KEY)
        await second.locator("input[type=password]").fill("another")
        await first.get_by_role("button", name="Send").click()
        await expect(first.get_by_text("Thank you")).to_be_visible()
        await expect(second.get_by_role("alert")).to_contain_text("Thank you")

    async with asked(act) as host:
        assert (await host.ask("elicitation/input", **SECRET))["data"] == {"value": KEY}


async def test_a_question_that_is_withdrawn_says_so_on_the_page(person: BrowserContext) -> None:
    seen = anyio.Event()

    async def act(url: str) -> None:
        tab = await person.new_page()
        await tab.goto(url)
        await expect(tab.get_by_role("alert")).to_contain_text("no longer open")
        seen.set()

    async with asked(act) as host:
        response = await host.ask("elicitation/input", timeout=1500, **SECRET)
        assert response["metadata"]["outcome"] == "timed_out"
        with anyio.fail_after(PATIENCE):
            await seen.wait()


# --- who is let in ----------------------------------------------------------------------------------------------------------------------------


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


def fetch(url: str, data: bytes | None = None, **headers: str) -> tuple[int, str, Any]:
    """One request, as somebody else's program makes it: (status, words, headers)."""
    try:
        with build_opener(_NoRedirects).open(Request(url, data, headers), timeout=PATIENCE) as response:
            return response.status, response.read().decode(), response.headers
    except HTTPError as refused:
        return refused.code, refused.read().decode(), refused.headers


async def test_nobody_else_gets_in(person: BrowserContext) -> None:
    refused: dict[str, tuple[int, str]] = {}

    def knock(name: str, url: str, data: bytes | None = None, **headers: str) -> None:
        status, words, told = fetch(url, data, **headers)
        refused[name] = status, words
        assert told["Content-Security-Policy"].startswith("default-src 'none'")
        assert told["Cache-Control"] == "no-store"

    async def act(url: str) -> None:
        origin = url.partition("/open/")[0]
        tab = await person.new_page()
        await tab.goto(url)
        sheet = tab.url
        guard = await tab.locator("input[name=guard]").input_value()
        cookie = "; ".join(f"{each.get('name')}={each.get('value')}" for each in await person.cookies())
        form = f"guard={guard}&field-0=x&action=send".encode()
        strangers: list[tuple[str, str, bytes | None, dict[str, str]]] = [
            ("a link that was used", url, None, {}),
            ("a link made up", f"{origin}/open/x", None, {}),
            ("no cookie", sheet, None, {}),
            ("another's cookie", sheet, None, {"Cookie": "abp=x"}),
            ("another host's name", sheet, None, {"Host": "evil.example", "Cookie": cookie}),
            ("another origin", sheet, form, {"Origin": "https://evil.example", "Cookie": cookie}),
            ("no guard", sheet, b"field-0=x&action=send", {"Cookie": cookie}),
            ("far too much", sheet, b"x" * 2_000_000, {"Cookie": cookie}),
        ]
        for name, where, data, headers in strangers:
            await anyio.to_thread.run_sync(partial(knock, name, where, data, **headers))
        evil = await person.new_page()
        await evil.set_content(f'<form method="post" action="{sheet}"><input name="guard" value="{guard}"><button>Win</button></form>')
        async with evil.expect_response(sheet) as posted:
            await evil.get_by_role("button").click()
        refused["a form of another site"] = (await posted.value).status, await evil.locator("body").inner_text()
        await tab.locator("input[type=password]").fill(KEY)
        await tab.get_by_role("button", name="Send").click()
        await expect(tab.get_by_text("Thank you")).to_be_visible()

    async with asked(act) as host:
        assert (await host.ask("elicitation/input", **SECRET))["data"] == {"value": KEY}
    statuses = {name: status for name, (status, _) in refused.items()}
    assert statuses == {
        "a link that was used": 403,
        "a link made up": 403,
        "no cookie": 403,
        "another's cookie": 403,
        "another host's name": 421,
        "another origin": 403,
        "no guard": 403,
        "far too much": 413,
        "a form of another site": 403,
    }


async def test_a_host_that_opens_no_address_of_this_machine_is_not_sent_there() -> None:
    """Codex's terminal declines http addresses unseen."""
    info = types.Implementation(name="codex-mcp-client", version="0.169.0")
    async with hosted("--app", "demo", answer=lambda params: None, client_info=info) as host:
        response = await host.ask("elicitation/input", **SECRET)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert host.wire.sent("elicitation/create") == []
