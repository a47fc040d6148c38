"""Every kind of question, asked by a real app, shown by a real MCP client of either era, and what
comes back to the app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mcp_types as types
import pytest
from anyio.from_thread import start_blocking_portal
from support.harness import MODERN, VERSIONS, Hosted, call_from, hosted

Json = Any


@dataclass
class Person:
    """Answers from a script, the last entry again and again; keeps what was shown.

    An entry that is called when it is its turn may take its time.
    """

    script: list[Any] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def __call__(self, params: Any) -> Any:
        self.seen.append(params)
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return entry() if callable(entry) else entry

    def will(self, *script: Any) -> None:
        self.script, self.seen = list(script), []


@dataclass
class Scene:
    """One bridge with one app, for many tests."""

    person: Person
    hosted: Hosted
    call: Callable[..., Any]
    version: str

    def ask(self, method: str, **params: Json) -> Json:
        def run() -> Any:
            return self.hosted.ask(method, **params)

        return self.call(run)


@pytest.fixture(scope="module", params=[*VERSIONS, MODERN])
def asked(request: pytest.FixtureRequest) -> Iterator[Scene]:
    person = Person()
    with start_blocking_portal() as portal:
        opened = portal.wrap_async_context_manager(
            hosted("--app", "demo", answer=person, version=request.param, shared=True)
        )
        with opened as host:
            yield Scene(person, host, partial(call_from, portal), request.param)


def accepts(**content: Json) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


OPTIONS = [{"value": f"v{number}", "label": f"Label {number}"} for number in range(1, 13)]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}

# method, params, what the person fills in, what the app gets as data
CASES: dict[str, tuple[str, dict[str, Json], dict[str, Json], Json]] = {
    "string": (
        "elicitation/input",
        {"prompt": "Name?", "schema": {"type": "string"}},
        {"value": "Ann"},
        {"value": "Ann"},
    ),
    "object": (
        "elicitation/input",
        {"prompt": "Who?", "schema": PERSON},
        {"name": "Ann", "age": 7},
        {"value": {"name": "Ann", "age": 7}},
    ),
    "preference": (
        "elicitation/preference",
        {"prompt": "Seat?", "schema": {"enum": ["window", "aisle"]}, "default": "window"},
        {"value": "aisle"},
        {"value": "aisle"},
    ),
    "confirm": (
        "elicitation/confirm",
        {"message": "Book?"},
        {"confirmed": True},
        {"confirmed": True},
    ),
    "select 12": (
        "elicitation/select",
        {"prompt": "Which?", "options": OPTIONS},
        {"selected": "v12"},
        {"selected": "v12"},
    ),
}
each_case = pytest.mark.parametrize("case", CASES)
# A preference has a default, and a string has none.
with_and_without_default = pytest.mark.parametrize("case", ["preference", "string"])
DEFAULTED = {"preference"}


@each_case
def test_question_is_shown_with_its_origin_and_answered(asked: Scene, case: str) -> None:
    method, params, content, data = CASES[case]
    asked.person.will(accepts(**content))
    response = asked.ask(method, **params)
    assert (response["success"], response["data"]) == (True, data)
    assert response["metadata"]["route"] == "mcp-form"
    (shown,) = asked.person.seen
    assert shown.message.startswith(f"demo asks: {params.get('prompt') or params['message']}")
    assert list(shown.requested_schema["properties"]) == list(content)


@with_and_without_default
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_unanswered_question_is_cancelled_or_its_default(
    asked: Scene, case: str, action: str
) -> None:
    method, params, _, _ = CASES[case]
    asked.person.will(types.ElicitResult.model_validate({"action": action}))
    response = asked.ask(method, **params)
    assert response["metadata"]["outcome"] == {"decline": "declined", "cancel": "cancelled"}[action]
    if case in DEFAULTED:
        assert (response["success"], response["data"], response["metadata"]["answeredBy"]) == (
            True,
            {"value": "window"},
            "default",
        )
    else:
        assert (response["success"], response["cancelled"], response["error"]["code"]) == (
            False,
            True,
            "USER_CANCELLED",
        )
        assert "data" not in response


@with_and_without_default
@pytest.mark.slow
def test_question_that_times_out_is_withdrawn(asked: Scene, case: str) -> None:
    method, params, content, _ = CASES[case]
    late = partial(asked.hosted.after_it_ended, accepts(**content))
    asked.person.will(late if asked.version == MODERN else None)
    withdrawn = len(asked.hosted.wire.sent("notifications/cancelled"))
    response = asked.ask(method, timeout=200, **params)
    assert response["metadata"]["outcome"] == "timed_out"
    if case in DEFAULTED:
        assert response["data"] == {"value": "window"}
    else:
        assert (response["success"], response["error"]["code"], response["error"]["retryable"]) == (
            False,
            "TIMEOUT",
            True,
        )
    if asked.version != MODERN:  # there a host learns it when it comes back
        assert len(asked.hosted.wire.sent("notifications/cancelled")) == withdrawn + 1


@pytest.mark.parametrize("case", ["string", "object", "select 12"])
def test_invalid_answer_is_asked_again(asked: Scene, case: str) -> None:
    method, params, content, data = CASES[case]
    fields = [accepts(**{name: value}) for name, value in content.items()]
    asked.person.will(types.ElicitResult(action="accept", content={}), *fields)
    response = asked.ask(method, **params)
    assert (response["success"], response["data"]) == (True, data)
    assert len(asked.person.seen) == 1 + len(content)
    assert all("Please answer again" in shown.message for shown in asked.person.seen[1:2])


SIX: dict[str, Json] = {
    "type": "object",
    "properties": {
        "mail": {"$ref": "#/$defs/mail", "title": "E-mail"},
        "amount": {"type": "integer", "maximum": 10_000, "title": "Amount"},
        "due": {"type": ["string", "null"], "format": "date"},
        "express": {"type": "boolean", "default": True},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "notes": {"type": "string"},
    },
    "required": ["mail", "amount", "due", "express"],
    "$defs": {"mail": {"type": "string", "format": "email"}},
}


def test_only_the_wrong_field_is_asked_again(asked: Scene) -> None:
    given = {"mail": "a@b.c", "express": False, "notes": "a long text"}
    asked.person.will(accepts(**given, amount=99_999), accepts(amount=500))
    response = asked.ask("elicitation/input", prompt="Order", schema=SIX)
    assert response["data"] == {"value": {**given, "amount": 500, "due": None}}
    first, again = (shown.requested_schema for shown in asked.person.seen)
    assert list(first["properties"])[:4] == ["mail", "amount", "due", "express"]
    assert first["required"] == ["mail", "amount", "express"], "what may be null may be left empty"
    assert list(again["properties"]) == ["amount"]
    message = asked.person.seen[1].message
    assert "Amount must be at most 10000, not 99999" in message
    assert message.count("Amount") == 1


GUESTS: Json = {
    "type": "array",
    "title": "Guests",
    "items": PERSON,
    "minItems": 1,
    "maxItems": 3,
    "uniqueItems": True,
}
ADA, BO = {"name": "Ada", "age": 36}, {"name": "Bo", "age": 4}


def test_list_is_asked_entry_by_entry(asked: Scene) -> None:
    asked.person.will(
        accepts(**ADA, another=True), accepts(name="Bo", age=-4, another=False), accepts(age=4)
    )
    response = asked.ask("elicitation/input", prompt="Who comes?", schema=GUESTS)
    assert response["data"] == {"value": [ADA, BO]}
    assert response["metadata"]["route"] == "mcp-form (one entry after the other)"
    shown = [list(each.requested_schema["properties"]) for each in asked.person.seen]
    assert shown == [["name", "age", "another"], ["name", "age", "another"], ["age"]]
    messages = [each.message for each in asked.person.seen]
    assert "\nEntry 1 (at least 1, at most 3)." in messages[0]
    assert "Entry 2 (" in messages[2]
    assert "age must be at least 0, not -4" in messages[2]


@with_and_without_default
def test_host_that_never_answers_validly_has_not_answered(asked: Scene, case: str) -> None:
    method, params, _, _ = CASES[case]
    asked.person.will(types.ElicitResult(action="accept", content={"elsewhere": "x"}))
    response = asked.ask(method, **params)
    assert response["metadata"]["outcome"] == "invalid"
    assert len(asked.person.seen) == 3, "asked, and asked again twice"
    if case not in DEFAULTED:
        assert (response["success"], response["error"]["code"]) == (False, "ELICITATION_FAILED")


@pytest.mark.network
def test_secret_is_asked_on_the_page(asked: Scene) -> None:
    asked.person.will(types.ElicitResult(action="decline"))
    schema = {"type": "string"}
    response = asked.ask("elicitation/input", prompt="Enter your API key", schema=schema)
    assert (response["metadata"]["outcome"], response["metadata"]["route"]) == (
        "declined",
        "mcp-url (on a page of the bridge's own)",
    )
    (shown,) = asked.person.seen
    assert isinstance(shown, types.ElicitRequestURLParams)
    assert shown.url.startswith("http://127.0.0.1:")


def test_multiple_choice_is_answered_in_every_revision(asked: Scene) -> None:
    """An app may say `multiple`; an old host is asked yes or no for each option."""
    if asked.version == "2025-06-18":
        asked.person.will(accepts(selected_1=True, selected_2=False, selected_3=True))
    else:
        asked.person.will(accepts(selected=["v1", "v3"]))
    response = asked.ask("elicitation/select", prompt="Which?", options=OPTIONS[:3], multiple=True)
    assert response["data"] == {"selected": ["v1", "v3"]}
