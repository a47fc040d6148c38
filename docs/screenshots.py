"""python docs/screenshots.py DIR: the bridge's own page as a person sees it, each of its states a
small PNG in DIR (`make docs`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import BrowserContext, Page

from abp_bridge.apps.browser.chromium import run_chromium
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.settings import read_settings
from abp_bridge.surfaces.page.surface import LazyPageServer

Json = Any

WIDTH, HEIGHT = 400, 640


def ask(method: str, **params: Json) -> Question:
    return decode_question(
        {"method": f"elicitation/{method}", "params": params, "timeout": 600_000},
        id="q",
        origin="https://travel.example",
    )


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
    timeout=600,
)


class Camera:
    """A person's browser, and where its pictures go."""

    def __init__(self, loopback: LazyPageServer, person: BrowserContext, folder: Path) -> None:
        self._loopback = loopback
        self._person = person
        self._folder = folder

    @asynccontextmanager
    async def shown(self, question: Question, *, code: bool = False) -> AsyncIterator[Page]:
        """A tab at the question or, with `code`, at the address that a model is told."""
        with anyio.move_on_after(600):
            async with self._loopback.show(question) as sheet:
                tab = await self._person.new_page()
                await tab.goto(sheet.address if code else sheet.url)
                yield tab
                await tab.close()

    async def take(self, tab: Page, name: str) -> None:
        """A picture of the whole page, as high as what is on it."""
        await tab.evaluate("document.querySelector('main').style.minHeight = '0'")
        height = await tab.evaluate("document.querySelector('main').getBoundingClientRect().height")
        await tab.screenshot(
            path=self._folder / f"{name}.png",
            clip={"x": 0, "y": 0, "width": WIDTH, "height": min(height, 2 * HEIGHT)},
            full_page=True,
        )


async def take_all(folder: Path) -> None:
    # Only our own page is opened: as root, whom Chromium gives no sandbox, without one.
    sandbox = "0" if os.geteuid() == 0 else "1"
    settings = read_settings({"ABP_CHROME_SANDBOX": sandbox, **os.environ})
    async with anyio.create_task_group() as tasks, run_chromium(settings) as browser:
        person = await browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
        )
        camera = Camera(LazyPageServer(tasks), person, folder)
        async with camera.shown(TRIP) as tab:
            await camera.take(tab, "form")
            for meal in ("Breakfast", "Dinner"):
                await tab.get_by_label(meal).check()
            await tab.get_by_role("button", name="Check your answers").click()
            await camera.take(tab, "check")
            await tab.get_by_role("button", name="Send").click()
            await camera.take(tab, "closed")
        async with camera.shown(SECRET) as tab:
            await tab.get_by_label("API key").fill("planted-key")
            await camera.take(tab, "secret")
            await tab.evaluate("document.querySelector('form').noValidate = true")
            await tab.get_by_label("API key").fill("short")
            await tab.get_by_role("button", name="Send").click()
            await camera.take(tab, "problem")
        async with camera.shown(FILE) as tab:
            await tab.get_by_label("File").set_input_files(
                {"name": "ann.png", "mimeType": "image/png", "buffer": b"\x89PNG" * 5000}
            )
            await camera.take(tab, "file")
        async with camera.shown(LEAVE) as tab:
            await camera.take(tab, "leave")
        async with camera.shown(DELETE) as tab:
            await camera.take(tab, "destructive")
        async with camera.shown(TRIP) as tab, camera.shown(SECRET), camera.shown(DELETE):
            await tab.goto(tab.url.rpartition("q/")[0])
            await camera.take(tab, "inbox")
        async with camera.shown(TRIP, code=True) as tab:
            await camera.take(tab, "code")
        await person.close()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(take_all, Path(sys.argv[1]))
