"""python docs/screenshots.py DIR: the bridge's own page and the inbox as a person sees them, each
state a small PNG in DIR/page or DIR/inbox (`make docs`): on a desktop and on a phone, light and
dark.

`visit` and `visit_inbox` go through the states; a test has axe look at each of them.
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
from anyio.abc import TaskGroup
from playwright.async_api import Browser, BrowserContext, Page

from abp_bridge.apps.browser.chromium import run_chromium
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import Capability
from abp_bridge.core.ledger import Ledger
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.models.request import make_approval
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.approval import make_question
from abp_bridge.session.context import AskContext, Asking, InputRequestEvent, InputResolvedEvent
from abp_bridge.settings import read_settings
from abp_bridge.surfaces.inbox import pairing
from abp_bridge.surfaces.inbox.pairing import Pairing
from abp_bridge.surfaces.inbox.register import Register
from abp_bridge.surfaces.inbox.site import InboxSite, Invitation
from abp_bridge.surfaces.page.surface import LazyPageServer

Json = Any

Look = Callable[[Page, str], Awaitable[None]]
HERE = "https://travel.example"
WIDTHS = {"desktop": 800, "phone": 360}
HIGHEST = 1_200  # pixels of a page that a picture shows
SCALE = 0.5
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAJElEQVR4nGP4z8DwnxHxHwD1lAT9cwM3qwAAAABJRU5"
    "ErkJggg=="
)

ICON = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAADAAAAAwCAIAAADYYG7QAAAAiUlEQVR42u3XwQ2AMAwEwRRAgfRA/+/l"
    "xQMJBAE7PsGtKGCEILHbtMxSTzPIIIMMMsigIhAgBGJLAsS+YhBHlYE4rwDEVUNB3GsQiJ7SQfSXCOJp"
    "KSDeFQwiojAQcX30DSl+Q4p/meI5pHhSK95lire94jykODEqztSKW4fiXuZV2iCDDDLoR6AV2Qnxxozw"
    "CM4AAAAASUVORK5CYII="
)


CONTEXT = AskContext(
    timeout=600.0, app="Travel Desk", host="Codex 0.169", tools=("trip.book",), icon=ICON
)


def ask(method: str, **params: Json) -> Question:
    raw: Json = {"method": f"elicitation/{method}", "params": params}
    return decode_question(raw, id="q", origin=HERE)


TRIP = ask(
    "input",
    prompt="Where do you want to go?",
    schema={
        "type": "object",
        "properties": {
            "city": {"enum": ["Lima", "Rome", "Tokyo"], "title": "City", "default": "Rome"},
            "meals": {
                "type": "array",
                "items": {"enum": ["Breakfast", "Dinner"]},
                "title": "Meals",
                "maxItems": 2,
            },
            "seats": {
                "type": "integer",
                "title": "Seats",
                "minimum": 1,
                "maximum": 9,
                "default": 2,
            },
            "day": {"type": "string", "title": "Day", "format": "date"},
        },
        "required": ["city", "meals", "seats"],
    },
)
SECRET = ask(
    "input",
    prompt="Enter the API key of your booking account",
    schema={
        "type": "string",
        "title": "API key",
        "minLength": 8,
        "description": "It is in the account's settings.",
    },
)
FILE = ask("resource", prompt="A photo for your travel card", type="image/*")
DELETE = ask("confirm", message="Delete all 12 bookings?", destructive=True)
LEAVE = Question(
    "q",
    Kind.RESOURCE,
    "May it read /home/ann/trips/boarding-pass.pdf? (48213 bytes, application/pdf)\n\nThe app says:"
    " Your boarding pass",
    (Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"}),),
    "https://travel.example",
)


LIST = ask(
    "input",
    prompt="Who travels?",
    schema={
        "type": "array",
        "title": "Travellers",
        "minItems": 1,
        "maxItems": 4,
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "maxLength": 40},
                "diet": {"enum": ["Anything", "No meat"], "title": "Diet"},
            },
            "required": ["name"],
        },
    },
)
NOTE = ask(
    "input",
    prompt="What should the hotel know?",
    schema={"type": "string", "maxLength": 300, "minLength": 10},
)
STATION = ask(
    "select", prompt="From which station?", options=[f"Station {each}" for each in range(1, 61)]
)
CALL = make_question(
    "q", HERE, Capability("trip.cancel", destructive=True), {"trip": "Rome, 12 May"}
)
YES = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"value": "Station 5"})
MODEL = make_approval(
    "q",
    Question("s", Kind.SAMPLING, "task", (), HERE),
    "claude -p",
    "Plan three days in Rome for two people who like to walk.",
)


@asynccontextmanager
async def shown(
    page: LazyPageServer, person: BrowserContext, question: Question, *, code: bool = False
) -> AsyncIterator[Page]:
    """A tab at the question or, with `code`, at the address that a model is told."""
    with anyio.move_on_after(600):
        async with page.show(question, CONTEXT) as sheet:
            tab = await person.new_page()
            await tab.goto(sheet.address if code else sheet.url)
            yield tab
            await tab.close()


async def visit(page: LazyPageServer, browser: Browser, look: Look) -> None:
    """Go through the states of the page, and `look` at each, by its name."""
    person = await browser.new_context(viewport={"width": WIDTHS["desktop"], "height": 900})
    await _fill_in(page, person, look)
    await _decide(page, person, look)
    await _end(page, person, look)
    await person.close()
    abroad = await browser.new_context(
        viewport={"width": WIDTHS["desktop"], "height": 900}, locale="de-DE"
    )
    async with shown(page, abroad, NOTE) as tab:
        await look(tab, "german")
    await abroad.close()


async def _fill_in(page: LazyPageServer, person: BrowserContext, look: Look) -> None:
    async with shown(page, person, TRIP) as tab:
        await look(tab, "form")
        for meal in ("Breakfast", "Dinner"):
            await tab.get_by_label(meal).check()
        await tab.get_by_role("button", name="Check your answers").click()
        await tab.get_by_role("definition").first.wait_for()
        await look(tab, "check")
        await tab.get_by_role("button", name="Send").click()
        await tab.get_by_text("Thank you").wait_for()
        await look(tab, "sent")
    async with shown(page, person, SECRET) as tab:
        await tab.get_by_label("API key").fill("planted-key")
        await tab.get_by_text("Do not answer").click()
        await look(tab, "secret")
        await tab.evaluate("document.querySelector('form').noValidate = true")
        await tab.get_by_label("API key").fill("short")
        await tab.get_by_role("button", name="Send").click()
        await tab.locator(".problems").wait_for()
        await look(tab, "problem")
    async with shown(page, person, FILE) as tab:
        await tab.get_by_label("travel card").set_input_files(
            {"name": "ann.png", "mimeType": "image/png", "buffer": PNG}
        )
        await tab.get_by_text("ann.png").wait_for()
        await look(tab, "file")
    async with shown(page, person, NOTE) as tab:
        await tab.get_by_role("textbox").fill("A quiet room, please. " * 14)
        await look(tab, "limit")
    async with shown(page, person, LIST) as tab:
        await tab.get_by_label("Name").fill("Ada")
        await look(tab, "list")
    async with shown(page, person, STATION) as tab:
        await tab.get_by_role("searchbox").fill("on 5")
        await look(tab, "search")


async def _decide(page: LazyPageServer, person: BrowserContext, look: Look) -> None:
    for name, question in {
        "leave": LEAVE,
        "destructive": DELETE,
        "call": CALL,
        "model": MODEL,
    }.items():
        async with shown(page, person, question) as tab:
            await look(tab, name)
    async with (
        shown(page, person, TRIP) as tab,
        shown(page, person, SECRET),
        shown(page, person, DELETE),
    ):
        await tab.goto(tab.url.rpartition("q/")[0])
        await look(tab, "inbox")
    async with shown(page, person, TRIP, code=True) as tab:
        await look(tab, "code")


async def _end(page: LazyPageServer, person: BrowserContext, look: Look) -> None:
    """Its time runs out, it is withdrawn, and the bridge dies."""
    async with page.show(NOTE, replace(CONTEXT, timeout=300.0)) as sheet:
        tab = await person.new_page()
        await tab.clock.install()
        await tab.goto(sheet.url)
        await tab.get_by_role("textbox").fill("A quiet room, please.")
        await tab.clock.fast_forward("04:00")
        await tab.get_by_text("closes in").wait_for()
        await look(tab, "soon")
    await tab.get_by_role("alert").wait_for()
    await look(tab, "withdrawn")
    await tab.close()
    async with page.show(NOTE, CONTEXT) as sheet:
        tab = await person.new_page()
        await tab.goto(sheet.url)
        await tab.get_by_role("textbox").fill("A quiet room, please.")
        await tab.route("**/*", lambda route: route.abort())  # as where nobody listens any more
        await tab.get_by_role("button", name="Send").click()
        await tab.get_by_text("The bridge has gone").wait_for()
        await look(tab, "gone")
        await tab.close()


async def visit_inbox(browser: Browser, look: Look) -> None:
    """Go through the states of the inbox, which knows of nothing but what is asked here."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"HOME": folder, "ABP_RUNTIME_DIR": f"{folder}/run"}
        person = await browser.new_context(viewport={"width": WIDTHS["desktop"], "height": 900})
        with mock.patch.dict(os.environ, places):
            async with anyio.create_task_group() as tasks:
                kept, invitation = Pairing(), Invitation()
                pairing.save(kept)
                inbox = InboxSite(tasks, kept, invitation)
                tab = await person.new_page()
                await tab.goto(await inbox.start(0))
                await _pair(tab, invitation, look)
                await _list(tasks, tab, Path(folder, "run"), look)
                await tab.get_by_role("button", name="Forget this browser").click()
                await tab.get_by_text("This browser is forgotten").wait_for()
                await look(tab, "forgotten")
                tasks.cancel_scope.cancel()
        await person.close()


async def _pair(tab: Page, invitation: Invitation, look: Look) -> None:
    for code in ("BBBB-BBBB", invitation.shown_code):
        await tab.get_by_label("Code").fill(code)
        await tab.keyboard.press("Enter")
        if code != invitation.shown_code:
            await tab.get_by_role("alert").wait_for()
            await look(tab, "entrance")
    await tab.get_by_text("Nothing is open.").wait_for()


async def _list(tasks: TaskGroup, tab: Page, runtime: Path, look: Look) -> None:
    """Questions of a bridge, on its page and in its host, what was answered, and another bridge
    that says nothing.
    """
    register = Register(tasks, 600.0)
    tell = register.observer(lambda: "Codex 0.169")
    for question in (STATION, SECRET):
        tell(InputRequestEvent(0.0, question, CONTEXT))
        tell(InputResolvedEvent(1.0, question, YES, CONTEXT))
    tell(InputRequestEvent(0.0, replace(NOTE, id="host"), CONTEXT))
    asking = Asking(DELETE, Ledger(), 600.0, is_fixed=True)
    context = replace(CONTEXT, asking=asking)
    tell(InputRequestEvent(0.0, DELETE, context))
    async with LazyPageServer(tasks).show(DELETE, context):
        await anyio.wait_all_tasks_blocked()  # till its socket, whose folder it makes, is there
        async with await anyio.create_unix_listener(
            runtime / f"4711-{int(datetime.now().timestamp())}.sock"
        ):
            await tab.reload()
            await tab.get_by_text("process 4711").wait_for()
            await look(tab, "list")


class Camera:
    """Takes each state at two sizes, light and dark, as one picture."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    async def look(self, tab: Page, name: str) -> None:
        """One PNG of a state: desktop and phone, light, and the same, dark."""
        await tab.wait_for_load_state()  # its style is there
        taken = []
        for scheme in ("light", "dark"):
            await tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for width in WIDTHS.values():
                await tab.set_viewport_size({"width": width, "height": 400})
                height = await tab.evaluate("document.body.getBoundingClientRect().height")
                await tab.set_viewport_size({"width": width, "height": min(int(height), HIGHEST)})
                taken.append((width, await tab.screenshot(full_page=False)))
        await tab.emulate_media(color_scheme="light")
        await tab.set_viewport_size({"width": WIDTHS["desktop"], "height": 900})
        await self._mount(taken, name)

    async def _mount(self, taken: list[tuple[int, bytes]], name: str) -> None:
        images = "".join(
            f'<img width="{int(width * SCALE)}" src="data:image/png;base64,'
            f'{base64.b64encode(image).decode()}">'
            for width, image in taken
        )
        wall = await self._browser.new_page()
        await wall.set_content(
            "<style>body{margin:0;display:inline-flex;gap:8px;align-items:start}</style>" + images
        )
        await wall.locator("body").screenshot(path=self._folder / f"{name}.png")
        await wall.close()


async def take_all(folder: Path) -> None:
    # Only our own page is opened: as root, whom Chromium gives no sandbox, without one.
    sandbox = "0" if os.geteuid() == 0 else "1"
    settings = read_settings({"ABP_CHROME_SANDBOX": sandbox, **os.environ})
    async with anyio.create_task_group() as tasks, run_chromium(settings) as browser:
        await visit(LazyPageServer(tasks), browser, Camera(browser, folder / "page").look)
        await visit_inbox(browser, Camera(browser, folder / "inbox").look)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(take_all, Path(sys.argv[1]))
