"""How a question ended and who answered. `OUTCOMES` has what each protocol reports of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Outcome(enum.Enum):
    """How a question ended. Every question has exactly one."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    INVALID = "invalid"  # the answers did not fit the question, each time
    UNSUPPORTED = "unsupported"  # no surface of this host can ask it
    WITHDRAWN = "withdrawn"  # its call, its app or its host ended first

    @property
    def row(self) -> OutcomeRow:
        """What is reported of it."""
        return OUTCOMES[self]


class Action(enum.Enum):
    """What the user did with a form (MCP `elicitation/create`, ACP)."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """What is reported of one outcome.

    Attributes:
        code: ABP's error code, of a question or of a call that needed a yes.
        cancelled: ABP's member.
        retryable: ABP's member.
        has_default: Whether a preference takes its default.
        is_given: Whether a user, a host or a file gave it.
        action: MCP's action.
        exit_code: Of `abp-bridge ask --exit-code`.
        card: The text of an ACP card.
        page: The page's `Ending`.
        words: ABP's error message without a reason; `{who}` answered.
        why: Why a call that needed a yes was not made; `{who}` answered.
    """

    code: str
    cancelled: bool
    retryable: bool
    has_default: bool
    is_given: bool
    action: Action
    exit_code: int
    card: str
    page: str
    words: str
    why: str


# fmt: off
# In each row: the columns below, and then how the page calls it, the words and the reason.
#   code                  cancl. retry. deflt. given  MCP action     exit card
OUTCOMES: Mapping[Outcome, OutcomeRow] = {
    Outcome.ACCEPTED: OutcomeRow(
    "",                   False, False, False, True,  Action.ACCEPT,  0, "Answered.",
    "sent", "", ""),
    Outcome.DECLINED: OutcomeRow(
    "USER_CANCELLED",     True,  False, True,  True,  Action.DECLINE, 3, "Skipped.",
    "declined", "{who} declined to answer.", "{who} said no"),
    Outcome.CANCELLED: OutcomeRow(
    "USER_CANCELLED",     True,  False, True,  True,  Action.CANCEL,  1, "Not answered.",
    "cancelled", "{who} dismissed the question.", "{who} dismissed the question"),
    Outcome.TIMED_OUT: OutcomeRow(
    "TIMEOUT",            False, True,  True,  False, Action.CANCEL,  1, "Not answered.",
    "", "Nobody answered in time.", "nobody answered in time"),
    Outcome.INVALID: OutcomeRow(
    "ELICITATION_FAILED", False, True,  True,  False, Action.CANCEL,  1, "Not answered.",
    "", "The host kept sending answers that do not fit the question.", "no answer fitted"),
    Outcome.UNSUPPORTED: OutcomeRow(
    "NOT_SUPPORTED",      False, False, True,  False, Action.CANCEL,  1, "Not answered.",
    "", "This host has no way to ask its user that.", "no person could be asked"),
    Outcome.WITHDRAWN: OutcomeRow(
    "CANCELLED",          True,  False, False, False, Action.CANCEL,  1, "Not answered.",
    "", "The question was withdrawn before it was answered.", "the question was withdrawn"),
}
# An accepted "no" to a consent, or to what needs a yes.
SAID_NO = OutcomeRow(
    "USER_CANCELLED",     True,  False, False, True,  Action.DECLINE, 3, "Answered.",
    "sent", "", "{who} said no")
# fmt: on

# The way back: what a host, an ABP agent or a client reports.
BY_ACTION: Mapping[Action, Outcome] = {
    Action.ACCEPT: Outcome.ACCEPTED,
    Action.DECLINE: Outcome.DECLINED,
    Action.CANCEL: Outcome.CANCELLED,
}
BY_CODE: Mapping[str, Outcome] = {
    "USER_CANCELLED": Outcome.DECLINED,
    "CANCELLED": Outcome.CANCELLED,
    "TIMEOUT": Outcome.TIMED_OUT,
    "ELICITATION_FAILED": Outcome.INVALID,
    "": Outcome.DECLINED,  # X9
}


class AnsweredBy(enum.Enum):
    """Who gave an answer; the value is what the app is told."""

    PERSON = "person"
    HOST_POLICY = "host-policy"  # the host, by itself
    UNKNOWN = "unknown"  # a host, and nothing speaks for a person or against one
    MODEL = "model"
    SCRIPT = "script"  # written down before the question came
    DEFAULT = "default"  # the app's own default, for a preference only
    NOBODY = "nobody"


# Who that is, in a sentence. If no one knows who answered, the host did.
ANSWERERS: Mapping[AnsweredBy, str] = {
    AnsweredBy.PERSON: "the user",
    AnsweredBy.HOST_POLICY: "the host",
    AnsweredBy.UNKNOWN: "the host",
    AnsweredBy.MODEL: "a model",
    AnsweredBy.SCRIPT: "an answers file",
    AnsweredBy.DEFAULT: "the app's default",
    AnsweredBy.NOBODY: "nobody",
}


def describe_outcome(outcome: Outcome, by: AnsweredBy) -> str:
    """Return the sentence for the requester's developer; empty for an accepted question."""
    words = outcome.row.words.format(who=ANSWERERS[by])
    return words[:1].upper() + words[1:]
