"""Tools of frames of other origins: offered where the page lets the frame and its person named the
origin, and nowhere else; and whatever is asked of them is asked in the frame's name.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from support.harness import PATIENCE, Hosted, accept, hosted, run, text
from support.pages.server import Web

from abp_bridge.apps.webmcp.tool_session import MAX_WARNED

Json = Any

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def framing(
    site: Web, *more: str, what: str = "frame", answer: Callable[..., Json] | None = None
) -> AsyncIterator[Hosted]:
    """A page with a frame of another origin in it."""
    async with hosted("--app", f"{site.here}/tools.html", *more, answer=answer) as host:
        await work(host, what, f"{site.elsewhere}/tools.html")
        yield host


async def work(host: Hosted, what: str, given: str) -> None:
    assert text(await host.call("work", what=what, given=given)) == "done"


async def until_status(host: Hosted, reached: Callable[[str], object]) -> str:
    """The bridge's status, once it is as wanted."""
    with anyio.fail_after(PATIENCE):
        while not reached(said := text(await host.client.call_tool("abp_status", {}))):
            pass
    return said


async def test_a_frame_that_both_allow_offers_its_tools_in_its_own_name(site: Web) -> None:
    asked: list[str] = []

    def answer(params: Json) -> Json:
        asked.append(params.message)
        given = {"name": "Eve", "guests": 2, "room": "in", "quiet": False}
        return accept(**(given if len(asked) == 1 else {"confirmed": True}))(params)

    async with framing(site, "--frames", site.elsewhere, answer=answer) as host:
        said = await until_status(host, lambda said: "frame2.book_table" in said)
        assert "are not offered" not in said
        assert json.loads(text(await host.call("frame2.add", a=1, b=1)))["sum"] == 2
        assert json.loads(text(await host.call("add", a=1, b=2)))["sum"] == 3
        booked = await host.call("frame2.book_table", name="Ann")
        assert json.loads(text(booked))["sent"]["name"] == "Eve"
        assert json.loads(text(await host.call("frame2.wipe"))) == {"wiped": True}
        for each in asked:
            assert site.elsewhere in each
            assert site.here not in each
        tools = await host.client.list_tools()
        [listed] = [each for each in tools.tools if "book" in each.name and "frame2" in each.name]
        assert f"In a frame of {site.elsewhere}." in str(listed.description)


async def test_a_frame_that_goes_to_another_origin_takes_its_tools_with_it(site: Web) -> None:
    async with framing(site, "--frames", site.elsewhere) as host:
        await until_status(host, lambda said: "frame2.add" in said)
        await work(host, "elsewhere", f"{site.here.replace('127.0.0.1', '[::1]')}/")
        with anyio.fail_after(PATIENCE):
            while not (await host.call("frame2.add", a=1)).is_error:
                pass
        assert json.loads(text(await host.call("add", a=1)))["sum"] == 1


async def test_a_frame_whose_origin_nobody_named_is_warned_of_with_the_way(site: Web) -> None:
    async with framing(site) as host:
        said = await until_status(host, lambda said: "are not offered" in said)
        assert f"--frames {site.elsewhere}" in said
        assert "frame2" not in said


async def test_the_status_says_what_is_asked_of_the_person(site: Web) -> None:
    async with hosted("--app", f"{site.here}/tools.html") as host:
        await host.client.call_tool("abp_connect", {})
        [app] = (await host.status())["apps"].values()
        listed = {each["name"]: each for each in app["capabilities"]}
        assert listed["wipe"]["needsApproval"]
        assert "needsApproval" not in listed["book_table"]
        assert listed["book_table"]["askedOfPerson"] == ["name"]
        assert listed["sign_in"]["askedOfPerson"] == ["secret"]
        assert listed["login"]["askedOfPerson"] == ["pin"]


async def test_a_frame_that_its_page_does_not_let_offers_nothing(site: Web) -> None:
    async with framing(site, "--frames", site.elsewhere, what="bare") as host:
        # one that may, and comes later, is there: so the first would be
        await work(host, "frame", f"{site.elsewhere}/tools.html")
        said = await until_status(host, lambda said: "frame3.add" in said)
        assert "frame2" not in said
        assert (
            f"{site.elsewhere} are not offered: its page has to let it have them, by allow" in said
        )


async def test_frames_of_more_origins_than_are_named_are_counted(site: Web) -> None:
    port = site.here.rpartition(":")[2]
    async with hosted("--app", f"{site.here}/tools.html") as host:
        for number in range(MAX_WARNED + 2):
            await work(host, "frame", f"http://h{number}.localhost:{port}/nothing")
        said = await until_status(host, lambda said: "of 2 more origins" in said)
        assert said.count("--frames http://h") >= MAX_WARNED  # others were, while there were fewer


@pytest.mark.parametrize("origin", ["pay.example", "https://pay.example/", "ws://pay.example"])
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    ended = run("serve", "--app", "https://app.example", "--frames", origin)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is no origin" in ended.stderr
