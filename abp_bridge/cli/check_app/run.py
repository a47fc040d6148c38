"""`abp-bridge check`: whether an app keeps ABP's rules, as far as a client can see them, and what
cures what it does not.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from abp_bridge.cli.check_app.rules import Facts, Finding, Status, check_all
from abp_bridge.cli.runtime import complain, load_settings, run_until_signal
from abp_bridge.core.command_line import show_target
from abp_bridge.core.json_value import Json, JsonObject
from abp_bridge.settings import Settings, find_target_problem

if TYPE_CHECKING:
    import argparse

HELP = "whether an app keeps ABP's rules, each with its cure"
USAGE = "abp-bridge check [OPTION]... TARGET [--call CAPABILITY [PARAMS]]"
DESCRIPTION = """\
Connects an app, looks at all that a client can see of it, and says of each of ABP's rules whether
it is kept: for a page its manifest, for all initialize, the list of capabilities and their schemas,
what a call is answered with, and the end of the session. No capability is called but one that
cannot be there, unless --call names one; whatever that asks is declined.

  abp-bridge check http://localhost:3000
  abp-bridge check 'stdio:python app.py' --call greet name=Ada
  abp-bridge check http://localhost:3000 --json | jq '.checks[] | select(.status == "failed")'

Exit code: 1 where a rule that ABP demands is broken (the others are warnings), else 0; 2 for what
cannot be understood.
"""

_COUNTED = {each: each.value for each in Status} | {Status.WARNING: "to look at"}
_COLUMN = 12  # characters of a status


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
    option("--json", action="store_true", help="one JSON object instead of words")


def run(options: argparse.Namespace) -> int:
    """Check the app. Returns the exit code."""
    target = options.target
    if wrong := find_target_problem(target):
        return complain(wrong, "check")
    call = None
    if options.call is not None:
        from abp_bridge.cli.parameters import ParameterError, read_parameters

        name, *words = options.call
        try:
            call = (name, read_parameters(words, {}))
        except ParameterError as problem:
            return complain(problem, "check")
    settings = load_settings(options)

    async def check(tasks: TaskGroup) -> int:
        return await _check(target, settings, call, as_json=options.json)

    return anyio.run(run_until_signal, check)


async def _check(
    target: str, settings: Settings, call: tuple[str, JsonObject] | None, *, as_json: bool
) -> int:
    from abp_bridge.cli.check_app.gather import gather

    facts = await gather(target, settings, call)
    findings = check_all(facts)
    failed = any(each.status is Status.FAILED for each in findings)
    shown = show_target(target)
    if as_json:
        sys.stdout.write(json.dumps(_members(shown, findings, failed), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(shown, facts, findings)) + "\n")
    return 1 if failed else 0


def _members(target: str, findings: Sequence[Finding], failed: bool) -> dict[str, Json]:
    checks = [
        {
            "name": each.rule.name,
            "status": each.status.value,
            "demanded": each.rule.must,
            "says": each.rule.says,
            "reference": each.rule.reference,
            "problems": list(each.problems),
            **({"cure": each.rule.cure} if each.problems else {}),
        }
        for each in findings
    ]
    return {"target": target, "passed": not failed, "checks": checks}


def _lines(target: str, facts: Facts, findings: Sequence[Finding]) -> Iterator[str]:
    yield f"{target}, {facts.kind.value}\n"
    for each in findings:
        failed = each.status is Status.FAILED
        word = each.status.value.upper() if failed else each.status.value
        yield f"{word:<{_COLUMN}} {each.rule.says} ({each.rule.reference})"
        for problem in each.problems:
            yield f"{'':{_COLUMN}} - {problem}"
        if each.problems:
            yield f"{'':{_COLUMN}} Cure: {each.rule.cure}"
    counts = Counter(each.status for each in findings)
    yield "\n" + ", ".join(f"{counts[each]} {_COUNTED[each]}" for each in Status) + "."
