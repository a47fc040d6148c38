"""A call that outlives its host's requests, and the questions for a stateless host.

`tool_calls.py` decides how long requests wait and how long a call is kept.
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
from abp_bridge.protocols.mcp.revisions import MAX_ROUNDS
from abp_bridge.session.surface import RouteChangedError

if TYPE_CHECKING:
    from abp_bridge.core.ledger import Progress
    from abp_bridge.mcp.connection import HostRequest, RunningCall
    from abp_bridge.session.call import Call

# How a call ended, as the result of this request; raises RpcError for an error.
EncodeResult = Callable[["HostRequest"], JsonObject]


@dataclass(slots=True)
class PendingQuestion:
    """A question for the next round of a stateless host, and its answer.

    Attributes:
        need: The capability that shows it.
        shown: When its last byte first left, by the `peer_time` of the host's reader.
        answered: By the same clock.
        exact: Whether every round that showed it came back with all its answers.
        problem: Why there will be no answer.
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
        """End the question without an answer."""
        self.problem = problem
        self.done.set()


@dataclass(slots=True)
class ModelMessage:
    """What the model tells or asks its user before it waits again; `sent` once a result said it."""

    text: str
    asks: bool
    sent: bool = False
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject = field(default_factory=dict)


class PendingCall:
    """One call, which outlives the requests that wait for it.

    Args:
        has_wait: Whether the host can come back with `abp_wait`.

    Attributes:
        waiters: The requests that wait for it, the newest last.
        pending_progress: The newest report that came while no request waited.
        encode_result: Makes its result for a request, once it has ended.
    """

    def __init__(
        self, call: Call | RunningCall, request: HostRequest, *, has_wait: bool = True
    ) -> None:
        self.call = call
        self.has_wait = has_wait
        self.waiters: list[HostRequest] = []
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
        """The host as declared with the newest request."""
        return self._newest.client

    @property
    def has_rounds(self) -> bool:
        """Whether the newest request may still be answered with a question."""
        return self.has_wait or self._newest.round < MAX_ROUNDS

    @property
    def wants_progress(self) -> bool:
        """Whether the newest request has a progress token."""
        return self._newest.token is not None

    def attach(self, request: HostRequest) -> None:
        """Add a request that waits for this call. Reroute the questions it cannot show."""
        self._newest = request
        self.waiters.append(request)
        request.on_cancel = partial(self.give_up, request)
        for key, question in list(self.questions.items()):
            shows = decode_capabilities(request.client.capabilities, request.client.version)
            if not request.client.modern or not getattr(shows, question.need):
                del self.questions[key]
                question.fail(RouteChangedError())

    def detach(self, request: HostRequest) -> None:
        """Remove a request that no longer waits for this call."""
        self.waiters.remove(request)

    def give_up(self, request: HostRequest, reason: str) -> None:
        """Cancel the call if no other request waits for it."""
        if all(each is request for each in self.waiters):
            self.cancel_call(reason)

    def cancel_call(self, reason: str) -> None:
        """Cancel the call in the app."""
        self.abandoned = True
        self.call.cancel(reason)

    def deliver(self, answers: Mapping[str, JsonObject], arrived: float) -> None:
        """Take a host's answers, by key; `arrived` is in seconds of the loop's clock.

        Answers to questions that have ended or were never shown are ignored.
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

    def finish(self, encode_result: EncodeResult) -> None:
        """End the call; open questions are rerouted."""
        self.encode_result = encode_result
        self.fail_questions(RouteChangedError())

    def reroute_questions(self) -> None:
        """Reroute the open questions: the host has no more rounds."""
        for question in self.questions.values():
            question.fail(RouteChangedError())
        self.questions.clear()

    def fail_questions(self, problem: Exception) -> None:
        """Fail the open questions and all later ones."""
        self._gone = problem
        for question in self.questions.values():
            question.fail(problem)
        self.change()

    async def wait_for_round(self, method: str, params: JsonObject, need: str) -> Reply:
        """Put a question into the next round; return the answer and the seconds since it was shown.

        Args:
            need: The capability that the host must declare.

        Raises:
            HostTimeoutError: The host did not come back.
            RouteChangedError: The question needs another surface.
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
        """Add a text to the results that say the call continues; the first is sent at once."""
        self.model_messages[question] = message = ModelMessage(text, asks)
        with self.ask_person():
            self.change()
            try:
                yield message
            finally:
                if self.model_messages.get(question) is message:
                    del self.model_messages[question]

    def note_link(self, question: str, describe: Callable[[], str]) -> None:
        """Add what to say of a link that the host has closed, until `forget_link`."""
        self.links[question] = describe

    def forget_link(self, question: str) -> None:
        self.links.pop(question, None)

    def deliver_model_answer(self, question: str, answer: JsonObject) -> bool:
        """Take the answer that the model brought; False if it was not asked or has answered
        already.
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
        """Whether the model has a message that no result has carried yet."""
        return any(not message.sent for message in self.model_messages.values())

    @contextmanager
    def ask_person(self) -> Iterator[None]:
        """Count a question as open in front of the user while the block lasts."""
        self._count_prompts(1)
        try:
            yield
        finally:
            self._count_prompts(-1)

    def _count_prompts(self, more: int) -> None:
        self.open_prompts += more
        _wake([each for each, counts_prompts in self._watching.items() if counts_prompts])

    def change(self) -> None:
        """Wake the requests that wait for a change."""
        _wake(self._watching)

    async def changed(self, limit: float = float("inf"), *, counts_prompts: bool) -> None:
        """Wait at most `limit` seconds for a change; `counts_prompts` includes opened questions."""
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
    """Return None: no call takes questions to this host (`FindPending`)."""
    return None
