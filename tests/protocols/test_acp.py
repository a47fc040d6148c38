"""ACP's shapes: what is read from a client whatever it sends, and what is written so that strict
clients read it.
"""

from __future__ import annotations

import json
from typing import Any

import acp.schema as types
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.acp_harness import check_params, check_value, labels
from support.json_strategies import SCHEMA_VALUES, any_text, broken_schemas, garbled, json_values

from abp_bridge.core.capability import Capability, SavedFile
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.core.menu import Menu, MenuResult, Step, obstacle
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import FieldType, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_notice, decode_progress, decode_question
from abp_bridge.protocols.acp import v1 as acp

Json = Any


def asked(method: str, **params: Json) -> Question:
    return decode_question({"method": method, "params": params}, id="q", origin="app.example")


def form(question: Question, **more: Any) -> Json:
    """The encoded form, seen by the referee."""
    params = acp.encode_form(question, "s1", "abp:call-1", **more)
    check_params("elicitation/create", params)
    return params


def only_property(schema: Json) -> Json:
    made = form(asked("elicitation/input", prompt="?", schema=schema))["requestedSchema"]
    return {word: value for word, value in made["properties"]["value"].items() if word != "title"}


# --- what a client declares -----------------------------------------------------------------------

NOTHING = acp.ClientCapabilities()
DECLARED: dict[str, tuple[Json, acp.ClientCapabilities]] = {
    "nothing at all": (None, NOTHING),
    "not an object": ("elicitation", NOTHING),
    "an empty object": ({}, NOTHING),
    "bare elicitation is none": ({"elicitation": {}}, NOTHING),
    "null modes are none": (
        {"elicitation": {"form": None, "url": None}, "session": {"notices": None}},
        NOTHING,
    ),
    "true is no object": ({"elicitation": {"form": True}, "session": True}, NOTHING),
    "forms": ({"elicitation": {"form": {}}}, acp.ClientCapabilities(form=True)),
    "urls": ({"elicitation": {"url": {}}}, acp.ClientCapabilities(url=True)),
    "notices": ({"session": {"notices": {}}}, acp.ClientCapabilities(notices=True)),
    "everything": (
        {"elicitation": {"form": {}, "url": {}}, "session": {"notices": {}}},
        acp.ClientCapabilities(form=True, url=True, notices=True),
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_each_capability_must_be_named(case: str) -> None:
    declared, capabilities = DECLARED[case]
    assert acp.decode_capabilities(declared) == capabilities


WORDS = (
    "elicitation",
    "form",
    "url",
    "session",
    "notices",
    "outcome",
    "optionId",
    "selected",
    "cancelled",
    "text",
    "type",
)
junk = json_values | garbled(WORDS, ("selected", "cancelled", {}, None, True, "a"))


@given(declared=junk)
def test_whatever_a_client_declares_is_read(declared: Json) -> None:
    assert isinstance(acp.decode_capabilities(declared), acp.ClientCapabilities)


# --- what a client answers to a permission --------------------------------------------------------

OUTCOMES: dict[str, tuple[Json, str | None]] = {
    "a choice": ({"outcome": {"outcome": "selected", "optionId": "s0-1"}}, "s0-1"),
    "a choice with more": (
        {"outcome": {"outcome": "selected", "optionId": "", "_meta": {}}, "x": 1},
        "",
    ),
    "a cancel": ({"outcome": {"outcome": "cancelled"}}, None),
    "a cancel with a choice": ({"outcome": {"outcome": "cancelled", "optionId": "s0-1"}}, None),
}
NO_OUTCOMES: dict[str, Json] = {
    "nothing": None,
    "an empty object": {},
    "an option alone": {"optionId": "s0-1"},
    "a word": {"outcome": "selected"},
    "a word of its own": {"outcome": {"outcome": "_later", "optionId": "s0-1"}},
    "selected without an option": {"outcome": {"outcome": "selected"}},
    "selected with a number": {"outcome": {"outcome": "selected", "optionId": 1}},
    "a list": {"outcome": [{"outcome": "cancelled"}]},
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_an_outcome_is_a_choice_or_a_cancel(case: str) -> None:
    result, chosen = OUTCOMES[case]
    assert acp.decode_outcome(result) == chosen


@pytest.mark.parametrize("case", NO_OUTCOMES)
def test_an_outcome_that_acp_does_not_have_is_no_answer(case: str) -> None:
    with pytest.raises(RemoteProtocolError, match="answered the permission with"):
        acp.decode_outcome(NO_OUTCOMES[case])


@given(result=junk)
def test_whatever_a_client_answers_is_a_value_or_a_protocol_error(result: Json) -> None:
    try:
        chosen = acp.decode_outcome(result)
    except RemoteProtocolError:
        return
    assert chosen is None or isinstance(chosen, str)
    assert result["outcome"]["outcome"] == ("cancelled" if chosen is None else "selected")


# --- prompts --------------------------------------------------------------------------------------

PROMPTS: dict[str, tuple[Json, str]] = {
    "one text": ([{"type": "text", "text": " /status "}], "/status"),
    "several texts": (
        [{"type": "text", "text": "/echo"}, {"type": "text", "text": "{}"}],
        "/echo\n{}",
    ),
    "a picture and a text": (
        [{"type": "image", "data": "", "mimeType": "image/png"}, {"type": "text", "text": "hi"}],
        "hi",
    ),
    "a link among texts": (
        [
            {"type": "text", "text": "/translate the notes in "},
            {"type": "resource_link", "uri": "file:///notes.md", "name": "notes.md"},
            {"type": "text", "text": "to German"},
            {"type": "text", "text": "and soon"},
        ],
        "/translate the notes in file:///notes.md to German\nand soon",
    ),
    "a link in quotes": (
        [
            {"type": "text", "text": '/read {"file": "'},
            {"type": "resource_link", "uri": "file:///notes/", "name": "notes"},
            {"type": "text", "text": '"}'},
        ],
        '/read {"file": "file:///notes/"}',
    ),
    "links alone": ([{"type": "resource_link", "uri": "a:b"}] * 2, "a:b a:b"),
    "no blocks": ([], ""),
    "no list": ({"type": "text", "text": "hi"}, ""),
    "no objects": (["hi", 7, None, {"text": 7}], ""),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_the_words_of_a_prompt(case: str) -> None:
    prompt, words = PROMPTS[case]
    assert acp.prompt_text(prompt) == words


def test_what_has_no_words_is_named_by_its_type() -> None:
    types = ["image", "text", "resource", "image", 7, "resource_link"]
    prompt: Json = [{"type": each} for each in types]
    link = {"type": "resource_link", "uri": "a:b"}
    named = ["image", "resource", "unknown", "resource_link"]
    assert acp.unread_blocks([*prompt, link, "hi"]) == named


@given(prompt=junk)
def test_whatever_a_prompt_holds_it_has_words_or_none(prompt: Json) -> None:
    assert isinstance(acp.prompt_text(prompt), str)


# --- forms ----------------------------------------------------------------------------------------


def test_a_form_is_tied_to_its_session_and_call() -> None:
    params = form(
        asked("elicitation/input", prompt="Name?", schema={"type": "string", "title": "Name"})
    )
    assert params == {
        "sessionId": "s1",
        "toolCallId": "abp:call-1",
        "mode": "form",
        "message": "app.example asks: Name?",
        "requestedSchema": {
            "type": "object",
            "properties": {"value": {"type": "string", "title": "Name"}},
            "required": ["value"],
        },
    }


PROPERTIES: dict[str, tuple[Json, Json]] = {
    # the app's schema, what a strict client is sent of it
    "an unknown format is said in words": (
        {"type": "string", "format": "uuid"},
        {"type": "string", "description": "(format uuid)"},
    ),
    "options have titles": (
        {"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]},
        {"type": "string", "oneOf": [{"const": "1", "title": "One"}, {"const": "2", "title": "2"}]},
    ),
    "several options are text": (
        {"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 2},
        {
            "type": "array",
            "items": {"type": "string", "enum": ["1", "2"]},
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    "bounds of a whole number are whole": (
        {"type": "integer", "minimum": 0.5, "maximum": 9.5},
        {"type": "integer", "minimum": 1, "maximum": 9},
    ),
    "whole bounds are written whole": (
        {"type": "integer", "minimum": 1.0, "maximum": 9.0, "default": 3.0},
        {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
    ),
    "whole numbers have 64 bits": (
        {"type": "integer", "minimum": -(2**63) - 1, "maximum": 2**63},
        {"type": "integer"},
    ),
    "the largest whole numbers stay": (
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    ),
    "fractions keep their bounds": (
        {"type": "number", "minimum": 0.5, "maximum": 1},
        {"type": "number", "minimum": 0.5, "maximum": 1},
    ),
    "a number beyond a double": (
        {"type": "number", "minimum": -(10**400), "maximum": 10**400},
        {"type": "number"},
    ),
    "lengths have 32 bits": (
        {"type": "string", "minLength": 2, "maxLength": 2**32},
        {"type": "string", "minLength": 2},
    ),
    "counts have 64 bits": (
        {"type": "array", "items": {"enum": ["a"]}, "maxItems": 2**64},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    ),
    "yes or no": ({"type": "boolean", "default": True}, {"type": "boolean", "default": True}),
}


@pytest.mark.parametrize("case", PROPERTIES)
def test_a_property_as_strict_clients_read_it(case: str) -> None:
    schema, sent = PROPERTIES[case]
    assert only_property(schema) == sent


def test_a_form_that_is_asked_again_says_why_and_can_be_plainer() -> None:
    question = asked(
        "elicitation/input", prompt="How many?", schema={"type": "integer", "minimum": 1}
    )
    params = form(question, problem="value is required", plain=True)
    assert "Please answer again: value is required." in params["message"]
    assert params["requestedSchema"]["properties"]["value"]["type"] == "string"


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
field_schemas: st.SearchStrategy[Json] = (
    broken_schemas
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "number", "integer", "boolean", "array"])},
        optional={
            **dict.fromkeys(
                ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default"),
                scalars | st.just(10**400),
            ),
            "format": st.sampled_from(
                ["email", "uri", "date", "date-time", "hostname", "password", "x"]
            ),
            "enum": st.lists(scalars, max_size=5),
            "items": st.fixed_dictionaries({"enum": st.lists(scalars, max_size=5)}),
            "title": any_text,
            "description": any_text,
        },
    )
    | st.sampled_from([value for value in SCHEMA_VALUES if isinstance(value, dict)])
)
options = st.lists(
    scalars
    | st.fixed_dictionaries(
        {"value": scalars}, optional={"label": any_text, "description": any_text}
    ),
    min_size=1,
    max_size=60,
)
requests: st.SearchStrategy[Json] = st.one_of(
    st.fixed_dictionaries(
        {
            "method": st.just("elicitation/input"),
            "params": st.fixed_dictionaries({"prompt": any_text, "schema": field_schemas}),
        }
    ),
    st.fixed_dictionaries(
        {
            "method": st.sampled_from(["elicitation/input", "elicitation/preference"]),
            "params": st.fixed_dictionaries(
                {
                    "prompt": any_text,
                    "schema": st.fixed_dictionaries(
                        {
                            "type": st.just("object"),
                            "properties": st.dictionaries(
                                st.text(max_size=5), field_schemas, min_size=1, max_size=5
                            ),
                        },
                        optional={"required": st.lists(st.text(max_size=5))},
                    ),
                }
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "method": st.just("elicitation/select"),
            "params": st.fixed_dictionaries(
                {"prompt": any_text, "options": options, "multiple": st.booleans()},
                optional={"default": scalars},
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "method": st.just("elicitation/confirm"),
            "params": st.fixed_dictionaries({"message": any_text, "destructive": st.booleans()}),
        }
    ),
)


def questions(request: Json) -> Question:
    """The question of a random request, if it is one that can be written as UTF-8: a lone surrogate
    in a name or a value is not.
    """
    question = decode_question(request, id="q", origin="app.example")
    spelled = json.dumps(
        [
            [each.name, [choice.key for choice in each.choices], repr(each.default)]
            for each in question.fields
        ],
        ensure_ascii=False,
    )
    assume(not any(0xD800 <= ord(letter) < 0xE000 for letter in spelled))
    return question


@given(request=requests, problem=any_text, plain=st.booleans())
def test_every_question_is_a_form_that_strict_clients_read(
    request: Json, problem: str, plain: bool
) -> None:
    question = questions(request)
    params = form(question, problem=problem, plain=plain)
    for field in question.fields:
        if field.type is not FieldType.CHOICES or not plain:
            assert field.name in params["requestedSchema"]["properties"]


# --- permissions ----------------------------------------------------------------------------------


def permission(question: Question, step: Step) -> Json:
    """The encoded permission, seen by the referee."""
    params = acp.encode_permission(question, step, "s1", "abp:call-1")
    check_params("session/request_permission", params)
    return params


def test_a_permission_has_the_question_in_its_title_and_content() -> None:
    question = asked(
        "elicitation/select",
        prompt="Sea or mountains?",
        options=[{"value": 1, "label": "Sea", "description": "wet"}, "Mountains"],
    )
    params = permission(question, Menu(question).step)
    assert params["toolCall"] == {
        "toolCallId": "abp:call-1",
        "title": "app.example asks: Sea or mountains?",
        "kind": "other",
        "status": "pending",
        "content": [
            {
                "type": "content",
                "content": {"type": "text", "text": "Sea or mountains?\n\n- Sea: wet\n- Mountains"},
            }
        ],
    }
    assert labels(params) == ["Sea", "Mountains", "Skip"]
    assert [option["kind"] for option in params["options"]] == [
        "allow_once",
        "allow_once",
        "reject_once",
    ]


def test_a_question_too_long_for_a_title_is_whole_in_the_content() -> None:
    words = " ".join(f"word{number}" for number in range(300))
    for question in (
        asked("elicitation/select", prompt=words, options=[1, 2]),
        asked("elicitation/confirm", message=words),
    ):
        params = permission(question, Menu(question).step)
        assert "more characters not shown" in params["toolCall"]["title"]
        (block,) = params["toolCall"]["content"]
        assert block["content"]["text"].count(words) == 1


@given(request=requests, k=st.integers(2, 6), data=st.data())
def test_every_step_of_every_menu_is_a_permission_that_strict_clients_read(
    request: Json, k: int, data: st.DataObject
) -> None:
    question = questions(request)
    assume(not obstacle(question))
    menu = Menu(question, k)
    step: Step | MenuResult = menu.step
    for _ in range(8):
        if isinstance(step, MenuResult):
            break
        params = permission(question, step)
        assert len(params["options"]) <= k
        assert {option["kind"] for option in params["options"]} <= {"allow_once", "reject_once"}
        step = menu.choose(data.draw(st.sampled_from(step.options)).id)


# --- updates --------------------------------------------------------------------------------------


def update(made: Json) -> Json:
    """An update, seen by the referee."""
    check_params("session/update", {"sessionId": "s1", "update": made})
    return made


def test_a_call_begins_with_what_it_was_given() -> None:
    made = update(acp.encode_call("abp:call-1", "demo.echo", {"value": 1}))
    assert (made["title"], made["kind"], made["status"], made["rawInput"]) == (
        "demo.echo",
        "other",
        "in_progress",
        {"value": 1},
    )


def test_a_question_has_a_card_before_it_is_asked() -> None:
    made = update(
        acp.encode_question_card("abp:question-1", asked("elicitation/confirm", message="Go?"))
    )
    assert (made["title"], made["kind"], made["status"]) == (
        "app.example asks: Go?",
        "other",
        "pending",
    )


PROGRESS: dict[str, tuple[Progress, str, Json]] = {
    "a share": (
        Progress(None, 1, 4, "Reading"),
        "25% · Reading",
        {"progress": 1, "total": 4, "message": "Reading"},
    ),
    "a count": (Progress(None, 3.5), "3.5", {"progress": 3.5}),
    "of nothing": (
        Progress(None, 3, 0, remaining=2),
        "3 · about 2 s left",
        {"progress": 3, "total": 0, "message": "about 2 s left"},
    ),
}


@pytest.mark.parametrize("case", PROGRESS)
def test_progress_is_shown_and_has_the_shape_that_goose_reads(case: str) -> None:
    progress, shown, params = PROGRESS[case]
    made = update(acp.encode_progress("abp:call-1", progress))
    assert made["content"][0]["content"]["text"] == shown
    assert made["_meta"] == {
        "toolNotification": {
            "type": "progress",
            "params": {"progressToken": "abp:call-1", **params},
        }
    }
    assert made["status"] == "in_progress"


def test_a_file_that_only_the_session_has_is_in_the_result_itself() -> None:
    held = SavedFile("abp://demo/results/a", "", "a.bin", "a/b", 2, b"hi")
    large = SavedFile("abp://demo/results/b", "", "b.bin", "a/b", 10**9)
    made = update(acp.encode_ended("abp:call-1", [], [held, large], failed=False))
    (block,) = made["content"]
    resource = {"uri": "abp://demo/results/a", "mimeType": "a/b", "blob": "aGk="}
    assert block["content"] == {"type": "resource", "resource": resource}


def test_a_result_has_its_words_and_a_link_to_each_file() -> None:
    file = SavedFile("abp://demo/results/a", "/tmp/my files/ä#1%.png", "ä#1%.png", "image/png", 7)
    made = update(acp.encode_ended("abp:call-1", ["said", ""], [file], failed=False))
    words, link = (block["content"] for block in made["content"])
    assert words["text"] == "said"
    assert link == {
        "type": "resource_link",
        "uri": "file:///tmp/my%20files/%C3%A4%231%25.png",
        "name": "ä#1%.png",
        "mimeType": "image/png",
        "size": 7,
    }
    assert (made["status"], update(acp.encode_ended("x", [], [], failed=True))["status"]) == (
        "completed",
        "failed",
    )


NOTICES: dict[str, tuple[Notice, str, str]] = {
    "state": (
        Notice(
            NoticeKind.STATE_CHANGED, "notifications/state/changed", {"field": "a", "newValue": 1}
        ),
        "info",
        "a is now 1",
    ),
    "an error": (
        Notice(NoticeKind.ERROR, "notifications/error", {"code": "JAM", "message": "jammed"}),
        "error",
        "JAM",
    ),
    "a failed operation": (
        Notice(NoticeKind.COMPLETED, "notifications/operation/completed", {"success": False}, "x"),
        "error",
        "",
    ),
    "one of its own": (
        Notice(NoticeKind.OTHER, "notifications/mood", {"is": "good"}),
        "info",
        "notifications/mood",
    ),
}


@pytest.mark.parametrize("case", NOTICES)
def test_a_notice_has_a_title_and_a_severity(case: str) -> None:
    notice, severity, words = NOTICES[case]
    made = update(acp.encode_notice(notice))
    assert made["severity"] == severity
    assert words in made["title"]


events = st.sampled_from([f"notifications/{event.value}" for event in NoticeKind]) | any_text


@given(
    event=events, data=json_values | garbled(("field", "newValue", "success", "added"), (True, "a"))
)
def test_whatever_an_app_tells_is_a_notice_with_a_title(event: str, data: Json) -> None:
    update(acp.encode_notice(decode_notice({"event": event, "data": data})))


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)


@given(
    report=st.fixed_dictionaries(
        {"progress": numbers},
        optional={"total": numbers, "percentage": numbers, "status": any_text},
    )
)
def test_whatever_progress_an_app_reports_is_an_update(report: Json) -> None:
    progress = decode_progress(report)
    if progress is not None:
        update(acp.encode_progress("abp:call-1", progress))


def test_commands_say_what_they_do() -> None:
    made = update(
        acp.encode_commands(
            [("demo_echo", Capability("demo.echo", "Say it\nagain")), ("bare", Capability("bare"))]
        )
    )
    assert [(each["name"], each["description"]) for each in made["availableCommands"]] == [
        ("demo_echo", "Say it again"),
        ("bare", "bare"),
    ]


def test_what_the_agent_says_is_a_message() -> None:
    assert update(acp.encode_message("hello"))["content"] == {"type": "text", "text": "hello"}


def test_the_referee_sees_what_the_sdk_would_lose() -> None:
    with pytest.raises(AssertionError, match="does not know all of"):
        check_value(types.PromptResponse, {"stopReason": "end_turn", "mood": "good"})


def test_a_request_is_taken_back_by_its_id() -> None:
    method, params = acp.encode_cancel("abp-1", "no longer needed")
    assert method == "$/cancel_request"
    check_params(method, params)
    assert params == {"requestId": "abp-1"}


@pytest.mark.parametrize(("success", "status"), [(True, "completed"), (False, "failed")])
def test_an_operation_is_a_card_that_begins_and_ends(success: bool, status: str) -> None:
    data = {"operationId": "o1", "capability": "export.pdf"}
    begun = acp.encode_operation(
        "card", Notice(NoticeKind.STARTED, "notifications/operation/started", data, "o1")
    )
    ended = acp.encode_operation(
        "card",
        Notice(
            NoticeKind.COMPLETED,
            "notifications/operation/completed",
            {**data, "success": success},
            "o1",
        ),
    )
    for update in (begun, ended):
        check_params("session/update", {"sessionId": "s1", "update": update})
    assert (begun["title"], begun["status"], ended["status"]) == (
        "export.pdf",
        "in_progress",
        status,
    )
    assert begun["toolCallId"] == ended["toolCallId"] == "card"


def test_an_address_is_shown_on_a_tool_call_of_its_session() -> None:
    question = asked("elicitation/input", prompt="Key?")
    shown = acp.encode_url(question, "s", "c", "http://127.0.0.1:1/open/x", "e1")
    check_params("elicitation/create", shown)
    assert (shown["mode"], shown["sessionId"], shown["toolCallId"], shown["elicitationId"]) == (
        "url",
        "s",
        "c",
        "e1",
    )


# --- a pointer to the page ------------------------------------------------------------------------


def test_a_permission_points_to_the_page() -> None:
    question = decode_question(
        {"method": "elicitation/input", "params": {"prompt": "API key?"}},
        id="q",
        origin="https://app.example",
    )
    asked: Json = acp.encode_permission(
        question, acp.link_step(question, "http://127.0.0.1:4000/open/x"), "s", "c"
    )
    check_params("session/request_permission", asked)
    assert (
        asked["toolCall"]["title"]
        == "https://app.example asks: API key? Answer at http://127.0.0.1:4000/open/x"
    )
    assert [(option["name"], option["kind"]) for option in asked["options"]] == [
        ("Done", "allow_once"),
        ("Skip", "reject_once"),
    ]
    assert "press Done" in asked["toolCall"]["content"][0]["content"]["text"]


@pytest.mark.parametrize(
    ("chosen", "outcome"),
    [("done", Outcome.ACCEPTED), ("skip", Outcome.DECLINED), (None, Outcome.CANCELLED)],
)
def test_what_was_chosen_of_it(chosen: str | None, outcome: Outcome) -> None:
    assert acp.decode_link_outcome(chosen) is outcome


def test_what_was_not_offered_is_not_chosen() -> None:
    with pytest.raises(RemoteProtocolError, match="was not offered"):
        acp.decode_link_outcome("allow_always")
