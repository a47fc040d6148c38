"""Who gave an answer: each row of the evidence, and what needs proof of a person."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from support.paths import ROOT

from abp_bridge.core.outcome import (
    EVIDENCE,
    AnsweredBy,
    Evidence,
    Observation,
    Outcome,
    is_preset,
    judge,
    needs_proof,
    reading_time,
)
from abp_bridge.core.question import Choice, Field, FieldType, Kind, Question

Json = Any
PERSON, POLICY, UNKNOWN = AnsweredBy.PERSON, AnsweredBy.HOST_POLICY, AnsweredBy.UNKNOWN


def after(seconds: float, preset: bool = False, exact: bool = True) -> Observation:
    return Observation(seconds, preset, exact)


SLOW, PRESET = after(3.0), after(3.0, preset=True)
READING = 0.5
TIMER = "steady-latency"


def observed(*seconds: float, preset: bool = False, exact: bool = True) -> list[Observation]:
    return [after(each, preset, exact) for each in seconds]


HOST = {
    # interactive, before, seen -> who, by which row
    "headless, however slow": (False, [], SLOW, POLICY, "headless-host"),
    "immediately": (True, [], after(0.001), POLICY, "faster-than-reading"),
    "before it can be read": (None, [], after(0.49), POLICY, "faster-than-reading"),
    "a timer": (True, observed(0.72, 0.71), after(0.73), POLICY, TIMER),
    "two alike": (True, observed(0.72), after(0.73), PERSON, "interactive-host"),
    "a user's times": (True, observed(0.9, 1.4), SLOW, PERSON, "interactive-host"),
    "a slow timer": (None, observed(30.01, 30.02), after(30.0), POLICY, TIMER),
    "a slow user, three times": (
        True,
        observed(71.1, 71.2),
        after(71.2),
        PERSON,
        "interactive-host",
    ),
    "three rounds that a host ended by its clock": (
        None,
        observed(300.0, 300.0, exact=False),
        after(300.0, exact=False),
        PERSON,
        "reading-time",
    ),
    "one such round among them": (
        True,
        [*observed(300.0), *observed(300.0, exact=False)],
        after(300.0),
        PERSON,
        "interactive-host",
    ),
    "such a round, before it can be read": (
        True,
        [],
        after(0.001, exact=False),
        POLICY,
        "faster-than-reading",
    ),
    "one was taken down": (True, observed(0.9, inf), SLOW, PERSON, "interactive-host"),
    "preset, by a user": (True, [], PRESET, PERSON, "interactive-host"),
    "preset, unknown by whom": (None, [], PRESET, UNKNOWN, "preset"),
    "preset, each time": (None, observed(0.9, 1.7, preset=True), PRESET, POLICY, "always-preset"),
    "preset, this time": (
        None,
        [*observed(0.9), *observed(1.7, preset=True)],
        PRESET,
        UNKNOWN,
        "preset",
    ),
    "something chosen": (None, observed(0.9, 1.7, preset=True), SLOW, PERSON, "reading-time"),
}


@pytest.mark.parametrize("case", HOST)
def test_a_hosts_answer(case: str) -> None:
    interactive, before, seen, who, row = HOST[case]
    verdict = judge(Evidence(seen, interactive=interactive, reading=READING, before=tuple(before)))
    assert (verdict.answered_by, verdict.evidence) == (who, row)
    assert bool(verdict.reason) == (who is not PERSON)


def test_reason_of_a_policy_says_how_long_it_took() -> None:
    quick = judge(Evidence(after(0.0012), reading=READING))
    assert quick.reason == "The host answered by itself in 1.2 ms; no person was asked."
    steady = Evidence(after(2.0), reading=READING, before=observed(2.01, 1.98))
    assert "after 2.0 s each time" in judge(steady).reason
    seen = Evidence(PRESET, reading=READING)
    assert judge(seen).reason.startswith("The host took the default or the first choice")


@pytest.mark.parametrize("machine", [AnsweredBy.MODEL, AnsweredBy.SCRIPT])
def test_answer_of_a_machines_surface_is_not_a_users(machine: AnsweredBy) -> None:
    verdict = judge(Evidence(SLOW, by_hand=True, machine=machine, interactive=True))
    assert verdict == (machine, "machine-surface", "")


def test_answer_by_hand_is_a_users_however_fast() -> None:
    at_once = Observation(0.0, preset=True)
    verdict = judge(Evidence(at_once, by_hand=True, interactive=False, reading=READING))
    assert verdict == (PERSON, "own-surface", "")


@pytest.mark.parametrize("interactive", [True, None])
def test_dismissal_by_a_host_that_may_be_headless_is_of_unknown_origin(
    interactive: bool | None,
) -> None:
    at = Evidence(SLOW, interactive=interactive, may_be_unattended=True, reading=READING)
    who, evidence, reason = judge(at)
    assert (who, evidence) == (UNKNOWN, "maybe-headless")
    assert "nobody knows whether a person did" in reason


def test_host_is_believed_if_times_are_not_measured() -> None:
    verdict = judge(Evidence(Observation(0.0, preset=True), before=observed(0.0, 0.0)))
    assert verdict == (PERSON, "not-measured", "")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (AnsweredBy.MODEL, "no person answered"),
        (AnsweredBy.HOST_POLICY, "no person answered"),
        (UNKNOWN, "The host does not say that a person answered."),
    ],
)
def test_host_that_says_who_answered_is_believed(said: AnsweredBy, words: str) -> None:
    verdict = judge(Evidence(SLOW, said=said, interactive=True))
    assert (verdict.answered_by, verdict.evidence) == (said, "host-says")
    assert words in verdict.reason


def test_the_papers_have_every_row_in_its_order() -> None:
    paper = (ROOT / "docs" / "abp.md").read_text().partition("### Who answered")[2]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", paper, re.MULTILINE)) == EVIDENCE


# --- what is read, what stood there, what needs proof ---


def asked(*fields: Field, message: str = "Which?", **more: Json) -> Question:
    return Question("q1", more.pop("kind", Kind.INPUT), message, fields, "an app", **more)


def test_a_longer_text_takes_longer_to_read_up_to_a_bound() -> None:
    times = [reading_time(asked(message="x" * size), 0.4) for size in (0, 150, 450, 10_000)]
    assert times == [0.4, 0.8, 1.6, 2.0]
    assert reading_time(asked(message="x" * 600), 0) == 0


CHOICES = (Choice("a", "a", "A"), Choice("b", "b", "B"))
YES = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"})
CHOICE = Field("it", FieldType.CHOICE, {"enum": ["a", "b"]}, choices=CHOICES)
SEVERAL = Field("some", FieldType.CHOICES, {"type": "array"}, choices=CHOICES)
TEXT = Field("text", FieldType.TEXT, {"type": "string"})
NUMBER = Field("n", FieldType.INTEGER, {"type": "integer", "minimum": 3, "maximum": 5})
NAMED = Field("name", FieldType.TEXT, {"type": "string"}, default="Ann")


@pytest.mark.parametrize(
    ("fields", "content", "preset"),
    [
        ((CHOICE,), {"it": "a"}, True),
        ((CHOICE,), {"it": "b"}, False),
        ((SEVERAL,), {"some": ["a"]}, True),
        ((SEVERAL,), {"some": []}, True),
        ((SEVERAL,), {"some": ["a", "b"]}, False),
        ((YES,), {"confirmed": True}, True),
        ((YES,), {"confirmed": False}, True),
        ((NUMBER,), {"n": 3}, True),
        ((NUMBER,), {"n": 4}, False),
        ((TEXT,), {"text": ""}, True),
        ((NAMED,), {"name": "Ann"}, True),
        ((NAMED,), {"name": "Bob"}, False),
        ((TEXT,), {}, True),
        ((TEXT,), {"text": "Bob"}, False),
        ((CHOICE, NAMED), {"it": "a", "name": "Bob"}, False),
    ],
)
@pytest.mark.parametrize("destructive", [False, True])
def test_preset_answer_is_recognized(
    fields: tuple[Field, ...], content: Mapping[str, Json], preset: bool, destructive: bool
) -> None:
    question = asked(*fields, destructive=destructive and fields != (YES,))
    assert is_preset(question, Outcome.ACCEPTED, content) is preset


@pytest.mark.parametrize(
    ("more", "by_buttons", "confirmed", "preset"),
    [
        ({"destructive": True}, False, True, False),
        ({"destructive": True}, False, False, True),
        ({"destructive": True}, True, True, True),
        ({"kind": Kind.CONFIRM}, False, True, True),
        ({"kind": Kind.CONFIRM}, False, False, False),
    ],
)
def test_yes_is_preset_unless_it_is_destructive(
    more: Json, by_buttons: bool, confirmed: bool, preset: bool
) -> None:
    content = {"confirmed": confirmed}
    question = asked(YES, **more)
    assert is_preset(question, Outcome.ACCEPTED, content, by_buttons=by_buttons) is preset


LIST = Field("all", FieldType.LIST, {"type": "array"}, columns=(TEXT, YES))


@pytest.mark.parametrize(
    ("entries", "preset"),
    [
        ([], True),
        ([{"text": "", "confirmed": True}, {}], True),
        ([{"text": ""}, {"text": "Ada"}], False),
    ],
    ids=["no entry", "empty entries", "an entry that somebody filled in"],
)
def test_list_is_preset_if_each_entry_is(entries: Json, preset: bool) -> None:
    assert is_preset(asked(LIST), Outcome.ACCEPTED, {"all": entries}) is preset


def test_a_refusal_never_stood_there() -> None:
    assert not is_preset(asked(TEXT), Outcome.DECLINED, {})


SECRET = Field("key", FieldType.TEXT, {"type": "string"}, secret=True)
FILE = Field("file", FieldType.FILE, {})
LEAVE = Field(
    "answer",
    FieldType.CHOICE,
    {"enum": ["yes", "no"]},
    default="no",
    choices=(Choice("yes", "yes", "Yes"), Choice("no", "no", "No")),
)


@pytest.mark.parametrize(
    ("question", "content", "needed"),
    [
        (asked(YES, destructive=True), {"confirmed": True}, True),
        (asked(YES, destructive=True), {"confirmed": False}, False),
        (asked(TEXT, destructive=True), {"text": "x"}, True),
        (asked(replace(YES, name="ok"), destructive=True), {"ok": False}, False),
        (asked(replace(YES, name="ok"), destructive=True), {"ok": True}, True),
        (asked(YES, kind=Kind.CONFIRM, link="https://a.example/"), {"confirmed": True}, False),
        (asked(YES, kind=Kind.RESOURCE), {"confirmed": True}, True),
        (asked(YES, kind=Kind.RESOURCE), {"confirmed": False}, False),
        (asked(FILE, kind=Kind.RESOURCE), {"file": {}}, True),
        (asked(SECRET), {"key": "x"}, True),
        (asked(YES), {"confirmed": True}, False),
        (asked(LEAVE, kind=Kind.SELECT, destructive=True), {"answer": "no"}, False),
        (asked(LEAVE, kind=Kind.SELECT, destructive=True), {"answer": "yes"}, True),
        (asked(LEAVE, destructive=True), {"answer": "no"}, True),  # what a form proposes is no no
    ],
)
def test_answer_that_needs_proof_of_a_user(
    question: Question, content: Mapping[str, Json], needed: bool
) -> None:
    assert needs_proof(question, Outcome.ACCEPTED, content) is needed
    assert not needs_proof(question, Outcome.DECLINED, {})
