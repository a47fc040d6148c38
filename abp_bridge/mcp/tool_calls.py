"""Which requests wait for which calls, for how long, and how a host comes back.

A `tools/call` only attaches its host to a call (`PendingCall`). A stateless host gets the questions
as the result and retries with the answers; a host that cannot wait longer is told to call
`abp_wait`. A `requestState` is encrypted with a key of this process, so that no one can make one up
and answer for another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.lowlevel

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.ledger import Progress
from abp_bridge.core.question import Kind
from abp_bridge.core.surface import describe_unasked
from abp_bridge.errors import AbpBridgeError
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import RpcError
from abp_bridge.mcp.connection import HostRequest, RequestState, RunningCall
from abp_bridge.mcp.pending_call import PendingCall, PendingQuestion
from abp_bridge.protocols.mcp.results import encode_result, encode_text
from abp_bridge.protocols.mcp.revisions import (
    INVALID_PARAMS,
    MAX_ROUNDS,
    MISSING_CAPABILITY,
    encode_round,
)
from abp_bridge.session.host import CallOutcome, SessionError
from abp_bridge.session.surface import HostTimeoutError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    from abp_bridge.session.call import Call

MAX_CALLS = 2_000  # calls that run, or that somebody was promised to find again
_COME_BACK = "come back to them with abp_wait, or wait a while."
_ANSWER_FIRST = (
    "they wait for the server, or for a person who was asked. Answer or cancel some of them first,"
    " then call again."
)
MAX_DELIVERED = 200  # pending calls that are over, whose result may be fetched again
MAX_ASKED = 20  # questions of one round
MAX_LISTED = 20  # calls that are named to who asks for one that is not there
GRACE = 1.0  # seconds for an app to do something about a question that nobody came back for
# Turns of the event loop until what an app has written has become a question here: one to see that
# the pipe has data, one to read it, one to ask it, and two to spare.
LOOP_TURNS = 5

_NONCE = 12  # bytes
_PURPOSE = b"abp-bridge requestState"

# What a client must declare for an app's question of a kind: 2026-07-28 basic/index, -32021.
_NEEDS = {Kind.SAMPLING: "sampling"}
_FORM = "elicitation"


EndT = TypeVar("EndT")


# Starts a call with (on_progress, on_end), neither of which is called before it has returned.
Start = Callable[
    [Callable[[Progress], None], Callable[[EndT], None]], Awaitable["Call | RunningCall"]
]


@dataclass(slots=True)
class ToolTimeout:
    """How long a host waits: `left` in seconds, not counting questions if `paused_while_asking`."""

    left: float
    paused_while_asking: bool = False


class ToolCalls:
    """The calls of one session.

    Args:
        limit: Seconds that a call is kept which no request waits for.
        on_progress: Gets the progress of a call for each waiting request.
        has_wait: Whether the host has `abp_wait`; without it, questions after the last round are
            rerouted.

    Attributes:
        replaced_progress: How many reports a newer one replaced unseen.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        *,
        limit: float,
        timeout_of: Callable[[HostRequest], ToolTimeout],
        on_progress: Callable[[HostRequest, Progress], None],
        has_wait: bool = True,
    ) -> None:
        self._tasks = tasks
        self._has_wait = has_wait
        self._limit = limit
        self._timeout_of = timeout_of
        self._on_progress = on_progress
        self.replaced_progress = 0
        self._pending: dict[str, PendingCall] = {}
        self._starting = 0
        self._deadlines: dict[
            str, float
        ] = {}  # when the time ends of those that nobody waits for, the first to end first
        self._delivered: dict[str, None] = {}  # those whose result has been given, the oldest first
        self._expiring = False
        self._codec = RequestStateCodec()

    def find_pending(self, calls: Iterable[str]) -> PendingCall | None:
        """Return the call that can take a question to the host, an awaited one first."""
        found = [
            pending
            for call in calls
            if (pending := self._pending.get(call)) is not None
            and pending.has_rounds
            and pending.encode_result is None
            and not pending.abandoned
        ]
        return next((pending for pending in found if pending.waiters), next(iter(found), None))

    def identify_retry(self, request: HostRequest, state: JsonValue) -> None:
        """Note on `request` which call its `requestState` names."""
        if isinstance(state, str):
            with suppress(InvalidRequestStateError):
                request.state = self._codec.decode(state)
                self._note_call(request, request.state.call)

    def identify_wait(self, request: HostRequest, call: JsonValue) -> None:
        """Note on `request` the call that it will wait for."""
        if isinstance(call, str):
            self._note_call(request, call)

    def _note_call(self, request: HostRequest, call: str) -> None:
        if (pending := self._pending.get(call)) is not None:
            request.on_cancel = partial(pending.give_up, request)

    async def begin(
        self,
        request: HostRequest,
        start: Start[EndT],
        encode: Callable[[EndT, HostRequest], JsonObject],
    ) -> JsonObject:
        """Start a call and wait for its result or its questions.

        Args:
            encode: Makes the result for the request that waits at the end.

        Raises SessionError, or RpcError if a stateless client did not declare what the call needs.
        """
        if len(self._pending) + self._starting - len(self._delivered) >= MAX_CALLS:
            cure = _COME_BACK if self._has_wait else _ANSWER_FIRST
            raise SessionError(
                "RATE_LIMITED", f"{MAX_CALLS} calls are running or kept already; {cure}"
            )

        def on_progress(progress: Progress) -> None:
            for waiter in pending.waiters:
                self._on_progress(waiter, progress)
            if not pending.waiters:
                replaces = pending.pending_progress is not None and pending.wants_progress
                self.replaced_progress += replaces
                pending.pending_progress = progress

        def on_end(outcome: EndT) -> None:
            pending.finish(partial(encode, outcome))

        self._starting += 1
        try:
            call = await start(on_progress, on_end)
            pending = self._pending[call.id] = PendingCall(call, request, has_wait=self._has_wait)
        finally:
            self._starting -= 1
        return await self._attend(pending, request)

    async def resume(
        self, request: HostRequest, state: str, answers: Mapping[str, JsonObject]
    ) -> JsonObject:
        """Attach a stateless host that retries, with answers by key; RpcError for a bad `state`."""
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
        pending = self._pending.get(found.call)
        if pending is None or pending.abandoned:
            raise RpcError(
                INVALID_PARAMS,
                "this requestState is too old: its call is over. Call the tool again if it is still"
                " needed",
            )
        request.round = found.round
        pending.deliver(answers, request.first_byte_at)
        return await self._attend(pending, request)

    async def wait(self, request: HostRequest, call: str) -> JsonObject:
        """Attach to a call that continues, or return its kept result; SessionError if there is
        none.
        """
        pending = self._pending.get(call)
        if pending is None:
            known = [
                *list(self._pending)[-MAX_LISTED:],
                *(["..."] if len(self._pending) > MAX_LISTED else []),
            ]
            raise SessionError(
                "UNKNOWN_CALL",
                f"There is no call {call[:80]!r} to come back to; there are"
                f" {', '.join(known) or 'none'}.",
            )
        pending.resumable = True
        return await self._attend(pending, request)

    async def answer_question(self, request: HostRequest, question: str) -> JsonObject:
        """Deliver the model's answer to `question`, and wait for its call."""
        for pending in list(self._pending.values()):
            if pending.deliver_model_answer(question, request.arguments):
                pending.resumable = True
                return await self._attend(pending, request)
        raise SessionError(
            "UNKNOWN_QUESTION",
            f"No question {question[:80]!r} waits for an answer of your user's. Each is answered"
            " once.",
        )

    async def _attend(self, pending: PendingCall, request: HostRequest) -> JsonObject:
        """Wait for the end, for questions to show, or for the host's timeout."""
        pending.attach(request)
        if pending.pending_progress is not None:
            self._on_progress(request, pending.pending_progress)
            pending.pending_progress = None
        self._deadlines.pop(pending.call.id, None)
        timeout = self._timeout_of(request)
        timeout.left -= now() - request.received_at
        try:
            while pending.encode_result is None:
                if not pending.has_rounds:
                    pending.reroute_questions()
                if request.client.modern and pending.questions:
                    await _gather_round(pending)
                    if pending.questions and pending.encode_result is None:
                        return self._ask_round(pending, request)
                elif timeout.left <= 0 or pending.has_unsent_messages:
                    return _encode_unfinished(pending, request)
                else:
                    await _watch(pending, timeout)
        except anyio.get_cancelled_exc_class():
            pending.give_up(request, "the host cancelled the call")
            raise
        finally:
            pending.detach(request)
            if not pending.waiters:
                self._keep_or_forget(pending)
        return pending.encode_result(request)

    def _ask_round(self, pending: PendingCall, request: HostRequest) -> JsonObject:
        """Return the questions that fit into one round."""
        if request.round >= MAX_ROUNDS:
            return _encode_unfinished(pending, request)
        pending.resumable = True
        asked = dict(list(pending.questions.items())[:MAX_ASKED])
        request.on_sent = partial(_note_shown, [*asked.values()])
        state = RequestState(
            pending.call.id, digest(request.tool, request.arguments), request.round + 1
        )
        return encode_round(
            {key: question.request for key, question in asked.items()}, self._codec.encode(state)
        )

    # --- those that nobody waits for ---

    def _keep_or_forget(self, pending: PendingCall) -> None:
        """Keep a call that no request waits for, if its host was told how to come back."""
        id = pending.call.id
        if id not in self._pending:
            return
        if pending.abandoned or (pending.encode_result is not None and not pending.resumable):
            self._forget(id)
            return
        if pending.encode_result is not None:
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
                self._tasks.start_soon(self._abandon, self._pending[id])
                self._forget(id)
        self._expiring = False

    def _forget(self, id: str) -> None:
        for table in (self._deadlines, self._delivered, self._pending):
            table.pop(id, None)

    async def _abandon(self, pending: PendingCall) -> None:
        """Fail the questions of a call that the host did not come back to, then cancel it."""
        if pending.encode_result is None:
            reason = f"the host did not come back within {self._limit:g} s"
            pending.fail_questions(HostTimeoutError(reason))
            await anyio.sleep(GRACE)
            pending.cancel_call(reason)


def _note_shown(asked: Sequence[PendingQuestion], at: float) -> None:
    for question in asked:
        question.shown = question.shown or at


async def _gather_round(pending: PendingCall) -> None:
    """Wait until no more questions come, or one round is full."""
    for _ in range(MAX_ASKED):
        asked = pending.input_requests
        await pending.call.wait_idle()
        for _ in range(LOOP_TURNS):
            await anyio.lowlevel.checkpoint()
        if pending.input_requests == asked:
            break


async def _watch(pending: PendingCall, timeout: ToolTimeout) -> None:
    """Wait for a change of the call, or for the host's timeout."""
    pauses = timeout.paused_while_asking
    if pauses and pending.open_prompts > len(
        pending.model_messages
    ):  # what only the model was told is no question that stops a clock
        await pending.changed(counts_prompts=True)
        return
    started = now()
    await pending.changed(timeout.left, counts_prompts=pauses)
    timeout.left -= now() - started


def _encode_unfinished(pending: PendingCall, request: HostRequest) -> JsonObject:
    pending.resumable = True
    state = "waits for an answer of the person's" if pending.open_prompts else "is still running"
    messages = list(pending.model_messages.values())
    for each in messages:
        each.sent = True
    after = "Then call" if messages else "Call"
    goes_on = (
        f'The call {pending.call.id} {state}; nothing is lost. {after} abp_wait with {{"call":'
        f' "{pending.call.id}"}} to go on waiting for its result. Do not call the tool again.'
    )
    links = [describe() for describe in pending.links.values()]
    words = "\n\n".join([*(each.text for each in messages), *links, goes_on])
    note: JsonObject = {"message": words, "call": pending.call.id}
    return encode_text(words, note=None if request.output_schema is None else note)


def encode_outcome(ended: CallOutcome, request: HostRequest) -> JsonObject:
    """Return a CallToolResult; RpcError if a stateless client did not declare what it needs."""
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


def _missing(ended: CallOutcome, request: HostRequest) -> dict[str, JsonValue]:
    """Return the undeclared capabilities, if the call failed only for them."""
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


# --- requestState ---


class InvalidRequestStateError(AbpBridgeError):
    """Another process made this `requestState`, or it was changed."""


def digest(tool: str, arguments: JsonObject) -> str:
    """Return a short hash of the tool and its arguments."""
    made = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(made.encode(errors="surrogatepass"), digest_size=16).hexdigest()


class RequestStateCodec:
    """Encrypts and decrypts `requestState` with a key of this session."""

    @cached_property
    def _cipher(self) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(ChaCha20Poly1305.generate_key())

    def encode(self, state: RequestState) -> str:
        nonce = os.urandom(_NONCE)
        sealed = self._cipher.encrypt(nonce, json.dumps(astuple(state)).encode(), _PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def decode(self, text: str) -> RequestState:
        """Decrypt a text of `encode`; InvalidRequestStateError for any other."""
        from cryptography.exceptions import InvalidTag

        try:
            data = base64.b64decode(text, altchars=b"-_", validate=True)
            return RequestState(
                *json.loads(self._cipher.decrypt(data[:_NONCE], data[_NONCE:], _PURPOSE))
            )
        except (ValueError, binascii.Error, InvalidTag):
            raise InvalidRequestStateError from None
