"""`abp-bridge check`: whether an app keeps ABP's rules, as far as a client can see them, and what
cures what it does not.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from abp_bridge.cli.check_app.rules import Facts, Finding, Status, Step, check_all
from abp_bridge.cli.output import print_json, print_text
from abp_bridge.cli.parameters import CapabilityError, ParameterError
from abp_bridge.cli.runtime import complain, load_settings, run_until_signal
from abp_bridge.cli.terminal_host.script import Script
from abp_bridge.core.json_value import Json, JsonObject, as_count, as_object, as_text
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import count_of
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings, variables_of_others
from abp_bridge.settings.targets import find_target_problem
from abp_bridge.surfaces.answers_file import AnswersError, read_answers
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


def add_options(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
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
        return await _check(target, settings, options.call or (), script, as_json=options.json)

    return anyio.run(run_until_signal, check)


async def _check(
    target: str,
    settings: Settings,
    call: Sequence[str],
    script: Script | None,
    *,
    as_json: bool,
) -> int:
    from abp_bridge.cli.check_app.gather import gather

    try:
        facts = await gather(target, settings, call, script)
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
        print_text("\n".join(_lines(shown, facts, findings, notes)) + "\n")
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


def _lines(
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
    """Whether one line tells it with others: there was nothing to see of it in such an app, or in
    one that is not connected.
    """
    seen = facts.step is Step.DONE and facts.kind in finding.rule.kinds
    return finding.status is Status.NOT_CHECKED and not seen
