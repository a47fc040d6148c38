"""Play fixtures against a bridge over real pipes: start it with stand-ins for its apps, send what
the
fixture sends, and compare what comes back.

`expectations` decides what fits; this is the order of turns, processes and time limits.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import groupby

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from abp_bridge.conformance.expectations import ONCE, Expectations, goodbye_fault, goodbye_reply
from abp_bridge.conformance.format import BEHIND, HOST, PERSON, TOOLS, Entry, Recording
from abp_bridge.conformance.match import ReplayMismatchError, as_mismatch, match
from abp_bridge.conformance.parties import Parties
from abp_bridge.conformance.user_drivers import fill_in, origin_of
from abp_bridge.conformance.workspace import Workspace, connects_elsewhere, find_refusals
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    as_texts,
    parse_json,
)
from abp_bridge.jsonrpc.streams import listen
from abp_bridge.jsonrpc.subprocess import Child, spawn

# never what lies in the folder that a fixture has laid out
THIS_BRIDGE = (sys.executable, "-P", "-m", "abp_bridge")
PATIENCE = 10.0  # seconds for the next line of a bridge
FIXTURE_TIMEOUT = 60.0  # seconds for a fixture
FIRST_LINE = 20.0  # seconds: a machine that plays many at once is slow to start them
LAST_LINES = 0.05  # seconds for what a bridge says too much
EXIT_TIMEOUT = 5.0  # seconds for a bridge to end
DRAIN_TIMEOUT = 3.0  # seconds for what a bridge said last to come through its stand-ins
LAST_WORDS = 1.0  # seconds for the stderr of a bridge that has ended
PAGE_TIMEOUT = 15.0  # seconds for what a person does on a page
_PROXY_EXITS = (0, 137, 143)  # of a proxy: its program ended by itself, or was made to


async def play(
    fixture: Recording, bridge: Sequence[str] = THIS_BRIDGE, *, patience: float = PATIENCE
) -> None:
    """Play one fixture.

    Args:
        bridge: The bridge's command; without `{app}` the fixture's arguments are added.
        patience: Seconds to wait for its next line, unless the fixture says otherwise.

    Raises:
        ReplayMismatchError: The bridge differs or is silent, or the fixture is refused.
    """
    for refused in find_refusals(fixture):
        raise ReplayMismatchError(refused)
    with closing(Workspace(fixture)) as workspace:
        try:
            with _ungrouped(), anyio.fail_after(FIXTURE_TIMEOUT):
                await Runner(fixture, workspace, fixture.head.patience or patience).play(bridge)
        except TimeoutError:
            raise ReplayMismatchError(f"it took longer than {FIXTURE_TIMEOUT:g} s") from None


@contextmanager
def _ungrouped() -> Iterator[None]:
    """Unwrap exception groups; an OSError in a task is a mismatch."""
    try:
        yield
    except BaseExceptionGroup as group:
        mismatches, others = group.split(ReplayMismatchError)
        if others is not None and others.split(OSError)[1] is not None:
            raise
        first: BaseException = mismatches or group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, ReplayMismatchError):
            raise first from None
        raise ReplayMismatchError(f"the fixture cannot be played on: {first}") from None


class Runner:
    """Plays one fixture in turns with the bridge, then drains it."""

    def __init__(self, fixture: Recording, workspace: Workspace, patience: float) -> None:
        """`patience` is the time limit in seconds for the bridge's next line."""
        self._workspace = workspace
        self._patience = patience
        self._expectations = Expectations(fixture.entries, workspace.known, fixture.head.host)
        self._parties = Parties(workspace.parties, workspace.replace_paths)
        self._inbox = self._parties.inbox
        self._has_spoken = False  # whether the bridge has said anything
        self._is_draining = False
        self._sent_once: set[tuple[str, str]] = set()  # (party, method) of what may be said once

    async def play(self, bridge: Sequence[str]) -> None:
        """Start the bridge and play the fixture. Raises ReplayMismatchError."""
        workspace = self._workspace
        place = f"the stand-ins' socket cannot be made at {workspace.socket}"
        async with AsyncExitStack() as ends:
            with as_mismatch(place, ". A shorter TMPDIR may help"):
                listener = ends.enter_context(listen(workspace.socket))
            with as_mismatch("the bridge cannot be started", ". Check --bridge"):
                command, environment = workspace.command(bridge), workspace.environment()
                child = await ends.enter_async_context(
                    spawn(command, env=environment, cwd=workspace.folder)
                )
            tasks = await ends.enter_async_context(anyio.create_task_group())
            self._parties.add_host(child)
            tasks.start_soon(self._parties.serve, listener)
            if workspace.model is not None:
                tasks.start_soon(self._parties.serve_model, workspace.model)
            tasks.start_soon(self._inbox.read_party, HOST, self._inbox.lines(child.stdout.receive))
            if workspace.terminal is not None:
                tasks.start_soon(self._inbox.watch, workspace.terminal.watch())
            await self._converse(child, tasks)
            await self._drain(child, tasks)
            tasks.cancel_scope.cancel()

    # --- the conversation ---

    async def _converse(self, child: Child, tasks: TaskGroup) -> None:
        expectations = self._expectations
        while True:
            await self._send_lines(expectations.take_next(), tasks)
            if expectations.is_over:
                return
            self._look_at_terminal()
            if expectations.awaited:
                limit = self._patience if self._has_spoken else max(self._patience, FIRST_LINE)
                reason = f"nothing came within {self._patience:g} s"
                await self._receive_item(limit, reason, child)

    async def _receive_item(self, limit: float, reason: str, child: Child) -> None:
        """Wait `limit` seconds for the bridge's next item."""
        try:
            with anyio.fail_after(limit):
                party, kind, value = await self._inbox.next()
        except TimeoutError:
            self._look_at_terminal(is_late=True)
            raise self._expectations.overdue(reason) from None
        if kind == "screen":
            return
        self._has_spoken = True
        if kind == "closed":
            self._parties.listening.discard(party)
            if party == HOST and HOST in self._parties:
                raise self._expectations.overdue(f"the bridge ended ({await _last_words(child)})")
            if not self._expectations.expects_close(party):
                if party not in self._parties:
                    return
                raise ReplayMismatchError(
                    f"the bridge ended what it says to the {party}, in the middle of the"
                    " conversation",
                    self._expectations.line,
                )
        self._expectations.on_message(party, kind, value)

    def _look_at_terminal(self, *, is_late: bool = False) -> None:
        """Compare the screen when it is complete, or when time is up."""
        if (terminal := self._workspace.terminal) is None:
            return
        wanted = next((e.value for e in self._expectations.awaited if e.kind == "screen"), None)
        if wanted is None:
            return
        lines = terminal.lines
        is_whole = len(lines) >= len(wanted) and bool(
            match(wanted[-1], lines[-1], self._expectations.known)
        )
        if is_whole or is_late:
            terminal.clear()
            screen = list(map(self._workspace.replace_paths, lines))
            self._expectations.on_message(PERSON, "screen", screen)

    # --- what the fixture says and does ---

    async def _send_lines(self, taken: Sequence[tuple[Entry, JsonValue]], tasks: TaskGroup) -> None:
        """Send each line for its party; lines that belong together are sent together."""
        for (_, kind), group in groupby(taken, lambda pair: (pair[0].party, pair[0].kind)):
            lines = list(group)
            if kind == "message":
                data = b"".join(json.dumps(value).encode() + b"\n" for _, value in lines)
                await self._say(lines[0][0], data, tasks)
                continue
            for entry, value in lines:
                if kind == "http":
                    tasks.start_soon(self._ask, entry, as_object(value))
                elif kind == "fill":
                    await self._fill(entry, as_object(value))
                elif kind == "keys":
                    await self._type(entry, str(value))
                else:
                    data = f"{value}\n".encode() if kind == "raw" else b""
                    await self._say(entry, data, tasks)

    async def _say(self, entry: Entry, data: bytes, tasks: TaskGroup) -> None:
        """Send `data` for the entry's party, or close it."""
        if entry.party not in self._parties and entry.party.startswith(TOOLS):
            await tasks.start(partial(self._parties.launch, entry, self._workspace.folder))
        if entry.party not in self._parties and entry.party != HOST:
            raise ReplayMismatchError(
                f"the {entry.party} is to speak here, and the bridge has not started it", entry.line
            )
        if entry.kind == "closed":
            self._parties.close_party(entry.party)
        else:
            self._check_harmless(entry, data)
            await self._parties.send_to(entry.party, data, self._patience)

    def _check_harmless(self, entry: Entry, data: bytes) -> None:
        for line in data.split(b"\n"):
            with suppress(ValueError):
                message = parse_json(line)
                self._parties.agent_server.on_sent(message)
                if connects_elsewhere(message):
                    raise ReplayMismatchError(
                        "this has an address connected: a replay has stand-ins for apps, and opens"
                        " no pages",
                        entry.line,
                    )

    async def _fill(self, entry: Entry, act: JsonObject) -> None:
        link = as_text(act["open"])
        fill = partial(
            fill_in,
            link,
            as_list(act["fill"]),
            as_text(act["press"]),
            as_texts(act.get("reads")),
        )
        with as_mismatch("the page could not be filled in", line=entry.line):
            if origin_of(link)[1] != self._workspace.page_port:
                raise ValueError(f"{link} is no page of this bridge's")
            with anyio.fail_after(PAGE_TIMEOUT):
                await to_thread.run_sync(fill, abandon_on_cancel=True)

    async def _type(self, entry: Entry, keys: str) -> None:
        if self._workspace.terminal is None:
            raise ReplayMismatchError(
                'there is no terminal to type at: "run" in the head needs "--tty", "{tty}"',
                entry.line,
            )
        with as_mismatch("what is typed does not reach the bridge", line=entry.line):
            await to_thread.run_sync(self._workspace.terminal.type_keys, keys, self._patience)

    async def _ask(self, entry: Entry, act: JsonObject) -> None:
        """Send a request of the user's program to the questions API."""
        request, body = as_text(act["http"]), json.dumps(act["body"]) if "body" in act else None
        if self._workspace.questions is None:
            raise ReplayMismatchError(
                'there is no port to ask at: "run" in the head needs "--questions-api", "{port}"',
                entry.line,
            )
        messages = self._workspace.questions.exchange(request, body, self._patience)
        try:
            while got := await to_thread.run_sync(next, messages, None, abandon_on_cancel=True):
                self._inbox.put_event(*got)
        except (OSError, ValueError, http.client.HTTPException) as problem:
            if not self._is_draining:
                words = f"{request} at the questions API came to nothing: {problem}"
                raise ReplayMismatchError(words, entry.line) from None

    # --- the end ---

    async def _drain(self, child: Child, tasks: TaskGroup) -> None:
        """Disconnect the host after the fixture's end and wait for the bridge to exit; refuse extra
        messages.
        """
        with anyio.move_on_after(LAST_LINES):
            while True:
                await self._receive_item(EXIT_TIMEOUT, "", child)
        self._is_draining = True
        self._parties.close_party(HOST)
        tasks.start_soon(self._report_exit, child)
        with anyio.move_on_after(EXIT_TIMEOUT) as waiting:
            await self._drain_until({(HOST, "closed"), (HOST, "ended")})
        if waiting.cancelled_caught:
            raise ReplayMismatchError(
                f"the bridge did not end within {EXIT_TIMEOUT:g} s of its host's leaving"
            )
        listening = self._parties.listening
        with anyio.move_on_after(DRAIN_TIMEOUT):
            await self._drain_until({(party, "closed") for party in listening})
        self._check_nothing_left()
        if listening:
            raise ReplayMismatchError(
                f"the bridge has ended, and left the {min(listening)} running"
            )
        self._check_exit(child.process.returncode)

    async def _report_exit(self, child: Child) -> None:
        await child.process.wait()
        self._inbox.put(HOST, "ended")

    async def _drain_until(self, awaited: set[tuple[str, str]]) -> None:
        """Read during shutdown until all of these have come."""
        while awaited:
            party, kind, value = await self._inbox.next()
            awaited.discard((party, kind))
            if kind == "closed":
                self._parties.listening.discard(party)
                self._parties.close_party(party)
            elif kind not in ("message", "raw"):
                continue
            elif party == HOST:
                self._expectations.on_message(party, kind, value)
            elif party != PERSON:
                await self._on_shutdown_message(party, kind, value)

    async def _on_shutdown_message(self, party: str, kind: str, value: JsonValue) -> None:
        said = as_object(value).get("method", as_object(value).get("type"))
        problem = ""
        if said in ONCE and (party, said) in self._sent_once:
            problem = f"the bridge said {said} to the {party} twice"
        elif words := goodbye_fault(party, kind, value, self._expectations.questions):
            problem = (
                f"the bridge said something that is no goodbye when its host had left: {words}"
            )
        if problem:
            raise ReplayMismatchError(problem, self._expectations.last_line, got=value)
        self._sent_once.add((party, str(said)))
        reply = goodbye_reply(value)
        if reply is not None and party in self._parties:
            await self._parties.send_to(party, json.dumps(reply).encode() + b"\n", self._patience)

    def _check_nothing_left(self) -> None:
        """Refuse messages and screens that the fixture does not have."""
        if (left := self._expectations.left_over()) is not None:
            raise left
        if not any(entry.ours for entry in self._expectations.entries):
            raise ReplayMismatchError(
                "it shows nothing that a bridge says: there is nothing to hold this one to"
            )
        if (terminal := self._workspace.terminal) is None:
            return
        while terminal.update():
            pass
        if lines := list(map(self._workspace.replace_paths, terminal.lines)):
            problem = "the terminal shows something that the fixture does not show"
            raise ReplayMismatchError(problem, self._expectations.last_line, got=lines)

    def _check_exit(self, code: int | None) -> None:
        expected = _PROXY_EXITS if {*BEHIND.values()} & self._workspace.parties else (0,)
        if code is not None and code not in expected:
            raise ReplayMismatchError(
                f"the bridge ended with exit code {code}"
                if code > 0
                else f"the bridge was ended by signal {-code}"
            )


async def _last_words(child: Child) -> str:
    with anyio.move_on_after(LAST_WORDS):
        await child.process.wait()
        await child.heard.wait()
    return child.ending
