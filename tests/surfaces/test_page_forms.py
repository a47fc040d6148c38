"""The bridge's own page as HTML and over HTTP: what its forms say and take, and who is let in."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import anyio
import mcp_types as types
import pytest
from anyio.to_thread import run_sync
from support.browser import Browser
from support.harness import PATIENCE, hosted
from support.question_strategies import GUESTS

from abp_bridge.conformance.user_drivers import FormBrowser, origin_of
from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.context import AskContext
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.router import Router
from abp_bridge.session.surface import Ending, PageLink, SurfaceResponse
from abp_bridge.surfaces import http
from abp_bridge.surfaces.opencode import QuestionsApi
from abp_bridge.surfaces.page import html
from abp_bridge.surfaces.page.html import View, question_page
from abp_bridge.surfaces.page.surface import LazyPageServer, PageSurface

Json = Any

KEY = "planted-key-7f3a"
SECRET: dict[str, Json] = {
    "prompt": "Enter your API key",
    "schema": {"type": "string", "title": "API key"},
}
TIMED = AskContext(timeout=600.0)
VIEW = View(home="/k/", address="/k/q1", guard="g", asked=datetime(2026, 1, 1, 10))


def question(method: str, **params: Json) -> Question:
    raw: Json = {"method": f"elicitation/{method}", "params": params}
    return decode_question(raw, id="q", origin="https://app.example")


GO = question("confirm", message="Go?")
NAME = question("input", prompt="Name?", schema={"type": "string"})


class Form:
    """A browser without scripts at the page of a question."""

    def __init__(self, sheet: Any) -> None:
        self.sheet = sheet
        self.browser = FormBrowser(origin_of(sheet.url), PATIENCE)

    async def open(self, url: str) -> None:
        self.page = await run_sync(self.browser.visit, url)

    async def press(self, button: str, *values: Json) -> None:
        """Fill in the first controls, of which None leaves one empty, and press a button."""
        fields = self.page.fields(values, button)
        self.page = await run_sync(self.browser.submit, self.page, fields)

    @property
    def words(self) -> str:
        return self.page.words

    @property
    def values(self) -> list[str]:
        """What the controls send as they are."""
        items = [item for control in self.page.controls.values() for item in control]
        return [value for item in items for value in item.untouched]

    async def reply(self) -> SurfaceResponse:
        with anyio.fail_after(PATIENCE):
            response: SurfaceResponse = await self.sheet.wait_answer()
            return response


@pytest.fixture
async def loopback() -> AsyncIterator[LazyPageServer]:
    async with anyio.create_task_group() as tasks:
        yield LazyPageServer(tasks)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def shown(loopback: LazyPageServer, asked: Question) -> AsyncIterator[Form]:
    async with loopback.show(asked, TIMED) as sheet:
        form = Form(sheet)
        await form.open(sheet.url)
        yield form


def page_for(schema: Json) -> str:
    """The page of a question for a value of `schema`, as it leaves."""
    asked = question("input", prompt="What?", schema=schema)
    return question_page(asked, VIEW).encode().decode()


# --- what a page shows ----------------------------------------------------------------------------


def test_default_that_no_page_can_hold_is_not_suggested() -> None:
    assert "Suggested" not in page_for({"type": "string", "default": "bad\ud800"})
    page = page_for({"type": "object", "default": {"a": "\ud800"}})
    assert "proposes what cannot be shown as it is: {&#34;a&#34;: &#34;\ufffd&#34;}" in page
    assert ">\n</textarea>" in page


def test_limits_of_a_whole_number_are_rounded_inwards() -> None:
    page = page_for({"type": "integer", "minimum": 0.5, "maximum": 9.5, "default": 5})
    assert ' min="1" max="9" value="5"' in page
    page = page_for({"type": "number", "minimum": 0.5, "maximum": 10**400})
    assert ' min="0.5"' in page


def test_focus_is_not_where_enter_alone_sends_something() -> None:
    assert "autofocus" in page_for({"type": "string"})
    assert "autofocus" not in page_for({"type": "string", "default": "theirs"})
    optional = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "autofocus" not in page_for(optional)


@pytest.mark.slow
async def test_suggestion_of_the_app_is_marked_and_can_be_left(loopback: LazyPageServer) -> None:
    seat = {"enum": ["aisle", "", "window"], "default": "window", "title": "Seat"}
    schema = {"type": "object", "properties": {"seat": seat}}
    async with shown(loopback, question("input", prompt="Seat?", schema=schema)) as form:
        assert re.search("window .{0,9}suggested by who asks", form.words)
        assert len(form.values) == 1
        await form.press("Send", "No answer")
        assert (await form.reply()).content == {}


@pytest.mark.slow
async def test_number_of_choices_is_shown_and_enforced(loopback: LazyPageServer) -> None:
    schema = {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2}
    async with shown(loopback, question("input", prompt="Which?", schema=schema)) as form:
        assert "Choose 1 to 2." in form.words
        await form.press("Send", ["a", "b", "c"])
        assert "must name at most 2" in form.words
        await form.press("Send", ["a", "b"])
        assert (await form.reply()).content == {"value": ["a", "b"]}


@pytest.mark.slow
async def test_permission_to_read_a_file_is_given_or_refused(loopback: LazyPageServer) -> None:
    field = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"})
    words = "A picture\n\nMay it read this file?\n/home/a.png"
    asked = Question("q", Kind.RESOURCE, words, (field,), "app", note="It is large.")
    for button, given in (("Allow", True), ("Do not allow", False)):
        async with shown(loopback, asked) as form:
            assert "/home/a.png" in form.words
            assert re.search("abp-bridge ?: It is large", form.words)
            await form.press(button)
            assert await form.reply() == SurfaceResponse(Outcome.ACCEPTED, {"confirmed": given})


# --- answers --------------------------------------------------------------------------------------


async def test_codex_is_sent_no_address_of_this_machine() -> None:
    """Its terminal declines http addresses unseen."""
    info = types.Implementation(name="codex-mcp-client", version="0.169.0")
    async with hosted("--app", "demo", answer=lambda params: None, client_info=info) as host:
        response = await host.ask("elicitation/input", **SECRET)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert host.wire.sent("elicitation/create") == []


@pytest.mark.slow
async def test_invalid_secret_is_rejected_and_not_written_into_the_page(
    loopback: LazyPageServer,
) -> None:
    schema = {"type": "string", "minLength": 12, "format": "password", "pattern": "^planted"}
    async with shown(loopback, question("input", prompt="Password?", schema=schema)) as form:
        await form.press("Send", "wrong, and long enough")
        assert "pattern" in form.words
        assert form.values == [""]
        await form.press("Send", KEY)
        assert "Thank you" in form.words
        assert (await form.reply()).content == {"value": KEY}


LOGIN: Json = {
    "type": "object",
    "properties": {
        "user": {"type": "string", "title": "User", "pattern": "^[a-z]+$"},
        "key": {"type": "string", "title": "API key", "writeOnly": True, "minLength": 5},
    },
    "required": ["user", "key"],
}


@pytest.mark.slow
async def test_secret_is_kept_while_another_field_is_corrected(loopback: LazyPageServer) -> None:
    async with shown(loopback, question("input", prompt="Log in", schema=LOGIN)) as form:
        await form.press("Check your answers", "Ann", KEY)
        assert "User must" in form.words
        assert form.words.count("What you entered is kept") == 1
        assert form.values == ["Ann", ""]
        await form.press("Check your answers", "ann")
        assert KEY not in form.words
        await form.press("Send")
        assert (await form.reply()).content == {"user": "ann", "key": KEY}


@pytest.mark.slow
async def test_old_summary_leads_back_to_the_form(loopback: LazyPageServer) -> None:
    two = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    async with shown(loopback, question("input", prompt="Both?", schema=two)) as form:
        address, checked = form.browser.url, []
        for word in "abcdef":
            await form.open(address)
            await form.press("Check your answers", word)
            checked.append(form.browser.url)
        await form.open(checked[0])
        assert form.browser.url == address
        await form.open(checked[-1])
        assert "a f b" in form.words


@pytest.mark.slow
async def test_late_answer_is_not_sent_and_the_user_is_told(loopback: LazyPageServer) -> None:
    async with shown(loopback, question("confirm", message="Pay 900 EUR?")) as form:
        late = form.page
        await form.press("Yes")
        assert "Answer sent" in form.words
        fields = late.fields([], "No")
        page = await run_sync(form.browser.submit, late, fields)
        assert "This was not sent: the question had been answered before." in page.words
        assert "Thank you" not in page.words
        headers = {**cookies(form), "Accept": "application/json", **FORM_TYPE}
        body = "&".join(f"{name}={value}" for name, value in fields).encode()
        status, said, _ = await knock(form.browser.url, "POST", headers, body)
        assert (status, "answered before" in said) == (409, True)
        assert (await form.reply()).content == {"confirmed": True}


@pytest.mark.slow
async def test_last_answer_is_confirmed_though_its_session_ends() -> None:
    async with anyio.create_task_group() as session:
        async with shown(LazyPageServer(session), GO) as form:
            headers = {**cookies(form), **FORM_TYPE}
            body = "&".join(f"{name}={value}" for name, value in form.page.fields([], "Yes"))
            url = form.browser.url
            status, _, told = await knock(url, "POST", headers, body.encode())
            assert (status, told["Location"]) == (303, urlsplit(url).path)
            await form.reply()
        session.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
            _, said, _ = await knock(url, "GET", headers)
    assert "Thank you" in said


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending.WITHDRAWN, "withdrew"),
        (Ending.TIMED_OUT, "in time"),
        (Ending.ANSWERED_BY_PROGRAM, "by another program"),
    ],
)
@pytest.mark.slow
async def test_page_of_an_ended_question_says_how_it_ended(
    loopback: LazyPageServer, ending: Ending, words: str
) -> None:
    limit = 0.1 if ending is Ending.TIMED_OUT else PATIENCE
    with anyio.move_on_after(limit):
        async with shown(loopback, NAME) as form:
            if ending is Ending.ANSWERED_BY_PROGRAM:
                form.sheet.answer(SurfaceResponse(Outcome.DECLINED), ending)
            elif ending is Ending.TIMED_OUT:
                await anyio.sleep_forever()
    await form.open(form.browser.url)
    assert words in form.words


@pytest.mark.slow
async def test_more_time_extends_the_bridges_own_limit(loopback: LazyPageServer) -> None:
    outcomes: list[Outcome] = []
    links = asyncio.Queue[PageLink]()

    async def send_link(question: Question, context: AskContext, link: PageLink) -> SurfaceResponse:
        links.put_nowait(link)
        await anyio.sleep_forever()
        raise AssertionError

    surface = PageSurface(loopback, send_link, send_link)  # type: ignore[arg-type]
    asking = Elicitor(Router(surface, min_human_latency=0.0), limit=600.0)

    async def ask() -> None:
        outcomes.append((await asking.resolve(NAME)).outcome)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        form = Form(await links.get())
        await form.open(form.sheet.url)
        before = anyio.current_time() + asking.seconds_left(NAME.id)
        await form.press("More time")
        assert anyio.current_time() + asking.seconds_left(NAME.id) > before
        await form.press("Send", "Ada")
    assert outcomes == [Outcome.ACCEPTED]


# --- lists ----------------------------------------------------------------------------------------

FRIENDS: Json = {
    "type": "array",
    "title": "Friends",
    "items": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}},
}
NO_NAME: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": ["string", "null"], "title": "Name"}},
        "required": ["name"],
    },
}
SEATS: Json = {"type": "array", "items": {"type": "object", "properties": {"seat": {}}}}
PROPOSED: dict[str, tuple[Json, Json]] = {
    "more entries than anybody gives": (FRIENDS, [{"name": f"Friend {n}"} for n in range(150)]),
    "more entries than a form takes": ({**FRIENDS, "maxItems": 1_000}, [{"name": "x"}] * 401),
    "a number where text is typed": (SEATS, [{"seat": "A5"}, {"seat": 5}]),
    "members that no field has": (FRIENDS, [{"name": "Ada", "id": 7}, {"name": "Bo", "id": 9}]),
}


@pytest.mark.parametrize(("schema", "proposed"), PROPOSED.values(), ids=PROPOSED)
@pytest.mark.slow
async def test_proposed_list_is_shown_whole_and_comes_back(
    loopback: LazyPageServer, schema: Json, proposed: Json
) -> None:
    asked = question("input", prompt="Who comes?", schema={**schema, "default": proposed})
    async with shown(loopback, asked) as form:
        assert json.loads(form.values[0]) == proposed
        await form.press("Send")
        (given,) = (await form.reply()).content.values()
        assert json.loads(str(given)) == proposed


@pytest.mark.slow
async def test_proposed_null_in_an_entry_is_an_empty_field(loopback: LazyPageServer) -> None:
    schema = {**NO_NAME, "default": [{"name": None}]}
    async with shown(loopback, question("input", prompt="Who comes?", schema=schema)) as form:
        assert form.values == [""]
        await form.press("Send")
        assert (await form.reply()).content == {"value": [{}]}


@pytest.mark.slow
async def test_problem_in_an_entry_names_the_entry(loopback: LazyPageServer) -> None:
    schema = {"type": "object", "properties": {"guests": GUESTS, "when": {"type": "string"}}}
    async with shown(loopback, question("input", prompt="Who comes?", schema=schema)) as form:
        await form.press("Add an entry")
        await form.press("Check your answers", "A")
        assert "Guests 1: Name must" in form.words
        await form.press("Check your answers", "Ada")
        assert "1. Name: Ada" in form.words
        await form.press("Send")
        assert (await form.reply()).content == {"guests": [{"name": "Ada"}]}


@pytest.mark.parametrize("count", ["4", "-1", "two"])
@pytest.mark.slow
async def test_form_with_an_invalid_number_of_entries_is_rejected(
    loopback: LazyPageServer, count: str
) -> None:
    browser = Browser()
    guests = {f"field-0-{row}-0": f"Guest {row}" for row in range(4)}
    async with loopback.show(question("input", prompt="Who comes?", schema=GUESTS), TIMED) as sheet:
        await run_sync(browser.open, sheet.url)
        with pytest.raises(HTTPError, match="400") as refused:
            await run_sync(partial(browser.send, **guests, **{"field-0-rows": count}))
        refused.value.close()
        await run_sync(partial(browser.send, **guests, **{"field-0-rows": "3"}))
        names: Json = [{"name": f"Guest {row}"} for row in range(3)]
        assert (await sheet.wait_answer()).content == {"value": names}


@pytest.mark.slow
async def test_full_list_takes_no_further_entry(loopback: LazyPageServer) -> None:
    browser = Browser()
    async with loopback.show(question("input", prompt="Who comes?", schema=GUESTS), TIMED) as sheet:
        await run_sync(browser.open, sheet.url)
        await run_sync(partial(browser.send, **{"field-0-rows": "3", "action": "add field-0"}))
        assert "Guests 3" in browser.page
        assert "Guests 4" not in browser.page


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_file_of_another_type_or_too_large_is_rejected(loopback: LazyPageServer) -> None:
    def file(size: int, mime_type: str = "image/png") -> Json:
        return {"content": "x" * size, "mimeType": mime_type, "filename": "a"}

    async with shown(loopback, question("resource", prompt="?", type="image/png")) as form:
        await form.press("Send", file(4, "application/pdf"))
        assert "File must be image/png, not application/pdf" in form.words
        await form.press("Send", file(MAX_SIZE + 1))
        assert "at most 10485760 can be given" in form.words
        await form.press("Send", file(MAX_SIZE))
        assert (await form.reply()).outcome is Outcome.ACCEPTED


# --- who is let in --------------------------------------------------------------------------------

FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}


def cookies(form: Form) -> dict[str, str]:
    """The header by which the page knows its browser."""
    path = urlsplit(form.browser.url).path
    (cookie,) = (each for each in form.browser.cookies if path.startswith(each.path))
    return {"Cookie": f"{cookie.name}={cookie.value}"}


async def knock(
    url: str, method: str, headers: Mapping[str, str], body: bytes | None = None, path: str = ""
) -> tuple[int, str, Any]:
    """One request as another program makes it: status, text and headers of the response."""
    place = urlsplit(url)

    def send() -> tuple[int, str, Any]:
        connection = HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)
        try:
            connection.request(method, path or place.path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.read().decode(), response.headers
        finally:
            connection.close()

    return await run_sync(send)


@pytest.mark.slow
async def test_nobody_else_gets_in(loopback: LazyPageServer) -> None:
    async with shown(loopback, question("input", **SECRET)) as form:
        link, sheet, mine = form.sheet.url, form.browser.url, {**cookies(form), **FORM_TYPE}
        fields = form.page.fields(["x"], "Send")
        sent = "&".join(f"{name}={value}" for name, value in fields).encode()
        evil = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "null"}
        strangers: dict[str, tuple[int, str, bytes | None, Mapping[str, str]]] = {
            "a link that was used": (403, link, None, {}),
            "a link made up": (403, link.replace("/open/", "/open/x"), None, {}),
            "no cookie": (403, sheet, None, {}),
            "another's cookie": (403, sheet, None, {"Cookie": "abp=x"}),
            "another host's name": (421, sheet, None, {**mine, "Host": "evil.example"}),
            "another origin": (403, sheet, sent, {**mine, "Origin": "https://evil.example"}),
            "a form of another site": (403, sheet, sent, {**mine, **evil}),
            "no guard": (403, sheet, b"field-0=x&action=send", mine),
            "far too much": (413, sheet, b"x" * 2_000_000, mine),
        }
        for name, (wanted, url, body, headers) in strangers.items():
            method = "GET" if body is None else "POST"
            status, _, told = await knock(url, method, headers, body)
            assert status == wanted, name
            assert told["Content-Security-Policy"].startswith("default-src 'none'")
            assert told["Cache-Control"] == "no-store"
        await form.press("Send", KEY)
        assert (await form.reply()).content == {"value": KEY}


@pytest.mark.slow
async def test_every_address_and_method_stands_behind_the_same_door(
    loopback: LazyPageServer,
) -> None:
    async with shown(loopback, GO) as form:
        url, mine = form.browser.url, cookies(form)
        port, sheet = urlsplit(url).port, urlsplit(url).path
        home = sheet.partition("q/")[0]
        script = {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "no-cors",
            "Sec-Fetch-Dest": "image",
        }
        link = {**script, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        expected: dict[str, tuple[str, str, Mapping[str, str], int]] = {
            "a stranger at the root": ("GET", "/", {}, 403),
            "a stranger anywhere": ("GET", "/.git/config", {}, 403),
            "a stranger at a question": ("GET", sheet, {}, 403),
            "the person at no address": ("GET", f"{home}x", mine, 404),
            "a question of nobody": ("GET", f"{home}q/x", mine, 404),
            "the summary of a question of nobody": ("GET", f"{home}q/x/check/y", mine, 404),
            "looking only": ("HEAD", sheet, mine, 200),
            "another method": ("PUT", sheet, mine, 405),
            "a method of one's own": ("OPTIONS", f"{home}events", mine, 405),
            "by its other name": ("GET", sheet, {**mine, "Host": f"localhost:{port}"}, 200),
            "another name": ("GET", "/x", {"Host": "evil.example"}, 421),
            "another port": ("GET", sheet, {**mine, "Host": "127.0.0.1:80"}, 421),
            "another form": ("GET", sheet, {**mine, "Host": f"[::ffff:127.0.0.1]:{port}"}, 421),
            "more of a name": ("GET", sheet, {**mine, "Host": f"127.0.0.1:{port}.evil"}, 421),
            "a whole address": (
                *("GET", f"http://evil.example{sheet}", {**mine, "Host": "evil.example"}, 421),
            ),
            "another origin": ("GET", sheet, {**mine, "Origin": "https://evil.example"}, 403),
            "its other origin": (
                *("GET", sheet, {**mine, "Origin": f"http://localhost:{port}"}, 403),
            ),
            "no origin": ("POST", sheet, {**mine, "Origin": "null"}, 403),
            "a picture of another site": ("GET", sheet, {**mine, **script}, 403),
            "a frame of another site": (
                *("GET", sheet, {**mine, **link, "Sec-Fetch-Dest": "iframe"}, 403),
            ),
            "a link of another site": ("GET", sheet, {**mine, **link}, 200),
            "a form of another port": (
                *("POST", sheet, {**mine, **link, "Sec-Fetch-Site": "same-site"}, 403),
            ),
            "a cookie of another port": (
                *("GET", sheet, {"Cookie": mine["Cookie"].replace(str(port), "80")}, 403),
            ),
        }
        for name, (method, path, headers, wanted) in expected.items():
            status, words, told = await knock(url, method, headers, path=path)
            assert status == wanted, name
            assert "Traceback" not in words
            assert told["Content-Security-Policy"].startswith("default-src 'none'"), name
            assert told["Cache-Control"] == "no-store", name
            assert "uvicorn" not in told.get("Server", "")


@pytest.mark.slow
async def test_used_link_leads_the_same_browser_back(loopback: LazyPageServer) -> None:
    async with shown(loopback, NAME) as form:
        url = form.browser.url
        await form.open(form.sheet.url)
        assert form.browser.url == url
        with pytest.raises(ValueError, match="HTTP 403"):
            await Form(form.sheet).open(form.sheet.url)
    await form.open(form.sheet.url)
    assert "withdrew" in form.words


@pytest.mark.slow
async def test_prefetching_does_not_use_up_a_link(loopback: LazyPageServer) -> None:
    async with loopback.show(GO, TIMED) as sheet:
        for method, headers in (
            ("HEAD", {}),
            ("GET", {"Sec-Purpose": "prefetch;prerender"}),
            ("GET", {"Purpose": "prefetch"}),
        ):
            status, _, told = await knock(sheet.url, method, headers)
            assert (status, told.get("Set-Cookie")) == (204, None)
        form = Form(sheet)
        await form.open(sheet.url)
        assert "Go?" in form.words


@pytest.mark.slow
async def test_slow_and_idle_clients_are_let_go(
    loopback: LazyPageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "IDLE_LIMIT", 0.1)
    async with loopback.show(GO, TIMED) as sheet:
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            async with await anyio.connect_tcp(
                "127.0.0.1", urlsplit(sheet.url).port or 0
            ) as stream:
                await stream.send(begun)
                with anyio.fail_after(PATIENCE), pytest.raises(anyio.EndOfStream):
                    await stream.receive()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["mute", "slow"])
@pytest.mark.slow
async def test_who_opens_connections_and_asks_nothing_keeps_nobody_out(
    loopback: LazyPageServer, begun: bytes
) -> None:
    async with AsyncExitStack() as others, loopback.show(NAME, TIMED) as sheet:
        for _ in range(200):
            other = await anyio.connect_tcp("127.0.0.1", urlsplit(sheet.url).port or 0)
            await (await others.enter_async_context(other)).send(begun)
        form = Form(sheet)
        await form.open(sheet.url)
        await form.press("Send", "Ann")
        assert await form.reply() == SurfaceResponse(Outcome.ACCEPTED, {"value": "Ann"})


@pytest.mark.slow
async def test_number_of_streams_is_limited(
    loopback: LazyPageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_STREAMS", 2)
    async with shown(loopback, GO) as form:
        follow = partial(form.browser.opener.open, f"{form.browser.url}/events", timeout=PATIENCE)
        with await run_sync(follow), await run_sync(follow):
            with pytest.raises(HTTPError, match="503") as refused:
                await run_sync(follow)
            refused.value.close()


@pytest.mark.slow
async def test_page_ends_with_its_session() -> None:
    async with anyio.create_task_group() as tasks:
        async with shown(LazyPageServer(tasks), GO) as form:
            port = urlsplit(form.sheet.url).port or 0
        tasks.cancel_scope.cancel()
    with pytest.raises(OSError, match="refused"):
        await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.slow
async def test_internal_error_is_reported_without_its_details(
    loopback: LazyPageServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **more: Any) -> str:
        raise RuntimeError(KEY)

    async with shown(loopback, GO) as form:
        monkeypatch.setattr(html, "question_page", fail)
        status, page, _ = await knock(form.browser.url, "GET", cookies(form))
    assert (status, "The page failed" in page, KEY in page) == (500, True, False)
    ours = [each.getMessage() for each in caplog.records if each.name != "asyncio"]
    assert ours == ["a page of the bridge's own failed"]


# --- beside the questions API ---------------------------------------------------------------------

BEARER = {"Authorization": "Bearer planted"}


@pytest.mark.slow
async def test_question_on_the_questions_api_is_on_the_page_too(loopback: LazyPageServer) -> None:
    api = QuestionsApi(partial(loopback.questions, 0, "planted"), loopback, alone=True)
    asked = question("input", prompt="Seats?", schema={"type": "integer"})
    replies: list[SurfaceResponse] = []

    async def ask() -> None:
        replies.append(await api.prompt(asked, TIMED, SurfaceVariant(Surface.QUESTIONS_API)))

    async def open_seats(form: Form) -> None:
        home = urlsplit(form.sheet.url)._replace(path=sheet.partition("q/")[0]).geturl()
        with anyio.fail_after(PATIENCE):
            while True:
                page = (await run_sync(form.browser.load, home)).decode()
                if links := re.findall(r'href="([^"]+)"[^>]*>[^\n]*Seats', page):
                    break
        await form.open(urlsplit(home)._replace(path=links[0]).geturl())

    async with shown(loopback, GO) as form:
        sheet = urlsplit(form.browser.url).path
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            await open_seats(form)
            url = await api.make_ready()
            _, listed, _ = await knock(url, "GET", BEARER, path="/question")
            (request,) = json.loads(listed)
            body, path = (
                json.dumps({"answers": [["4"]]}).encode(),
                f"/question/{request['id']}/reply",
            )
            assert (await knock(url, "POST", BEARER, body, path))[:2] == (200, "true")
        await form.open(form.browser.url)
        assert "answered by another program" in form.words
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            await open_seats(form)
            await form.press("Send", "5")
        assert (await knock(url, "GET", BEARER, path="/question"))[1] == "[]"
    by_program, by_hand = replies
    assert (by_program.outcome, by_program.content) == (Outcome.ACCEPTED, {"value": "4"})
    assert by_program.seconds is not None, "a program's own time"
    assert (by_hand.content, by_hand.seconds) == ({"value": "5"}, None)


@pytest.mark.slow
async def test_api_whose_start_was_cancelled_can_start_again(loopback: LazyPageServer) -> None:
    api = QuestionsApi(partial(loopback.questions, 0, "planted"), loopback, alone=True)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await api.make_ready()
    assert scope.cancelled_caught
    url = await api.make_ready()
    assert (await knock(url, "GET", BEARER, path="/question"))[0] == 200
