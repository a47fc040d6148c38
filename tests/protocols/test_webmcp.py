"""Tools and forms of a page: capabilities, questions, and what is submitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, FieldType, Kind
from abp_bridge.core.redact import texts
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.schema_fields import MAX_FIELDS
from abp_bridge.protocols.webmcp import form as forms
from abp_bridge.protocols.webmcp import form_question, tools
from abp_bridge.protocols.webmcp import tools as webmcp

Json = Any


def tool(name: str = "t", frame: str = "f", **more: Json) -> webmcp.Tool:
    [found] = webmcp.decode_tools({"tools": [{"name": name, "frameId": frame, **more}]})
    return found


def form(*controls: Json, **more: Json) -> forms.Form:
    return forms.decode_page_form({"controls": list(controls), "active": True, **more})


def control(type: str = "text", name: str = "x", **more: Json) -> Json:
    return {"type": type, "name": name, **more}


def asked(read: forms.Form, **more: Json) -> Any:
    given = {"id": "q", "origin": "https://a.example", "description": "D", **more}
    return form_question.make_question(read, **given)


# --- tools ----------------------------------------------------------------------------------------


def test_tool_without_a_name_is_ignored() -> None:
    assert webmcp.decode_tools({"tools": [{"name": ""}, 3]}) == []
    assert webmcp.decode_keys({"tools": [{"name": "t", "frameId": "f"}]}) == [("f", "t")]


def test_clean_schema() -> None:
    schema: Json = {
        "properties": {
            "time": {"type": "string", "format": "^[0-9]+$"},
            "times": {"items": {"format": "^[0-9]+$", "pattern": "^1"}},
            "date": {"format": "date"},
            "whole": {"type": "number", "multipleOf": 1},
            "half": {"type": "number", "multipleOf": 0.5},
            "any": True,
            "secret": {},
        },
        "required": ["time", "secret"],
    }
    assert webmcp.clean_schema(schema, ["secret"]) == {
        "type": "object",
        "properties": {
            "time": {"type": "string", "pattern": "^[0-9]+$"},
            "times": {"items": {"pattern": "^1"}},
            "date": {"format": "date"},
            "whole": {"type": "integer"},
            "half": {"type": "number", "multipleOf": 0.5},
            "any": True,
        },
        "required": ["time"],
    }


def test_tool_names_are_unique_and_stay() -> None:
    both = [tool(frame="f"), tool(frame="g")]
    named = webmcp.name_tools(both, [], {}, ["f", "g"])
    assert named == {("f", "t"): "t", ("g", "t"): "frame2.t"}
    assert webmcp.name_tools(both[1:], [], named, ["f", "g"]) == {("g", "t"): "frame2.t"}
    assert webmcp.name_tools(both[:1], ["t", "webmcp.t"], {}, []) == {("f", "t"): "webmcp.t_"}
    assert webmcp.name_tools(both[:1], ["t"], named, ["f"]) == {("f", "t"): "webmcp.t"}


def test_describe_tools() -> None:
    kinds = [
        tool("waits", backendNodeId=1, inputSchema={"properties": {}, "required": []}),
        tool("sent", backendNodeId=2, annotations={"autosubmit": True}),
        tool("reads", annotations={"readOnly": True, "untrustedContent": True}),
        tool("buys", annotations={"consequential": True}),
        tool("unknown"),
    ]
    listed = webmcp.describe_tools([(each, each.name, {}) for each in kinds])
    assert {
        each.name: (each.destructive, each.presumed, each.harmless, each.needs_approval)
        for each in listed
    } == {
        "waits": (False, False, False, False),
        "sent": (True, True, False, True),
        "reads": (False, False, True, False),
        "buys": (True, False, False, True),
        "unknown": (True, True, False, False),
    }
    assert "required" not in listed[0].input_schema
    assert listed[2].hints == {"readOnlyHint": True, "openWorldHint": True}


def test_required_and_secret_controls_are_asked_of_the_user() -> None:
    controls = [
        control("password", "p", required=True),
        control("password", "old"),
        control("hidden", "shop", fixed=True),
    ]
    read = form(*controls)
    schema: Json = {"properties": {"x": {}, "p": {}}, "required": ["x", "p"]}
    waits = tool("waits", backendNodeId=1, inputSchema=schema)
    sent = tool("sent", backendNodeId=2, inputSchema=schema, annotations={"autosubmit": True})
    one, other = webmcp.describe_tools(
        [
            (waits, "waits", forms.withheld_controls(read)),
            (sent, "sent", forms.withheld_controls(read, at_once=True)),
        ]
    )
    assert one.asked_of_person == ("x", "p", "old")
    assert other.asked_of_person == ("p",)
    assert other.input_schema["required"] == ["x"]


def test_tool_secrets_are_withheld() -> None:
    inner: Json = {"type": "object", "properties": {"pin": {"writeOnly": True}}}
    schema: Json = {
        "properties": {"pin": {"writeOnly": True}, "user": {}},
        "required": ["pin", "user"],
    }
    assert webmcp.withheld_names(schema) == {"pin"}
    wanted: Json = webmcp.secret_properties(schema)
    assert (list(wanted["properties"]), wanted["required"]) == (["pin"], ["pin"])
    assert not webmcp.has_nested_secret(schema)
    assert webmcp.has_nested_secret({"properties": {"login": inner}})


# --- forms ----------------------------------------------------------------------------------------


def test_form_note_has_the_submit_button() -> None:
    button: Json = {"text": "Pay", "name": "how", "value": "once"}
    read = form(control(), submit=button)
    assert 'how "once"' in asked(read).note
    for changed in ({"name": "what"}, {"value": "monthly"}):
        assert form(control(), submit={**button, **changed}).shape != read.shape
    assert "cannot be changed" not in asked(form(control(), submit={"text": "Pay"})).note


FIELDS: dict[str, tuple[list[Json], FieldType, Json, Json]] = {
    # its controls: what is asked, the default, what the tool is called with
    "text": ([control(value="a", maxLength=9)], FieldType.TEXT, "a", "a"),
    "pattern": ([control(pattern="[a-z]+", value="ab")], FieldType.TEXT, "ab", "ab"),
    "time": (
        [control("time", value="12:30", min="08:00", max="20:00")],
        *(FieldType.TEXT, "12:30", "12:30"),
    ),
    "whole": ([control("number", value="2", min="1", max="8")], FieldType.INTEGER, 2, 2),
    "email": ([control("email", value="a@b.c")], FieldType.TEXT, "a@b.c", "a@b.c"),
    "no finite number": ([control("number", value="1e999")], FieldType.INTEGER, MISSING, None),
    "no number": ([control("number", value="", min="x")], FieldType.INTEGER, MISSING, None),
    "box": (
        [control("checkbox", checked=True, value="on"), control(name="y")],
        *(FieldType.BOOLEAN, True, True),
    ),
    "boxes": (
        [control("checkbox", value=each, checked=each == "b", label=each) for each in "ab"],
        *(FieldType.CHOICES, ["b"], ["b"]),
    ),
    "buttons": (
        [control("radio", value=each, checked=each == "b", label=each) for each in "ab"],
        *(FieldType.CHOICE, "b", "b"),
    ),
    "no button": ([control("radio", value="a")], FieldType.CHOICE, MISSING, None),
    "list": (
        [
            control(
                "select-one",
                options=[
                    {"value": "a", "label": "A"},
                    {"value": "b", "label": "B", "selected": True},
                    {"value": "c", "label": "C", "disabled": True},
                ],
            )
        ],
        *(FieldType.CHOICE, "b", "b"),
    ),
    "nothing chosen": (
        [control("select-one", required=True, options=[{"value": ""}, {"value": "a"}])],
        *(FieldType.CHOICE, MISSING, None),
    ),
    "several": (
        [control("select-multiple", options=[{"value": "a", "selected": True}, {"value": "b"}])],
        *(FieldType.CHOICES, ["a"], ["a"]),
    ),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_field_of_a_control(kind: str) -> None:
    controls, type, default, argument = FIELDS[kind]
    read = form(*controls)
    field = asked(read).fields[0]
    assert (field.type, field.default) == (type, default)
    content = {} if default is MISSING else {"x": default}
    states = form_question.answered_states(read, content)
    assert form_question.changed_places(read, states) == []
    takes: Json = {"properties": {"x": {}}}
    assert form_question.make_arguments(read, states, takes).get("x") == argument


def test_answered_states() -> None:
    read = form(
        control(value="old"),
        control("radio", "r", value="a", checked=True),
        control("radio", "r", value="b"),
        control("checkbox", "c", value="on", checked=True),
        control("select-multiple", "m", options=[{"value": "a"}, {"value": "b"}]),
        control("number", "n", value="2.0"),
        control("password", "p", value="kept"),
        control("hidden", "h", value="1", fixed=True),
        control("file", "f"),
    )
    states = form_question.answered_states(read, {"r": "b", "m": ["b"], "n": 2})
    assert states == {
        0: "",
        1: False,
        2: True,
        3: False,
        4: ["b"],
        5: "2",
        6: "kept",
        7: "1",
        8: "",
    }
    assert form_question.changed_places(read, states) == [0, 1, 2, 3, 4]
    assert form_question.find_left_out(read, {"r": "b", "n": 2}) == ["x", "c"]
    assert form_question.answered_states(read, {"p": "new", "x": "y"})[6] == "new"


@pytest.mark.parametrize(
    ("kind", "held", "accepted", "same"),
    [
        ("textarea", "a\nb", "a\r\nb", True),
        ("textarea", "a\nb", "ab", False),
        ("number", "123456789012345678", "123456789012345680", False),
        ("number", "123456789012345678", "123456789012345678", True),
        ("number", "1e3", "1000.0", True),
        ("number", "0.12345678901234567891", "0.12345678901234568", True),
        ("number", "0.12345678901234567891", "0.123456789012345", False),
        ("number", "1e-99999999999999999999", "0.0", True),
        ("number", "", "1", False),
        ("datetime-local", "2026-11-27T10:00", "2026-11-27T10:00:00", True),
        ("datetime-local", "2026-11-27T10:00:05.5", "2026-11-27T10:00:05.500", True),
        ("datetime-local", "2026-11-27T10:00", "2026-11-27T10:01", False),
    ],
)
def test_control_value_may_be_spelt_otherwise(
    kind: str, held: str, accepted: str, same: bool
) -> None:
    read = form(control(kind, value=held))
    assert form_question.changed_places(read, {0: accepted}) == ([] if same else [0])


def test_large_number_is_not_an_argument() -> None:
    read = form(control("number", value="123456789012345678"), control("number", "y"))
    assert [each.default for each in asked(read).fields] == [123456789012345678, MISSING]
    states = form_question.answered_states(read, {"x": 123456789012345678, "y": 2**53})
    assert states == {0: "123456789012345678", 1: "9007199254740992"}
    takes: Json = {"properties": {"x": {}, "y": {}}}
    assert form_question.make_arguments(read, states, takes) == {"y": 2**53}


def test_form_note_has_fixed_values_without_secrets() -> None:
    read = form(
        control("hidden", "shop", value="12", fixed=True),
        control("hidden", "csrf_token", value="abc", fixed=True),
        control("hidden", "state", value="z" * 99, fixed=True),
        control("select-multiple", "m", fixed=True),
        submit={"text": "Pay"},
        action="https://b.example/",
    )
    question = asked(read, note="N.")
    assert question.kind is Kind.CONFIRM
    assert question.note == (
        'N. If you accept, the form is sent with its button "Pay" to "https://b.example/". It also'
        ' sends what cannot be changed here: shop "12", csrf_token (not shown), state (99'
        ' characters, not shown), m "[]".'
    )


def test_form_note_has_what_is_sent_beyond_the_controls() -> None:
    controls = [
        control(value="a\r\nb"),
        control("checkbox", "c", value="on", checked=True),
        control("checkbox", "c", value="off"),
        control("select-multiple", "m", options=[{"value": "1", "selected": True}]),
        control("file", "f"),
        control("?", "own", fixed=True),
        control(name="", required=True, value="not sent"),
        control(name="gone", value="x", label="Gone"),
        control(name="empty"),
    ]
    known = [
        *(
            {"name": "x", "value": "a\nb"},
            {"name": "c", "value": "on"},
            {"name": "m", "value": "1"},
        ),
        *({"name": "how", "value": "now"}, {"name": "f", "file": ""}),
    ]
    button = {"text": "Go", "name": "how", "value": "now"}
    more = [{"name": "x", "value": "a\nb"}, {"name": "f", "file": "a.txt"}, {"name": "own"}]
    told = form(*controls, submit=button, sends=[*known, *more])
    assert [(each.name, each.value) for each in told.beyond] == [
        *(("x", "a\nb"), ("f", "a.txt"), ("own", ""))
    ]
    assert asked(told).note.endswith(
        'here: x "a b", f (a file, "a.txt"), own "", how "now". Its page does not send as it'
        " stands: Gone."
    )
    plain = form(*controls, submit=button, sends=known)
    assert form_question.find_changes(told, plain, {"f"}) == ["own", "x"]
    assert form_question.find_changes(told, told, ()) == []
    gone = form(*controls, submit=button, sends=[*known, {"name": "gone", "value": "x"}])
    assert form_question.find_changes(plain, gone, ()) == ["Gone"]


def test_part_of_a_form_is_asked() -> None:
    hidden = control("hidden", "h", value="1", fixed=True)
    read = form(control(value="a"), control("password", "p"), hidden)
    part = asked(read, places=[1])
    assert [each.name for each in part.fields] == ["p"]
    assert 'cannot be changed here: h "1".' in part.note
    states = form_question.answered_states(read, {"p": "word"}, [1])
    assert states == {0: "a", 1: "word", 2: "1"}


def test_field_of_a_control_without_a_name() -> None:
    nameless = control("checkbox", "", required=True)
    read = form({**nameless, "label": "Agree"}, {**nameless, "id": "i"}, nameless, nameless)
    none = "a field without a name"
    assert [each.name for each in asked(read).fields] == ["Agree", "i", none, f"{none} (2)"]
    assert forms.withheld_controls(form(control("password", ""))) == {}
    assert form_question.show_sent(read) == {}


def test_single_checkbox_options_mention_the_sending() -> None:
    [field] = asked(form(control("checkbox", "terms", value="on", label="Terms"))).fields
    assert [each.label for each in field.choices] == ["Send with: Terms", "Send without: Terms"]


TERMS = "I agree to the terms. " * 30
FEE = "And to a fee of 900 euros a month."


def test_long_label_is_whole_in_the_description() -> None:
    box = control("checkbox", "terms", value="on", label=TERMS + FEE)
    several, lone = asked(form(box, control())).fields[0], asked(form(box)).fields[0]
    more = len(TERMS + FEE) - 200
    assert several.title == f"{TERMS[:200].strip()} … [{more} more characters not shown]"
    assert several.description == lone.description == TERMS + FEE
    assert lone.choices[0].whole == f"Send with: {TERMS}{FEE}"
    assert lone.choices[0].label.endswith(f"[{more + 11} more characters not shown]")


def test_secret_control() -> None:
    read = form(
        control("password", "p", required=True, problem="Please"),
        control("text", "card", autocomplete="section-a CC-number", value="4111"),
        control("text", "password"),
        control(problem="Fill in."),
    )
    first, second, third, _ = asked(read).fields
    assert (first.secret, first.required) == (True, True)
    assert (second.secret, second.default) == (True, MISSING)
    assert not third.secret
    assert forms.withheld_controls(read) == {"p": True, "card": True}
    assert read.problems == ["p: does not fit", "x: Fill in."]
    assert form_question.show_sent(read) == {"password": "", "x": ""}


def test_form_note_counts_fixed_values_beyond_a_limit() -> None:
    boxes = [control("checkbox", "x", value=str(n), fixed=True) for n in range(MAX_FIELDS + 2)]
    assert asked(form(*boxes)).note.endswith(", and 2 more.")


def test_find_missing() -> None:
    missing = {"required": True, "problem": "Fill in"}
    read = form(
        *(control("password", "p", **missing), control("text", "t", **missing)),
        *(control("checkbox", "", **missing), control("file", "", **missing)),
        *(control("password", "set", value="x"), control("?", "", problem="P", fixed=True)),
    )
    assert form_question.find_missing(read) == [0, 2]


def test_files_wanted() -> None:
    needed = form(control("file", "a", required=True), control("file", "b"))
    assert [each.key for each in form_question.files_wanted(needed, {})] == ["a"]
    assert [each.key for each in form_question.files_wanted(needed, {"b": True})] == ["a", "b"]
    assert "needs one" in asked(needed).fields[0].description
    assert form_question.make_arguments(needed, {0: "", 1: ""}, {"properties": {"a": {}}}) == {}
    bare = {"file": {"content": "aGk=", "encoding": "base64"}}
    assert form_question.read_file(bare) == ("file", b"hi")
    given = {"file": {"content": "hi", "filename": "..\\..\\.x.txt"}}
    assert form_question.read_file(given) == ("x.txt", b"hi")


def test_invalid_default_is_described() -> None:
    [field] = asked(form(control(value="long", maxLength=2))).fields
    assert field.default is MISSING
    assert field.description == '(It holds "long" now.)'


def test_confirm_lists_what_is_sent() -> None:
    read = form(
        control(value="old"),
        control("checkbox", "c", value="on", label="C"),
        control("checkbox", "g", value="1", label="One"),
        control("checkbox", "g", value="2", label="Two"),
        control("select-one", "s", options=[{"value": "a", "label": "A", "selected": True}]),
    )
    states = form_question.answered_states(read, {"c": True, "g": ["2"], "s": "a"})
    confirm = form_question.make_confirm(asked(read), read, states)
    assert confirm.kind is Kind.CONFIRM
    assert confirm.message.splitlines()[2:] == [
        *("It would be sent with:", "x: (nothing)", 'C: "yes"', 'One: "Two"', 's: "A"')
    ]


def test_form_with_too_many_fields_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        asked(form(*(control(name=str(each)) for each in range(MAX_FIELDS + 1))))


# --- results --------------------------------------------------------------------------------------

RESPONSES: dict[str, tuple[Json, str, Json]] = {
    # what the browser reports: the code of the failure, the data or the words
    "data": ({"status": "Completed", "output": [1]}, "", [1]),
    "MCP": (
        {"status": "Completed", "output": {"content": [{"type": "text", "text": "a"}]}},
        *("", "a"),
    ),
    "almost": ({"status": "Completed", "output": {"content": ["a"]}}, "", {"content": ["a"]}),
    "thrown": (
        {"status": "Error", "errorText": "", "exception": {"description": "E: a\n at"}},
        *("OPERATION_FAILED", "E: a"),
    ),
    "validation": (
        {"status": "Error", "errorText": "Form validation failed: a"},
        *("INVALID_PARAMS", "Form validation failed: a"),
    ),
    "no tool": (
        {"status": "Error", "errorText": "Tool not found"},
        *("UNKNOWN_CAPABILITY", "Tool not found"),
    ),
    "taken back": (
        {"status": "Canceled", "errorText": "a"},
        *("CANCELLED", "The page ended the call: a"),
    ),
}


@pytest.mark.parametrize("kind", RESPONSES)
def test_decode_tool_response(kind: str) -> None:
    raw, code, said = RESPONSES[kind]
    result = tools.decode_response(raw)
    if result.failure is None:
        assert (code, result.data) == ("", said)
    else:
        assert (result.failure.code, result.failure.message) == (code, said)


def test_prevented_submit_without_a_response_is_unknown() -> None:
    said = {"status": "Error", "errorText": "preventDefault() was called without respondWith()"}
    failure = tools.decode_response(said).failure
    assert failure is not None
    assert (failure.code, failure.retryable) == ("OUTCOME_UNKNOWN", False)


def test_refusal_result_says_nothing_was_sent() -> None:
    for outcome in Outcome:
        for who in (AnsweredBy.PERSON, AnsweredBy.HOST_POLICY):
            failure = tools.refusal_result(Answer(outcome, who, reason="R.")).failure
            assert failure is not None
            assert failure.message.startswith("Nothing was sent: ")
            assert failure.message.endswith(" R.")
    for who, words in {
        AnsweredBy.PERSON: "the user said no",
        AnsweredBy.UNKNOWN: "the host said no",
        AnsweredBy.SCRIPT: "an answers file said no",
        AnsweredBy.MODEL: "a model said no",
    }.items():
        failure = tools.refusal_result(Answer(Outcome.DECLINED, who)).failure
        assert failure is not None
        assert failure.message == f"Nothing was sent: {words}."
    unsent = tools.unsent_result("a", retryable=True).failure
    assert unsent is not None
    assert unsent.retryable


# --- by hand --------------------------------------------------------------------------------------


def test_find_need() -> None:
    assert tools.find_need(form()) == ""
    assert "https://pay.example and" not in tools.find_need(form(frames=["https://pay.example"]))
    twice = form(frames=["https://pay.example", "https://pay.example"])
    assert "a frame of https://pay.example is in it" in tools.find_need(twice)
    assert "no origin" in tools.find_need(form(frames=[""]))
    many = [f"https://{number}.example" for number in range(7)]
    assert "and 2 more" in tools.find_need(form(frames=many))
    own = {"name": "card", "fixed": True}
    missing = form({**own, "label": "Card", "problem": "missing"}, frames=["https://pay.example"])
    assert "made Card itself" in tools.find_need(missing)
    assert tools.find_need(form(own)) == ""
    sent = form(own, sends=[{"name": "card", "value": "none"}])
    assert asked(sent).note.endswith('cannot be changed here: card "none".')


def test_hand_question() -> None:
    question = tools.make_hand_question(
        id="q1",
        origin="https://shop.example",
        description="",
        why="it has a frame",
        wanted="Press it.",
    )
    assert question.message
    assert "it has a frame" in question.note
    assert "Press it." in question.note
    done = {question.fields[0].name: True}
    assert tools.says_done(Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, done))
    assert not tools.says_done(Answer(Outcome.ACCEPTED, AnsweredBy.PERSON))


HANDS = {
    # how the question ended, who answered: the code of the call's failure
    (Outcome.DECLINED, AnsweredBy.PERSON): "USER_CANCELLED",
    (Outcome.CANCELLED, AnsweredBy.PERSON): "USER_CANCELLED",
    (Outcome.ACCEPTED, AnsweredBy.PERSON): "USER_CANCELLED",
    (Outcome.TIMED_OUT, AnsweredBy.NOBODY): "OUTCOME_UNKNOWN",
    (Outcome.INVALID, AnsweredBy.UNKNOWN): "OUTCOME_UNKNOWN",
    (Outcome.UNSUPPORTED, AnsweredBy.NOBODY): "NOT_SUPPORTED",
    (Outcome.DECLINED, AnsweredBy.HOST_POLICY): "PERMISSION_REQUIRED",
    (Outcome.WITHDRAWN, AnsweredBy.NOBODY): "CANCELLED",
}


def test_end_hand() -> None:
    for (outcome, who), code in HANDS.items():
        ended = tools.end_hand(Answer(outcome, who)).failure
        assert ended is not None
        assert (ended.code, ended.retryable) == (code, False), outcome
        assert "erson dropped" not in ended.message, "nobody knows whose no it is"
    nowhere = tools.needs_window("it has a frame", "Start it with --headful").failure
    assert nowhere is not None
    assert nowhere.code == "NOT_SUPPORTED"
    assert nowhere.message.endswith("it has a frame. Start it with --headful.")


# --- what was given as a secret -------------------------------------------------------------------

WORD = "correct-horse-5"


def hide(text: str) -> str:
    return text.replace(WORD, "[secret]").replace("482913", "[secret]")


def test_mark_secrets() -> None:
    given = [control(value=f"is {WORD}"), control("hidden", "h", value=WORD, fixed=True)]
    marked = forms.mark_secrets(form(*given, control("checkbox", "c", value=WORD)), hide)
    assert [each.secret for each in marked.controls] == [True, True, False]
    question = asked(marked)
    assert question.fields[0].secret
    assert question.fields[0].default is MISSING
    assert "h (not shown)" in question.note


def test_clean_question() -> None:
    read = form(control(label=f"Is {WORD}", description=f"not {WORD}", value="a"), action=WORD)
    question = texts.clean_question(asked(read, description=f"Send {WORD}"), hide)
    assert WORD not in repr(question)
    assert question.fields[0].schema["title"] == "Is [secret]"


@pytest.mark.parametrize(
    "read",
    [
        control(name=WORD),
        control(value=WORD),
        control(pattern=WORD),
        control("select-one", options=[{"value": WORD, "label": "one"}]),
    ],
)
def test_question_that_needs_a_secret_is_refused(read: Json) -> None:
    with pytest.raises(RemoteProtocolError, match="given as a secret"):
        texts.clean_question(asked(form(read)), hide)


def test_clean_tool() -> None:
    named = {"type": "object", "properties": {"x": {"title": WORD}}}
    cleaned = webmcp.clean_tool(tool(description=f"Was {WORD}", inputSchema=named), hide)
    assert cleaned is not None
    assert cleaned.description == "Was [secret]"
    assert WORD not in str(cleaned.schema)
    assert webmcp.clean_tool(tool(WORD), hide) is None
    assert webmcp.clean_tool(tool(inputSchema={"properties": {WORD: {}}}), hide) is None


def test_clean_value() -> None:
    said: Json = {WORD: [482913, 482913.0, 1.5, True, None, f"a {WORD}"], "n": {"n": 7}}
    assert texts.clean_value(said, hide) == {
        "[secret]": ["[secret]", "[secret]", 1.5, True, None, "a [secret]"],
        "n": {"n": 7},
    }


def test_checkboxes_with_one_value_have_unique_choices() -> None:
    boxes = form(
        control("checkbox", value="on", label="A"),
        control("checkbox", value="on", label="B", checked=True),
    )
    field = asked(boxes).fields[0]
    assert [(each.value, each.label) for each in field.choices] == [("on", "A"), ("on (2)", "B")]
    assert field.default == ["on (2)"]
    states = form_question.answered_states(boxes, {"x": ["on"]})
    assert states == {0: True, 1: False}
    assert form_question.make_arguments(boxes, states, {"properties": {"x": {}}}) == {}
    three = form(*[control("radio", value=each) for each in ("a", "a", "a (2)")])
    assert len({each.value for each in asked(three).fields[0].choices}) == 3


@pytest.mark.parametrize("made", [tools.left_by_itself, tools.beforeunload_result])
def test_page_that_was_left_has_an_unknown_outcome(made: Callable[[], CallResult]) -> None:
    failure = made().failure
    assert failure is not None
    assert (failure.code, failure.retryable) == ("OUTCOME_UNKNOWN", False)
    assert "It was sent" not in failure.message
