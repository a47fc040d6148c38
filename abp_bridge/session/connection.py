"""One connected app: what it offers, what it reported last, and its open calls and questions."""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import AppInfo, Capability
from abp_bridge.core.json_value import JsonValue, as_text
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import describe_bug
from abp_bridge.jsonrpc.loop import now
from abp_bridge.protocols import abp
from abp_bridge.session.app import App
from abp_bridge.session.call import MAX_CONSOLE_LINES, Call
from abp_bridge.session.context import NO_CONTEXT, AskContext, NoticeEvent, Observer, ProgressEvent
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.host import MAX_REMEMBERED, Host, state_uri

logger = logging.getLogger(__name__)


MAX_STATE_FIELDS = 500  # each is a resource in the host's list; more nobody can find one in
MAX_STATE_SIZE = 64 * 1024  # characters of JSON of one field, times the fields is what is in memory
MAX_KINDS = 50  # kinds of notices, and warnings: a status lists them all
MAX_BRIEF = 1_000  # characters of the last notice of a kind, in a status that a model reads

_numbers = count(1)


class ConnectionOwner(Protocol):
    """What a connection needs of its session."""

    host: Host
    observe: Observer
    elicitor: Elicitor

    def new_id(self, kind: str) -> str: ...
    def admit(self, connection: AppConnection, wanted: str) -> None: ...
    def on_capabilities_changed(self, connection: AppConnection) -> None: ...
    def dismiss(self, connection: AppConnection) -> None: ...
    def can_sample(self) -> bool: ...


class AppConnection:
    """One app's connection (implements `AppListener`).

    `live` keeps it open until `close_requested` is set or the app disconnects; then `closed` is
    set.

    Args:
        session: Its session.
        target: How the app was named: an address or a command.
        app: The app.

    Attributes:
        id: The app's name in this session; empty until it is open.
        capabilities: What the app offers now, by name.
        state: The newest value of each state field.
        calls: The running calls, by id.
        reason: Why it ended.
    """

    def __init__(self, session: ConnectionOwner, target: str, app: App) -> None:
        self.id = ""
        self.target = target
        self.app = app
        self.capabilities: dict[str, Capability] = {}
        self.state: dict[str, JsonValue] = {}
        self.calls: dict[str, Call] = {}
        self.close_requested = anyio.Event()
        self.closed = anyio.Event()
        self._number = str(next(_numbers))  # an id may be another's, later
        self._session = session
        self._opened: AppInfo | None = None
        self._warnings: dict[str, None] = {}
        self._old_warnings = 0
        self._ended_calls: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._operations: dict[str, str] = {}  # the app's own names of them: the ids of their calls
        self._early: deque[Notice] = deque()  # while it has no id yet that a host could be told
        self._early_lost = 0
        self._questions: dict[str, Question] = {}
        self._last: dict[str, JsonValue] = {}
        self._counts: Counter[str] = Counter()
        self._console: deque[str] = deque(maxlen=MAX_CONSOLE_LINES)
        self._progress: Progress | None = None
        self._list_changed = anyio.Event()
        self.reason = "the app was disconnected"

    async def live(self, *, task_status: TaskStatus[None]) -> None:
        """Keep the connection open.

        Raises AppError if it cannot be opened, later nothing: no app can end the session.
        """
        try:
            async with AsyncExitStack() as stack:
                self._opened = await stack.enter_async_context(self.app.open_app(self))
                self._warnings |= dict.fromkeys(self._opened.warnings)
                self._set_capabilities(self._opened.capabilities)
                self._session.admit(self, self._opened.id)
                for notice in self._early:
                    self.on_notice(notice)
                self._early.clear()
                if self._early_lost:
                    self.warn(
                        f"{self._early_lost} notices that the app told while it was being opened"
                        f" are lost: the newest {MAX_REMEMBERED} are kept"
                    )
                task_status.started()
                logger.info("%s is open: %s", self.id, self.app.origin)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._refresh_capabilities)
                    await self.close_requested.wait()
                    tasks.cancel_scope.cancel()
                self._end_calls()
        except Exception:  # whatever it is: no app can end the session
            if not self.id:
                raise
            logger.exception("the connection to %s (%s) failed", self.id, self.app.origin)
        finally:
            self._end_calls()
            self._session.dismiss(self)
            self.closed.set()
            logger.info("%s is closed", self.id or self.app.origin)

    def add_call(self, call: Call) -> None:
        """Count `call` among the running ones, until `end_call`."""
        self.calls[call.id] = call

    def end_call(self, call: Call) -> None:
        """Drop a call, and forget the app's names for it."""
        self.calls.pop(call.id, None)
        self._ended_calls.append(call.id)
        self._operations = {name: id for name, id in self._operations.items() if id != call.id}

    @property
    def name(self) -> str:
        """What the app calls itself; empty as long as it has not opened."""
        return self._opened.name if self._opened else ""

    def status(self) -> dict[str, JsonValue]:
        """Return what `abp_status` shows of the app.

        Returns:
            `{name, origin, abpVersion, capabilities, running, told, progress, state, warnings,
            console?}`. `told` has the count and last notice of each kind, `state` the
            resource URI of each field.
        """
        opened, progress = self._opened, self._progress
        return {
            "name": self.name,
            "origin": self.app.origin,
            "abpVersion": opened.version if opened else "",
            **({"instructions": opened.instructions} if opened and opened.instructions else {}),
            "capabilities": [
                {
                    "name": each.name,
                    "available": each.available,
                    **({"deprecated": each.deprecated} if each.deprecated else {}),
                    **({"needsApproval": True} if each.needs_approval else {}),
                    **(
                        {"askedOfPerson": list(each.asked_of_person)}
                        if each.asked_of_person
                        else {}
                    ),
                }
                for each in self.capabilities.values()
            ],
            "running": [
                {"call": call.id, "capability": call.capability} for call in self.calls.values()
            ],
            "told": {
                name: {"count": self._counts[name], "last": last}
                for name, last in self._last.items()
            },
            "progress": (
                None
                if progress is None
                else {"value": progress.value, "total": progress.total, "message": progress.message}
            ),
            "state": {field: state_uri(self.id, field) for field in self.state},
            "warnings": [
                *self._warnings,
                *([f"and {self._old_warnings} before these"] if self._old_warnings else ()),
            ],
            **({"console": list(self._console)} if self._console else {}),
        }

    def warn(self, words: str) -> None:
        """Add a warning to the status, once; of more than `MAX_KINDS` the oldest are counted."""
        self._warnings[words] = None
        if len(self._warnings) > MAX_KINDS:
            del self._warnings[next(iter(self._warnings))]
            self._old_warnings += 1

    # --- AppListener ---

    def new_question_id(self) -> str:
        return self._session.new_id("question")

    def can_sample(self) -> bool:
        return self._session.can_sample()

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        """Put the app's question to the user (`AppListener.elicit`).

        The question belongs to the call that it names, or to the only one; else to any of them,
        the newest first.
        """
        call = self._find_call(context.call) or self._only_call()
        is_given_up = call is not None and call.is_given_up
        if context.call in self._ended_calls or is_given_up:
            ended = context.call or (call and call.id)
            reason = f"its call {ended} has ended"
            return Answer(Outcome.WITHDRAWN, AnsweredBy.NOBODY, reason=reason)
        calls = (call.id,) if call else tuple(reversed(self.calls))
        tools = tuple(self.calls[each].capability for each in calls)
        own = question.origin == self.app.origin  # a frame of another's has neither
        context = replace(
            context,
            connection=self._number,
            calls=calls,
            tools=tools,
            app=label(self.name) if own else "",
            icon=self._opened.icon if own and self._opened is not None else "",
        )
        self._questions[question.id] = question
        running = list(self.calls.values()) if call is None else [call]
        for each in running:  # any of them may be the one that waits for this person
            each.on_question(question, own=each is call)
        answer: Answer | None = None
        try:
            answer = await self._session.elicitor.resolve(question, context)
            return answer
        except Exception as problem:
            logger.exception("question %s of call %s failed", question.id, context.call)
            answer = Answer(Outcome.UNSUPPORTED, AnsweredBy.NOBODY, reason=describe_bug(problem))
            return answer
        finally:
            self._questions.pop(question.id, None)
            for each in running:
                each.on_answer(question, answer)

    def on_notice(self, notice: Notice) -> None:
        """Record the notice, and pass it to its call and the host."""
        if not self.id:
            self._keep_early(notice)
            return
        self._session.observe(NoticeEvent(now(), self.id, notice))
        name = (
            notice.name
            if notice.name in self._last or len(self._last) < MAX_KINDS
            else "(other kinds)"
        )
        self._counts[name] += 1
        self._last[name] = _shorten(notice.data)
        if notice.kind is NoticeKind.CONSOLE:
            self._console.append(describe_notice(notice))
        if (hook := _HOOKS.get(notice.kind)) is not None:
            hook(self, notice)
        started = notice.data.get("capability") if notice.kind is NoticeKind.STARTED else None
        token = as_text(notice.data.get("progressToken"))
        for call in self._calls_of(token, notice.operation, capability=started):
            call.on_notice(notice)
        self._session.host.on_notice(self.id, self.app.origin, notice)

    def _keep_early(self, notice: Notice) -> None:
        self._early.append(notice)
        if len(self._early) > MAX_REMEMBERED:
            self._early.popleft()
            self._early_lost += 1

    def on_progress(self, progress: Progress) -> None:
        """Pass a report to its call, or to each call that it may be for."""
        self._progress = progress
        self._session.observe(ProgressEvent(now(), self.id, progress))
        calls = self._calls_of(progress.token, progress.operation)
        if len(calls) > 1 and progress.operation:
            whose = ": ".join(filter(None, (progress.operation, progress.status)))
            progress = replace(progress, status=whose)
        for call in calls:
            call.on_progress(progress)

    def on_disconnect(self, reason: str) -> None:
        """Leave the session, and end the open calls and questions."""
        self.reason = reason
        self._session.dismiss(self)
        self._end_calls()
        self.close_requested.set()

    def _calls_of(
        self, token: str | None, operation: str | None, *, capability: JsonValue = None
    ) -> list[Call]:
        """Return the running calls that the app refers to (X4).

        A name is a call's own id, or one that the app used for it before. A new name is that of
        the only call it can mean: one of `capability`, or one without a known name. If that is
        ambiguous, return all running calls; for an ended call, none.
        """
        names = [name for name in (token, operation) if name]
        call = next(filter(None, map(self._find_call, names)), None)
        if call is None and any(name in self._ended_calls for name in names):
            return []
        running = list(self.calls.values())
        if call is None and names:
            named = set(self._operations.values())
            unnamed = [each for each in running if each.id not in named]
            started = [each for each in unnamed if each.capability == capability]
            running = started or unnamed or running
            call = running[0] if len(running) == 1 else None
        if call is None:
            return running
        for name in names[: MAX_REMEMBERED - len(self._operations)]:
            self._operations.setdefault(name, call.id)
        return [call]

    def _find_call(self, name: str | None) -> Call | None:
        return self.calls.get(self._operations.get(name, name)) if name else None

    def _only_call(self) -> Call | None:
        return next(iter(self.calls.values())) if len(self.calls) == 1 else None

    def _state_changed(self, notice: Notice) -> None:
        field = str(notice.data.get("field", "state"))
        known = field in self.state
        if not known and len(self.state) >= MAX_STATE_FIELDS:
            self.warn(
                f"the app has more than {MAX_STATE_FIELDS} state fields; further ones are not kept"
                " as resources"
            )
            return
        self.state[field] = _limit_size(notice.data.get("newValue"))
        if not known:
            self._session.host.on_resources_changed()

    def _capabilities_changed(self, notice: Notice) -> None:
        self._list_changed.set()

    def _set_capabilities(self, capabilities: Sequence[Capability]) -> None:
        self.capabilities = {capability.name: capability for capability in capabilities}

    async def _refresh_capabilities(self) -> None:
        """Ask the app for its capabilities after `list_changed`, and notify the host (B4).

        An empty answer erases nothing (X12).
        """
        while True:
            await self._list_changed.wait()
            self._list_changed = anyio.Event()
            listed = await self.app.capabilities()
            for problem in listed.problems:
                self.warn(problem)
            merged = {
                each.name: each
                for each in abp.merge_capabilities(self.capabilities.values(), listed)
            }
            if merged != self.capabilities:
                self._set_capabilities(list(merged.values()))
                self._session.on_capabilities_changed(self)

    def _end_calls(self) -> None:
        self._session.elicitor.withdraw(list(self._questions.values()), self.reason)
        for call in list(self.calls.values()):
            call.on_disconnect(self.reason)


_HOOKS: dict[NoticeKind, Callable[[AppConnection, Notice], None]] = {
    NoticeKind.STATE_CHANGED: AppConnection._state_changed,
    NoticeKind.CAPABILITIES_CHANGED: AppConnection._capabilities_changed,
}


def _shorten(value: JsonValue) -> JsonValue:
    """Return a short value unchanged, a long one as shortened text."""
    words = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(words) <= MAX_BRIEF else message(words, MAX_BRIEF)


def _limit_size(value: JsonValue) -> JsonValue:
    """Return a small value unchanged, else a note of its size."""
    size = len(json.dumps(value, default=str))
    return value if size <= MAX_STATE_SIZE else f"[{size} characters: too large to keep]"
