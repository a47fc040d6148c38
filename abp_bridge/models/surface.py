"""The surface that answers sampling with a model the user configured, after the user approved what
is sent.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
    OnChunk,
    StartOptions,
    images_of,
)
from abp_bridge.models.request import (
    ANSWER,
    APPROVERS,
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

AT_ONCE = 2  # turns: each may be a process, and an app that is allowed everything asks in a loop
MAX_OPEN = 3  # approvals of one app: a person reads one after the other
MAX_NOES = 3  # in a row to one app, which asks again and again: then its person is left alone
INTERVAL = 5.0  # seconds between reports of how far an answer is: most are there sooner
STOP_LIMIT = 10.0  # seconds for a session's process to be gone: it bounds that itself
SHORTEST_KEY = 8  # characters: shorter ones stand in other words
MAX_SHOWN = 50_000  # characters of an answer: a person can be shown as many
_LASTING = (AgentErrorCode.NOT_AVAILABLE, AgentErrorCode.AUTH_REQUIRED)
# Which the person has to mend first, or which is the model's last word: again would be the same.
_FINAL = (*_LASTING, AgentErrorCode.REFUSED, AgentErrorCode.NO_IMAGES)
_NO_PERSON = "no person approved what it would be sent"
_BEFORE = Verdict(AnsweredBy.PERSON, "")  # who approves all of an app is not asked again
_NOT_SENT = "The user did not let it be sent to a model."
_LEFT_ALONE = (
    f"its person did not let the last {MAX_NOES} requests of this app be sent, and is not asked for"
    " more of them in this session"
)
_KEPT_BACK = "The user kept the model's answer back."
LEEWAY = 0.5  # seconds of the question's time in which a model that is late is still said to be

MakeAgent = Callable[[str, str], AgentProtocol]
FindObstacle = Callable[[str, bool], str]


class AgentSurface(OwnSurface):
    """Implements `InputProvider` with one model.

    Args:
        model: As the user named it; shown without secrets.
        make_agent: (that name, a folder for its sessions) -> the agent; nothing runs yet.
        limit: Seconds for a turn if the requester sets none.
        find_obstacle: (that name, whether images are sent) -> why it cannot be used, as far as can
            be
            seen at once; empty if it can.
        interval: Seconds between progress reports.
    """

    def __init__(
        self,
        model: str,
        make_agent: MakeAgent,
        *,
        limit: float,
        find_obstacle: FindObstacle = lambda model, images: "",
        interval: float = INTERVAL,
    ) -> None:
        self._model = show_model(model)
        self._word = model
        self._make_agent = make_agent
        self._resolve: Resolve
        self._limit = limit
        self._on_progress: OnModelProgress
        self._find_obstacle = find_obstacle
        self._interval = interval
        self._turns = anyio.Semaphore(AT_ONCE)
        self._allowed: set[tuple[str, str]] = set()  # the apps all of whose requests are approved
        self._approvals: dict[tuple[str, str], set[anyio.CancelScope]] = {}  # open ones, by app
        self._rooms: dict[tuple[str, str], anyio.Semaphore] = {}  # for open ones, by app
        self._noes: dict[tuple[str, str], int] = {}  # of the person's since their last yes, by app
        self._serial = count(1)
        self._obstacle = ""  # why it could not be had, when that was last looked for

    def attach(self, resolve: Resolve, on_progress: OnModelProgress) -> None:
        self._resolve, self._on_progress = resolve, on_progress

    @property
    def place(self) -> str:  # type: ignore[override]
        """The model, and why it cannot be used if it cannot."""
        return f"{self._model}: {self._obstacle}" if self._obstacle else self._model

    async def look(self) -> None:
        """Log a warning if the model cannot be used."""
        if why := await anyio.to_thread.run_sync(self._look, False):
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
        if why := self._look(bool(images_of(request.messages))):  # before anybody is asked
            raise SurfaceUnsupportedError(f"{self._model} cannot be asked: {why}", lasting=False)
        app = question.origin, context.connection
        context.wait_for(f"nobody said whether {self._model} may be sent it")
        async with self._rooms.setdefault(app, anyio.Semaphore(MAX_OPEN)):
            if self._noes.get(app, 0) >= MAX_NOES:
                raise SurfaceUnsupportedError(_LEFT_ALONE, lasting=False)
            decision, verdict = await self._approve(question, context, request)
            self._noes[app] = self._count_noes(app, decision, verdict.answered_by)
        if decision is Decision.REFUSE:
            return SurfaceResponse(Outcome.DECLINED, verdict=verdict, reason=_NOT_SENT)
        context.wait_for(f"{self._model} was busy with other questions, and did not answer")
        async with self._turns:
            context.wait_for(f"{self._model} did not answer")
            response, hidden = await self._run(question, context, request)
        text, edited = as_text(response.content), False
        if decision is Decision.REVIEW:
            context.wait_for(f"{self._model} has answered, and nobody said whether that may leave")
            reviewed, verdict = await self._review(question, context, text)
            if reviewed is None:
                return SurfaceResponse(Outcome.DECLINED, verdict=verdict, reason=_KEPT_BACK)
            text, edited = reviewed, reviewed != text
        cost = response.usage.cost if response.usage else None
        ignored = (*request.ignored, *response.ignored)
        return SurfaceResponse(
            Outcome.ACCEPTED,
            encode_response(question, response, text, self._model),
            metadata=describe_response(response, cost, self._model, ignored)
            | ({"edited": True} if edited else {})
            | ({"hiddenCharacters": hidden} if hidden else {}),
        )

    def _look(self, has_images: bool) -> str:
        """Return why the model cannot be used now, and keep it for `place` unless images may be the
        reason.
        """
        why = self._find_obstacle(self._word, has_images)
        if not has_images:
            self._obstacle = why
        return why

    # --- the person ---

    async def _approve(
        self, question: Question, context: AskContext, request: ModelRequest
    ) -> tuple[Decision, Verdict]:
        """Return the decision and its evidence."""
        app = question.origin, context.connection
        inside = replace(context, timeout=None)
        if app in self._allowed:
            return Decision.SEND, _BEFORE
        asked = make_approval(
            self._name(question, "approval"), question, self._model, request.words
        )
        scope, answer = anyio.CancelScope(), None
        (others := self._approvals.setdefault(app, set())).add(scope)
        try:
            with scope:
                answer = self._proven(await self._resolve(asked, inside))
        finally:
            others.discard(scope)
        if answer is None:  # cancelled by the answer to another: all of this app's is approved
            return Decision.SEND, _BEFORE
        decision = read_decision(answer)
        if decision is Decision.SEND_ALL:
            self._allowed.add(app)
            for other in others:
                other.cancel()
        return decision, _verdict(answer)

    def _count_noes(self, app: tuple[str, str], decision: Decision, by: AnsweredBy) -> int:
        """Return the refusals in a row; only the user's own count."""
        is_no = decision is Decision.REFUSE
        return self._noes.get(app, 0) + (by is AnsweredBy.PERSON) if is_no else 0

    async def _review(
        self, question: Question, context: AskContext, text: str
    ) -> tuple[str | None, Verdict]:
        """Return what goes to the app, None if the answer is kept back, and the evidence."""
        editable, inside = True, replace(context, timeout=None)
        while True:
            asked = make_review(
                self._name(question, "review"), question, self._model, text, editable=editable
            )
            answer = self._proven(await self._resolve(asked, inside))
            review = read_review(answer)
            if review is not Review.EDIT:
                return (text if review is Review.PASS else None), _verdict(answer)
            edit = make_edit(self._name(question, "edit"), question, text)
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

    def _name(self, question: Question, what: str) -> str:
        return f"{question.id}-{what}-{next(self._serial)}"

    # --- the model ---

    async def _run(
        self, question: Question, context: AskContext, request: ModelRequest
    ) -> tuple[AgentResponse, int]:
        """Run a turn of a new session and return its answer, safe to show, and how many invisible
        characters were removed.
        """
        try:
            with tempfile.TemporaryDirectory(
                prefix="abp-model-", ignore_cleanup_errors=True
            ) as folder:
                response = await self._turn(folder, question, context, request)
        except AgentError as problem:
            raise self._explain(problem) from None
        except OSError as problem:
            words = f"{self._model} cannot be asked: {problem.strerror or problem}"
            raise SurfaceUnsupportedError(words, lasting=False) from None
        text, hidden = clean(as_text(well_formed(response.content)))
        if not text.strip() or len(text) > MAX_SHOWN:
            what = f"more than {MAX_SHOWN:,} characters" if text.strip() else "without text"
            raise SurfaceFailedError(f"{self._model} answered {what}")
        return replace(response, content=text), hidden

    async def _turn(
        self, folder: str, question: Question, context: AskContext, request: ModelRequest
    ) -> AgentResponse:
        """Return the answer; for a server also one cut at its limit, as MCP can say so."""
        agent = self._make_agent(self._word, folder)
        try:
            response = await self._send(agent, folder, context, request)
        except AgentError as problem:
            half = problem.partial
            if half is None or not half.content or not is_servers_own(question.request):
                raise
            response = half
        if response.usage is None:
            return response
        return replace(response, usage=replace(response.usage, cost=agent.estimate_cost(response)))

    async def _send(
        self, agent: AgentProtocol, folder: str, context: AskContext, request: ModelRequest
    ) -> AgentResponse:
        session = await agent.start(StartOptions(workspace=folder))
        left = anyio.current_effective_deadline() - anyio.current_time() - LEEWAY
        limit = context.timeout or self._limit
        try:
            return await self._watch(
                context,
                lambda on_chunk: agent.send(
                    session,
                    request.messages,
                    on_chunk=on_chunk,
                    settings=request.settings,
                    timeout_ms=round(1_000 * max(0.0, min(limit, left))),
                ),
            )
        except AgentError as problem:
            if problem.code is AgentErrorCode.TIMEOUT and (gone := limit - left) > 1:
                words = f"{problem}: {gone:.0f} of {limit:g} s were over when it was asked"
                raise AgentError(problem.code, words) from None
            raise
        finally:
            with anyio.move_on_after(STOP_LIMIT, shield=True):
                await agent.stop(session)

    def _explain(
        self, problem: AgentError
    ) -> HostTimeoutError | SurfaceFailedError | SurfaceUnsupportedError:
        """Turn a failed turn into an error for the requester, without the user's keys: programs
        quote
        wrong ones.
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

    async def _watch(
        self, context: AskContext, turn: Callable[[OnChunk], Awaitable[AgentResponse]]
    ) -> AgentResponse:
        """Return the answer of `turn` and report its progress to the host meanwhile."""
        written = 0
        ended: AgentResponse | AgentError | None = None

        def on_chunk(chunk: Chunk) -> None:
            nonlocal written
            written += len(chunk.text) if chunk.kind == ChunkKind.TEXT else 0

        async def report() -> None:
            while True:
                await anyio.sleep(self._interval)
                far = f"has written {written:,} characters" if written else "is at work"
                self._on_progress(context.calls, f"{self._model} {far}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(report)
            try:
                ended = await turn(on_chunk)
            except AgentError as problem:  # apart from what ends the group
                ended = problem
            tasks.cancel_scope.cancel()
        if isinstance(ended, AgentResponse):
            return ended
        assert ended is not None, "a turn that is cancelled does not come here"
        raise ended


def _verdict(answer: Answer) -> Verdict:
    return Verdict(answer.answered_by, answer.evidence)
