"""Connects an app, hears what crosses as it came, and makes the facts of it that `rules` judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Protocol, runtime_checkable

import anyio

from abp_bridge.apps.targets import make_app
from abp_bridge.cli.check_app.rules import ABP, Asked, Facts, Kind, Step
from abp_bridge.cli.parameters import read_call
from abp_bridge.cli.terminal_host.script import Script
from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.event import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, parse_json
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.abp.agent import encode_result
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.rpc.tap import observe_stream
from abp_bridge.session.app import Absence, App, AppError, only_error
from abp_bridge.settings import Settings

WEBMCP = "WebMCP"  # what such a page has for a version
NO_CAPABILITY = "abp-bridge.check.no-such-capability"
# Which step ends, before the browser is started, where something is not there.
_STEPS: Mapping[Absence | None, Step] = {
    Absence.LINK: Step.LINK,
    Absence.MANIFEST: Step.MANIFEST,
    Absence.CONTENT: Step.CONTENT,
}
_CALLS = {"capabilities/call": "call", "capabilities/list": "capabilities"}


async def gather(
    target: str, settings: Settings, call: Sequence[str] = (), script: Script | None = None
) -> Facts:
    """The facts of the app at `target`.

    Args:
        target: As `--app` has it.
        settings: What the person set.
        call: A capability to be called too, and its parameters as words.
        script: What answers its questions; without one they are declined.

    Raises:
        AppError: This machine lacks what such an app needs.
        CapabilityError: The app has no such capability.
        ParameterError: Its parameters do not fit.
    """
    facts = Facts(_kind(target))
    collector = FactCollector(facts)
    tap = partial(observe_stream, read=collector.read, written=collector.written)
    app = make_app(target, True, settings, tap)
    if isinstance(app, _Overheard):
        app.overhear = collector.add
    try:
        async with (
            only_error(AbpBridgeError),
            app.open(ScriptedListener(facts, script)) as opened,
        ):
            facts.capabilities = opened.capabilities
            if facts.kind is Kind.PAGE and opened.version == WEBMCP:
                facts.kind = Kind.TOOLS
            calls = {
                "unknown": (NO_CAPABILITY, {}) if facts.kind in ABP else None,
                "called": read_call(call, opened.capabilities) if call else None,
            }
            for stage, made in calls.items():
                if made is not None:
                    await _call(app, stage, made, collector, settings.call_timeout)
    except AppError as problem:
        facts.problem, facts.step = str(problem), _find_step(problem, collector)
        facts.absence = problem.absence
    return facts


def _find_step(problem: AppError, collector: FactCollector) -> Step:
    """Which step `problem` ended."""
    facts = collector.facts
    if facts.kind is not Kind.PAGE:
        unreached = not collector.has_heard or problem.absence is Absence.SERVER
        return Step.REACHED if unreached else Step.SESSION
    if facts.manifest is not None:
        return Step.BROWSER if problem.code == "BROWSER_ERROR" else Step.SESSION
    return _STEPS.get(problem.absence, Step.REACHED)


async def _call(
    app: App,
    stage: str,
    call: tuple[str, JsonObject],
    collector: FactCollector,
    limit: float,
) -> None:
    collector.stage = stage
    with anyio.move_on_after(limit) as waiting:
        result = await app.call(*call, f"check-{stage}")
        if collector.facts.kind not in ABP:  # what the bridge makes of its answer
            collector.facts.called = encode_result(result)
        if result.failure is not None:
            collector.facts.failures[stage] = str(result.failure)
    if waiting.cancelled_caught:
        collector.facts.unanswered[stage] = limit


@runtime_checkable
class _Overheard(Protocol):
    """An app that tells what crosses between it and the bridge: it is a page, and has no pipe."""

    overhear: Callable[[str, JsonValue, bool], None]


def _kind(target: str) -> Kind:
    lower = target.lower()
    if lower.startswith(("http:", "https:")) or lower == "demo:page":
        return Kind.PAGE
    if lower.startswith(("ws:", "wss:")):
        return Kind.SOCKET
    return Kind.PIPE if lower.startswith("stdio:") or lower == "demo" else Kind.OTHER


class FactCollector:
    """Sorts what crosses into the facts.

    Attributes:
        facts: Those.
        stage: What the next call's answer is: `unknown` or `called`.
        has_heard: Whether a program said anything.
    """

    def __init__(self, facts: Facts) -> None:
        self.stage = "unknown"
        self.has_heard = False
        self.facts = facts
        self._asked: dict[JsonValue, str] = {}  # ids of our requests: what they called

    def add(self, name: str, said: JsonValue, thrown: bool) -> None:
        """What a page said (`apps.browser.page.Overhear`)."""
        if name == "ask":
            self.facts.asked.append(said)
            return
        if name == "tools":
            self.facts.written = as_object(said)
            return
        if name == "manifest":
            self.facts.manifest = as_object(said)
            return
        name = {"call": self.stage, "capabilities": "listed"}.get(name, name)
        if name not in ("initialize", "listed", "unknown", "called", "shutdown"):
            return
        setattr(self.facts, name, said)
        if thrown:
            self.facts.thrown.add(name)

    def written(self, line: bytes | None, size: int) -> None:
        """A line of ours to a program (`rpc.tap.LineListener`)."""
        message = _message(line)
        name, id = message.get("method", message.get("type")), message.get("id")
        if isinstance(name, str) and isinstance(id, str | int):
            self._asked[id] = _CALLS.get(name, name)

    def read(self, line: bytes | None, size: int) -> None:
        """A line of a program's (`rpc.tap.LineListener`)."""
        self.has_heard = True
        message = _message(line)
        message = from_envelope(dict(message)) if is_envelope(message) else message
        id, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            if method.startswith(("elicitation/", "sampling/")):
                self.add("ask", {"method": method, "params": message.get("params")}, False)
        elif isinstance(id, str | int) and (name := self._asked.pop(id, "")):
            self.add(name, message.get("result", message.get("error")), "error" in message)


def _message(line: bytes | None) -> JsonObject:
    try:
        return as_object(parse_json(line or b"{}"))
    except ValueError:
        return {}


class ScriptedListener:
    """Who listens while an app is checked (`AppListener`): its questions are answered by a script,
    or declined.
    """

    def __init__(self, facts: Facts, script: Script | None) -> None:
        self._facts = facts
        self._script = script
        self._numbers = count(1)

    def new_question_id(self) -> str:
        """An id (`QuestionListener.new_question_id`)."""
        return f"question-{next(self._numbers)}"

    async def ask(self, question: Question) -> Answer:
        """Answer as it is written, or decline where nothing is (`QuestionListener.ask`)."""
        answer = await self._answer(question)
        self._facts.questions.append(
            Asked(question.kind.value, label(question.message), answer.outcome)
        )
        return answer

    async def _answer(self, question: Question) -> Answer:
        if self._script is None:
            reason = "abp-bridge check declines every question without --answers"
            return Answer(Outcome.DECLINED, AnsweredBy.NOBODY, reason=reason)
        response = await self._script.ask(question)
        content = response.content
        if question.fields and response.outcome is Outcome.ACCEPTED:
            content = validate_answer(question, content)[0]
        by = response.answered_by or AnsweredBy.SCRIPT
        return Answer(response.outcome, by, content, reason=response.reason)

    def can_sample(self) -> bool:
        """Whether something may be written for one (`AppListener.can_sample`)."""
        return self._script is not None

    def on_notice(self, notice: Notice) -> None:
        """Keep the errors of the page's console (`AppListener.on_notice`)."""
        if notice.kind is NoticeKind.CONSOLE and notice.failed:
            self._facts.console.append(describe_notice(notice))

    def on_progress(self, progress: Progress) -> None:
        """Nobody is told (`AppListener.on_progress`)."""

    def on_disconnect(self, reason: str) -> None:
        """What is called says so itself (`AppListener.on_disconnect`)."""
