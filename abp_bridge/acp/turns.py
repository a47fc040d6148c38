"""The turns of an ACP session, and the questions in its conversation.

The user is asked only inside a turn, and a question ends with it. A question in the conversation is
sent as a message, field by field; it ends the turn for the client, whose next prompt is the reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Field, Question
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import Id
from abp_bridge.protocols.acp.v1 import ChatReply, Meaning, encode_question, find_ambiguity
from abp_bridge.session.surface import (
    HostDisconnectedError,
    SurfaceResponse,
    SurfaceUnsupportedError,
    median,
)

OUTSIDE = "no prompt is running, and clients do not answer questions outside of one"


class Turns:
    """Told when prompts begin, are cancelled and end."""

    def __init__(self) -> None:
        self._prompts: set[Id] = set()
        self._cancelled: HostDisconnectedError | None = None
        self._asking: dict[
            anyio.CancelScope, HostDisconnectedError | None
        ] = {}  # each question, and what ended it
        self._shown = 0  # of them, that the client shows now
        self._changed: anyio.Event | None = None  # either of these two, which somebody waits for
        self._interrupted = anyio.Event()
        self._resumed = anyio.Event()
        self._resumed.set()

    def begin(self, prompt: Id) -> None:
        """Begin a prompt: the user can be asked."""
        self._prompts.add(prompt)
        self.resume()

    @property
    def is_interrupted(self) -> bool:
        """Whether the client takes the turn for ended, which goes on with its next prompt."""
        return not self._resumed.is_set()

    def interrupt(self) -> None:
        """End the turn for the client with a question; other questions wait until the reply."""
        if not self.is_interrupted:
            self._resumed = anyio.Event()
            self._interrupted.set()

    def resume(self) -> None:
        """The client has prompted again, and the turn goes on."""
        self._cancelled = None
        if self.is_interrupted:
            self._resumed.set()
            self._interrupted = anyio.Event()

    async def wait_interrupted(self) -> None:
        """Wait until the turn ends for the client, and is to go on."""
        await self._interrupted.wait()

    async def wait_quiet(self) -> None:
        """Wait until the turn runs, and nothing is shown in it that its end would take away."""
        while self._shown or self.is_interrupted:
            await (self._wait_change() if self._shown else self._resumed.wait())

    def cancel(self, reason: str = "the user cancelled the turn") -> None:
        """What is asked is taken down, and nothing more is asked until the next prompt."""
        self._cancelled = HostDisconnectedError(reason, Outcome.CANCELLED)
        self._dismiss(self._cancelled)

    async def end(self, prompt: Id, reason: str) -> None:
        """End a prompt; after the last, return when no question is open: its response must come
        after.
        """
        self._prompts.discard(prompt)
        if not self._prompts:
            self._dismiss(HostDisconnectedError(reason))
            while self._asking:
                await self._wait_change()

    async def _wait_change(self) -> None:
        self._changed = self._changed or anyio.Event()
        await self._changed.wait()

    def _tell_change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _dismiss(self, why: HostDisconnectedError) -> None:
        for scope, ended in self._asking.items():
            self._asking[scope] = ended or why
            scope.cancel()

    @asynccontextmanager
    async def asking(self, *, in_chat: bool = False) -> AsyncIterator[None]:
        """Ask in this block, while a turn lasts; `in_chat` if the question itself ends the turn.

        Raises SurfaceUnsupportedError outside a turn, HostDisconnectedError when it ends first.
        """
        if not self._prompts:
            raise SurfaceUnsupportedError(OUTSIDE, lasting=False)
        if self._cancelled is not None:
            raise self._cancelled
        scope = anyio.CancelScope()
        self._asking[scope] = None
        try:
            with scope:
                if in_chat:
                    yield
                    return
                if self.is_interrupted:
                    await self._resumed.wait()
                self._count_shown(1)
                try:
                    yield
                    return
                finally:
                    self._count_shown(-1)
            ended = self._asking[scope]
        finally:
            del self._asking[scope]
            self._tell_change()
        assert ended is not None, "only a dismissal cancels this scope"
        raise ended

    def _count_shown(self, more: int) -> None:
        self._shown += more
        self._tell_change()


MAX_REPLIES = 10  # to one field: a program that prompts by itself never ends by itself

_OVER = "*This question is no longer open.*\n\n"
_NOT_EMPTY = "this cannot be left empty"
_OUTCOMES = {Meaning.DECLINED: Outcome.DECLINED, Meaning.CANCELLED: Outcome.CANCELLED}


class _Open:
    """A question that waits for a reply; `shown` is when the client had all of it (loop's clock,
    s).
    """

    def __init__(self) -> None:
        self.shown = now()
        self.seconds = 0.0
        self.reply: ChatReply | None = None
        self.replied = anyio.Event()


class Chat:
    """The questions in one conversation, one at a time.

    Args:
        turns: The turns of its session.
        say: Sends a message as the agent.
        on_change: Called when a question opens, and when none is open any more.
    """

    def __init__(
        self, turns: Turns, say: Callable[[str], None], on_change: Callable[[], None]
    ) -> None:
        self._turns = turns
        self._say = say
        self._on_change = on_change
        self._lock = anyio.Lock()
        self._open: _Open | None = None

    @property
    def is_open(self) -> bool:
        """Whether the next prompt is a reply."""
        return self._open is not None

    def on_shown(self, when: float) -> None:
        """Note that the last byte of the turn left at `when` (loop's clock, s)."""
        if self._open is not None:
            self._open.shown = when

    def take(self, reply: ChatReply, arrived: float) -> None:
        """Take the prompt that `arrived` (loop's clock, s) as the reply, and resume the turn."""
        opened, self._open = self._open, None
        assert opened is not None, "there is a question to reply to"
        opened.reply, opened.seconds = reply, max(0.0, arrived - opened.shown)
        opened.replied.set()
        self._on_change()
        self._turns.resume()

    async def show(self, question: Question, problem: str = "") -> SurfaceResponse:
        """Ask, field by field, each until the reply fits.

        Returns:
            What the person said, not validated as a whole; invalid after too many replies that did
            not fit.

        Raises:
            SurfaceUnsupportedError: No prompt runs.
            HostDisconnectedError: The turn ended first.
        """
        content, times = dict[str, JsonValue](), list[float]()
        async with self._turns.asking(in_chat=True), self._lock:
            for number in range(1, len(question.fields) + 1):
                outcome, given = await self._ask_field(question, number, problem, times)
                if outcome is not Outcome.ACCEPTED:
                    return SurfaceResponse(outcome, seconds=median(times))
                content |= given
                problem = ""
        return SurfaceResponse(Outcome.ACCEPTED, content, median(times))

    async def _ask_field(
        self, question: Question, number: int, problem: str, times: list[float]
    ) -> tuple[Outcome, dict[str, JsonValue]]:
        asked = question.fields[number - 1]
        for _ in range(MAX_REPLIES):
            reply = await self._next(encode_question(question, number, problem), times)
            if reply.meaning in _OUTCOMES:
                return _OUTCOMES[reply.meaning], {}
            content, problem = _read(question, asked, reply)
            if not problem:
                return Outcome.ACCEPTED, content
        return Outcome.INVALID, {}

    async def _next(self, words: str, times: list[float]) -> ChatReply:
        await self._turns.wait_quiet()
        self._say(words)
        opened = self._open = _Open()
        self._on_change()
        self._turns.interrupt()
        try:
            await opened.replied.wait()
        finally:
            if self._open is opened:  # nobody replied
                self._open = None
                self._say(_OVER)
                self._on_change()
        assert opened.reply is not None, "a reply is what is waited for"
        times.append(opened.seconds)
        return opened.reply


def _read(question: Question, asked: Field, reply: ChatReply) -> tuple[dict[str, JsonValue], str]:
    """Return a field's value from a reply, and the problem."""
    if reply.meaning is Meaning.UNREADABLE:
        return {}, reply.text
    is_empty = reply.meaning is Meaning.EMPTY
    if is_empty and asked.required:
        return {}, _NOT_EMPTY
    if problem := find_ambiguity(asked, reply.text):
        return {}, problem
    one = replace(question, fields=(asked,))
    content, problems = validate_answer(one, {} if is_empty else {asked.name: reply.text})
    return content, "; ".join(problems)
