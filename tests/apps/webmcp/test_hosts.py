"""A page's WebMCP tools through a whole bridge: what each kind of tool comes to for the person and
for the model, under MCP hosts of both eras and under an ACP client, and how a form that waits ends.

One bridge, and one browser, for each kind of host.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from support.acp_harness import FORM, Client, client, labels, pressing
from support.browser import LINK, Browser
from support.harness import MODERN, Hosted, call_from, hosted
from support.pages.server import Web

Json = Any

SECRET = "hunter2+ü"  # which is another text in Base64 and in an address
SPELLED = (SECRET, base64.b64encode(SECRET.encode("latin-1")).decode(), quote(SECRET, safe=""))
PICTURE = ("a.png", "image/png", b"hello")


@dataclass(frozen=True)
class Shown:
    """What a host shows its person.

    Attributes:
        words: All of it that is to be read.
        fields: The schema of each field of a form, by its name.
    """

    words: str
    fields: dict[str, Json] = field(default_factory=dict)

    def drawn(self) -> str:
        """What stands there: words, the fields' titles, and what is proposed or can be chosen."""
        return f"{self.words}\n{json.dumps(self.fields, ensure_ascii=False)}"


Does = Callable[[Shown], Any]  # an answer of MCP's and ACP's, or None for never


def accept(**changes: Json) -> Does:
    """Accepts what is proposed, but for some fields, and says yes."""

    def answer(shown: Shown) -> Json:
        content = {name: _proposed(each) for name, each in shown.fields.items()}
        content = {name: value for name, value in content.items() if value is not None}
        return {"action": "accept", "content": {**content, **changes}}

    return answer


def _proposed(schema: Json) -> Json:
    """The default; of a yes or no, and of what asks for leave, the yes, which comes last."""
    if schema["type"] == "boolean":
        return True
    options = schema.get("enum", [each["const"] for each in schema.get("oneOf", ())])
    if any(str(each).startswith(("No", "Do not")) for each in options):
        return options[-1]
    return schema.get("default", next(iter(options), None))


def say(action: str) -> Does:
    return lambda shown: {"action": action}


def fill(**fields: str) -> Does:
    """Follows the link, and sends these from the bridge's own page, where they are shown once more
    to be checked if they are several.
    """

    def send(browser: Browser) -> None:
        browser.send(**fields)
        if "Check your answers" in browser.page:
            browser.send()

    return _visit(send)


def give(name: str, kind: str, content: bytes) -> Does:
    """Follows the link, and gives a file there; a form before it is accepted as it stands."""
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
class Person:
    does: Does = lambda shown: None
    seen: list[Shown] = field(default_factory=list)

    async def answer(self, shown: Shown) -> Json:
        self.seen.append(shown)
        answer = self.does(shown)
        return await answer if isinstance(answer, Awaitable) else answer


class Host(Protocol):
    """One kind of host, with a bridge that it started."""

    @property
    def wire(self) -> Any: ...

    async def call(self, tool: str, given: Json) -> str:
        """All words of what the model gets."""
        ...

    async def cancel(self, tool: str, given: Json, asked: anyio.Event) -> None:
        """Call, and give the call up once the person is asked."""
        ...

    async def tools(self) -> str:
        """Whatever a model may read of what there is to call."""
        ...

    async def too_late(self, shown: Shown) -> Json:
        """Answers when the question is open no more: who is not told of that learns it then."""
        ...


@dataclass
class McpHost:
    host: Hosted
    is_modern: bool

    @property
    def wire(self) -> Any:
        return self.host.wire

    async def call(self, tool: str, given: Json) -> str:
        result = await self.host.call(tool, **given)
        return "\n".join(each.text for each in result.content if each.type == "text")

    async def cancel(self, tool: str, given: Json, asked: anyio.Event) -> None:
        if self.is_modern:
            await self.take_back(await self.leave(tool, given))
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.call, tool, given)
            await asked.wait()
            tasks.cancel_scope.cancel()

    async def leave(self, tool: str, given: Json) -> Json:
        """Call, and do not come back with the answer to what is asked, which is a result. What to
        come back with.
        """
        arguments = {"capability": tool, "params": given}
        session = self.host.client.session
        first = await session.call_tool("abp_call", arguments, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        began = self.wire.received("tools/call")[-1]["params"]
        return {**began, "requestState": first.request_state}

    async def take_back(self, again: Json) -> None:
        """What is given up is coming back for the rest."""
        lines = [
            {"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": again},
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": "again", "reason": "stop", "_meta": again["_meta"]},
            },
        ]
        self.wire.lines += [("host", each) for each in lines]
        assert self.host.pipes.process is not None
        assert self.host.pipes.process.stdin is not None
        await self.host.pipes.process.stdin.send(
            b"".join(json.dumps(each).encode() + b"\n" for each in lines)
        )

    async def tools(self) -> str:
        listed = await self.host.client.list_tools()
        return json.dumps([each.model_dump(mode="json", by_alias=True) for each in listed.tools])

    async def too_late(self, shown: Shown) -> Json:
        await self.host.after_it_ended(types.ElicitResult(action="cancel"))
        return accept()(shown)


@dataclass
class AcpHost:
    client: Client
    session: str

    @property
    def wire(self) -> Any:
        return self.client.wire

    async def call(self, tool: str, given: Json) -> str:
        stop, words = await self.client.prompt(self.session, f"/{tool} {json.dumps(given)}")
        assert stop == "end_turn", words
        return words

    async def cancel(self, tool: str, given: Json, asked: anyio.Event) -> None:
        turn = await self.client.start(self.session, f"/{tool} {json.dumps(given)}")
        await asked.wait()
        await self.client.notify("session/cancel", {"sessionId": self.session})
        assert (await self.client.response(turn))["result"] == {"stopReason": "cancelled"}

    async def tools(self) -> str:
        commands = self.wire.updates("available_commands_update", self.session)[-1]
        return json.dumps(commands)

    async def too_late(self, shown: Shown) -> Json:
        """The question is taken back."""


@dataclass
class Desk:
    """A host, its person, and the page's site."""

    host: Host
    person: Person
    site: Web
    portal: BlockingPortal

    def call(self, tool: str, does: Does | None = None, /, **given: Json) -> str:
        """What the model gets of a call during which the person `does` that."""
        self.person.seen.clear()
        if does is not None:
            self.person.does = does
        return str(call_from(self.portal, partial(self.host.call, tool, given)))

    def until_listed(self, tool: str) -> None:
        async def look() -> None:
            while f'{tool}"' not in await self.host.tools():
                await anyio.lowlevel.checkpoint()

        call_from(self.portal, look)

    def until_it_is_there(self) -> None:
        """A page that is loaded anew registers its tools anew."""
        while '{"sum": 3}' not in self.call("add", a=1, b=2):
            pass

    def cancel(self, tool: str, **given: Json) -> None:
        """Call, and give it up while the person looks at it."""
        asked = anyio.Event()

        def look(shown: Shown) -> None:
            asked.set()

        self.person.seen.clear()
        self.person.does = look
        call_from(self.portal, partial(self.host.cancel, tool, given, asked))

    def drawn(self) -> str:
        return "\n".join(each.drawn() for each in self.person.seen)


HOSTS = ("MCP legacy", "MCP modern", "ACP forms")
OPTIONS = ("--page",)  # for a secret, where a host shows no addresses


@contextmanager
def desk(kind: str, site: Web, page: str = "reception.html", **env: str) -> Iterator[Desk]:
    person = Person()
    arguments = ("--app", f"{site.here}/{page}", *OPTIONS)
    with start_blocking_portal() as portal:
        if kind == "ACP forms":

            async def on_request(method: str, params: Json) -> Json:
                if method == "session/request_permission":
                    return await _press(person, params)
                schema = params.get("requestedSchema", {})
                return await person.answer(Shown(params["message"], schema.get("properties", {})))

            made = client(*arguments, handler=on_request, env=env)
            with portal.wrap_async_context_manager(made) as opened:

                async def begin() -> str:
                    await opened.initialize(FORM)
                    return await opened.new()

                host: Host = AcpHost(opened, call_from(portal, begin))
                yield Desk(host, person, site, portal)
        else:

            async def on_question(params: Any) -> Any:
                schema = getattr(params, "requested_schema", None) or {}
                words = f"{params.message}\n{getattr(params, 'url', '')}"
                answer = await person.answer(Shown(words, schema.get("properties", {})))
                if answer is not None and params.mode == "url":
                    answer = {"action": answer["action"]}
                return answer and types.ElicitResult.model_validate(answer)

            version = MODERN if kind == "MCP modern" else None
            bridge = hosted(*arguments, answer=on_question, version=version, shared=True, env=env)
            with portal.wrap_async_context_manager(bridge) as started:
                yield Desk(McpHost(started, version == MODERN), person, site, portal)


async def _press(person: Person, params: Json) -> Json:
    """The card that announces the page: the link is followed, then a button pressed."""
    words = json.dumps(params["toolCall"], ensure_ascii=False)
    answer = await person.answer(Shown(words))
    wanted = "allow" if answer["action"] == "accept" else "reject"
    [option, *_] = [each for each in params["options"] if each["kind"].startswith(wanted)]
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


@pytest.fixture(scope="module", params=HOSTS)
def shared(request: pytest.FixtureRequest, site: Web) -> Iterator[Desk]:
    with desk(request.param, site) as opened:
        yield opened


BOOKED = {"name": "Ann", "guests": "2", "room": "in", "shop": "12", "how": "now"}
ALL_OF_IT = ("Book a table", '"Book now"', 'shop "12"', "Guests", "Room", '"Ann"', "Inside")


@dataclass(frozen=True)
class Row:
    """A tool, and what it is called with; what the person does; what the model gets, as JSON or as
    a part of its words; and what the person must have seen.
    """

    tool: str
    given: Json
    does: Does | None
    gets: Json
    sees: tuple[str, ...] = ()


ROWS = {
    # a form that waits
    "approved": Row("book", {"name": "Ann"}, accept(), {"sent": BOOKED}, ALL_OF_IT),
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
    "sent at once, refused": Row("find", {"words": "x"}, say("decline"), "was not called"),
    # dialogs
    "confirm": Row("ask", {}, accept(), {"sure": True}, ("Really?", "Yes, do it")),
    "confirm, refused": Row("ask", {}, say("decline"), {"sure": False}, ("Really?",)),
    "prompt": Row("name", {}, accept(value="Bob"), {"named": "Bob"}, ("What name?", "Ann")),
    "prompt, refused": Row("name", {}, say("decline"), {"named": None}),
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
def test_each_kind_of_tool_does_what_the_mapping_says(shared: Desk, row: str) -> None:
    asked = ROWS[row]
    got = shared.call(asked.tool, asked.does, **asked.given)
    if isinstance(asked.gets, str):
        assert asked.gets in got
    else:
        assert json.JSONDecoder().raw_decode(got)[0] == asked.gets
    assert bool(shared.person.seen) == (asked.does is not None)
    for words in asked.sees:
        assert words in shared.drawn()
    for each in shared.person.seen:
        assert shared.site.here in each.words  # who asks, whatever is asked
    if row == "the next page's data":
        shared.until_it_is_there()
    wire = json.dumps(shared.host.wire.lines, ensure_ascii=False)
    assert not [each for each in SPELLED if each in wire]


@pytest.mark.anyio
async def test_an_acp_client_with_buttons_alone_has_a_form_sent_by_them(site: Web) -> None:
    press = pressing("E")
    async with client("--app", f"{site.here}/reception.html", handler=press) as opened:
        await opened.initialize()
        stop, words = await opened.prompt(await opened.new(), '/choose_seat {"seat": "C"}')
        assert (stop, json.loads(words)) == ("end_turn", {"sent": {"seat": "E"}})
        shown = opened.wire.sent("session/request_permission")
        assert labels(shown[0])[0] == "C (default)"
        assert "the form is sent with its button" in json.dumps(shown[0]["toolCall"])


def test_a_call_that_the_host_gives_up_leaves_the_form_as_it_was(shared: Desk) -> None:
    shared.cancel("book", name="Ann", guests=5)
    again = shared.call("book", say("decline"))
    assert "the user said no" in again
    [shown] = shared.person.seen
    assert "default" not in shown.fields["name"]
    assert shown.fields["guests"]["default"] == 2


@pytest.mark.parametrize("shared", ["MCP modern"], indirect=True)
def test_a_form_whose_host_does_not_come_back_is_busy_until_it_takes_the_call_back(
    shared: Desk,
) -> None:
    host = shared.host
    assert isinstance(host, McpHost)
    left = call_from(shared.portal, partial(host.leave, "book", {"name": "Ann"}))
    busy = shared.call("book", accept(), name="Eve")
    assert re.search(
        r"RATE_LIMITED: Nothing was sent: another call of this form \(\S+\) is open for \d+ s now",
        busy,
    )
    assert "was not answered for 600 s" in busy
    assert shared.person.seen == []
    call_from(shared.portal, partial(host.take_back, left))
    assert json.loads(shared.call("book", accept(), name="Eve"))["sent"]["name"] == "Eve"


def test_a_page_that_goes_on_in_the_middle_takes_its_question_back(shared: Desk) -> None:
    shared.site.happened.discard("leave")
    assert "done" in shared.call("work", what="leave")

    def leave(shown: Shown) -> Awaitable[Json]:
        shared.site.happened.add("leave")
        return shared.host.too_late(shown)

    ended = shared.call("book", leave, name="Ann")
    assert "CANCELLED: Nothing was sent: its page went on to another" in ended
    assert len(shared.person.seen) == 1
    shared.site.happened.discard("leave")
    shared.until_it_is_there()


def test_tools_that_come_are_told(shared: Desk) -> None:
    shared.site.happened.add("more")
    shared.call("work", what="more")
    shared.until_listed("later")
    assert "late" in shared.call("later")


@pytest.mark.parametrize("kind", HOSTS)
def test_a_form_that_nobody_answers_in_time_is_not_sent(kind: str, site: Web) -> None:
    with desk(kind, site, ABP_QUESTION_TIMEOUT="3s") as opened:
        ended = opened.call("book", opened.host.too_late, name="Ann")
        assert re.search("TIMEOUT|nobody answered in time", ended)
        assert "Nothing was sent" in ended
        assert len(opened.person.seen) == 1


@pytest.mark.anyio
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
