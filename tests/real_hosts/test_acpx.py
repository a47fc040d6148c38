"""acpx, a client of ACP agents: its command line, which shows no forms and answers permissions by a
policy, and its library, with and without forms.

It answers a permission by kind, so without forms every step is a yes or no. Our process is its
agent, or stands before Goose or Claude.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from .hosts import (
    CANCEL,
    COLOUR,
    DECLINE,
    DENIED,
    PACE,
    YES,
    Question,
    Runtime,
    accept,
    acpx_exec,
    before_claude,
    before_goose,
    calling,
    gist,
)
from .stage import BRIDGE_ENV, Stage

Json = Any
Person = Callable[[Question], None]

NO, DISMISS = {"outcome": "reject_once"}, {"outcome": "cancel"}
# Seconds for one more like the last: of a walk most steps count, and three walks may not have that
# in common.
GLANCING = (0.45 + PACE.expovariate(20) for _ in itertools.count())


def acpx_page(stage: Stage, *, forms: bool, chat: str = "true") -> AbstractContextManager[Runtime]:
    """A session with the bridge, whose app is a page in Chromium."""
    agent = stage.bridge("demo:page", "acp")
    env = stage.environment(**BRIDGE_ENV, ABP_ACP_CHAT=chat)
    return Runtime(stage, agent, env, forms=forms)


def first_json(said: str) -> Json:
    """What an app's call returned; the bridge's own words on it may follow."""
    value, _ = json.JSONDecoder().raw_decode(said)
    return value


# --- what is asked --------------------------------------------------------------------------------


def confirm(message: str, **more: Json) -> Json:
    return {"method": "elicitation/confirm", "params": {"message": message, **more}}


def select(count: int, **more: Json) -> Json:
    options = [
        {"value": f"v{number}", "label": f"Label {number}"} for number in range(1, count + 1)
    ]
    return {
        "method": "elicitation/select",
        "params": {"prompt": f"Which of {count}?", "options": options, **more},
    }


def preference(prompt: str) -> Json:
    return {
        "method": "elicitation/preference",
        "params": {"prompt": prompt, "schema": {"enum": ["window", "aisle"]}, "default": "window"},
    }


def words(request: Json) -> str:
    """What the person reads."""
    asked: str = request["params"].get("prompt") or request["params"]["message"]
    return asked


@dataclass(frozen=True)
class Case:
    """A question; what a person fills in; how the steps end to which a person says yes; what the
    app then gets.
    """

    request: Json
    content: Json
    steps: Sequence[str]
    data: Json


def last(count: int) -> Case:
    """The last of `count` options."""
    return Case(
        select(count), {"selected": f"v{count}"}, [f"— Label {count}?"], {"selected": f"v{count}"}
    )


TRIP = {
    "type": "object",
    "properties": {
        "train": {"type": "boolean"},
        "class": {"enum": [1, 2]},
        "bags": {"type": "integer", "minimum": 0, "maximum": 2},
    },
    "required": ["train", "class"],
}
CASES = (
    Case(confirm("Book?"), {"confirmed": True}, ["Book?"], {"confirmed": True}),
    Case(
        confirm("Delete all files?", destructive=True),
        {"confirmed": True},
        ["Delete all files? This cannot be undone, says who asks."],
        {"confirmed": True},
    ),
    *(last(count) for count in (3, 4, 5, 57)),
    Case(
        select(6, multiple=True),
        {"selected": ["v2", "v4"]},
        ["— ☐ Label 2?", "— ☐ Label 4?", "— Done (2 chosen)?"],
        {"selected": ["v2", "v4"]},
    ),
    Case(
        {"method": "elicitation/input", "params": {"prompt": "Which trip?", "schema": TRIP}},
        {"train": True, "class": "2"},
        ["— Yes?", "— 2?", "— Leave empty?", "— Send?"],
        {"value": {"train": True, "class": 2}},
    ),
    Case(preference("Which seat?"), {"value": "aisle"}, ["— aisle?"], {"value": "aisle"}),
)
NAME = Case(
    {"method": "elicitation/input", "params": {"prompt": "Name?", "schema": {"type": "string"}}},
    {"value": "Ann"},
    [],
    {"value": "Ann"},
)


def all_at_once(*requests: Json) -> str:
    """What is typed: the demo app asks all `requests` at once, and returns the ABP responses in
    order.
    """
    return f"/demo_ask_all {json.dumps({'requests': requests})}"


def by_the_model(request: Json) -> str:
    """A line of a script: the model has the demo app ask one thing."""
    return calling("abp_call", capability="demo.ask", params={"request": request})


def answered(stage: Stage, policy: str, *requests: Json, code: int = 0) -> list[Json]:
    """The ABP responses that the app got, when a policy answers."""
    responses: list[Json] = first_json(acpx_exec(stage, policy, all_at_once(*requests), code=code))
    return responses


def filling(answers: Mapping[str, Json]) -> Person:
    """Answers each form by the first line of what it asks."""

    def person(question: Question) -> None:
        question.answer(answers[question.params["message"].partition("\n")[0]])

    return person


def stepping(*answers: tuple[str, str, Json]) -> Person:
    """Reads the titles of permissions: at the first that begins and ends as one of `answers` says,
    that is given, once; else a no at a glance.
    """
    left = list(answers)

    def person(question: Question) -> None:
        title = question.params["toolCall"]["title"]
        for each in left:
            if title.startswith(each[0]) and title.endswith(each[1]):
                left.remove(each)
                return question.answer(each[2])
        return question.answer(NO, GLANCING)

    return person


def heard(stage: Stage) -> list[str]:
    """What the model was told by its tools."""
    return [text for who, text in stage.model.requests[-1].said if who == "tool"]


# --- checks ---------------------------------------------------------------------------------------


def test_what_a_policy_approves_is_an_answer_that_no_person_gave(stage: Stage) -> None:
    responses = answered(stage, "--approve-all", confirm("Book?"), select(5), select(57))
    data = {"confirmed": True}, {"selected": "v1"}, {"selected": "v1"}
    assert [gist(response) for response in responses] == [
        (True, each, "host-policy") for each in data
    ]


def test_what_a_policy_denies_is_not_chosen(stage: Stage) -> None:
    """No to each option in turn, and round again, until the walk ends by itself."""
    asked, *selects = answered(
        stage, "--deny-all", confirm("Book?"), select(5), select(57), code=DENIED
    )
    assert gist(asked) == (True, {"confirmed": False}, "host-policy")
    assert [gist(response) for response in selects] == [(False, None, "host-policy")] * 2
    assert [response["metadata"]["outcome"] for response in selects] == ["cancelled"] * 2


def test_a_policy_cannot_confirm_what_is_destructive(stage: Stage) -> None:
    (response,) = answered(stage, "--approve-all", confirm("Delete all files?", destructive=True))
    assert gist(response) == (False, None, "host-policy")
    assert "no person was asked. So it is not accepted" in response["error"]["message"]


def test_forms_show_whatever_a_page_asks(stage: Stage) -> None:
    cases = [*CASES, NAME]
    with acpx_page(stage, forms=True) as acpx:
        person = filling(
            {f"demo page asks: {words(case.request)}": accept(**case.content) for case in cases}
        )
        shown = acpx.talk(all_at_once(*(case.request for case in cases)), person)
    assert len(shown) == len(cases)
    (longest,) = (
        form["requestedSchema"]["properties"]["selected"]
        for form in shown
        if "of 57" in form["message"]
    )
    assert [option["title"] for option in longest["oneOf"]] == [
        f"Label {number}" for number in range(1, 58)
    ]
    assert [gist(response) for response in json.loads(acpx.said)] == [
        (True, case.data, "person") for case in cases
    ]


def test_a_form_that_is_declined_or_dismissed_is_no_answer(stage: Stage) -> None:
    asked = {"Book?": DECLINE, "Sure?": CANCEL}, {"Which seat?": DECLINE, "Which meal?": CANCEL}
    with acpx_page(stage, forms=True) as acpx:
        person = filling(
            {
                f"demo page asks: {message}": answer
                for each in asked
                for message, answer in each.items()
            }
        )
        acpx.talk(all_at_once(*map(confirm, asked[0]), *map(preference, asked[1])), person)
    responses = json.loads(acpx.said)
    assert [response["metadata"]["outcome"] for response in responses] == [
        "declined",
        "cancelled",
    ] * 2
    assert [gist(response) for response in responses] == [(False, None, "person")] * 2 + [
        (True, {"value": "window"}, "default")
    ] * 2


def test_a_cancelled_turn_takes_its_form_down(stage: Stage) -> None:
    with acpx_page(stage, forms=True) as acpx:
        ends_with_its_turn(acpx)


def test_without_forms_every_option_is_within_reach_of_yes_and_no(stage: Stage) -> None:
    with acpx_page(stage, forms=False, chat="false") as acpx:
        person = stepping(
            *(
                (f"demo page asks: {words(case.request)}", step, YES)
                for case in CASES
                for step in case.steps
            )
        )
        shown = acpx.talk(all_at_once(*(case.request for case in (*CASES, NAME))), person)
    assert all(len(permission["options"]) == 2 for permission in shown)
    *responses, name = first_json(acpx.said)
    assert [gist(response) for response in responses] == [
        (True, case.data, "person") for case in CASES
    ]
    assert (name["error"]["code"], "free text" in name["error"]["message"]) == (
        "NOT_SUPPORTED",
        True,
    )


def test_without_forms_a_question_is_denied_skipped_or_dismissed(stage: Stage) -> None:
    asks = "demo page asks:"
    person = stepping(
        (f"{asks} Book?", "", NO),
        (f"{asks} Sure?", "", DISMISS),
        (f"{asks} Which of 5?", "— Skip?", YES),
        (f"{asks} Which of 57?", "— Label 9?", DISMISS),
    )
    with acpx_page(stage, forms=False) as acpx:
        acpx.talk(all_at_once(confirm("Book?"), confirm("Sure?"), select(5), select(57)), person)
    responses = json.loads(acpx.said)
    assert [response["metadata"]["outcome"] for response in responses] == [
        "accepted",
        "cancelled",
        "declined",
        "cancelled",
    ]
    assert [gist(response) for response in responses] == [
        (True, {"confirmed": False}, "person")
    ] + [(False, None, "person")] * 3


def test_a_cancelled_turn_takes_its_buttons_down(stage: Stage) -> None:
    with acpx_page(stage, forms=False) as acpx:
        ends_with_its_turn(acpx)


def ends_with_its_turn(acpx: Runtime) -> None:
    """A question that is open when the person cancels the turn is gone from acpx and from the
    bridge, and the page's call with it.
    """
    acpx.begin_turn(all_at_once(confirm("Book?")))
    acpx.question()
    acpx.cancel()
    assert acpx.finish() == "cancelled"
    acpx.notified("withdrawn")
    acpx.talk("/status", filling({}))
    status = json.loads(acpx.said.removeprefix("```json").removesuffix("```"))
    assert (status["questions"]["open"], [app["running"] for app in status["apps"].values()]) == (
        [],
        [[]],
    )
    (outcome,) = (each["outcome"] for each in status["questions"]["ended"])
    assert outcome in ("withdrawn", "cancelled"), outcome


def test_gooses_model_hears_what_acpx_answered(stage: Stage) -> None:
    agent, env = before_goose(stage)
    acpx_exec(stage, "--approve-all", by_the_model(select(5)), agent, env)
    (permission,) = stage.record("proxy").acp.sent("session/request_permission")
    assert permission["toolCall"]["title"] == "demo asks: Which of 5? — Label 1?"
    assert gist(json.loads(heard(stage)[-1])) == (True, {"selected": "v1"}, "host-policy")


def test_a_pages_question_is_walked_while_goose_waits(stage: Stage) -> None:
    agent, env = before_goose(stage, "demo:page")
    with Runtime(stage, agent, env, forms=False) as acpx:
        acpx.talk(
            by_the_model(select(57)), stepping(("demo page asks: Which of 57?", "— Label 57?", YES))
        )
    assert gist(json.loads(heard(stage)[-1])) == (True, {"selected": "v57"}, "person")


def test_claudes_own_question_and_the_apps_are_forms(stage: Stage) -> None:
    agent, env = before_claude(stage)
    script = f"{calling('AskUserQuestion', questions=[COLOUR])}\n{by_the_model(confirm('Book?'))}"
    person = filling(
        {"Which colour?": accept(question_0="Blue"), "demo asks: Book?": accept(confirmed=True)}
    )
    with Runtime(stage, agent, env, forms=True) as acpx:
        assert len(acpx.talk(script, person)) == 2
    (allowed,) = stage.record("proxy").acp.sent("session/request_permission")
    assert allowed["toolCall"]["name"] == "mcp__abp__abp_call"
    own, apps = heard(stage)
    assert '"Which colour?"="Blue"' in own, own
    assert gist(json.loads(apps)) == (True, {"confirmed": True}, "person")


def test_claudes_own_question_is_walked_where_there_are_no_forms(stage: Stage) -> None:
    agent, env = before_claude(stage)
    acpx_exec(
        stage,
        "--approve-all",
        f"{calling('AskUserQuestion', questions=[COLOUR])}\n{by_the_model(confirm('Book?'))}",
        agent,
        env,
    )
    wire = stage.record("proxy").acp
    assert wire.sent("elicitation/create") == []
    walked, *others = [
        permission["toolCall"]["title"] for permission in wire.sent("session/request_permission")
    ]
    assert walked.startswith("Claude Agent asks: Which colour?"), walked
    assert walked.endswith("— Red? (Here there are only buttons. What stays empty: Other)"), walked
    assert others == ["mcp__abp__abp_call", "demo asks: Book?"]
    own, apps = heard(stage)
    assert "Red" not in own, f"nobody chose it, and the agent was told so: {own}"
    assert gist(json.loads(apps)) == (True, {"confirmed": True}, "host-policy")
