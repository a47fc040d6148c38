"""`abp-bridge inbox`: what all bridges of a person ask, in one list, for browsers that were paired;
and nobody else sees or answers anything there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from playwright.async_api import BrowserContext, expect
from support.browser import Browser
from support.harness import PATIENCE, Hosted, environment, hosted, run
from support.programs import Desktop

from abp_bridge.cli import inbox as cli_inbox
from abp_bridge.core.answer import Answer
from abp_bridge.core.ledger import Ledger
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.jsonrpc.files import PlaceError, private_folder
from abp_bridge.session.context import (
    NO_CONTEXT,
    AskContext,
    Asking,
    InputRequestEvent,
    InputResolvedEvent,
)
from abp_bridge.surfaces.inbox import bridges, endpoint, history, html, pairing, places
from abp_bridge.surfaces.inbox import site as inbox_site
from abp_bridge.surfaces.inbox.link_request import is_signed, make_request
from abp_bridge.surfaces.inbox.pairing import Pairing
from abp_bridge.surfaces.inbox.register import Register
from abp_bridge.surfaces.inbox.site import COOKIE, MAX_CODES, InboxSite, Invitation
from abp_bridge.surfaces.page import words as page_words
from abp_bridge.surfaces.page.surface import LazyPageServer

Json = Any

COMMAND = [sys.executable, "-m", "abp_bridge"]
KEY = "planted-key-7f3a"
SECRET: Json = {"prompt": "Enter your API key", "schema": {"type": "string", "title": "API key"}}
CODEX = types.Implementation(name="Codex", version="1")
INBOX = "http://127.0.0.1:8477/k/"
HOST = "Codex 1 (MCP 2025-11-25)"
LINK = re.compile(r'href="(/[\w-]+/open/[^"]+)"[^>]*>([^<]*)<')


class Machine:
    """A person's own places on this machine, and their browser."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.runtime = runtime / "abp-bridge"
        self.home = folder
        self.desktop = Desktop(folder)
        self.env = {"HOME": str(folder), "ABP_RUNTIME_DIR": str(self.runtime)}
        self.browser = Browser()
        self.inbox = ""

    @cached_property
    def port(self) -> int:
        with socket.create_server(("127.0.0.1", 0)) as free:
            return int(free.getsockname()[1])

    def run(self, word: str) -> str:
        """What `abp-bridge inbox` prints that does not serve."""
        command = [*COMMAND, "inbox", word]
        env, null = environment(**self.env), subprocess.DEVNULL
        return subprocess.check_output(command, env=env, stderr=null, timeout=PATIENCE, text=True)

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """An inbox, until the block ends."""
        process = subprocess.Popen(
            [*COMMAND, "inbox", "--port", str(self.port), *words],
            env=environment(**self.env, **self.desktop.env),
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert f"http://127.0.0.1:{self.port}/" in said, said
            yield process
            process.terminate()
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == ""

    def look(self) -> str:
        """The list, in the paired browser."""
        return self.browser.open(self.inbox)

    def press(self, words: str) -> None:
        """Go to the question that begins so."""
        links = {said: path for path, said in LINK.findall(self.look())}
        self.browser.open(f"http://127.0.0.1:{self.port}{links[words]}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    runtime = Path(tempfile.mkdtemp(prefix="run-", dir="/tmp"))  # a socket's address is short
    machine = Machine(tmp_path, runtime)
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    yield machine
    shutil.rmtree(runtime)


async def until_open(places: dict[str, str]) -> None:
    """Wait until these are open, there."""
    with anyio.fail_after(PATIENCE):
        while True:
            found = [each for bridge in (await bridges.look()).bridges for each in bridge.questions]
            if {each.message: each.place for each in found} == places:
                return


class Got:
    """What an app got, when it did."""

    def __init__(self) -> None:
        self._came = anyio.Event()
        self._answer: Json = None

    def put(self, answer: Json) -> None:
        self._answer = answer
        self._came.set()

    async def wait(self) -> Json:
        with anyio.fail_after(PATIENCE):
            await self._came.wait()
        return self._answer


@asynccontextmanager
async def asking(
    machine: Machine, answer: Callable[..., Any], ask: Callable[[Hosted], Awaitable[Json]]
) -> AsyncIterator[Got]:
    """A bridge under Codex, whose app asks."""
    got = Got()
    async with (
        hosted("--app", "demo", answer=answer, client_info=CODEX, env=machine.env) as host,
        anyio.create_task_group() as tasks,
    ):

        async def run() -> None:
            got.put(await ask(host))

        tasks.start_soon(run)
        yield got
        tasks.cancel_scope.cancel()


def on_the_page(params: Any) -> types.ElicitResult | None:
    """A person who goes where an address leads, and looks at no form."""
    has_url = isinstance(params, types.ElicitRequestURLParams)
    return types.ElicitResult(action="accept") if has_url else None


@contextmanager
def asked_by_command(machine: Machine, words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`abp-bridge ask` on its page, which no browser comes to."""
    command = [*COMMAND, "ask", "confirm", words, "--on", "page"]
    env = environment(**machine.env, BROWSER="/bin/true")
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env=env, stdin=null, stdout=null, stderr=null) as process:
        yield process
        process.kill()


VISIT = """
import json, socket, sys, urllib.error, urllib.request
found, (cookie, *places) = {}, sys.argv[1:]
for place in places:
    try:
        if place.startswith("http:"):
            request = urllib.request.Request(place, headers={"Cookie": cookie})
            found[place] = urllib.request.urlopen(request, timeout=10).read().decode()
        else:
            socket.socket(socket.AF_UNIX).connect(place)
            found[place] = "connected"
    except urllib.error.HTTPError as refusal:
        found[place] = f"{refusal.code} {refusal.read().decode()}"
    except OSError as problem:
        found[place] = type(problem).__name__
print(json.dumps(found))
"""


def as_another_user(cookie: str, *places: str) -> dict[str, str]:
    """What another user of this machine, who has even the cookie, is told at each of `places`."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin") or sys.executable
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, "-c", VISIT]
    said = subprocess.check_output([*command, cookie, *places], cwd="/", env={}, timeout=PATIENCE)
    found: dict[str, str] = json.loads(said)
    return found


@pytest.mark.process
async def test_three_bridges_one_inbox(machine: Machine) -> None:
    async with (
        asking(machine, on_the_page, lambda host: host.ask("elicitation/input", **SECRET)) as got,
        asking(
            machine, on_the_page, lambda host: host.ask("elicitation/confirm", message="Go on?")
        ),
    ):
        with asked_by_command(machine, "Delete all?") as command:
            await until_open(THREE)
            found = json.loads(await anyio.to_thread.run_sync(machine.run, "--json"))
            assert {each["message"]: each["place"] for each in found["questions"]} == THREE
            assert "url" not in json.dumps(found)
            assert {each["host"] for each in found["questions"]} == {HOST, ""}
            with machine.running():
                await anyio.to_thread.run_sync(_pair_and_answer, machine)
                answer = await got.wait()
                assert answer["data"] == {"value": KEY}
                assert answer["metadata"]["answeredBy"] == "person"
                page = await anyio.to_thread.run_sync(machine.look)
                assert "Enter your API key" not in page
                assert 'elicitation/input</td><td dir="ltr">accepted, person' in page
                await anyio.to_thread.run_sync(_kill_and_stop, machine, command)
            with machine.running():  # again: the browser is still paired
                assert "Nothing is open" not in await anyio.to_thread.run_sync(machine.look)
        assert KEY not in _kept(machine.home)


THREE = {"Enter your API key": "page", "Go on?": "host", "Delete all?": "page"}


def _kept(home: Path) -> str:
    folder = home / ".local/state/abp-bridge"
    assert [oct(each.stat().st_mode & 0o777) for each in folder.iterdir()] == ["0o600"] * 2
    return "".join(each.read_text() for each in folder.iterdir())


def _pair_and_answer(machine: Machine) -> None:
    """The browser that was opened is paired, and nobody else; its press leads to the question."""
    machine.browser.open(machine.desktop.address())
    machine.inbox = machine.browser.url
    page = machine.browser.page
    assert [said for _, said in LINK.findall(page)] == ["Enter your API key", "Delete all?"]
    assert "Go on?" in page
    assert f"answered in <bdi>{HOST}</bdi>" in page
    for path in (page_path for page_path, _ in LINK.findall(page)):
        assert answer_to(f"http://127.0.0.1:{machine.port}{path}", {})[0] == 403
    for status, said in (answer_to(machine.inbox, {}), answer_to(f"{machine.inbox}next", {})):
        assert status == 403
        assert "API key" not in said
    for _ in range(2):  # each press is a link of its own
        machine.press("Enter your API key")
    machine.browser.send(**{"field-0": KEY})
    assert f'href="{machine.inbox}next"' in machine.browser.page
    assert "Delete all?" in machine.browser.open(f"{machine.inbox}next")


def _kill_and_stop(machine: Machine, command: subprocess.Popen[bytes]) -> None:
    """A bridge that hangs is said to; one that was killed is gone, and so is its entry."""
    command.send_signal(signal.SIGSTOP)
    page = machine.look()
    assert f"A bridge is not answering: process {command.pid}" in page
    assert "Delete all?" not in page
    command.kill()
    command.wait()
    page = machine.look()
    assert "not answering" not in page
    assert "Go on?" in page
    assert not list(machine.runtime.glob(f"{command.pid}-*"))


# --- who gets in ----------------------------------------------------------------------------------


@asynccontextmanager
async def served(invitation: Invitation | None) -> AsyncIterator[str]:
    """An inbox of this process: its address."""
    async with anyio.create_task_group() as tasks:
        kept = Pairing()
        pairing.save(kept)
        yield await InboxSite(tasks, kept, invitation).start(0)
        tasks.cancel_scope.cancel()


def answer_to(url: str, headers: dict[str, str]) -> tuple[int, str]:
    """The status, and the page."""
    try:
        with urlopen(Request(url, headers=headers), timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()


@pytest.mark.usefixtures("machine")
@pytest.mark.slow
async def test_nobody_else_gets_in() -> None:
    async with served(Invitation()) as inbox:
        kept = pairing.load()
        assert kept is not None
        home = f"{inbox}/{kept.home}/"
        _, secret = Pairing().add()  # of somebody else's
        tries: list[tuple[int, str, dict[str, str]]] = [
            (403, home, {}),
            (403, home, {"Cookie": f"{COOKIE}={secret}"}),
            (403, home, {"Cookie": f"{COOKIE}="}),
            (403, f"{home}next", {}),
            (403, f"{home}events", {}),
            (403, f"{home}open/1-1.sock/1", {}),
            (403, f"{inbox}/go/guessed", {}),
            (403, f"{inbox}/go/%C3%A9", {}),
            (404, f"{inbox}/else", {}),
            (421, f"{inbox}/", {"Host": "evil.example"}),
            (403, f"{inbox}/", {"Origin": "https://evil.example"}),
            (403, f"{inbox}/", {"Sec-Fetch-Site": "cross-site"}),
        ]
        for wanted, url, headers in tries:
            found, page = await anyio.to_thread.run_sync(answer_to, url, headers)
            assert (found, kept.home in page) == (wanted, False), (url, headers)


@pytest.mark.process
def test_what_an_unpaired_browser_is_told_to_do_can_be_done(machine: Machine) -> None:
    with machine.running():
        machine.browser.open(machine.desktop.address())
    inbox, again = f"http://127.0.0.1:{machine.port}/", ["inbox", "--pair", "--port"]
    with machine.running() as process:
        told = answer_to(inbox, {})[1]
        command = f"abp-bridge {' '.join(again)} {machine.port}"
        assert "End this inbox where it runs (Ctrl-C)" in told
        assert command in told
        assert command in answer_to(f"{inbox}go/gone", {})[1]
        beside = subprocess.run(
            [*COMMAND, *again, str(machine.port)],
            env=environment(**machine.env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert beside.returncode == 1
        assert "An inbox that runs already is ended by Ctrl-C there" in beside.stderr
        assert "0: any" not in beside.stderr, "which it does not take"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    with machine.running("--pair"):
        another = Browser()
        another.open(machine.desktop.address())
        assert "All open questions" in another.page


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
@pytest.mark.process
async def test_another_user_gets_in_nowhere(machine: Machine) -> None:
    async with served(None) as inbox, anyio.create_task_group() as tasks:
        Register(tasks, 600.0).observer(str)(InputRequestEvent(0.0, QUESTION, NO_CONTEXT))
        await until_open({"Name?": "host"})
        kept, secret = (pairing.load() or Pairing()).add()
        pairing.save(kept)
        home = f"{inbox}/{kept.home}/"
        cookie = {"Cookie": f"{COOKIE}={secret}"}
        status, page = await anyio.to_thread.run_sync(answer_to, home, cookie)
        assert (status, "Name?" in page) == (200, True)
        pages = [home, f"{inbox}/", f"{home}next"]
        (entry,) = map(str, machine.runtime.iterdir())
        visited = [*pages, entry]
        found = await anyio.to_thread.run_sync(as_another_user, f"{COOKIE}={secret}", *visited)
        tasks.cancel_scope.cancel()
    assert [found[each].startswith("403 ") for each in pages] == [True] * 3
    assert "Name?" not in "".join(found.values())
    assert found[entry] == "PermissionError"


@pytest.mark.usefixtures("machine")
@pytest.mark.slow
async def test_a_code_lets_one_browser_in_and_guesses_end_it() -> None:
    def give(code: str) -> str:
        browser = Browser()
        browser.open(f"{inbox}/")
        try:
            browser.post(code=code)
        except HTTPError as refusal:
            return f"{refusal.code}"
        return browser.page

    async def try_codes(*codes: str) -> list[str]:
        return [await anyio.to_thread.run_sync(give, code) for code in codes]

    invitation = Invitation()
    code = invitation.shown_code
    async with served(invitation) as inbox:
        wrong, right, again = await try_codes("BBBB-BBBB", code.lower(), code)
    assert "All open questions" in right
    assert (wrong, again) == ("403", "403")
    guessed = Invitation()
    async with served(guessed) as inbox:
        assert set(await try_codes(*["BBBB-BBBB"] * MAX_CODES, guessed.shown_code)) == {"403"}
    kept = pairing.load()
    assert kept is not None
    assert not kept.browsers


@pytest.mark.usefixtures("machine")
def test_a_link_is_for_a_paired_browser_for_one_bridge_and_a_moment() -> None:
    kept, secret = Pairing().add()
    request = make_request("1-1.sock", "3", secret, INBOX)
    assert not is_signed(request, "1-1.sock")  # nothing is paired
    pairing.save(kept)
    assert is_signed(request, "1-1.sock")
    assert not is_signed(request, "2-1.sock")
    assert not is_signed({**request, "id": "4"}, "1-1.sock")
    assert not is_signed({**request, "inbox": INBOX.replace("k", "j")}, "1-1.sock")
    later = {**request, "time": int(time.time()) + 3}
    assert not is_signed(later, "1-1.sock")
    assert not is_signed({**request, "signature": "é"}, "1-1.sock")
    old: dict[str, Json] = {"id": "3", "inbox": INBOX, "time": int(time.time()) - 60}
    words = f"abp-bridge: a link to 3 of 1-1.sock at {old['time']} for {INBOX}"
    signed = pairing.sign(secret, words)
    assert not is_signed({**old, "signature": signed}, "1-1.sock")
    for time_of_none in (10**400, -(10**400), 0):
        assert not is_signed({**request, "time": time_of_none}, "1-1.sock")
    for other in (Pairing().add()[1], *kept.browsers, "", "x" * 1000):
        assert not is_signed(make_request("1-1.sock", "3", other, INBOX), "1-1.sock")
    assert not is_signed(make_request("1-1.sock", "3", secret, "http://evil.example/"), "1-1.sock")
    pairing.save(kept.remove(secret))
    assert not is_signed(make_request("1-1.sock", "3", secret, INBOX), "1-1.sock")


def test_a_folder_that_is_not_ones_own_alone_is_not_used(machine: Machine) -> None:
    machine.runtime.mkdir(mode=0o700)
    assert places.runtime_folder() == machine.runtime
    assert places.runtime_folders() == ([machine.runtime], [])
    machine.runtime.chmod(0o750)
    assert places.runtime_folders() == ([], [f"{machine.runtime} is open to others: chmod 700 it"])
    with pytest.raises(PlaceError, match="open to others"):
        places.runtime_folder()
    machine.runtime.rmdir()
    machine.runtime.symlink_to(machine.home)
    assert places.runtime_folders() == ([], [f"{machine.runtime} is no folder"])
    with pytest.raises(PlaceError, match="no folder"):
        private_folder(machine.runtime)
    pairing.save(Pairing())
    (machine.home / ".local/state/abp-bridge/inbox.json").chmod(0o644)
    with pytest.raises(PlaceError, match="chmod 600"):
        pairing.load()


async def test_what_a_bridge_says_is_read_with_care(machine: Machine) -> None:
    """Each is at the socket of a bridge, and says what none does."""
    machine.runtime.mkdir(mode=0o700)
    bad = '{"questions": [{"id": "1", "since": 1e300, "message": "x"}]}'
    long = json.dumps({"id": "2", "since": 5, "message": "A\n\u202e" + "x" * 10_000})
    said = ["", "[]", "no json", "{" * 100_000, bad, f'{{"questions": [{long}]}}', "x" * 2**21]
    said += [f'{{"questions": [{{"id": {id}, "since": 5}}]}}' for id in NO_IDS]
    said += ['{"questions": [], "more": 1' + "0" * 4_000 + "}"]
    (machine.runtime / "1-99999999999.sock").touch()  # of no time that a clock shows
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for number, words in enumerate(said):
            path = machine.runtime / f"{number}-1.sock"
            listener = await stack.enter_async_context(await anyio.create_unix_listener(path))
            tasks.start_soon(listener.serve, partial(_say, words))
        overview = await bridges.look()
        page = html.inbox_page(
            "/k/", overview, "", past=(), paired=(), guard="", words=page_words.ENGLISH
        )
        links = [f"{number}-1.sock" for number in range(3)]
        for link in (*links, "../../x", "9-9.sock"):
            with pytest.raises(bridges.BridgeError):
                await bridges.find_link(link, "1", "", INBOX)
        tasks.cancel_scope.cancel()
    assert page.count("is not answering") == len(said) - 2
    listed = {each.pid: each.questions[0] for each in overview.bridges if each.questions}
    assert list(listed) == [5]
    assert len(listed[5].message) < 500
    assert "\u202e" not in listed[5].message


NO_IDS = ('"a\\ud800"', '"../../x"', '"é"', '""', '"' + "x" * 65 + '"')


async def test_dead_bridges_hide_no_live_one_and_what_is_not_asked_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bridges, "MAX_BRIDGES", 2)
    machine.runtime.mkdir(mode=0o700)
    for number in range(5):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(machine.runtime / f"1{number}-1.sock"))
    answer = json.dumps({"questions": [{"id": "1", "since": 5, "message": "Alive?"}]})
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        for number in range(3):
            path = machine.runtime / f"9{number}-1.sock"
            listener = await stack.enter_async_context(await anyio.create_unix_listener(path))
            tasks.start_soon(listener.serve, partial(_say, answer))
        found = await bridges.look()
        await anyio.to_thread.run_sync(print_inbox)
        tasks.cancel_scope.cancel()
    assert [each.pid for each in found.bridges] == [90, 91]
    assert found.not_asked == 1
    printed = json.loads(capsys.readouterr().out)
    assert ([each["message"] for each in printed["questions"]], printed["notAsked"]) == (
        ["Alive?"] * 2,
        1,
    )
    page = html.inbox_page("/k/", found, "", past=(), paired=(), guard="", words=page_words.ENGLISH)
    assert "more bridges than are asked (1)" in page


async def test_what_a_killed_bridge_left_is_taken_out_by_the_next(machine: Machine) -> None:
    machine.runtime.mkdir(mode=0o700)
    no_process = 2**31 - 1
    for pid, since in ((no_process, 1), (os.getpid(), 2), (no_process + 1, 3)):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(machine.runtime / f"{pid}-{since}.sock"))
    with socket.socket(socket.AF_UNIX) as elsewhere:  # of a bridge in another container
        elsewhere.bind(str(machine.runtime / f"{no_process}-4.sock"))
        elsewhere.listen()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(endpoint.serve, lambda request, name: {}, print)
            with anyio.fail_after(PATIENCE):
                while max(there := [each for *_, each in places.sockets(machine.runtime)]) == 4:
                    await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert sorted(there)[:-1] == [2, 3, 4]


def print_inbox() -> None:
    """`abp-bridge inbox --json`, in this process."""
    assert cli_inbox.run_inbox(argparse.Namespace(unpair=False, json=True)) == 0


def says_no(params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def test_a_bridge_that_no_inbox_finds_says_so_and_so_does_the_inbox(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.runtime.mkdir(mode=0o755)
    why = f"{machine.runtime} is open to others: chmod 700 it"
    async with hosted("--app", "demo", answer=says_no, env=machine.env) as host:
        assert "notInInbox" not in await host.status()
        await host.ask("elicitation/confirm", message="Go on?")
        assert (await host.status())["notInInbox"] == why
    await anyio.to_thread.run_sync(print_inbox)
    assert json.loads(capsys.readouterr().out)["problems"] == [why]
    found = await bridges.look()
    page = html.inbox_page("/k/", found, "", past=(), paired=(), guard="", words=page_words.ENGLISH)
    assert f"Questions may be missing here: <bdi>{why}</bdi>" in page


async def test_a_request_that_fails_ends_nothing_else(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: Json, name: str) -> Json:
        if request.get("ask") == "fail":
            raise OverflowError("a bug")
        return {"questions": []}

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(endpoint.serve, answer, print)
        with anyio.fail_after(PATIENCE):
            while not (paths := list(places.sockets(machine.runtime))):
                await anyio.wait_all_tasks_blocked()
        async with await anyio.connect_unix(paths[0][0]) as stream:
            await stream.send(b'{"ask": "fail"}\n')
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        assert (await bridges.look()).bridges[0].answers
        tasks.cancel_scope.cancel()
    assert "a request of the inbox failed" in caplog.text


async def _say(words: str, stream: anyio.abc.SocketStream) -> None:
    with suppress(anyio.BrokenResourceError):
        async with stream:
            await stream.receive()
            await stream.send(words.encode() + b"\n")


# --- in a browser ---------------------------------------------------------------------------------


@pytest.mark.browser
async def test_the_list_follows_what_is_asked_and_the_fixed_address_leads_to_it(
    machine: Machine, person: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_site, "LOOK_EVERY", 0.1)
    invitation = Invitation()
    async with served(invitation) as inbox, anyio.create_task_group() as tasks:
        observe = Register(tasks, 600.0).observer(lambda: "Codex")
        tab = await person.new_page()
        await tab.goto(f"{inbox}/")
        await expect(tab.get_by_label("Code")).to_be_focused()
        await tab.keyboard.type(invitation.shown_code)
        await tab.keyboard.press("Enter")
        await expect(tab.get_by_text("Nothing is open.")).to_be_visible()
        observe(InputRequestEvent(0.0, QUESTION, NO_CONTEXT))
        await expect(tab.get_by_text("Name?")).to_be_visible()
        await expect(tab.get_by_text("answered in Codex")).to_be_visible()
        observe(InputResolvedEvent(1.0, QUESTION, ANSWER, NO_CONTEXT))
        await expect(tab.get_by_text("Nothing is open.")).to_be_visible()
        await tab.goto(f"{inbox}/")
        await expect(tab.get_by_role("cell", name="accepted, person")).to_be_visible()
        await expect(tab.get_by_text("not followed any more")).to_be_hidden()
        await tab.route("**/events", lambda route: route.abort())
        await tab.reload()
        await expect(tab.get_by_role("alert")).to_contain_text("not followed any more")
        await tab.get_by_role("button", name="Forget this browser").click()
        await expect(tab.get_by_text("This browser is forgotten")).to_be_visible()
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_list_in_which_nothing_happened_is_the_same(machine: Machine) -> None:
    """Else a browser takes it for another each second, and a screen reader reads it out again."""
    async with anyio.create_task_group() as tasks:
        context = AskContext(asking=Asking(QUESTION, Ledger(), 600.0))
        register = Register(tasks, 600.0)
        register.observer(lambda: "Codex")(InputRequestEvent(0.0, QUESTION, context))
        async with LazyPageServer(tasks).show(QUESTION, context):
            await until_open({"Name?": "page"})
            assert await bridges.look() == await bridges.look()
        tasks.cancel_scope.cancel()


# --- what is kept ---------------------------------------------------------------------------------


QUESTION = Question("q", Kind.INPUT, "Name?", (), "app")
ANSWER = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"value": "planted"})


def test_the_history_begins_with_the_pairing_is_bounded_and_goes_with_it(machine: Machine) -> None:
    history.add(QUESTION, ANSWER)
    assert not history.read()
    pairing.save(Pairing())
    file = machine.home / ".local/state/abp-bridge/history.jsonl"
    for _ in range(2):
        history.add(QUESTION, ANSWER)
    first, second = history.read()
    assert (first.asker, first.outcome, first.answered_by) == ("app", "accepted", "person")
    assert first.digest == second.digest != ""
    assert "planted" not in file.read_text()
    old = '{"time": "2020-01-01T00:00:00+00:00", "asker": "old"}\nbroken \xff\n'
    file.write_text(old + file.read_text() * history.KEPT, encoding="latin-1")
    history.add(QUESTION, ANSWER)
    assert len(file.read_text().splitlines()) == history.KEPT + 1
    assert {each.asker for each in history.read()} == {"app"}
    assert run("inbox", "--unpair").returncode == 0
    assert not list(file.parent.iterdir())


@pytest.mark.parametrize("at_home", [False, True])
def test_what_is_kept_lies_where_its_person_says(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_home: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ABP_STATE_DIR", "~/state" if at_home else str(tmp_path / "state"))
    pairing.save(Pairing())
    history.add(QUESTION, ANSWER)
    assert len(history.read()) == 1
    kept = sorted(each.name for each in (tmp_path / "state").iterdir())
    assert kept == ["history.jsonl", "inbox.json"]
    assert not (machine.home / ".local").exists()


def test_who_keeps_the_history_locked_keeps_nobody_waiting(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history, "LOCK_LIMIT", 0.01)
    pairing.save(Pairing())
    with open(machine.home / ".local/state/abp-bridge/history.jsonl", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        history.add(QUESTION, ANSWER)
    assert "another program keeps it locked" in caplog.text
    history.add(QUESTION, ANSWER)
    assert len(history.read()) == 1


async def test_no_app_hides_the_questions_of_others_with_long_ones(machine: Machine) -> None:
    rich = "\U0001f600" * 400
    flood = Question("q", Kind.INPUT, rich, (), rich)
    context = AskContext(app=rich[:-1], tools=(rich,))
    async with anyio.create_task_group() as tasks:
        register = Register(tasks, 600.0)
        observe = register.observer(lambda: rich)
        observe(InputRequestEvent(0.0, QUESTION, NO_CONTEXT))
        for number in range(300):
            observe(InputRequestEvent(0.0, replace(flood, id=str(number)), context))
        with anyio.fail_after(PATIENCE):
            while True:
                found = (await bridges.look()).bridges
                if found and found[0].answers:  # a busy machine takes its time
                    break
        tasks.cancel_scope.cancel()
    (bridge,) = found
    assert bridge.questions[0].message == "Name?"
    assert len(bridge.questions) > 100
    assert len(bridge.questions) + bridge.more == 301


async def test_a_bridge_that_asks_nothing_is_not_there(machine: Machine) -> None:
    async with anyio.create_task_group() as tasks:
        observe = Register(tasks, 600.0).observer(lambda: "Codex")
        await anyio.wait_all_tasks_blocked()
        assert not machine.runtime.exists()
        observe(InputRequestEvent(0.0, QUESTION, NO_CONTEXT))
        await until_open({"Name?": "host"})
        observe(InputResolvedEvent(1.0, QUESTION, ANSWER, NO_CONTEXT))
        await until_open({})
        tasks.cancel_scope.cancel()
    assert not list(machine.runtime.iterdir())
