"""Answers the questions of a server (elicitation, sampling, addresses) exactly once.

Many servers go ahead after an error or the end of their input. So an elicitation is never answered
with an error, and open ones get `cancel` before the server's input is closed. Sampling that no
model answers is an error, as in MCP.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, as_text, is_deeper
from abp_bridge.core.sanitize import LINE_LIMIT, label
from abp_bridge.errors import RemoteProtocolError, describe_bug
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import INVALID_REQUEST, MAX_DEPTH, Id, RpcError
from abp_bridge.mcp.proxy.calls import note

if TYPE_CHECKING:
    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question
    from abp_bridge.mcp.proxy.calls import Calls, ProxyCall
    from abp_bridge.session.context import AskContext
    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

MAX_OPEN = 100  # questions of the server at once: each holds a task and a card
MAX_LINKS = 10  # of one error: nobody goes to more places for one call

ELICITATION, SAMPLING = "elicitation/create", "sampling/createMessage"
_STAYED = (
    "abp-bridge: this server needs its user to open an address first, and they did not go there."
)
_LEFT = "its host has left"
_TIMED_OUT = re.compile(r"timed?[ -]?out", re.IGNORECASE)  # as SDKs give it as a reason


@dataclass(slots=True, eq=False)
class _Open:
    """An open question, and the calls that it may belong to."""

    calls: Sequence[ProxyCall]
    link: str  # its elicitationId
    request: Id | None = None
    since: float = field(default_factory=now)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_completed: bool = False  # the server says that the user was there


class ServerQuestions:
    """The questions of one server.

    Args:
        origin: Makes the server's name for the user.
    """

    def __init__(self, elicitor: ElicitorApi, calls: Calls, origin: Callable[[], str]) -> None:
        self._elicitor = elicitor
        self._calls = calls
        self._origin = origin
        self._open: list[_Open] = []
        self._serial = count(1)
        self._ended = False
        self._patience: float | None = None  # seconds after which the server gave a question up

    async def ask(
        self,
        method: str,
        params: JsonObject,
        calls: Sequence[ProxyCall],
        request: Id | None = None,
    ) -> JsonObject:
        """Ask the user, or a model of the user's; return the server's result.

        Args:
            request: The id of the server's request, where it is one.

        Raises RpcError where no model answered.
        """
        if problem := self._find_obstacle(params):
            return self._refuse(method, problem, calls)
        link = as_text(params.get("elicitationId")) if params.get("mode") == "url" else ""
        self._open.append(asked := _Open(calls, link, request))
        result: JsonObject | None = None
        try:
            with asked.scope:
                result = await self._resolve(method, params, calls)
        except RemoteProtocolError as problem:
            return self._refuse(method, f"{problem}", calls)
        except RpcError:
            raise
        except Exception:  # whatever it is: the server gets its cancel
            logger.exception("a question of the server is cancelled: asking it failed")
        finally:
            self._open.remove(asked)
        if asked.is_completed:
            from abp_bridge.protocols.mcp.server_elicitation import encode_completed

            return encode_completed()
        return _nobody(method, "the question is no longer open") if result is None else result

    def _find_obstacle(self, params: JsonObject) -> str:
        if self._ended:
            return _LEFT
        if len(self._open) >= MAX_OPEN:
            return f"{MAX_OPEN} of its questions are open"
        return "it is nested too deeply" if is_deeper(params, MAX_DEPTH) else ""

    async def _resolve(
        self, method: str, params: JsonObject, calls: Sequence[ProxyCall]
    ) -> JsonObject:
        from abp_bridge.core.outcome import Outcome  # once needed
        from abp_bridge.protocols.mcp.sampling import decode_sampling, encode_sampled
        from abp_bridge.protocols.mcp.server_elicitation import decode_question, encode_answer

        id, origin = f"server-{next(self._serial)}", self._origin()
        if method == SAMPLING:
            question = decode_sampling(params, id=id, origin=origin)
        else:
            destructive = not self._calls.are_harmless(calls)
            question = decode_question(params, id=id, origin=origin, destructive=destructive)
        answer = await self._elicitor.resolve(question, self._context(calls))
        self._note(method, question, answer, calls)
        if method == ELICITATION:
            return encode_answer(question, answer)
        if answer.outcome is Outcome.ACCEPTED:
            return encode_sampled(answer)
        return _nobody(method, answer.reason or answer.outcome.value)

    async def visit(self, links: Sequence[JsonObject], calls: Sequence[ProxyCall]) -> None:
        """Send the user to each address in turn; RpcError, in words for a model, if they do not
        go. The model never reads an address: it may have a token.
        """
        problem = ""
        if not 0 < len(links) <= MAX_LINKS:
            problem = f"It named {len(links)} of them."
        for each in () if problem else links:
            self._open.append(asked := _Open(calls, as_text(each.get("elicitationId"))))
            problem = "The call was cancelled."
            try:
                with asked.scope:
                    problem = await self._find_absence(each, calls)
            except Exception as bug:  # whatever it is: the call ends with the reason
                logger.exception("the user is not sent to an address: asking them failed")
                problem = describe_bug(bug)
            finally:
                self._open.remove(asked)
            if asked.is_completed:
                problem = ""
            elif problem:
                break
        if problem:
            raise RpcError(INVALID_REQUEST, f"{_STAYED} {label(problem, 1_000)}")

    async def _find_absence(self, link: JsonObject, calls: Sequence[ProxyCall]) -> str:
        """Return why the user did not go to an address, or ""."""
        from abp_bridge.core.outcome import Outcome  # once needed
        from abp_bridge.protocols.mcp.server_elicitation import decode_link, server_outcome

        if self._ended:
            return f"{_LEFT}."
        try:
            id = f"visit-{next(self._serial)}"
            question = decode_link(link, id=id, origin=self._origin())
        except RemoteProtocolError as problem:
            return f"{problem}"
        answer = await self._elicitor.resolve(question, self._context(calls))
        if server_outcome(question, answer) is Outcome.ACCEPTED:
            return ""
        return answer.reason or f"They answered: {answer.outcome.value}."

    def end_call(self, call: ProxyCall) -> None:
        """Cancel the questions that belong to no other open call."""
        others = self._calls.open.values()
        for question in self._open:
            if call in question.calls and not any(each in others for each in question.calls):
                question.scope.cancel()

    def complete(self, elicitation: str) -> None:
        """The server says that the user has been at the address of this elicitationId."""
        for question in self._open:
            if elicitation and question.link == elicitation:
                question.is_completed = True
                question.scope.cancel()

    def note_withdrawal(self, request: Id, reason: str) -> None:
        """Say in the results that the server stopped waiting; promise its time from now on."""
        for question in self._open:
            if question.request != request:
                continue
            waited = now() - question.since
            if _TIMED_OUT.search(reason):
                self._patience = waited
            words = f"this server stopped waiting for its user's answer after {waited:.0f} s"
            said = f": {label(reason, 300)}" if reason else "."
            note(question.calls, f"abp-bridge: {words}{said}")

    def end(self) -> None:
        """Cancel all questions, and all later ones: the host has left."""
        self._ended = True
        for question in self._open:
            question.scope.cancel()

    def _context(self, calls: Sequence[ProxyCall]) -> AskContext:
        from abp_bridge.session.context import AskContext  # once needed

        ids, tools = (call.id for call in calls), (call.tool for call in calls if call.tool)
        return AskContext(calls=tuple(ids), tools=tuple(tools), timeout=self._patience)

    def _refuse(self, method: str, problem: str, calls: Sequence[ProxyCall]) -> JsonObject:
        """Return the result of a question that cannot be asked."""
        logger.warning("a question of the server is not asked (%s): %s", method, problem)
        note(calls, _tell(method, problem))
        return _nobody(method, problem)

    def _note(
        self, method: str, question: Question, answer: Answer, calls: Sequence[ProxyCall]
    ) -> None:
        """Add a note to the calls if no one answered: a cancel looks like the user's."""
        from abp_bridge.core.surface import UnaskedQuestion, describe_unasked

        if not answer.unanswered:
            return
        logger.warning("nobody answered what the server asked: %s", answer.reason)
        words = [_tell(method, answer.reason or "The answer was invalid.")]
        if answer.unasked:
            tried = answer.tried or (answer.reason,)
            unasked = UnaskedQuestion(question.summary, question.asker, tried, answer.ways)
            words += describe_unasked([unasked])
        note(calls, "\n".join(words))


def _nobody(method: str, why: str) -> JsonObject:
    """Return the result of a question that no one answered. Raises RpcError for sampling."""
    if method == ELICITATION:
        return {"action": "cancel"}
    from abp_bridge.protocols.mcp.sampling import NO_ANSWER

    raise RpcError(NO_ANSWER, label(f"no model answered: {why}", LINE_LIMIT))


def _tell(method: str, reason: str) -> str:
    words = "this server asked its user something, nobody answered, and it was told 'cancel'."
    if method == SAMPLING:
        words = "this server asked a model something, none answered, and it was told so."
    return f"abp-bridge: {words} {label(reason, 1_000)}"
