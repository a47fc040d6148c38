"""One call of a capability, its clock, and the question of the host's own model as a call."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import anyio
import anyio.lowlevel

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, failed
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Kind, Question
from abp_bridge.core.surface import UnaskedQuestion
from abp_bridge.errors import describe_bug
from abp_bridge.jsonrpc.loop import now
from abp_bridge.protocols import abp
from abp_bridge.session.context import AskContext
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.host import MAX_REMEMBERED, CallOutcome
from abp_bridge.session.result_store import KeptResult

logger = logging.getLogger(__name__)


MAX_CONSOLE_LINES = 10  # the page's last ones, in a status and in a call that failed
MAX_SUMMARY_LINES = 50  # different lines of a summary: more would bury the result
_SESSION_ENDED = CallOutcome(failed("CANCELLED", "The session ended.", cancelled=True))


# A call that goes on telling how far it is may take so many times its limit: an app that reports
# in a loop must end some time too.
MAX_LIMITS = 10


class CallClock:
    """Cancel `scope` when the app reports nothing for `limit` seconds, or takes too long in all.

    The end only moves later, so one timer does: if it fires too early, it restarts.
    """

    def __init__(self, limit: float) -> None:
        self.scope = anyio.CancelScope()
        self._limit = limit
        started = now()
        self._deadline = started + limit
        self._end = started + limit * MAX_LIMITS
        self._paused: tuple[float, float] | None = None  # what is left: of its silence, of all
        self._reported = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """The call runs in this block, in `scope`, and time counts."""
        self._is_running = True
        self._look()
        try:
            with self.scope:
                yield
        finally:
            self._is_running = False  # a question of the call may end after it
            if self._timer is not None:
                self._timer.cancel()

    def _look(self) -> None:
        """Cancel the scope if the time is over, else look again later."""
        self._timer = None
        if self._paused is not None:
            return
        if now() < self._deadline:
            self._timer = asyncio.get_running_loop().call_at(self._deadline, self._look)
        else:
            self.scope.cancel()

    def pause(self) -> None:
        """Stop the clock until `resume`, while the user is asked."""
        if self._paused is None:
            at = now()
            self._paused = self._deadline - at, self._end - at

    def resume(self) -> None:
        """Go on with what was left."""
        if self._paused is not None:
            silence, all_of_it = self._paused
            self._paused = None
            at = now()
            self._deadline, self._end = at + silence, at + all_of_it
            if self._timer is None and self._is_running:
                self._look()

    def restart(self) -> None:
        """The app says how far it is: its silence begins anew, as far as the bound on all goes."""
        self._reported = True
        if self._paused is not None:
            _, all_of_it = self._paused
            self._paused = min(self._limit, all_of_it), all_of_it
        else:
            self._deadline = min(now() + self._limit, self._end)

    def describe(self) -> str:
        """What it was that took too long, after the name of what was called."""
        if not self._reported:
            return f"took longer than {self._limit:g} s"
        if self._deadline < self._end:
            return f"has not said for {self._limit:g} s how far it is"
        return f"took longer than {self._limit * MAX_LIMITS:g} s, and still says how far it is"


class Callee(Protocol):
    """What a call needs: an `App`, or `OwnQuestion`."""

    async def call_capability(
        self, capability: str, params: JsonObject, call: str
    ) -> CallResult: ...
    async def cancel_call(self, call: str, reason: str) -> None: ...
    async def wait_idle(self) -> None: ...


class Call:
    """One call, from its start to its one outcome; a host only waits for it.

    Args:
        id: Names it to the app and to hosts.
        app: Has the capability.
        capability: The capability's name.
        params: Its parameters.
        timeout: Seconds without a report (`CallClock`), not counting the user's time.
        on_progress: Receives the app's reports, each that differs from the one before.
        on_end: Receives the outcome.
        withdraw: Withdraws questions, for a reason.
        keep: Saves what is too large for a host, and fetches what the app refers to.
        ask_approval: Returns None if the user allows the call of that id, else its result.
        count_lost: How many notifications have not reached the host so far.
    """

    def __init__(
        self,
        id: str,
        app: Callee,
        capability: str,
        params: JsonObject,
        *,
        timeout: float,
        on_progress: Callable[[Progress], None] | None,
        on_end: Callable[[CallOutcome], None] | None = None,
        withdraw: Callable[[Iterable[Question], str], None],
        keep: Callable[[CallResult], Awaitable[KeptResult]],
        ask_approval: Callable[[str], Awaitable[CallResult | None]] | None = None,
        count_lost: Callable[[], int] = lambda: 0,
    ) -> None:
        self.id = id
        self.capability = capability
        self._app = app
        self._params = params
        self._on_progress = on_progress
        self._on_end = on_end
        self._withdraw = withdraw
        self._keep = keep
        self._ask_approval = ask_approval
        self._made = False  # the app has heard of it
        self._is_late = False
        self._clock = CallClock(timeout)
        self._asked: set[str] = set()
        self._cancelled = ""
        self._disconnect_reason = ""
        self._questions: dict[str, Question] = {}
        self._refused: set[Kind] = set()
        self._unasked: list[UnaskedQuestion] = []
        self._progress: Progress | None = None
        self._count_lost = count_lost
        self._lost_before = count_lost()
        self._notices: dict[str, tuple[str, int]] = {}  # line: what it speaks of, how often it came
        self._omitted = 0
        self._console: deque[str] = deque(maxlen=MAX_CONSOLE_LINES)
        self._done = anyio.Event()
        self._ended = _SESSION_ENDED

    async def wait(self) -> CallOutcome:
        """Wait for the outcome. Cancelling this leaves the call running."""
        await self._done.wait()
        return self._ended

    @property
    def is_given_up(self) -> bool:
        """Whether it was cancelled or timed out: its questions are no longer needed."""
        return bool(self._cancelled) or self._is_late

    async def wait_idle(self) -> None:
        await self._app.wait_idle()

    def cancel(self, reason: str) -> None:
        """Cancel the call for the host: withdraw its questions now, and notify the app.

        `reason` is for the app's developer.
        """
        self._cancelled = self._cancelled or reason
        self._withdraw(list(self._questions.values()), f"its call ended: {self._cancelled}")
        self._clock.scope.cancel()

    def on_disconnect(self, reason: str) -> None:
        """End the call: its app disconnected."""
        self._disconnect_reason = self._disconnect_reason or reason
        self._clock.scope.cancel()

    async def run(self) -> None:
        """Call the app and wait. Anything may cancel this; `wait` returns all the same."""
        result: CallResult | None = None
        try:
            with self._clock.running():
                result = await self._check_approval() or await self._make()
            if result is None:
                result = await self._give_up()
            kept = await self._keep(result)
            result = kept.result
            said = [*self.summary(), *kept.told]
            said += self._console if result.failure is not None else ()
            self._ended = CallOutcome(
                result, said, kept.files, frozenset(self._refused), tuple(self._unasked)
            )
        except Exception as problem:
            logger.exception("call %s of %s failed", self.id, self.capability)
            self._ended = CallOutcome(
                failed("INTERNAL_ERROR", describe_bug(problem)), self.summary()
            )
        finally:
            self._withdraw(list(self._questions.values()), "its call ended")
            self._done.set()
            if self._on_end is not None:
                self._on_end(self._ended)

    async def _check_approval(self) -> CallResult | None:
        return None if self._ask_approval is None else await self._ask_approval(self.id)

    async def _make(self) -> CallResult:
        self._made = True
        logger.debug("call %s: %s", self.id, self.capability)
        return await self._app.call_capability(self.capability, self._params, self.id)

    async def _give_up(self) -> CallResult:
        if self._disconnect_reason:
            return failed(
                "DISCONNECTED",
                f"The app is gone: {self._disconnect_reason}. Reconnect with abp_connect.",
                retryable=True,
            )
        self._is_late = True
        late = f"{self.capability} {self._clock.describe()}"
        reason = self._cancelled or late
        self._withdraw(list(self._questions.values()), f"its call ended: {reason}")
        if self._made:
            await self._app.cancel_call(self.id, reason)
        if self._cancelled:
            return failed("CANCELLED", f"The call was cancelled: {reason}.", cancelled=True)
        return failed("TIMEOUT", f"Operation timed out: {late}", retryable=True)

    def on_question(self, question: Question, *, own: bool) -> None:
        """Stop the app's clock while the user is asked; an `own` question ends with the call."""
        self._clock.pause()
        self._asked.add(question.id)
        if own:
            self._questions[question.id] = question

    def on_answer(self, question: Question, answer: Answer | None) -> None:
        """Record how the question ended, and restart the clock after the last one."""
        if answer is not None and answer.outcome is Outcome.UNSUPPORTED and not question.secret:
            self._refused.add(question.kind)
        if answer is not None and answer.unasked and len(self._unasked) < MAX_REMEMBERED:
            tried = answer.tried or (answer.reason,)
            self._unasked.append(
                UnaskedQuestion(question.summary, question.asker, tried, answer.ways)
            )
        self._questions.pop(question.id, None)
        self._asked.discard(question.id)
        if not self._asked:
            self._clock.resume()

    def on_progress(self, report: Progress) -> None:
        """Pass a report on, unless it repeats the last; any report restarts the silence limit."""
        self._clock.restart()
        if report != self._progress and self._on_progress is not None and not self._done.is_set():
            self._progress = report
            self._on_progress(report)

    def on_notice(self, notice: Notice) -> None:
        """Keep the newest `MAX_SUMMARY_LINES` different notices for the result, and count the
        others.

        Drop the oldest of the same subject, else of the most frequent subject.
        """
        if notice.kind is NoticeKind.CONSOLE:  # nothing that a call which succeeds is bothered with
            self._console.append(describe_notice(notice))
            return
        line, subject = describe_notice(notice), f"{notice.name} {notice.data.get('field')}"
        _, count = self._notices.pop(line, ("", 0))
        if len(self._notices) >= MAX_SUMMARY_LINES:
            subjects = [about for about, _ in self._notices.values()]
            run = subject if subject in subjects else max(subjects, key=subjects.count)
            self._omitted += self._notices.pop(list(self._notices)[subjects.index(run)])[1]
        self._notices[line] = subject, count + 1

    def summary(self) -> list[str]:
        """Return what the app reported, a line each, and how much is missing."""
        lines = [
            f"{line} ({count} times)" if count > 1 else line
            for line, (_, count) in self._notices.items()
        ]
        if self._omitted:
            lines.append(
                f"and {self._omitted} more before these; abp_status shows the last of each kind"
            )
        if lost := self._count_lost() - self._lost_before:
            lines.append(
                f"({lost} notifications did not reach this host while this ran: it read too slowly,"
                " or did not wait for the call, and newer ones took their place)"
            )
        return lines


class OwnQuestion:
    """A question of the host's own model, as a `Callee`: the answer is the result.

    Args:
        question: What is asked.
        elicitor: Puts it to the user.
        calls: The session's own calls by id: one is notified of its question.
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

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
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

    async def cancel_call(self, call: str, reason: str) -> None:
        """Do nothing: the question was withdrawn with its call."""

    async def wait_idle(self) -> None:
        """Return: nothing else is on its way."""
        await anyio.lowlevel.checkpoint()


def _describe(question: Question, answer: Answer) -> CallResult:
    """Return a result that says who answered and why: a model reads no metadata.

    A default is used only if no user could be asked. It is the model's own, and would turn a
    user's no into its yes.
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
