"""One question to the person here, on the surface on which `abp-bridge ask` asks, and what became
of it as a line of `doctor`.
"""

from __future__ import annotations

import os

from anyio.abc import TaskGroup

from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.cli.ask import OF_HOSTS, User, choose_surfaces
from abp_bridge.core.json_value import JsonObject, as_number, as_object, as_text
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.settings import read_settings
from abp_bridge.setup.doctor.finding import Finding, Section, Verdict

REQUEST: JsonObject = {
    "method": "elicitation/confirm",
    "params": {"message": "abp-bridge doctor asks: can you see this?"},
}
_ORIGIN = "this command"


async def ask(tasks: TaskGroup) -> Section:
    """Ask, and wait for the answer as long as any question waits."""
    environ = {name: os.environ[name] for name in os.environ if name not in OF_HOSTS}
    try:
        settings = read_settings(environ)
        user = User(choose_surfaces(settings, None), _ORIGIN, tasks)
        response = await handle_elicitation(dict(REQUEST), user, _ORIGIN)
        await user.wait_for_page()
    except AbpBridgeError as problem:
        finding = Finding("asked", Verdict.FAILS, str(problem), "Do what it says.")
    else:
        finding = judge(response)
    return Section("question", "A question to you", (finding,))


def judge(response: JsonObject) -> Finding:
    """What an answer, as apps get it, says of who was asked."""
    told = as_object(response.get("metadata"))
    by, outcome, route = (as_text(told.get(each)) for each in ("answeredBy", "outcome", "route"))
    seconds = (as_number(told.get("latencyMs")) or 0.0) / 1000
    where = f" ({label(route)})" if route else ""
    if by == AnsweredBy.PERSON.value:
        words = f"You were asked, and answered after {seconds:.1f} s{where}."
        return Finding("asked", Verdict.WORKS, words, seconds=seconds)
    if outcome == Outcome.TIMED_OUT.value:
        words = f"You were asked, and no answer came{where}."
        return Finding("asked", Verdict.UNANSWERED, words, "docs/asking.md says where it asks.")
    if by != AnsweredBy.NOBODY.value:
        words = f"Not you answered, but {label(by)}{where}."
        return Finding(
            "asked", Verdict.POLICY, words, "Take ABP_ANSWERS out, and what else answers."
        )
    why = as_text(as_object(response.get("error")).get("message")) or "Nobody was asked."
    cure = "Run it at a terminal, or name one: --tty DEVICE of abp-bridge ask."
    return Finding("asked", Verdict.UNSUPPORTED, label(why, 600), cure)
