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
SLOW, PRESET = Observation(3.0, preset=False), Observation(3.0, preset=True)
READING = 0.5
TIMER = "steady-latency"


def observed(*seconds: float, preset: bool = False, exact: bool = True) -> list[Observation]:
    return [Observation(each, preset, exact) for each in seconds]


HOST = {
    # interactive, before, seen -> who, by which row
    "headless, however slow": (False, [], SLOW, POLICY, "headless-host"),
    "at once": (True, [], Observation(0.001, preset=False), POLICY, "faster-than-reading"),
    "before it can be read": (
        None,
        [],
        Observation(0.49, preset=False),
        POLICY,
        "faster-than-reading",
    ),
    "a timer": (
        True,
        observed(0.72, 0.71),
        Observation(0.73, preset=False),
        POLICY,
        "steady-latency",
    ),
    "two alike": (
        True,
        observed(0.72),
        Observation(0.73, preset=False),
        PERSON,
        "interactive-host",
    ),
    "a person's times": (True, observed(0.9, 1.4), SLOW, PERSON, "interactive-host"),
    "a slow timer": (None, observed(30.01, 30.02), Observation(30.0, preset=False), POLICY, TIMER),
    "a slow person, three times": (
        True,
        observed(71.1, 71.2),
        Observation(71.2, preset=False),
        PERSON,
        "interactive-host",
    ),
    "three rounds that a host ended by its clock": (
        None,
        observed(300.0, 300.0, exact=False),
        Observation(300.0, preset=False, exact=False),
        PERSON,
        "reading-time",
    ),
    "one such round among them": (
        True,
        [*observed(300.0), *observed(300.0, exact=False)],
        Observation(300.0, preset=False),
        PERSON,
        "interactive-host",
    ),
    "such a round, before it can be read": (
        True,
        [],
        Observation(0.001, preset=False, exact=False),
        POLICY,
        "faster-than-reading",
    ),
    "one was taken down": (True, observed(0.9, inf), SLOW, PERSON, "interactive-host"),
    "what stood there, by a person": (True, [], PRESET, PERSON, "interactive-host"),
    "what stood there, by nobody knows whom": (None, [], PRESET, UNKNOWN, "preset"),
    "what stood there, each time": (
        None,
        observed(0.9, 1.7, preset=True),
        PRESET,
        POLICY,
        "always-preset",
    ),
    "what stood there, this time": (
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


def test_a_policys_reason_says_how_long_it_took() -> None:
    quick = judge(Evidence(Observation(0.0012, preset=False), reading=READING))
    assert quick.reason == "The host answered by itself in 1.2 ms; no person was asked."
    steady = Evidence(Observation(2.0, preset=False), reading=READING, before=observed(2.01, 1.98))
    assert "after 2.0 s each time" in judge(steady).reason


@pytest.mark.parametrize("machine", [AnsweredBy.MODEL, AnsweredBy.SCRIPT])
def test_a_machines_surface_is_no_persons_however_it_looks(machine: AnsweredBy) -> None:
    verdict = judge(Evidence(SLOW, by_hand=True, machine=machine, interactive=True))
    assert verdict == (machine, "machine-surface", "")


def test_by_hand_is_a_persons_however_fast() -> None:
    at_once = Observation(0.0, preset=True)
    verdict = judge(Evidence(at_once, by_hand=True, interactive=False, reading=READING))
    assert verdict == (PERSON, "own-surface", "")


@pytest.mark.parametrize("interactive", [True, None])
def test_a_dismissal_by_a_host_that_dismisses_by_itself_is_nobody_knows_whose(
    interactive: bool | None,
) -> None:
    at = Evidence(SLOW, interactive=interactive, may_be_unattended=True, reading=READING)
    who, evidence, reason = judge(at)
    assert (who, evidence) == (UNKNOWN, "maybe-headless")
    assert "nobody knows whether a person did" in reason


def test_where_nobody_measures_a_host_is_taken_at_its_word() -> None:
    verdict = judge(Evidence(Observation(0.0, preset=True), before=observed(0.0, 0.0)))
    assert verdict == (PERSON, "not-measured", "")


def test_a_host_that_names_nobody_who_is_known_has_not_said_that_it_was_no_person() -> None:
    verdict = judge(Evidence(SLOW, said=UNKNOWN, interactive=True))
    assert (verdict.answered_by, verdict.evidence) == (UNKNOWN, "host-says")
    assert verdict.reason == "The host does not say that a person answered."


@pytest.mark.parametrize("said", [AnsweredBy.MODEL, AnsweredBy.HOST_POLICY])
def test_a_host_that_says_that_no_person_answered_is_believed(said: AnsweredBy) -> None:
    verdict = judge(Evidence(SLOW, said=said, interactive=True))
    assert (verdict.answered_by, verdict.evidence) == (said, "host-says")
    assert "no person answered" in verdict.reason


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
        ((NUMBER,), {"n": 0}, True),
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
def test_what_stood_there_already(
    fields: tuple[Field, ...], content: Mapping[str, Json], preset: bool, destructive: bool
) -> None:
    question = asked(*fields, destructive=destructive and fields != (YES,))
    assert is_preset(question, Outcome.ACCEPTED, content) is preset


def test_a_yes_to_what_cannot_be_undone_never_stood_there() -> None:
    question = asked(YES, destructive=True)
    assert not is_preset(question, Outcome.ACCEPTED, {"confirmed": True})
    assert is_preset(question, Outcome.ACCEPTED, {"confirmed": False})


def test_of_buttons_the_first_that_allows_is_what_a_program_presses() -> None:
    question = asked(YES, destructive=True)
    assert is_preset(question, Outcome.ACCEPTED, {"confirmed": True}, by_buttons=True)


def test_the_first_answer_to_a_confirmation_is_yes() -> None:
    question = asked(YES, kind=Kind.CONFIRM)
    assert is_preset(question, Outcome.ACCEPTED, {"confirmed": True})
    assert not is_preset(question, Outcome.ACCEPTED, {"confirmed": False})


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
def test_a_list_stood_there_where_each_of_its_entries_did(entries: Json, preset: bool) -> None:
    assert is_preset(asked(LIST), Outcome.ACCEPTED, {"all": entries}) is preset


def test_a_refusal_never_stood_there() -> None:
    assert not is_preset(asked(TEXT), Outcome.DECLINED, {})


def test_what_a_button_stood_for_is_called_a_choice() -> None:
    """A button has a place, and nothing that stood there."""
    seen = Evidence(Observation(3.0, preset=True), reading=READING)
    assert judge(seen).reason.startswith("The host took the default or the first choice")


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
def test_what_needs_proof_of_a_person(
    question: Question, content: Mapping[str, Json], needed: bool
) -> None:
    assert needs_proof(question, Outcome.ACCEPTED, content) is needed
    assert not needs_proof(question, Outcome.DECLINED, {})
