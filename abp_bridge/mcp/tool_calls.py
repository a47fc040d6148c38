"""Calls that outlive the requests that wait for them: who waits for which, how long, and how they
come back.

A `tools/call` only attaches its host to a call (`ToolRequest`); the call runs in the session
(`ParkedCall`). So a modern host can be asked (the request ends with the questions, and comes again
with the answers), and a host of either era whose patience ends gets a result that says how to come
back (`abp_wait`). What is asked or answered in between is kept, for as long as somebody may still
come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
import anyio.lowlevel

from abp_bridge.core.event import Progress
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.question import Kind
from abp_bridge.core.surface import describe_unasked
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import RpcError
from abp_bridge.mcp.parked_call import ParkableCall, ParkedCall, Pending
from abp_bridge.mcp.request_state import (
    InvalidRequestStateError,
    RequestState,
    RequestStateCodec,
    digest,
)
from abp_bridge.mcp.tool_request import ToolRequest
from abp_bridge.protocols.mcp.modern import (
    INVALID_PARAMS,
    MAX_ROUNDS,
    MISSING_CAPABILITY,
    encode_round,
)
from abp_bridge.protocols.mcp.results import encode_result, encode_text
from abp_bridge.session.host import CallOutcome, SessionError
from abp_bridge.session.surface import HostTimeoutError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

MAX_PARKED = 2_000  # calls that run, or that somebody was promised to find again
_COME_BACK = "come back to them with abp_wait, or wait a while."
_ANSWER_FIRST = (
    "they wait for the server, or for a person who was asked. Answer or cancel some of them first,"
    " then call again."
)
MAX_DELIVERED = 200  # parked calls that are over, whose result may be fetched again
MAX_ASKED = 20  # questions of one round
MAX_LISTED = 20  # calls that are named to who asks for one that is not there
GRACE = 1.0  # seconds for an app to do something about a question that nobody came back for
# Turns of the event loop until what an app has written has become a question here: one to see that
# the pipe has data, one to read it, one to ask it, and two to spare.
LOOP_TURNS = 5

# What a client must declare for an app's question of a kind: 2026-07-28 basic/index, -32021.
_NEEDS = {Kind.SAMPLING: "sampling"}
_FORM = "elicitation"


EndT = TypeVar("EndT")
Ended_co = TypeVar("Ended_co", covariant=True)


class Start(Protocol[Ended_co]):
    """Begins a call: `SessionApi.start`, with everything else given."""

    def __call__(
        self, *, on_progress: Callable[[Progress], None], on_end: Callable[[Ended_co], None]
    ) -> Awaitable[ParkableCall]:
        """The call, begun. Neither is called before that."""
        ...


@dataclass(slots=True)
class ToolTimeout:
    """How long a host waits for a call.

    Attributes:
        left: In seconds.
        paused_while_asking: Whether the time that a person is asked does not count.
    """

    left: float
    paused_while_asking: bool = False


class ToolCalls:
    """The calls of one session.

    Args:
        tasks: Where what nobody waits for is let go.
        limit: How long a call is kept that nobody waits for, in seconds.
        timeout_of: How long the host waits for the answer to a request.
        on_progress: Gets the progress of a call, for each request that waits for it.
        has_wait: Whether a host has `abp_wait` to come back with; without it, what is asked after
            the last round that it allows finds another way.

    Attributes:
        replaced_progress: How many reports gave way to a newer one before anybody came for them.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        *,
        limit: float,
        timeout_of: Callable[[ToolRequest], ToolTimeout],
        on_progress: Callable[[ToolRequest, Progress], None],
        has_wait: bool = True,
    ) -> None:
        self._tasks = tasks
        self._has_wait = has_wait
        self._limit = limit
        self._timeout_of = timeout_of
        self._on_progress = on_progress
        self.replaced_progress = 0
        self._parked: dict[str, ParkedCall] = {}
        self._starting = 0
        self._deadlines: dict[
            str, float
        ] = {}  # when the time ends of those that nobody waits for, the first to end first
        self._delivered: dict[str, None] = {}  # those whose result has been given, the oldest first
        self._expiring = False
        self._codec = RequestStateCodec()

    def find_parked(self, calls: Iterable[str]) -> ParkedCall | None:
        """Of these calls, the one that can take a question to the host: the first that somebody
        waits for, else the first there is.
        """
        found = [
            parked
            for call in calls
            if (parked := self._parked.get(call)) is not None
            and parked.has_rounds
            and parked.encode_result is None
            and not parked.abandoned
        ]
        return next((parked for parked in found if parked.waiters), next(iter(found), None))

    def identify_retry(self, request: ToolRequest, state: JsonValue) -> None:
        """Note on `request` which call its `requestState` names, if it is one."""
        if isinstance(state, str):
            with suppress(InvalidRequestStateError):
                request.state = self._codec.decode(state)
                request.parked = self._parked.get(request.state.call)

    def identify_wait(self, request: ToolRequest, call: JsonValue) -> None:
        """Note on `request` the call that it is to wait for."""
        if isinstance(call, str):
            request.parked = self._parked.get(call)

    async def begin(
        self,
        request: ToolRequest,
        start: Start[EndT],
        encode: Callable[[EndT, ToolRequest], JsonObject],
    ) -> JsonObject:
        """Start a call and wait for it: its result, or what it asks.

        Args:
            request: Who waits.
            start: Begins the call.
            encode: Makes the result of how it ended, for the request that waits then.

        Raises:
            SessionError: The call cannot begin, or too many are kept.
            RpcError: A modern client did not declare what the call needs.
        """
        if len(self._parked) + self._starting - len(self._delivered) >= MAX_PARKED:
            cure = _COME_BACK if self._has_wait else _ANSWER_FIRST
            raise SessionError(
                "RATE_LIMITED", f"{MAX_PARKED} calls are running or kept already; {cure}"
            )

        def on_progress(progress: Progress) -> None:
            for waiter in parked.waiters:
                self._on_progress(waiter, progress)
            if not parked.waiters:
                replaces = parked.pending_progress is not None and parked.wants_progress
                self.replaced_progress += replaces
                parked.pending_progress = progress

        def on_end(outcome: EndT) -> None:
            parked.end(partial(encode, outcome))

        self._starting += 1
        try:
            call = await start(on_progress=on_progress, on_end=on_end)
            parked = self._parked[call.id] = ParkedCall(call, request, has_wait=self._has_wait)
        finally:
            self._starting -= 1
        return await self._attend(parked, request)

    async def resume(
        self, request: ToolRequest, state: str, answers: Mapping[str, JsonObject]
    ) -> JsonObject:
        """A modern host comes back, with `answers` by the keys of the questions.

        Raises:
            RpcError: `state` is not this call's; a call is never begun again by mistake.
        """
        try:
            found = request.state or self._codec.decode(state)
        except InvalidRequestStateError:
            raise RpcError(
                INVALID_PARAMS, "this requestState was not made here, or was changed on its way"
            ) from None
        if found.digest != digest(request.tool, request.arguments):
            raise RpcError(
                INVALID_PARAMS,
                "this requestState belongs to a call of another tool, or with other arguments",
            )
        parked = self._parked.get(found.call)
        if parked is None:
            raise RpcError(
                INVALID_PARAMS,
                "this requestState is too old: its call is over. Call the tool again if it is still"
                " needed",
            )
        request.round = found.round
        parked.deliver(answers, request.first_byte_at)
        return await self._attend(parked, request)

    async def wait(self, request: ToolRequest, call: str) -> JsonObject:
        """Attach to a call that goes on, or get the result it is kept with.

        Raises:
            SessionError: There is no such call.
        """
        parked = self._parked.get(call)
        if parked is None:
            known = [
                *list(self._parked)[-MAX_LISTED:],
                *(["..."] if len(self._parked) > MAX_LISTED else []),
            ]
            raise SessionError(
                "UNKNOWN_CALL",
                f"There is no call {call[:80]!r} to come back to; there are"
                f" {', '.join(known) or 'none'}.",
            )
        parked.resumable = True
        return await self._attend(parked, request)

    async def answer(self, request: ToolRequest, question: str) -> JsonObject:
        """A model brings what its user said, and goes on waiting for the call that asked.

        Raises:
            SessionError: No such question waits for an answer.
        """
        for parked in list(self._parked.values()):
            if parked.deliver_model_answer(question, request.arguments):
                parked.resumable = True
                return await self._attend(parked, request)
        raise SessionError(
            "UNKNOWN_QUESTION",
            f"No question {question[:80]!r} waits for an answer of your user's. Each is answered"
            " once.",
        )

    async def _attend(self, parked: ParkedCall, request: ToolRequest) -> JsonObject:
        """Wait with the host for what comes first: the end, a question that it has to bring to its
        person, or the end of its patience.
        """
        parked.attach(request)
        request.parked = parked
        if parked.pending_progress is not None:
            self._on_progress(request, parked.pending_progress)
            parked.pending_progress = None
        self._deadlines.pop(parked.call.id, None)
        timeout = self._timeout_of(request)
        timeout.left -= now() - request.received_at
        try:
            while parked.encode_result is None:
                if not parked.has_rounds:
                    parked.reroute_questions()
                if request.client.modern and parked.pending:
                    await _gather_round(parked)
                    if parked.pending and parked.encode_result is None:
                        return self._ask_round(parked, request)
                elif timeout.left <= 0 or parked.has_unsent_messages:
                    return _encode_unfinished(parked, request)
                else:
                    await _watch(parked, timeout)
        except anyio.get_cancelled_exc_class():
            parked.give_up(request, "the host cancelled the call")
            raise
        finally:
            parked.waiters.remove(request)
            self._release(parked)
        return parked.encode_result(request)

    def _ask_round(self, parked: ParkedCall, request: ToolRequest) -> JsonObject:
        """What is asked, as far as one round takes it."""
        if request.round >= MAX_ROUNDS:
            return _encode_unfinished(parked, request)
        parked.resumable = True
        asked = dict(list(parked.pending.items())[:MAX_ASKED])
        request.on_sent = partial(_note_shown, [*asked.values()])
        state = RequestState(
            parked.call.id, digest(request.tool, request.arguments), request.round + 1
        )
        return encode_round(
            {key: pending.request for key, pending in asked.items()}, self._codec.encode(state)
        )

    # --- those that nobody waits for ---

    def _release(self, parked: ParkedCall) -> None:
        """A request is gone. What somebody was promised, and may still come back for, is kept."""
        id = parked.call.id
        if parked.waiters or id not in self._parked:
            return
        if parked.abandoned or (parked.encode_result is not None and not parked.resumable):
            self._forget(id)
            return
        if parked.encode_result is not None:
            self._delivered[id] = None
        while len(self._delivered) > MAX_DELIVERED:
            self._forget(next(iter(self._delivered)))
        self._deadlines[id] = now() + self._limit
        if not self._expiring:
            self._expiring = True
            self._tasks.start_soon(self._expire)

    async def _expire(self) -> None:
        while self._deadlines:
            id, deadline = next(iter(self._deadlines.items()))
            await anyio.sleep_until(deadline)
            if self._deadlines.get(id) == deadline:
                self._tasks.start_soon(self._abandon, self._parked[id])
                self._forget(id)
        self._expiring = False

    def _forget(self, id: str) -> None:
        for table in (self._deadlines, self._delivered, self._parked):
            table.pop(id, None)

    async def _abandon(self, parked: ParkedCall) -> None:
        """Nobody came back: the app is told so, by its question first, and then by the end of its
        call.
        """
        if parked.encode_result is None:
            reason = f"the host did not come back within {self._limit:g} s"
            parked.fail_questions(HostTimeoutError(reason))
            await anyio.sleep(GRACE)
            parked.cancel(reason)


def _note_shown(asked: Sequence[Pending], at: float) -> None:
    for pending in asked:
        pending.shown = pending.shown or at


async def _gather_round(parked: ParkedCall) -> None:
    """Questions that are asked together go together: wait until no more come, or as many as one
    round takes.
    """
    for _ in range(MAX_ASKED):
        asked = parked.input_requests
        await parked.call.wait_idle()
        for _ in range(LOOP_TURNS):
            await anyio.lowlevel.checkpoint()
        if parked.input_requests == asked:
            break


async def _watch(parked: ParkedCall, timeout: ToolTimeout) -> None:
    """Until something happens to the call, or the host's patience is over."""
    pauses = timeout.paused_while_asking
    if pauses and parked.open_prompts > len(
        parked.model_messages
    ):  # what only the model was told is no question that stops a clock
        await parked.changed(counts_prompts=True)
        return
    started = now()
    await parked.changed(timeout.left, counts_prompts=pauses)
    timeout.left -= now() - started


def _encode_unfinished(parked: ParkedCall, request: ToolRequest) -> JsonObject:
    parked.resumable = True
    state = "waits for an answer of the person's" if parked.open_prompts else "is still running"
    messages = list(parked.model_messages.values())
    for each in messages:
        each.sent = True
    after = "Then call" if messages else "Call"
    goes_on = (
        f'The call {parked.call.id} {state}; nothing is lost. {after} abp_wait with {{"call":'
        f' "{parked.call.id}"}} to go on waiting for its result. Do not call the tool again.'
    )
    links = [describe() for describe in parked.links.values()]
    words = "\n\n".join([*(each.text for each in messages), *links, goes_on])
    note: JsonObject = {"message": words, "call": parked.call.id}
    return encode_text(words, note=None if request.output_schema is None else note)


def encode_outcome(ended: CallOutcome, request: ToolRequest) -> JsonObject:
    """How an app's call ended, as a CallToolResult.

    Raises:
        RpcError: A modern client did not declare what the call needs.
    """
    if request.client.modern and (missing := _missing(ended, request)):
        words = "\n".join([str(ended.result.failure), *describe_unasked(ended.unasked)])
        raise RpcError(MISSING_CAPABILITY, words, {"requiredCapabilities": missing})
    return encode_result(
        ended.result,
        summary=ended.summary,
        files=ended.files,
        unasked=ended.unasked,
        version=request.client.version,
        promised=request.output_schema,
    )


def _missing(ended: CallOutcome, request: ToolRequest) -> dict[str, JsonValue]:
    """What the client would have had to declare, where the call failed for nothing else: the app
    only passed on that a question could not be asked.
    """
    failure = ended.result.failure
    if (
        failure is None
        or failure.code != "NOT_SUPPORTED"
        or ended.result.data is not None
        or ended.files
    ):
        return {}
    declared = (
        request.client.capabilities if isinstance(request.client.capabilities, Mapping) else {}
    )
    return {need: {} for kind in ended.refused if (need := _NEEDS.get(kind, _FORM)) not in declared}
