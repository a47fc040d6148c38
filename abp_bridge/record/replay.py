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
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskGroup

from abp_bridge.core.jsontext import parse
from abp_bridge.record import player
from abp_bridge.record.person import Program, Terminal
from abp_bridge.record.redact import placed
from abp_bridge.record.reduce import program
from abp_bridge.record.script import Differs, Script
from abp_bridge.record.trace import HOST, PERSON, Entry, Recording, is_request
from abp_bridge.record.visitor import fill_in
from abp_bridge.wire.process import Child, spawn

Json = Any

OURS = (sys.executable, "-m", "abp_bridge")
PATIENCE = 10.0  # seconds for the next line of a bridge
WHOLE = 60.0  # seconds for a fixture
START = 20.0  # seconds for the first line: a machine that plays many at once is slow to start them
SETTLE = 0.05  # seconds for what a bridge says too much
END = 5.0  # seconds for a bridge to end
PAGE = 15.0  # seconds for what a person does on a page
LONGEST = 64 * 2**20

_KEPT = ("ABP_CHROME", "ABP_CHROME_SANDBOX")  # where the browser is says nothing of the bridge


async def play(fixture: Recording, bridge: Sequence[str] = OURS, *, patience: float = PATIENCE) -> None:
    """Play one fixture. Raises Differs where `bridge` does something else, or nothing."""
    folder = tempfile.mkdtemp(prefix="abp-replay-")
    try:
        with closing(_Stage(fixture, bridge, folder, fixture.head.patience or patience)) as stage, anyio.fail_after(WHOLE):
            await stage.play()
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
        self._tasks: TaskGroup
        words = [*self._head.run, *self._head.env.values()]
        self._terminal = Terminal() if any("{tty}" in word for word in words) else None
        self._program = Program(self._head.env) if any("{port}" in word for word in words) else None

    async def play(self) -> None:
        """See `play`."""
        command = self._lay_out()
        problem: Differs | None = None
        async with await anyio.create_unix_listener(os.path.join(self._folder, "s")) as listener, anyio.create_task_group() as tasks:
            async with spawn(command, env=self._environment(), cwd=self._folder) as self._child:
                tasks.start_soon(listener.serve, lambda stream: self._welcome(stream, tasks))
                tasks.start_soon(self._read_host)
                self._tasks = tasks
                if self._terminal is not None:
                    tasks.start_soon(self._terminal.watch, self._look_up)
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

    def close(self) -> None:
        if self._terminal is not None:
            self._terminal.close()

    def _lay_out(self) -> list[str]:
        """The files of the fixture and the programs that stand in for apps: the bridge's whole command."""
        for name, text in self._head.files.items():
            Path(self._folder, name).write_text(text)
        parties = {PARTY for PARTY in self._parties() if PARTY not in (HOST, PERSON)}
        words: list[str] = []
        for word in [*self._bridge, *([] if any("{" in each for each in self._bridge) else self._head.run)]:
            for party in parties:
                word = word.replace(f"{{{party}}}", shlex.quote(self._stand_in(party)))  # noqa: PLW2901
            words.append(self._placed(word))
        return words

    def _placed(self, word: str) -> str:
        """A word of the fixture's with places of this machine in it."""
        word = word.replace("{folder}", self._folder)
        if self._terminal is not None:
            word = word.replace("{tty}", self._terminal.name)
        return word if self._program is None else word.replace("{port}", str(self._program.port))

    def _parties(self) -> set[str]:
        named = {word[word.index("{") + 1 : word.index("}")] for word in self._head.run if "{" in word and "}" in word}
        return (named | {entry.party for entry in self._script.entries if entry.party}) - {"folder", "tty", "port"}

    def _stand_in(self, party: str) -> str:
        path = Path(self._folder, program(party))
        words = [sys.executable, "-IS", str(player.__file__), os.path.join(self._folder, "s"), party]
        path.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
        path.chmod(0o700)
        return str(path)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ABP_") or name in _KEPT}
        return kept | {name: self._placed(value) for name, value in self._head.env.items()}

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
            self._look()
            if self._script.window_done:
                continue
            await self._take(self._patience if self._heard else max(self._patience, START), f"nothing came within {self._patience:g} s")

    async def _take(self, limit: float, how: str) -> None:
        """The next that the bridge says."""
        try:
            with anyio.fail_after(limit):
                party, kind, value = await self._hear.receive()
        except TimeoutError:
            self._look(late=True)
            raise self._script.overdue(how) from None
        if kind == "screen":
            return
        if kind == "failed":
            raise value
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
        if not any(entry.ours for entry in self._script.entries):
            raise Differs("it shows nothing that a bridge says: there is nothing to hold this one to")
        code = self._child.process.returncode
        if code and "agent" not in self._parties():  # behind a proxy it is the agent's
            raise Differs(f"the bridge ended with exit code {code}")

    async def _send(self, entry: Entry, value: Json) -> None:
        if entry.kind == "fill":
            await self._fill(entry, value)
        elif entry.kind == "keys":
            self._type(entry, value)
        elif entry.kind == "http":
            self._tasks.start_soon(self._request, entry, value)
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
            with anyio.fail_after(PAGE):
                await anyio.to_thread.run_sync(fill_in, value["open"], value["fill"], value["press"], value.get("reads", ()), abandon_on_cancel=True)
        except (OSError, ValueError) as problem:
            raise Differs(f"the page could not be filled in: {problem or 'it took too long'}", entry.line) from None

    def _type(self, entry: Entry, keys: str) -> None:
        if self._terminal is None:
            raise Differs('there is no terminal to type at: "run" in the head needs "--tty", "{tty}"', entry.line)
        self._terminal.type(keys)

    async def _request(self, entry: Entry, said: Mapping[str, Json]) -> None:
        if self._program is None:
            self._fails(Differs('there is no port to ask at: "run" in the head needs "--questions-api", "{port}"', entry.line))
            return
        try:
            await self._program.send(said, self._patience, lambda message: self._say.send_nowait((PERSON, "message", placed(message, self._places))))
        except (OSError, ValueError, http.client.HTTPException) as problem:
            if not self._over:
                self._fails(Differs(f"{said['http']} at the questions API came to nothing: {problem}", entry.line))

    def _fails(self, problem: Differs) -> None:
        """Something that was done beside the conversation went wrong."""
        self._say.send_nowait((PERSON, "failed", problem))

    # --- what is heard ---

    def _look_up(self) -> None:
        self._say.send_nowait((PERSON, "screen", None))

    def _look(self, *, late: bool = False) -> None:
        """What the person is shown counts when all of it is there, or when it is too late."""
        if self._terminal is None:
            return
        for entry in self._script.expected("screen"):
            if late or self._terminal.shows(entry.value, self._script.known):
                lines = placed(self._terminal.lines, self._places)
                self._terminal.taken()
                self._script.heard(PERSON, "screen", lines)
                return

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
