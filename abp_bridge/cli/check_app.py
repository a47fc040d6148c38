"""`abp-bridge check`: whether an app keeps ABP's rules, and how to fix what it does not."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from abp_bridge.apps.targets import make_app
from abp_bridge.cli.check_rules import ABP, Asked, Facts, Finding, Kind, Status, Step, check_all
from abp_bridge.cli.options import load_settings
from abp_bridge.cli.parameters import CapabilityError, ParameterError, read_call
from abp_bridge.cli.runtime import complain, print_json, print_text, run_until_signal
from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.json_value import (
    Json,
    JsonObject,
    JsonValue,
    as_count,
    as_object,
    as_text,
    parse_json,
)
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import count_of
from abp_bridge.errors import AbpBridgeError
from abp_bridge.jsonrpc.tap import observe_stream
from abp_bridge.protocols.abp.agent import encode_result
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.session.app import Absence, App, AppError, only_error
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.settings import Settings, variables_of_others
from abp_bridge.settings.values import find_target_problem
from abp_bridge.surfaces.answers_file import AnswersError, Script, read_answers
from abp_bridge.surfaces.terminal.rendering import hanging_lines

if TYPE_CHECKING:
    import argparse

MISSING = "name the app: abp-bridge check http://localhost:3000"
HELP = "whether an app keeps ABP's rules, each with its cure"
USAGE = "abp-bridge check [OPTION]... TARGET [--call CAPABILITY [PARAMS]]"
DESCRIPTION = """\
Connects an app, looks at all that a client can see of it, and says of each of ABP's rules whether
it is kept: for a page its manifest, for all initialize, the list of capabilities and their schemas,
what a call is answered with, and the end of the session. No capability is called but one that
cannot be there, unless --call names one. What that asks is answered from --answers FILE, and
declined without one: then what it returns after an answer is not checked.

  abp-bridge check http://localhost:3000
  abp-bridge check 'stdio:python app.py' --call greet name=Ada --answers answers.json
  abp-bridge check http://localhost:3000 --json | jq '.checks[] | select(.status == "failed")'

Exit code: 1 where a rule that ABP demands is broken (the others are warnings) or a written answer
does not fit, else 0; 2 where there is no such capability, its parameters do not fit, or something
else cannot be understood.
"""

_COUNTED = {each: each.value for each in Status} | {Status.WARNING: "to look at"}
_COLUMN = 13  # characters of a status
_INDENT = " " * _COLUMN


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Add which app, and what of it is called."""
    option = parser.add_argument
    option("target", metavar="TARGET", help="the app: an address, or a command such as stdio:...")
    option(
        "--call",
        nargs="+",
        metavar=("CAPABILITY", "PARAMS"),
        help="call this too, which may do what it does: a JSON object, or name=value for each",
    )
    option(
        "--answers",
        metavar="FILE",
        help="answer what it asks from a JSON file: a list, one entry a question",
    )
    option("--json", action="store_true", help="one JSON object instead of words")


def describe_more(words: Sequence[str]) -> str:
    """What may be meant by words after the app."""
    return f"is --call {shlex.join(words)} meant?"


def run_check(options: argparse.Namespace) -> int:
    """Check the app. Returns the exit code."""
    target = options.target
    if wrong := find_target_problem(target):
        return complain(wrong, "check")
    answers, options.answers = options.answers, None  # a bridge's setting elsewhere
    settings = load_settings(options, ignored=variables_of_others("check"))
    if answers is not None and options.call is None:
        return complain("--answers is for what --call asks: name a capability too", "check")
    try:
        script = None if answers is None else Script(read_answers(answers))
    except AnswersError as problem:
        return complain(problem, "check")

    async def check(tasks: TaskGroup) -> int:
        return await _check_target(
            target, settings, options.call or (), script, as_json=options.json
        )

    return anyio.run(run_until_signal, check)


async def _check_target(
    target: str,
    settings: Settings,
    call: Sequence[str],
    script: Script | None,
    *,
    as_json: bool,
) -> int:
    try:
        facts = await gather_facts(target, settings, call, script)
    except (AppError, CapabilityError, ParameterError) as problem:
        return complain(problem, "check")
    findings = check_all(facts)
    failed = any(each.status is Status.FAILED for each in findings)
    failed = failed or (script is not None and bool(script.misfits))
    shown, notes = show_target(target), list(_notes(facts, script, called=bool(call)))
    if as_json:
        members = _members(shown, facts, findings, failed=failed)
        print_json(json.dumps(members | {"notes": notes}, ensure_ascii=False) + "\n")
    else:
        print_text("\n".join(_report_lines(shown, facts, findings, notes)) + "\n")
    return 1 if failed else 0


def _notes(facts: Facts, script: Script | None, *, called: bool) -> Iterator[str]:
    """What is to be known of the call beside the rules, a paragraph each."""
    why = facts.failures.get("called")
    if why and "called" not in facts.thrown:  # that breaks a rule, which says it
        yield label(f"The call failed: {why}", 1_000)
    yield from _unread(facts.written or {})
    if facts.capabilities and not called:
        yield (
            "None of its capabilities was called: what a call asks and answers is not checked."
            f" --call {label(facts.capabilities[0].name)} calls one, which may do what it does."
        )
    if script is not None:
        yield from (*script.misfits, *script.unanswered, *script.unused)
    elif count := len(facts.questions):
        what = "a question, which was" if count == 1 else f"{count} questions, which were"
        asked = "; ".join(f"{each.message} ({each.method})" for each in facts.questions)
        if not called:
            yield f"It asked {what} declined, though its capabilities were left alone: {asked}."
            return
        yield (
            f"The call asked {what} declined: {asked}. What it returns after an answer is not"
            " checked: --answers FILE has it answered."
        )


def _unread(written: JsonObject) -> Iterator[str]:
    """How much of what a page wrote of its tools no rule has seen."""
    if why := as_text(written.get("why")):
        yield f"What the page wrote of its tools was not looked at: {label(why)}."
    unread = as_object(written.get("unread"))
    counts = {one: as_count(unread.get(one)) or 0 for one in ("tool", "form", "field")}
    if any(counts.values()):
        more = ", ".join(count_of(count, one) for one, count in counts.items() if count)
        yield f"Not looked at, beyond the first {as_count(unread.get('most'))} of each: {more}."


def _members(
    target: str, facts: Facts, findings: Sequence[Finding], *, failed: bool
) -> dict[str, Json]:
    checks = [
        {
            "name": each.rule.name,
            "status": each.status.value,
            "demanded": each.rule.must,
            "says": each.rule.says,
            "reference": each.rule.reference,
            "problems": list(each.problems),
            **({"cure": each.cure} if each.cure else {}),
        }
        for each in findings
    ]
    asked = [{**each._asdict(), "outcome": each.outcome.value} for each in facts.questions]
    return {"target": target, "passed": not failed, "checks": checks, "asked": asked}


def _report_lines(
    target: str, facts: Facts, findings: Sequence[Finding], notes: Sequence[str]
) -> Iterator[str]:
    yield from (*hanging_lines("", f"{target}, {facts.kind.value}", 0), "")
    unseen = [each for each in findings if _is_folded(each, facts)]
    for each in findings:
        if each in unseen:
            continue
        failed = each.status is Status.FAILED
        word = each.status.value.upper() if failed else each.status.value
        yield from hanging_lines(
            word.ljust(_COLUMN), f"{each.rule.says} ({each.rule.reference})", _COLUMN
        )
        for problem in each.problems:
            yield from hanging_lines(_INDENT, f"- {problem}", _COLUMN)
        if each.cure:
            yield from hanging_lines(_INDENT, f"Cure: {each.cure}", _COLUMN)
    if unseen:
        rules = count_of(len(unseen), "rule")
        words = f"{rules} for other kinds of apps: {', '.join(each.rule.name for each in unseen)}"
        if facts.step is not Step.DONE:
            words = f"{rules}, until that is mended (--json names them)"
        yield from hanging_lines(Status.NOT_CHECKED.value.ljust(_COLUMN), words, _COLUMN)
    for note in notes:
        yield from ("", *hanging_lines("", note, 0))
    counts = Counter(each.status for each in findings)
    summary = ", ".join(f"{counts[each]} {_COUNTED[each]}" for each in Status)
    yield from ("", *hanging_lines("", f"{summary}.", 0))


def _is_folded(finding: Finding, facts: Facts) -> bool:
    """Return whether a skipped finding is summed up in one line with others."""
    seen = facts.step is Step.DONE and facts.kind in finding.rule.kinds
    return finding.status is Status.NOT_CHECKED and not seen


# --- the facts ---

WEBMCP = "WebMCP"  # what such a page has for a version
NO_CAPABILITY = "abp-bridge.check.no-such-capability"
# Which step ends, before the browser is started, where something is not there.
_STEPS: Mapping[Absence | None, Step] = {
    Absence.LINK: Step.LINK,
    Absence.MANIFEST: Step.MANIFEST,
    Absence.CONTENT: Step.CONTENT,
}
_CALLS = {"capabilities/call": "call", "capabilities/list": "capabilities"}


async def gather_facts(
    target: str, settings: Settings, call: Sequence[str] = (), script: Script | None = None
) -> Facts:
    """Connect the app at `target`, and return the facts that `check_rules` judges.

    Args:
        call: A capability to call too, and its parameters as words.
        script: Answers its questions, which are declined otherwise.
    """
    facts = Facts(_kind(target))
    collector = FactCollector(facts)
    tap = partial(observe_stream, read=collector.on_line_in, written=collector.on_line_out)
    app = make_app(target, True, settings, tap)
    if hasattr(app, "overhear"):  # in a browser: it has no pipe to tap
        in_browser: Any = app
        in_browser.overhear = collector.record
    try:
        async with (
            only_error(AbpBridgeError),
            app.open_app(ScriptedListener(facts, script)) as opened,
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
                    await _call_stage(app, stage, made, collector, settings.call_timeout)
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


async def _call_stage(
    app: App,
    stage: str,
    call: tuple[str, JsonObject],
    collector: FactCollector,
    limit: float,
) -> None:
    collector.stage = stage
    with anyio.move_on_after(limit) as waiting:
        result = await app.call_capability(*call, f"check-{stage}")
        if collector.facts.kind not in ABP:  # what the bridge makes of its answer
            collector.facts.called = encode_result(result)
        if result.failure is not None:
            collector.facts.failures[stage] = str(result.failure)
    if waiting.cancelled_caught:
        collector.facts.unanswered[stage] = limit


def _kind(target: str) -> Kind:
    lower = target.lower()
    if lower.startswith(("http:", "https:")) or lower == "demo:page":
        return Kind.PAGE
    if lower.startswith(("ws:", "wss:")):
        return Kind.SOCKET
    return Kind.PIPE if lower.startswith("stdio:") or lower == "demo" else Kind.OTHER


class FactCollector:
    """Sort messages into facts; `stage` is the kind of the next call's answer."""

    def __init__(self, facts: Facts) -> None:
        self.stage = "unknown"
        self.has_heard = False
        self.facts = facts
        self._asked: dict[JsonValue, str] = {}  # ids of our requests: what they called

    def record(self, name: str, said: JsonValue, thrown: bool) -> None:
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

    def on_line_out(self, line: bytes | None, size: int) -> None:
        message = _message(line)
        name, id = message.get("method", message.get("type")), message.get("id")
        if isinstance(name, str) and isinstance(id, str | int):
            self._asked[id] = _CALLS.get(name, name)

    def on_line_in(self, line: bytes | None, size: int) -> None:
        self.has_heard = True
        message = _message(line)
        message = from_envelope(dict(message)) if is_envelope(message) else message
        id, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            if method.startswith(("elicitation/", "sampling/")):
                self.record("ask", {"method": method, "params": message.get("params")}, False)
        elif isinstance(id, str | int) and (name := self._asked.pop(id, "")):
            self.record(name, message.get("result", message.get("error")), "error" in message)


def _message(line: bytes | None) -> JsonObject:
    try:
        return as_object(parse_json(line or b"{}"))
    except ValueError:
        return {}


class ScriptedListener:
    """An `AppListener` that answers from a script, or declines."""

    def __init__(self, facts: Facts, script: Script | None) -> None:
        self._facts = facts
        self._script = script
        self._numbers = count(1)

    def new_question_id(self) -> str:
        return f"question-{next(self._numbers)}"

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        """Answer as it is written, or decline where nothing is (`AppListener.ask`)."""
        answer = await self._script_answer(question)
        self._facts.questions.append(
            Asked(question.kind.value, label(question.message), answer.outcome)
        )
        return answer

    async def _script_answer(self, question: Question) -> Answer:
        if self._script is None:
            reason = "abp-bridge check declines every question without --answers"
            return Answer(Outcome.DECLINED, AnsweredBy.NOBODY, reason=reason)
        response = await self._script.prompt(question)
        content = response.content
        if question.fields and response.outcome is Outcome.ACCEPTED:
            content = validate_answer(question, content)[0]
        by = response.answered_by or AnsweredBy.SCRIPT
        return Answer(response.outcome, by, content, reason=response.reason)

    def can_sample(self) -> bool:
        return self._script is not None

    def on_notice(self, notice: Notice) -> None:
        """Keep the errors of the page's console (`AppListener.on_notice`)."""
        if notice.kind is NoticeKind.CONSOLE and notice.failed:
            self._facts.console.append(describe_notice(notice))

    def on_progress(self, progress: Progress) -> None: ...

    def on_disconnect(self, reason: str) -> None: ...
