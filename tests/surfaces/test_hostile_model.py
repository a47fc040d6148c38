"""A model that is given everything it can read: results, logs, stderr, traces, the words of an app.
It cannot open, answer or guess a question's page; no more can somebody else on this machine.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest
from support.harness import Hosted, hosted, text
from support.screen import Tty
from support.visitor import LINK, Browser

from abp_bridge.surfaces.page.app import MAX_CODES

Json = Any

pytestmark = pytest.mark.anyio

QUESTION = "Your favourite town?"
ASKED: Json = {
    "method": "elicitation/input",
    "params": {"prompt": QUESTION, "schema": {"type": "string", "title": "Town"}},
}
PASSWORD: Json = {"method": "elicitation/input", "params": {"prompt": "Your password?"}}
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/code/[\w-]+")
PAGE = ("--app", "demo", "--page", "--ask-on", "page")


async def request(path: str, **posted: str) -> tuple[int, str]:
    """What a program without cookies gets there: (the status, the page)."""
    browser = Browser()

    def send() -> tuple[int, str]:
        try:
            browser.open(path)
            if posted:
                browser.post(**posted)
        except HTTPError as refused:
            return refused.code, refused.read().decode()
        return 200, browser.page

    return await anyio.to_thread.run_sync(send)


async def address_of(host: Hosted, asked: Json = ASKED) -> str:
    """Have it asked: the address that the model is told."""
    said = text(await host.call("demo.ask", request=asked))
    found = ADDRESS.findall(said)
    assert found, said
    return str(found[0])


async def wait_again(host: Hosted) -> str:
    """Come back to the newest call, as it said: what it says now."""
    said = json.dumps(host.wire.lines)
    call = re.findall(r'abp_wait with [^"]*"call[^"]*": [^"]*"([\w-]+)', said)[-1]
    return text(await host.client.call_tool("abp_wait", {"call": call}))


async def outcome_of(host: Hosted) -> Json:
    return json.loads(await wait_again(host))


async def test_nothing_that_a_model_can_read_opens_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Log and trace in files, stderr, the results and the status: an address, and no token, and the
    code only where the person looks.
    """
    files = ["--log-level", "debug", "--log-file", str(tmp_path / "log")]
    files += ["--record", str(tmp_path / "trace")]
    with Tty() as terminal:
        async with hosted(*PAGE, *files, "--tty", terminal.name) as host:
            address = await address_of(host)
            shown = terminal.until(r"code \S+\s")
            readable = json.dumps([host.wire.lines, await host.status()])
            (link,), code = LINK.findall(shown), shown.split("code ")[-1].split()[0]
            status, page = await request(address)
            assert status == 200
            assert QUESTION not in page
            await request(link)
        readable += (
            "".join(each.read_text() for each in tmp_path.iterdir()) + capfd.readouterr().err
        )
    token = link.rpartition("/")[2]
    for secret in (token, code, code.replace("-", ""), "/open/"):
        assert secret not in readable
    assert urlsplit(link).path not in page


async def test_guesses_are_bounded_and_the_question_goes_on_down_the_ladder() -> None:
    """A model that guesses ends the page, and is asked itself, where that is allowed."""
    with Tty() as terminal:
        options = ["--tty", terminal.name, "--ask-model", "--ask-on", "page,model"]
        async with hosted("--app", "demo", "--page", *options) as host:
            address = await address_of(host)
            code = terminal.code()
            for left in range(MAX_CODES - 1, 0, -1):
                status, page = await request(address, code="BBBB-BBBB")
                assert (status, f"try {left} more" in page) == (403, True)
            await request(address, code="BBBB-BBBB")
            assert QUESTION not in (await request(address, code=code))[1], "the right one, too late"
            told = await wait_again(host)
            assert "call abp_answer" in told
            assert QUESTION in told


async def test_a_secret_that_is_guessed_at_is_refused_with_the_count() -> None:
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            address = await address_of(host, PASSWORD)
            terminal.code()
            for _ in range(MAX_CODES):
                await request(address, code="BBBB-BBBB")
            response = await outcome_of(host)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert f"a wrong code was given {MAX_CODES} times" in response["error"]["message"]


async def test_what_is_no_code_at_all_is_a_guess_too() -> None:
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            address = await address_of(host, PASSWORD)
            for given in ("", "x" * 1000, "%00", "0", "é"):
                await request(address, code=given)
            assert "5 times" in (await outcome_of(host))["error"]["message"]


async def test_who_only_knows_the_port_finds_nothing_and_costs_the_person_nothing() -> None:
    """Somebody else on this machine sees that there is a server."""
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            address = await address_of(host)
            site, id = address.split("/code/")
            code = terminal.code()
            for path in ("", "code", "code/", "code/BBBB", f"open/{id}", f"open/{code}", f"q/{id}"):
                for posted in ({}, {"code": code}):
                    status, page = await request(f"{site}/{path}", **posted)
                    assert status in (403, 404, 405)
                    assert QUESTION not in page
            person = Browser()
            await anyio.to_thread.run_sync(person.open, address)
            await anyio.to_thread.run_sync(lambda: person.post(code=code.lower().replace("-", " ")))
            assert QUESTION in person.page
            status, page = await request(address, code=code)
            assert (status, "This link was used" in page) == (403, True)
            await anyio.to_thread.run_sync(lambda: person.send(**{"field-0": "Turku"}))
            assert (await outcome_of(host))["data"] == {"value": "Turku"}
