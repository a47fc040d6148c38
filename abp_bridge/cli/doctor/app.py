"""An app as `abp-bridge doctor` sees it: whether it is reached, by the rules of `check`."""

from __future__ import annotations

from abp_bridge.cli.check_app import gather_facts
from abp_bridge.cli.check_rules import Status, check_all
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.words import count_of
from abp_bridge.session.app import AppError
from abp_bridge.settings import SettingsError, read_settings
from abp_bridge.setup.doctor.finding import Finding, Section, Verdict


async def look_at_app(target: str) -> Section:
    """Connect an app, see what it offers, and leave it; none of its capabilities is called."""
    shown = show_target(target)
    try:
        facts = await gather_facts(target, read_settings())
    except (AppError, SettingsError) as problem:
        why = Finding("app", Verdict.FAILS, str(problem), "Do what it says.")
        return Section(shown, shown, (why,))
    found = [
        Finding(each.rule.name, Verdict.FAILS, problem, each.cure)
        for each in check_all(facts)
        for problem in each.problems
        if each.status is Status.FAILED
    ]
    if not found:
        offered = count_of(len(facts.capabilities), "capability", "capabilities")
        found = [Finding("app", Verdict.WORKS, f"It is reached, and offers {offered}.")]
    return Section(shown, shown, tuple(found))
