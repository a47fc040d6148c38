"""ACP messages of the bridge as an agent, checked by the ACP SDK."""

from __future__ import annotations

import json
from typing import Any

import acp.schema as types
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from support.acp_harness import check_params, check_value, labels
from support.json_strategies import any_text, few, garbled, json_values
from support.question_strategies import requests

from abp_bridge.core.capability import Capability, SavedFile
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.core.menu import Menu, MenuResult, Step, obstacle
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import FieldType, Kind, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_notice, decode_question
from abp_bridge.protocols.acp import v1 as acp

Json = Any


def asked(method: str, **params: Json) -> Question:
    return decode_question({"method": method, "params": params}, id="q", origin="app.example")


def form(question: Question, **more: Any) -> Json:
    """Encode a form and check it."""
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
    "elicitation without modes": ({"elicitation": {}}, NOTHING),
    "modes of null": (
        {"elicitation": {"form": None, "url": None}, "session": {"notices": None}},
        NOTHING,
    ),
    "everything": (
        {"elicitation": {"form": {}, "url": {}}, "session": {"notices": {}}},
        acp.ClientCapabilities(form=True, url=True, notices=True),
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_decode_client_capabilities(case: str) -> None:
    declared, capabilities = DECLARED[case]
    assert acp.decode_capabilities(declared) == capabilities


# --- what a client answers to a permission --------------------------------------------------------

OUTCOMES: dict[str, tuple[Json, str | None]] = {
    "a choice": ({"outcome": {"outcome": "selected", "optionId": "s0-1"}}, "s0-1"),
    "a cancel": ({"outcome": {"outcome": "cancelled"}}, None),
}
NO_OUTCOMES: dict[str, Json] = {
    "nothing": None,
    "a word": {"outcome": "selected"},
    "an unknown outcome": {"outcome": {"outcome": "_later", "optionId": "s0-1"}},
    "selected without an option": {"outcome": {"outcome": "selected"}},
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_decode_permission_outcome(case: str) -> None:
    result, chosen = OUTCOMES[case]
    assert acp.decode_outcome(result) == chosen


@pytest.mark.parametrize("case", NO_OUTCOMES)
def test_invalid_permission_outcome_is_refused(case: str) -> None:
    with pytest.raises(RemoteProtocolError, match="answered the permission with"):
        acp.decode_outcome(NO_OUTCOMES[case])


# --- prompts --------------------------------------------------------------------------------------

PROMPTS: dict[str, tuple[Json, str]] = {
    "one text": ([{"type": "text", "text": " /status "}], "/status"),
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
    "no objects": (["hi", 7, None, {"text": 7}], ""),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_prompt_text(case: str) -> None:
    prompt, words = PROMPTS[case]
    assert acp.prompt_text(prompt) == words


def test_prompt_blocks_without_text_are_named() -> None:
    types = ["image", "text", "resource", "image", 7, "resource_link"]
    prompt: Json = [{"type": each} for each in types]
    link = {"type": "resource_link", "uri": "a:b"}
    named = ["image", "resource", "unknown", "resource_link"]
    assert acp.unread_blocks([*prompt, link, "hi"]) == named


# --- forms ----------------------------------------------------------------------------------------


def test_form_names_its_session_and_call() -> None:
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
    "an unknown format is described": (
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
    "whole numbers have 64 bits": (
        {"type": "integer", "minimum": -(2**63) - 1, "maximum": 2**63},
        {"type": "integer"},
    ),
    "a number beyond a double": (
        {"type": "number", "minimum": -(10**400), "maximum": 10**400},
        {"type": "number"},
    ),
    "lengths have 32 bits": (
        {"type": "string", "minLength": 2, "maxLength": 2**32},
        {"type": "string", "minLength": 2},
    ),
    "yes or no": ({"type": "boolean", "default": True}, {"type": "boolean", "default": True}),
}


@pytest.mark.parametrize("case", PROPERTIES)
def test_form_property_fits_strict_clients(case: str) -> None:
    schema, sent = PROPERTIES[case]
    assert only_property(schema) == sent


def questions(request: Json) -> Question:
    """Decode a random request, if it has fields and no lone surrogates."""
    try:
        question = decode_question(request, id="q", origin="app.example")
    except RemoteProtocolError:
        reject()
    assume(question.kind not in (Kind.RESOURCE, Kind.SAMPLING))  # no form has these
    spelled = json.dumps(
        [
            [each.name, [choice.key for choice in each.choices], repr(each.default)]
            for each in question.fields
        ],
        ensure_ascii=False,
    )
    assume(not any(0xD800 <= ord(letter) < 0xE000 for letter in spelled))
    return question


@few
@given(request=requests, problem=any_text, plain=st.booleans())
@pytest.mark.slow
def test_any_question_is_a_form_that_fits_strict_clients(
    request: Json, problem: str, plain: bool
) -> None:
    question = questions(request)
    params = form(question, problem=problem, plain=plain)
    for field in question.fields:
        if field.type is not FieldType.CHOICES or not plain:
            assert field.name in params["requestedSchema"]["properties"]


# --- permissions ----------------------------------------------------------------------------------


def permission(question: Question, step: Step) -> Json:
    """Encode a permission and check it."""
    params = acp.encode_permission(question, step, "s1", "abp:call-1")
    check_params("session/request_permission", params)
    return params


def test_permission_shows_the_question() -> None:
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


def test_permission_content_has_a_long_question() -> None:
    words = " ".join(f"word{number}" for number in range(300))
    for question in (
        asked("elicitation/select", prompt=words, options=[1, 2]),
        asked("elicitation/confirm", message=words),
    ):
        params = permission(question, Menu(question).step)
        assert "more characters not shown" in params["toolCall"]["title"]
        (block,) = params["toolCall"]["content"]
        assert block["content"]["text"].count(words) == 1


@few
@given(request=requests, k=st.integers(2, 6), data=st.data())
@pytest.mark.slow
def test_any_menu_step_is_a_permission_that_fits_strict_clients(
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
    """Check an update."""
    check_params("session/update", {"sessionId": "s1", "update": made})
    return made


def test_tool_call_has_its_arguments() -> None:
    made = update(acp.encode_call("abp:call-1", "demo.echo", {"value": 1}))
    assert (made["title"], made["kind"], made["status"], made["rawInput"]) == (
        "demo.echo",
        "other",
        "in_progress",
        {"value": 1},
    )


def test_question_card() -> None:
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
def test_progress_update_with_goose_metadata(case: str) -> None:
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


def test_result_update_embeds_an_unsaved_file() -> None:
    held = SavedFile("abp://demo/results/a", "", "a.bin", "a/b", 2, b"hi")
    large = SavedFile("abp://demo/results/b", "", "b.bin", "a/b", 10**9)
    made = update(acp.encode_ended("abp:call-1", [], [held, large], failed=False))
    (block,) = made["content"]
    resource = {"uri": "abp://demo/results/a", "mimeType": "a/b", "blob": "aGk="}
    assert block["content"] == {"type": "resource", "resource": resource}


def test_result_update_links_saved_files() -> None:
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
}


@pytest.mark.parametrize("case", NOTICES)
def test_notice_update_has_a_title_and_severity(case: str) -> None:
    notice, severity, words = NOTICES[case]
    made = update(acp.encode_notice(notice))
    assert made["severity"] == severity
    assert words in made["title"]


events = st.sampled_from([f"notifications/{event.value}" for event in NoticeKind]) | any_text


@few
@given(
    event=events, data=json_values | garbled(("field", "newValue", "success", "added"), (True, "a"))
)
def test_any_notice_is_an_update(event: str, data: Json) -> None:
    update(acp.encode_notice(decode_notice({"event": event, "data": data})))


def test_commands_update() -> None:
    made = update(
        acp.encode_commands(
            [("demo_echo", Capability("demo.echo", "Say it\nagain")), ("bare", Capability("bare"))]
        )
    )
    assert [(each["name"], each["description"]) for each in made["availableCommands"]] == [
        ("demo_echo", "Say it again"),
        ("bare", "bare"),
    ]


def test_message_update() -> None:
    assert update(acp.encode_message("hello"))["content"] == {"type": "text", "text": "hello"}


def test_referee_refuses_unknown_members() -> None:
    with pytest.raises(AssertionError, match="does not know all of"):
        check_value(types.PromptResponse, {"stopReason": "end_turn", "mood": "good"})


def test_cancel_request_names_the_id() -> None:
    method, params = acp.encode_cancel("abp-1", "no longer needed")
    assert method == "$/cancel_request"
    check_params(method, params)
    assert params == {"requestId": "abp-1"}


@pytest.mark.parametrize(("success", "status"), [(True, "completed"), (False, "failed")])
def test_operation_is_a_tool_call_card(success: bool, status: str) -> None:
    data: Json = {"operationId": "o1", "capability": "export.pdf", "success": success}
    begun, ended = (
        update(
            acp.encode_operation("card", Notice(kind, f"notifications/{kind.value}", data, "o1"))
        )
        for kind in (NoticeKind.STARTED, NoticeKind.COMPLETED)
    )
    assert (begun["title"], begun["status"]) == ("export.pdf", "in_progress")
    assert ended["status"] == status
    assert begun["toolCallId"] == ended["toolCallId"] == "card"


def test_url_elicitation_names_its_session_and_call() -> None:
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


def test_permission_links_to_the_page() -> None:
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
    ("chosen", "outcome"), [("done", Outcome.ACCEPTED), (None, Outcome.CANCELLED)]
)
def test_decode_link_outcome(chosen: str | None, outcome: Outcome) -> None:
    assert acp.decode_link_outcome(chosen) is outcome


def test_link_option_that_was_not_offered_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="was not offered"):
        acp.decode_link_outcome("allow_always")
