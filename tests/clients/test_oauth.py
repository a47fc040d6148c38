"""Signing in to a server over HTTP: once, in a browser, and kept for the next time."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import types
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import pytest
from clients.test_mcp import Lines
from support.sign_in_server import SignInServer, sign_in_server

from abp_bridge.clients.mcp import connect
from abp_bridge.clients.oauth import sign_in

Json = Any


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


def asked(
    server: SignInServer, times: int = 1, before: Callable[[str], None] = lambda address: None
) -> tuple[list[Json], list[str]]:
    """Ask the server something: its answers, and what the browser showed. What is done `before` the
    person signs in is given where they are sent.
    """
    shown: list[str] = []

    async def browse(address: str) -> None:
        await anyio.to_thread.run_sync(before, address)
        shown.append(await anyio.to_thread.run_sync(visit, address))

    async def play() -> list[Json]:
        with anyio.fail_after(30):
            auth = await sign_in(server.url, browse)
            async with connect(server.url, auth=auth) as connected:
                lines = Lines(connected)
                return [await lines.ask("vendor/thing", {}, id) for id in range(times)]

    return anyio.run(play), shown


def test_a_person_signs_in_once(server: SignInServer, folder: Path) -> None:
    answers, shown = asked(server, 2)
    assert [each["result"] for each in answers] == [{"ok": True}] * 2
    assert shown == ["You are signed in. You can close this tab."]
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
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


def test_a_token_that_is_over_is_renewed_without_the_person(server: SignInServer) -> None:
    server.lifetime = 1
    asked(server)
    server.lifetime = 3_600
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert shown == []
    assert server.granted == ["authorization_code", "refresh_token"]


def test_a_token_that_is_refused_is_asked_for_again(server: SignInServer) -> None:
    asked(server)
    server.granted.append("somebody else's")
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert len(shown) == 1


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
    assert not folder.exists()
    ((service, _name), text) = next(iter(kept.items()))
    assert service == "abp-bridge"
    assert json.loads(text)["tokens"]["access_token"] == server.token


def test_a_keyring_that_is_locked_is_done_without(
    server: SignInServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: str) -> str:
        raise RuntimeError("locked")

    keyring: Any = types.ModuleType("keyring")
    keyring.get_keyring = lambda: types.SimpleNamespace(priority=5)
    keyring.get_password = keyring.set_password = refuse
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    asked(server)
    _, shown = asked(server)
    assert shown == []
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": 7, "client": {"redirect_uris": [1]}}'])
def test_a_file_that_cannot_be_read_is_as_none(
    server: SignInServer, folder: Path, text: str
) -> None:
    asked(server)
    (file,) = folder.iterdir()
    file.write_text(text)
    answers, shown = asked(server)
    assert answers[0]["result"] == {"ok": True}
    assert len(shown) == 1
