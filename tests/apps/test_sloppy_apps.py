"""Apps whose own code answers wrongly hear what was wrong and what to do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult
from playwright.async_api import Browser
from support.harness import Hosted, hosted, refuse, text
from support.pages.server import Web, web
from support.puppets import App, puppets
from support.tool_pages import Person, lend

from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

Json = Any

FINE = ""  # it is passed on
NOTHING = "returned nothing (undefined or null): it must return {success: true, data}"
NO_SUCCESS = "had no 'success' member; it is passed on as it came. It should be {success: true"
NO_ERROR = "and no Error with a message"

# What a page's call() returns or throws, by its name in pages/sloppy.js: (whether that is an error,
# what is said of it).
CALLS: dict[str, tuple[bool, str]] = {
    "undefined": (True, NOTHING),
    "null": (True, NOTHING),
    "nan": (True, "numbers that JSON does not have became null"),
    "number": (False, NO_SUCCESS),
    "object": (False, NO_SUCCESS),
    "map": (False, FINE),
    "cyclic": (False, "circular references were cut"),
    "element": (False, "objects of the page itself were left out"),
    "response": (False, "objects that hold no data were left out"),
    "dateData": (False, "1970-01-01T00:00:00.000Z"),
    "successText": (True, 'said success: "true", which must be true or false'),
    "errorAlone": (True, "OUT_OF_PAPER: Load paper"),
    "failure": (True, "The app gave no reason"),
    "failureError": (True, "no such thing"),
    "throwText": (True, "OPERATION_FAILED: just so"),
    "throwNull": (True, f"the app threw null, {NO_ERROR}"),
    "throwError": (True, "OPERATION_FAILED: no such thing"),
    "badThenable": (True, "OPERATION_FAILED: never"),
    "reject": (True, f"the app threw null, {NO_ERROR}"),
    "rejectList": (True, f"the app threw [1], {NO_ERROR}"),
}
NO_OBJECT = "where ABP has an object with sessionId and app"
OPENINGS: dict[str, tuple[bool, str]] = {
    "undefined": (True, NO_OBJECT),
    "noData": (True, NO_OBJECT),
    "errorText": (True, NO_OBJECT),
    "throwText": (True, "refused initialize: OPERATION_FAILED: just so"),
    "reject": (True, NO_ERROR),
    "nullCapabilities": (False, "these are its manifest's"),
    "objectCapabilities": (False, 'its capabilities are {"run": {}}, and no list'),
    "oddCapabilities": (False, "capabilities without a name cannot be called: number 1, number 2"),
    "nullApp": (False, "an unnamed app"),
}
LISTS = {
    "number": "its capabilities are 7, and no list",
    "text": 'its capabilities are "done", and no list',
    "throwText": "it did not list its capabilities: OPERATION_FAILED: just so",
    "reject": "it did not list its capabilities: OPERATION_FAILED: the app threw null",
    "failure": "it did not list its capabilities: the app refused",
}
ASKED = {
    "undefined": "an elicitation request must be an object, not null",
    "list": "an elicitation request must be an object, not [1]",
    "object": "a request without a method; known are elicitation/text, elicitation/input",
    "text": 'an elicitation request must be an object, not "done"',
    "date": "an elicitation request must be an object, not",
    "cyclic": "a request without a method",
}


@pytest.fixture(scope="module")
def site() -> Iterator[Web]:
    with web() as running:
        yield running


def check(result: CallToolResult, failed: bool, words: str, kind: str) -> None:
    said = "\n".join(getattr(block, "text", "") for block in result.content)
    assert result.is_error is failed, (kind, said)
    assert words in said, (kind, said)
    assert "has a bug" not in said, (kind, said)


@pytest.mark.browser
async def test_invalid_result_of_a_page_is_named(site: Web) -> None:
    async with hosted("--app", f"{site.here}/sloppy.html") as host:
        for kind, (failed, words) in CALLS.items():
            check(await host.call("run", kind=kind), failed, words, kind)


@pytest.mark.browser
async def test_what_a_page_asks_that_is_no_request_is_named_to_it(site: Web) -> None:
    async with hosted("--app", f"{site.here}/sloppy.html", answer=refuse("decline")) as host:
        for kind, words in ASKED.items():
            given = await host.call("ask", kind=kind, by="__abp_elicitation")
            assert words in json.loads(text(given))["error"]["message"], kind


async def opening(browser: Browser, address: str) -> tuple[bool, str]:
    """Whether the page at `address` fails to open, and what is said of it."""

    settings = Settings(chrome_sandbox=False)
    app = BrowserApp(address, settings, named=True, browser=lend(browser))
    try:
        async with app.open_app(Person()) as about:
            names = [each.name for each in about.capabilities]
            return False, "\n".join([about.name, *about.warnings, *names])
    except AppError as problem:
        return True, str(problem)


@pytest.mark.browser
async def test_how_a_page_opens_is_named(browser: Browser, site: Web) -> None:
    for kind, (failed, words) in OPENINGS.items():
        said = await opening(browser, f"{site.here}/sloppy.html?initialize={kind}")
        assert said[0] is failed, (kind, said)
        assert words in said[1], (kind, said)


@pytest.mark.browser
async def test_a_list_that_is_none_is_named_and_takes_nothing_away(
    browser: Browser, site: Web
) -> None:
    for kind, words in LISTS.items():
        failed, said = await opening(browser, f"{site.here}/sloppy.html?list={kind}")
        assert not failed, (kind, said)
        assert words in said, (kind, said)
        assert said.endswith("run\nask\ntell")


# --- on a pipe ------------------------------------------------------------------------------------

PIPED: dict[str, tuple[bytes, bool, str]] = {
    "null": (b'"result":null', True, NOTHING),
    "half of JSON": (b'"result":{"success":', True, "Parse error"),
    "too deep": (b'"result":' + b"[" * 500 + b"]" * 500, True, "nested more than 128 levels"),
    "an encoding that is none": (
        b'"result":{"success":true,"data":{"mimeType":"text/plain; charset=undefined",'
        b'"content":"aGk=","encoding":"base64"}}',
        False,
        "result.txt",
    ),
    "long words that hide": (
        b'"result":{"success":false,"error":{"message":"' + b"\\u202e" * 2_000_000 + b'"}}',
        True,
        "more characters not shown",
    ),
}


@asynccontextmanager
async def called(tmp_path: Path) -> AsyncIterator[tuple[Hosted, App]]:
    async with puppets(tmp_path) as made, hosted("--app", made.target) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.client.call_tool, "abp_connect", {})
            app = await made.app()
            await app.open("run")
        yield host, app
        await app.aclose()


@pytest.mark.slow
async def test_invalid_result_of_a_program_is_named(tmp_path: Path) -> None:
    async with called(tmp_path) as (host, app):
        for kind, (answer, failed, words) in PIPED.items():
            results: list[CallToolResult] = []

            async def run(results: list[CallToolResult] = results) -> None:
                results.append(await host.call("run"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                asked = await app.next("capabilities/call")
                id = json.dumps(asked["id"]).encode()
                end = b"" if kind == "half of JSON" else b"}"
                await app.write(b'{"jsonrpc":"2.0","id":' + id + b"," + answer + end + b"\n")
            check(results[0], failed, words, kind)


HEAVY: dict[str, bytes] = {
    "words that hide": b'{"success":false,"error":{"message":"' + b"\\u202e" * 8_000_000 + b'"}}',
    "too many values": b'{"success":true,"data":[' + b"[]," * 15_000_000 + b"[]]}",
    "a long line": b'{"success":true,"data":"' + b"\\n" * 15_000_000 + b'"}',
}


@pytest.mark.process
@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
async def test_host_is_answered_before_a_heavy_message(tmp_path: Path, heavy: bytes) -> None:
    async with called(tmp_path) as (host, app), anyio.create_task_group() as tasks:
        tasks.start_soon(host.call, "run")
        asked = await app.next("capabilities/call")
        id = json.dumps(asked["id"]).encode()
        await app.write(b'{"jsonrpc":"2.0","id":' + id + b',"result":' + heavy + b"}\n")
        await host.client.send_ping()
    written = [message for message in host.wire.sent() if "result" in message]
    kinds = ["ping" if message["result"] == {} else "result" for message in written]
    assert kinds[-2:] == ["ping", "result"]
