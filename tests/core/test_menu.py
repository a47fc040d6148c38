"""A question asked by few buttons: it ends, reaches everything and answers what was pressed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.core.answer import validate_answer
from abp_bridge.core.matrix import SurfaceVariant, candidate_attempts, narrow
from abp_bridge.core.menu import MIN_STEPS, Menu, MenuResult, Step, as_kept, obstacle
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.mcp.server_elicitation import decode_form

Json = Any


def asked(method: str, **params: Json) -> Question:
    return decode_question({"method": method, "params": params}, id="q", origin="app")


def form(properties: dict[str, Json], *required: str) -> Question:
    return asked(
        "elicitation/input",
        prompt="Trip",
        schema={"type": "object", "properties": properties, "required": list(required)},
    )


def value(prompt: str = "?", **schema: Json) -> Question:
    return asked("elicitation/input", prompt=prompt, schema=schema)


def tags(**more: Json) -> Question:
    return value(type="array", items={"enum": ["v0", "v1", "v2"]}, **more)


def destructive(message: str) -> Question:
    return asked("elicitation/confirm", message=message, destructive=True)


def select(count: int, **more: Json) -> Question:
    return asked(
        "elicitation/select",
        prompt="Which?",
        options=[{"value": f"v{n}", "label": f"L{n}"} for n in range(count)],
        **more,
    )


def labels(step: Step | MenuResult) -> list[str]:
    assert isinstance(step, Step)
    return [option.label for option in step.options]


def press(menu: Menu, label: str) -> Step | MenuResult:
    """Press the button with this label, paging to it if need be."""
    for _ in range(100):
        for option in menu.step.options:
            if option.label == label:
                return menu.choose(option.id)
        menu.choose(next(option.id for option in menu.step.options if option.label == "More …"))
    raise AssertionError(f"no button {label!r}")


def say_yes_to(menu: Menu, words: str) -> Step | MenuResult:
    """With two buttons: deny until the title asks about `words`, then allow."""
    for _ in range(200):
        yes, no = menu.step.options
        if f"— {words}? " in f"{menu.step.title} ":
            return menu.choose(yes.id)
        menu.choose(no.id)
    raise AssertionError(f"never asked about {words!r}")


def answer(menu: Menu, buttons: int, label: str) -> Step | MenuResult:
    return say_yes_to(menu, label) if buttons == 2 else press(menu, label)


ONE_STEP = {
    "a confirm": (asked("elicitation/confirm", message="Book it?"), ["Yes", "No"]),
    **{
        f"an act in {message!r}": (destructive(message), ["No, do not", "Delete"])
        for message in ("Delete all files?", "Delete?\nIt is for good.")
    },
    **{
        f"no act in {message!r}": (destructive(message), ["No", "Yes, do it"])
        for message in (
            "Are you sure?",
            "You are about to drop it",
            "No backup was found. Drop the database anyway?",
            "Not all tests pass, deploy?",
            "Cancel the order?",
            "Backup: none. Drop it?",
            "Irreversible\nDrop it?",
            "Delete these:\n- a\n- b",
        )
    },
    "a boolean": (value(type="boolean"), ["Yes", "No", "Skip"]),
    "null allowed": (value(type=["boolean", "null"]), ["Yes", "No", "Leave empty"]),
    "three options": (select(3), ["L0", "L1", "L2", "Skip"]),
    "exactly four options": (select(4), ["L0", "L1", "L2", "L3"]),
    "five options": (select(5), ["L0", "L1", "L2", "More …"]),
    "a default": (select(3, default="v2"), ["L2 (default)", "L0", "L1", "Skip"]),
    "a small range": (value(type="integer", minimum=0, maximum=2), ["0", "1", "2", "Skip"]),
    "a multi-select": (select(3, multiple=True), ["Done (0 chosen)", "☐ L0", "☐ L1", "More …"]),
}


@pytest.mark.parametrize("case", ONE_STEP)
def test_first_step_of_four_buttons(case: str) -> None:
    question, buttons = ONE_STEP[case]
    assert labels(Menu(question).step) == buttons


FREE = {"ok": {"type": "boolean"}, "name": {"type": "string", "title": "Name"}}
OBSTACLES = {
    "free text": (value(type="string"), "is free text"),
    "a number": (value(type="number"), "is a number"),
    "a large range": (value(type="integer", minimum=1900, maximum=2026), "of any size"),
    "an empty range": (value(type="integer", minimum=1, maximum=2, multipleOf=5), "of any size"),
    "nested data": (form({"a": {"type": "object", "properties": {"b": {}}}}), "a is nested data"),
    "a form with text in it": (form(FREE), "Name is free text"),
    "a secret": (value("Your PIN code?", enum=[1, 2], writeOnly=True), "a secret never passes"),
    "a file": (asked("elicitation/resource", type="image/png"), "is a file, and buttons cannot"),
    "a model": (asked("sampling/create", task="Summarise"), "carry no text"),
}


@pytest.mark.parametrize("case", OBSTACLES)
def test_reason_why_buttons_cannot_ask(case: str) -> None:
    question, reason = OBSTACLES[case]
    assert reason in obstacle(question)
    with pytest.raises(ValueError, match=reason):
        Menu(question)


def test_one_button_is_no_choice() -> None:
    with pytest.raises(ValueError, match="with 1 buttons"):
        Menu(select(2), 1)


def test_paging_wraps_around() -> None:
    menu = Menu(select(5))
    first = labels(menu.step)
    press(menu, "More …")
    assert labels(menu.step) == ["L3", "L4", "Skip", "More …"]
    press(menu, "More …")
    assert labels(menu.step) == first


@pytest.mark.parametrize("wanted", [0, 28, 56])
@pytest.mark.parametrize("k", [2, 3, 4, 9])
def test_every_one_of_57_options_is_within_reach(k: int, wanted: int) -> None:
    menu = Menu(select(57), k)
    end = MenuResult(Outcome.ACCEPTED, {"selected": f"v{wanted}"})
    assert answer(menu, k, f"L{wanted}") == end


NINE = {
    "ok": {"type": "boolean"},
    "size": {"enum": ["S", "M", "L"]},
    "colour": {"oneOf": [{"const": n, "title": f"Colour {n}"} for n in range(6)]},
    "meals": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
    "bags": {"type": "integer", "minimum": 0, "maximum": 3},
    "seat": {"enum": ["w", "a"], "default": "a"},
    "insured": {"type": "boolean", "default": False},
    "extras": {"type": "array", "items": {"enum": ["x", "y"]}},
    "class": {"enum": [1, 2], "title": "Class"},
}
NINE_PRESSED = {
    "ok": ["Yes"],
    "size": ["M"],
    "colour": ["Colour 5"],
    "meals": ["☐ a", "☐ c", "Done (2 chosen)"],
    "bags": ["3"],
    "seat": ["a (default)"],
    "insured": ["Leave empty"],
    "extras": ["Done (0 chosen)"],
    "class": ["2"],
}
NINE_ANSWER: dict[str, Any] = {
    "ok": True,
    "size": "M",
    "colour": 5,
    "meals": ["a", "c"],
    "bags": 3,
    "seat": "a",
    "extras": [],
    "class": 2,
}


def walk_nine(menu: Menu, k: int) -> None:
    for buttons in NINE_PRESSED.values():
        for button in buttons:
            answer(menu, k, button)


def test_null_is_left_empty() -> None:
    menu = Menu(value(type=["boolean", "null"]))
    assert press(menu, "Leave empty") == MenuResult(Outcome.ACCEPTED)


@pytest.mark.parametrize("k", [2, 4])
def test_a_form_of_nine_fields_is_walked_and_sent(k: int) -> None:
    menu = Menu(form(NINE, *(name for name in NINE if name != "insured")), k)
    walk_nine(menu, k)
    assert "meals: a, c" in menu.step.text
    assert "insured: (empty)" in menu.step.text
    assert "extras: (none)" in menu.step.text
    assert answer(menu, k, "Send") == MenuResult(Outcome.ACCEPTED, NINE_ANSWER)


def test_a_form_can_be_changed_before_it_is_sent() -> None:
    menu = Menu(form(NINE, *NINE))
    for buttons in {**NINE_PRESSED, "insured": ["No (default)"]}.values():
        for button in buttons:
            press(menu, button)
    press(menu, "Change")
    press(menu, "size: M")
    press(menu, "L")
    assert press(menu, "Send") == MenuResult(
        Outcome.ACCEPTED, {**NINE_ANSWER, "size": "L", "insured": False}
    )


def test_a_form_can_be_declined_on_the_way_and_at_the_end() -> None:
    question = form({"ok": {"type": "boolean"}, "size": {"enum": ["S", "M"]}}, "ok")
    assert press(Menu(question), "Skip") == MenuResult(Outcome.DECLINED)
    menu = Menu(question)
    press(menu, "Yes")
    press(menu, "Leave empty")
    assert press(menu, "Skip") == MenuResult(Outcome.DECLINED)


def test_buttons_keep_the_limits_of_a_multi_select() -> None:
    menu = Menu(tags(minItems=1, maxItems=2, default=["v1"]), 9)
    assert labels(menu.step) == ["Done (1 chosen)", "☐ v0", "☑ v1", "☐ v2", "Skip"]
    press(menu, "☐ v0")
    assert labels(menu.step) == ["Done (2 chosen)", "☑ v0", "☑ v1", "Skip"]
    press(menu, "☑ v0")
    press(menu, "☑ v1")
    assert labels(menu.step) == ["☐ v0", "☐ v1", "☐ v2", "Skip"]


def test_descriptions_and_all_options_are_in_the_text() -> None:
    options = [{"value": n, "label": f"L{n}", "description": f"about {n}"} for n in range(9)]
    text = Menu(asked("elicitation/select", prompt="Which?", options=options)).step.text
    assert all(f"- L{n}: about {n}" in text for n in range(9))
    assert text.endswith("(page 1 of 4)")
    assert "cabin only" in Menu(value(type="boolean", description="cabin only")).step.text


def test_option_of_another_step_is_refused() -> None:
    menu = Menu(select(9))
    assert not any(option.label in option.id or "v" in option.id for option in menu.step.options)
    stale = menu.step.options[0].id
    press(menu, "More …")
    shown = menu.step
    with pytest.raises(RemoteProtocolError, match="not on this step"):
        menu.choose(stale)
    assert menu.step is shown


def test_title_of_a_long_question_ends_with_the_option() -> None:
    menu = Menu(
        asked("elicitation/select", prompt="Which? " + "word " * 200, options=["left", "right"]), 2
    )
    assert menu.step.title.endswith(" — left?")


def test_an_optional_field_that_fills_the_step_can_still_be_left_empty() -> None:
    menu = Menu(
        form({"bags": {"type": "integer", "minimum": 0, "maximum": 3}, "ok": {"type": "boolean"}})
    )
    press(menu, "Leave empty")
    press(menu, "Yes")
    assert press(menu, "Send") == MenuResult(Outcome.ACCEPTED, {"ok": True})


def agents_form(**properties: Json) -> Question:
    """An agent's, in which everything may stay empty."""
    schema: Json = {"type": "object", "properties": properties}
    params = {"message": "Please answer", "requestedSchema": schema}
    return decode_form(params, id="q", origin="agent")


@pytest.mark.parametrize("k", [3, 4, 5])
def test_an_agents_optional_field_that_fills_the_step_can_be_skipped(k: int) -> None:
    menu = Menu(agents_form(db={"type": "string", "enum": [f"e{n}" for n in range(k)]}), k)
    assert press(menu, "Skip") == MenuResult(Outcome.DECLINED)


def test_with_two_buttons_the_title_says_what_would_be_sent() -> None:
    menu = Menu(agents_form(ok={"type": "boolean"}, size={"type": "string", "enum": ["S", "M"]}), 2)
    say_yes_to(menu, "No")
    say_yes_to(menu, "M")
    assert menu.step.title == "Please answer ok: No size: M Send this? — Send?"


def test_with_two_buttons_the_title_has_the_note() -> None:
    form = agents_form(size={"type": "string", "enum": ["S"]}, ok={"type": "boolean"})
    menu = Menu(replace(form, note="What stays empty: name"), 2)
    assert menu.step.title.endswith("size — S? What stays empty: name")
    long = Menu(replace(form, note=500 * "x"), 2).step.title
    assert "— S?" in long
    assert "more characters not shown" in long
    delete = destructive("Delete all?")
    assert Menu(delete, 2).step.title == "Delete all? This cannot be undone, says who asks."
    assert Menu(delete, 4).step.title == "Delete all?"


def test_with_two_buttons_done_comes_before_leaving_it_empty() -> None:
    several = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    menu = Menu(agents_form(tags=several, ok={"type": "boolean"}), 2)
    titles = []
    for _ in range(4):
        titles.append(menu.step.title.rpartition("— ")[2])
        menu.choose(menu.step.options[-1].id)
    assert titles == ["☐ a?", "☐ b?", "Done (0 chosen)?", "Leave empty?"]


def test_note_of_the_bridge_is_in_the_text_of_each_step_and_in_no_title() -> None:
    form = agents_form(ok={"type": "boolean"}, no={"type": "boolean"})
    menu = Menu(replace(form, note="(only buttons here)"))
    for button in ("Yes", "No", "Skip"):
        assert menu.step.text.endswith("\n(only buttons here)")
        assert "only buttons" not in menu.step.title
        press(menu, button)


def by_buttons(question: Question) -> Question:
    """What of it is asked where there are only buttons."""
    [attempt] = candidate_attempts(question, [SurfaceVariant(Surface.ACP_PERMISSION)])
    return narrow(question, attempt)


def test_a_proposed_text_is_kept_left_empty_or_declined() -> None:
    proposed = {"name": {"type": "string", "default": "Ann"}, "n": {"type": "number", "default": 9}}
    menu = Menu(by_buttons(form(proposed, "n")))
    assert labels(menu.step) == ["Keep: Ann", "Leave empty"]
    press(menu, "Keep: Ann")
    assert labels(menu.step) == ["Keep: 9", "Skip"]
    press(menu, "Keep: 9")
    assert menu.step.text.splitlines()[:2] == ["name: Keep: Ann", "n: Keep: 9"]
    press(menu, "Change")
    press(menu, "name: Keep: Ann")
    press(menu, "Leave empty")
    assert press(menu, "Send") == MenuResult(Outcome.ACCEPTED, {"n": 9})


def test_with_two_buttons_the_title_says_what_is_kept() -> None:
    menu = Menu(by_buttons(value("Since?", type="integer", default=1900)), 2)
    assert menu.step.title == (
        "Since? — Keep: 1900? (Here there are only buttons. What is proposed can only be kept)"
    )
    assert say_yes_to(menu, "Keep: 1900") == MenuResult(Outcome.ACCEPTED, {"value": 1900})


NOT_KEPT = {
    "nothing": {"type": "string"},
    "no text": {"type": "string", "default": ""},
    "several lines": {"type": "string", "default": "a\nb"},
    "blanks that no label shows": {"type": "string", "default": "a  b "},
    "more than a label holds": {"type": "string", "default": "a" * 200},
    "what is no line": {"default": True},
    "a choice": {"enum": ["a", "b"], "default": "a"},
}


@pytest.mark.parametrize("proposed", NOT_KEPT.values(), ids=NOT_KEPT)
def test_default_that_a_button_cannot_show_whole_is_not_offered(proposed: Json) -> None:
    (only,) = value(**proposed).fields
    assert as_kept(only) is None


def test_a_host_that_always_denies_ends_all_the_same() -> None:
    menu = Menu(select(57), 2)
    for _ in range(2 * 58 - 1):
        assert isinstance(menu.choose(menu.step.options[-1].id), Step)
    assert menu.choose(menu.step.options[-1].id) == MenuResult(Outcome.CANCELLED)


def test_endless_presses_end_as_invalid() -> None:
    menu = Menu(select(5))
    steps = [menu.choose(menu.step.options[-1].id) for _ in range(MIN_STEPS + 10 * 5)]
    assert steps[-1] == MenuResult(Outcome.INVALID)  # nobody dismissed it
    assert all(isinstance(step, Step) for step in steps[:-1])


def test_title_of_a_step_has_the_field_and_its_description() -> None:
    fields: dict[str, Json] = {
        "db": {"enum": ["a", "b"], "title": "DB", "description": "Which database?"},
        "ok": {"type": "boolean"},
    }
    menu = Menu(form(fields, *fields))
    assert menu.step.title == "Trip (1 of 2) DB: Which database?"
    press(menu, "a")
    assert menu.step.title == "Trip (2 of 2) ok"
    only = Menu(agents_form(db={"type": "string", **fields["db"]}))
    assert only.step.title == "Please answer DB: Which database?"


def test_a_long_message_leaves_room_for_what_a_field_asks() -> None:
    fields = {"ok": {"type": "boolean", "title": "Insured"}, "size": {"enum": ["S"]}}
    question = asked(
        "elicitation/input", prompt="word " * 200, schema={"type": "object", "properties": fields}
    )
    assert "Insured" in Menu(question).step.title


FIELDS = st.one_of(
    st.just({"type": "boolean"}),
    st.integers(1, 12).map(lambda n: {"enum": [f"e{i}" for i in range(n)]}),
    st.tuples(st.integers(-5, 5), st.integers(0, 9)).map(
        lambda r: {"type": "integer", "minimum": r[0], "maximum": r[0] + r[1]}
    ),
    st.tuples(st.integers(1, 7), st.integers(0, 2), st.integers(2, 9)).map(
        lambda r: {
            "type": "array",
            "items": {"enum": [f"m{i}" for i in range(r[0])]},
            "minItems": min(r[0], r[1]),
            "maxItems": r[2],
        }
    ),
)
QUESTIONS = st.one_of(
    FIELDS.map(lambda schema: value(**schema)),
    st.integers(1, 30).map(select),
    st.integers(1, 30).map(lambda n: select(n, multiple=True)),
    st.booleans().map(
        lambda destructive: asked("elicitation/confirm", message="Delete?", destructive=destructive)
    ),
    st.dictionaries(st.sampled_from("abcd"), FIELDS, min_size=2).flatmap(
        lambda fields: st.sets(st.sampled_from(sorted(fields))).map(
            lambda required: form(fields, *required)
        )
    ),
)


@given(question=QUESTIONS, k=st.integers(2, 6), data=st.data())
def test_any_presses_end_in_an_answer_that_fits(
    question: Question, k: int, data: st.DataObject
) -> None:
    menu = Menu(question, k)
    step: Step | MenuResult = menu.step
    for _ in range(5_000):
        if isinstance(step, MenuResult):
            break
        assert 1 <= len(step.options) <= k
        assert len({option.id for option in step.options}) == len(step.options)
        assert step.title
        step = (
            menu.choose(data.draw(st.sampled_from(step.options)).id)
            if menu._taken < 60
            else menu.choose(step.options[0].id)
        )
    assert isinstance(step, MenuResult)
    if step.outcome is Outcome.ACCEPTED:
        content, problems = validate_answer(question, step.content)
        assert problems == []
        assert content == step.content
    else:
        assert step.content == {}
        assert step.outcome in (Outcome.DECLINED, Outcome.CANCELLED)
        assert question.kind is not Kind.CONFIRM or step.outcome is Outcome.CANCELLED


@pytest.mark.parametrize("k", [2, 4])
def test_permission_to_read_a_file_names_it_whole(k: int) -> None:
    path = "/home/ann/" + "deep/" * 100 + "notes.txt"
    leave = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"}, title="Allow")
    question = Question(
        "q", Kind.RESOURCE, f"May it read {path}?\n\nThe app says: nothing of note", (leave,), "app"
    )
    menu = Menu(question, k)
    assert menu.step.title == f"May it read {path}?"
    assert "The app says: nothing of note" in menu.step.text
    assert labels(menu.step) == ["Do not allow", "Allow"]
    assert menu.choose(menu.step.options[1].id) == MenuResult(Outcome.ACCEPTED, {"confirmed": True})


@pytest.mark.parametrize(
    ("presses", "selected"),
    [
        (["Yes", "No", "No"], ["v0"]),
        (["Yes", "Yes"], ["v0", "v1"]),
        (["No", "No", "Yes"], ["v2"]),
        (["No", "No", "No"], []),
    ],
    ids=["kept", "as many as may be", "another", "none"],
)
def test_with_two_buttons_only_what_was_allowed_is_chosen(
    presses: list[str], selected: list[str]
) -> None:
    menu = Menu(tags(maxItems=2, default=["v0"]), 2)
    assert menu.step.title.endswith("— ☑ v0?")
    for each in presses:
        press(menu, each)
    assert say_yes_to(menu, f"Done ({len(selected)} chosen)") == MenuResult(
        Outcome.ACCEPTED, {"value": selected}
    )


@pytest.mark.parametrize("limits", [{"minItems": 4}, {"minItems": 2, "maxItems": 1}])
@pytest.mark.parametrize("buttons", [2, 4])
def test_multi_select_with_impossible_limits_can_be_skipped(limits: Json, buttons: int) -> None:
    assert answer(Menu(tags(**limits), buttons), buttons, "Skip") == MenuResult(Outcome.DECLINED)


def test_with_two_buttons_too_few_are_asked_for_twice() -> None:
    menu = Menu(tags(minItems=1), 2)
    titles = []
    ended: Step | MenuResult = menu.step
    while isinstance(ended, Step):
        titles.append(ended.title.rpartition("— ")[2])
        ended = menu.choose(ended.options[-1].id)
    assert titles == ["☐ v0?", "☐ v1?", "☐ v2?", "Skip?"] * 2
    assert ended == MenuResult(Outcome.CANCELLED)
    assert say_yes_to(Menu(tags(minItems=1), 2), "Skip") == MenuResult(Outcome.DECLINED)


@pytest.mark.parametrize("buttons", [2, 4])
def test_no_button_of_ours_has_the_name_of_an_option(buttons: int) -> None:
    names = ["Skip", "More …", "Skip (abp-bridge)", "Merge", "Merge (default)"]
    question = asked("elicitation/select", prompt="?", options=names, default="Merge")
    menu = Menu(question, buttons)
    seen: list[str] = []
    for _ in range(6):
        shown = [menu.step.title.rpartition("— ")[2]] if buttons == 2 else labels(menu.step)
        seen += [each.removesuffix("?") for each in shown]
        menu.choose(menu.step.options[-1].id)
    assert {each for each in seen if "abp" in each} >= {
        "Skip (abp-bridge)",
        "Skip (abp-bridge) (abp-bridge)",
    }
    more = {"More … (abp-bridge)"} if buttons > 2 else set()
    assert set(seen) == {*names, "Skip (abp-bridge) (abp-bridge)", *more}
