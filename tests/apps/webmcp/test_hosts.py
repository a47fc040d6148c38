"""WebMCP tools through a whole bridge: what the user sees and the model gets."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from support.browser import LINK, Browser
from support.harness import MODERN, PATIENCE, Hosted, hosted
from support.pages.server import Web

Json = Any

pytestmark = pytest.mark.browser

SECRET = "hunter2+ü"  # which is another text in Base64 and in an address
SPELLED = (SECRET, base64.b64encode(SECRET.encode("latin-1")).decode(), quote(SECRET, safe=""))
PICTURE = ("a.png", "image/png", b"hello")


@dataclass(frozen=True)
class Shown:
    """What the host shows: the words, and the schema of each field of a form by its name."""

    words: str
    fields: dict[str, Json] = field(default_factory=dict)

    def drawn(self) -> str:
        return f"{self.words}\n{json.dumps(self.fields, ensure_ascii=False)}"


Does = Callable[[Shown], Any]  # an answer of MCP, or None for never


def accept(**changes: Json) -> Does:
    """Accept the proposed values, except for `changes`, and say yes."""

    def answer(shown: Shown) -> Json:
        content = {name: _proposed(each) for name, each in shown.fields.items()}
        content = {name: value for name, value in content.items() if value is not None}
        return {"action": "accept", "content": {**content, **changes}}

    return answer


def _proposed(schema: Json) -> Json:
    """The default; of a yes or no the yes, which comes last."""
    if schema["type"] == "boolean":
        return True
    options = schema.get("enum", [each["const"] for each in schema.get("oneOf", ())])
    if any(str(each).startswith(("No", "Do not")) for each in options):
        return options[-1]
    return schema.get("default", next(iter(options), None))


def say(action: str) -> Does:
    return lambda shown: {"action": action}


def fill(**fields: str) -> Does:
    """Follow the link, and send these from the bridge's page, which shows several once more."""

    def send(browser: Browser) -> None:
        browser.send(**fields)
        if "Check your answers" in browser.page:
            browser.send()

    return _visit(send)


def give(name: str, kind: str, content: bytes) -> Does:
    """Follow the link, and give a file there; accept a form before it."""
    return _visit(lambda browser: browser.give(name, kind, content))


def _visit(do: Callable[[Browser], None]) -> Does:
    async def answer(shown: Shown) -> Json:
        link = LINK.search(shown.words)
        if link is None:
            return accept()(shown)
        browser = Browser()

        def visit() -> None:
            browser.open(link[0])
            do(browser)

        await anyio.to_thread.run_sync(visit)
        assert "Thank you" in browser.page, browser.page
        return {"action": "accept", "content": {}}

    return answer


@dataclass
class Desk:
    """A host with a user, and the page's site."""

    host: Hosted
    site: Web
    does: Does = lambda shown: None
    seen: list[Shown] = field(default_factory=list)

    async def answer(self, params: Any) -> Any:
        schema = getattr(params, "requested_schema", None) or {}
        words = f"{params.message}\n{getattr(params, 'url', '')}"
        self.seen.append(Shown(words, schema.get("properties", {})))
        answer = self.does(self.seen[-1])
        answer = await answer if isinstance(answer, Awaitable) else answer
        if answer is not None and params.mode == "url":
            answer = {"action": answer["action"]}
        return answer and types.ElicitResult.model_validate(answer)

    async def call(self, tool: str, does: Does | None = None, /, **given: Json) -> str:
        """All text that the model gets of a call during which the user `does` that."""
        self.seen.clear()
        if does is not None:
            self.does = does
        with anyio.fail_after(PATIENCE):
            result = await self.host.call(tool, **given)
        return "\n".join(each.text for each in result.content if each.type == "text")

    async def until_it_is_there(self) -> None:
        """Wait until a page that was loaded anew has registered its tools anew."""
        while '{"sum": 3}' not in await self.call("add", a=1, b=2):
            pass


@asynccontextmanager
async def open_desk(site: Web, version: str | None = None, **env: str) -> AsyncIterator[Desk]:
    made: list[Desk] = []

    async def answer(params: Any) -> Any:
        return await made[0].answer(params)

    app = f"{site.here}/reception.html"
    async with hosted("--app", app, answer=answer, version=version, shared=True, env=env) as host:
        made.append(Desk(host, site))
        yield made[0]


@pytest.fixture(scope="module")
async def desk(site: Web) -> AsyncIterator[Desk]:
    async with open_desk(site) as opened:
        yield opened


BOOKED = {"name": "Ann", "guests": "2", "room": "in", "shop": "12", "how": "now"}
ALL_OF_IT = ("Book a table", '"Book now"', 'shop "12"', "Guests", "Room", '"Ann"', "Inside")


@dataclass(frozen=True)
class Row:
    """A call, what the user does, what the model gets, and what the user must have seen."""

    tool: str
    given: Json
    does: Does | None
    gets: Json
    sees: tuple[str, ...] = ()


ROWS = {
    # a form that waits
    "approved": Row(
        "book",
        {"name": "Ann", "guests": 2, "room": "in"},  # another row may have changed them
        accept(),
        {"sent": BOOKED},
        ALL_OF_IT,
    ),
    "edited": Row(
        "book",
        {"name": "Ann", "guests": 3},
        accept(name="Eve", guests=4, room="out"),
        {"sent": {**BOOKED, "name": "Eve", "guests": "4", "room": "out"}},
        ALL_OF_IT,
    ),
    "refused": Row("book", {"name": "Ann"}, say("decline"), "the user said no", ALL_OF_IT),
    "dismissed": Row("book", {"name": "Ann"}, say("cancel"), "Nothing was sent", ALL_OF_IT),
    "what no form takes": Row("book", {"guests": "many"}, None, "INVALID_PARAMS"),
    "nothing to edit": Row(
        "close_account",
        {},
        accept(),
        {"sent": {"account": "4711"}},
        ("Close the account", 'account "4711"', "Nothing says that this can be undone"),
    ),
    "a choice": Row("choose_seat", {"seat": "C"}, accept(seat="E"), {"sent": {"seat": "E"}}),
    # what no model gives
    "a secret of a form": Row(
        "sign_in",
        {"user": "ann"},
        fill(**{"field-0": "ann", "field-1": SECRET}),
        {
            "user": "ann",
            "token": "[secret]",
            "next": "/?as=[secret]",
            "note": "signed in with [secret]",
        },
    ),
    "a secret by the model": Row("sign_in", {"pass": "x"}, None, "INVALID_PARAMS"),
    "a secret of a function": Row(
        "unlock", {}, fill(**{"field-0": SECRET}), "opened with [secret]"
    ),
    "a file": Row("send_photo", {}, give(*PICTURE), {"sent": {"photo": "a.png, 5 bytes"}}),
    # what a person comes before
    "consequential": Row(
        "wipe",
        {"table": "t1"},
        accept(),
        {"wiped": "t1"},
        ("Wipes all", '"t1"', "Nothing says that this can be undone"),
    ),
    "consequential, refused": Row("wipe", {"table": "t1"}, say("decline"), "was not called"),
    "sent at once": Row("find", {"words": "x"}, accept(), {"sent": {"words": "x"}}, ("Find a",)),
    # dialogs
    "confirm": Row("ask", {}, accept(), {"sure": True}, ("Really?", "Yes, do it")),
    "prompt": Row("name", {}, accept(value="Bob"), {"named": "Bob"}, ("What name?", "Ann")),
    "alert": Row("warn", {}, None, "Closed on Mondays"),
    # how calls end
    "completed": Row("add", {"a": 1, "b": 2}, None, {"sum": 3}),
    "shaped as MCP's": Row("shaped", {}, None, "hello"),
    "what a schema forbids": Row("add", {"a": "x"}, None, "INVALID_PARAMS"),
    "an error": Row("fail", {}, None, "OPERATION_FAILED: RangeError: no more chairs"),
    "the next page's data": Row(
        "reserve",
        {"day": "Sunday"},
        accept(),
        [{"@type": "Reservation", "reservationId": "R-17"}],
        ("Reserve", "Sunday"),
    ),
    "no answer": Row("print_bill", {}, accept(), "OUTCOME_UNKNOWN"),
}


@pytest.mark.parametrize("row", ROWS)
async def test_each_kind_of_tool_does_what_the_mapping_says(desk: Desk, row: str) -> None:
    asked = ROWS[row]
    got = await desk.call(asked.tool, asked.does, **asked.given)
    if isinstance(asked.gets, str):
        assert asked.gets in got
    else:
        assert json.JSONDecoder().raw_decode(got)[0] == asked.gets
    assert bool(desk.seen) == (asked.does is not None)
    for words in asked.sees:
        assert words in "\n".join(each.drawn() for each in desk.seen)
    for each in desk.seen:
        assert desk.site.here in each.words  # who asks, whatever is asked
    if row == "the next page's data":
        await desk.until_it_is_there()
    wire = json.dumps(desk.host.wire.lines, ensure_ascii=False)
    assert not [each for each in SPELLED if each in wire]


async def test_cancelled_call_leaves_the_form_as_it_was(desk: Desk) -> None:
    asked = anyio.Event()
    desk.does = lambda shown: asked.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: desk.host.call("book", name="Ann", guests=5))
        await asked.wait()
        tasks.cancel_scope.cancel()
    assert "the user said no" in await desk.call("book", say("decline"))
    [shown] = desk.seen
    assert "default" not in shown.fields["name"]
    assert shown.fields["guests"]["default"] == 2


async def test_form_is_busy_until_a_stateless_host_takes_its_call_back(site: Web) -> None:
    async with open_desk(site, MODERN) as desk:
        arguments = {"capability": "book", "params": {"name": "Ann"}}
        session = desk.host.client.session
        first = await session.call_tool("abp_call", arguments, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        began = desk.host.wire.received("tools/call")[-1]["params"]
        busy = await desk.call("book", accept(), name="Eve")
        assert re.search(
            r"RATE_LIMITED: Nothing was sent: another call of this form \(\S+\) is open for \d+ s",
            busy,
        )
        assert "was not answered for 600 s" in busy
        assert desk.seen == []
        again = {**began, "requestState": first.request_state}
        given_up = {"requestId": "again", "reason": "stop", "_meta": again["_meta"]}
        lines = [
            {"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": again},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up},
        ]
        desk.host.wire.lines += [("host", each) for each in lines]
        process: Any = desk.host.pipes.process
        await process.stdin.send(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
        assert json.loads(await desk.call("book", accept(), name="Eve"))["sent"]["name"] == "Eve"


async def test_page_that_leaves_during_a_question_takes_it_back(desk: Desk) -> None:
    desk.site.happened.discard("leave")
    assert "done" in await desk.call("work", what="leave")

    async def leave(shown: Shown) -> Json:
        desk.site.happened.add("leave")
        await desk.host.after_it_ended(types.ElicitResult(action="cancel"))
        return accept()(shown)

    ended = await desk.call("book", leave, name="Ann")
    assert "CANCELLED: Nothing was sent: its page went on to another" in ended
    assert len(desk.seen) == 1
    desk.site.happened.discard("leave")
    await desk.until_it_is_there()


async def test_form_that_nobody_answers_in_time_is_not_sent(site: Web) -> None:
    async with open_desk(site, ABP_QUESTION_TIMEOUT="1s") as desk:

        async def too_late(shown: Shown) -> Json:
            await desk.host.after_it_ended(types.ElicitResult(action="cancel"))
            return accept()(shown)

        ended = await desk.call("book", too_late, name="Ann")
        assert re.search("TIMEOUT|nobody answered in time", ended)
        assert "Nothing was sent" in ended
        assert len(desk.seen) == 1


async def test_status_says_what_a_page_asks_the_user(site: Web) -> None:
    async with hosted("--app", f"{site.here}/tools.html") as host:
        await host.client.call_tool("abp_connect", {})
        [app] = (await host.status())["apps"].values()
        listed = {each["name"]: each for each in app["capabilities"]}
        assert listed["wipe"]["needsApproval"]
        assert "needsApproval" not in listed["book_table"]
        assert listed["book_table"]["askedOfPerson"] == ["name"]
        assert listed["sign_in"]["askedOfPerson"] == ["secret"]
        assert listed["login"]["askedOfPerson"] == ["pin"]
