"""Plays fixtures against a bridge, over real pipes: starts it with stand-ins for its apps, says
what the fixture says, and compares what comes.

What fits is decided in `script`; here are the processes, the sockets and the clock. Every wait is
bounded.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from abp_bridge.core.json_text import parse
from abp_bridge.replay import shutdown
from abp_bridge.replay.agent import PartyConnection, Servers
from abp_bridge.replay.inbox import Inbox
from abp_bridge.replay.match import match, shown
from abp_bridge.replay.opencode_client import QuestionsClient, free_port
from abp_bridge.replay.page_driver import fill_in
from abp_bridge.replay.policy import PORT, TERMINAL, connects_elsewhere, refusal
from abp_bridge.replay.script import ReplayMismatchError, Script
from abp_bridge.replay.terminal_driver import Terminal
from abp_bridge.replay.workspace import Workspace, as_mismatch
from abp_bridge.rpc.streams import StreamReader, accept, listen
from abp_bridge.rpc.subprocess import Child, spawn
from abp_bridge.trace.format import AGENT, HOST, PERSON, TOOLS, Entry, Recording
from abp_bridge.trace.redact.paths import replace_paths

Json = Any

OURS = (
    sys.executable,
    "-P",
    "-m",
    "abp_bridge",
)  # never what lies in the folder that a fixture has laid out
PASSWORD = "ABP_QUESTIONS_PASSWORD"  # noqa: S105
PATIENCE = 10.0  # seconds for the next line of a bridge
WHOLE = 60.0  # seconds for a fixture
START = 20.0  # seconds for the first line: a machine that plays many at once is slow to start them
SETTLE = 0.05  # seconds for what a bridge says too much
END = 5.0  # seconds for a bridge to end
LAST = 3.0  # seconds for the last words of a bridge that has ended to come through its stand-ins
_ENDINGS = (0, 137, 143)  # behind a proxy it is the agent's: it ended by itself, or was made to
PAGE = 15.0  # seconds for what a person does on a page


async def play(
    fixture: Recording, bridge: Sequence[str] = OURS, *, patience: float = PATIENCE
) -> None:
    """Play one fixture. Raises ReplayMismatchError where `bridge` does something else, or
    nothing.
    """
    if (refused := refusal(fixture)) is not None:
        raise ReplayMismatchError(*refused)
    with ExitStack() as ends:
        words = [*fixture.head.run, *fixture.head.env.values()]
        terminal = program = None
        with as_mismatch("a terminal cannot be made"):
            if any(TERMINAL in word for word in words):
                terminal = ends.enter_context(closing(Terminal()))
        with as_mismatch("there is no free port"):
            if any(PORT in word for word in words):
                program = QuestionsClient(free_port(), fixture.head.env.get(PASSWORD, ""))
                ends.callback(program.close)
        setting = Workspace(
            fixture,
            "" if terminal is None else terminal.name,
            "" if program is None else str(program.port),
        )
        ends.callback(setting.close)
        try:
            with _unwrapped(), anyio.fail_after(WHOLE):
                await Runner(
                    fixture, setting, terminal, program, fixture.head.patience or patience
                ).play(bridge)
        except TimeoutError:
            raise ReplayMismatchError(f"it took longer than {WHOLE:g} s") from None


@contextmanager
def _unwrapped() -> Iterator[None]:
    """A task group wraps what happens in it.

    What the system refuses beside the conversation ends it too.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        differs, others = group.split(ReplayMismatchError)
        refused, unknown = (None, None) if others is None else others.split(OSError)
        if unknown is not None:
            raise
        first: BaseException | None = differs or refused
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise (
            first
            if isinstance(first, ReplayMismatchError)
            else ReplayMismatchError(f"the fixture cannot be played on: {first}")
        ) from None


class Runner:
    """One fixture being played."""

    def __init__(
        self,
        fixture: Recording,
        setting: Workspace,
        terminal: Terminal | None,
        program: QuestionsClient | None,
        patience: float,
    ) -> None:
        self._setting = setting
        self._terminal = terminal
        self._program = program
        self._patience = patience
        self._script = Script(fixture.entries, dict(setting.known))
        self._players: dict[str, PartyConnection] = {}
        self._servers = Servers()
        self._inbox = Inbox(setting.places, {AGENT: self._servers.heard})
        self._speaking: set[str] = set()  # parties that a bridge may still say something to
        self._over = False
        self._goodbyes: set[tuple[str, str]] = set()
        self._left = False  # whether the host has ended what it says
        self._heard = False
        self._child: Child
        self._tasks: TaskGroup

    async def play(self, bridge: Sequence[str]) -> None:
        """See `play`."""
        problem: ReplayMismatchError | None = None
        with as_mismatch(
            f"the stand-ins' socket cannot be made at {self._setting.socket}",
            ". A shorter TMPDIR may help",
        ):
            listener = listen(self._setting.socket)
        async with anyio.create_task_group() as self._tasks:
            async with AsyncExitStack() as ends:
                with as_mismatch("the bridge cannot be started", ". Check --bridge"):
                    command, environment = (
                        self._setting.command(bridge),
                        self._setting.environment(),
                    )
                    self._child = await ends.enter_async_context(
                        spawn(command, env=environment, cwd=self._setting.folder)
                    )
                self._tasks.start_soon(self._accept, listener)
                self._tasks.start_soon(self._inbox.read, HOST, self._child.stdout.receive)
                if self._terminal is not None:
                    self._tasks.start_soon(self._inbox.watch, self._terminal.watch())
                try:
                    await self._follow()
                    await self._leave()
                except ReplayMismatchError as found:
                    problem = found
            self._tasks.cancel_scope.cancel()
        if problem is not None:
            raise problem

    # --- the conversation ---

    async def _follow(self) -> None:
        while True:
            # What the fixture says at once is said at once: what comes together may be asked
            # together.
            for (_, kind), together in groupby(
                self._script.next(), key=lambda pair: (pair[0].party, pair[0].kind)
            ):
                said = list(together)
                if kind == "message" and len(said) > 1:
                    await self._send(
                        replace(said[0][0], kind="lines"), [value for _, value in said]
                    )
                    continue
                for entry, value in said:
                    await self._send(entry, value)
            if self._script.over:
                return
            self._look()
            if self._script.window_done:
                continue
            await self._take(
                self._patience if self._heard else max(self._patience, START),
                f"nothing came within {self._patience:g} s",
            )

    async def _take(self, limit: float, how: str) -> None:
        """The next that the bridge says."""
        try:
            with anyio.fail_after(limit):
                party, kind, value = await self._inbox.next()
        except TimeoutError:
            self._look(late=True)
            raise self._script.overdue(how) from None
        if kind == "screen":
            return
        if kind == "closed":
            self._speaking.discard(party)
        if kind == "failed":
            raise value
        self._heard = True
        if kind == "closed" and party == HOST and not self._left:
            raise self._script.overdue(f"the bridge ended ({await self._farewell()})")
        if kind == "closed" and not self._expects_end(party):
            if party in self._players:
                raise ReplayMismatchError(
                    f"the bridge ended what it says to the {party}, in the middle of the"
                    " conversation",
                    self._line_now,
                )
            return
        self._script.heard(party, kind, value)

    @property
    def _last_line(self) -> int:
        return self._script.entries[-1].line if self._script.entries else 0

    @property
    def _line_now(self) -> int:
        waiting = self._script.waiting
        return 0 if waiting is None else waiting.line

    def _expects_end(self, party: str) -> bool:
        return any(
            entry.ours and entry.kind == "closed" and entry.party == party
            for entry in self._script.entries
        )

    async def _farewell(self) -> str:
        with anyio.move_on_after(1):
            await self._child.process.wait()
            await self._child.heard.wait()
        return self._child.ending

    async def _leave(self) -> None:
        """The fixture is over: what is said now is too much.

        Then the host leaves, and the bridge ends.
        """
        with anyio.move_on_after(SETTLE):
            while True:
                await self._take(END, "")
        self._over = True
        self._child.stdin.close()
        self._tasks.start_soon(self._wait_for_end)
        with anyio.move_on_after(END) as waiting:
            await self._part({(HOST, "closed"), (HOST, "ended")})
        if waiting.cancelled_caught:
            raise ReplayMismatchError(
                f"the bridge did not end within {END:g} s of its host's leaving"
            )
        with anyio.move_on_after(LAST):
            await self._part({(party, "closed") for party in self._speaking})
        self._look_back()
        if left := sorted(self._speaking):
            raise ReplayMismatchError(f"the bridge has ended, and left the {left[0]} running")
        code = self._child.process.returncode
        if code is not None and code not in (_ENDINGS if AGENT in self._setting.parties else (0,)):
            raise ReplayMismatchError(
                f"the bridge ended with exit code {code}"
                if code > 0
                else f"the bridge was ended by signal {-code}"
            )

    async def _part(self, awaited: set[tuple[str, str]]) -> None:
        """Hear what is said while they part, until all of these have come."""
        while awaited:
            party, kind, value = await self._inbox.next()
            awaited.discard((party, kind))
            if kind == "closed":
                self._speaking.discard(party)
            if kind == "failed":
                raise value
            if kind == "closed" and party in self._players:
                self._players.pop(party).close()
            elif kind not in ("message", "raw"):
                continue
            elif party == HOST:
                self._script.heard(party, kind, value)
            elif party != PERSON:
                await self._say_goodbye(party, kind, value)

    async def _say_goodbye(self, party: str, kind: str, value: Json) -> None:
        said = value.get("method", value.get("type")) if isinstance(value, Mapping) else None
        again = said in shutdown.ONCE and (party, said) in self._goodbyes
        self._goodbyes.add((party, str(said)))
        if again:
            raise ReplayMismatchError(
                f"the bridge said {said} to the {party} twice",
                self._last_line,
                [shown(value, 400)],
                got=value,
            )
        if words := shutdown.fault(party, kind, value, self._script.questions):
            problem = (
                f"the bridge said something that is no goodbye when its host had left: {words}"
            )
            raise ReplayMismatchError(problem, self._last_line, [shown(value, 400)], got=value)
        answer = shutdown.reply(value)
        if answer is not None and party in self._players:
            with suppress(OSError):
                await self._players[party].send(json.dumps(answer).encode() + b"\n")

    async def _wait_for_end(self) -> None:
        await self._child.process.wait()
        self._inbox.say(HOST, "ended", None)

    def _look_back(self) -> None:
        """What was said and shown, and no line of the fixture has."""
        if (left := self._script.left_over()) is not None:
            raise left
        if not any(entry.ours for entry in self._script.entries):
            raise ReplayMismatchError(
                "it shows nothing that a bridge says: there is nothing to hold this one to"
            )
        if self._terminal is not None:
            while self._terminal.read():
                pass
            if lines := replace_paths(self._terminal.lines, self._setting.places):
                line = self._script.entries[-1].line
                raise ReplayMismatchError(
                    "the terminal shows something that the fixture does not show",
                    line,
                    [shown(lines, 400)],
                    got=lines,
                )

    async def _send(self, entry: Entry, value: Json) -> None:
        if entry.kind == "fill":
            await self._fill(entry, value)
        elif entry.kind == "keys":
            await self._type(entry, value)
        elif entry.kind == "http":
            self._tasks.start_soon(self._request, entry, value)
        elif entry.party == HOST and entry.kind == "closed":
            self._left = True
            self._child.stdin.close()
        elif entry.party == HOST:
            await self._write(self._line(entry, value))
        else:
            await self._say_as(entry, value)

    async def _say_as(self, entry: Entry, value: Json) -> None:
        """What an app or the agent says."""
        if entry.party not in self._players and entry.party.startswith(TOOLS):
            await self._tasks.start(self._launch, entry)
        if (stream := self._players.get(entry.party)) is None:
            raise ReplayMismatchError(
                f"the {entry.party} is to speak here, and the bridge has not started it", entry.line
            )
        with (
            suppress(OSError),
            anyio.move_on_after(self._patience),
        ):
            if entry.kind == "closed":
                del self._players[entry.party]
                stream.close()
            else:
                await stream.send(self._line(entry, value))

    async def _launch(self, entry: Entry, *, task_status: TaskStatus[None]) -> None:
        """Stand for the agent that launches its server, until that ends."""
        command, environment = self._servers.command(entry.line)
        with as_mismatch("the server that the bridge gives its agent cannot be launched"):
            async with spawn(command, env=environment, cwd=self._setting.folder) as child:
                self._players[entry.party] = PartyConnection(child.stdin)
                self._speaking.add(entry.party)
                task_status.started()
                await self._inbox.read(entry.party, child.stdout.receive)

    def _line(self, entry: Entry, value: Json) -> bytes:
        """What is said for an entry.

        Raises ReplayMismatchError for what would reach out of the replay.
        """
        if entry.kind == "lines":
            data = b"".join(json.dumps(each).encode() + b"\n" for each in value)
        else:
            data = (
                value.encode() + b"\n"
                if entry.kind == "raw"
                else json.dumps(value).encode() + b"\n"
            )
        for line in data.split(b"\n"):
            with suppress(ValueError):
                message = parse(line)
                self._servers.sent(message)
                if connects_elsewhere(message):
                    raise ReplayMismatchError(
                        "this has an address connected: a replay has stand-ins for apps, and opens"
                        " no pages",
                        entry.line,
                    )
        return data

    async def _write(self, data: bytes) -> None:
        left = memoryview(data)
        with (
            suppress(OSError),
            anyio.move_on_after(self._patience),
        ):  # a bridge that has ended is heard of soon
            while left:
                await self._child.stdin.writable()
                left = left[self._child.stdin.write_nowait(left) :]

    async def _fill(self, entry: Entry, value: Mapping[str, Json]) -> None:
        try:
            with anyio.fail_after(PAGE):
                await anyio.to_thread.run_sync(
                    fill_in,
                    value["open"],
                    value["fill"],
                    value["press"],
                    value.get("reads", ()),
                    abandon_on_cancel=True,
                )
        except (OSError, ValueError) as problem:
            raise ReplayMismatchError(
                f"the page could not be filled in: {str(problem) or 'it took too long'}", entry.line
            ) from None

    async def _type(self, entry: Entry, keys: str) -> None:
        if self._terminal is None:
            raise ReplayMismatchError(
                'there is no terminal to type at: "run" in the head needs "--tty", "{tty}"',
                entry.line,
            )
        try:
            await anyio.to_thread.run_sync(self._terminal.type, keys, self._patience)
        except (OSError, ValueError) as problem:
            raise ReplayMismatchError(
                f"what is typed does not reach the bridge: {problem}", entry.line
            ) from None

    async def _request(self, entry: Entry, said: Mapping[str, Json]) -> None:
        if self._program is None:
            self._inbox.failed(
                ReplayMismatchError(
                    'there is no port to ask at: "run" in the head needs "--questions-api",'
                    ' "{port}"',
                    entry.line,
                )
            )
            return
        try:
            body = json.dumps(said["body"]) if "body" in said else None
            messages = self._program.exchange(said["http"], body, self._patience)
            while got := await anyio.to_thread.run_sync(
                next, messages, None, abandon_on_cancel=True
            ):
                self._inbox.offered(*got)
        except ReplayMismatchError as problem:
            self._inbox.failed(problem)
        except (OSError, ValueError, http.client.HTTPException) as problem:
            if not self._over:
                self._inbox.failed(
                    ReplayMismatchError(
                        f"{said['http']} at the questions API came to nothing: {problem}",
                        entry.line,
                    )
                )

    # --- what is heard ---

    def _look(self, *, late: bool = False) -> None:
        """What the person is shown counts when all of it is there, or when it is too late."""
        if self._terminal is None:
            return
        for entry in self._script.expected("screen"):
            lines, known = self._terminal.lines, self._script.known
            if late or (
                len(lines) >= len(entry.value) and match(entry.value[-1], lines[-1], known)
            ):
                self._terminal.clear()
                seen = replace_paths(lines, self._setting.places)
                self._script.heard(PERSON, "screen", seen)
                return

    async def _accept(self, listener: socket.socket) -> None:
        """Let the stand-ins in that are started."""
        with listener, ExitStack() as connections:
            while True:
                source, sink = await accept(listener)
                connection = PartyConnection(sink, source)
                connections.callback(connection.close)
                self._tasks.start_soon(self._welcome, source, connection)

    async def _welcome(self, source: StreamReader, connection: PartyConnection) -> None:
        """A stand-in was started: its first line says which."""
        party = ""
        try:
            async for line in self._inbox.lines(source.receive):
                if party:
                    self._inbox.line(party, line)
                elif (named := line.decode(errors="replace")) in self._players:
                    raise ReplayMismatchError(
                        f"the bridge started the {named} again, while it was still running"
                    )
                elif (party := named) in self._setting.parties:
                    self._players[party] = connection
                    self._speaking.add(party)
                else:
                    return
        except ReplayMismatchError as problem:
            self._inbox.failed(problem)
            return
        if party:
            self._inbox.say(party, "closed", True)
