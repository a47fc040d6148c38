"""How a person gets to the bridge's own page, and hears that they are asked: by their browser, by
the host where there is none, over SSH, by a notification. The browsers and desktops are programs of
the tests' own on `PATH`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from anyio.abc import TaskGroup
from support.browser import Browser as Visitor
from support.harness import PATIENCE, Hosted, hosted, text
from support.paths import ROOT
from support.programs import Programs
from support.terminal import Tty

from abp_bridge.conformance.user_drivers import free_port
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.errors import install_command
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.context import NO_CONTEXT, AskContext, AttemptEvent, InputRequestEvent
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.router import Router
from abp_bridge.session.surface import (
    PageLink,
    PageQuestion,
    SurfaceResponse,
)
from abp_bridge.surfaces.notify import Channels, Notifier, show_on_desktop
from abp_bridge.surfaces.page import browser as commands
from abp_bridge.surfaces.page import web
from abp_bridge.surfaces.page.browser import BrowserError, forwarding, open_browser
from abp_bridge.surfaces.page.surface import LazyPageServer, PageSurface

Json = Any

NAME: dict[str, Json] = {"prompt": "Name?", "schema": {"type": "string", "title": "Name"}}
CODEX = types.Implementation(name="codex-mcp-client", version="0.169.0")
OPEN = ("--app", "demo", "--page", "open", "--ask-on", "page")
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/open/[\w-]+")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/code/[\w-]+")
GO = re.compile(r"http://127\.0\.0\.1:\d+/go/[\w-]+")


async def visit(address: str, name: str = "Ada") -> str:
    """A browser that goes there and answers with `name`. Returns the page it came to."""
    visitor = Visitor()
    page = await anyio.to_thread.run_sync(visitor.open, address)
    await anyio.to_thread.run_sync(lambda: visitor.send(**{"field-0": name}))
    return page


class Card:
    """The form that the host shows instead of a browser; its person follows the link."""

    def __init__(self) -> None:
        self.words = ""

    async def answer(self, params: Any) -> types.ElicitResult:
        self.words = params.message
        link = LINK.search(self.words)
        assert link is not None, self.words
        await visit(link[0])
        return types.ElicitResult(action="accept", content={})


async def page_of(host: Hosted) -> Json:
    """What `abp_status` says of the page."""
    surfaces = (await host.status())["surfaces"]
    return next(each for each in surfaces if each["surface"] == "page")


# --- which browser --------------------------------------------------------------------------------


@pytest.mark.slow
async def test_host_without_a_display_shows_why_no_browser_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = Card()
    said = "No browser could be opened: this process was given neither DISPLAY nor WAYLAND_DISPLAY."
    async with hosted(*OPEN, answer=card.answer, client_info=CODEX) as host:
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}
        assert (await page_of(host))["at"] == said
    assert said in card.words
    assert caplog.text.count(said) == 1


@pytest.fixture
def desktop(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A desktop with a browser and notifications, which note what they are given."""
    for name in ("xdg-open", "notify-send"):
        programs.add(name)
    programs.run_here(monkeypatch)
    return programs


def codex_names() -> list[str]:
    """The variables that docs/serve.md has Codex pass on."""
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/serve.md").read_text(), re.DOTALL)
    names: list[str] = tomllib.loads(blocks[0])["mcp_servers"]["abp"]["env_vars"]
    return names


@pytest.mark.parametrize(
    ("own", "opener"),
    [
        ({"DISPLAY": ":7", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x", "KEY": "x"}, "xdg-open :7 "),
        ({"WAYLAND_DISPLAY": "wayland-0", "KEY": "x"}, "xdg-open  "),
        ({"BROWSER": "editors-own %s", "KEY": "x"}, "editors-own  "),
    ],
)
@pytest.mark.slow
async def test_what_the_docs_have_codex_pass_on_is_enough_for_a_browser(
    desktop: Programs, own: dict[str, str], opener: str
) -> None:
    desktop.add("editors-own")
    passed = {name: value for name, value in own.items() if name in codex_names()}
    assert passed.keys() == own.keys() - {"KEY"}
    async with (
        hosted(*OPEN, env=desktop.environment(**passed)) as host,
        anyio.create_task_group() as tasks,
    ):

        async def act() -> None:
            (run,) = await desktop.wait()
            assert run[0] == opener
            await visit(run[1])

        tasks.start_soon(act)
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}


@pytest.mark.slow
async def test_the_address_that_others_can_read_leads_nobody_but_the_person_anywhere(
    desktop: Programs,
) -> None:
    """It is no file either: browsers in a box of their own cannot read those."""
    async with (
        hosted(*OPEN, env=desktop.environment(DISPLAY=":7")) as host,
        anyio.create_task_group() as tasks,
    ):

        async def act() -> None:
            ((_, address),) = await desktop.wait()
            assert GO.fullmatch(address)
            await visit(address)
            with pytest.raises(HTTPError, match="403") as caught:
                await anyio.to_thread.run_sync(Visitor().open, address)
            caught.value.close()

        tasks.start_soon(act)
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}


@pytest.mark.slow
async def test_an_xdg_open_that_opens_nothing_is_noticed(
    desktop: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "OPEN_LIMIT", 0.1)
    card, env = Card(), desktop.environment(DISPLAY=":7")
    async with hosted(*OPEN, answer=card.answer, client_info=CODEX, env=env) as host:
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}
        said = "No browser could be opened: xdg-open ran, and none came."
        assert (await page_of(host))["at"] == said
    assert said in card.words


@pytest.mark.slow
async def test_a_slow_browser_is_waited_for_where_the_host_can_show_no_link(
    desktop: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "OPEN_LIMIT", 0.1)
    async with (
        hosted(*OPEN, env=desktop.environment(DISPLAY=":7")) as host,
        anyio.create_task_group() as tasks,
    ):
        await host.client.call_tool("abp_connect", {})

        async def come_late() -> None:
            ((_, address),) = await desktop.wait()
            while "none came" not in (await page_of(host)).get("at", ""):
                await anyio.lowlevel.checkpoint()
            await visit(address)

        tasks.start_soon(come_late)
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}


class WatchedPage(LazyPageServer):
    """Knows the question that it shows."""

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(tasks)
        self.shown = anyio.Event()
        self.form: PageQuestion | None = None

    @asynccontextmanager
    async def show(
        self, question: Question, context: AskContext = NO_CONTEXT
    ) -> AsyncIterator[PageQuestion]:
        async with super().show(question, context) as self.form:
            self.shown.set()
            yield self.form


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("answer", "expire", Outcome.ACCEPTED),
        ("expire", "answer", Outcome.TIMED_OUT),
        ("withdraw", "answer", Outcome.WITHDRAWN),
    ],
)
@pytest.mark.slow
async def test_whoever_is_told_that_it_was_sent_has_answered(
    before: str, after: str, outcome: Outcome
) -> None:
    """Also where it ends in another way in the same turn."""
    asked = decode_question({"method": "elicitation/input", "params": NAME}, id="q1", origin="app")
    answers: list[Outcome] = []
    told: list[bool] = []

    async def wait(question: Question, context: AskContext, link: PageLink) -> SurfaceResponse:
        await anyio.sleep_forever()
        raise AssertionError

    async def nowhere(question: Question, page: PageQuestion) -> str:
        return ""

    async with anyio.create_task_group() as tasks:
        page = WatchedPage(tasks)
        asking = Elicitor(
            Router(PageSurface(page, wait, nowhere), min_human_latency=0.0), limit=PATIENCE
        )

        async def ask() -> None:
            answers.append((await asking.resolve(asked)).outcome)

        async with anyio.create_task_group() as questions:
            questions.start_soon(ask)
            await page.shown.wait()
            assert page.form is not None
            yes = SurfaceResponse(Outcome.ACCEPTED, {"value": "Ada"})
            acts: dict[str, Callable[[], None]] = {
                "answer": lambda: told.append(page.form.answer(yes)),  # type: ignore[union-attr]
                "expire": lambda: setattr(asking._open["q1"].scope, "deadline", 0.0),
                "withdraw": lambda: asking.withdraw([asked], "its call ended"),
            }
            acts[before]()
            acts[after]()
        tasks.cancel_scope.cancel()
    assert (answers, told) == ([outcome], [outcome is Outcome.ACCEPTED])


@pytest.mark.slow
async def test_a_refusal_says_why_no_browser_came() -> None:
    async with hosted(*OPEN) as host:
        response = await host.ask("elicitation/confirm", message="Delete it?", destructive=True)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert "No browser could be opened" in response["error"]["message"]


OPENED: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "by BROWSER": ("firefox", {"BROWSER": "firefox", "DISPLAY": ":7"}, ["firefox URL"]),
    "by BROWSER without a display": ("firefox", {"BROWSER": "firefox"}, ["firefox URL"]),
    "by the next of BROWSER": (
        "broken firefox",
        {"BROWSER": "broken:firefox"},
        ["broken URL", "firefox URL"],
    ),
    "not in a terminal": ("w3m firefox", {"BROWSER": "w3m:firefox"}, ["firefox URL"]),
    "with options": ("firefox", {"BROWSER": "firefox -P 'my own' %s"}, ["firefox -P my own URL"]),
    "in the background": ("firefox", {"BROWSER": "firefox &"}, ["firefox URL"]),
    "despite a quote": ("firefox", {"BROWSER": "firefox it's"}, ["firefox it's URL"]),
    "by the desktop instead": (
        "xdg-open",
        {"BROWSER": "/no/such/thing", "DISPLAY": ":7"},
        ["xdg-open URL"],
    ),
    "by Wayland's desktop": ("xdg-open", {"WAYLAND_DISPLAY": "w-0"}, ["xdg-open URL"]),
    "by GNOME": ("gio", {"DISPLAY": ":7"}, ["gio open URL"]),
    "by Windows": ("wslview", {}, ["wslview URL"]),
}


@pytest.mark.process
@pytest.mark.parametrize(("names", "environ", "runs"), OPENED.values(), ids=OPENED)
async def test_browser_is_opened(
    programs: Programs, names: str, environ: dict[str, str], runs: list[str]
) -> None:
    for name in names.split():
        programs.add(name, 3 if name == "broken" else 0)
    env = {"PATH": str(programs.folder), "TERM": "xterm", **environ}
    opened = await open_browser("URL", env)
    noted = [(run[0].split()[0], *run[1:]) for run in programs.runs()]
    assert [" ".join(words) for words in noted] == runs
    assert opened == runs[-1].split()[0]
    assert programs.runs()[-1][0] == f"{opened} {environ.get('DISPLAY', '')} ", "without TERM"


@pytest.mark.process
async def test_each_command_that_fails_is_named(programs: Programs) -> None:
    programs.add("firefox", 3)
    environ = programs.environment(BROWSER="firefox:/no/such/thing")
    with pytest.raises(BrowserError) as caught:
        await open_browser("http://x/", environ)
    assert str(caught.value) == (
        "firefox failed (exit code 3); /no/such/thing cannot be run (No such file or directory);"
        " this process was given neither DISPLAY nor WAYLAND_DISPLAY"
    )


# --- whose browser --------------------------------------------------------------------------------

NOT_OURS = "Only programs of the user who runs the bridge are let in here. Open this address in a"


@pytest.mark.slow
async def test_another_user_who_is_first_gets_nothing_and_uses_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, own = "", False

    async def note(given: str) -> str:
        nonlocal address
        address = given
        return "xdg-open"

    monkeypatch.setattr(commands, "open_browser", note)
    monkeypatch.setattr(web, "owns_connection", lambda client, server: own)
    raw: Json = {"method": "elicitation/input", "params": NAME}
    question = decode_question(raw, id="q1", origin="app")
    async with anyio.create_task_group() as tasks:
        async with LazyPageServer(tasks).show(question) as shown:
            tasks.start_soon(shown.open)
            while not address:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(HTTPError, match="403") as caught:
                await anyio.to_thread.run_sync(Visitor().open, address)
            with caught.value:
                assert NOT_OURS in caught.value.read().decode()
            own = True
            await visit(address)
            assert (await shown.wait_answer()).content == {"value": "Ada"}
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_another_user_who_has_the_code_is_told_who_is_let_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "owns_connection", lambda client, server: False)
    raw: Json = {"method": "elicitation/input", "params": NAME}
    question = decode_question(raw, id="q1", origin="app")
    visitor = Visitor()
    async with anyio.create_task_group() as tasks:
        async with LazyPageServer(tasks).show(question) as shown:
            await anyio.to_thread.run_sync(visitor.open, shown.address)
            with pytest.raises(HTTPError, match="403") as caught:
                await anyio.to_thread.run_sync(lambda: visitor.post(code=shown.code))
            with caught.value:
                page = caught.value.read().decode()
        tasks.cancel_scope.cancel()
    assert NOT_OURS in page
    assert "Open the link that your agent showed you" not in page


@pytest.fixture
def connection() -> Any:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as ours,
        server.accept()[0] as accepted,
    ):
        yield ours, accepted


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.network
def test_a_connection_of_ones_own_is_known(
    connection: tuple[socket.socket, socket.socket], platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, accepted = connection
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(web, "_lsof_finds", lambda client: client == ours.getsockname())
    assert web.owns_connection(accepted.getpeername(), accepted.getsockname())


@pytest.mark.network
def test_a_connection_of_another_user_is_not_ones_own(
    connection: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, accepted = connection
    if os.getuid() == 0:  # who may give things away
        os.fchown(ours.fileno(), 65534, 65534)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 65534)
    assert not web.owns_connection(accepted.getpeername(), accepted.getsockname())


@pytest.mark.network
def test_who_has_left_already_is_nobody(connection: tuple[socket.socket, socket.socket]) -> None:
    """The kernel says user 0 of such a connection, as of root's."""
    ours, accepted = connection
    gone = ours.getsockname()
    ours.close()
    assert not web.owns_connection(gone, accepted.getsockname())
    assert not web.owns_connection(("127.0.0.1", 1), accepted.getsockname())


@pytest.mark.network
def test_a_browser_that_reaches_us_from_an_ipv6_socket_is_known(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6) as ours:
        ours.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        accepted, client = server.accept()
        with accepted:
            assert web.owns_connection(client, server.getsockname())


# --- one tab --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_five_questions_at_once_are_one_tab(desktop: Programs) -> None:
    answers: list[Json] = []
    async with hosted(*OPEN, env=desktop.environment(DISPLAY=":7")) as host:
        await host.client.call_tool("abp_connect", {})

        async def ask() -> None:
            answers.append((await host.ask("elicitation/input", **NAME))["data"])

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
            while len((await host.status())["questions"]["open"]) < 5:
                await anyio.lowlevel.checkpoint()
            ((_, address),) = await desktop.wait()
            visitor = Visitor()
            inbox = await anyio.to_thread.run_sync(visitor.open, address)
            assert "(5) Open questions" in inbox
            for path in re.findall(r'href="(/[\w-]+/q/[\w-]+)"', inbox):
                base = f"http://{urlsplit(address).netloc}"
                await anyio.to_thread.run_sync(visitor.open, f"{base}{path}")
                await anyio.to_thread.run_sync(lambda: visitor.send(**{"field-0": "Ada"}))
    assert answers == [{"value": "Ada"}] * 5
    assert len(desktop.runs()) == 1


@pytest.mark.slow
async def test_a_tab_that_closes_when_a_question_comes_has_not_shown_it(
    desktop: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "TAB_LIMIT", 0.0)
    async with hosted(*OPEN, env=desktop.environment(DISPLAY=":7")) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(host.ask, "elicitation/input", **NAME))
            address = (await desktop.wait())[0][1]
            tab = Visitor()
            await anyio.to_thread.run_sync(tab.open, address)
            await anyio.to_thread.run_sync(tab.listen)
            await anyio.to_thread.run_sync(lambda: tab.send(**{"field-0": "Ada"}))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(host.ask, "elicitation/input", **NAME))
            while not (await host.status())["questions"]["open"]:
                await anyio.lowlevel.checkpoint()
            tab.close()
            await visit((await desktop.wait(2))[1][1])


# --- SSH, and a port of one's own -----------------------------------------------------------------


SSH = {"SSH_CONNECTION": "192.0.2.7 50022 192.0.2.9 2222", "USER": "ada"}
PASSWORD: dict[str, Json] = {"prompt": "Your password?"}


def ssh_line(url: str) -> str:
    """What a person types at home to get to `url` here."""
    port = urlsplit(url).port
    return f"ssh -L {port}:127.0.0.1:{port} -p 2222 ada@192.0.2.9"


@pytest.mark.network
async def test_over_ssh_the_command_that_forwards_the_page_is_there_to_copy() -> None:
    card, port = Card(), free_port()
    fixed = ("--page-port", str(port))
    async with hosted(*OPEN, *fixed, answer=card.answer, client_info=CODEX, env=SSH) as host:
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}
        line = ssh_line(f"http://127.0.0.1:{port}")
        assert line in (await page_of(host))["at"]
    assert line in card.words
    link = LINK.search(card.words)
    assert link is not None
    assert link[1] == str(port)


@pytest.mark.slow
async def test_over_ssh_a_model_and_the_terminal_say_that_command_beside_the_address() -> None:
    asked = {"method": "elicitation/input", "params": PASSWORD}
    with Tty() as terminal:
        options = ("--app", "demo", "--page", "--ask-on", "page", "--tty", terminal.name)
        async with hosted(*options, env=SSH) as host:
            said = text(await host.call("demo.ask", request=asked))
            (address,) = ADDRESS.findall(said)
            assert ssh_line(address) in said
            terminal.until(re.escape(ssh_line(address)))


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"SSH_CONNECTION": "a 1 h 22", "USER": "ada"}, "ssh -L 8:127.0.0.1:8 ada@h"),
        ({"SSH_CONNECTION": "a 1 h 22", "LOGNAME": "bob"}, "ssh -L 8:127.0.0.1:8 bob@h"),
        ({"SSH_CONNECTION": "a 1 ::9 22"}, "ssh -L 8:127.0.0.1:8 ::9"),
        ({"SSH_CONNECTION": "what?", "USER": "ada"}, ""),
        ({"USER": "ada"}, ""),
    ],
)
def test_where_the_person_came_from_is_read(environ: dict[str, str], line: str) -> None:
    assert forwarding("http://127.0.0.1:8/open/x", environ) == line


@pytest.mark.network
async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with hosted(*OPEN, "--page-port", str(port)) as host:
            response = await host.ask("elicitation/input", **NAME)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    words = response["error"]["message"]
    assert f"port {port} cannot be used (Address already in use)" in words
    assert "--page-port" in words


# --- notifications --------------------------------------------------------------------------------

HOST = ("--app", "demo", "--ask-on", "host", "--notify")


async def greet(params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"value": "Ada"})


LONG = f"{'Copy the files. ' * 40}Then delete the originals?"
NOTIFIED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "without text": ((), "Name?", ""),
    "with text": (("--notify-text",), "<b>Löschen & gehen?</b>", "<b>Löschen & gehen?</b>"),
    "with long text": (
        ("--notify-text",),
        LONG,
        f"{LONG[:500]} … [{len(LONG) - 500} more characters not shown]",
    ),
}


@pytest.mark.parametrize(("options", "prompt", "text"), NOTIFIED.values(), ids=NOTIFIED)
async def test_notification_shows_the_question_only_with_notify_text(
    desktop: Programs, options: tuple[str, ...], prompt: str, text: str
) -> None:
    env = desktop.environment()
    async with hosted(*HOST, *options, answer=greet, env=env) as host:
        await host.ask("elicitation/input", prompt=prompt, schema={"type": "string"})
        (run,) = await desktop.wait()
    assert run[1:4] == ["--app-name=abp-bridge", "--", "abp-bridge: demo asks"]
    assert run[4:] == [*([escape(text)] if text else []), "Answer where your agent runs."]


async def test_missing_desktop_is_logged_and_the_question_continues(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    programs.run_here(monkeypatch)
    async with hosted(*HOST, answer=greet, env={"PATH": str(programs.folder)}) as host:
        assert (await host.ask("elicitation/input", **NAME))["data"] == {"value": "Ada"}
        with anyio.fail_after(PATIENCE):
            while "a notification of a question was not sent" not in caplog.text:
                await anyio.lowlevel.checkpoint()
    assert "notify-send" in caplog.text


@pytest.mark.parametrize("options", [HOST, OPEN], ids=["notify-send", "xdg-open"])
@pytest.mark.slow
async def test_what_tells_the_person_is_not_given_the_password(
    options: tuple[str, ...],
    desktop: Programs,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "OPEN_LIMIT", 0.1)
    name = request.node.callspec.id
    private = {"ABP_QUESTIONS_PASSWORD": "planted-password-77aa", "DISPLAY": ":7"}
    env = desktop.environment(**private)
    card = Card()
    async with hosted(*options, answer=card.answer, client_info=CODEX, env=env) as host:
        await host.ask("elicitation/input", **NAME)
        await desktop.wait()
    given = (desktop.folder / f"{name}.env").read_text()
    assert "DISPLAY=:7" in given
    assert "planted-password-77aa" not in given


@pytest.mark.parametrize("name", ["notify-send", "browser"])
@pytest.mark.process
async def test_what_tells_the_person_is_not_given_a_folder_that_goes_with_a_browser(
    name: str, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Playwright's driver starts, TMPDIR is the folder of what it starts."""
    for variable, value in programs.environment(BROWSER=programs.add(name), TMPDIR="/gone").items():
        monkeypatch.setenv(variable, value)
    if name == "browser":
        await open_browser("http://x/")
    else:
        async with anyio.create_task_group() as tasks:
            assert await show_on_desktop(tasks, "abp-bridge", "A question", lambda: None)
    given = (programs.folder / f"{name}.env").read_text()
    assert f"PATH={programs.folder}" in given
    assert "TMPDIR=/gone" not in given


async def test_the_bell_rings_at_the_persons_terminal(desktop: Programs) -> None:
    ours, theirs = os.openpty()
    options = (*HOST, "--tty", os.ttyname(theirs))
    try:
        async with hosted(*options, answer=greet, env=desktop.environment()) as host:
            await host.ask("elicitation/input", **NAME)
            assert await anyio.to_thread.run_sync(os.read, ours, 1) == b"\a"
    finally:
        os.close(ours)
        os.close(theirs)


async def test_an_apprise_that_hangs_takes_no_thread_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each thread that others share is one less for files, browsers and the page."""
    hangs, end = threading.Event(), threading.Event()

    def load() -> None:
        hangs.set()
        end.wait()

    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=load))
    raw: Json = {"method": "elicitation/input", "params": NAME}
    question = decode_question(raw, id="q1", origin="app")
    async with anyio.create_task_group() as tasks:
        observe = Notifier(tasks, Channels(urls=["ntfy://topic"])).observer()
        observe(InputRequestEvent(0.0, question, NO_CONTEXT))
        observe(AttemptEvent(0.0, question.id, "page"))
        while not hangs.is_set():
            await anyio.lowlevel.checkpoint()
        shared = anyio.to_thread.current_default_thread_limiter().borrowed_tokens
        tasks.cancel_scope.cancel()
    end.set()
    assert shared == 0


async def notify(name: str = "q1") -> None:
    """Ask one question that is notified by apprise."""
    raw: Json = {"method": "elicitation/input", "params": NAME}
    question = decode_question(raw, id=name, origin="demo")
    async with anyio.create_task_group() as tasks:
        observe = Notifier(tasks, Channels(urls=["ntfy://topic"])).observer()
        observe(InputRequestEvent(0.0, question, NO_CONTEXT))
        observe(AttemptEvent(0.0, name, "page"))


def fail(*_: object) -> Any:
    raise ValueError("ntfy://topic")


def apprise(**parts: Any) -> Any:
    return SimpleNamespace(Apprise=lambda: SimpleNamespace(**parts))


APPRISES: dict[str, tuple[Any, str]] = {
    "breaks at its start": (SimpleNamespace(Apprise=fail), "apprise failed (ValueError)"),
    "breaks at an address": (apprise(add=fail), "apprise failed (ValueError)"),
    "breaks as it sends": (apprise(add=bool, notify=fail), "apprise failed (ValueError)"),
    "cannot read an address": (
        apprise(add=lambda url: False, notify=lambda *_: True),
        "apprise cannot read an address",
    ),
    "is not installed": (None, install_command("notify")),
}


@pytest.mark.parametrize(("module", "why"), APPRISES.values(), ids=APPRISES)
async def test_failure_of_apprise_is_logged_without_its_address(
    module: Any, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", module)
    await notify()
    assert "a notification of a question was not sent: " in caplog.text
    assert why in caplog.text
    assert "topic" not in caplog.text


async def test_apprise_is_given_address_text_and_title(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def note(*words: str) -> bool:
        sent.extend(words)
        return True

    module = apprise(add=note, notify=note)
    monkeypatch.setitem(sys.modules, "apprise", module)
    await notify()
    assert sent == ["ntfy://topic", "Answer on a page in your browser.", "abp-bridge: demo asks"]


async def test_questions_of_two_sessions_are_each_told_though_they_have_one_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    def notify(body: str, title: str) -> bool:
        told.append(title)
        return True

    services = SimpleNamespace(add=bool, notify=notify)
    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=lambda: services))
    raw: Json = {"method": "elicitation/input", "params": NAME}
    async with anyio.create_task_group() as tasks:
        notifier = Notifier(tasks, Channels(urls=["ntfy://topic"]))
        sessions = [(notifier.observer(), origin) for origin in ("one", "two")]
        for observe, origin in sessions:
            question = decode_question(raw, id="question-1", origin=origin)
            observe(InputRequestEvent(0.0, question, NO_CONTEXT))
            observe(AttemptEvent(0.0, "question-1", "mock"))
        for observe, _ in sessions:
            observe(AttemptEvent(0.0, "question-1", "page"))
    assert told == ["abp-bridge: 2 questions wait"]


async def test_what_nobody_is_asked_is_not_notified(desktop: Programs, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps([{"value": "Ada"}, {"value": "Grace"}]))
    options = ("--app", "demo", "--answers", str(answers), "--ask-on", "mock,host", "--notify")
    async with hosted(*options, answer=greet, env=desktop.environment()) as host:
        await host.ask("elicitation/input", **NAME)
        await host.ask("elicitation/input", **NAME)
        await host.ask("elicitation/input", **NAME)
        runs = await desktop.wait()
    assert len(runs) == 1
