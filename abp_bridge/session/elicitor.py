"""`Elicitor.resolve` opens a question, routes it to the user, and ends it exactly once.

The first of three ends a question in the ledger: its answer, its deadline or its withdrawal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import anyio.lowlevel

from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.ledger import Ledger
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.loop import now
from abp_bridge.session.context import (
    NO_CONTEXT,
    AskContext,
    Asking,
    InputRequestEvent,
    InputResolvedEvent,
    Observer,
    no_observer,
)
from abp_bridge.session.files import READ_LIMIT, FileAccess, FileRequest
from abp_bridge.session.router import Router
from abp_bridge.session.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    OnModelProgress,
    RouteChangedError,
    SurfaceFailedError,
)

MAX_OPEN = 2_000  # questions at once: a page that asks in a loop must not fill the memory

# Cancelled where it is asked: with the session, or with the question that it is part of.
_ABANDONED = "nobody waits for its answer any more"


class Elicitor:
    """The open questions of a session."""

    def __init__(
        self,
        router: Router,
        *,
        limit: float,
        observe: Observer = no_observer,
        files: FileAccess | None = None,
        host_name: Callable[[], str] = str,
        on_model_progress: OnModelProgress = lambda calls, words: None,
    ) -> None:
        """Resolve questions by `router`.

        Args:
            router: Puts each to the surfaces.
            limit: Seconds that a user has if the app sets no time.
            observe: Receives the events.
            files: Looks at the files that apps name; without it none is read.
            host_name: What the host calls itself; it may change later.
            on_model_progress: Receives how far a model's answer is.
        """
        self.ledger = Ledger()
        self._router = router
        self._files = files
        self._observe = observe
        self._host_name = host_name
        self._limit = limit
        self._open: dict[str, Asking] = {}
        router.attach(self.resolve, on_model_progress)

    async def resolve(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        """Put `question` to the user and return its one answer, whatever happens.

        Only cancelling the session itself raises.
        """
        if len(self._open) >= MAX_OPEN:
            reason = f"{MAX_OPEN} questions are open already"
            return Answer(Outcome.UNSUPPORTED, AnsweredBy.NOBODY, reason=reason)
        asking = Asking(
            question,
            self.ledger,
            context.time_limit(self._limit),
            is_fixed=bool(context.timeout),
            around=context.asking,
        )
        context = replace(
            context, host=label(self._host_name()), asking=asking, observe=self._observe
        )
        self._open[question.id] = asking
        self._observe(InputRequestEvent(asking.entry.since, question, context))
        try:
            with asking.scope:
                try:
                    request = await self._look(question, context)
                    asking.entry.question = request.question
                    while True:
                        try:
                            answer = await self._router.route(request.question, context)
                            break
                        except RouteChangedError:
                            await anyio.lowlevel.checkpoint()
                    if request.named is not None:
                        # The user has answered in their time; reading a file has its own.
                        ends = now() + 2 * READ_LIMIT
                        asking.scope.deadline = max(asking.scope.deadline, ends)
                    answer = await request.complete(answer)
                except HostDisconnectedError as gone:
                    answer = asking.unanswered(gone.outcome, str(gone))
                except HostTimeoutError as away:
                    answer = asking.unanswered(Outcome.TIMED_OUT, str(away))
                except SurfaceFailedError as failed:
                    answer = asking.unanswered(Outcome.INVALID, str(failed))
                self.ledger.settle(question.id, answer)
            if asking.scope.cancelled_caught:  # by its deadline, else it has ended already
                limit = asking.scope.deadline - asking.entry.since
                reason = f"{asking.waits_for} within {limit:g} s"
                asking.end(Outcome.TIMED_OUT, reason)
        finally:
            asking.end(Outcome.WITHDRAWN, _ABANDONED)
            asking.over = True
            del self._open[question.id]
            ended = asking.entry.answer
            assert ended is not None, "a question that is not asked any more has ended"
            shown = replace(ended, content={}) if question.secret else ended
            self._observe(InputResolvedEvent(now(), question, shown, context))
        return ended

    async def _look(self, question: Question, context: AskContext) -> FileRequest:
        if question.kind is Kind.RESOURCE and self._files is not None:
            return await self._files.look(question, context)
        return FileRequest(question)

    def seconds_left(self, id: str) -> float:
        """Return how long an open question still waits for its answer."""
        return self._open[id].scope.deadline - now()

    def withdraw(self, questions: Iterable[Question], reason: str) -> None:
        """Take down questions that are no longer needed, and answer them as withdrawn."""
        for question in questions:
            if (asking := self._open.get(question.id)) is not None:
                asking.end(Outcome.WITHDRAWN, reason)
                asking.over = True
                asking.scope.cancel()


def describe_questions(ledger: Ledger, left: Callable[[str], float]) -> dict[str, JsonValue]:
    """Return `{open, ended, endedCount, lateCount}` for `abp_status`.

    `left` gives the seconds that an open question has, by its id.
    """
    return {
        "open": [
            {
                "id": each.question.id,
                "app": each.question.origin,
                "message": each.question.summary,
                "route": each.route,
                "secondsLeft": round(left(each.question.id)),
                **_name_link(each.question),
            }
            for each in ledger.open
        ],
        "ended": [
            {
                "id": each.id,
                "method": each.kind,
                "app": each.origin,
                "message": each.message,
                "outcome": each.outcome.value,
                "answeredBy": each.answered_by.value,
                **({"evidence": each.evidence} if each.evidence else {}),
                "route": each.route,
                "seconds": round(each.latency, 3),
                "reason": each.reason,
                **({"ways": list(each.ways)} if each.ways else {}),
            }
            for each in ledger.ended
        ],
        "endedCount": ledger.ended_count,
        "lateCount": ledger.late_count,
    }


def _name_link(question: Question) -> JsonObject:
    """Return a link's id: a model reads this, and the link is only for the user."""
    return {"elicitationId": label(question.elicitation_id)} if question.link else {}
