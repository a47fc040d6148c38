"""The surface that answers sampling with a model the user configured, after the user approved what
is sent.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import anyio
import anyio.to_thread

from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import as_text, well_formed
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome, Verdict
from abp_bridge.core.question import UNASKED, Question
from abp_bridge.core.redact.command import HIDDEN, show_model
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.sanitize import clean
from abp_bridge.core.surface import Surface
from abp_bridge.models.agent import (
    AgentError,
    AgentErrorCode,
    AgentProtocol,
    AgentResponse,
    Chunk,
    ChunkKind,
    StartOptions,
    images_of,
)
from abp_bridge.models.request import (
    ANSWER,
    APPROVERS,
    MAX_SENT,
    Decision,
    ModelRequest,
    Review,
    decode_request,
    describe_response,
    encode_response,
    make_approval,
    make_edit,
    make_review,
    read_decision,
    read_review,
)
from abp_bridge.protocols.mcp.sampling import is_servers_own
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import (
    HostTimeoutError,
    OnModelProgress,
    OwnSurface,
    Resolve,
    SurfaceFailedError,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

logger = logging.getLogger(__name__)

AT_ONCE = 2  # turns: each may be a process, and an app with lasting approval may loop
MAX_OPEN = 3  # approvals of one app: the user reads one after the other
MAX_NOES = 3  # refusals in a row to one app, before it may not ask again
INTERVAL = 5.0  # seconds between progress reports: most answers are sooner
STOP_LIMIT = 10.0  # seconds for a session's process to end: no cancel reaches this wait
SHORTEST_KEY = 8  # characters: shorter ones occur in other words
_LASTING = (AgentErrorCode.NOT_AVAILABLE, AgentErrorCode.AUTH_REQUIRED)
# The user has to fix it first, or a retry would fail the same way.
_FINAL = (*_LASTING, AgentErrorCode.REFUSED, AgentErrorCode.NO_IMAGES)
_NO_PERSON = "no person approved what it would be sent"
_BEFORE = Verdict(AnsweredBy.PERSON, "")  # the user approved all requests of this app
_NOT_SENT = "The user did not let it be sent to a model."
_LEFT_ALONE = (
    f"its person did not let the last {MAX_NOES} requests of this app be sent, and is not asked for"
    " more of them in this session"
)
_KEPT_BACK = "The user kept the model's answer back."
LEEWAY = 0.5  # seconds before the question's deadline, to report that the model is late

MakeAgent = Callable[[str, str], AgentProtocol]


@dataclass(slots=True)
class _App:
    """What the user decided about one app in one session.

    Attributes:
        is_allowed: All of its requests are approved.
        refusals: In a row, by the user.
        slots: For its open approvals.
        approvals: The open ones.
    """

    is_allowed: bool = False
    refusals: int = 0
    slots: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MAX_OPEN))
    approvals: set[anyio.CancelScope] = field(default_factory=set)


class AgentSurface(OwnSurface):
    """Implements `InputProvider` with one model.

    Args:
        model: As the user named it; shown without secrets.
        make_agent: (that name, a folder for its sessions) -> the agent; nothing runs yet.
        limit: Seconds for a turn if the requester sets none.
        interval: Seconds between progress reports.
    """

    def __init__(
        self, model: str, make_agent: MakeAgent, *, limit: float, interval: float = INTERVAL
    ) -> None:
        self._model = show_model(model)
        self._word = model
        self._make_agent = make_agent
        self._resolve: Resolve
        self._limit = limit
        self._on_progress: OnModelProgress
        self._interval = interval
        self._turns = anyio.Semaphore(AT_ONCE)
        self._apps: defaultdict[tuple[str, str], _App] = defaultdict(_App)  # (name, connection)
        self._serial = count(1)
        self._obstacle = ""  # found by the last check

    def attach(self, resolve: Resolve, on_progress: OnModelProgress) -> None:
        self._resolve, self._on_progress = resolve, on_progress

    @property
    def place(self) -> str:  # type: ignore[override]
        """The model, and why it cannot be used if it cannot."""
        return f"{self._model}: {self._obstacle}" if self._obstacle else self._model

    async def warn_if_unavailable(self) -> None:
        """Log a warning if the model cannot be used."""
        if why := await anyio.to_thread.run_sync(self._find_obstacle, False):
            logger.warning(
                "%s cannot be asked: %s. Apps that ask for a model are refused; abp-bridge agents"
                " lists which models there are for --sampling",
                self._model,
                why,
            )

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.SAMPLING)]

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Have the user approve the request, the model answer, and the user review the answer."""
        request = decode_request(question)
        if why := self._find_obstacle(bool(images_of(request.messages))):
            raise SurfaceUnsupportedError(f"{self._model} cannot be asked: {why}", lasting=False)
        app = self._apps[question.origin, context.connection]
        context.wait_for(f"nobody said whether {self._model} may be sent it")
        async with app.slots:
            if app.refusals >= MAX_NOES:
                raise SurfaceUnsupportedError(_LEFT_ALONE, lasting=False)
            decision, verdict = await self._approve(app, question, context, request)
            if decision is not Decision.REFUSE:
                app.refusals = 0
            elif verdict.answered_by is AnsweredBy.PERSON:
                app.refusals += 1
        if decision is Decision.REFUSE:
            return SurfaceResponse(Outcome.DECLINED, verdict=verdict, reason=_NOT_SENT)
        context.wait_for(f"{self._model} was busy with other questions, and did not answer")
        async with self._turns:
            context.wait_for(f"{self._model} did not answer")
            response, hidden = await self._ask_model(question, context, request)
        text, edited = as_text(response.content), False
        if decision is Decision.REVIEW:
            context.wait_for(f"{self._model} has answered, and nobody said whether that may leave")
            reviewed, verdict = await self._review(question, context, text)
            if reviewed is None:
                return SurfaceResponse(Outcome.DECLINED, verdict=verdict, reason=_KEPT_BACK)
            text, edited = reviewed, reviewed != text
        return SurfaceResponse(
            Outcome.ACCEPTED,
            encode_response(question, response, text, self._model),
            metadata=describe_response(response, self._model, request.ignored)
            | ({"edited": True} if edited else {})
            | ({"hiddenCharacters": hidden} if hidden else {}),
        )

    def _find_obstacle(self, has_images: bool) -> str:
        """Return why the model cannot be used; keep it for `place`, unless images may be why."""
        why = self._make_agent(self._word, "").find_obstacle(images=has_images)
        if not has_images:
            self._obstacle = why
        return why

    # --- the user ---

    async def _approve(
        self, app: _App, question: Question, context: AskContext, request: ModelRequest
    ) -> tuple[Decision, Verdict]:
        """Return the decision and its evidence."""
        if app.is_allowed:
            return Decision.SEND, _BEFORE
        asked = make_approval(
            self._name_question(question, "approval"), question, self._model, request.words
        )
        scope, answer = anyio.CancelScope(), None
        app.approvals.add(scope)
        try:
            with scope:
                answer = self._proven(await self._resolve(asked, replace(context, timeout=None)))
        finally:
            app.approvals.discard(scope)
        if answer is None:  # cancelled by the answer to another: all of this app's is approved
            return Decision.SEND, _BEFORE
        decision = read_decision(answer)
        if decision is Decision.SEND_ALL:
            app.is_allowed = True
            for other in app.approvals:
                other.cancel()
        return decision, _verdict(answer)

    async def _review(
        self, question: Question, context: AskContext, text: str
    ) -> tuple[str | None, Verdict]:
        """Return what goes to the app, None if the answer is kept back, and the evidence."""
        editable, inside = True, replace(context, timeout=None)
        while True:
            asked = make_review(
                self._name_question(question, "review"),
                question,
                self._model,
                text,
                editable=editable,
            )
            answer = self._proven(await self._resolve(asked, inside))
            review = read_review(answer)
            if review is not Review.EDIT:
                return (text if review is Review.PASS else None), _verdict(answer)
            edit = make_edit(self._name_question(question, "edit"), question, text)
            answer = await self._resolve(edit, inside)
            if answer.outcome is Outcome.ACCEPTED and answer.answered_by in APPROVERS:
                return str(answer.content[ANSWER]), _verdict(answer)
            editable = answer.outcome is not Outcome.UNSUPPORTED

    def _proven(self, answer: Answer) -> Answer:
        """Return `answer` if the user or an answers file gave it."""
        if answer.outcome is Outcome.TIMED_OUT:
            raise HostTimeoutError(f"{_NO_PERSON}: {answer.reason}")
        if answer.outcome is Outcome.INVALID or answer.answered_by not in APPROVERS:
            why = answer.reason.removeprefix(UNASKED) or answer.outcome.value
            raise SurfaceUnsupportedError(f"{_NO_PERSON} ({why})", lasting=False)
        return answer

    def _name_question(self, question: Question, what: str) -> str:
        return f"{question.id}-{what}-{next(self._serial)}"

    # --- the model ---

    async def _ask_model(
        self, question: Question, context: AskContext, request: ModelRequest
    ) -> tuple[AgentResponse, int]:
        """Run a turn of a new session and return its answer, safe to show, and how many invisible
        characters were removed.

        An answer cut at its limit of tokens goes to servers only: MCP can say so.
        """
        agent: AgentProtocol | None = None
        try:
            with tempfile.TemporaryDirectory(
                prefix="abp-model-", ignore_cleanup_errors=True
            ) as folder:
                agent = self._make_agent(self._word, folder)
                response = await self._run_turn(agent, folder, context, request)
        except AgentError as problem:
            half = problem.partial
            if half is None or not half.content or not is_servers_own(question.request):
                raise self._explain(problem) from None
            response = half
        except OSError as problem:
            words = f"{self._model} cannot be asked: {problem.strerror or problem}"
            raise SurfaceUnsupportedError(words, lasting=False) from None
        text, hidden = clean(as_text(well_formed(response.content)))
        if not text.strip() or len(text) > MAX_SENT:
            what = f"more than {MAX_SENT:,} characters" if text.strip() else "without text"
            raise SurfaceFailedError(f"{self._model} answered {what}")
        if response.usage is not None and agent is not None:
            usage = replace(response.usage, cost=agent.estimate_cost(response))
            response = replace(response, usage=usage)
        return replace(response, content=text), hidden

    async def _run_turn(
        self, agent: AgentProtocol, folder: str, context: AskContext, request: ModelRequest
    ) -> AgentResponse:
        """Return the answer and report its progress to the host meanwhile."""
        session = await agent.start(StartOptions(workspace=folder))
        left = anyio.current_effective_deadline() - anyio.current_time() - LEEWAY
        limit = context.timeout or self._limit
        written = 0

        def on_chunk(chunk: Chunk) -> None:
            nonlocal written
            written += len(chunk.text) if chunk.kind == ChunkKind.TEXT else 0

        async def report() -> None:
            while True:
                await anyio.sleep(self._interval)
                far = f"has written {written:,} characters" if written else "is at work"
                self._on_progress(context.calls, f"{self._model} {far}")

        problem: AgentError | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(report)
                try:
                    return await agent.send(
                        session,
                        request.messages,
                        on_chunk=on_chunk,
                        settings=request.settings,
                        timeout_ms=round(1_000 * max(0.0, min(limit, left))),
                    )
                except AgentError as failure:  # the group would raise it as an exception group
                    problem = failure
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(STOP_LIMIT, shield=True):
                await agent.stop(session)
        assert problem is not None, "a turn that is cancelled does not come here"
        if problem.code is AgentErrorCode.TIMEOUT and (gone := limit - left) > 1:
            words = f"{problem}: {gone:.0f} of {limit:g} s were over when it was asked"
            raise AgentError(problem.code, words)
        raise problem

    def _explain(
        self, problem: AgentError
    ) -> HostTimeoutError | SurfaceFailedError | SurfaceUnsupportedError:
        """Turn a failed turn into an error for the requester.

        The user's keys are left out: programs quote wrong ones.
        """
        said = str(problem)
        for name, value in os.environ.items():
            if len(value) >= SHORTEST_KEY and holds_secret(name):
                said = said.replace(value, HIDDEN)
        if problem.code is AgentErrorCode.TIMEOUT:
            return HostTimeoutError(f"{self._model} brought no answer: {said}")
        again = f" (again after {problem.retry_after:g} s)" if problem.retry_after else ""
        words = f"{self._model} brought no answer ({problem.code}): {said}{again}"
        if problem.code in _FINAL:
            return SurfaceUnsupportedError(words, lasting=problem.code in _LASTING)
        return SurfaceFailedError(words)


def _verdict(answer: Answer) -> Verdict:
    return Verdict(answer.answered_by, answer.evidence)
