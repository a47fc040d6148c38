"""Answers the questions of a server (elicitation, sampling) exactly once.

Many servers go ahead after an error or the end of their input. So an elicitation is never answered
with an error, and open ones get `cancel` before the server's input is closed. Sampling that no
model answers is an error, as in MCP.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, as_object, as_text, is_deeper
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.protocol import MAX_DEPTH, Id, dump, is_id

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question
    from abp_bridge.core.surface import UnaskedQuestion
    from abp_bridge.jsonrpc.connection import JsonRpcConnection
    from abp_bridge.jsonrpc.multiplex import SharedWriter
    from abp_bridge.mcp.proxy.calls import Calls
    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

MAX_OPEN = 100  # questions of the server's at once: each holds a task and a card
KEEPALIVE_INTERVAL = 20.0  # seconds between reports to a server that counts its person's time

ELICITATION, SAMPLING = "elicitation/create", "sampling/createMessage"


@dataclass(slots=True)
class _OpenQuestion:
    """An open question, and the calls it may belong to."""

    method: str
    scope: anyio.CancelScope
    calls: Sequence[str]
    tools: Sequence[str]
    harmless: bool
    link: str = ""  # its elicitationId, where it is one


class ServerQuestions:
    """The questions of one server.

    Args:
        writer: The server's input, shared with the lines that pass.
        origin: Makes the server's name for the user.
        keepalive_interval: Seconds between reports to a server that gave a progress token.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        writer: SharedWriter,
        *,
        elicitor: ElicitorApi,
        calls: Calls,
        tasks: TaskGroup,
        origin: Callable[[], str],
        keepalive_interval: float = KEEPALIVE_INTERVAL,
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._elicitor = elicitor
        self._calls = calls
        self._tasks = tasks
        self._origin = origin
        self._keepalive_interval = keepalive_interval
        self._open: dict[Id, _OpenQuestion] = {}
        self._serial = 0
        self._ended = False

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return bool(self._open)

    async def take(self, id: Id, method: str, params: JsonObject) -> None:
        """Ask a question in a task; waits only while the server reads no answers."""
        if id in self._open:
            logger.warning("the server asks twice with the id %s: only once it is answered", id)
            return
        too_many = f"{MAX_OPEN} of its questions are open" if len(self._open) >= MAX_OPEN else ""
        too_deep = "it is nested too deeply" if is_deeper(params, MAX_DEPTH) else ""
        ended = "its host has left" if self._ended else ""
        if problem := ended or too_many or too_deep:
            self._send_answer(id, self._refuse(method, problem))
            await self._connection.sent()
            return
        link = as_text(params.get("elicitationId")) if params.get("mode") == "url" else ""
        self._open[id] = question = _OpenQuestion(
            method,
            anyio.CancelScope(),
            self._calls.calls_in_flight(),
            self._calls.tools_called(),
            self._calls.are_harmless(),
            link,
        )
        self._tasks.start_soon(self._handle, id, params, question)

    def is_open(self, id: Id) -> bool:
        """Whether the server waits for our answer with this id."""
        return id in self._open

    def withdraw(self, id: Id) -> bool:
        """Drop a question that the server cancelled; False if it was not open."""
        question = self._open.pop(id, None)
        if question is not None:
            question.scope.cancel()
        return question is not None

    def withdraw_call(self, call: str) -> None:
        """Cancel the questions that belong only to this call."""
        others = self._calls.calls_in_flight()
        for question in self._open.values():
            if call in question.calls and set(question.calls).isdisjoint(others):
                question.scope.cancel()

    def complete(self, elicitation: str) -> None:
        """Cancel the question about an address that the server says was visited."""
        for question in self._open.values():
            if elicitation and question.link == elicitation:
                question.scope.cancel()

    def cancel_all(self) -> None:
        """Cancel all questions at once."""
        self._ended = True
        for id, question in self._open.items():
            question.scope.cancel()
            self._writer.write_last(_encode(id, _ended(question.method, "its host has left")))
        self._open.clear()

    def _send_answer(self, id: Id, response: JsonObject) -> None:
        self._connection.send_line(_encode(id, response))

    async def _handle(self, id: Id, params: JsonObject, asked: _OpenQuestion) -> None:
        response = _ended(asked.method, "the question was taken back, or asking it failed")
        keepalive: anyio.CancelScope | None = None
        if is_id(token := as_object(params.get("_meta")).get("progressToken")):
            keepalive = anyio.CancelScope()
            self._tasks.start_soon(self._send_keepalive_progress, token, keepalive)
        try:
            with asked.scope:
                response = await self._resolve(params, asked)
        except Exception:
            logger.exception("a question of the server's is cancelled: asking it failed")
        if keepalive is not None:
            keepalive.cancel()
        if self._open.get(id) is asked:  # else it was taken back, or all has ended
            del self._open[id]
            self._send_answer(id, response)

    async def _resolve(self, params: JsonObject, asked: _OpenQuestion) -> JsonObject:
        """Return the result or error for a request with these parameters."""
        from abp_bridge.session.context import AskContext  # once needed

        self._serial += 1
        try:
            question = self._decode(params, asked)
        except RemoteProtocolError as problem:
            return self._refuse(asked.method, f"{problem}")
        context = AskContext(calls=tuple(asked.calls), tools=tuple(asked.tools))
        answer = await self._elicitor.resolve(question, context)
        self._note(asked.method, question, answer)
        return _encode_answer(asked.method, question, answer)

    def _decode(self, params: JsonObject, asked: _OpenQuestion) -> Question:
        id, origin = f"server-{self._serial}", self._origin()
        if asked.method == SAMPLING:
            from abp_bridge.protocols.mcp.sampling import decode_sampling  # once needed

            return decode_sampling(params, id=id, origin=origin)
        from abp_bridge.protocols.mcp.server_elicitation import decode_question

        destructive = not asked.harmless
        return decode_question(params, id=id, origin=origin, destructive=destructive)

    def _refuse(self, method: str, problem: str) -> JsonObject:
        """Return the response to an invalid question."""
        logger.warning("a question of the server's is not asked (%s): %s", method, problem)
        self._calls.note(_tell(method, problem))
        return _ended(method, problem)

    def _note(self, method: str, question: Question, answer: Answer) -> None:
        """Add a note to the calls if no one answered: a cancel looks like the user's."""
        from abp_bridge.core.surface import describe_unasked

        if answer.unanswered:
            logger.warning("nobody answered what the server asked: %s", answer.reason)
            words = _tell(method, answer.reason or "What came back did not fit.")
            self._calls.note("\n".join([words, *describe_unasked(_unasked(question, answer))]))

    async def _send_keepalive_progress(self, token: Id, keepalive: anyio.CancelScope) -> None:
        with keepalive:
            for reports in count(1):
                await anyio.sleep(self._keepalive_interval)
                params: JsonObject = {"progressToken": token, "progress": reports}
                self._connection.notify("notifications/progress", params, key=("progress", token))


def _unasked(question: Question, answer: Answer) -> list[UnaskedQuestion]:
    from abp_bridge.core.surface import UnaskedQuestion  # once needed

    tried = answer.tried or (answer.reason,)
    asked = UnaskedQuestion(question.summary, question.asker, tried, answer.ways)
    return [asked] if answer.unasked else []


def _encode(id: Id, response: JsonObject) -> bytes:
    return dump({"jsonrpc": "2.0", "id": id, **response})


def _encode_answer(method: str, question: Question, answer: Answer) -> JsonObject:
    if method == SAMPLING:
        from abp_bridge.core.outcome import Outcome
        from abp_bridge.protocols.mcp.sampling import encode_sampled

        if answer.outcome is Outcome.ACCEPTED:
            return {"result": encode_sampled(answer)}
        return _ended(method, answer.reason or answer.outcome.value)
    from abp_bridge.protocols.mcp.server_elicitation import encode_answer

    return {"result": encode_answer(question, answer)}


def _ended(method: str, why: str) -> JsonObject:
    """Return the response to a question that no one answered."""
    if method == SAMPLING:
        from abp_bridge.protocols.mcp.sampling import encode_refused

        return {"error": encode_refused(f"no model answered: {why}")}
    return {"result": {"action": "cancel"}}


def _tell(method: str, reason: str) -> str:
    words = "this server asked its user something, nobody answered, and it was told 'cancel'."
    if method == SAMPLING:
        words = "this server asked a model something, none answered, and it was told so."
    return f"abp-bridge: {words} {label(reason, 1_000)}"
