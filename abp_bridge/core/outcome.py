"""How a question ended, and who answered it."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Outcome(enum.Enum):
    """How a question ended. Every question has exactly one."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UNSUPPORTED = "unsupported"  # no surface of this host can ask it
    INVALID = "invalid"  # what came back, again and again, was none
    WITHDRAWN = "withdrawn"  # its call, its app or its host ended first


class AnsweredBy(enum.Enum):
    """Who gave an answer; the value is what the app is told."""

    PERSON = "person"
    HOST_POLICY = "host-policy"  # the host, by itself
    UNKNOWN = "unknown"  # a host, and nothing speaks for a person or against one
    MODEL = "model"
    SCRIPT = "script"  # written down before the question came
    DEFAULT = "default"  # the app's own default, for a preference only
    NOBODY = "nobody"


# Who that is, in a sentence. What nobody knows who did, the host did in any case.
ANSWERERS: Mapping[AnsweredBy, str] = {
    AnsweredBy.PERSON: "the user",
    AnsweredBy.HOST_POLICY: "the host",
    AnsweredBy.UNKNOWN: "the host",
    AnsweredBy.MODEL: "a model",
    AnsweredBy.SCRIPT: "an answers file",
    AnsweredBy.DEFAULT: "the app's default",
    AnsweredBy.NOBODY: "nobody",
}
_REFUSALS = {
    Outcome.DECLINED: "declined to answer",
    Outcome.CANCELLED: "dismissed the question",
}


def describe_refusal(outcome: Outcome, by: AnsweredBy) -> str:
    """Who declined or dismissed a question, as a sentence; empty for another `outcome`."""
    did, who = _REFUSALS.get(outcome), ANSWERERS[by]
    return f"{who[:1].upper()}{who[1:]} {did}." if did else ""
