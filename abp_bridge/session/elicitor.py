"""One question's life: opened, put to the surfaces one after the other, ended once.

The ledger decides what ends a question; whatever ends it first stops the asking here. Which surface
is next is `routing`'s to say, whether an answer fits `validation`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

import anyio
import anyio.lowlevel

from abp_bridge.core.answer import Answer, answer_errors
from abp_bridge.core.event import (
    AttemptEvent,
    InputRequestEvent,
    InputResolvedEvent,
    Observer,
    no_observer,
)
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.ledger import Entry, Ledger, LedgerEvent
from abp_bridge.core.matrix import Attempt, narrow
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.rpc.arrival import now
from abp_bridge.session.files import READ_LIMIT, FileAccess
from abp_bridge.session.person_time import Awaited, PersonTime, awaited, person_time, wait_for
from abp_bridge.session.providers import advise
from abp_bridge.session.routing import Routing
from abp_bridge.session.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    InputProvider,
    RouteChangedError,
    SurfaceFailedError,
    SurfaceUnsupportedError,
)
from abp_bridge.session.validation import AnswerAttribution, ask_on

logger = logging.getLogger(__name__)

MAX_OPEN = 2_000  # questions at once: a page that asks in a loop must not fill the memory
MAX_EXTENSION = 86_400.0  # seconds that a person may make of it, who says that they are there

_AGAIN = "You are asked here because what was answered elsewhere does not count as a person's."

_NEEDED = "what cannot be asked there is needed with what was answered"

# Cancelled where it is asked: with the session, or with the question that it is part of.
_ABANDONED = "nobody waits for its answer any more"

_EVENTS = {
    Outcome.UNSUPPORTED: LedgerEvent.REFUSE,
    Outcome.WITHDRAWN: LedgerEvent.WITHDRAW,
    Outcome.TIMED_OUT: LedgerEvent.DEADLINE,
}


class Elicitor:
    """The open questions of a session, and the asking of each."""

    def __init__(
        self,
        providers: InputProvider,
        *,
        limit: float,
        min_human_latency: float,
        observe: Observer = no_observer,
        files: FileAccess | None = None,
        host_name: Callable[[], str] = str,
    ) -> None:
        """Ask by `providers`.

        Args:
            providers: Everybody who can be asked.
            limit: Seconds that a person has whose app sets no time.
            min_human_latency: Seconds that a person needs to read anything (`AnswerAttribution`).
            observe: Is told what happens to each question.
            files: Looks at the files that apps name; without it none is read.
            host_name: What the host calls itself, of which it may say more as it goes.
        """
        self.ledger = Ledger()
        self._providers = providers
        self._files = files
        self._observe = observe
        self._host_name = host_name
        self._limit = limit
        self._attribution = AnswerAttribution(min_human_latency)
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._waits: dict[str, Awaited] = {}

    async def ask(self, question: Question) -> Answer:
        """Put `question` to the person.

        Returns:
            Its one answer, whatever happens. Only cancelling the session itself raises.
        """
        if len(self.ledger.open) >= MAX_OPEN:
            return Answer(
                Outcome.UNSUPPORTED,
                AnsweredBy.NOBODY,
                reason=f"{MAX_OPEN} questions are open already",
            )
        if not question.host_name:
            question = replace(question, host_name=label(self._host_name()))
        timeout = question.time_limit(self._limit)
        entry = self.ledger.add(question, now())
        self._observe(InputRequestEvent(entry.since, question))
        self._scopes[question.id] = scope = anyio.CancelScope(deadline=entry.since + timeout)
        own_bound = None if question.timeout else _PersonTime(scope, timeout, person_time.get())
        bounds, waits = person_time.set(own_bound), Awaited()
        self._waits[question.id] = waits
        waiting = awaited.set(waits)
        try:
            with scope:
                answer = await self._answer(entry)
                event = _EVENTS.get(answer.outcome, LedgerEvent.ANSWER)
                self.ledger.apply(question.id, event, answer=answer)
            if scope.cancelled_caught:  # by its deadline, else it has ended already
                reason = f"{waits.words} within {scope.deadline - entry.since:g} s"
                self._end(entry, LedgerEvent.DEADLINE, Outcome.TIMED_OUT, reason)
        finally:
            awaited.reset(waiting)
            person_time.reset(bounds)
            self._end(entry, LedgerEvent.WITHDRAW, Outcome.WITHDRAWN, _ABANDONED)
            waits.over = True
            del self._scopes[question.id], self._waits[question.id]
            assert entry.answer is not None, "a question that is not asked any more has ended"
            shown = replace(entry.answer, content={}) if question.secret else entry.answer
            self._observe(InputResolvedEvent(now(), question, shown))
        return entry.answer

    def seconds_left(self, id: str) -> float:
        """How long an open question still waits for its answer."""
        return self._scopes[id].deadline - now()

    def withdraw(self, questions: Iterable[Question], reason: str) -> None:
        """Nobody needs these any more: take them down, and answer them as withdrawn."""
        for question in questions:
            if (entry := self.ledger.entry(question.id)) is not None:
                self._end(entry, LedgerEvent.WITHDRAW, Outcome.WITHDRAWN, reason)
                self._waits[question.id].over = True
                self._scopes[question.id].cancel()

    def _end(self, entry: Entry, event: LedgerEvent, outcome: Outcome, reason: str) -> None:
        """End a question that nobody answered; one that has ended stays as it is."""
        if entry.answer is None:
            self.ledger.apply(entry.question.id, event, answer=_unanswered(entry, outcome, reason))

    async def _answer(self, entry: Entry) -> Answer:
        try:
            if entry.question.kind is not Kind.RESOURCE or self._files is None:
                return await self._retry_on_route_change(entry)
            request = await self._files.look(entry.question)
            entry.question = request.question
            answer = await self._retry_on_route_change(entry)
            # The person has answered in their time; reading a file has its own.
            scope = self._scopes[entry.question.id]
            scope.deadline = max(scope.deadline, now() + 2 * READ_LIMIT)
            return await request.complete(answer)
        except HostDisconnectedError as gone:
            return _unanswered(entry, gone.outcome, str(gone))
        except HostTimeoutError as away:
            return _unanswered(entry, Outcome.TIMED_OUT, str(away))
        except SurfaceFailedError as failed:
            return _unanswered(entry, Outcome.INVALID, str(failed))

    async def _retry_on_route_change(self, entry: Entry) -> Answer:
        """Try the surfaces, and all of them again whenever one has to be asked another way."""
        while True:
            try:
                return await self._try_surfaces(entry)
            except RouteChangedError:
                await anyio.lowlevel.checkpoint()

    async def _try_surfaces(self, entry: Entry) -> Answer:
        question = entry.question
        routing = Routing(question, self._providers.variants(question.calls))
        for attempt in routing.attempts():
            name = attempt.name
            wait_for()
            self.ledger.apply(question.id, LedgerEvent.ASK, route=name)
            self._observe(AttemptEvent(now(), question.id, name))
            try:
                answer = await ask_on(
                    self._providers,
                    narrow(question, attempt),
                    attempt,
                    self._attribution,
                    self._observe,
                )
                answer = _checked(question, attempt, answer)
            except (SurfaceUnsupportedError, RemoteProtocolError) as problem:
                logger.debug("%s: %s could not ask (%s)", question.id, name, type(problem).__name__)
                routing.refuse(attempt, problem)
                continue
            if routing.conclude(answer):
                return answer
            question = entry.question.with_note(f"{_AGAIN} {answer.reason}".rstrip())
        advice = advise(self._providers, question)
        reason = routing.reason(advice)
        answer = routing.fallback(advice) or _unanswered(entry, Outcome.UNSUPPORTED, reason)
        if not answer.unasked:
            return answer
        return replace(answer, tried=tuple(routing.tried()), ways=tuple(routing.ways(advice)))


class _PersonTime:
    """How long a person still has for a question, as they may extend it (`PersonTime`).

    Args:
        scope: Ends the asking at its deadline.
        limit: Seconds that the person had at first; extending gives them as many from then on.
        around: The same of the question that this one is part of, where it is: that ends it too.
    """

    def __init__(self, scope: anyio.CancelScope, limit: float, around: PersonTime | None) -> None:
        self._scope = scope
        self._limit = limit
        self._around = around
        self._latest = scope.deadline + MAX_EXTENSION

    @property
    def deadline(self) -> float:
        """When it is over (`PersonTime.deadline`)."""
        own = self._scope.deadline
        return own if self._around is None else min(own, self._around.deadline)

    def extend(self) -> None:
        """Begin it anew (`PersonTime.extend`)."""
        if self._around is not None:
            self._around.extend()
        wanted = min(now() + self._limit, self._latest)
        self._scope.deadline = max(self._scope.deadline, wanted)


def _checked(question: Question, attempt: Attempt, answer: Answer) -> Answer:
    """The answer to a question that may not have been asked whole: null where that stands for what
    is left empty, and it names what was not asked.

    Raises SurfaceUnsupportedError where all of it together does not fit so.
    """
    if answer.outcome is Outcome.ACCEPTED:
        empty = {each.name: each.empty for each in question.fields if each.empty is not MISSING}
        if empty:
            answer = replace(answer, content={**empty, **answer.content})
    named = {"notAsked": attempt.left_out, "notChangeable": attempt.kept}
    told: JsonObject = {word: list(names) for word, names in named.items() if names}
    if not told:
        return answer
    if answer.outcome is Outcome.ACCEPTED and answer_errors(question, answer.content):
        raise SurfaceUnsupportedError(_NEEDED, lasting=False)
    return replace(answer, metadata={**answer.metadata, **told})


def _unanswered(entry: Entry, outcome: Outcome, reason: str) -> Answer:
    return Answer(
        outcome,
        AnsweredBy.NOBODY,
        route=entry.route,
        latency=now() - entry.since,
        reason=reason,
    )
