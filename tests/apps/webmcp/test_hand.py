"""Forms that need a hand in the page: the test presses on a display of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.browser import Display, display, running_chromium
from support.harness import PATIENCE, Hosted, accept, environment, hosted, refuse, text
from support.pages.server import Web

Json = Any

pytestmark = pytest.mark.browser

PAY, APPROVE, HUMAN, CARD = "#00c000", "#c06000", "#c000c0", "#0000c0"


@pytest.fixture(scope="module")
def screen() -> Iterator[Display]:
    with display() as running:
        yield running


@dataclass
class Person:
    """Who is asked: `does` is done at each question in turn, and its result is their answer."""

    does: list[Callable[[], Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def answer(self, params: Json) -> Json:
        self.asked.append(params.message)
        done = self.does[len(self.asked) - 1]()
        given = await done if hasattr(done, "__await__") else done
        return None if given is None else given(params)


@asynccontextmanager
async def window(
    site: Web, screen: Display, kind: str, person: Person, **env: str
) -> AsyncIterator[Hosted]:
    page = f"{site.here}/hand.html?{kind}"
    shown = {"DISPLAY": screen.name, **env}
    async with hosted("--app", page, "--headful", answer=person.answer, env=shown) as host:
        yield host


def pressing(screen: Display, *colours: str, then: Json = None) -> Callable[[], Any]:
    """Press what is drawn in each of these colours, once it is; and answer then."""

    async def press() -> Json:
        for colour in colours:
            await screen.until(colour)
            await anyio.to_thread.run_sync(screen.press)
        return then

    return press


def says(answer: Json) -> Callable[[], Json]:
    return lambda: answer


YES = accept(done=True)


async def test_a_card_in_anothers_frame_is_paid_with_in_the_window(
    site: Web, screen: Display
) -> None:
    person = Person()
    async with window(site, screen, "card", person) as host:
        person.does = [pressing(screen, PAY)]
        result = await host.call("pay", name="Ann")
        assert json.loads(text(result)) == {"name": "Ann", "trusted": True}
        [asked] = person.asked
        assert "Pay for the table" in asked
        assert f"a frame of {site.elsewhere} is in it" in asked
        assert 'press its button "Pay now"' in asked


async def test_while_a_person_has_the_page_nobody_else_touches_it(
    site: Web, screen: Display
) -> None:
    person = Person()
    async with window(site, screen, "card", person) as host:
        refused: list[str] = []

        async def other() -> None:
            refused.append(text(await host.call("look")))
            await pressing(screen, PAY)()

        person.does = [other]
        assert "Ann" in text(await host.call("pay", name="Ann"))
        assert "in hand" in refused[0]
        assert "RATE_LIMITED" in refused[0]
        assert "Ann" in text(await host.call("look"))


async def test_a_page_that_leaves_for_a_bank_in_their_hands_is_no_success(
    site: Web, screen: Display
) -> None:
    person = Person([pressing(screen, PAY)])
    async with window(site, screen, "bank", person) as host:
        result = await host.call("pay", name="Ann")
        assert result.is_error
        assert "OUTCOME_UNKNOWN" in text(result)
        assert f"its page went to {site.elsewhere}" in text(result)


async def test_what_they_drop_is_not_sent_and_taken_out_of_the_form(
    site: Web, screen: Display
) -> None:
    person = Person([says(refuse("decline"))])
    async with window(site, screen, "card", person) as host:
        result = await host.call("pay", name="Ann")
        assert "USER_CANCELLED" in text(result)
        assert "Ann" not in text(await host.call("look"))


async def test_a_button_that_waits_for_a_person_is_freed_by_hand_then_asked_as_ever(
    site: Web, screen: Display
) -> None:
    person = Person([pressing(screen, HUMAN, then=YES), says(accept(name="Eve"))])
    async with window(site, screen, "captcha", person) as host:
        result = await host.call("pay", name="Ann")
        assert json.loads(text(result))["name"] == "Eve"
        assert "none of the form's buttons can be pressed yet" in person.asked[0]
        assert '"Pay now"' in person.asked[1]


async def test_what_a_function_waits_for_in_the_page_is_done_by_hand(
    site: Web, screen: Display
) -> None:
    person = Person([pressing(screen, APPROVE)])
    async with window(site, screen, "sheet", person) as host:
        result = await host.call("sheet")
        assert json.loads(text(result)) == {"paid": True, "trusted": True}
        assert "opened a dialog of its own" in person.asked[0]
        assert text(await host.call("spinner")) == "done"
        assert len(person.asked) == 1


async def test_a_call_that_its_host_cancels_gives_the_page_back(site: Web, screen: Display) -> None:
    person = Person()
    async with window(site, screen, "card", person) as host:
        asked = anyio.Event()

        async def never() -> None:
            asked.set()
            await anyio.sleep_forever()

        person.does = [never, pressing(screen, PAY)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: host.call("pay", name="Ann"))
            await asked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            while "Ann" in (said := text(await host.call("look"))) or "RATE_LIMITED" in said:
                pass
        assert "Eve" in text(await host.call("pay", name="Eve"))


async def test_error_without_a_window_says_how_to_have_one(site: Web) -> None:
    async with hosted("--app", f"{site.here}/hand.html?captcha", answer=accept()) as host:
        result = await host.call("pay")
        assert result.is_error
        for said in ("NOT_SUPPORTED", "--headful", "ABP_HEADLESS=false", "--browser-url"):
            assert said in text(result)


def chromium(screen: Display, folder: Path, *pages: str) -> AbstractContextManager[str]:
    """A person's own running Chromium on the display, with these tabs: where it is driven."""
    words = ["--no-first-run", "--enable-features=WebMCP", *pages]
    return running_chromium(folder, *words, env=environment(DISPLAY=screen.name))


async def test_in_a_persons_own_browser_the_tab_comes_to_the_front(
    site: Web, screen: Display, tmp_path: Path
) -> None:
    page, mine = f"{site.here}/hand.html?card", "data:text/html,<body bgcolor=%23123456>"
    person = Person()

    async def allow() -> Json:
        await screen.until("#123456")  # another tab is in front
        return accept(confirmed=True)

    person.does = [allow, pressing(screen, PAY)]
    with chromium(screen, tmp_path, mine, page) as running:
        words = ["--app", page, "--browser-url", running]
        async with hosted(*words, answer=person.answer) as host:
            result = await host.call("pay", name="Ann")
            assert json.loads(text(result)) == {"name": "Ann", "trusted": True}
            assert len(person.asked) == 2
