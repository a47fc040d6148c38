"""Calls that outlive the requests that wait for them: who waits for which, how long, and how they
come back.

A `tools/call` only attaches its host to a call (`ToolRequest`); the call runs in the session
(`ParkedCall`). So a modern host can be asked (the request ends with the questions, and comes again
with the answers), and a host of either era whose patience ends gets a result that says how to come
back (`abp_wait`). What is asked or answered in between is kept, for as long as somebody may still
come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from abp_bridge.core.notice import Progress
from abp_bridge.core.question import Kind
from abp_bridge.hosts.mcp.parked_call import ParkedCall, ToolRequest
from abp_bridge.hosts.mcp.request_state import (
    InvalidRequestStateError,
    RequestState,
    RequestStateCodec,
    digest,
)
from abp_bridge.interfaces.host import Call, CallOutcome, SessionError
from abp_bridge.interfaces.surface import HostTimeoutError
from abp_bridge.protocols.mcp import encode_result, encode_text
from abp_bridge.protocols.mcp.modern import (
    INVALID_PARAMS,
    MAX_ROUNDS,
    MISSING_CAPABILITY,
    encode_round,
)
from abp_bridge.rpc.errors import RpcError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

Json = Any

MAX_HELD = 2_000
MAX_DELIVERED = 200
MAX_ASKED = 20  # questions of one round
MAX_LISTED = 20
GRACE = 1.0  # seconds for an app to do something about a question that nobody came back for
# Turns of the loop from what is written on a pipe to its question here: one that tells, one that
# reads, one that asks, and two to spare.
LOOP_TURNS = 5

# What a client must declare for an app's question of a kind: 2026-07-28 basic/index, -32021.
_NEEDS = {Kind.SAMPLING: "sampling"}
_FORM = "elicitation"

# (on_progress, on_end) -> the call, begun; neither is called before that
Start = Callable[
    [Callable[[Progress], None], Callable[[CallOutcome], None]],
    Awaitable[Call],
]


@dataclass(slots=True)
class ToolTimeout:
    """How long a host waits for a call, in seconds; `stops` says that it does not count the time of
    a person.
    """

    left: float
    paused_while_asking: bool = False


class ToolCalls:
    """The calls of one session. `limit` is how long, in seconds, one is kept that nobody
    waits for.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        *,
        limit: float,
        patience: Callable[[ToolRequest], ToolTimeout],
        tell: Callable[[ToolRequest, Progress], None],
    ) -> None:
        self._tasks = tasks
        self._limit = limit
        self._patience = patience
        self._tell = tell
        self._held: dict[str, ParkedCall] = {}
        self._starting = 0
        self._left: dict[
            str, float
        ] = {}  # when the time ends of those that nobody waits for, the first to end first
        self._delivered: dict[str, None] = {}  # those whose result has been given, the oldest first
        self._expiring = False
        self._seal = RequestStateCodec()

    def find_carrier(self, calls: Iterable[str]) -> ParkedCall | None:
        """Of these calls, the one that can take a question to the host: the first that somebody
        waits for, else the first there is.
        """
        found = [
            held
            for call in calls
            if (held := self._held.get(call)) is not None
            and held.ended is None
            and not held.abandoned
        ]
        return next((held for held in found if held.waiters), next(iter(found), None))

    def find_by_state(self, state: Json) -> ParkedCall | None:
        """The call that a `requestState` names, if it is one."""
        try:
            return self._held.get(self._seal.decode(state).call) if isinstance(state, str) else None
        except InvalidRequestStateError:
            return None

    async def begin(
        self, tool: str, arguments: Mapping[str, Json], leg: ToolRequest, start: Start
    ) -> Json:
        """Start a call and wait for it: its CallToolResult, or what it asks.

        Raises SessionError, Refusal.
        """
        if len(self._held) + self._starting - len(self._delivered) >= MAX_HELD:
            raise SessionError(
                "RATE_LIMITED",
                f"{MAX_HELD} calls are running or kept already; come back to them with abp_wait, or"
                " wait a while.",
            )
        leg.made = tool, arguments

        def on_progress(progress: Progress) -> None:
            if held.waiters:
                self._tell(held.waiters[-1], progress)

        def on_end(outcome: CallOutcome) -> None:
            held.end(outcome)

        self._starting += 1
        try:
            call = await start(on_progress, on_end)
            held = self._held[call.id] = ParkedCall(call, leg)
        finally:
            self._starting -= 1
        return await self._attend(held, leg)

    async def resume(
        self,
        tool: str,
        arguments: Mapping[str, Json],
        leg: ToolRequest,
        state: str,
        answers: Mapping[str, Mapping[str, Json]],
    ) -> Json:
        """A modern host comes back.

        Raises Refusal for a `requestState` that is not this call's: a call is never begun again by
        mistake.
        """
        try:
            found = self._seal.decode(state)
        except InvalidRequestStateError:
            raise RpcError(
                INVALID_PARAMS, "this requestState was not made here, or was changed on its way"
            ) from None
        leg.made = tool, arguments
        if found.digest != digest(*leg.made):
            raise RpcError(
                INVALID_PARAMS,
                "this requestState belongs to a call of another tool, or with other arguments",
            )
        held = self._held.get(found.call)
        if held is None:
            raise RpcError(
                INVALID_PARAMS,
                "this requestState is too old: its call is over. Call the tool again if it is still"
                " needed",
            )
        leg.round = found.round
        held.deliver(answers)
        return await self._attend(held, leg)

    async def wait(
        self, tool: str, arguments: Mapping[str, Json], leg: ToolRequest, call: str
    ) -> Json:
        """Attach to a call that goes on, or get the result it is kept with. Raises SessionError."""
        leg.made = tool, arguments
        held = self._held.get(call)
        if held is None:
            known = [
                *list(self._held)[-MAX_LISTED:],
                *(["..."] if len(self._held) > MAX_LISTED else []),
            ]
            raise SessionError(
                "UNKNOWN_CALL",
                f"There is no call {call[:80]!r} to come back to; there are"
                f" {', '.join(known) or 'none'}.",
            )
        held.promised = True
        return await self._attend(held, leg)

    async def answer(
        self, tool: str, arguments: Mapping[str, Json], leg: ToolRequest, question: str
    ) -> Json:
        """A model brings what its user said, and goes on waiting for the call that asked.

        Raises SessionError.
        """
        leg.made = tool, arguments
        for held in list(self._held.values()):
            if held.deliver_model_answer(question, arguments):
                held.promised = True
                return await self._attend(held, leg)
        raise SessionError(
            "UNKNOWN_QUESTION",
            f"No question {question[:80]!r} waits for an answer of your user's. Each is answered"
            " once.",
        )

    async def _attend(self, held: ParkedCall, leg: ToolRequest) -> Json:
        """Wait with the host for what comes first: the end, a question that it has to bring to its
        person, or the end of its patience.
        """
        held.attach(leg)
        leg.parked = held
        self._left.pop(held.call.id, None)
        patience = self._patience(leg)
        patience.left -= anyio.current_time() - leg.began
        try:
            while held.ended is None:
                if leg.client.modern and held.pending:
                    await _gather_round(held)
                    if held.pending and held.ended is None:
                        return self._round(held, leg)
                elif patience.left <= 0 or held.has_unsent_messages:
                    return _later(held)
                else:
                    await _watch(held, patience)
        except anyio.get_cancelled_exc_class():
            held.give_up(leg, "the host cancelled the call")
            raise
        finally:
            held.waiters.remove(leg)
            self._leave(held)
        return _result(held.ended, leg)

    def _round(self, held: ParkedCall, leg: ToolRequest) -> Json:
        """What is asked, as far as one round takes it."""
        if leg.round >= MAX_ROUNDS:
            return _later(held)
        held.promised = True
        asked = dict(list(held.pending.items())[:MAX_ASKED])
        for pending in asked.values():
            pending.shown = pending.shown or anyio.current_time()
        state = RequestState(held.call.id, digest(*leg.made), leg.round + 1)
        return encode_round(
            {key: pending.request for key, pending in asked.items()}, self._seal.encode(state)
        )

    # --- those that nobody waits for ---

    def _leave(self, held: ParkedCall) -> None:
        """A leg is gone. What somebody was promised, and may still come back for, is kept."""
        id = held.call.id
        if held.waiters or id not in self._held:
            return
        if held.abandoned or (held.ended is not None and not held.promised):
            self._forget(id)
            return
        if held.ended is not None:
            self._delivered[id] = None
        while len(self._delivered) > MAX_DELIVERED:
            self._forget(next(iter(self._delivered)))
        self._left[id] = anyio.current_time() + self._limit
        if not self._expiring:
            self._expiring = True
            self._tasks.start_soon(self._expire)

    async def _expire(self) -> None:
        while self._left:
            id, deadline = next(iter(self._left.items()))
            await anyio.sleep_until(deadline)
            if self._left.get(id) == deadline:
                self._tasks.start_soon(self._abandon, self._held[id])
                self._forget(id)
        self._expiring = False

    def _forget(self, id: str) -> None:
        for table in (self._left, self._delivered, self._held):
            table.pop(id, None)

    async def _abandon(self, held: ParkedCall) -> None:
        """Nobody came back: the app is told so, by its question first, and then by the end of its
        call.
        """
        if held.ended is None:
            reason = f"the host did not come back within {self._limit:g} s"
            held.leave(HostTimeoutError(reason))
            await anyio.sleep(GRACE)
            held.cancel(reason)


async def _gather_round(held: ParkedCall) -> None:
    """Questions that are asked together go together: wait until no more come, or as many as one
    round takes.
    """
    for _ in range(MAX_ASKED):
        asked = held.asked
        await held.call.wait_idle()
        for _ in range(LOOP_TURNS):
            await anyio.lowlevel.checkpoint()
        if held.asked == asked:
            break


async def _watch(held: ParkedCall, patience: ToolTimeout) -> None:
    """Until something happens to the call, or the host's patience is over."""
    if patience.paused_while_asking and held.asking > len(
        held.model_messages
    ):  # what only the model was told is no question that stops a clock
        await held.changed()
        return
    started = anyio.current_time()
    await held.changed(patience.left)
    patience.left -= anyio.current_time() - started


def _later(held: ParkedCall) -> Json:
    held.promised = True
    state = "waits for an answer of the person's" if held.asking else "is still running"
    words = list(held.model_messages.values())
    for each in words:
        each.sent = True
    after = "Then call" if words else "Call"
    goes_on = (
        f'The call {held.call.id} {state}; nothing is lost. {after} abp_wait with {{"call":'
        f' "{held.call.id}"}} to go on waiting for its result. Do not call the tool again.'
    )
    return encode_text("\n\n".join([*(each.text for each in words), goes_on]))


def _result(ended: CallOutcome, leg: ToolRequest) -> Json:
    if leg.client.modern and (missing := _missing(ended, leg)):
        raise RpcError(
            MISSING_CAPABILITY, str(ended.result.failure), {"requiredCapabilities": missing}
        )
    return encode_result(ended.result, told=ended.summary, files=ended.files)


def _missing(ended: CallOutcome, leg: ToolRequest) -> dict[str, Json]:
    """What the client would have had to declare, where the call failed for nothing else: the app
    only passed a question's refusal on.
    """
    failure = ended.result.failure
    if (
        failure is None
        or failure.code != "NOT_SUPPORTED"
        or ended.result.data is not None
        or ended.files
    ):
        return {}
    declared = leg.client.capabilities if isinstance(leg.client.capabilities, Mapping) else {}
    return {need: {} for kind in ended.refused if (need := _NEEDS.get(kind, _FORM)) not in declared}
