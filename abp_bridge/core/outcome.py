"""How a question ended, and who answered it.

`OUTCOMES` has what each protocol reports of an outcome. `EVIDENCE` tells who answered; the first
row that fits decides. No single time tells a user from a policy, so each row names its reason,
which goes with the answer (`metadata.evidence`). Times are the host's, in seconds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, json_equal
from abp_bridge.core.question import MISSING, Field, FieldType, Kind, Permission, Question


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
    SERVER = "server"  # the server itself: it says that the user was at its address
    DEFAULT = "default"  # the app's own default, for a preference only
    NOBODY = "nobody"


# Who that is, in a sentence. If no one knows who answered, the host did.
ANSWERERS: Mapping[AnsweredBy, str] = {
    AnsweredBy.PERSON: "the user",
    AnsweredBy.HOST_POLICY: "the host",
    AnsweredBy.UNKNOWN: "the host",
    AnsweredBy.MODEL: "a model",
    AnsweredBy.SCRIPT: "an answers file",
    AnsweredBy.SERVER: "the server",
    AnsweredBy.DEFAULT: "the app's default",
    AnsweredBy.NOBODY: "nobody",
}


def describe_outcome(outcome: Outcome, by: AnsweredBy) -> str:
    """Return the sentence for the requester's developer; empty for an accepted question."""
    words = outcome.row.words.format(who=ANSWERERS[by])
    return words[:1].upper() + words[1:]


SIMILAR = 3  # answers of one host that are alike, before they are a policy's
STEADY = 0.04  # of the longest: what the latencies of a timer differ by, and a person's do not
JITTER = 0.05  # seconds: nor by more, however slow; slow people are alike to 4 % by chance
READ_AT_ONCE = 150  # characters that are read in a reader's shortest time; each so many add one
SLOWEST_READER = 5  # shortest times: nobody is asked to stare at a text


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of one answer.

    Attributes:
        seconds: The host's time for it, or for most of its steps.
        preset: Whether it is the default, the first choice or nothing, as if taken unread.
        exact: Whether `seconds` is for this answer alone, and not for several asked at once.
    """

    seconds: float
    preset: bool
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of who gave an answer.

    Attributes:
        seen: The answer.
        by_hand: Whether it came from the user's own surface.
        machine: What answers on that surface, if never the user.
        said: Who answered, as the host says, if not the user.
        interactive: Whether the host shows questions to its user; None if unknown.
        may_be_unattended: Whether the host also gives such an answer without a user.
        reading: Seconds to read the question; 0 if not measured.
        before: The host's earlier answers, oldest first.
    """

    seen: Observation
    by_hand: bool = False
    machine: AnsweredBy | None = None
    said: AnsweredBy | None = None
    interactive: bool | None = None
    may_be_unattended: bool = False
    reading: float = 0.0
    before: Sequence[Observation] = ()


class Verdict(NamedTuple):
    """Who answered, by which row of the table, and why, in words."""

    answered_by: AnsweredBy
    evidence: str
    reason: str = ""


class _Row(NamedTuple):
    evidence: str
    answered_by: AnsweredBy | None  # None: the machine, or who the host says
    fits: Callable[[Evidence], object]
    reason: str = ""


def _alike(given: Evidence) -> Sequence[Observation]:
    return [*given.before, given.seen][-SIMILAR:]


def _is_steady(given: Evidence) -> bool:
    last = _alike(given)
    times = [each.seconds for each in last]
    longest = max(times)
    known = len(times) == SIMILAR and longest < inf and all(each.exact for each in last)
    return known and longest - min(times) <= min(STEADY * longest, JITTER)


def _is_always_preset(given: Evidence) -> bool:
    last = _alike(given)
    return len(last) == SIMILAR and all(each.preset for each in last)


_BY_ITSELF = "The host answered by itself"
_NOBODY = "no person was asked"

_ROWS = (
    _Row("machine-surface", None, lambda given: given.machine),
    _Row(
        "host-says",
        None,
        lambda given: given.said is AnsweredBy.UNKNOWN,
        "The host does not say that a person answered.",
    ),
    _Row(
        "host-says",
        None,
        lambda given: given.said,
        "The host itself says that no person answered.",
    ),
    _Row("own-surface", AnsweredBy.PERSON, lambda given: given.by_hand),
    _Row(
        "headless-host",
        AnsweredBy.HOST_POLICY,
        lambda given: given.interactive is False,
        f"{_BY_ITSELF}, as this one does; {_NOBODY}.",
    ),
    _Row(
        "faster-than-reading",
        AnsweredBy.HOST_POLICY,
        lambda given: given.seen.seconds < given.reading,
        f"{_BY_ITSELF} in {{took}}; {_NOBODY}.",
    ),
    _Row(
        "steady-latency",
        AnsweredBy.HOST_POLICY,
        lambda given: given.reading and _is_steady(given),
        f"{_BY_ITSELF}, after {{took}} each time; {_NOBODY}.",
    ),
    _Row(
        "maybe-headless",
        AnsweredBy.UNKNOWN,
        lambda given: given.reading and given.may_be_unattended,
        "The host dismisses by itself what nobody is there to see; nobody knows whether a person"
        " did.",
    ),
    _Row("interactive-host", AnsweredBy.PERSON, lambda given: given.interactive),
    _Row("not-measured", AnsweredBy.PERSON, lambda given: not given.reading),
    _Row(
        "always-preset",
        AnsweredBy.HOST_POLICY,
        _is_always_preset,
        f"{_BY_ITSELF}, with the default or the first choice each time; {_NOBODY}.",
    ),
    _Row(
        "preset",
        AnsweredBy.UNKNOWN,
        lambda given: given.seen.preset,
        "The host took the default or the first choice; nobody knows whether a person did.",
    ),
    _Row("reading-time", AnsweredBy.PERSON, lambda given: True),
)

EVIDENCE = tuple(dict.fromkeys(row.evidence for row in _ROWS))


def judge(given: Evidence) -> Verdict:
    """Who answered under these circumstances, by the first row that fits."""
    row = next(row for row in _ROWS if row.fits(given))
    answered_by = row.answered_by or given.machine or given.said
    assert answered_by is not None, "only a row that names somebody has no name of its own"
    return Verdict(answered_by, row.evidence, row.reason and _tell(row.reason, given.seen.seconds))


def _tell(reason: str, seconds: float) -> str:
    took = f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
    return reason.format(took=took)


def reading_time(question: Question, shortest: float) -> float:
    """Return the seconds to read `question`, at least `shortest`; 0 if that is 0."""
    times = 1 + len(question.message) / READ_AT_ONCE
    return shortest * min(times, SLOWEST_READER)


def is_preset(
    question: Question, outcome: Outcome, content: JsonObject, *, by_buttons: bool = False
) -> bool:
    """Whether `content` is what the form starts with: defaults, first choices or nothing.

    With `by_buttons`, the first that allows.
    """
    return outcome is Outcome.ACCEPTED and all(
        _is_preset(question, each, content, by_buttons) for each in question.fields
    )


def _is_preset(question: Question, asked: Field, content: JsonObject, by_buttons: bool) -> bool:
    if asked.name not in content:
        return True
    value = content[asked.name]
    if asked.columns:
        return all(
            _is_preset(question, column, as_object(entry), by_buttons)
            for entry in as_list(value)
            for column in asked.columns
        )
    return _is_one_of(value, _presets(question, asked, by_buttons))


def _is_one_of(value: JsonValue, presets: Sequence[JsonValue]) -> bool:
    return any(json_equal(value, each) for each in presets)


def _presets(question: Question, asked: Field, by_buttons: bool) -> list[JsonValue]:
    if asked.default is not MISSING:
        return [asked.default]
    if question.consents or (question.destructive and _is_yes_or_no(question)):
        # These stand on the no; but of buttons a program presses the first that allows, the yes.
        return [False, by_buttons]
    if question.kind is Kind.CONFIRM:
        return [True]
    if asked.type is FieldType.BOOLEAN:
        return [True, False]  # the first of two, or not ticked
    first = [choice.value for choice in asked.choices[:1]]
    return [*first, first, [], "", 0, asked.schema.get("minimum")]


def needs_proof(question: Question, outcome: Outcome, content: JsonObject) -> bool:
    """Whether an answer needs proof of a user: a destructive yes, sampling, a file or a secret."""
    if outcome is not Outcome.ACCEPTED:
        return False
    said = content.get(question.fields[0].name) if _is_yes_or_no(question) else None
    if question.destructive or question.permits is Permission.SAMPLING:
        return said is not False and not _stays_safe(question, content)
    if question.consents:
        return said is True
    return question.kind is Kind.RESOURCE or any(each.secret for each in question.fields)


def _stays_safe(question: Question, content: JsonObject) -> bool:
    """Whether an option was chosen that rejects the destructive act."""
    fields = question.fields if question.kind is Kind.SELECT else ()
    return any(
        each.default is not MISSING and json_equal(content.get(each.name), each.default)
        for each in fields
    )


def _is_yes_or_no(question: Question) -> bool:
    return [each.type for each in question.fields] == [FieldType.BOOLEAN]
