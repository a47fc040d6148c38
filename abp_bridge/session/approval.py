"""The user's approval of a call, before the app receives it.

When it is needed, the question, and the result of a call that was not allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, Capability, describe_parameters, failed
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.outcome import ANSWERERS, SAID_NO, AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Permission, Question
from abp_bridge.core.sanitize import escape, label, message
from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.protocols.mcp.tools import tool_name

ALL, DESTRUCTIVE = "all", "destructive"  # words beside the names of capabilities

CONFIRMED = "confirmed"
MAX_CITED = 400  # characters of an app's own words
MAX_NAME = 80  # characters of a name: two of them, and the question is still read as one
_PLAIN = re.compile(r"[\w.:/-]{1,80}")  # a name that cannot pass for a sentence


def needs_approval(capability: Capability, chosen: Collection[str]) -> bool:
    """Return whether `--confirm` chose this capability, by its name or by its tool's."""
    return (
        ALL in chosen
        or (capability.destructive and DESTRUCTIVE in chosen)
        or any(each in (capability.name, tool_name(capability.name)) for each in chosen)
    )


def strange_names(chosen: Collection[str], offered: Sequence[Capability]) -> list[tuple[str, str]]:
    """What was chosen by a name that no capability has: (the name, which is meant, in words)."""
    names = {each.name.lower(): each.name for each in offered}
    found = []
    for word in chosen:
        if word in (ALL, DESTRUCTIVE) or any(needs_approval(each, [word]) for each in offered):
            continue
        near = nearest(word.lower(), names, MISSPELT)
        found.append((label(word), f"; is {label(names[near])} meant?" if near else ""))
    return found


def make_question(
    id: str,
    origin: str,
    capability: Capability,
    params: JsonObject,
    *,
    name: str = "",
) -> Question:
    """Return the approval question for a call.

    The bridge's words come first, and the app's are quoted, so that neither is mistaken for the
    other.
    """
    wanted = capability.name if _PLAIN.fullmatch(capability.name) else _quote(capability.name)
    app = f"{_quote(name)} ({label(origin)})" if name else label(origin)
    paragraphs = [f"May {wanted} of {app} be called?", describe_parameters(params)]
    if capability.description:
        paragraphs.append(f"The app says of it: {_cite(capability.description)}")
    whole = "\n\n".join(paragraphs)
    shown = message(whole)
    field = Field(CONFIRMED, FieldType.BOOLEAN, {"type": "boolean"}, title="Allow")
    return Question(
        id,
        Kind.CONFIRM,
        shown,
        (field,),
        origin,
        destructive=capability.destructive,
        presumed=capability.presumed or capability.needs_approval,
        permits=Permission.CALL,
        uncut="" if shown == whole else whole,
    )


def refusal(capability: str, answer: Answer, asked_by: str = "--confirm") -> CallResult | None:
    """Return None if the user allowed the call, else its result; `asked_by` names who requires
    approval.
    """
    if answer.outcome is Outcome.ACCEPTED and answer.content.get(CONFIRMED) is True:
        return None
    row = SAID_NO if answer.outcome is Outcome.ACCEPTED else answer.outcome.row
    by_user = row.is_given and answer.answered_by in (AnsweredBy.PERSON, AnsweredBy.SCRIPT)
    late = answer.outcome is Outcome.TIMED_OUT and answer.answered_by is AnsweredBy.NOBODY
    code, why, retryable = _NOBODY
    if by_user or late:
        code, retryable = row.code, row.retryable
        why = row.why.format(who=ANSWERERS[answer.answered_by])
    reason = f" {answer.reason}" if answer.reason else ""
    return failed(
        code,
        f"{label(capability)} was not called. It needs a person's approval ({asked_by}), and"
        f" {why}.{reason}",
        retryable=retryable,
        cancelled=code == "USER_CANCELLED",
    )


_NOBODY = ("PERMISSION_REQUIRED", "no person gave it", False)


def _quote(words: str) -> str:
    return json.dumps(label(escape(words), MAX_NAME), ensure_ascii=False)


def _cite(description: str) -> str:
    """Return an app's sentences on one line, in quotes that they cannot end."""
    return json.dumps(label(description, MAX_CITED), ensure_ascii=False)
