"""The bridge's own page in a real Chromium: what a person sees and does there, who is let in, and
where a secret goes and where it does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import anyio
import mcp_types as types
import pytest
from anyio.abc import SocketAttribute, SocketStream
from playwright.async_api import Browser, BrowserContext, Page, expect
from support.acp_harness import client
from support.browser import Browser as Visitor
from support.harness import MODERN, PATIENCE, VERSIONS, Hosted, hosted, leave
from support.programs import Programs

from abp_bridge.core.capability import Capability
from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.approval import make_question
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import Ending, PageQuestion, SurfaceResponse
from abp_bridge.surfaces import http
from abp_bridge.surfaces.opencode import QuestionsApi
from abp_bridge.surfaces.page import browser as tabs
from abp_bridge.surfaces.page import html
from abp_bridge.surfaces.page.html import View, question_page
from abp_bridge.surfaces.page.surface import LazyPageServer, PageSurface

Json = Any

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

KEY = "planted-key-7f3a"
SECRET: dict[str, Json] = {
    "prompt": "Enter your API key",
    "schema": {"type": "string", "title": "API key"},
}


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
    """A host with url mode, whose person goes where it points and acts there; the session lasts
    until that is done.
    """

    async def answer(params: Any) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams), params
        tasks.start_soon(act, params.url)
        return types.ElicitResult(action="accept")

    async with (
        hosted("--app", "demo", answer=answer, version=version) as host,
        anyio.create_task_group() as tasks,
    ):
        yield host


VIEW = View(home="/k/", address="/k/q1", guard="g", asked=datetime(2026, 1, 1, 10))


def page_for(schema: Json) -> str:
    """The page of a question for a value of `schema`, as it leaves."""
    params = {"prompt": "What?", "schema": schema}
    raw: Json = {"method": "elicitation/input", "params": params}
    return question_page(decode_question(raw, id="q1", origin="app"), VIEW).encode().decode()


def test_a_default_that_no_page_can_hold_is_not_suggested_and_the_question_is_shown() -> None:
    assert "Suggested" not in page_for({"type": "string", "default": "bad\ud800"})
    page = page_for({"type": "object", "default": {"a": "\ud800"}})
    assert "proposes what cannot be shown as it is: {&#34;a&#34;: &#34;\ufffd&#34;}" in page
    assert ">\n</textarea>" in page


def test_whole_numbers_between_broken_limits_can_be_sent() -> None:
    page = page_for({"type": "integer", "minimum": 0.5, "maximum": 9.5, "default": 5})
    assert ' min="1" max="9" value="5"' in page
    page = page_for({"type": "number", "minimum": 0.5, "maximum": 10**400})
    assert ' min="0.5"' in page


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
async def test_a_secret_goes_to_the_app_and_nowhere_else(
    person: BrowserContext, version: str
) -> None:
    async with asked(lambda url: type_key(person, url), version) as host:
        # The demo returns what it got; so the app's own words are where it may be, and only there.
        response = await host.ask("elicitation/input", **SECRET)
        assert response["data"] == {"value": KEY}
        assert (response["metadata"]["route"], response["metadata"]["answeredBy"]) == (
            "mcp-url (on a page of the bridge's own)",
            "person",
        )
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

    async with (
        client("--app", "demo", handler=answer) as editor,
        anyio.create_task_group() as tasks,
    ):
        await editor.initialize({"elicitation": {"url": {}}})
        request = {"request": {"method": "elicitation/input", "params": SECRET}}
        _, words = await editor.prompt(await editor.new(), f"/demo_ask {json.dumps(request)}")
        assert json.loads(words)["data"] == {"value": KEY}
        assert len(editor.wire.sent("elicitation/complete")) == 1


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_host_that_does_not_go_there_ends_the_question(action: str) -> None:
    async with hosted(
        "--app", "demo", answer=lambda params: types.ElicitResult.model_validate({"action": action})
    ) as host:
        response = await host.ask("elicitation/input", **SECRET)
    assert response["metadata"]["outcome"] == {"decline": "declined", "cancel": "cancelled"}[action]


@pytest.mark.parametrize(("button", "outcome"), [("Decline", "declined"), ("Cancel", "cancelled")])
async def test_the_person_can_say_no_on_the_page(
    person: BrowserContext, button: str, outcome: str
) -> None:
    async def act(url: str) -> None:
        tab = await person.new_page()
        await tab.goto(url)
        await tab.get_by_text("Do not answer").click()
        await tab.get_by_role("button", name=button).click()
        await expect(tab.get_by_text("Whoever asked has been told")).to_be_visible()

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
        assert await tab.locator("input[type=password]").input_value() == "", (
            "a secret is not written into a page"
        )
        await expect(tab.get_by_role("button", name="Show")).to_be_visible()  # its script is there
        await tab.locator("input[type=password]").fill(KEY)
        await tab.get_by_role("button", name="Send").click()
        await expect(tab.get_by_text("Thank you")).to_be_visible()

    async with asked(act) as host:
        assert (await host.ask("elicitation/input", prompt="Password?", schema=schema))["data"] == {
            "value": KEY
        }


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
    schema = {
        "type": "object",
        "properties": FIELDS,
        "required": [name for name in FIELDS if name != "left"],
    }
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
        "note": "two\nlines",
    }


async def test_it_works_without_scripts(browser: Browser) -> None:
    plain = await browser.new_context(java_script_enabled=False)
    async with asked(lambda url: type_key(plain, url)) as host:
        assert (await host.ask("elicitation/input", **SECRET))["data"] == {"value": KEY}
    await leave(plain)


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
    calling = anyio.CancelScope()

    async def act(url: str) -> None:
        tab = await person.new_page()
        await tab.goto(url)
        await expect(tab.get_by_label("API key")).to_be_visible()
        calling.cancel()
        await expect(tab.get_by_role("alert")).to_contain_text("no longer open")
        seen.set()

    async with asked(act) as host:
        with calling:
            await host.ask("elicitation/input", **SECRET)
        with anyio.fail_after(PATIENCE):
            await seen.wait()


# --- one page after another, without a host -------------------------------------------------------


TIMED = AskContext(timeout=600.0)


def question(method: str, **params: Json) -> Question:
    return decode_question(
        {"method": f"elicitation/{method}", "params": params},
        id="q",
        origin="https://app.example",
    )


@dataclass
class Shown:
    """A question on the page, and the person's tab on it."""

    tab: Page
    sheet: PageQuestion

    async def press(self, button: str) -> None:
        await self.tab.get_by_role("button", name=button, exact=True).click()

    async def reply(self) -> SurfaceResponse:
        with anyio.fail_after(PATIENCE):
            return await self.sheet.wait_answer()

    async def send_as_it_is(self, button: str = "Send") -> None:
        """What the browser itself would have mended first."""
        await self.tab.evaluate("document.querySelector('form').noValidate = true")
        await self.press(button)


@pytest.fixture
async def loopback() -> AsyncIterator[LazyPageServer]:
    async with anyio.create_task_group() as tasks:
        yield LazyPageServer(tasks)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def shown(
    loopback: LazyPageServer, person: BrowserContext, asked: Question
) -> AsyncIterator[Shown]:
    async with loopback.show(asked, TIMED) as sheet:
        tab = await person.new_page()
        await tab.goto(sheet.url)
        yield Shown(tab, sheet)


GUESTS: Json = {
    "type": "array",
    "title": "Guests",
    "minItems": 1,
    "maxItems": 3,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 2},
            "diet": {"enum": ["fish", "none"], "title": "Diet"},
        },
        "required": ["name"],
    },
}


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
async def test_a_list_is_groups_of_fields_that_can_be_added_and_removed(
    loopback: LazyPageServer, browser: Browser, scripts: bool
) -> None:
    person = await browser.new_context(java_script_enabled=scripts)
    asked = question("input", prompt="Who comes?", schema=GUESTS)
    async with shown(loopback, person, asked) as page:
        tab, group = page.tab, partial(page.tab.get_by_role, "group", exact=True)
        await expect(tab.get_by_text("At least 1, at most 3 entries.")).to_be_visible()
        add = tab.get_by_role("button", name="Add another")
        await expect(tab.get_by_role("button", name="Remove")).to_have_count(0)
        await group(name="Guests 1").get_by_label("Name").fill("Ada")
        for entry in ("Guests 2", "Guests 3"):
            await add.click()
            await expect(group(name=entry)).to_be_visible()
        await expect(add).to_have_count(0)
        await expect(group(name="Guests 1").get_by_label("Name")).to_have_value("Ada")
        await group(name="Guests 3").get_by_label("Name").fill("Bo")
        await group(name="Guests 3").get_by_label("fish").check()
        await tab.get_by_role("button", name="Remove Guests 2").click()
        await expect(group(name="Guests 3")).to_have_count(0)
        second = group(name="Guests 2")
        await expect(second.get_by_label("Name")).to_have_value("Bo")
        await expect(second.get_by_label("fish")).to_be_checked()
        await second.get_by_label("Name").click()  # Chromium drops keys before the first frame
        await second.get_by_label("Name").press("Enter")
        await expect(tab.get_by_text("Thank you")).to_be_visible()
        given: Json = [{"name": "Ada"}, {"name": "Bo", "diet": "fish"}]
        assert (await page.reply()).content == {"value": given}
    await leave(person)


async def test_what_is_wrong_in_an_entry_is_said_where_it_is(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    schema = {"type": "object", "properties": {"guests": GUESTS, "when": {"type": "string"}}}
    asked = question("input", prompt="Who comes?", schema=schema)
    async with shown(loopback, person, asked) as page:
        await page.press("Add an entry")
        name = page.tab.get_by_label("Name")
        await name.fill("A")
        await page.send_as_it_is("Check your answers")
        wrong = page.tab.get_by_role("alert").get_by_role("link")
        await expect(wrong).to_have_text(re.compile("Guests 1: Name must"))
        await wrong.click()
        await expect(name).to_be_focused()
        await name.fill("Ada")
        await page.press("Check your answers")
        await expect(page.tab.get_by_text("1. Name: Ada")).to_be_visible()
        await page.press("Send")
        assert (await page.reply()).content == {"guests": [{"name": "Ada"}]}


FRIENDS: Json = {
    "type": "array",
    "title": "Friends",
    "items": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}},
}
NOBODY_YET: Json = {"type": ["string", "null"], "title": "Name"}
PROPOSED: dict[str, tuple[Json, Json]] = {
    "more entries than anybody gives": (FRIENDS, [{"name": f"Friend {n}"} for n in range(150)]),
    "more entries than a form takes": ({**FRIENDS, "maxItems": 1_000}, [{"name": "x"}] * 401),
    "a number where text is typed": (
        {"type": "array", "items": {"type": "object", "properties": {"seat": {}}}},
        [{"seat": "A5"}, {"seat": 5}],
    ),
    "members that no field has": (FRIENDS, [{"name": "Ada", "id": 7}, {"name": "Bo", "id": 9}]),
}


async def accept_on_the_page(
    person: BrowserContext, schema: Json, read: Callable[[Page], Coroutine[Any, Any, Json]]
) -> tuple[Json, Json]:
    """Of a question that a spawned bridge asks on its own page: what `read` finds there before
    "Send" is pressed, and the answer that its app gets.
    """
    drawn: list[Json] = []

    async def answer(params: Any) -> types.ElicitResult:
        link = re.search(r"http://\S+/open/[\w-]+", params.message)
        assert link is not None, params.message
        tab = await person.new_page()
        await tab.goto(link[0])
        drawn.append(await read(tab))
        await tab.get_by_role("button", name="Send", exact=True).click()
        await expect(tab.get_by_text("Thank you")).to_be_visible()
        return types.ElicitResult(action="accept", content={})

    async with hosted("--app", "demo", "--page", "--ask-on", "page", answer=answer) as host:
        answered = await host.ask("elicitation/input", prompt="Who comes?", schema=schema)
    return drawn[-1], answered["data"]["value"]


@pytest.mark.parametrize(("schema", "proposed"), PROPOSED.values(), ids=PROPOSED)
async def test_all_that_is_proposed_for_a_list_is_drawn_and_comes_back(
    person: BrowserContext, schema: Json, proposed: Json
) -> None:
    async def read(tab: Page) -> Json:
        return json.loads(await tab.get_by_role("textbox").input_value())

    asked = {**schema, "default": proposed}
    assert await accept_on_the_page(person, asked, read) == (proposed, proposed)


async def test_null_that_is_proposed_in_an_entry_is_an_empty_field(person: BrowserContext) -> None:
    entry = {"type": "object", "properties": {"name": NOBODY_YET}, "required": ["name"]}
    schema = {"type": "array", "items": entry, "default": [{"name": None}]}
    drawn = await accept_on_the_page(
        person, schema, lambda tab: tab.get_by_label("Name").input_value()
    )
    assert drawn == ("", [{"name": None}])


@pytest.mark.parametrize("count", ["4", "10000", "-1", "two", ""])
async def test_a_form_with_another_count_of_entries_than_there_may_be_is_not_taken(
    loopback: LazyPageServer, count: str
) -> None:
    browser, run = Visitor(), anyio.to_thread.run_sync
    async with loopback.show(question("input", prompt="Who comes?", schema=GUESTS), TIMED) as sheet:
        await run(browser.open, sheet.url)
        guests = {f"field-0-{row}-0": f"Guest {row}" for row in range(4)}
        with pytest.raises(HTTPError, match="400") as refused:
            await run(partial(browser.send, **guests, **{"field-0-rows": count}))
        refused.value.close()
        await run(partial(browser.send, **guests, **{"field-0-rows": "3"}))
        names: Json = [{"name": f"Guest {row}"} for row in range(3)]
        assert (await sheet.wait_answer()).content == {"value": names}


async def test_no_entry_is_added_to_a_full_list(loopback: LazyPageServer) -> None:
    browser, run = Visitor(), anyio.to_thread.run_sync
    async with loopback.show(question("input", prompt="Who comes?", schema=GUESTS), TIMED) as sheet:
        await run(browser.open, sheet.url)
        await run(partial(browser.send, **{"field-0-rows": "3", "action": "add field-0"}))
        assert "Guests 3" in browser.page
        assert "Guests 4" not in browser.page


async def test_a_file_is_picked(loopback: LazyPageServer, person: BrowserContext) -> None:
    async with shown(
        loopback, person, question("resource", prompt="A picture", type="image/*")
    ) as page:
        assert await page.tab.get_by_label("File").get_attribute("accept") == "image/*"
        await page.tab.get_by_label("File").set_input_files(
            {"name": "a.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n"}
        )
        await expect(page.tab.get_by_text("a.png (image/png, 6 bytes)")).to_be_visible()
        await page.press("Send")
        given = {
            "content": "iVBORw0K",
            "mimeType": "image/png",
            "encoding": "base64",
            "filename": "a.png",
        }
        assert await page.reply() == SurfaceResponse(Outcome.ACCEPTED, {"file": given})


DROPPED = (
    "() => { const data = new DataTransfer(); data.items.add(new File(['tea\\n'], 'list.txt', {"
    " type: 'text/plain' })); return data; }"
)


async def test_a_file_is_dropped(loopback: LazyPageServer, person: BrowserContext) -> None:
    async with shown(loopback, person, question("resource", prompt="Notes", type="text")) as page:
        files = await page.tab.evaluate_handle(DROPPED)
        await page.tab.locator(".drop").dispatch_event("drop", {"dataTransfer": files})
        await expect(page.tab.get_by_text("list.txt (text/plain, 4 bytes)")).to_be_visible()
        await page.press("Send")
        assert (await page.reply()).content == {
            "file": {"content": "tea\n", "mimeType": "text/plain", "filename": "list.txt"}
        }


async def test_a_file_of_another_type_or_too_large_is_not_sent(
    loopback: LazyPageServer, person: BrowserContext, tmp_path: Path
) -> None:
    large, largest = tmp_path / "large.png", tmp_path / "largest.png"
    large.write_bytes(bytes(MAX_SIZE + 1))
    largest.write_bytes(bytes(MAX_SIZE))
    async with shown(
        loopback, person, question("resource", prompt="A picture", type="image/png")
    ) as page:
        picker = page.tab.get_by_label("File")
        await picker.set_input_files(
            {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"}
        )
        await page.press("Send")
        await expect(page.tab.get_by_role("alert")).to_contain_text(
            "File must be image/png, not application/pdf"
        )
        await picker.set_input_files(large)
        await page.tab.wait_for_function(
            "picker => picker.validationMessage.includes('too large')",
            arg=await picker.element_handle(),
        )
        await page.send_as_it_is()
        await expect(page.tab.get_by_role("alert")).to_contain_text("at most 10485760 can be given")
        await picker.set_input_files(largest)
        await page.press("Send")
        assert (await page.reply()).outcome is Outcome.ACCEPTED


@pytest.mark.parametrize("button", ["Decline", "Cancel"])
async def test_a_file_that_is_too_large_keeps_nobody_from_leaving(
    loopback: LazyPageServer, person: BrowserContext, tmp_path: Path, button: str
) -> None:
    large = tmp_path / "large.png"
    large.write_bytes(bytes(MAX_SIZE * 2))
    asked = question("resource", prompt="A picture", type="image/png")
    async with shown(loopback, person, asked) as page:
        await page.tab.get_by_label("File").set_input_files(large)
        await expect(page.tab.get_by_text("too large")).to_be_visible()
        await page.tab.get_by_text("Do not answer").click()
        await page.press(button)
        outcome = Outcome.DECLINED if button == "Decline" else Outcome.CANCELLED
        assert await page.reply() == SurfaceResponse(outcome)


@pytest.mark.parametrize("lines", ["a\nb", "a\r\nb"])
async def test_a_proposed_text_comes_back_with_its_own_lines(
    loopback: LazyPageServer, person: BrowserContext, lines: str
) -> None:
    schema = {"type": "string", "default": lines, "maxLength": len(lines)}
    async with shown(loopback, person, question("input", prompt="A note", schema=schema)) as page:
        await page.press("Send")
        assert (await page.reply()).content == {"value": lines}


async def test_a_proposed_entry_comes_back_with_its_own_lines(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    note = {"type": "string", "maxLength": 300}
    items = {"type": "object", "properties": {"note": note}, "required": ["note"]}
    entries = [{"note": "a\r\nb"}, {"note": "c\nd"}]
    schema = {"type": "array", "items": items, "default": entries}
    async with shown(loopback, person, question("input", prompt="Notes", schema=schema)) as page:
        await page.press("Send")
        assert (await page.reply()).content == {"value": entries}


@pytest.mark.parametrize("secret", [True, False])
async def test_what_is_pasted_keeps_its_lines(
    loopback: LazyPageServer, person: BrowserContext, secret: bool
) -> None:
    key = "-----BEGIN KEY-----\nMIIE\n-----END KEY-----\n"
    schema = {"type": "string", "writeOnly": secret, "maxLength": 60}
    await person.grant_permissions(["clipboard-read", "clipboard-write"])
    async with shown(loopback, person, question("input", prompt="Which?", schema=schema)) as page:
        field, drawn = page.tab.locator("#field-0"), "-webkit-text-security"
        await field.fill("x")
        await page.tab.evaluate("text => navigator.clipboard.writeText(text)", key)
        await field.press("ControlOrMeta+V")
        await expect(field).to_have_value(f"x{key}")
        await expect(field).to_have_css(drawn, "disc" if secret else "none")
        await expect(page.tab.get_by_text("16 characters left.")).to_be_visible()
        if secret:
            await page.press("Show")
            await expect(field).to_have_css(drawn, "none")
            await page.press("Hide")
            await expect(field).to_have_css(drawn, "disc")
        else:
            await page.tab.reload()
            await expect(field).to_have_value(f"x{key}")
        await page.press("Send")
        assert (await page.reply()).content == {"value": f"x{key}"}


async def test_leave_to_read_a_file_is_given_or_not(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    field = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"})
    asked = Question(
        "q",
        Kind.RESOURCE,
        "A picture\n\nMay it read this file?\n/home/a.png",
        (field,),
        "app",
        note="It is large.",
    )
    for button, given in (("Allow", True), ("Do not allow", False)):
        async with shown(loopback, person, asked) as page:
            await expect(page.tab.get_by_text("/home/a.png")).to_be_visible()
            await expect(page.tab.get_by_text("abp-bridge: It is large.")).to_be_visible()
            await page.press(button)
            assert await page.reply() == SurfaceResponse(Outcome.ACCEPTED, {"confirmed": given})


async def test_what_cannot_be_undone_is_refused_by_a_hasty_key(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    asked = question("confirm", message="Delete all files?", destructive=True)
    async with shown(loopback, person, asked) as page:
        assert await page.tab.get_by_role("button").all_inner_texts() == [
            "No, do not",
            "Delete",
            "Later",
            "Do not answer",
        ]
        await expect(page.tab.get_by_text("cannot be undone")).to_be_visible()
        await expect(page.tab.get_by_role("button", name="No, do not")).to_be_focused()
        await page.tab.keyboard.press("Enter")
        assert (await page.reply()).content == {"confirmed": False}
    async with shown(loopback, person, asked) as page:
        await page.press("Delete")
        assert (await page.reply()).content == {"confirmed": True}


async def test_leave_for_a_call_that_destroys_is_refused_by_a_hasty_key(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    wipe = Capability("wipe", destructive=True)
    asked = make_question("q", "app", wipe, {"path": "/tmp"})
    async with shown(loopback, person, asked) as page:
        buttons = page.tab.get_by_role("button")
        assert await buttons.all_inner_texts() == [
            "Do not allow",
            "Allow",
            "Later",
            "Do not answer",
        ]
        await expect(page.tab.get_by_text('path: "/tmp"')).to_be_visible()
        await expect(page.tab.get_by_text("cannot be undone")).to_be_visible()
        await expect(page.tab.get_by_role("button", name="Do not allow")).to_be_focused()
        await page.tab.keyboard.press("Enter")
        assert (await page.reply()).content == {"confirmed": False}


async def test_a_confirm_waits_for_a_button(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    async with shown(loopback, person, question("confirm", message="Book?")) as page:
        await page.tab.keyboard.press("Enter")
        await page.tab.keyboard.press("Tab")
        await expect(page.tab.get_by_role("button", name="Yes")).to_be_focused()
        await page.tab.keyboard.press("Enter")
        assert (await page.reply()).content == {"confirmed": True}


LOGIN: Json = {
    "type": "object",
    "properties": {
        "user": {"type": "string", "title": "User"},
        "key": {"type": "string", "title": "API key", "writeOnly": True, "minLength": 5},
        "pin": {"type": "integer", "title": "PIN", "writeOnly": True},
        "more": {"type": "object", "title": "More", "writeOnly": True},
    },
    "required": ["user", "key"],
}


@pytest.mark.parametrize("scripts", [True, False])
async def test_answers_are_checked_before_they_are_sent_and_secrets_stay_unseen(
    loopback: LazyPageServer, browser: Browser, scripts: bool
) -> None:
    person = await browser.new_context(java_script_enabled=scripts)
    async with shown(loopback, person, question("input", prompt="Log in", schema=LOGIN)) as page:
        await page.tab.get_by_label("User").fill("Ann")
        await page.tab.get_by_label("API key").fill(KEY)
        await page.tab.get_by_label("PIN").fill("4711")
        await page.tab.get_by_label("More").fill('{"planted": 1}')
        await page.press("Check your answers")
        await expect(page.tab.get_by_role("definition")).to_have_text(
            ["Ann", "••••••••", "••••••••", "••••••••"]
        )
        await page.press("Change")
        await expect(page.tab.get_by_label("User")).to_have_value("Ann")
        await expect(page.tab.get_by_label("API key")).to_have_value("")
        source = await page.tab.content()
        assert not any(secret in source for secret in (KEY, "4711", "planted"))
        await page.tab.get_by_label("User").fill("Eve")
        await page.tab.get_by_label("Leave it empty instead").nth(1).check()
        await page.press("Check your answers")
        await expect(page.tab.get_by_role("definition")).to_have_text(
            ["Eve", "••••••••", "••••••••", "left empty"]
        )
        await page.press("Send")
        assert (await page.reply()).content == {"user": "Eve", "key": KEY, "pin": "4711"}
        await expect(page.tab.get_by_text("Thank you")).to_be_visible()
        await page.tab.go_back()
        await expect(page.tab.get_by_text("Thank you")).to_be_visible()
    await leave(person)


async def test_a_secret_is_kept_while_something_else_is_mended(
    loopback: LazyPageServer, browser: Browser
) -> None:
    person = await browser.new_context(java_script_enabled=False)
    schema = {
        **LOGIN,
        "properties": {
            **LOGIN["properties"],
            "user": {"type": "string", "title": "User", "pattern": "^[a-z]+$"},
        },
    }
    async with shown(loopback, person, question("input", prompt="Log in", schema=schema)) as page:
        await page.tab.get_by_label("User").fill("Ann")
        await page.tab.get_by_label("API key").fill(KEY)
        await page.press("Check your answers")
        await expect(page.tab.get_by_role("alert").get_by_role("link")).to_contain_text(["User"])
        await expect(page.tab.get_by_text("What you entered is kept")).to_have_count(1)
        await page.tab.get_by_label("User").fill("ann")
        await page.press("Check your answers")
        await page.press("Send")
        assert (await page.reply()).content == {"user": "ann", "key": KEY}
    await leave(person)


async def test_a_summary_that_is_not_kept_any_more_is_filled_in_again(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    two = {
        "type": "object",
        "properties": {"a": {"type": "string", "title": "One"}, "b": {"type": "string"}},
    }
    async with shown(loopback, person, question("input", prompt="Both?", schema=two)) as page:
        form = page.tab.url
        checked = []
        for word in "abcdef":
            await page.tab.goto(form)
            await page.tab.get_by_label("One").fill(word)
            await page.press("Check your answers")
            await expect(page.tab.get_by_role("definition").first).to_have_text(word)
            checked.append(page.tab.url)
        await page.tab.goto(checked[0])
        assert page.tab.url == form
        await page.tab.goto(checked[-1])
        await expect(page.tab.get_by_role("definition").first).to_have_text("f")


async def test_two_thousand_choices_are_searched_or_scrolled(
    loopback: LazyPageServer, browser: Browser
) -> None:
    stations = [f"Station {number}" for number in range(1, 2001)]
    for scripts in (True, False):
        person = await browser.new_context(
            java_script_enabled=scripts, viewport={"width": 360, "height": 640}
        )
        async with shown(
            loopback, person, question("select", prompt="From?", options=stations)
        ) as page:
            if scripts:
                await page.tab.get_by_role("searchbox").fill("1999")
                await expect(page.tab.get_by_text("1 of 2000 shown")).to_be_visible()
            await page.tab.get_by_label("Station 1999").check()
            await page.press("Send")
            assert (await page.reply()).content == {"selected": "Station 1999"}
        await leave(person)


async def test_how_many_may_be_chosen_is_said_and_held(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    items = {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "minItems": 1,
        "maxItems": 2,
        "title": "Letters",
    }
    async with shown(loopback, person, question("input", prompt="Which?", schema=items)) as page:
        await expect(page.tab.get_by_text("Choose 1 to 2. 0 chosen.")).to_be_visible()
        for letter in "abc":
            await page.tab.get_by_label(letter, exact=True).check()
        await page.send_as_it_is()
        await expect(page.tab.get_by_role("alert")).to_contain_text("Letters must name at most 2")
        await expect(page.tab.get_by_label("c", exact=True)).to_be_checked()
        await page.tab.get_by_label("c", exact=True).uncheck()
        await page.press("Send")
        assert (await page.reply()).content == {"value": ["a", "b"]}


async def test_what_the_app_suggests_is_marked_and_can_be_left(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    seats = {
        "type": "object",
        "properties": {
            "seat": {"enum": ["aisle", "", "window"], "default": "window", "title": "Seat"}
        },
    }
    async with shown(loopback, person, question("input", prompt="Seat?", schema=seats)) as page:
        await expect(page.tab.locator("label", has_text="window")).to_contain_text(
            "suggested by who asks"
        )
        await expect(page.tab.get_by_label("window")).to_be_checked()
        await page.tab.get_by_label("No answer").check()
        await page.press("Send")
        assert (await page.reply()).content == {}


async def test_the_inbox_follows_what_happens(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    async with shown(
        loopback, person, question("input", prompt="First?", schema={"type": "string"})
    ) as page:
        inbox = await person.new_page()
        await inbox.goto(page.tab.url.partition("q/")[0])
        await expect(inbox.get_by_role("link")).to_have_text(["https://app.example asks: First?"])
        assert await inbox.title() == "(1) Open questions"
        async with shown(loopback, person, question("confirm", message="Second?")) as other:
            await expect(inbox.get_by_role("link")).to_have_count(2)
            await expect(other.tab.get_by_role("link")).to_have_text("1 other question is open")
        await expect(inbox.get_by_role("link")).to_have_count(1)
        await page.tab.get_by_role("textbox").fill("x")
        await page.press("Send")
        await expect(inbox.get_by_text("Nothing is asked now")).to_be_visible()


async def test_an_inbox_that_changes_takes_no_click_away(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    async with shown(
        loopback, person, question("input", prompt="First?", schema={"type": "string"})
    ) as page:
        inbox = await person.new_page()
        await inbox.goto(page.tab.url.partition("q/")[0])
        await inbox.get_by_role("link").hover()
        await inbox.mouse.down()
        async with (
            inbox.expect_response(inbox.url) as heard,
            shown(loopback, person, question("confirm", message="Second?")),
        ):
            await (await heard.value).finished()
            await inbox.evaluate("fetch('').then((page) => page.text())")
            await inbox.mouse.up()
            await expect(inbox.get_by_role("textbox")).to_be_visible()


async def test_who_answers_too_late_is_told_that_it_does_not_count(
    loopback: LazyPageServer,
) -> None:
    browser, run = Visitor(), anyio.to_thread.run_sync
    async with loopback.show(question("confirm", message="Pay 900 EUR?"), TIMED) as sheet:
        await run(browser.open, sheet.url)
        guard = re.search(r'name="guard" value="([^"]+)"', browser.page)
        assert guard is not None
        body = f"guard={guard[1]}&action=no".encode()
        await run(partial(browser.send, action="yes"))
        assert "Answer sent" in browser.page
        await run(partial(browser.post, guard=guard[1], action="no"))
        assert "This was not sent: the question had been answered before." in browser.page
        assert "Thank you" not in browser.page
        place = urlsplit(browser.url)
        (cookie,) = (each for each in browser.cookies if place.path.startswith(each.path))
        headers = {
            "Cookie": f"{cookie.name}={cookie.value}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        status, said, _ = await knock(place.port or 0, "POST", place.path, headers, body)
        assert (status, "answered before" in said) == (409, True)
        assert (await sheet.wait_answer()).content == {"confirmed": True}


async def test_who_answers_last_is_shown_that_it_was_sent() -> None:
    browser, run = Visitor(), anyio.to_thread.run_sync
    async with anyio.create_task_group() as session:
        async with LazyPageServer(session).show(question("confirm", message="Go?"), TIMED) as sheet:
            await run(browser.open, sheet.url)
            place = urlsplit(browser.url)
            (cookie,) = (each for each in browser.cookies if place.path.startswith(each.path))
            guard = re.search(r'name="guard" value="([^"]+)"', browser.page)
            assert guard is not None
            headers = {
                "Cookie": f"{cookie.name}={cookie.value}",
                "Content-Type": "application/x-www-form-urlencoded",
            }
            body = f"guard={guard[1]}&action=yes".encode()
            status, _, told = await knock(place.port or 0, "POST", place.path, headers, body)
            assert (status, told["Location"]) == (303, place.path)
            await sheet.wait_answer()
        session.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
            _, said, _ = await knock(place.port or 0, "GET", place.path, headers)
    assert "Thank you" in said


def test_nobody_stands_where_enter_alone_sends_something() -> None:
    assert "autofocus" in page_for({"type": "string"})
    assert "autofocus" not in page_for({"type": "string", "default": "theirs"})
    optional = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "autofocus" not in page_for(optional)


async def test_how_a_question_ended_is_said(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    asked = question("input", prompt="Name?", schema={"type": "string"})
    tabs = []
    async with shown(loopback, person, asked) as page:
        tabs.append((page.tab, "withdrawn"))
    async with shown(loopback, person, asked) as page:
        page.sheet.answer(SurfaceResponse(Outcome.DECLINED), Ending.ANSWERED_BY_PROGRAM)
        tabs.append((page.tab, "by another program"))
        await expect(page.tab.get_by_role("alert")).to_contain_text("by another program")
    with anyio.move_on_after(2):
        async with shown(loopback, person, asked) as page:
            tabs.append((page.tab, "in time"))
            await anyio.sleep_forever()
    for tab, words in tabs:
        await expect(tab.get_by_role("alert")).to_contain_text(words)
        await tab.reload()
        await expect(tab.get_by_text(words)).to_be_visible()


@asynccontextmanager
async def there(person: BrowserContext) -> AsyncIterator[None]:
    """A tab that is opened inside has said that it is there."""
    async with person.expect_event("requestfinished", lambda sent: "/here/" in sent.url):
        yield


async def test_who_closes_the_last_tab_cancels_what_they_saw(
    loopback: LazyPageServer, person: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabs, "CLOSED_LIMIT", 0)
    asked = question("input", prompt="Name?", schema={"type": "string"})
    async with loopback.show(asked, TIMED) as sheet, anyio.create_task_group() as tasks:
        tasks.start_soon(sheet.wait_closed)
        inbox, tab = await person.new_page(), await person.new_page()
        async with there(person):
            await tab.goto(sheet.url)
        async with there(person):
            await inbox.goto(tab.url.partition("q/")[0])
        await tab.close()
        await expect(inbox.get_by_role("link")).to_have_text(["https://app.example asks: Name?"])
        await inbox.close()
        assert (await sheet.wait_answer()).outcome is Outcome.CANCELLED
        late = await person.new_page()
        await late.goto(sheet.url)
        await expect(late.get_by_text("its page was closed")).to_be_visible()


async def test_a_tab_that_is_closed_before_its_questions_were_seen_is_opened_again(
    loopback: LazyPageServer,
    person: BrowserContext,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tabs, "CLOSED_LIMIT", 0)
    monkeypatch.setattr(tabs, "OPEN_LIMIT", PATIENCE)  # for Chromium to open tabs, on any machine
    monkeypatch.setenv("BROWSER", programs.add("browser"))
    surface = PageSurface(loopback, nowhere, nowhere, opens=True)
    (variant,) = surface.variants()
    async with anyio.create_task_group() as tasks:
        for each in "First?", "Second?":
            asked = question("input", prompt=each, schema={"type": "string"})
            tasks.start_soon(surface.prompt, asked, TIMED, variant)
        tab = await person.new_page()
        async with there(person):
            await tab.goto((await programs.wait())[0][1])
        await expect(tab.get_by_role("link")).to_have_count(2)
        await tab.close()
        tab = await person.new_page()
        await tab.goto((await programs.wait(2))[1][1])
        await expect(tab.get_by_role("link")).to_have_count(2)
        tasks.cancel_scope.cancel()


async def test_a_question_that_was_put_off_stays_open_when_the_last_tab_is_closed(
    loopback: LazyPageServer,
    person: BrowserContext,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tabs, "CLOSED_LIMIT", 0)
    monkeypatch.setattr(tabs, "OPEN_LIMIT", PATIENCE)  # for Chromium to open tabs, on any machine
    monkeypatch.setenv("BROWSER", programs.add("browser"))
    surface = PageSurface(loopback, nowhere, nowhere, opens=True)
    (variant,) = surface.variants()
    replies: dict[str, SurfaceResponse] = {}
    seen_is_over = anyio.Event()

    async def ask(prompt: str, over: anyio.Event) -> None:
        asked = question("input", prompt=prompt, schema={"type": "string"})
        replies[prompt] = await surface.prompt(asked, TIMED, variant)
        over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "Put off?", anyio.Event())
        tasks.start_soon(ask, "Only seen?", seen_is_over)
        last, tab = await person.new_page(), await person.new_page()
        async with there(person):
            await last.goto((await programs.wait())[0][1])
        await tab.goto(listed := last.url)
        await tab.get_by_role("link", name="Put off?").click()
        await tab.get_by_role("button", name="Later").click()
        await tab.get_by_role("link", name="Only seen?").click()
        await expect(tab.get_by_role("textbox", name="Only seen?")).to_be_visible()
        await tab.close()
        await last.close()
        with anyio.fail_after(PATIENCE):
            await seen_is_over.wait()
        tab = await person.new_page()
        await tab.goto(listed)
        await tab.get_by_role("link", name="Put off?").click()
        await tab.get_by_role("textbox").fill("Now")
        await tab.get_by_role("button", name="Send").click()
        await expect(tab.get_by_text("Thank you")).to_be_visible()
    assert replies == {
        "Only seen?": SurfaceResponse(Outcome.CANCELLED),
        "Put off?": SurfaceResponse(Outcome.ACCEPTED, {"value": "Now"}),
    }


async def nowhere(*_: object) -> Any:
    """Nobody is sent anywhere."""
    raise AssertionError


async def test_who_loads_the_page_again_has_not_closed_it(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    asked = question("input", prompt="Name?", schema={"type": "string"})
    async with shown(loopback, person, asked) as page, anyio.create_task_group() as tasks:
        tasks.start_soon(page.sheet.wait_closed)
        for _ in range(2):
            async with there(person):
                await page.tab.reload()
        await page.tab.get_by_role("textbox").fill("Ada")
        await page.press("Send")
        assert (await page.reply()).content == {"value": "Ada"}
        tasks.cancel_scope.cancel()


async def test_the_same_browser_finds_its_way_back_by_a_used_link(
    loopback: LazyPageServer, browser: Browser, person: BrowserContext
) -> None:
    async with shown(
        loopback, person, question("input", prompt="Name?", schema={"type": "string"})
    ) as page:
        again = await person.new_page()
        await again.goto(page.sheet.url)
        assert again.url == page.tab.url
        stranger = await browser.new_context()
        response = await (await stranger.new_page()).goto(page.sheet.url)
        assert response is not None
        assert response.status == 403
        await leave(stranger)
    await again.goto(page.sheet.url)
    await expect(again.get_by_text("withdrawn")).to_be_visible()


async def test_a_question_says_since_when_and_for_how_long_it_is_open(
    loopback: LazyPageServer, browser: Browser
) -> None:
    for scripts in (True, False):
        person = await browser.new_context(java_script_enabled=scripts)
        async with shown(loopback, person, question("confirm", message="Go?")) as page:
            words = r"^Asked \d\d:\d\d, open until \d\d:\d\d" + (
                r" \((10:00|9:\d\d) left\)$" if scripts else "$"
            )
            await expect(page.tab.locator(".when")).to_have_text(re.compile(words))
        await leave(person)


async def test_no_page_scrolls_sideways_on_a_small_screen(
    loopback: LazyPageServer, browser: Browser
) -> None:
    person = await browser.new_context(viewport={"width": 360, "height": 640})
    long = "https://app.example/" + "x" * 300
    schema = {
        "type": "object",
        "properties": {**FIELDS, "long": {"enum": [long, "b"], "title": long}},
    }
    for asked in (
        question("input", prompt=long, schema=schema),
        question("resource", prompt=long, type="image/png"),
        question("confirm", message=long, destructive=True),
    ):
        async with shown(loopback, person, asked) as page:
            await page.tab.evaluate(
                "for (const each of document.querySelectorAll('details')) each.open = true"
            )
            assert await page.tab.evaluate("document.documentElement.scrollWidth") <= 360
    await leave(person)


UNNAMED = (
    "[...document.querySelectorAll('input:not([type=hidden]), textarea')].filter(each =>"
    " !each.labels?.length && !each.ariaLabel).length"
)


async def test_it_is_read_and_reached_without_eyes_or_mouse(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    """Every control has a name, the page a language and a title, and problems take the focus and
    lead to what they are about.
    """
    schema = {"type": "object", "properties": FIELDS, "required": ["mail"]}
    async with shown(
        loopback, person, question("input", prompt="Everything", schema=schema)
    ) as page:
        assert await page.tab.title() == "https://app.example asks: Everything"
        assert await page.tab.locator("html").get_attribute("lang") == "en"
        assert await page.tab.evaluate(UNNAMED) == 0
        await expect(page.tab.get_by_label("API key")).to_be_focused()
        await page.tab.evaluate("document.querySelector('form').noValidate = true")
        await page.tab.keyboard.press("Enter")
        await expect(page.tab.locator(".problems")).to_be_focused()
        await expect(page.tab.get_by_label("Mail")).to_have_attribute("aria-invalid", "true")
        await page.tab.keyboard.press("Tab")
        await page.tab.keyboard.press("Enter")
        await expect(page.tab.get_by_label("Mail")).to_be_focused()


# --- who is let in --------------------------------------------------------------------------------


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


def fetch(url: str, data: bytes | None = None, **headers: str) -> tuple[int, str, Any]:
    """One request, as somebody else's program makes it: (status, words, headers)."""
    try:
        with build_opener(_NoRedirects).open(
            Request(url, data, headers), timeout=PATIENCE
        ) as response:
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
        cookie = "; ".join(
            f"{each.get('name')}={each.get('value')}" for each in await person.cookies()
        )
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
        await evil.set_content(
            f'<form method="post" action="{sheet}"><input name="guard"'
            f' value="{guard}"><button>Win</button></form>'
        )
        async with evil.expect_response(sheet) as posted:
            await evil.get_by_role("button").click()
        refused["a form of another site"] = (
            (await posted.value).status,
            await evil.locator("body").inner_text(),
        )
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


Knock = tuple[str, str, dict[str, str]]  # method, path, headers


async def knock(
    port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, str, Any]:
    """One request as somebody else's program makes it: (status, words, headers)."""

    def send() -> tuple[int, str, Any]:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.read().decode(), response.headers
        finally:
            connection.close()

    return await anyio.to_thread.run_sync(send)


async def test_every_address_and_method_stands_behind_the_same_door(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    async with shown(loopback, person, question("confirm", message="Go?")) as page:
        port = urlsplit(page.tab.url).port
        assert port is not None
        cookies = await person.cookies()
        home = next(each["path"] for each in cookies if not each["path"].startswith("/open"))
        mine = {
            "Cookie": "; ".join(
                f"{each['name']}={each['value']}" for each in cookies if each["path"] == home
            )
        }
        sheet = urlsplit(page.tab.url).path
        script = {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "no-cors",
            "Sec-Fetch-Dest": "image",
        }
        link = {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
        }
        frame = {**link, "Sec-Fetch-Dest": "iframe"}
        expected: dict[str, tuple[Knock, int]] = {
            "a stranger at the root": (("GET", "/", {}), 403),
            "a stranger anywhere": (("GET", "/.git/config", {}), 403),
            "a stranger at a question": (("GET", sheet, {}), 403),
            "the person at no address": (("GET", f"{home}x", mine), 404),
            "a question of nobody": (("GET", f"{home}q/x", mine), 404),
            "the events of a question of nobody": (("GET", f"{home}q/x/check/y", mine), 404),
            "looking only": (("HEAD", sheet, mine), 200),
            "another method": (("PUT", sheet, mine), 405),
            "a method of one's own": (("OPTIONS", f"{home}events", mine), 405),
            "by its other name": (("GET", sheet, {**mine, "Host": f"localhost:{port}"}), 200),
            "another name": (("GET", "/x", {"Host": "evil.example"}), 421),
            "its name at another port": (("GET", sheet, {**mine, "Host": "127.0.0.1:80"}), 421),
            "its name in another form": (
                ("GET", sheet, {**mine, "Host": f"[::ffff:127.0.0.1]:{port}"}),
                421,
            ),
            "a name with more to it": (
                ("GET", sheet, {**mine, "Host": f"127.0.0.1:{port}.evil.example"}),
                421,
            ),
            "a whole address": (
                ("GET", f"http://evil.example{sheet}", {**mine, "Host": "evil.example"}),
                421,
            ),
            "another origin": (("GET", sheet, {**mine, "Origin": "https://evil.example"}), 403),
            "its own origin by the other name": (
                ("GET", sheet, {**mine, "Origin": f"http://localhost:{port}"}),
                403,
            ),
            "no origin to speak of": (("POST", sheet, {**mine, "Origin": "null"}), 403),
            "a picture of another site": (("GET", sheet, {**mine, **script}), 403),
            "a frame of another site": (("GET", sheet, {**mine, **frame}), 403),
            "a link of another site": (("GET", sheet, {**mine, **link}), 200),
            "a form of another port": (
                ("POST", sheet, {**mine, **link, "Sec-Fetch-Site": "same-site"}),
                403,
            ),
            "a cookie of another port": (
                ("GET", sheet, {"Cookie": mine["Cookie"].replace(str(port), "80")}),
                403,
            ),
        }
        seen = {}
        for name, (request, _) in expected.items():
            status, words, headers = await knock(port, *request)
            seen[name] = status
            assert "Traceback" not in words
            assert headers["Content-Security-Policy"].startswith("default-src 'none'"), name
            assert headers["Cache-Control"] == "no-store", name
            assert "uvicorn" not in headers.get("Server", "")
        assert seen == {name: status for name, (_, status) in expected.items()}


async def test_a_cookie_goes_to_no_other_server_of_this_machine(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    """Browsers send cookies to every port of a host."""
    heard: list[bytes] = []

    async def hear(stream: SocketStream) -> None:
        async with stream:
            heard.append(await stream.receive())
            await stream.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
            )

    async with (
        shown(loopback, person, question("confirm", message="Go?")) as page,
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as other,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(other.serve, hear)
        await page.tab.goto(f"http://127.0.0.1:{other.extra(SocketAttribute.local_port)}/q/x")
        assert heard
        assert not any(b"ookie:" in request for request in heard)
        tasks.cancel_scope.cancel()


async def test_looking_ahead_does_not_use_up_a_link(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    async with loopback.show(question("confirm", message="Go?"), TIMED) as sheet:
        link = urlsplit(sheet.url)
        assert link.port is not None
        for method, headers in (
            ("HEAD", {}),
            ("GET", {"Sec-Purpose": "prefetch;prerender"}),
            ("GET", {"Purpose": "prefetch"}),
        ):
            status, _, told = await knock(link.port, method, link.path, headers)
            assert (status, told.get("Set-Cookie")) == (204, None)
        tab = await person.new_page()
        await tab.goto(sheet.url)
        await expect(tab.get_by_role("heading")).to_have_text("Go?")


async def test_slow_and_idle_clients_are_let_go(
    loopback: LazyPageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "IDLE_LIMIT", 0.2)
    monkeypatch.setattr(http, "BODY_LIMIT", 0.2)
    async with loopback.show(question("confirm", message="Go?"), TIMED) as sheet:
        port = urlsplit(sheet.url).port
        assert port is not None
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(begun)
                with anyio.fail_after(PATIENCE), pytest.raises(anyio.EndOfStream):
                    await stream.receive()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["mute", "slow"])
async def test_who_opens_connections_and_asks_nothing_keeps_nobody_out(
    loopback: LazyPageServer, person: BrowserContext, begun: bytes
) -> None:
    asked = question("input", prompt="Who?", schema={"type": "string"})
    async with AsyncExitStack() as others, loopback.show(asked, TIMED) as sheet:
        link = urlsplit(sheet.url)
        for _ in range(200):
            other = await anyio.connect_tcp("127.0.0.1", link.port or 0)
            await (await others.enter_async_context(other)).send(begun)
        tab = await person.new_page()
        await tab.goto(sheet.url)
        page = Shown(tab, sheet)
        await tab.get_by_role("textbox").fill("Ann")
        await page.press("Send")
        assert await page.reply() == SurfaceResponse(Outcome.ACCEPTED, {"value": "Ann"})


async def test_headers_without_end_are_refused(loopback: LazyPageServer) -> None:
    async with (
        loopback.show(question("confirm", message="Go?"), TIMED) as sheet,
        await anyio.connect_tcp("127.0.0.1", urlsplit(sheet.url).port or 0) as stream,
    ):
        await stream.send(b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)
        with anyio.fail_after(PATIENCE):
            assert (await stream.receive()).startswith(b"HTTP/1.1 400 ")


async def test_streams_are_bounded_in_number(
    loopback: LazyPageServer, person: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_STREAMS", 2)
    async with shown(loopback, person, question("confirm", message="Go?")) as page:
        statuses = await page.tab.evaluate("""async () => {
            const given = [];
            const open = document.querySelector('form').dataset.open;
            for (let count = 0; count < 4; count++) given.push((await fetch(open)).status);
            return given.sort();
        }""")
        assert statuses[-2:] == [503, 503]


async def test_the_page_ends_with_its_session(person: BrowserContext) -> None:
    async with anyio.create_task_group() as tasks:
        async with shown(LazyPageServer(tasks), person, question("confirm", message="Go?")) as page:
            inbox = await person.new_page()
            await inbox.goto(page.tab.url.partition("q/")[0])
            port = urlsplit(page.tab.url).port
        tasks.cancel_scope.cancel()
    with pytest.raises(OSError, match="All connection attempts failed"):
        await anyio.connect_tcp("127.0.0.1", port or 0)


async def test_a_fault_of_our_own_is_said_without_its_details(
    loopback: LazyPageServer,
    person: BrowserContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*arguments: Any, **more: Any) -> str:
        raise RuntimeError(KEY)

    async with shown(loopback, person, question("confirm", message="Go?")) as page:
        monkeypatch.setattr(html, "question_page", fail)
        response = await page.tab.reload()
        assert response is not None
        assert response.status == 500
        await expect(page.tab.get_by_text("The page failed")).to_be_visible()
        assert KEY not in await page.tab.content()
    ours = [each.getMessage() for each in caplog.records if each.name != "asyncio"]
    assert ours == ["a page of the bridge's own failed"]


async def test_a_question_on_the_questions_api_stands_on_the_page_too(
    person: BrowserContext,
) -> None:
    async with anyio.create_task_group() as tasks:
        loopback = LazyPageServer(tasks)
        api = QuestionsApi(partial(loopback.questions, 0, "planted"), loopback, alone=True)
        async with shown(loopback, person, question("confirm", message="First?")) as page:
            inbox = await person.new_page()
            await inbox.goto(page.tab.url.partition("q/")[0])
            replies: list[SurfaceResponse] = []

            async def ask() -> None:
                replies.append(
                    await api.prompt(
                        question("input", prompt="Seats?", schema={"type": "integer"}),
                        TIMED,
                        SurfaceVariant(Surface.QUESTIONS_API),
                    )
                )

            async with anyio.create_task_group() as asking:
                asking.start_soon(ask)
                await inbox.get_by_role("link", name="Seats?").click()
                url = urlsplit(await api.make_ready())
                bearer = {"Authorization": "Bearer planted"}
                status, listed, _ = await knock(url.port or 0, "GET", "/question", bearer)
                assert status == 200
                (request,) = json.loads(listed)
                body = json.dumps({"answers": [["4"]]}).encode()
                assert (
                    await knock(
                        url.port or 0, "POST", f"/question/{request['id']}/reply", bearer, body
                    )
                )[:2] == (200, "true")
                await expect(inbox.get_by_role("alert")).to_contain_text(
                    "answered by another program"
                )
            (reply,) = replies
            assert (reply.outcome, reply.content) == (Outcome.ACCEPTED, {"value": "4"}), (
                "as it was typed: it is validated once, for the app"
            )
            assert reply.seconds is not None, "a program's own time, not a hand's"
            async with anyio.create_task_group() as asking:
                asking.start_soon(ask)
                await inbox.goto(page.tab.url.partition("q/")[0])
                await inbox.get_by_role("link", name="Seats?").click()
                await inbox.get_by_role("spinbutton").fill("5")
                await inbox.get_by_role("button", name="Send").click()
            assert (replies[1].content, replies[1].seconds) == ({"value": "5"}, None)
            assert (await knock(url.port or 0, "GET", "/question", bearer))[1] == "[]"
        tasks.cancel_scope.cancel()


async def test_an_api_whose_start_was_cancelled_can_start_again() -> None:
    async with anyio.create_task_group() as tasks:
        loopback = LazyPageServer(tasks)
        api = QuestionsApi(partial(loopback.questions, 0, "planted"), loopback, alone=True)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await api.make_ready()
        assert scope.cancelled_caught
        url = urlsplit(await api.make_ready())
        assert (
            await knock(url.port or 0, "GET", "/question", {"Authorization": "Bearer planted"})
        )[0] == 200
        tasks.cancel_scope.cancel()
