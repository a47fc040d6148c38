"""What `abp_status` shows of the surfaces and the questions of a session: nothing that a person
answered.
"""

from __future__ import annotations

from collections.abc import Callable

from abp_bridge.core import matrix
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.ledger import Ledger
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label
from abp_bridge.session.router import Router


def describe_surfaces(router: Router) -> list[JsonValue]:
    """The surfaces that can ask anything, best first: `{surface, version, provider, at?}`."""
    return [
        {"surface": variant.surface.value, "version": variant.version, "provider": owner}
        | ({"at": router.places[owner]} if owner in router.places else {})
        for owner, variant in router.variants_by_owner()
        if matrix.usable(variant)
    ]


def describe_questions(ledger: Ledger, left: Callable[[str], float]) -> dict[str, JsonValue]:
    """`{open, ended, endedCount, lateCount}`: the open questions with the seconds that they have
    `left`, by their id, and what the host knows an address by; the last that ended, how many ended,
    and how many answers came after their question had.
    """
    return {
        "open": [
            {
                "id": each.question.id,
                "app": each.question.origin,
                "message": each.question.summary,
                "route": each.route,
                "secondsLeft": round(left(each.question.id)),
                **_name_link(each.question),
            }
            for each in ledger.open
        ],
        "ended": [
            {
                "id": each.id,
                "method": each.kind,
                "app": each.origin,
                "message": each.message,
                "outcome": each.outcome.value,
                "answeredBy": each.answered_by.value,
                **({"evidence": each.evidence} if each.evidence else {}),
                "route": each.route,
                "seconds": round(each.latency, 3),
                "reason": each.reason,
                **({"ways": list(each.ways)} if each.ways else {}),
            }
            for each in ledger.ended
        ],
        "endedCount": ledger.ended_count,
        "lateCount": ledger.late_count,
    }


def _name_link(question: Question) -> JsonObject:
    """What an address is known by: a model reads this, and the address is its person's alone."""
    return {"elicitationId": label(question.elicitation_id)} if question.link else {}
