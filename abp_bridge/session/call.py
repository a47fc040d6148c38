"""One call of a capability: it runs in the session, keeps the app's time, and ends with a result
whatever happens.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import anyio

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, failed
from abp_bridge.core.event import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.surface import UnaskedQuestion
from abp_bridge.errors import describe_bug
from abp_bridge.session.call_clock import CallClock
from abp_bridge.session.host import CallOutcome
from abp_bridge.session.result_store import KeptResult

logger = logging.getLogger(__name__)


MAX_CONSOLE_LINES = 10  # the last ones of a page's console, in a call that failed
MAX_UNASKED = 1_000  # questions that are counted of those that nobody was asked
MAX_SUMMARY_LINES = 50  # different lines of a summary: more would bury the result
_SESSION_ENDED = CallOutcome(failed("CANCELLED", "The session ended.", cancelled=True))


class Callee(Protocol):
    """What a call needs of who is called: an `App`, as a rule."""

    async def call(self, capability: str, params: JsonObject, call: str) -> CallResult: ...
    async def cancel(self, call: str, reason: str) -> None: ...
    async def wait_idle(self) -> None: ...


class Call:
    """One call, from its start to its one outcome (implements `interfaces.host.Call`).

    Args:
        id: Names it to the app and to hosts.
        app: Has the capability.
        capability: What is called.
        params: What it is called with.
        timeout: Seconds that the app may tell nothing (`CallClock`); they stand still while a
            person is being asked.
        on_progress: Gets the app's reports, each that differs from the one before.
        on_end: Gets the outcome, as soon as there is one.
        withdraw: Takes questions down, for a reason.
        keep: Puts what is too large for a host into files, and fetches what the app only refers to.
        ask_approval: Asks a person whether the call may be made, by its id: None if so, else how it
            ends. Without it nobody is asked.
        count_lost: How many notifications have not reached the host, so far.
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
        """The outcome, once there is one."""
        await self._done.wait()
        return self._ended

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for its result any more, nor needs what is asked for it."""
        return bool(self._cancelled) or self._is_late

    async def wait_idle(self) -> None:
        """Wait until the app's own turn is over (`Call.wait_idle`)."""
        await self._app.wait_idle()

    def cancel(self, reason: str) -> None:
        """The host no longer wants it: the app is told, its questions are taken down at once,
        before a late answer can be read.
        """
        self._cancelled = self._cancelled or reason
        self._withdraw(list(self._questions.values()), f"its call ended: {self._cancelled}")
        self._clock.scope.cancel()

    def on_disconnect(self, reason: str) -> None:
        """The app is gone: there is nobody left to tell, and no result to wait for."""
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
        return await self._app.call(self.capability, self._params, self.id)

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
            await self._app.cancel(self.id, reason)
        if self._cancelled:
            return failed("CANCELLED", f"The call was cancelled: {reason}.", cancelled=True)
        return failed("TIMEOUT", f"Operation timed out: {late}", retryable=True)

    def on_question(self, question: Question, *, own: bool) -> None:
        """A person is being asked, and their time is not the app's.

        What is surely this call's `own` question ends with it.
        """
        self._clock.pause()
        self._asked.add(question.id)
        if own:
            self._questions[question.id] = question

    def on_answer(self, question: Question, answer: Answer | None) -> None:
        """The question has ended, and the app's clock goes on when it was the last."""
        if answer is not None and answer.outcome is Outcome.UNSUPPORTED and not question.secret:
            self._refused.add(question.kind)
        if answer is not None and answer.unasked and len(self._unasked) < MAX_UNASKED:
            tried = answer.tried or (answer.reason,)
            self._unasked.append(
                UnaskedQuestion(question.summary, question.asker, tried, answer.ways)
            )
        self._questions.pop(question.id, None)
        self._asked.discard(question.id)
        if not self._asked:
            self._clock.resume()

    def on_progress(self, report: Progress) -> None:
        """Pass a report on, unless it repeats the last or the call is over. Whatever it says, the
        app is at work: the limit of the call is one of silence.
        """
        self._clock.restart()
        if report != self._progress and self._on_progress is not None and not self._done.is_set():
            self._progress = report
            self._on_progress(report)

    def on_notice(self, notice: Notice) -> None:
        """Keep a notice for the result: the newest `MAX_SUMMARY_LINES` different ones.

        The others are counted: those that came first, of the same run or else of the longest.
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
        """What the app told while it ran, a line each, repeated ones counted; and how much of it
        is not there, or did not reach the host.
        """
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
