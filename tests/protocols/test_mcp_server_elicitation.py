"""Elicitations of an MCP server as questions, and their answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from protocols.test_round_trip import questioned
from support.json_strategies import few
from support.question_strategies import asked_fields

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.json_value import json_equal
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import (
    IRREVERSIBLE,
    MISSING,
    PRESUMED,
    Field,
    FieldType,
    Kind,
    Question,
)
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.elicitation import encode_form, encode_url
from abp_bridge.protocols.mcp.server_elicitation import (
    decode_form,
    decode_link,
    decode_question,
    encode_answer,
    encode_completed,
    encode_reply,
)
from abp_bridge.protocols.schema_fields import ACKNOWLEDGE

Json = Any

VERSIONS = ("2025-06-18", "2025-11-25")


def decode(properties: Json, message: str = "Fill this in", **more: Json) -> Question:
    schema = {"type": "object", "properties": properties, **more}
    return decode_form({"message": message, "requestedSchema": schema}, id="q", origin="server")


# --- Question -> the wire -> Question -------------------------------------------------------------

questions = asked_fields.map(questioned)


def crossed(field: Field, version: str) -> list[tuple[FieldType, bool, list[tuple[str, str]]]]:
    """Return (type, required, choices) of each property that the field becomes."""
    offered = [(choice.key, choice.label) for choice in field.choices]
    if field.type is FieldType.JSON:
        return [(FieldType.TEXT, field.required, [])]
    if field.type is FieldType.CHOICES and version == "2025-06-18":
        return [(FieldType.BOOLEAN, False, []) for _ in offered]
    return [(field.type, field.required, offered)]


@few
@pytest.mark.parametrize("version", VERSIONS)
@given(question=questions)
def test_question_survives_as_an_mcp_form(version: str, question: Question) -> None:
    read = decode_form(encode_form(question, version), id="q", origin="bridge")

    seen = [
        (field.type, field.required, [(choice.key, choice.label) for choice in field.choices])
        for field in read.fields
    ]
    assert seen == [each for field in question.fields for each in crossed(field, version)]
    assert read.message == sanitize.message(question.introduce(f"{question.origin} asks:"))
    assert read.destructive is question.destructive


@few
@given(question=questions)
def test_default_survives_as_an_mcp_form(question: Question) -> None:
    read = decode_form(encode_form(question, "2025-11-25"), id="q", origin="bridge")
    for field, same in zip(question.fields, read.fields, strict=True):
        if field.type is FieldType.CHOICE:
            default: Json = field.default
            keys = [each.key for each in field.choices if json_equal(each.value, default)]
            assert same.default == (keys[0] if keys else MISSING)


@pytest.mark.parametrize("version", VERSIONS)
def test_problem_is_part_of_the_message(version: str) -> None:
    asked = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"})
    question = Question("q", Kind.CONFIRM, "Sure?", (asked,), "app", destructive=True)
    form = encode_form(question, version, problem="it was not")
    read = decode_form(form, id="q", origin="bridge")
    assert read.message == "app asks: Sure?\n\nPlease answer again: it was not."
    assert read.destructive


# --- a server's own forms -------------------------------------------------------------------------


def test_form_is_a_question_with_several_fields() -> None:
    size = {"enum": ["s", "l"], "enumNames": ["Small", "Large"], "default": "l"}
    extras = {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}
    question = decode(
        {
            "name": {"type": "string", "title": "Name", "description": "Yours"},
            "age": {"type": "integer", "minimum": 0},
            "size": {"type": "string", **size},
            "extras": {"type": "array", "items": extras},
        },
        required=["name", "size"],
    )
    assert [(field.type, field.required) for field in question.fields] == [
        (FieldType.TEXT, True),
        (FieldType.INTEGER, False),
        (FieldType.CHOICE, True),
        (FieldType.CHOICES, False),
    ]
    assert (question.kind, question.origin, question.destructive) == (Kind.INPUT, "server", False)
    name, _, chosen, _ = question.fields
    assert (name.title, name.description, chosen.default) == ("Name", "Yours", "l")
    content = {"name": "Ada", "age": "7", "size": "Small", "extras": ["a", "B"]}
    assert validate_answer(question, content) == (
        {"name": "Ada", "age": 7, "size": "s", "extras": ["a", "b"]},
        [],
    )


@pytest.mark.parametrize("more", [{}, {"additionalProperties": True}])
def test_empty_form_is_a_confirm(more: Json) -> None:
    schema = {"type": "object", "properties": {}, **more}
    question = decode_form({"message": "?", "requestedSchema": schema}, id="q", origin="s")
    assert (question.kind, question.fields) == (Kind.CONFIRM, (ACKNOWLEDGE,))
    assert encode_reply(question, Outcome.ACCEPTED, {ACKNOWLEDGE.name: True}) == {
        "action": "accept",
        "content": {},
    }
    assert encode_reply(question, Outcome.ACCEPTED, {ACKNOWLEDGE.name: False}) == {
        "action": "decline"
    }
    assert encode_reply(question, Outcome.CANCELLED, {}) == {"action": "cancel"}


def test_empty_message_is_replaced() -> None:
    assert decode({}, message="\u202e\n").message == "Please fill this in."


def test_form_question_is_sanitized() -> None:
    question = decode(
        {"a": {"type": "string", "title": "\x1b[2JName"}}, message="Hello\x1b[31m\u202e you"
    )
    assert (question.message, question.fields[0].title) == ("Hello[31m you", "[2JName")


@pytest.mark.parametrize("schema", [{}, {"requestedSchema": None}, {"requestedSchema": []}])
@pytest.mark.parametrize("mode", [{}, {"mode": None}])
def test_missing_schema_is_an_empty_form(mode: Json, schema: Json) -> None:
    question = decode_form({"message": "Go", **mode, **schema}, id="q", origin="s")
    assert (question.kind, question.fields) == (Kind.CONFIRM, (ACKNOWLEDGE,))


@pytest.mark.parametrize("nothing", [[], None])
def test_empty_list_and_null_are_empty_objects(nothing: Json) -> None:
    assert decode(nothing).fields == (ACKNOWLEDGE,)
    assert decode({"a": nothing}).fields == decode({"a": {}}).fields


def test_properties_may_be_in_a_definition() -> None:
    schema: Json = {"$ref": "#/$defs/f", "$defs": {"f": {"properties": {"a": {"type": "string"}}}}}
    question = decode_form({"message": "Go", "requestedSchema": schema}, id="q", origin="s")
    assert [each.name for each in question.fields] == ["a"]


NONSENSE: list[tuple[Json, str]] = [
    (None, "must be an object"),
    ([], "must be an object"),
    ({"mode": "url", "message": "Go", "url": "https://a"}, "mode 'url'"),
    ({"mode": 3, "message": "Go", "requestedSchema": {}}, "mode"),
    ({"requestedSchema": {}}, "message"),
    ({"message": 3, "requestedSchema": {}}, "message"),
    ({"message": "Go", "requestedSchema": "string"}, "requestedSchema"),
    ({"message": "Go", "requestedSchema": {"type": "string"}}, "'object', not 'string'"),
    ({"message": "Go", "requestedSchema": {"properties": ["a"]}}, "properties"),
    ({"message": "Go", "requestedSchema": {"required": ["a"]}}, "has no properties for them"),
    ({"message": "Go", "requestedSchema": {"properties": {"a": "string"}}}, "property 'a'"),
    (
        {"message": "Go", "requestedSchema": {"properties": {str(n): {} for n in range(201)}}},
        "at most 200",
    ),
]


@pytest.mark.parametrize(("raw", "words"), NONSENSE)
def test_invalid_form_is_refused_with_a_reason(raw: Json, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        decode_form(raw, id="q", origin="server")


# --- the answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", Outcome)
def test_only_accept_has_content(outcome: Outcome) -> None:
    result = encode_reply(decode({"a": {"type": "integer"}}), outcome, {"a": 1})
    actions = {Outcome.ACCEPTED: "accept", Outcome.DECLINED: "decline"}
    assert result["action"] == actions.get(outcome, "cancel")
    assert result.get("content") == ({"a": 1} if outcome is Outcome.ACCEPTED else None)


# --- what a server asks behind the proxy ----------------------------------------------------------


def ask(properties: Json, message: str = "Do it?", **more: Json) -> Question:
    schema = {"type": "object", "properties": properties}
    return decode_question(
        {"message": message, "requestedSchema": schema}, id="q", origin="s", **more
    )


def titled(**options: str) -> Json:
    """Return a choice with titles."""
    return {"oneOf": [{"const": value, "title": title} for value, title in options.items()]}


PAIR: Json = {"type": "string", "enum": ["Approve", "Deny"]}
MONGO: Json = {
    "type": "string",
    "enum": ["Yes", "No"],
    "enumNames": ["Yes, I confirm", "No, I do not confirm"],
}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"ok": {"type": "boolean", "title": "Sure", "description": "X"}}, "Do it?\n\nSure: X"),
        ({"decision": PAIR}, "Do it?\n\ndecision\n\nYes: Approve\nNo: Deny"),
        ({"confirmation": {"enum": ["Yes", "No"]}}, "Do it?"),
        ({"archived": {"enum": ["No", "Yes"]}}, "Do it?\n\narchived"),
        ({"confirmation": MONGO}, "Do it?\n\nYes: Yes, I confirm\nNo: No, I do not confirm"),
        (
            {"confirmation": titled(reject="Leave it", accept="Delete all")},
            "Do it?\n\nYes: Delete all\nNo: Leave it",
        ),
    ],
)
def test_single_consent_is_required(properties: Json, message: str) -> None:
    question = ask(properties)
    assert (question.kind, question.message) == (Kind.CONFIRM, message)
    assert validate_answer(question, {})[1]


def test_consent_beside_another_field_is_content() -> None:
    question = ask({"a": PAIR, "b": {"type": "string"}})
    answer = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"a": "Deny"})
    assert encode_answer(question, answer)["content"] == {"a": "Deny"}


def test_message_beyond_the_limit_makes_no_secret() -> None:
    shown = ask({"it": {"type": "string"}}, "Your password?" + "." * 4_000)
    cut = ask({"it": {"type": "string"}}, "." * 5_000 + "Your password?")
    assert (shown.secret, cut.secret) == (True, False)


@pytest.mark.parametrize(("default", "yes"), [("Yes", True), ("No", False)])
def test_harmless_consent_keeps_its_default(default: str, yes: bool) -> None:
    question = ask({"confirmation": {**MONGO, "default": default}}, destructive=False)
    assert question.fields[0].default is yes


@pytest.mark.parametrize(
    "properties",
    [
        {"size": {"type": "string", "enum": ["small", "large"]}},
        {"decision": {"type": "string", "enum": ["accept", "reject", "later"]}},
        {"decision": {"type": "string", "enum": ["allow", "..."]}},
        {"decision": titled(accept="No, reject", reject="Yes, accept")},
        {"decision": {"enum": ["accept", "reject"], "maxLength": 2}},
        {"name": {"type": "string"}},
        {"confirm": {"type": "boolean"}, "name": {"type": "string"}},
    ],
)
def test_other_form_is_an_input(properties: Json) -> None:
    question = ask(properties)
    assert question.kind is Kind.INPUT
    assert not any(each.required for each in question.fields)


@pytest.mark.parametrize(
    ("destructive", "message", "presumed"),
    [(True, "Do it?", True), (False, "Do it?", True), (True, f"Do it?\n\n{IRREVERSIBLE}", False)],
)
def test_destructive_form_is_presumed_or_declared(
    destructive: bool, message: str, presumed: bool
) -> None:
    question = ask({}, message, destructive=destructive)
    assert (question.destructive, question.presumed) == (destructive or not presumed, presumed)
    assert question.warning == (
        "" if not question.destructive else PRESUMED if presumed else IRREVERSIBLE
    )


CASES: list[tuple[Json, Json, Json]] = [
    ({"confirm": {"type": "boolean"}}, True, True),
    ({"confirm": {"type": "boolean"}}, False, None),
    ({"archived": {"type": "boolean"}}, False, False),
    ({"decision": PAIR}, True, "Approve"),
    ({"decision": PAIR}, False, None),
    ({"confirmation": {"enum": ["Yes", "No"]}}, False, None),
    ({"archived": {"enum": ["Yes", "No"]}}, False, "No"),
    ({"confirmation": MONGO}, True, "Yes"),
    ({"answer": MONGO}, False, None),
    ({"decision": titled(decline="Stop", accept="Go")}, False, None),
    ({"a": titled(x="I do not agree", y="I agree")}, True, "y"),
    ({"a": {"enum": [0, 1], "enumNames": ["Deny", "Allow"]}}, True, 1),
    ({"a": {"enum": ["continue", "cancel"]}}, False, None),
]


@pytest.mark.parametrize(("properties", "said", "gets"), CASES)
def test_no_of_a_consent_is_a_decline(properties: Json, said: bool, gets: Json) -> None:
    question = ask(properties)
    [name] = properties
    content, problems = validate_answer(question, {name: said})
    assert not problems
    answer = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content, route="page")
    meta = {"abp": {"answeredBy": "person", "route": "page"}}
    expected: Json = {"action": "decline"}
    if gets is not None:
        expected = {"action": "accept", "content": {name: gets}}
    assert encode_answer(question, answer) == {**expected, "_meta": meta}


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.DECLINED, Outcome.CANCELLED])
def test_host_meta_goes_back_with_its_own_answer(outcome: Outcome) -> None:
    answer = Answer(outcome, AnsweredBy.PERSON, {"a": 1}, host_meta={"persist": "always"})
    account: Json = {"abp": {"answeredBy": answer.answerer.value}}
    result = encode_answer(ask({"a": {"type": "integer"}}), answer)
    assert result["_meta"] == {"persist": "always", **account}


def test_visited_address_is_accepted_by_the_server() -> None:
    assert encode_completed() == {"action": "accept", "_meta": {"abp": {"answeredBy": "server"}}}


def test_host_meta_is_dropped_with_an_answer_that_is_not_the_hosts() -> None:
    kept: Json = {"host_meta": {"persist": "always"}}
    automatic = Answer(Outcome.ACCEPTED, AnsweredBy.HOST_POLICY, {"a": 1}, **kept)
    refusal = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"confirm": False}, **kept)
    for answer in (automatic, refusal):
        [name] = answer.content
        result: Json = encode_answer(ask({name: {"type": "boolean"}}), answer)
        assert result["action"] != "accept"
        assert [*result["_meta"]] == ["abp"]


@pytest.mark.parametrize("meta", [{"persist": ["session"], "progressToken": 1}, {}])
def test_question_meta_goes_to_the_host_without_the_progress_token(meta: Json) -> None:
    kept = {"_meta": {"persist": ["session"]}} if meta else {}
    form: Json = {"message": "Go", "requestedSchema": {}, "_meta": meta}
    shown = encode_form(decode_form(form, id="q", origin="s"), "2025-11-25")
    assert {name: each for name, each in shown.items() if name == "_meta"} == kept
    link = {"mode": "url", "message": "Go", "url": "https://a.example/", "_meta": meta}
    question = decode_link(link, id="q", origin="s")
    assert encode_url(question, question.link, "e").get("_meta") == kept.get("_meta")
    assert "_meta" not in encode_url(question, "http://127.0.0.1:1/page", "e")


SUGGESTED: list[tuple[Json, str]] = [
    ({"type": "string", "default": "users"}, "suggested: users"),
    ({"type": "integer", "default": 7, "description": "How many"}, "How many suggested: 7"),
    ({"type": "boolean", "default": False}, "suggested: no"),
    ({"enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"}, "suggested: B"),
    ({"type": "array", "items": {"enum": ["a", "b"]}, "default": ["a", "b"]}, "suggested: a, b"),
    ({"type": "string", "format": "password", "default": "planted"}, ""),
]


@pytest.mark.parametrize(("part", "description"), SUGGESTED)
def test_destructive_form_has_no_defaults(part: Json, description: str) -> None:
    properties = {"a": part, "b": {"type": "string"}}
    field = ask(properties).fields[0]
    assert (field.default, field.description) == (MISSING, description)
    assert ask(properties, destructive=False).fields[0].default == part["default"]


@pytest.mark.parametrize(
    "part", [{"type": "boolean", "default": True}, {**MONGO, "default": "Yes"}]
)
def test_consent_default_is_in_the_message(part: Json) -> None:
    question = ask({"confirmation": part})
    assert question.fields[0].default is MISSING
    assert "suggested: yes" in question.message.lower()


@pytest.mark.parametrize("outcome", Outcome)
def test_host_policy_answer_is_a_cancel(outcome: Outcome) -> None:
    answer = Answer(outcome, AnsweredBy.HOST_POLICY, {"confirmed": True})
    assert encode_answer(ask({}), answer)["action"] == "cancel"


def link(url: Json, message: Json = "Sign in") -> Question:
    params = {"mode": "url", "message": message, "url": url, "elicitationId": "E"}
    return decode_question(params, id="q", origin="s")


@pytest.mark.parametrize("url", ["https://a.example/x?y=1#z", "http://127.0.0.1:8080/"])
def test_link_is_a_secret_question(url: str) -> None:
    question = link(url, " ")
    assert (question.link, question.message) == (url, "Please open this.")
    assert question.secret
    assert not question.destructive
    answer = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"confirmed": True})
    assert encode_answer(question, answer) == {
        "action": "accept",
        "_meta": {"abp": {"answeredBy": "person"}},
    }


@pytest.mark.parametrize(
    ("outcome", "action"), [(Outcome.ACCEPTED, "accept"), (Outcome.DECLINED, "decline")]
)
def test_link_with_a_form_is_a_link(outcome: Outcome, action: str) -> None:
    """Some servers send both, for hosts that know only forms."""
    schema: Json = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    params: Json = {
        "mode": "url",
        "message": "Sign in",
        "url": "https://a.example/",
        "elicitationId": "E",
    }
    question = decode_question({**params, "requestedSchema": schema}, id="q", origin="s")
    assert encode_answer(question, Answer(outcome, AnsweredBy.PERSON))["action"] == action


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://",
        "https://good.example@evil.example/",
        "https://\u0430pple.example/",
        "https://a.example/\x1b",
        "http://[::1/",
        "https://a.example/" + "x" * 2_000,
        None,
    ],
)
def test_unsafe_link_is_refused(url: Json) -> None:
    with pytest.raises(RemoteProtocolError):
        link(url)


def test_schema_of_the_whole_form_is_checked() -> None:
    properties: Json = {"a": {"type": "string"}, "b": {"type": "string"}}
    either = [{"required": ["a"]}, {"required": ["b"]}]
    schema = {"type": "object", "properties": properties, "anyOf": either}
    question = decode_question({"message": "?", "requestedSchema": schema}, id="q", origin="s")
    assert validate_answer(question, {})[1]
    assert not validate_answer(question, {"b": "x"})[1]
