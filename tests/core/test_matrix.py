"""What each surface does with each question: every cell, and the order of surfaces they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from abp_bridge.core.matrix import (
    MATRIX,
    QuestionShape,
    Support,
    SurfaceVariant,
    asks_by_entries,
    can_ask,
    candidate_attempts,
    find_cell,
    narrow,
    refusals,
    shape,
    since,
    usable,
)
from abp_bridge.core.question import Choice, Field, FieldType, Kind, Permission, Question
from abp_bridge.core.surface import Surface

Json = Any

# --- cells ---
#
# docs/capabilities.md has the words of each cell and is compared with the matrix (make check).

# Which surfaces ask questions that few may ask.
PRIVATE = {Surface.MCP_URL, Surface.ACP_URL, Surface.PAGE, Surface.TERMINAL, Surface.MOCK}
MODELS = {Surface.MCP_SAMPLING, Surface.SAMPLING}
CARDS = set(Surface) - MODELS - {Surface.ACP_CHAT, Surface.MODEL_RELAY}
ASKED_BY = {
    QuestionShape.SECRET: PRIVATE,
    QuestionShape.FILE: {*PRIVATE, Surface.ABP},
    QuestionShape.FILE_CONSENT: CARDS,
    QuestionShape.CONFIRM_DESTRUCTIVE: CARDS,
    QuestionShape.SAMPLING: {*MODELS, Surface.ABP, Surface.MOCK},
    QuestionShape.CONFIRM: {*CARDS, Surface.ACP_CHAT, Surface.MODEL_RELAY},
}


@pytest.mark.parametrize("asked", ASKED_BY, ids=lambda asked: asked.value)
@pytest.mark.parametrize(("surface", "version"), MATRIX, ids=str)
def test_surface_asks_only_what_it_may(
    surface: Surface, version: str, asked: QuestionShape
) -> None:
    cell = find_cell(asked, SurfaceVariant(surface, version))
    assert cell.asks is (surface in ASKED_BY[asked])


def _in_words(column: SurfaceVariant, asked: QuestionShape) -> str:
    cell = find_cell(asked, column)
    if cell.support is Support.NATIVE:
        return "native"
    return cell.how if cell.asks else f"no: {cell.how}"


NEW, OLD, PLAIN = (
    SurfaceVariant(Surface.MCP_FORM, "2025-11-25"),
    SurfaceVariant(Surface.MCP_FORM, "2025-06-18"),
    SurfaceVariant(Surface.MCP_FORM, "2025-11-25", plain=True),
)
TWO_BUTTONS = SurfaceVariant(Surface.ACP_PERMISSION, buttons=2)
CELLS = [
    (NEW, QuestionShape.NUMBER, "native"),
    (NEW, QuestionShape.CONFIRM_DESTRUCTIVE, "as options, the safe one first"),
    (NEW, QuestionShape.MULTI_SELECT, "native"),
    (OLD, QuestionShape.MULTI_SELECT, "a yes or no per option"),
    (PLAIN, QuestionShape.MULTI_SELECT, "a yes or no per option"),
    (PLAIN, QuestionShape.NUMBER, "as text"),
    (PLAIN, QuestionShape.RANGE, "as text"),
    (PLAIN, QuestionShape.TEXT, "native"),
    (TWO_BUTTONS, QuestionShape.SELECT_FEW, "yes or no to one option after the other"),
    (TWO_BUTTONS, QuestionShape.RANGE, "yes or no to one option after the other"),
    (TWO_BUTTONS, QuestionShape.CONFIRM, "as options"),
    (TWO_BUTTONS, QuestionShape.TEXT, "no: buttons carry no free text"),
]


@pytest.mark.parametrize(("column", "asked", "words"), CELLS, ids=str)
def test_cell_of_a_variant(column: SurfaceVariant, asked: QuestionShape, words: str) -> None:
    assert _in_words(column, asked) == words


def test_a_version_that_is_not_in_the_matrix_is_refused() -> None:
    assert (
        _in_words(SurfaceVariant(Surface.MCP_FORM, "2024-11-05"), QuestionShape.TEXT)
        == "no: mcp-form 2024-11-05 is not known here"
    )


@pytest.mark.parametrize(
    ("surface", "version", "asked", "protocol"),
    [
        (Surface.MCP_FORM, "2026-07-28", QuestionShape.TEXT, "MCP 2025-06-18"),
        (Surface.MCP_FORM, "2026-07-28", QuestionShape.MULTI_SELECT, "MCP 2025-11-25"),
        (Surface.MCP_FORM, "2025-06-18", QuestionShape.MULTI_SELECT, "MCP 2025-06-18"),
        (Surface.ACP_FORM, "", QuestionShape.TEXT, "ACP 1"),
        (Surface.TERMINAL, "", QuestionShape.TEXT, ""),
    ],
    ids=str,
)
def test_protocol_since_which_a_cell_is_so(
    surface: Surface, version: str, asked: QuestionShape, protocol: str
) -> None:
    assert since(surface, version, asked) == protocol


# --- which row a question stands in ---

TEXT = Field("name", FieldType.TEXT, {"type": "string"})
NUMBER = Field("age", FieldType.NUMBER, {"type": "number"})
YES = Field("news", FieldType.BOOLEAN, {"type": "boolean"})
NESTED = Field("extra", FieldType.JSON, {"type": "object"})
SECRET = replace(TEXT, secret=True)
LIST = Field("people", FieldType.LIST, {"type": "array"}, columns=(TEXT, YES))


def options(count: int, kind: FieldType = FieldType.CHOICE) -> Field:
    values = [f"o{number}" for number in range(count)]
    schema: Mapping[str, Json] = (
        {"enum": values}
        if kind is FieldType.CHOICE
        else {"type": "array", "items": {"enum": values}}
    )
    return Field(
        "pick", kind, schema, choices=tuple(Choice(value, value, value) for value in values)
    )


def few_numbers(low: int, high: int) -> Field:
    return Field("seats", FieldType.INTEGER, {"type": "integer", "minimum": low, "maximum": high})


TAGS = options(3, FieldType.CHOICES)


def asked(*fields: Field, kind: Kind = Kind.INPUT, destructive: bool = False) -> Question:
    return Question("q1", kind, "Which?", fields, "https://app.example", destructive=destructive)


SHAPES: dict[str, tuple[Question, QuestionShape]] = {
    "text": (asked(TEXT), QuestionShape.TEXT),
    "text in a format": (
        asked(replace(TEXT, schema={"format": "email"})),
        QuestionShape.FORMATTED_TEXT,
    ),
    "a number": (asked(NUMBER), QuestionShape.NUMBER),
    "a whole number": (asked(replace(NUMBER, type=FieldType.INTEGER)), QuestionShape.NUMBER),
    "one of a few whole numbers": (asked(few_numbers(1, 20)), QuestionShape.RANGE),
    "one of many whole numbers": (asked(few_numbers(0, 20)), QuestionShape.NUMBER),
    "yes or no": (asked(YES), QuestionShape.BOOLEAN),
    "a confirm": (asked(YES, kind=Kind.CONFIRM), QuestionShape.CONFIRM),
    "a destructive confirm": (
        asked(YES, kind=Kind.CONFIRM, destructive=True),
        QuestionShape.CONFIRM_DESTRUCTIVE,
    ),
    "one of four": (asked(options(4)), QuestionShape.SELECT_FEW),
    "one of five": (asked(options(5)), QuestionShape.SELECT_MANY),
    "any of three": (asked(TAGS), QuestionShape.MULTI_SELECT),
    "several fields": (asked(TEXT, NUMBER), QuestionShape.FIELDS),
    "a list of flat objects": (asked(LIST), QuestionShape.LIST),
    "nested data": (asked(NESTED), QuestionShape.NESTED),
    "a secret": (asked(SECRET), QuestionShape.SECRET),
    "a secret among others": (asked(YES, SECRET), QuestionShape.SECRET),
    "a secret yes": (asked(replace(YES, secret=True), kind=Kind.CONFIRM), QuestionShape.SECRET),
    "a file": (asked(Field("file", FieldType.FILE, {}), kind=Kind.RESOURCE), QuestionShape.FILE),
    "consent to read one": (asked(YES, kind=Kind.RESOURCE), QuestionShape.FILE_CONSENT),
    "permission for a call": (
        replace(asked(YES, kind=Kind.CONFIRM), permits=Permission.CALL, destructive=True),
        QuestionShape.FILE_CONSENT,
    ),
    "a task for a model": (asked(kind=Kind.SAMPLING), QuestionShape.SAMPLING),
}


@pytest.mark.parametrize("question", [asked(TEXT), asked(LIST)], ids=["a text", "a list"])
def test_only_lists_are_asked_entry_by_entry_and_not_on_the_page(question: Question) -> None:
    is_list = bool(question.fields[0].columns)
    assert asks_by_entries(question, SurfaceVariant(Surface.MCP_FORM, "2025-11-25")) is is_list
    assert not asks_by_entries(question, SurfaceVariant(Surface.PAGE))


@pytest.mark.parametrize(("question", "row"), SHAPES.values(), ids=SHAPES)
def test_the_row_of_a_question(question: Question, row: QuestionShape) -> None:
    assert shape(question) is row


def test_every_row_has_a_question() -> None:
    assert {row for _, row in SHAPES.values()} == set(QuestionShape)


# --- the order of surfaces ---

MODEL, PERMISSION = SurfaceVariant(Surface.MCP_SAMPLING), SurfaceVariant(Surface.ACP_PERMISSION)
SAID = SurfaceVariant(Surface.ACP_CHAT)

ORDERS: dict[str, tuple[Question, Sequence[SurfaceVariant], Sequence[str]]] = {
    "the host's order, without what is refused": (
        asked(TEXT),
        [MODEL, NEW, OLD],
        ["mcp-form", "mcp-form"],
    ),
    "a downgrade is named": (asked(NUMBER), [PLAIN, NEW], ["mcp-form (as text)", "mcp-form"]),
    "several fields go no better than the hardest": (
        asked(TEXT, TAGS),
        [NEW, OLD],
        ["mcp-form", "mcp-form (a yes or no per option)"],
    ),
    "every downgrade of several fields is named once": (
        asked(NUMBER, TAGS, replace(NUMBER, name="size"), NESTED),
        [PLAIN],
        ["mcp-form (as text, a yes or no per option, as JSON text)"],
    ),
    "a secret goes nowhere": (asked(SECRET), [NEW, MODEL, PERMISSION], []),
    "buttons for what buttons can say": (
        asked(YES, options(9)),
        [PERMISSION],
        ["acp-permission (one field after the other, as options, by pages)"],
    ),
    "no buttons for one field that they cannot say": (asked(YES, TEXT), [PERMISSION], []),
    "no buttons for one column that they cannot say": (asked(YES, LIST), [PERMISSION], []),
    "buttons for a list of what buttons can say": (
        asked(replace(LIST, columns=(YES, options(9)))),
        [PERMISSION],
        ["acp-permission (one entry after the other)"],
    ),
    "words where buttons cannot say it": (
        asked(YES, TEXT),
        [PERMISSION, SAID],
        ["acp-chat (a prompt for each field, as the next prompt)"],
    ),
    "a leave that the bridge asks for, on a card only": (
        replace(asked(options(2)), permits=Permission.SAMPLING),
        [PERMISSION, SAID],
        ["acp-permission (as options)"],
    ),
    "a field that may stay empty is left out where it cannot be asked, after where it can": (
        asked(YES, replace(TEXT, required=False)),
        [PERMISSION, SAID],
        ["acp-chat (a prompt for each field, as the next prompt)", "acp-permission (as options)"],
    ),
    "what is left has to be askable too": (
        replace(asked(NESTED, replace(TEXT, required=False)), destructive=True),
        [PERMISSION, SurfaceVariant(Surface.MODEL_RELAY)],
        [],
    ),
    "nothing to fill in is nothing to type": (asked(), [SAID], []),
    "a list among other fields": (
        asked(TEXT, LIST),
        [NEW, SurfaceVariant(Surface.PAGE)],
        ["mcp-form (one entry after the other)", "page (on a page of the bridge's own)"],
    ),
    "buttons to keep what is proposed, after what can ask all of it": (
        asked(YES, replace(TEXT, default="Ann")),
        [PERMISSION, SAID],
        [
            "acp-chat (a prompt for each field, as the next prompt)",
            "acp-permission (one field after the other, as options,"
            " what is proposed can only be kept)",
        ],
    ),
    "buttons to keep a lone number": (
        asked(replace(NUMBER, default=7)),
        [PERMISSION],
        ["acp-permission (as options, what is proposed can only be kept)"],
    ),
    "no buttons for a preference: its default is there without a question": (
        asked(replace(TEXT, default="Ann"), kind=Kind.PREFERENCE),
        [PERMISSION],
        [],
    ),
    "no buttons to keep a secret": (asked(replace(SECRET, default="1")), [PERMISSION], []),
    "no buttons where another field is needed": (
        asked(replace(TEXT, default="Ann"), replace(TEXT, name="town")),
        [PERMISSION],
        [],
    ),
}


@pytest.mark.parametrize(("question", "columns", "names"), ORDERS.values(), ids=ORDERS)
def test_the_ladder_of_a_question(
    question: Question, columns: Sequence[SurfaceVariant], names: Sequence[str]
) -> None:
    assert [attempt.name for attempt in candidate_attempts(question, columns)] == names


def test_optional_field_that_cannot_be_asked_is_left_out_and_noted() -> None:
    question = asked(YES, replace(TEXT, required=False))
    in_words, by_buttons = candidate_attempts(question, [PERMISSION, SAID])
    assert narrow(question, in_words) is question
    rest = narrow(question, by_buttons)
    assert (rest.fields, rest.note) == (
        (YES,),
        "(Here there are only buttons. What stays empty: name)",
    )


def test_field_that_can_only_be_kept_is_noted() -> None:
    town = replace(TEXT, name="town", default="Ulm")
    question = replace(asked(YES, town, replace(TEXT, required=False)), wrapped=False)
    [by_buttons] = candidate_attempts(question, [PERMISSION])
    assert (by_buttons.left_out, by_buttons.kept) == (("name",), ("town",))
    there = narrow(question, by_buttons)
    assert [each.name for each in there.fields] == ["news", "town"]
    assert [each.value for each in there.fields[1].choices] == ["Ulm"]
    assert there.note == (
        "(Here there are only buttons. What stays empty: name. What can only be kept: town)"
    )
    alone = replace(asked(town), wrapped=True)
    [only] = candidate_attempts(alone, [PERMISSION])
    assert narrow(alone, only).note == (
        "(Here there are only buttons. What is proposed can only be kept)"
    )


FORM_KEEPS = "mcp-form: a form passes through the host and the model: secrets never do"
REFUSALS: list[tuple[Question, Sequence[SurfaceVariant], Sequence[str]]] = [
    (
        asked(SECRET),
        [NEW, MODEL],
        [FORM_KEEPS, "mcp-sampling: this surface asks a model, not the person"],
    ),
    (
        asked(YES, TEXT),
        [PERMISSION],
        ["acp-permission: name is free text, and buttons cannot say that"],
    ),
    (asked(TEXT), [NEW], []),
    (asked(YES, replace(TEXT, required=False)), [PERMISSION], []),
    (asked(YES, replace(TEXT, default="Ulm")), [PERMISSION], []),
    (asked(kind=Kind.SAMPLING), [NEW], ["mcp-form: a form asks the person, not a model"]),
]


@pytest.mark.parametrize(("question", "columns", "reasons"), REFUSALS)
def test_each_surface_that_cannot_ask_says_why(
    question: Question, columns: Sequence[SurfaceVariant], reasons: Sequence[str]
) -> None:
    assert refusals(question, columns) == reasons


def test_host_that_opens_no_loopback_address_says_so() -> None:
    there = SurfaceVariant(Surface.MCP_URL)
    elsewhere = replace(there, loopback=False)
    assert [attempt.name for attempt in candidate_attempts(asked(SECRET), [there])] == [
        "mcp-url (on a page of the bridge's own)"
    ]
    assert not can_ask(asked(SECRET), [elsewhere])
    assert refusals(asked(SECRET), [elsewhere]) == [
        "mcp-url: this host opens no addresses on this machine"
    ]


def test_a_surface_that_refuses_everything_is_not_usable() -> None:
    assert usable(SurfaceVariant(Surface.MCP_FORM, "2025-11-25"))
    assert not usable(SurfaceVariant(Surface.MCP_URL, "2099-01-01"))


# --- whose surfaces, in which order ---


@pytest.mark.parametrize(
    ("link", "asks"), [("https://a.example/", True), ("http://127.0.0.1:80/", False), ("", False)]
)
def test_a_host_that_opens_no_address_of_this_machine_opens_others(link: str, asks: bool) -> None:
    question = replace(asked(YES, kind=Kind.CONFIRM), link=link, destructive=True)
    variants = [SurfaceVariant(Surface.MCP_URL, loopback=False)]
    assert can_ask(question, variants) is asks


def test_link_has_the_row_of_a_secret() -> None:
    question = replace(asked(YES, kind=Kind.CONFIRM), link="https://a.example/")
    assert shape(question) is QuestionShape.SECRET
