"""Asking on one surface until the answer fits: validated, and what is wrong of it asked
again in plainer form; and who gave the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from abp_bridge.core import schema
from abp_bridge.core.answer import Answer, answer_errors, field_errors, validate_answer
from abp_bridge.core.entries import walk
from abp_bridge.core.event import Observer
from abp_bridge.core.evidence import (
    SIMILAR,
    Evidence,
    Observation,
    Verdict,
    is_preset,
    judge,
    needs_proof,
    reading_time,
)
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.matrix import Attempt, SurfaceVariant, asks_by_entries
from abp_bridge.core.outcome import AnsweredBy, Outcome, describe_outcome
from abp_bridge.core.question import MISSING, Kind, Question
from abp_bridge.core.surface import TRAITS, Surface
from abp_bridge.rpc.arrival import now
from abp_bridge.session.surface import InputProvider, SurfaceResponse, find_answerer, median

MAX_REPEATS = 2  # times that an answer which does not fit is asked for again


class AnswerAttribution:
    """Says who gave each answer of one host, and remembers them for the next.

    Args:
        shortest_reading: Seconds that a person needs to read anything; 0 to take whatever comes for
            a person's.
    """

    def __init__(self, shortest_reading: float) -> None:
        self._shortest_reading = shortest_reading
        self._before: deque[Observation] = deque(maxlen=SIMILAR - 1)
        self._answered = -inf  # when the last of them came, by the loop's clock in seconds

    def attribute(
        self, question: Question, variant: SurfaceVariant, response: SurfaceResponse, asked: float
    ) -> Verdict:
        """Who gave `response` to `question` on `variant`, which was `asked` then (seconds of the
        loop's clock).
        """
        if response.verdict is not None:
            return response.verdict
        traits = TRAITS[variant.surface]
        by_hand = response.seconds is None
        preset = is_preset(
            question,
            response.outcome,
            response.content,
            by_buttons=traits.has_buttons,
        )
        seen = Observation(response.seconds or 0.0, preset, response.exact)
        machine = traits.machine
        if question.kind is Kind.SAMPLING and response.outcome is Outcome.ACCEPTED:
            machine = machine or AnsweredBy.MODEL
        before = tuple(self._before)
        if machine is None and not by_hand:
            if asked < self._answered:  # shown together: each waited for the same first answer
                before = ()
                self._before.clear()
            self._answered = now()
            self._before.append(seen)
        reading = reading_time(question, self._shortest_reading)
        may_be_unattended = variant.may_dismiss_unattended and response.outcome is Outcome.CANCELLED
        return judge(
            Evidence(
                seen,
                by_hand,
                machine,
                response.answered_by,
                variant.interactive,
                may_be_unattended,
                reading,
                before,
            )
        )

    def are_own_words(self, variant: SurfaceVariant, verdict: Verdict) -> bool:
        """Whether a script's answer is the person's, written down before: in a file of theirs, or
        of a host which they believe whatever it says.
        """
        believed = variant.surface is Surface.MOCK or not self._shortest_reading
        return believed and verdict.answered_by is AnsweredBy.SCRIPT


async def ask_on(
    provider: InputProvider,
    question: Question,
    attempt: Attempt,
    attribution: AnswerAttribution,
    observe: Observer,
) -> Answer:
    """Ask `question` on the surface of `attempt`.

    What does not fit is asked for again, at most `MAX_REPEATS` times, in plainer form and saying
    what was wrong; of a form only the fields that are wrong, one at a time.

    Args:
        provider: Who has the surface.
        question: What is asked.
        attempt: Where, and how.
        attribution: Says who answered.
        observe: Is told of each step that the surface shows.

    Returns:
        The answer, with validated content; unsupported where it needs proof of a person, and there
        is none.

    Raises:
        SurfaceUnsupportedError: And the other errors of `InputProvider.ask`.
    """
    started = now()
    response, route = await _Exchange(provider, observe).ask(question, attempt)
    variant = response.variant or attempt.variant
    verdict = attribution.attribute(question, variant, response, started)
    answer = Answer(
        response.outcome,
        verdict.answered_by,
        content=response.content,
        evidence=verdict.evidence,
        route=route,
        latency=now() - started,
        reason=_reason(response, verdict),
        unchecked=_unsupported_keywords(question),
        metadata=response.metadata,
    )
    own = attribution.are_own_words(variant, verdict)
    proven = own or verdict.answered_by is AnsweredBy.PERSON
    if proven or not needs_proof(question, response.outcome, response.content):
        return answer
    reason = f"{verdict.reason} So it is not accepted."
    return replace(answer, outcome=Outcome.UNSUPPORTED, content={}, reason=reason)


def _reason(response: SurfaceResponse, verdict: Verdict) -> str:
    """Why it ended so: ours, and what the host says of it itself, marked as its own."""
    ours = response.reason or verdict.reason
    if not ours and response.outcome.row.is_given:
        ours = describe_outcome(response.outcome, verdict.answered_by)
    theirs = response.host_words
    said = f'The host says: "{theirs}".' if theirs and theirs not in ours else ""
    return " ".join(filter(None, (ours, said)))


class _Exchange:
    """One question on one surface, shown as often as it takes."""

    def __init__(self, provider: InputProvider, observe: Observer) -> None:
        self._provider = provider
        self._observe = observe

    async def ask(self, question: Question, attempt: Attempt) -> tuple[SurfaceResponse, str]:
        """The response with validated content, and the route it took."""
        if asks_by_entries(question, attempt.variant):
            return await self._ask_entries(question, attempt), attempt.name
        response, problems = await self._show(question, attempt.variant)
        if not problems:
            return response, attempt.name
        plain = replace(attempt.variant, plain=True)
        surface = plain.surface.value
        if len(question.fields) == 1:
            return await self._repeat(question, plain, problems), f"{surface} (asked again)"
        response = await self._mend(question, plain, response)
        return response, f"{surface} (one field at a time)"

    async def _ask_entries(self, question: Question, attempt: Attempt) -> SurfaceResponse:
        """Ask list by list and entry by entry; what does not fit as a whole is asked again, as it
        was given.
        """
        content, steps, todo = dict[str, JsonValue](), list[SurfaceResponse](), question
        response = SurfaceResponse(Outcome.INVALID)
        for _ in range(1 + MAX_REPEATS):
            walked, names = walk(todo), {each.name for each in todo.fields}
            asked: Question | None = next(walked)
            while asked is not None:
                response, _ = await self.ask(asked, attempt)
                if response.outcome is not Outcome.ACCEPTED:
                    return response
                steps.append(response)
                try:
                    asked = walked.send(response.content)
                except StopIteration as end:
                    kept = {name: value for name, value in content.items() if name not in names}
                    content, asked = kept | end.value, None
            if not (problems := answer_errors(question, content)):
                return _join(steps, content)
            wrong = field_errors(question, content)
            fields = tuple(each for each in question.fields if not wrong or each.name in wrong)
            todo = _prefilled(replace(question, fields=fields), content)
            todo = todo.with_note(f"Please answer again: {'; '.join(problems)}.")
        return _invalid(response)

    async def _mend(
        self,
        question: Question,
        plain: SurfaceVariant,
        response: SurfaceResponse,
    ) -> SurfaceResponse:
        """Ask for what is wrong, field by field, and keep the rest; where only all of it together
        does not fit, all of it, as it was given. Who sent nothing left nothing empty on purpose.
        """
        content, steps = dict(response.content), [response]
        for _ in range(MAX_REPEATS):
            nothing = all(value is None for value in content.values())
            wrong = field_errors(question, content)
            for field in question.fields:
                if not nothing and field.name not in wrong:
                    continue
                content.pop(field.name, None)
                problems = wrong.get(field.name, [])
                said = [f"{field.label}{words.removeprefix(field.name)}" for words in problems]
                response = await self._repeat(replace(question, fields=(field,)), plain, said)
                if response.outcome is not Outcome.ACCEPTED:
                    return response
                content |= response.content
                steps.append(response)
            if not (problems := answer_errors(question, content)):
                break
            response, problems = await self._show(_prefilled(question, content), plain, problems)
            if response.outcome is not Outcome.ACCEPTED:
                return response
            content = dict(response.content)
            steps.append(response)
            if not problems:
                break
        else:
            return _invalid(response)
        return _join(steps, content)

    async def _repeat(
        self, question: Question, plain: SurfaceVariant, problems: Sequence[str]
    ) -> SurfaceResponse:
        response, wrong = await self._show(question, plain, problems)
        for _ in range(MAX_REPEATS - 1):
            if not wrong:
                break
            response, wrong = await self._show(question, plain, wrong)
        return _invalid(response) if wrong else response

    async def _show(
        self, question: Question, variant: SurfaceVariant, problems: Sequence[str] = ()
    ) -> tuple[SurfaceResponse, list[str]]:
        """The response with validated content, and what is wrong with it."""
        response = await self._provider.ask(question, variant, "; ".join(problems), self._observe)
        if response.outcome is not Outcome.ACCEPTED or question.kind is Kind.SAMPLING:
            return response, []
        content, wrong = validate_answer(question, response.content)
        return replace(response, content=content), wrong


def _join(steps: Sequence[SurfaceResponse], content: JsonObject) -> SurfaceResponse:
    """The response that accepted steps come to, each as long as most of them; a machine's, where
    one of them is.
    """
    times = [each.seconds for each in steps if each.seconds is not None]
    return replace(
        steps[-1],
        content=content,
        seconds=median(times) if times else None,
        exact=all(each.exact for each in steps),
        answered_by=find_answerer(each.answered_by for each in steps),
    )


def _prefilled(question: Question, content: JsonObject) -> Question:
    """The question with what was given for its defaults. A secret is not shown again."""
    fields = (
        each if each.secret else replace(each, default=content.get(each.name, MISSING))
        for each in question.fields
    )
    return replace(question, fields=tuple(fields))


def _invalid(response: SurfaceResponse) -> SurfaceResponse:
    """No answer, from whoever gave `response`."""
    return replace(response, outcome=Outcome.INVALID, content={})


def _unsupported_keywords(question: Question) -> tuple[str, ...]:
    """The keywords of the app's schemas that nobody checked."""
    schemas = filter(None, (question.whole, *(field.schema for field in question.fields)))
    return tuple(sorted({word for each in schemas for word in schema.unsupported_keywords(each)}))
