"""Questions to an ABP agent: ABP's unchanged, others by the closest method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from support.json_strategies import few
from support.pairs import QUESTIONS, WEBMCP
from support.question_strategies import Asked, fields, names

from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.agent import AgentAnswer, decode_response, encode_request
from abp_bridge.protocols.mcp.sampling import decode_sampling
from abp_bridge.protocols.mcp.server_elicitation import decode_question as decode_elicitation

Json = Any


def asked(method: str, **params: Json) -> Question:
    return abp.decode_question({"method": method, "params": params}, id="q", origin="shop")


def elicited(properties: Json, *required: str, destructive: bool = False) -> Question:
    """Decode a form of an MCP server."""
    schema: Json = {"type": "object", "properties": properties, "required": list(required)}
    raw: Json = {"message": "Go on?", "requestedSchema": schema}
    return decode_elicitation(raw, id="q", origin="server", destructive=destructive)


# --- what an ABP app asks -------------------------------------------------------------------------

COLOURS = [{"value": "r", "label": "Red", "description": "as blood"}, {"value": 2, "label": "Two"}]
FORM = {
    "type": "object",
    "properties": {"a": {"type": "string", "title": "A"}, "b": {"type": "integer", "x-b": 1}},
    "required": ["a"],
    "minProperties": 1,
}

# The method, its parameters, the data of a response, and what that is of the fields.
OWN: dict[str, tuple[str, Json, Json, Json]] = {
    "a text": (
        "elicitation/input",
        {"prompt": "Who?", "schema": {"type": "string", "default": "Ada"}, "x-more": [1]},
        {"value": "Eve"},
        {"value": "Eve"},
    ),
    "a form": (
        "elicitation/input",
        {"prompt": "Who?", "schema": FORM, "timeout": 1500},
        {"value": {"a": "x", "b": 1}},
        {"a": "x", "b": 1},
    ),
    "an object without properties": (
        "elicitation/input",
        {"prompt": "Ready?", "schema": {"type": "object", "properties": {}}},
        {"value": {}},
        {"confirmed": True},
    ),
    "a preference": (
        "elicitation/preference",
        {"prompt": "Seat?", "schema": {"type": "string"}, "default": "aisle"},
        {"value": "window"},
        {"value": "window"},
    ),
    "a choice": (
        "elicitation/select",
        {"prompt": "Which?", "options": COLOURS, "default": 2},
        {"selected": 2},
        {"selected": 2},
    ),
    "a file": (
        "elicitation/resource",
        {"type": "image/png", "uri": "a.png"},
        {"content": "aGk=", "mimeType": "image/png", "encoding": "base64"},
        {"file": {"content": "aGk=", "mimeType": "image/png", "encoding": "base64"}},
    ),
    "sampling": (
        "sampling/create",
        {"task": "Sum up.", "context": {"a": 1}},
        {"result": "Short.", "model": "m"},
        {"result": "Short."},
    ),
}


@pytest.mark.parametrize(("method", "params", "data", "content"), OWN.values(), ids=OWN)
def test_abp_question_passes_unchanged(
    method: str, params: Json, data: Json, content: Json
) -> None:
    question = asked(method, **params)
    assert encode_request(question) == (method, params)
    answered = decode_response({"success": True, "data": data}, question, method)
    assert answered == AgentAnswer(Outcome.ACCEPTED, content)


def test_request_keeps_the_timeout() -> None:
    raw: Json = {"method": "elicitation/confirm", "params": {"message": "Go on?"}, "timeout": 1500}
    _, timeout = abp.decode_asker(raw)
    _, params = encode_request(abp.decode_question(raw, id="q", origin="shop"), timeout=timeout)
    assert params == {"message": "Go on?", "timeout": 1500}


def test_request_adds_texts_to_the_prompt() -> None:
    confirm = asked("elicitation/confirm", message="Go on?", **{"x-more": 1})
    _, params = encode_request(confirm, named=True)
    assert params == {"message": "shop asks: Go on?", "x-more": 1}
    text = asked("elicitation/input")
    _, params = encode_request(text, problem="too short")
    assert params == {
        "prompt": "shop asks: Please fill this in.\n\nPlease answer again: too short."
    }
    file = asked("elicitation/resource", type="image")
    _, params = encode_request(file.with_note("Not that one."))
    assert params == {"type": "image", "prompt": "shop asks: Please give image.\n\nNot that one."}
    task = asked("sampling/create", task="Sum up.")
    assert encode_request(task, named=True) == ("sampling/create", {"task": "Sum up."})


def test_plain_request_has_no_text_of_the_bridge() -> None:
    page = replace(QUESTIONS[WEBMCP, "a text"](), note="The bridge's own words.")
    method, params = encode_request(page, plain=True)
    assert (method, params["prompt"]) == ("elicitation/input", "Which one?")


def test_request_for_one_field_of_a_form() -> None:
    form = asked("elicitation/input", prompt="Who?", schema=FORM)
    [_, number] = form.fields
    method, params = encode_request(replace(form, fields=(number,)))
    assert method == "elicitation/input"
    assert params["schema"] == {
        "type": "object",
        "properties": {"b": {"type": "integer", "x-b": 1}},
    }


# --- what others ask ------------------------------------------------------------------------------

LETTERS = {"type": "string", "enum": ["s", "m", "l"]}
LONG = "word " * 10_000 + "end"
CHOICES = [{"value": each, "label": each} for each in "sml"]

ROWS: dict[str, tuple[Question, tuple[str, Json], Json, Json]] = {
    "a lone choice": (
        elicited({"size": {**LETTERS, "description": "of the shirt"}}, "size"),
        (
            "elicitation/select",
            {"prompt": "server asks: Go on?\n\nsize: of the shirt", "options": CHOICES},
        ),
        {"selected": "m"},
        {"size": "m"},
    ),
    "a choice that may be left out": (
        elicited({"size": LETTERS}),
        (
            "elicitation/input",
            {
                "prompt": "server asks: Go on?",
                "schema": {"type": "object", "properties": {"size": LETTERS}},
            },
        ),
        {"value": {}},
        {},
    ),
    "sampling with several messages": (
        decode_sampling(
            {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": "Sum up.\n" + LONG}},
                    {"role": "assistant", "content": {"type": "text", "text": "What?\x1b[2J"}},
                ]
            },
            id="q",
            origin="server",
        ),
        ("sampling/create", {"task": f"Sum up.\n{LONG}\n\nassistant: What?[2J"}),
        {"result": "Short."},
        {"result": "Short."},
    ),
    "consent to read a file": (
        replace(
            asked("elicitation/resource", type="text", uri="/a"),
            message="May it read /a?",
            fields=(Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"}, title="Allow"),),
        ),
        ("elicitation/confirm", {"message": "shop asks: May it read /a?", "destructive": False}),
        {"confirmed": True},
        {"confirmed": True},
    ),
    "a file in other words": (
        replace(asked("elicitation/resource", type="text", prompt="?"), message="Any text?"),
        ("elicitation/resource", {"prompt": "shop asks: Any text?", "type": "text"}),
        {"content": "x", "mimeType": "text/plain"},
        {"file": {"content": "x", "mimeType": "text/plain"}},
    ),
    "a value in other words": (
        replace(asked("elicitation/input", prompt="?"), message="Who?"),
        ("elicitation/input", {"prompt": "shop asks: Who?", "schema": {"type": "string"}}),
        {"value": "Ada"},
        {"value": "Ada"},
    ),
}


@pytest.mark.parametrize(("question", "request_made", "data", "content"), ROWS.values(), ids=ROWS)
def test_other_question_is_asked_by_the_closest_method(
    question: Question, request_made: tuple[str, Json], data: Json, content: Json
) -> None:
    method, params = encode_request(question)
    assert (method, params) == request_made
    answered = decode_response({"success": True, "data": data}, question, method)
    assert answered == AgentAnswer(Outcome.ACCEPTED, content)


def test_destructive_request_has_no_default() -> None:
    """A destructive form must not be accepted with one key."""
    question = elicited(
        {"name": {"type": "string", "default": "all"}, "other": {"type": "string"}},
        destructive=True,
    )
    made: Json = encode_request(question)[1]
    assert made["schema"]["properties"]["name"] == {
        "type": "string",
        "description": "suggested: all",
    }


# --- what is answered -----------------------------------------------------------------------------

YES = {"success": True, "data": {"confirmed": True}}


def failed(code: str, message: str = "", **metadata: Json) -> Json:
    error = {"code": code, **({"message": message} if message else {})}
    return {"success": False, "error": error, "metadata": metadata}


ANSWERS: Mapping[str, tuple[Json, AgentAnswer]] = {
    "a no": (failed("USER_CANCELLED", "No."), AgentAnswer(Outcome.DECLINED, reason="No.")),
    "a dismissal": (
        failed("USER_CANCELLED", outcome="cancelled", answeredBy="person"),
        AgentAnswer(Outcome.CANCELLED, reason="USER_CANCELLED"),
    ),
    "a timeout": (failed("TIMEOUT"), AgentAnswer(Outcome.TIMED_OUT, reason="TIMEOUT")),
    "its session ended": (
        failed("CANCELLED", outcome="withdrawn"),
        AgentAnswer(Outcome.WITHDRAWN, reason="CANCELLED"),
    ),
    "not supported": (
        failed("NOT_SUPPORTED", "No screen."),
        AgentAnswer(Outcome.UNSUPPORTED, reason="No screen."),
    ),
    "an empty error": ({"success": False, "error": {}}, AgentAnswer(Outcome.DECLINED)),
    "a policy's no": (
        failed("USER_CANCELLED", answeredBy="host-policy"),
        AgentAnswer(Outcome.DECLINED, {}, AnsweredBy.HOST_POLICY, "USER_CANCELLED"),
    ),
    "a model's yes": (
        {**YES, "metadata": {"answeredBy": "model"}},
        AgentAnswer(Outcome.ACCEPTED, {"confirmed": True}, AnsweredBy.MODEL),
    ),
    "answered by a person is not believed": (
        {**YES, "metadata": {"answeredBy": "person"}},
        AgentAnswer(Outcome.ACCEPTED, {"confirmed": True}),
    ),
    "a default after a decline": (
        {
            "success": True,
            "data": {"value": "aisle"},
            "metadata": {"answeredBy": "default", "outcome": "declined"},
        },
        AgentAnswer(Outcome.DECLINED),
    ),
    "a yes answered by nobody": (
        {**YES, "metadata": {"answeredBy": "nobody"}},
        AgentAnswer(Outcome.UNSUPPORTED),
    ),
    "a default without an outcome": (
        {"success": True, "data": {"value": 1}, "metadata": {"answeredBy": "default"}},
        AgentAnswer(Outcome.UNSUPPORTED),
    ),
    "a yes that was cancelled": ({**YES, "cancelled": True}, AgentAnswer(Outcome.CANCELLED)),
    "a yes as text": (
        {"success": True, "data": {"confirmed": "true"}},
        AgentAnswer(Outcome.ACCEPTED),
    ),
    "a success of something else": (
        {"success": True, "data": {"value": 1}},
        AgentAnswer(Outcome.ACCEPTED),
    ),
}


@pytest.mark.parametrize(("response", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_decode_response(response: Json, answer: AgentAnswer) -> None:
    question = asked("elicitation/confirm", message="?")
    assert decode_response(response, question, "elicitation/confirm") == answer


@pytest.mark.parametrize("response", [None, {}, {"success": True}])
def test_invalid_response_is_refused(response: Json) -> None:
    question = asked("elicitation/confirm", message="?")
    with pytest.raises(RemoteProtocolError):
        decode_response(response, question, "elicitation/confirm")


@pytest.mark.parametrize("data", [{}, {"result": ""}])
def test_sampling_response_without_a_result_is_refused(data: Json) -> None:
    question = asked("sampling/create", task="t")
    with pytest.raises(RemoteProtocolError, match="without a result"):
        decode_response({"success": True, "data": data}, question, "sampling/create")


@few
@given(names, fields)
def test_question_survives_from_abp_to_abp(name: str, one: Asked) -> None:
    form = {"type": "object", "properties": {name: one.schema}, "required": [name]}
    for schema, meant in ((one.schema, one.meant), (form, {name: one.meant})):
        first = asked("elicitation/input", prompt="?", schema=schema)
        assume(not first.secret)
        method, params = encode_request(first)
        assert (method, params) == ("elicitation/input", {"prompt": "?", "schema": schema})
        again = replace(first, message="Once more?")  # in words of ours
        for question in (first, again):
            method, params = encode_request(question)
            second = asked(method, **params)
            assert [each.type for each in second.fields] == [each.type for each in first.fields]
            valid, problems = validate_answer(second, {second.fields[0].name: one.meant})
            assert not problems
            person = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, valid)
            answer = decode_response(abp.encode_answer(second, person), question, method)
            content, problems = validate_answer(question, answer.content)
            assert not problems
            got = abp.encode_answer(first, Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content))
            assert got["data"] == {"value": meant}


ENDS = [each for each in Outcome if each is not Outcome.ACCEPTED]


@pytest.mark.parametrize(("method", "params"), [row[:2] for row in OWN.values()], ids=OWN)
@pytest.mark.parametrize("outcome", ENDS)
def test_outcome_survives_from_abp_to_abp(method: str, params: Json, outcome: Outcome) -> None:
    question = asked(method, **params)
    ended = Answer(outcome, AnsweredBy.NOBODY, reason="why")
    answer = decode_response(abp.encode_answer(question, ended), question, method)
    assert answer.outcome is outcome
    assert answer.content == {}
