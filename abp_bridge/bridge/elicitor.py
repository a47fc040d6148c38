"""One question's way to the person: up the ladder, asked again when the answer does not fit, and
ended once.

The ledger decides what ends a question; whatever ends it first stops the asking here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel

from abp_bridge.bridge.files import FileAccess
from abp_bridge.core import matrix, schema
from abp_bridge.core.event import (
    ChoiceEvent,
    InputRequestEvent,
    InputResolvedEvent,
    Observer,
    RungEvent,
    no_observer,
)
from abp_bridge.core.event import Event as HappenedEvent
from abp_bridge.core.json_value import Json
from abp_bridge.core.ledger import Entry, Event, Ledger
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
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.interfaces.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    InputProvider,
    RouteChangedError,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

MAX_OPEN = 2_000
MAX_TIME = 3_600.0
TRIES_AGAIN = 2

_EVENTS = {
    Outcome.UNSUPPORTED: Event.REFUSE,
    Outcome.WITHDRAWN: Event.WITHDRAW,
    Outcome.TIMED_OUT: Event.DEADLINE,
}
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
_NOBODY_ELSE = {
    Surface.TERMINAL
}  # no host stands between: what is refused there, the person refused
_SENT_BY_THE_HOST = {Surface.MCP_URL, Surface.ACP_URL}


class Elicitor:
    """The open questions of a session, and the asking of each. Times are in seconds."""

    def __init__(
        self,
        providers: InputProvider,
        *,
        limit: float,
        person_floor: float,
        observe: Observer = no_observer,
        files: FileAccess | None = None,
    ) -> None:
        """`files` looks at those that apps name; without it none is read."""
        self.ledger = Ledger()
        self._providers = providers
        self._files = files
        self._observe = observe
        self._limit = limit
        self._person_floor = person_floor
        self._scopes: dict[str, anyio.CancelScope] = {}

    async def ask(self, question: Question) -> Answer:
        """Put `question` to the person.

        Returns exactly one answer, whatever happens; only cancelling the session itself raises.
        """
        if len(self.ledger.open) >= MAX_OPEN:
            return Answer(
                Outcome.UNSUPPORTED,
                AnsweredBy.NOBODY,
                reason=f"{MAX_OPEN} questions are open already",
            )
        limit = min(question.timeout or self._limit, MAX_TIME)
        question = replace(question, timeout=limit)
        entry = self.ledger.add(question, anyio.current_time())
        self._observe(InputRequestEvent(entry.since, question))
        self._scopes[question.id] = scope = anyio.CancelScope()
        try:
            with scope, anyio.move_on_after(limit) as clock:
                answer = await self._resolve(entry)
                self.ledger.apply(
                    question.id, _EVENTS.get(answer.outcome, Event.ANSWER), answer=answer
                )
            if clock.cancelled_caught:
                self._finish(
                    entry, Event.DEADLINE, Outcome.TIMED_OUT, f"nobody answered within {limit:g} s"
                )
        finally:
            self._finish(entry, Event.WITHDRAW, Outcome.WITHDRAWN, "the session ended")
            del self._scopes[question.id]
            if entry.answer is not None:
                shown = replace(entry.answer, content={}) if question.secret else entry.answer
                self._observe(InputResolvedEvent(anyio.current_time(), question, shown))
        assert entry.answer is not None, "a question that is not asked any more has ended"
        return entry.answer

    def withdraw(self, questions: Iterable[Question], reason: str) -> None:
        """Nobody needs these any more: take them down, and answer them as withdrawn."""
        for question in questions:
            if (entry := self.ledger.entry(question.id)) is not None:
                self._finish(entry, Event.WITHDRAW, Outcome.WITHDRAWN, reason)
                self._scopes[question.id].cancel()

    def _finish(self, entry: Entry, event: Event, outcome: Outcome, reason: str) -> None:
        """End a question that nobody answered, unless something else has ended it."""
        if entry.answer is None:
            self.ledger.apply(entry.question.id, event, answer=_unanswered(entry, outcome, reason))

    async def _resolve(self, entry: Entry) -> Answer:
        if entry.question.kind is not Kind.RESOURCE or self._files is None:
            return await self._find(entry)
        wanted = await self._files.look(entry.question)
        entry.question = wanted.question
        return await wanted.settle(await self._find(entry))

    async def _find(self, entry: Entry) -> Answer:
        """Climb, and again from the foot when the host has moved meanwhile."""
        while True:
            try:
                return await self._climb(entry)
            except RouteChangedError:
                await anyio.lowlevel.checkpoint()

    async def _climb(self, entry: Entry) -> Answer:
        """The ladder: each rung that the matrix leaves, until one gives an answer that is a
        person's, or content.
        """
        question = entry.question
        columns = list(self._providers.variants(question.calls))
        reasons: list[str] = []
        policy: Answer | None = None
        for rung in matrix.candidate_routes(question, columns):
            if policy is not None and rung.variant.surface in _SENT_BY_THE_HOST:
                continue  # nobody is there whom a host without a person could send anywhere
            self.ledger.apply(question.id, Event.ASK, route=rung.name)
            self._observe(RungEvent(anyio.current_time(), question.id, rung.name))
            try:
                answer = await self._ask_on(question, rung)
            except (SurfaceUnsupportedError, RemoteProtocolError) as problem:
                reasons.append(f"{rung.variant.surface.value}: {problem}")
                continue
            except HostDisconnectedError as gone:
                return _unanswered(entry, gone.outcome, str(gone))
            except HostTimeoutError as away:
                return _unanswered(entry, Outcome.TIMED_OUT, str(away))
            if (
                answer.answered_by is not AnsweredBy.HOST_POLICY
                or answer.outcome is Outcome.ACCEPTED
            ):
                return answer
            policy = policy or answer
        if policy is not None:
            return policy
        return _unanswered(
            entry,
            Outcome.UNSUPPORTED,
            f"Nobody could be asked: {matrix.refusals(question, columns, reasons)}",
        )

    async def _ask_on(self, question: Question, rung: Attempt) -> Answer:
        started = anyio.current_time()
        steps = _Slowest(self._observe)
        reply, route = await self._fill(question, rung, steps)
        answer = Answer(
            reply.outcome,
            _ANSWERERS.get(rung.variant.surface, AnsweredBy.PERSON),
            content=reply.content,
            route=route,
            latency=anyio.current_time() - started,
            reason=_REASONS.get(reply.outcome, ""),
            unchecked=_unchecked(question),
        )
        sure = rung.variant.surface in (
            _OURS if reply.outcome is Outcome.ACCEPTED else _NOBODY_ELSE
        )
        return classify_answerer(
            question, answer, steps.seconds, 0.0 if sure else self._person_floor
        )

    async def _fill(
        self, question: Question, rung: Attempt, steps: _Slowest
    ) -> tuple[SurfaceResponse, str]:
        """Ask on one rung until the answer fits: (the reply with reviewed content, the route it
        took).

        What does not fit is asked for again, at most twice, in plainer form and saying what was
        wrong; a form of several fields is then asked one field at a time.
        """
        reply, problems = await self._ask_once(question, rung.variant, steps)
        if not problems:
            return reply, rung.name
        steps.seconds = 0.0
        plain = replace(rung.variant, plain=True)
        surface = rung.variant.surface.value
        if len(question.fields) == 1:
            return await self._insist(question, plain, steps, problems), f"{surface} (asked again)"
        content: dict[str, Json] = {}
        for field in question.fields:
            single = replace(
                question,
                fields=(field,),
                message=f"{question.message}\n\n{field.title or label(field.name)}",
            )
            reply = await self._insist(
                single,
                plain,
                steps,
                [problem for problem in problems if problem.startswith(field.name)],
            )
            if reply.outcome is not Outcome.ACCEPTED:
                break
            content.update(reply.content)
        else:
            whole = not answer_errors(
                question, content
            )  # each field fits; so must all of them together
            reply = (
                SurfaceResponse(Outcome.ACCEPTED, content)
                if whole
                else SurfaceResponse(Outcome.INVALID)
            )
        return reply, f"{surface} (one field at a time)"

    async def _insist(
        self, question: Question, column: SurfaceVariant, steps: _Slowest, problems: Sequence[str]
    ) -> SurfaceResponse:
        before = steps.seconds
        for _ in range(TRIES_AGAIN):
            steps.seconds = before  # only the answer that counts tells who gave it
            reply, problems = await self._ask_once(question, column, steps, problems)
            if not problems:
                return reply
        return SurfaceResponse(Outcome.INVALID)

    async def _ask_once(
        self,
        question: Question,
        column: SurfaceVariant,
        steps: _Slowest,
        problems: Sequence[str] = (),
    ) -> tuple[SurfaceResponse, list[str]]:
        """One showing: (the reply with reviewed content, what is wrong with it)."""
        started, seen = anyio.current_time(), steps.count
        reply = await self._providers.ask(question, column, "; ".join(problems), steps.observe)
        if steps.count == seen:  # shown all at once
            steps.took(anyio.current_time() - started)
        if reply.outcome is not Outcome.ACCEPTED or question.kind is Kind.SAMPLING:
            return reply, []
        content, wrong = validate_answer(question, reply.content)
        return SurfaceResponse(reply.outcome, content), wrong


class _Slowest:
    """How long the slowest step of an asking took: what tells whether a person was there."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self.seconds = 0.0
        self.count = 0

    def observe(self, event: HappenedEvent) -> None:
        if isinstance(event, ChoiceEvent):
            self.took(event.seconds)
            self.count += 1
        self._observe(event)

    def took(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)


def _unchecked(question: Question) -> tuple[str, ...]:
    """The keywords of the app's schemas that nobody checked."""
    return tuple(
        sorted(
            {
                word
                for part in (question.whole, *(field.schema for field in question.fields))
                for word in schema.unsupported_keywords(part)
            }
        )
    )


def _unanswered(entry: Entry, outcome: Outcome, reason: str) -> Answer:
    return Answer(
        outcome,
        AnsweredBy.NOBODY,
        route=entry.route,
        latency=anyio.current_time() - entry.since,
        reason=reason,
    )
