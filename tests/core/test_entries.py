"""A list of flat objects, asked entry by entry: what was answered comes back, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from abp_bridge.core.menu import MAX_ENTRIES, MOST_ENTRIES, bounds, walk, with_default
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Question

Json = Any

NAME = Field("name", FieldType.TEXT, {"type": "string"}, title="Name")
AGE = Field("another", FieldType.INTEGER, {"type": "integer"}, required=False)
WHEN = Field("when", FieldType.TEXT, {"type": "string"}, title="When")


def guests(least: int | None = None, most: int | None = None, **more: Json) -> Field:
    limits = {word: n for word, n in (("minItems", least), ("maxItems", most)) if n is not None}
    schema: Json = {"type": "array", "items": {"type": "object"}, **limits}
    about: Json = {"title": "Guests", "description": "Who eats", "columns": (NAME, AGE), **more}
    return Field("guests", FieldType.LIST, schema, **about)


def asked(*fields: Field, wrapped: bool = False) -> Question:
    return Question("q", Kind.INPUT, "Who comes?", fields, "app", wrapped=wrapped)


def play(question: Question, answers: Sequence[Json]) -> tuple[list[Question], Json]:
    """The questions, and the content that the answers come to."""
    walked, shown = walk(question), []
    step = next(walked)
    for answer in answers:
        shown.append(step)
        try:
            step = walked.send(answer)
        except StopIteration as end:
            return shown, end.value
    raise AssertionError(f"it goes on: {step.message}")


def test_list_entries_are_asked_after_other_fields() -> None:
    answers = [
        {"when": "now"},
        {"name": "Ada", "another_": True},
        {"name": "Bo", "another_": False},
    ]
    shown, content = play(asked(guests(1, 3), WHEN), answers)
    assert content == {"when": "now", "guests": [{"name": "Ada"}, {"name": "Bo"}]}
    about = "Who comes?\n\nGuests: Who eats"
    assert [(each.message, each.note) for each in shown] == [
        ("Who comes?", ""),
        (about, "Entry 1 (at least 1, at most 3)."),
        (about, "Entry 2 (at least 1, at most 3)."),
    ]
    assert [each.name for each in shown[1].fields] == ["name", "another", "another_"]


def test_another_entry_is_offered_between_the_least_and_the_most_only() -> None:
    more: Json = {"name": "x", "another_": True}
    shown, content = play(asked(guests(2, 4)), [{"name": "x"}, more, more, {"name": "x"}])
    assert [len(each.fields) for each in shown] == [2, 3, 3, 2]
    assert len(content["guests"]) == 4


@pytest.mark.parametrize(
    ("field", "content"),
    [(guests(), {"guests": []}), (guests(required=False), {}), (guests(2, required=False), {})],
    ids=["empty", "left out", "left out, though it may not be empty"],
)
def test_list_that_may_be_empty_is_asked_whether_it_has_an_entry(
    field: Field, content: Json
) -> None:
    shown, got = play(asked(field), [{"another_": False}])
    assert [each.title for each in shown[0].fields] == ["Add an entry"]
    assert got == content
    assert play(asked(guests(0, 1)), [{"another_": True}, {"name": "Ada"}])[1] == {
        "guests": [{"name": "Ada"}]
    }


def test_defaults_of_a_list_are_in_its_entries() -> None:
    field = guests(default=[{"name": "Ada"}, {"another": 3}])
    answers = [{"another_": True}, {"name": "Ada", "another_": True}, {"name": "x"}]
    shown, _ = play(asked(field), answers)
    assert [[each.default for each in step.fields] for step in shown] == [
        [True],
        ["Ada", MISSING, True],
        [MISSING, 3, False],
    ]


def test_the_only_list_of_a_question_has_no_name_but_its_title() -> None:
    shown, _ = play(asked(guests(1, title="", description=""), wrapped=True), [{"name": "Ada"}])
    assert shown[0].message == "Who comes?"
    assert shown[0].note == f"Entry 1 (at least 1, at most {MAX_ENTRIES})."


def test_list_without_a_limit_ends() -> None:
    more = [{"name": "x", "another_": True}] * MAX_ENTRIES
    assert len(play(asked(guests(1)), more)[1]["guests"]) == MAX_ENTRIES
    assert bounds({"minItems": 200}) == (200, 200)
    assert bounds({"maxItems": 20_000}) == (0, MOST_ENTRIES)


def test_null_is_a_default_only_if_it_is_a_choice() -> None:
    shown, _ = play(asked(guests(1, default=[{"name": None}])), [{"name": "Ada"}])
    assert [each.default for each in shown[0].fields] == [MISSING, MISSING, False]
    choices = (Choice("x", "x", "x"), Choice(None, "null", "none"))
    column = Field("a", FieldType.CHOICE, {"enum": ["x", None]}, choices=choices)
    assert with_default(column, [{"a": None}]).default is None
