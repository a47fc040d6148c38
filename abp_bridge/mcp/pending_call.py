"""A call of an app's that its host only attaches to, and the questions that a modern host is to
take with it.

It knows who waits, and wakes them; `tool_calls.py` decides how long they wait, and how long a call
is kept that nobody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from abp_bridge.core.json_value import JsonObject
from abp_bridge.jsonrpc.connection import Reply
from abp_bridge.protocols.mcp.client import McpClientInfo, decode_capabilities
from abp_bridge.protocols.mcp.modern import MAX_ROUNDS
from abp_bridge.session.surface import RouteChangedError

if TYPE_CHECKING:
    from abp_bridge.core.ledger import Progress
    from abp_bridge.mcp.connection import ToolRequest
    from abp_bridge.session.call import Call

# How a call ended, as the result of this request; raises RpcError for an error.
EncodeResult = Callable[["ToolRequest"], JsonObject]


@dataclass(slots=True)
class PendingQuestion:
    """A question as a modern host is to get it, and what came of it.

    Attributes:
        request: Its method and its params.
        need: The capability that shows it.
        shown: When its last byte first left, by the `peer_time` of who reads the host.
        done: Set when there is an answer or a problem.
        answer: The host's, as it came.
        answered: When it came, by the same clock.
        exact: Whether each time that it was shown all that was shown with it was answered.
        problem: Why there will be none.
    """

    request: JsonObject
    need: str
    shown: float | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None
    answered: float = 0.0
    exact: bool = True
    problem: Exception | None = None

    def fail(self, problem: Exception) -> None:
        """There will be no answer, and why."""
        self.problem = problem
        self.done.set()


@dataclass(slots=True)
class ModelMessage:
    """What a model is to tell its user, or to ask of them, before it waits on.

    Attributes:
        text: The words.
        asks: Whether it is to bring an answer back.
        sent: Whether a result has said it.
        answered: Set when there is an answer.
        answer: What it brought back, where it was to ask.
    """

    text: str
    asks: bool
    sent: bool = False
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject = field(default_factory=dict)


class RunningCall:
    """A call that a `PendingCall` attaches a host to, where it is not a `session.host.Call`."""

    id: str

    async def wait_idle(self) -> None:
        """Wait until the questions asked at the same time are on their way."""
        raise NotImplementedError

    def cancel(self, reason: str) -> None:
        """Cancel the call: no request waits for it any more."""
        raise NotImplementedError


class PendingCall:
    """One call, which outlives the requests that wait for it.

    Args:
        call: The call of the app.
        request: The request that began it.
        has_wait: Whether its host can come back with `abp_wait`, and its model be told things
            meanwhile.

    Attributes:
        waiters: The requests that wait for it now, the newest last.
        questions: Those that wait to be taken to the host, by key.
        pending_progress: The newest report, where it came while nobody waited.
        encode_result: What makes its result for a request, once it is over.
    """

    def __init__(
        self, call: Call | RunningCall, request: ToolRequest, *, has_wait: bool = True
    ) -> None:
        self.call = call
        self.has_wait = has_wait
        self.waiters: list[ToolRequest] = []
        self.questions: dict[str, PendingQuestion] = {}
        self.pending_progress: Progress | None = None
        self.model_messages: dict[str, ModelMessage] = {}  # by question
        self.links: dict[str, Callable[[], str]] = {}  # how their pages are, by question
        self.open_prompts = 0  # questions that are in front of the person, however they got there
        self.input_requests = 0  # questions that were ever to go with a round
        self.encode_result: EncodeResult | None = None
        self.resumable = False  # the host was told how to come back
        self.abandoned = False  # nobody wants it any more
        self._newest = request
        self._gone: Exception | None = None  # why nobody can be asked any more
        # Who waits for a change, and whether one of the open prompts is any to them.
        self._watching: dict[asyncio.Future[None], bool] = {}

    # --- the host ---

    @property
    def client(self) -> McpClientInfo:
        """The host as it showed itself with the newest request for this call."""
        return self._newest.client

    @property
    def has_rounds(self) -> bool:
        """Whether the newest request for this call may still be answered with a question."""
        return self.has_wait or self._newest.round < MAX_ROUNDS

    @property
    def wants_progress(self) -> bool:
        """Whether the newest request for this call wants to hear how far it is."""
        return self._newest.token is not None

    def attach(self, request: ToolRequest) -> None:
        """Add a request that waits for this call. Reroute the questions it cannot show."""
        self._newest = request
        self.waiters.append(request)
        request.on_cancel = partial(self.give_up, request)
        for key, question in list(self.questions.items()):
            shows = decode_capabilities(request.client.capabilities, request.client.version)
            if not request.client.modern or not getattr(shows, question.need):
                del self.questions[key]
                question.fail(RouteChangedError())

    def detach(self, request: ToolRequest) -> None:
        """Remove a request that no longer waits for this call."""
        self.waiters.remove(request)

    def give_up(self, request: ToolRequest, reason: str) -> None:
        """This request waits no more, and wants no answer: without another one, nobody does."""
        if all(each is request for each in self.waiters):
            self.cancel(reason)

    def cancel(self, reason: str) -> None:
        """Nobody wants the call any more: the app is told why."""
        self.abandoned = True
        self.call.cancel(reason)

    def deliver(self, answers: Mapping[str, JsonObject], arrived: float) -> None:
        """What a host brought, which `arrived` then (seconds of the loop's clock).

        What is not asked any more, or was never shown, is nobody's question.
        """
        shown = {key: each for key, each in self.questions.items() if each.shown is not None}
        is_complete = shown.keys() <= answers.keys()
        for key, question in shown.items():
            question.exact &= is_complete
            if key in answers:
                del self.questions[key]
                question.answer, question.answered = answers[key], arrived
                question.done.set()

    # --- the app ---

    def end(self, encode_result: EncodeResult) -> None:
        """The call is over: what is still asked goes nowhere."""
        self.encode_result = encode_result
        self.fail_questions(RouteChangedError())

    def reroute_questions(self) -> None:
        """This host is asked no more within this call: what is asked has to find another way."""
        for question in self.questions.values():
            question.fail(RouteChangedError())
        self.questions.clear()

    def fail_questions(self, problem: Exception) -> None:
        """Nobody will answer here what is asked, now or later."""
        self._gone = problem
        for question in self.questions.values():
            question.fail(problem)
        self.change()

    async def wait_for_round(self, method: str, params: JsonObject, need: str) -> Reply:
        """Put a question into the next round: what came back, and in how many seconds since it was
        first shown.

        Args:
            method: Of the request that asks.
            params: Its parameters.
            need: The capability that the host must declare to be asked so.

        Raises:
            HostTimeoutError: Nobody came back with an answer.
            RouteChangedError: The question has to go another way.
        """
        if self._gone is not None:
            raise self._gone
        self.input_requests += 1
        key = f"q{self.input_requests}"
        self.questions[key] = question = PendingQuestion({"method": method, "params": params}, need)
        self.change()
        try:
            await question.done.wait()
        finally:
            self.questions.pop(key, None)
        if question.answer is None or question.shown is None:
            assert question.problem is not None
            raise question.problem
        return Reply(question.answer, max(0.0, question.answered - question.shown), question.exact)

    @contextmanager
    def tell_model(self, question: str, text: str, *, asks: bool = False) -> Iterator[ModelMessage]:
        """For as long as this lasts, results of the call that say it goes on say this too; the
        first of them goes at once.
        """
        self.model_messages[question] = message = ModelMessage(text, asks)
        with self.ask_person():
            self.change()
            try:
                yield message
            finally:
                if self.model_messages.get(question) is message:
                    del self.model_messages[question]

    def note_link(self, question: str, describe: Callable[[], str]) -> None:
        """The host has taken its link down, and the page has no answer: results that say that the
        call goes on say that too, until `forget_link`.
        """
        self.links[question] = describe

    def forget_link(self, question: str) -> None:
        """The question has ended."""
        self.links.pop(question, None)

    def deliver_model_answer(self, question: str, answer: JsonObject) -> bool:
        """The model came back with its user's answer; False when it was not to ask that, or has
        brought one already.
        """
        message = self.model_messages.get(question)
        if message is None or not message.asks or not message.sent:
            return False
        del self.model_messages[question]
        message.answer = answer
        message.answered.set()
        return True

    @property
    def has_unsent_messages(self) -> bool:
        """Whether the model is to say something that no result has said yet."""
        return any(not message.sent for message in self.model_messages.values())

    @contextmanager
    def ask_person(self) -> Iterator[None]:
        """For as long as this lasts, a question is in front of the person."""
        self._count_prompts(1)
        try:
            yield
        finally:
            self._count_prompts(-1)

    def _count_prompts(self, more: int) -> None:
        self.open_prompts += more
        _wake([each for each, counts_prompts in self._watching.items() if counts_prompts])

    def change(self) -> None:
        """Something about this call is not as it was: whoever waits looks again."""
        _wake(self._watching)

    async def changed(self, limit: float = float("inf"), *, counts_prompts: bool) -> None:
        """Wait until something about this call changes, for `limit` seconds at most;
        `counts_prompts`, also until a question gets in front of the person, or is there no more.
        """
        loop = asyncio.get_running_loop()
        self._watching[changed := loop.create_future()] = counts_prompts
        timer = loop.call_later(limit, self.change)  # far cheaper than a scope, in each call
        try:
            await changed
        finally:
            timer.cancel()
            del self._watching[changed]


def _wake(watching: Iterable[asyncio.Future[None]]) -> None:
    for each in watching:
        if not each.done():
            each.set_result(None)


# Of these calls, the one that can take a question to the host.
FindPending = Callable[[Sequence[str]], PendingCall | None]


def find_no_call(calls: Sequence[str]) -> PendingCall | None:
    """None takes a question along (`FindPending`)."""
    return None
