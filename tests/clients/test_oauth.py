"""Signing in to a server over HTTP: once, in a browser, and kept for the next time."""

from __future__ import annotations

import fcntl
import http.client
import json
import socket
import sys
import threading
import time
import types
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import pytest
from clients.test_mcp import Lines
from support.http_server import Reply
from support.sign_in_server import SignInServer, sign_in_server

from abp_bridge.mcp import oauth
from abp_bridge.mcp.client import connect
from abp_bridge.mcp.oauth import sign_in

Json = Any

pytestmark = pytest.mark.network


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server() as running:
        yield running


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "keyring", None)
    return tmp_path / "abp-bridge/sign-ins"


def visit(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as page:
        return str(page.read().decode())


ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"ok": True}}


async def nobody(address: str) -> None:
    raise AssertionError(f"somebody was sent to {address}")


@asynccontextmanager
async def signed_in(
    server: SignInServer, browse: Callable[[str], Awaitable[object]] = nobody
) -> AsyncIterator[Lines]:
    """A bridge's connection to the server, and a browser that goes where it is sent."""
    with anyio.fail_after(30):
        auth = await sign_in(server.url, browse)
        async with connect(server.url, auth=auth) as connected:
            yield Lines(connected)


def browser(
    before: Callable[[str], None] = lambda address: None,
) -> tuple[list[str], Callable[[str], Awaitable[None]]]:
    """What a person's browser has shown, and what sends it somewhere, once `before` is done."""
    shown: list[str] = []

    async def browse(address: str) -> None:
        await anyio.to_thread.run_sync(before, address)
        shown.append(await anyio.to_thread.run_sync(visit, address))

    return shown, browse


def asked(
    server: SignInServer, times: int = 1, before: Callable[[str], None] = lambda address: None
) -> tuple[list[Json], list[str]]:
    """Ask the server something: its answers, and what the browser showed. What is done `before` the
    person signs in is given where they are sent.
    """
    shown, browse = browser(before)

    async def play() -> list[Json]:
        async with signed_in(server, browse) as lines:
            return [await lines.ask("vendor/thing", {}, id) for id in range(times)]

    return anyio.run(play), shown


def test_a_person_signs_in_once(server: SignInServer, folder: Path) -> None:
    answers, shown = asked(server, 2)
    assert [each["result"] for each in answers] == [{"ok": True}] * 2
    assert shown == ["You are signed in. You can close this tab."]
    assert {each.suffix for each in folder.iterdir()} == {".json", ".lock"}
    assert "secret" not in next(folder.glob("*.server.json")).read_text()
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert shown == []
    assert (server.granted, server.clients) == (["authorization_code"], 1)


def test_a_sign_in_that_was_cancelled_leaves_its_port_to_the_next(server: SignInServer) -> None:
    left: list[str] = []

    async def play() -> None:
        with anyio.fail_after(30), anyio.CancelScope() as scope:

            async def browse(address: str) -> None:
                left.append(address)
                scope.cancel()
                await anyio.sleep_forever()

            auth = await sign_in(server.url, browse)
            async with connect(server.url, auth=auth) as connected:
                await Lines(connected).ask("vendor/thing", {})

    anyio.run(play)
    back = parse_qs(urlsplit(left[0]).query)["redirect_uri"][0]
    with pytest.raises(OSError, match="refused"):
        visit(back)
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert shown == ["You are signed in. You can close this tab."]


@pytest.mark.parametrize("closes", [False, True], ids=["stands", "closed"])
@pytest.mark.parametrize("refuses", [False, True], ids=["signed in", "refused"])
def test_who_comes_back_from_the_browser_was_there_whatever_becomes_of_the_question(
    server: SignInServer, refuses: bool, closes: bool
) -> None:
    server.refuses = refuses
    withdrawn: list[str] = []

    async def ask(address: str) -> bool:
        await anyio.to_thread.run_sync(visit, address)
        try:
            if not closes:
                await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            withdrawn.append(address)
            raise
        return False

    async def play() -> Json:
        async with signed_in(server, ask) as lines:
            return await lines.ask("vendor/thing", {})

    answer = anyio.run(play)
    if refuses:
        assert "the browser came back with: access_denied" in answer["error"]["message"]
    else:
        assert answer == ANSWER
    assert len(withdrawn) == (not closes)


def test_a_token_that_is_over_is_renewed_without_the_person(server: SignInServer) -> None:
    server.lifetime = 1
    asked(server)
    server.lifetime = 3_600
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert shown == []
    assert server.granted == ["authorization_code", "refresh_token"]


def test_a_token_that_ends_meanwhile_is_renewed_before_it_is_used(
    server: SignInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(server)
    now = time.time()

    async def play() -> None:
        async with signed_in(server) as lines:
            assert await lines.ask("vendor/thing", {}) == ANSWER
            monkeypatch.setattr(time, "time", lambda: now + 2 * server.lifetime)
            assert await lines.ask("vendor/thing", {}) == ANSWER

    refused = server.refused
    anyio.run(play)
    assert server.granted == ["authorization_code", "refresh_token"]
    assert server.refused == refused


def test_a_token_that_is_refused_is_renewed_without_the_person(server: SignInServer) -> None:
    asked(server)
    server.revoke()
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert shown == []
    assert server.granted == ["authorization_code", "revoked", "refresh_token"]


@pytest.mark.parametrize("lifetime", [3_600, 1], ids=["refused", "over"])
def test_who_cannot_renew_a_token_signs_in_again(server: SignInServer, lifetime: int) -> None:
    server.lifetime = lifetime
    asked(server)
    server.lifetime = 3_600
    server.revoke()
    server.renewals += 1
    answers, shown = asked(server, 2)
    assert [each["result"] for each in answers] == [{"ok": True}] * 2
    assert shown == ["You are signed in. You can close this tab."]
    assert server.granted == ["authorization_code", "revoked", "authorization_code"]


def test_a_token_that_is_refused_as_soon_as_it_is_given_is_asked_for_once(
    server: SignInServer,
) -> None:
    server.takes_none = True
    answers, shown = asked(server)
    assert answers[0]["error"]
    assert len(shown) == 1


def test_a_token_that_is_good_for_too_little_is_asked_for_again(server: SignInServer) -> None:
    asked(server)
    server.scope = "more"
    answers, shown = asked(server, 2)
    assert [each["result"] for each in answers] == [{"ok": True}] * 2
    assert len(shown) == 1


@pytest.mark.parametrize("at_once", [False, True], ids=["one after another", "at once"])
def test_what_one_bridge_renews_the_other_takes(server: SignInServer, at_once: bool) -> None:
    asked(server)

    async def play() -> None:
        async with signed_in(server) as one, signed_in(server) as other:
            for lines in (one, other):
                assert await lines.ask("vendor/thing", {}) == ANSWER
            server.revoke()
            async with anyio.create_task_group() as both:
                for lines in (one, other):
                    both.start_soon(ask, lines)
                    if not at_once:
                        await anyio.wait_all_tasks_blocked()

    async def ask(lines: Lines) -> None:
        assert await lines.ask("vendor/thing", {}) == ANSWER

    anyio.run(play)
    assert server.granted == ["authorization_code", "revoked", "refresh_token"]


def test_of_two_bridges_that_start_at_once_one_asks_the_person(server: SignInServer) -> None:
    shown, browse = browser()

    async def ask() -> None:
        async with signed_in(server, browse) as lines:
            assert await lines.ask("vendor/thing", {}) == ANSWER

    async def play() -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(ask)
            both.start_soon(ask)

    anyio.run(play)
    assert len(shown) == server.clients == 1


def test_what_is_asked_while_the_person_signs_in_waits_for_that(server: SignInServer) -> None:
    shown, visit_page = browser()

    async def play() -> None:
        async def browse(address: str) -> None:
            await lines.say({"jsonrpc": "2.0", "id": 2, "method": "vendor/thing", "params": {}})
            await anyio.wait_all_tasks_blocked()
            await visit_page(address)

        async with signed_in(server, browse) as lines:
            await lines.say({"jsonrpc": "2.0", "id": 1, "method": "vendor/thing", "params": {}})
            answers = [await lines.hear() for _ in range(2)]
            assert {each["id"] for each in answers if "result" in each} == {1, 2}

    anyio.run(play)
    assert len(shown) == server.refused == 1


def test_a_person_who_refuses_is_asked_once_for_all_that_waits(server: SignInServer) -> None:
    server.refuses = True
    shown, browse = browser()

    async def play() -> None:
        async with signed_in(server, browse) as lines:
            for id in range(3):
                asked = {"jsonrpc": "2.0", "id": id, "method": "vendor/thing", "params": {}}
                await lines.say(asked)
            for _ in range(3):
                assert "access_denied" in (await lines.hear())["error"]["message"]

    anyio.run(play)
    assert len(shown) == 1


def test_who_waits_for_another_bridge_in_vain_is_told_so(
    server: SignInServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(server)
    server.revoke()
    (path,) = folder.glob("*.lock")
    with path.open() as file, monkeypatch.context() as patched:
        patched.setattr(oauth, "SIGN_IN_LIMIT", 0.1)
        fcntl.flock(file, fcntl.LOCK_EX)
        answers, _ = asked(server)
    assert (
        "another abp-bridge has been waiting for you to sign in" in (answers[0]["error"]["message"])
    )
    answers, _ = asked(server)
    assert answers[0] == ANSWER | {"id": 0}


@pytest.mark.parametrize("trouble", [None, 503], ids=["silent", "busy"])
def test_a_server_that_gives_no_token_now_is_named_and_asked_again_later(
    server: SignInServer, monkeypatch: pytest.MonkeyPatch, trouble: int | None
) -> None:
    asked(server)
    server.revoke()
    server.token_replies = [
        Reply(on_left=lambda: None) if trouble is None else Reply(status=trouble)
    ]
    with monkeypatch.context() as patched:
        if trouble is None:
            patched.setattr(oauth, "STEP_LIMIT", 0.5)
        answers, _ = asked(server)
    words = "no answer in" if trouble is None else "HTTP 503"
    assert answers[0]["error"]["message"].startswith(f"signing in failed: 127.0.0.1: {words}")
    answers, shown = asked(server)
    assert answers[0] == ANSWER | {"id": 0}
    assert shown == []


@pytest.mark.parametrize("is_alone", [False, True], ids=["nothing", "all but the tokens"])
def test_a_sign_in_that_cannot_be_kept_is_good_for_as_long_as_the_bridge_runs(
    server: SignInServer, folder: Path, is_alone: bool
) -> None:
    if is_alone:
        asked(server)
        (tokens,) = (each for each in folder.iterdir() if server.token in each.read_text())
        for each in folder.iterdir():
            each.unlink()
        tokens.mkdir()
        server.granted.clear()
    else:
        folder.parent.mkdir(parents=True)
        folder.write_text("no folder")
    shown, browse = browser()

    async def play() -> None:
        async with signed_in(server, browse) as lines:
            assert await lines.ask("vendor/thing", {}) == ANSWER
            server.revoke()
            assert await lines.ask("vendor/thing", {}) == ANSWER

    anyio.run(play)
    assert len(shown) == 1
    assert server.granted == ["authorization_code", "revoked", "refresh_token"]


def test_a_call_that_takes_long_keeps_no_other_from_the_server(server: SignInServer) -> None:
    asked(server)
    second = threading.Event()

    def on_asked(message: Json) -> None:
        if message["method"] == "vendor/long":
            assert second.wait(20)
        else:
            second.set()

    server.on_asked = on_asked

    async def play() -> None:
        async with signed_in(server) as lines:
            for id, method in ((1, "vendor/long"), (2, "vendor/thing")):
                await lines.say({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
            answers = [await lines.hear() for _ in range(2)]
            assert ANSWER in answers
            assert {**ANSWER, "id": 2} in answers

    anyio.run(play)


def test_a_refusal_in_the_browser_is_the_answer(server: SignInServer, folder: Path) -> None:
    server.refuses = True
    answers, shown = asked(server)
    assert (
        "signing in failed: the browser came back with: access_denied"
        in (answers[0]["error"]["message"])
    )
    assert shown == ["You are not signed in. You can close this tab."]


def come(address: str, target: str, *, method: str = "GET", host: str | None = None) -> int:
    """Come to where the browser comes back to, as somebody else: the status."""
    place = urlsplit(address)
    assert place.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=20)
    connection.request(method, target, headers={} if host is None else {"Host": host})
    return connection.getresponse().status


def test_who_was_not_sent_to_sign_in_changes_nothing(server: SignInServer) -> None:
    """A page of another site, a name of its own that leads here, a program that guesses."""
    statuses: list[int] = []

    def attack(address: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        back, state = asked["redirect_uri"], asked["state"]
        port, right = urlsplit(back).port, f"/callback?code=evil&state={state}"
        statuses.extend(
            [
                come(back, "/callback?code=evil"),
                come(back, "/callback?code=evil&state=guessed"),
                come(back, "/callback?error=access_denied"),
                come(back, "/callback?code=evil&state=%FF"),
                come(back, right, host=f"evil.example:{port}"),
                come(back, right, host="127.0.0.1"),
                come(back, right, method="POST"),
                come(back, f"/other?code=evil&state={state}"),
            ]
        )
        raw = socket.create_connection(("127.0.0.1", port), timeout=20)
        raw.sendall(b"what\r\n\r\n")
        statuses.append(int(raw.recv(1_000).split()[1]))
        raw.close()

    answers, shown = asked(server, before=attack)
    assert statuses == [403, 403, 403, 403, 403, 403, 405, 404, 400]
    assert answers[0]["result"] == {"ok": True}
    assert shown == ["You are signed in. You can close this tab."]


def test_a_keyring_keeps_them_where_there_is_one(
    server: SignInServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {}
    keyring: Any = types.ModuleType("keyring")
    keyring.get_keyring = lambda: types.SimpleNamespace(priority=5)
    keyring.get_password = lambda service, name: kept.get((service, name))
    keyring.set_password = lambda service, name, text: kept.update({(service, name): text})
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    asked(server)
    _, shown = asked(server)
    assert shown == []
    assert not [each for each in folder.iterdir() if "secret" in each.read_text()]
    ((service, _name), text) = next(iter(kept.items()))
    assert service == "abp-bridge"
    assert json.loads(text)["tokens"]["access_token"] == server.token


def test_a_keyring_that_was_locked_for_a_moment_brings_no_old_token_back(
    server: SignInServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {}
    is_locked = threading.Event()

    def keep(service: str, name: str, text: str) -> None:
        if is_locked.is_set():
            raise RuntimeError("locked")
        kept[service, name] = text

    keyring: Any = types.ModuleType("keyring")
    keyring.get_keyring = lambda: types.SimpleNamespace(priority=5)
    keyring.get_password = lambda service, name: kept.get((service, name))
    keyring.set_password = keep
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    asked(server)
    is_locked.set()
    for _ in range(3):
        server.revoke()
        answers, shown = asked(server)
        assert answers[0] == ANSWER | {"id": 0}
        assert shown == []
        is_locked.clear()
    assert server.token in next(iter(kept.values()))
    assert not [each for each in folder.iterdir() if "secret" in each.read_text()]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": 7, "client": {"redirect_uris": [1]}}'])
def test_a_file_that_cannot_be_read_is_as_none(
    server: SignInServer, folder: Path, text: str
) -> None:
    asked(server)
    (file,) = (each for each in folder.glob("*.json") if server.token in each.read_text())
    file.write_text(text)
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert len(shown) == 1
