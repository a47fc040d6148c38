"""Asking on one surface until the answer fits: validated, asked again in plainer form, split into
its fields; and who gave the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio

from abp_bridge.core import schema
from abp_bridge.core.event import ChoiceEvent, Event, Observer
from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.matrix import Attempt, Surface, SurfaceVariant
from abp_bridge.core.question import (
    Answer,
    AnsweredBy,
    Kind,
    Outcome,
    Question,
    answer_errors,
    classify_answerer,
    validate_answer,
)
from abp_bridge.interfaces.surface import InputProvider, SurfaceResponse

MAX_REPEATS = 2  # times that an answer which does not fit is asked for again

_REASONS = {
    Outcome.DECLINED: "The user declined to answer.",
    Outcome.CANCELLED: "The user dismissed the question.",
}
_ANSWERERS = {
    Surface.MCP_SAMPLING: AnsweredBy.MODEL,
    Surface.MODEL: AnsweredBy.MODEL,
    Surface.MOCK: AnsweredBy.SCRIPT,
}
# Whatever is given there, the person gave it, however fast.
_OURS = {Surface.MCP_URL, Surface.ACP_URL, Surface.PAGE, Surface.TERMINAL}
# No host stands between: what is refused there, the person refused.
_NOBODY_ELSE = {Surface.TERMINAL}


async def ask_on(
    provider: InputProvider,
    question: Question,
    attempt: Attempt,
    *,
    observe: Observer,
    min_human_latency: float,
) -> Answer:
    """Ask `question` on the surface of `attempt`.

    What does not fit is asked for again, at most `MAX_REPEATS` times, in plainer form and saying
    what was wrong; a form of several fields is then asked one field at a time.

    Args:
        provider: Who has the surface.
        question: What is asked.
        attempt: Where, and how.
        observe: Is told of each step that the surface shows.
        min_human_latency: Seconds; a host that took less answered by itself.

    Returns:
        The answer, with validated content.

    Raises:
        SurfaceUnsupportedError: And the other errors of `InputProvider.ask`.
    """
    started = anyio.current_time()
    exchange = _Exchange(provider, observe)
    response, route = await exchange.ask(question, attempt)
    surface = attempt.variant.surface
    answer = Answer(
        response.outcome,
        _ANSWERERS.get(surface, AnsweredBy.PERSON),
        content=response.content,
        route=route,
        latency=anyio.current_time() - started,
        reason=_REASONS.get(response.outcome, ""),
        unchecked=_unsupported_keywords(question),
    )
    if surface in (_OURS if response.outcome is Outcome.ACCEPTED else _NOBODY_ELSE):
        return answer
    return classify_answerer(question, answer, exchange.slowest, min_human_latency)


class _Exchange:
    """One question on one surface, shown as often as it takes.

    `slowest` is how many seconds the slowest step of the answer that counts took: what tells
    whether a person was there.
    """

    def __init__(self, provider: InputProvider, observe: Observer) -> None:
        self.slowest = 0.0
        self._provider = provider
        self._observe = observe
        self._steps = 0

    async def ask(self, question: Question, attempt: Attempt) -> tuple[SurfaceResponse, str]:
        """The response with validated content, and the route it took."""
        response, problems = await self._show(question, attempt.variant)
        if not problems:
            return response, attempt.name
        self.slowest = 0.0
        plain = replace(attempt.variant, plain=True)
        surface = plain.surface.value
        if len(question.fields) == 1:
            return await self._repeat(question, plain, problems), f"{surface} (asked again)"
        response = await self._ask_each_field(question, plain, problems)
        return response, f"{surface} (one field at a time)"

    async def _ask_each_field(
        self, question: Question, plain: SurfaceVariant, problems: Sequence[str]
    ) -> SurfaceResponse:
        content: dict[str, JsonValue] = {}
        for field in question.fields:
            message = f"{question.message}\n\n{field.label}"
            single = replace(question, fields=(field,), message=message)
            wrong = [problem for problem in problems if problem.startswith(field.name)]
            response = await self._repeat(single, plain, wrong)
            if response.outcome is not Outcome.ACCEPTED:
                return response
            content.update(response.content)
        # Each field fits; so must all of them together.
        fits = not answer_errors(question, content)
        return SurfaceResponse(Outcome.ACCEPTED, content) if fits else _INVALID

    async def _repeat(
        self, question: Question, plain: SurfaceVariant, problems: Sequence[str]
    ) -> SurfaceResponse:
        slowest = self.slowest
        for _ in range(MAX_REPEATS):
            self.slowest = slowest  # only the answer that counts tells who gave it
            response, problems = await self._show(question, plain, problems)
            if not problems:
                return response
        return _INVALID

    async def _show(
        self, question: Question, variant: SurfaceVariant, problems: Sequence[str] = ()
    ) -> tuple[SurfaceResponse, list[str]]:
        """The response with validated content, and what is wrong with it."""
        started, steps = anyio.current_time(), self._steps
        response = await self._provider.ask(question, variant, "; ".join(problems), self._on_event)
        if self._steps == steps:  # shown all at once
            self.slowest = max(self.slowest, anyio.current_time() - started)
        if response.outcome is not Outcome.ACCEPTED or question.kind is Kind.SAMPLING:
            return response, []
        content, wrong = validate_answer(question, response.content)
        return SurfaceResponse(response.outcome, content), wrong

    def _on_event(self, event: Event) -> None:
        if isinstance(event, ChoiceEvent):
            self.slowest = max(self.slowest, event.seconds)
            self._steps += 1
        self._observe(event)


_INVALID = SurfaceResponse(Outcome.INVALID)


def _unsupported_keywords(question: Question) -> tuple[str, ...]:
    """The keywords of the app's schemas that nobody checked."""
    schemas = (question.whole, *(field.schema for field in question.fields))
    return tuple(sorted({word for each in schemas for word in schema.unsupported_keywords(each)}))
