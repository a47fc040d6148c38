"""A question that the host's own model asks its person: a call in which no app has a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import anyio.lowlevel

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Question
from abp_bridge.protocols import abp
from abp_bridge.session.call import Call
from abp_bridge.session.context import AskContext
from abp_bridge.session.elicitor import Elicitor


class OwnQuestion:
    """Implements `Callee`: the answer is the result of its call.

    Args:
        question: What is asked.
        elicitor: Puts it to the user.
        calls: The session's own calls by their ids: one hears of the question that it asks.
    """

    def __init__(
        self,
        question: Question,
        elicitor: Elicitor,
        calls: Mapping[str, Call],
    ) -> None:
        self._question = question
        self._elicitor = elicitor
        self._calls = calls

    async def call(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Ask (`App.call`); the person's time is nobody else's."""
        running, question = self._calls[call], self._question
        context = AskContext(calls=(call,), tools=(capability,))
        running.on_question(question, own=True)
        answer: Answer | None = None
        try:
            answer = await self._elicitor.resolve(question, context)
        finally:
            running.on_answer(question, answer)
        assert answer is not None, "each question has one"
        return _describe(question, answer)

    async def cancel(self, call: str, reason: str) -> None:
        """The question was taken down with its call (`App.cancel`)."""

    async def wait_idle(self) -> None:
        """Nothing else is on its way (`App.wait_idle`)."""
        await anyio.lowlevel.checkpoint()


def _describe(question: Question, answer: Answer) -> CallResult:
    """A result that says who gave it, and why: a model reads no metadata.

    A default stands in where nobody could be asked, and nowhere else: it is the model's own, and
    would have a person's no come back as its yes.
    """
    unasked = answer.outcome is Outcome.UNSUPPORTED
    if not unasked:
        question = replace(question, default=MISSING)
    result = abp.decode_result(abp.encode_answer(question, answer))
    told = {"answeredBy": result.metadata["answeredBy"], "outcome": answer.outcome.value}
    if result.failure is None:
        reason = {"reason": answer.reason} if answer.reason else {}
        return replace(result, data={"answer": result.data, **told, **reason})
    return result if unasked else replace(result, data=told)
