"""Calls that outlive the requests that wait for them.

A `tools/call` only attaches its host to a call (`Leg`); the call runs in the session. So a modern host can be asked (the request ends with the
questions, and comes again with the answers), and a host of either era whose patience ends gets a result that says how to come back (`abp_wait`).
What is asked or answered in between is kept, for as long as somebody may still come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from abp_bridge.core.notice import Progress
from abp_bridge.core.question import Kind
from abp_bridge.hosts.contract import Call, DeskError, Ended, HostAway, SurfaceRefused
from abp_bridge.hosts.mcp.seal import Broken, Seal, State, digest
from abp_bridge.hosts.mcp.server import Leg, Refusal
from abp_bridge.protocols.mcp import encode_result, encode_text
from abp_bridge.protocols.mcp_modern import INVALID_PARAMS, MAX_ROUNDS, MISSING_CAPABILITY, encode_round

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.hosts.mcp.client import Client

Json = Any

MAX_HELD = 2_000
MAX_DELIVERED = 200
MAX_ASKED = 20  # questions of one round
GRACE = 1.0  # seconds for an app to do something about a question that nobody came back for
SETTLE = 3  # looks, without one question more, before a round goes out

# What a client must declare for an app's question of a kind: 2026-07-28 basic/index, -32021.
_NEEDS = {Kind.SAMPLING: "sampling"}
_FORM = "elicitation"

# (held, on_progress) -> the call, begun
Start = Callable[["Held", Callable[[Progress], None]], Awaitable[Call]]


@dataclass(slots=True)
class Pending:
    """A question as a modern host is to get it, and what it answered."""

    request: Mapping[str, Json]
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Mapping[str, Json] | None = None
    problem: Exception | None = None


@dataclass(slots=True)
class Patience:
    """How long a host waits for a call, in seconds; `stops` says that it does not count the time of a person."""

    left: float
    stops: bool = False


class Held:
    """One call. `legs` are the requests that wait for it now, the newest last."""

    def __init__(self) -> None:
        self.call: Call
        self.legs: list[Leg] = []
        self.pending: dict[str, Pending] = {}
        self.asking = 0  # questions that are in front of the person, however they got there
        self.ended: Ended | None = None
        self.promised = False  # the host was told how to come back
        self._left: Exception | None = None  # why nobody can be asked any more
        self._newest: Leg
        self._serial = 0
        self._changed = anyio.Event()

    @property
    def client(self) -> Client:
        """The host as it showed itself with the newest request for this call."""
        return self._newest.client

    def attach(self, leg: Leg) -> None:
        self._newest = leg
        self.legs.append(leg)
        leg.held = self

    def cancel(self, reason: str) -> None:
        self.call.cancel(reason)

    def end(self, ended: Ended) -> None:
        self.ended = ended
        self.leave(SurfaceRefused("the call that carried it to the host has ended", lasting=False))

    def leave(self, problem: Exception) -> None:
        """Nobody will answer what is asked, now or later."""
        self._left = problem
        for pending in self.pending.values():
            pending.problem = problem
            pending.done.set()
        self.change()

    async def ask(self, method: str, params: Mapping[str, Json]) -> Mapping[str, Json]:
        """Put a question into the next round, and wait for its answer. Raises HostAway or SurfaceRefused when nobody will come back with one."""
        if self._left is not None:
            raise self._left
        self._serial += 1
        key = f"q{self._serial}"
        self.pending[key] = pending = Pending({"method": method, "params": params})
        self.change()
        try:
            await pending.done.wait()
        finally:
            self.pending.pop(key, None)
        if pending.answer is None:
            assert pending.problem is not None
            raise pending.problem
        return pending.answer

    def deliver(self, answers: Mapping[str, Mapping[str, Json]]) -> None:
        """What a host brought. A question that is not asked any more, or never was, is nobody's."""
        for key, answer in answers.items():
            if (pending := self.pending.pop(key, None)) is not None:
                pending.answer = answer
                pending.done.set()

    def asks(self, more: int) -> None:
        """A question goes to the person, or has come back."""
        self.asking += more
        self.change()

    def change(self) -> None:
        """Something about this call is not as it was: whoever waits looks again."""
        self._changed.set()
        self._changed = anyio.Event()

    async def changed(self) -> None:
        await self._changed.wait()


class Calls:
    """The calls of one session. `limit` is how long, in seconds, one is kept that nobody waits for."""

    def __init__(self, tasks: TaskGroup, *, limit: float, patience: Callable[[Leg], Patience], tell: Callable[[Leg, Progress], None]) -> None:
        self._tasks = tasks
        self._limit = limit
        self._patience = patience
        self._tell = tell
        self._held: dict[str, Held] = {}
        self._left: dict[str, float] = {}  # when the time ends of those that nobody waits for, the first to end first
        self._delivered: dict[str, None] = {}  # those whose result has been given, the oldest first
        self._expiring = False
        self._seal = Seal()

    def of(self, call: str | None) -> Held | None:
        return self._held.get(call or "")

    async def begin(
        self, tool: str, arguments: Mapping[str, Json], leg: Leg, start: Callable[[Held, Callable[[Progress], None]], Awaitable[Call]]
    ) -> Json:
        """Start a call and wait for it: its CallToolResult, or what it asks. Raises DeskError, Refusal."""
        if len(self._held) - len(self._delivered) >= MAX_HELD:
            raise DeskError("RATE_LIMITED", f"{MAX_HELD} calls are running or kept already; come back to them with abp_wait, or wait a while.")
        held = Held()
        leg.made = digest(tool, arguments)

        def report(progress: Progress) -> None:
            if held.legs:
                self._tell(held.legs[-1], progress)

        held.call = await start(held, report)
        self._held[held.call.id] = held
        return await self._attend(held, leg)

    async def resume(self, tool: str, arguments: Mapping[str, Json], leg: Leg, state: str, answers: Mapping[str, Mapping[str, Json]]) -> Json:
        """A modern host comes back. Raises Refusal for a `requestState` that is not this call's: a call is never begun again by mistake."""
        try:
            found = self._seal.open(state)
        except Broken:
            raise Refusal(INVALID_PARAMS, "this requestState was not made here, or was changed on its way") from None
        leg.made = digest(tool, arguments)
        if found.digest != leg.made:
            raise Refusal(INVALID_PARAMS, "this requestState belongs to a call of another tool, or with other arguments")
        held = self._held.get(found.call)
        if held is None or anyio.current_time() > found.expires:
            raise Refusal(INVALID_PARAMS, "this requestState is too old: its call is over. Call the tool again if it is still needed")
        leg.round = found.round
        held.deliver(answers)
        return await self._attend(held, leg)

    async def wait(self, tool: str, arguments: Mapping[str, Json], leg: Leg, call: str) -> Json:
        """Attach to a call that goes on, or get the result it is kept with. Raises DeskError."""
        leg.made = digest(tool, arguments)
        held = self._held.get(call)
        if held is None:
            known = ", ".join(self._held) or "none"
            raise DeskError("UNKNOWN_CALL", f"There is no call {call[:80]!r} to come back to; there are {known}.")
        return await self._attend(held, leg)

    async def _attend(self, held: Held, leg: Leg) -> Json:
        """Wait with the host for what comes first: the end, a question that it has to bring to its person, or the end of its patience."""
        held.attach(leg)
        self._left.pop(held.call.id, None)
        patience = self._patience(leg)
        try:
            while held.ended is None:
                if leg.client.modern and held.pending:
                    await _settle(held)
                    if held.pending and held.ended is None:
                        return self._round(held, leg)
                    continue
                if patience.left <= 0:
                    return _later(held)
                await _watch(held, patience)
        except BaseException:
            held.cancel("the host cancelled the call")
            raise
        finally:
            held.legs.remove(leg)
            self._leave(held)
        return _result(held.ended, leg)

    def _round(self, held: Held, leg: Leg) -> Json:
        if leg.round >= MAX_ROUNDS:
            return _later(held)
        expires = anyio.current_time() + self._limit
        state = State(held.call.id, leg.made, leg.round + 1, expires)
        held.promised = True
        asked = dict(list(held.pending.items())[:MAX_ASKED])
        return encode_round({key: pending.request for key, pending in asked.items()}, self._seal.close(state))

    # --- those that nobody waits for ---

    def _leave(self, held: Held) -> None:
        """A leg is gone. What somebody may still come back for is kept."""
        id = held.call.id
        if held.ended is not None:
            self._delivered[id] = None
            if not held.promised:
                self._forget(id)
            elif len(self._delivered) > MAX_DELIVERED:
                self._forget(next(iter(self._delivered)))
        if held.legs or id not in self._held:
            return
        self._left[id] = anyio.current_time() + self._limit
        if not self._expiring:
            self._expiring = True
            self._tasks.start_soon(self._expire)

    async def _expire(self) -> None:
        while self._left:
            id, deadline = next(iter(self._left.items()))
            await anyio.sleep_until(deadline)
            if self._left.get(id) == deadline:
                self._tasks.start_soon(self._abandon, self._forget(id))
        self._expiring = False

    def _forget(self, id: str) -> Held:
        self._left.pop(id, None)
        self._delivered.pop(id, None)
        return self._held.pop(id)

    async def _abandon(self, held: Held) -> None:
        """Nobody came back: the app is told so, by its question first, and then by the end of its call."""
        if held.ended is None:
            reason = f"the host did not come back within {self._limit:g} s"
            held.leave(HostAway(reason))
            await anyio.sleep(GRACE)
            held.cancel(reason)


async def _settle(held: Held) -> None:
    """Questions that are asked together go together: wait as long as more come."""
    quiet = seen = 0
    while quiet < SETTLE:
        await anyio.sleep(held.call.settle / SETTLE)
        quiet = quiet + 1 if len(held.pending) == seen else 0
        seen = len(held.pending)


async def _watch(held: Held, patience: Patience) -> None:
    """Until something happens to the call, or the host's patience is over."""
    if patience.stops and held.asking:
        await held.changed()
        return
    started = anyio.current_time()
    with anyio.move_on_after(patience.left):
        await held.changed()
    patience.left -= anyio.current_time() - started


def _later(held: Held) -> Json:
    held.promised = True
    state = "waits for an answer of the person's" if held.asking else "is still running"
    return encode_text(
        f'The call {held.call.id} {state}; nothing is lost. Call abp_wait with {{"call": "{held.call.id}"}} to go on waiting for its result. '
        "Do not call the tool again."
    )


def _result(ended: Ended, leg: Leg) -> Json:
    if leg.client.modern and ended.result.failure is not None and (missing := _missing(ended, leg)):
        raise Refusal(MISSING_CAPABILITY, str(ended.result.failure), {"requiredCapabilities": missing})
    return encode_result(ended.result, told=ended.told, files=ended.files)


def _missing(ended: Ended, leg: Leg) -> dict[str, Json]:
    """What the client would have had to declare for the questions that could not be asked."""
    declared = leg.client.capabilities if isinstance(leg.client.capabilities, Mapping) else {}
    return {need: {} for kind in ended.refused if (need := _NEEDS.get(kind, _FORM)) not in declared}
