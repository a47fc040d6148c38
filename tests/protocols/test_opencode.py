"""Questions as OpenCode's QuestionRequests, and answers by label."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from support.json_strategies import few
from support.question_strategies import Asked, asked_fields

from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import json_equal
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols import abp
from abp_bridge.protocols.opencode import decode_answers, encode_answers, encode_request

Json = Any


def ask(method: str, **params: Json) -> Question:
    return abp.decode_question(
        {"method": f"elicitation/{method}", "params": params}, id="q", origin="https://app.example"
    )


def infos(question: Question) -> list[Json]:
    request = encode_request(question, "que_1", "ses_1")
    assert (request["id"], request["sessionID"]) == ("que_1", "ses_1")
    questions: Any = request["questions"]
    return list(questions)


def labels(info: Json) -> list[str]:
    return [option["label"] for option in info["options"]]


def fields(**properties: Json) -> Question:
    """Make a form; a name that ends in `_` is optional."""
    schema = {name.rstrip("_"): part for name, part in properties.items()}
    return ask(
        "input",
        prompt="Go",
        schema={
            "type": "object",
            "properties": schema,
            "required": [name for name in properties if name[-1] != "_"],
        },
    )


# --- what is shown --------------------------------------------------------------------------------


def test_question_names_the_app() -> None:
    (info,) = infos(ask("input", prompt="Your name?", schema={"type": "string"}))
    assert info["question"] == "https://app.example asks: Your name?"
    assert info["header"] == "https://app.example"
    assert (info["options"], info["custom"], info["multiple"]) == ([], True, False)


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        (ask("confirm", message="Go?"), ["Yes", "No"]),
        (ask("confirm", message="Delete all files?", destructive=True), ["No, do not", "Delete"]),
        (ask("input", prompt="By train?", schema={"type": "boolean"}), ["Yes", "No"]),
        (ask("select", prompt="Which?", options=["a", "b"]), ["a", "b"]),
        (ask("input", prompt="Seats?", schema={"type": "integer", "default": 2}), ["2"]),
        (ask("input", prompt="Long?", schema={"type": "string", "default": "x" * 201}), []),
        (ask("input", prompt="Several lines?", schema={"type": "string", "default": "a\nb"}), []),
    ],
)
def test_options_of_a_question(question: Question, shown: list[str]) -> None:
    assert labels(infos(question)[0]) == shown


def test_file_consent_options() -> None:
    field = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"})
    question = Question(
        "q", Kind.RESOURCE, "May it read this file?\n/a", (field,), "app", note="It is large."
    )
    (info,) = infos(question)
    assert labels(info) == ["Do not allow", "Allow"]
    assert info["question"].endswith("abp-bridge: It is large.")
    assert decode_answers(question, {"answers": [["Do not allow"]]}) == {"confirmed": False}


def test_default_option_is_marked() -> None:
    one, several = infos(
        fields(
            a={"enum": ["x", "y"], "default": "y"},
            b={"type": "array", "items": {"enum": ["x", "y"]}, "default": ["x"]},
        )
    )
    assert [option["description"] for option in one["options"]] == ["", "(suggested by who asks)"]
    assert [option["description"] for option in several["options"]] == [
        "(suggested by who asks)",
        "",
    ]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer"}, "The answer is a whole number."),
        ({"type": "object", "x": 1}, 'The answer is JSON that fits {"type": "object", "x": 1}'),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
            "Choose at least 1 and at most 2.",
        ),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "Choose at most 1."),
        ({"type": "string", "description": "As on your passport"}, "As on your passport"),
    ],
)
def test_question_describes_a_valid_answer(schema: Json, words: str) -> None:
    shown = (
        infos(fields(a=schema, b={"type": "string"}))[0]["question"],
        infos(ask("input", prompt="x", schema={**schema, "default": None})),
    )
    assert words in shown[0]


# --- what comes back ------------------------------------------------------------------------------


def test_optional_field_can_be_left_empty() -> None:
    question = fields(
        a_={"type": "string"},
        b_={"type": "array", "items": {"enum": ["x", "y"]}},
        c_={"enum": ["x", "Leave empty"]},
    )
    shown = [labels(info)[-1] for info in infos(question)]
    assert shown == ["Leave empty", "Leave empty", "Leave empty (no answer)"]
    assert decode_answers(question, {"answers": [[label] for label in shown]}) == {}
    assert encode_answers(question, {}) == [[label] for label in shown]
    assert encode_answers(question, {"c": "x"})[2] == ["x"]
    assert decode_answers(question, {"answers": [["a"], [], ["Leave empty"]]}) == {
        "a": "a",
        "b": [],
        "c": "Leave empty",
    }


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (None, "the body must be"),
        ([["x"], [1], ["z"]], "the body must be"),
        ([["x"]], "there must be 3 lists of answers, one for each question, not 1"),
        (
            [["no"], [], ["z"]],
            (
                "City: 'no' is none of the options, which are 'c0', 'c1', 'c2', 'c3', 'c4', 'c5',"
                " 'c6', 'c7', 'c8', 'c9' and 2 more"
            ),
        ),
        ([["c1", "c2"], [], ["z"]], "City: exactly one answer is needed, not 2"),
        (
            [["c1"], ["m", "Leave empty"], ["z"]],
            "meals: 'Leave empty' cannot be chosen together with others",
        ),
        ([["c1"], ["x"], ["z"]], "meals: 'x' is none of the options, which are 'm', 'Leave empty'"),
        ([["c1"], [], []], "note: exactly one answer is needed, not 0"),
    ],
)
def test_invalid_answers_are_refused_with_a_reason(answers: Json, words: str) -> None:
    city = {"enum": [f"c{number}" for number in range(12)], "title": "City"}
    question = fields(
        city=city, meals_={"type": "array", "items": {"enum": ["m"]}}, note={"type": "string"}
    )
    with pytest.raises(RemoteProtocolError) as problem:
        decode_answers(question, {"answers": answers})
    assert words in str(problem.value)


@few
@given(asked_fields)
def test_answers_survive_as_labels(asked: list[tuple[str, Asked, bool]]) -> None:
    properties = {name: each.schema for name, each, _ in asked}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name, _, required in asked if required],
    }
    question = ask("input", prompt="Go", schema=schema)
    meant = {name: each.meant for name, each, _ in asked}
    content, _ = validate_answer(question, meant)
    for info in infos(question):
        assert len(set(labels(info))) == len(labels(info))
        assert info["custom"] or info["options"]
    sent = json.loads(json.dumps({"answers": encode_answers(question, content)}))
    answer, _ = validate_answer(question, decode_answers(question, sent))
    assert json_equal(answer, content)
