"""The bridge's own page in a real Chromium: what the user sees and does there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.abc import SocketAttribute, SocketStream
from playwright.async_api import Browser, BrowserContext, Page, expect
from support.harness import MODERN, PATIENCE, Hosted, hosted, leave
from support.programs import Programs
from support.question_strategies import GUESTS

from abp_bridge.core.capability import Capability
from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.approval import make_question
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import Ending, PageQuestion, SurfaceResponse
from abp_bridge.surfaces.page import browser as tabs
from abp_bridge.surfaces.page.surface import LazyPageServer, PageSurface

Json = Any

pytestmark = pytest.mark.browser

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


async def test_every_kind_of_field_is_filled_in(person: BrowserContext) -> None:
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


async def test_page_works_without_scripts(browser: Browser) -> None:
    plain = await browser.new_context(java_script_enabled=False)
    async with asked(lambda url: type_key(plain, url)) as host:
        assert (await host.ask("elicitation/input", **SECRET))["data"] == {"value": KEY}
    await leave(plain)


async def test_first_of_two_tabs_counts(person: BrowserContext) -> None:
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


# --- one page after another, without a host -------------------------------------------------------


TIMED = AskContext(timeout=600.0)


def question(method: str, **params: Json) -> Question:
    return decode_question(
        {"method": f"elicitation/{method}", "params": params}, id="q", origin="https://app.example"
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


async def test_list_entries_are_added_and_removed(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
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


DROPPED = (
    "() => { const data = new DataTransfer(); data.items.add(new File(['tea\\n'], 'list.txt', {"
    " type: 'text/plain' })); return data; }"
)


async def test_file_is_dropped(loopback: LazyPageServer, person: BrowserContext) -> None:
    async with shown(loopback, person, question("resource", prompt="Notes", type="text")) as page:
        files = await page.tab.evaluate_handle(DROPPED)
        await page.tab.locator(".drop").dispatch_event("drop", {"dataTransfer": files})
        await expect(page.tab.get_by_text("list.txt (text/plain, 4 bytes)")).to_be_visible()
        await page.press("Send")
        assert (await page.reply()).content == {
            "file": {"content": "tea\n", "mimeType": "text/plain", "filename": "list.txt"}
        }


async def test_question_with_a_file_that_is_too_large_can_be_declined(
    loopback: LazyPageServer, person: BrowserContext, tmp_path: Path
) -> None:
    large = tmp_path / "large.png"
    large.write_bytes(bytes(MAX_SIZE * 2))
    asked = question("resource", prompt="A picture", type="image/png")
    async with shown(loopback, person, asked) as page:
        await page.tab.get_by_label("File").set_input_files(large)
        await expect(page.tab.get_by_text("too large")).to_be_visible()
        await page.tab.get_by_text("Do not answer").click()
        await page.press("Decline")
        assert await page.reply() == SurfaceResponse(Outcome.DECLINED)


NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "default": "a\nb", "maxLength": 3},
        {"type": "string", "default": "a\r\nb", "maxLength": 4},
        {"type": "array", "items": NOTE, "default": [{"note": "a\r\nb"}, {"note": "c\nd"}]},
    ],
    ids=["LF", "CRLF", "entries"],
)
async def test_proposed_text_comes_back_with_its_own_line_ends(
    loopback: LazyPageServer, person: BrowserContext, schema: Json
) -> None:
    async with shown(loopback, person, question("input", prompt="A note", schema=schema)) as page:
        await page.press("Send")
        assert (await page.reply()).content == {"value": schema["default"]}


@pytest.mark.parametrize("secret", [True, False])
async def test_pasted_text_keeps_its_lines(
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


WIPE = make_question("q", "app", Capability("wipe", destructive=True), {"path": "/tmp"})


@pytest.mark.parametrize(
    ("asked", "buttons"),
    [
        (
            question("confirm", message="Delete all files?", destructive=True),
            ["No, do not", "Delete"],
        ),
        (WIPE, ["Do not allow", "Allow"]),
    ],
    ids=["confirm", "approval"],
)
async def test_hasty_enter_refuses_what_is_destructive(
    loopback: LazyPageServer, person: BrowserContext, asked: Question, buttons: list[str]
) -> None:
    async with shown(loopback, person, asked) as page:
        drawn = await page.tab.get_by_role("button").all_inner_texts()
        assert drawn == [*buttons, "Later", "Do not answer"]
        await expect(page.tab.get_by_text("cannot be undone")).to_be_visible()
        await expect(page.tab.get_by_role("button", name=buttons[0])).to_be_focused()
        await page.tab.keyboard.press("Enter")
        assert (await page.reply()).content == {"confirmed": False}


async def test_confirm_has_no_default_button(
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


async def test_summary_and_changed_form_show_no_secret(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
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


async def test_open_inbox_lists_new_questions(
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


async def test_change_of_the_inbox_keeps_a_click(
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


async def test_open_tab_shows_how_the_question_ended(
    loopback: LazyPageServer, person: BrowserContext
) -> None:
    asked = question("input", prompt="Name?", schema={"type": "string"})
    async with shown(loopback, person, asked) as page:
        page.sheet.answer(SurfaceResponse(Outcome.DECLINED), Ending.ANSWERED_BY_PROGRAM)
        await expect(page.tab.get_by_role("alert")).to_contain_text("by another program")
    async with shown(loopback, person, asked) as page:
        pass
    await expect(page.tab.get_by_role("alert")).to_contain_text("withdrew")


@asynccontextmanager
async def there(person: BrowserContext) -> AsyncIterator[None]:
    """A tab that is opened inside has said that it is there."""
    async with person.expect_event("requestfinished", lambda sent: "/here/" in sent.url):
        yield


async def test_closing_the_last_tab_cancels_the_questions_seen(
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


async def test_tab_closed_before_its_questions_were_seen_is_opened_again(
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


async def test_postponed_question_stays_open_when_the_last_tab_is_closed(
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


async def test_reloading_the_page_does_not_close_it(
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


async def test_time_that_is_left_is_shown(loopback: LazyPageServer, person: BrowserContext) -> None:
    async with shown(loopback, person, question("confirm", message="Go?")) as page:
        words = r"^Asked \d\d:\d\d, open until \d\d:\d\d \((10:00|9:\d\d) left\)$"
        await expect(page.tab.locator(".when")).to_have_text(re.compile(words))


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


async def test_page_is_accessible_by_keyboard_and_name(
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
        await page.tab.go_back()
        sheet, guard = page.tab.url, await page.tab.locator("input[name=guard]").input_value()
        evil = await person.new_page()
        await evil.set_content(
            f'<form method="post" action="{sheet}"><input name="guard"'
            f' value="{guard}"><button>Win</button></form>'
        )
        async with evil.expect_response(sheet) as posted:
            await evil.get_by_role("button").click()
        assert (await posted.value).status == 403, "a form of another site"
        tasks.cancel_scope.cancel()
