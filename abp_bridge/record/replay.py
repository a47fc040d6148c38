"""Plays fixtures against a bridge, over real pipes: starts it with stand-ins for its apps, says what the fixture says, and compares what comes.

What fits is decided in `script`; here are the processes, the sockets and the clock. Every wait is bounded.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import anyio
from anyio.abc import SocketStream, TaskGroup

from abp_bridge.core.jsontext import parse
from abp_bridge.record import player
from abp_bridge.record.redact import placed
from abp_bridge.record.reduce import program
from abp_bridge.record.script import Differs, Script
from abp_bridge.record.trace import HOST, PERSON, Entry, Recording, is_request
from abp_bridge.wire.process import Child, spawn

Json = Any

OURS = (sys.executable, "-m", "abp_bridge")
PATIENCE = 10.0  # seconds for the next line of a bridge
WHOLE = 60.0  # seconds for a fixture
START = 20.0  # seconds for the first line: a machine that plays many at once is slow to start them
SETTLE = 0.05  # seconds for what a bridge says too much
END = 5.0  # seconds for a bridge to end
PAGE = 5.0
LONGEST = 64 * 2**20

_KEPT = ("ABP_CHROME", "ABP_CHROME_SANDBOX")  # where the browser is says nothing of the bridge


async def play(fixture: Recording, bridge: Sequence[str] = OURS, *, patience: float = PATIENCE) -> None:
    """Play one fixture. Raises Differs where `bridge` does something else, or nothing."""
    folder = tempfile.mkdtemp(prefix="abp-replay-")
    try:
        with anyio.fail_after(WHOLE):
            await _Stage(fixture, bridge, folder, fixture.head.patience or patience).play()
    except TimeoutError:
        raise Differs(f"it took longer than {WHOLE:g} s") from None
    except OSError as problem:
        raise Differs(f"the bridge cannot be started: {problem}. Check --bridge") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Stage:
    """One fixture being played."""

    def __init__(self, fixture: Recording, bridge: Sequence[str], folder: str, patience: float) -> None:
        self._head = fixture.head
        self._bridge = bridge
        self._folder = folder
        self._patience = patience
        self._script = Script(fixture.entries, {"[folder]": folder})
        self._places = {folder: "[folder]", os.path.expanduser("~"): "~", tempfile.gettempdir(): "[tmp]"}
        self._say, self._hear = anyio.create_memory_object_stream[tuple[str, str, Json]](float("inf"))
        self._players: dict[str, SocketStream] = {}
        self._over = False
        self._left = False  # whether the host has ended what it says
        self._heard = False
        self._child: Child

    async def play(self) -> None:
        """See `play`."""
        command = self._lay_out()
        problem: Differs | None = None
        async with await anyio.create_unix_listener(os.path.join(self._folder, "s")) as listener, anyio.create_task_group() as tasks:
            async with spawn(command, env=self._environment(), cwd=self._folder) as self._child:
                tasks.start_soon(listener.serve, lambda stream: self._welcome(stream, tasks))
                tasks.start_soon(self._read_host)
                try:
                    await self._follow()
                    await self._leave()
                except Differs as found:
                    problem = found
            tasks.cancel_scope.cancel()
        for stream in self._players.values():
            await stream.aclose()
        if problem is not None:
            raise problem

    def _lay_out(self) -> list[str]:
        """The files of the fixture and the programs that stand in for apps: the bridge's whole command."""
        for name, text in self._head.files.items():
            Path(self._folder, name).write_text(text)
        parties = {PARTY for PARTY in self._parties() if PARTY not in (HOST, PERSON)}
        words: list[str] = []
        for word in [*self._bridge, *([] if any("{" in each for each in self._bridge) else self._head.run)]:
            for party in parties:
                word = word.replace(f"{{{party}}}", shlex.quote(self._stand_in(party)))  # noqa: PLW2901
            words.append(word.replace("{folder}", self._folder))
        return words

    def _parties(self) -> set[str]:
        named = {word[word.index("{") + 1 : word.index("}")] for word in self._head.run if "{" in word and "}" in word}
        return (named | {entry.party for entry in self._script.entries if entry.party}) - {"folder"}

    def _stand_in(self, party: str) -> str:
        path = Path(self._folder, program(party))
        words = [sys.executable, "-IS", str(player.__file__), os.path.join(self._folder, "s"), party]
        path.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
        path.chmod(0o700)
        return str(path)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ABP_") or name in _KEPT}
        return kept | {name: value.replace("{folder}", self._folder) for name, value in self._head.env.items()}

    # --- the conversation ---

    async def _follow(self) -> None:
        while True:
            # What the fixture says at once is said at once: what comes together may be asked together.
            for (_, kind), together in groupby(self._script.next(), key=lambda pair: (pair[0].party, pair[0].kind)):
                said = list(together)
                if kind == "message" and len(said) > 1:
                    await self._send(replace(said[0][0], kind="lines"), [value for _, value in said])
                    continue
                for entry, value in said:
                    await self._send(entry, value)
            if self._script.over:
                return
            await self._take(self._patience if self._heard else max(self._patience, START), f"nothing came within {self._patience:g} s")

    async def _take(self, limit: float, how: str) -> None:
        """The next that the bridge says."""
        try:
            with anyio.fail_after(limit):
                party, kind, value = await self._hear.receive()
        except TimeoutError:
            raise self._script.overdue(how) from None
        self._heard = True
        if kind == "closed" and party == HOST and not self._left:
            raise self._script.overdue(f"the bridge ended ({await self._farewell()})")
        if kind == "closed" and not self._expects_end(party):
            return
        self._script.heard(party, kind, value)

    def _expects_end(self, party: str) -> bool:
        return any(entry.ours and entry.kind == "closed" and entry.party == party for entry in self._script.entries)

    async def _farewell(self) -> str:
        with anyio.move_on_after(1):
            await self._child.process.wait()
            await self._child.heard.wait()
        return self._child.farewell

    async def _leave(self) -> None:
        """The fixture is over: what is said now is too much. Then the host leaves, and the bridge ends."""
        with anyio.move_on_after(SETTLE):
            while True:
                await self._take(END, "")
        self._over = True
        self._child.sink.close()
        with anyio.move_on_after(END) as waiting:
            while True:
                party, kind, value = await self._hear.receive()
                if party == HOST and kind == "closed":
                    break
                if party == HOST:
                    self._script.heard(party, kind, value)
            await self._child.process.wait()
        if waiting.cancelled_caught:
            raise Differs(f"the bridge did not end within {END:g} s of its host's leaving")
        if (left := self._script.left_over()) is not None:
            raise left

    async def _send(self, entry: Entry, value: Json) -> None:
        if entry.kind == "fill":
            await self._fill(entry, value)
        elif entry.party == HOST and entry.kind == "closed":
            self._left = True
            self._child.sink.close()
        elif entry.party == HOST:
            await self._write(_line(entry, value))
        elif (stream := self._players.get(entry.party)) is None:
            raise Differs(f"the {entry.party} is to speak here, and the bridge has not started it", entry.line)
        else:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                if entry.kind == "closed":
                    del self._players[entry.party]
                    await stream.aclose()
                else:
                    await stream.send(_line(entry, value))

    async def _write(self, data: bytes) -> None:
        left = memoryview(data)
        with suppress(OSError), anyio.move_on_after(self._patience):  # a bridge that has ended is heard of soon
            while left:
                await self._child.sink.writable()
                left = left[self._child.sink.offer(left) :]

    async def _fill(self, entry: Entry, value: Mapping[str, Json]) -> None:
        try:
            with anyio.fail_after(2 * PAGE):
                await anyio.to_thread.run_sync(fill_in, value["open"], value["fill"], value["press"], abandon_on_cancel=True)
        except (OSError, ValueError, TimeoutError, http.client.HTTPException) as problem:
            raise Differs(f"the page could not be filled in: {problem or 'it took too long'}", entry.line) from None

    # --- what is heard ---

    async def _read_host(self) -> None:
        rest = b""
        while data := await self._child.source.receive():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._said(HOST, line)
            if len(rest) > LONGEST:
                break
        await self._say.send((HOST, "closed", True))

    async def _welcome(self, stream: SocketStream, tasks: TaskGroup) -> None:
        """A stand-in was started: its first line says which."""
        party, rest = "", b""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                *lines, rest = (rest + await stream.receive()).split(b"\n")
                for line in lines:
                    if not party:
                        party = line.decode()
                        self._players[party] = stream
                    elif self._over:
                        await _part(stream, line)
                    else:
                        self._said(party, line)
        if party:
            await self._say.send((party, "closed", True))

    def _said(self, party: str, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = parse(line)
        except ValueError:
            self._say.send_nowait((party, "raw", placed(line.decode(errors="replace"), self._places)))
        else:
            self._say.send_nowait((party, "message", placed(message, self._places)))


def _line(entry: Entry, value: Json) -> bytes:
    if entry.kind == "lines":
        return b"".join(json.dumps(each).encode() + b"\n" for each in value)
    return value.encode() + b"\n" if entry.kind == "raw" else json.dumps(value).encode() + b"\n"


async def _part(stream: SocketStream, line: bytes) -> None:
    """A bridge that says goodbye to an app gets its answer."""
    with suppress(ValueError):
        message = parse(line)
        if is_request(message) and "jsonrpc" in message:
            await stream.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode() + b"\n")


# --- the person at the bridge's page -------------------------------------------------------------------------------------------------------


def fill_in(link: str, values: Sequence[Json], press: str) -> None:
    """Open a link as a browser does, fill in the sheet there, and press a button. Raises ValueError, OSError or HTTPException."""
    cookie, address = "", link
    for _ in range(4):
        status, headers, text = _fetch(address, cookie)
        cookie = (headers.get("set-cookie") or cookie).partition(";")[0]
        if status not in (302, 303, 307):
            break
        parts = urlsplit(link)
        address = f"{parts.scheme}://{parts.netloc}{headers['location']}"
    sheet = _Sheet()
    sheet.feed(text)
    if status != 200 or not sheet.action:
        raise ValueError(f"its link leads to no sheet (HTTP {status})")
    fields = [*sheet.hidden, ("action", press)]
    for number, value in enumerate(values):
        fields += [(f"field-{number}", str(each)) for each in (value if isinstance(value, list) else [value]) if each is not None]
    parts = urlsplit(address)
    status, _, _ = _fetch(f"{parts.scheme}://{parts.netloc}{sheet.action}", cookie, urlencode(fields))
    if status != 303:
        raise ValueError(f"it does not take what is filled in (HTTP {status})")


def _fetch(address: str, cookie: str, form: str | None = None) -> tuple[int, Mapping[str, str], str]:
    parts = urlsplit(address)
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise ValueError(f"{address} is no page of this machine's")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=PAGE)
    try:
        headers = {"Cookie": cookie} if cookie else {}
        if form is None:
            connection.request("GET", parts.path or "/", headers=headers)
        else:
            origin = f"{parts.scheme}://{parts.netloc}"
            connection.request("POST", parts.path, form, {**headers, "Content-Type": "application/x-www-form-urlencoded", "Origin": origin})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read(2**22).decode(errors="replace")
    finally:
        connection.close()


class _Sheet(HTMLParser):
    """The form of a page: where it goes, and what goes with it unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.hidden: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form" and not self.action:
            self.action = found.get("action") or ""
        elif tag == "input" and found.get("type") == "hidden" and found.get("name"):
            self.hidden.append((str(found["name"]), found.get("value") or ""))
