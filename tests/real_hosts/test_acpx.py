"""acpx, a client of ACP agents: its command line, which answers permissions by a policy, and its
library, with and without forms. Without forms every step is a yes or no.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from .hosts import (
    CANCEL,
    DECLINE,
    DENIED,
    PACE,
    YES,
    Question,
    Runtime,
    accept,
    acpx_exec,
    before_goose,
    calling,
    first_json,
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
    agent = stage.bridge("demo:page", "acp")
    env = stage.environment(**BRIDGE_ENV, ABP_ACP_CHAT=chat)
    return Runtime(stage, agent, env, forms=forms)


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


@dataclass(frozen=True)
class Case:
    """A question, the content of a form, the steps that the user accepts, and what the app gets."""

    request: Json
    content: Json
    steps: Sequence[str]
    data: Json

    @property
    def words(self) -> str:
        params = self.request["params"]
        return str(params.get("prompt") or params["message"])


def last(count: int) -> Case:
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
    """The command that has the demo app ask all `requests` at once."""
    return f"/demo_ask_all {json.dumps({'requests': requests})}"


def answered(stage: Stage, policy: str, *requests: Json, code: int = 0) -> list[Json]:
    responses: list[Json] = first_json(acpx_exec(stage, policy, all_at_once(*requests), code=code))
    return responses


def filling(answers: Mapping[str, Json]) -> Person:
    def person(question: Question) -> None:
        question.answer(answers[question.params["message"].partition("\n")[0]])

    return person


def stepping(*answers: tuple[str, str, Json]) -> Person:
    """Give each answer once, at the first permission whose title begins and ends so; else a no."""
    left = list(answers)

    def person(question: Question) -> None:
        title = question.params["toolCall"]["title"]
        for each in left:
            if title.startswith(each[0]) and title.endswith(each[1]):
                left.remove(each)
                return question.answer(each[2])
        return question.answer(NO, GLANCING)

    return person


def outcomes(responses: list[Json]) -> list[str]:
    return [response["metadata"]["outcome"] for response in responses]


# --- checks ---------------------------------------------------------------------------------------


def test_policy_approves_and_no_person_answered(stage: Stage) -> None:
    responses = answered(stage, "--approve-all", confirm("Book?"), select(5), select(57))
    data = {"confirmed": True}, {"selected": "v1"}, {"selected": "v1"}
    assert list(map(gist, responses)) == [(True, each, "host-policy") for each in data]


def test_policy_denies_and_nothing_is_chosen(stage: Stage) -> None:
    asked, *selects = answered(
        stage, "--deny-all", confirm("Book?"), select(5), select(57), code=DENIED
    )
    assert gist(asked) == (True, {"confirmed": False}, "host-policy")
    assert list(map(gist, selects)) == [(False, None, "host-policy")] * 2
    assert outcomes(selects) == ["cancelled"] * 2


def test_policy_cannot_confirm_what_is_destructive(stage: Stage) -> None:
    (response,) = answered(stage, "--approve-all", confirm("Delete all files?", destructive=True))
    assert gist(response) == (False, None, "host-policy")
    assert "no person was asked. So it is not accepted" in response["error"]["message"]


def test_forms_show_each_question_of_a_page(stage: Stage) -> None:
    cases = [*CASES, NAME]
    with acpx_page(stage, forms=True) as acpx:
        person = filling(
            {f"demo page asks: {case.words}": accept(**case.content) for case in cases}
        )
        shown = acpx.talk(all_at_once(*(case.request for case in cases)), person)
    assert len(shown) == len(cases)
    (longest,) = (form["requestedSchema"] for form in shown if "of 57" in form["message"])
    options = longest["properties"]["selected"]["oneOf"]
    assert [each["title"] for each in options] == [f"Label {number}" for number in range(1, 58)]
    responses = json.loads(acpx.said)
    assert list(map(gist, responses)) == [(True, case.data, "person") for case in cases]


def test_form_declined_or_dismissed_is_no_answer(stage: Stage) -> None:
    asked = {"Book?": DECLINE, "Sure?": CANCEL, "Which seat?": DECLINE}
    person = filling({f"demo page asks: {words}": answer for words, answer in asked.items()})
    requests = confirm("Book?"), confirm("Sure?"), preference("Which seat?")
    with acpx_page(stage, forms=True) as acpx:
        acpx.talk(all_at_once(*requests), person)
    responses = json.loads(acpx.said)
    assert outcomes(responses) == ["declined", "cancelled", "declined"]
    default = True, {"value": "window"}, "default"
    assert list(map(gist, responses)) == [*[(False, None, "person")] * 2, default]


@pytest.mark.parametrize("forms", [True, False])
def test_cancelled_turn_withdraws_its_question(forms: bool, stage: Stage) -> None:
    with acpx_page(stage, forms=forms) as acpx:
        acpx.begin_turn(all_at_once(confirm("Book?")))
        acpx.question()
        acpx.cancel()
        assert acpx.finish() == "cancelled"
        acpx.notified("withdrawn")
        acpx.talk("/status", filling({}))
    status = json.loads(acpx.said.removeprefix("```json").removesuffix("```"))
    running = [app["running"] for app in status["apps"].values()]
    assert (status["questions"]["open"], running) == ([], [[]])
    (outcome,) = (each["outcome"] for each in status["questions"]["ended"])
    assert outcome in ("withdrawn", "cancelled"), outcome


def test_buttons_reach_every_option_by_yes_and_no(stage: Stage) -> None:
    with acpx_page(stage, forms=False, chat="false") as acpx:
        person = stepping(
            *((f"demo page asks: {case.words}", step, YES) for case in CASES for step in case.steps)
        )
        shown = acpx.talk(all_at_once(*(case.request for case in (*CASES, NAME))), person)
    assert all(len(permission["options"]) == 2 for permission in shown)
    *responses, name = first_json(acpx.said)
    assert list(map(gist, responses)) == [(True, case.data, "person") for case in CASES]
    assert name["error"]["code"] == "NOT_SUPPORTED"
    assert "free text" in name["error"]["message"]


def test_buttons_deny_skip_or_dismiss_a_question(stage: Stage) -> None:
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
    assert outcomes(responses) == ["accepted", "cancelled", "declined", "cancelled"]
    no = True, {"confirmed": False}, "person"
    assert list(map(gist, responses)) == [no, *[(False, None, "person")] * 3]


def test_goose_model_reads_what_acpx_answered(stage: Stage) -> None:
    agent, env = before_goose(stage)
    script = calling("abp_call", capability="demo.ask", params={"request": select(5)})
    acpx_exec(stage, "--approve-all", script, agent, env)
    (permission,) = stage.record("proxy").acp.sent("session/request_permission")
    assert permission["toolCall"]["title"] == "demo asks: Which of 5? — Label 1?"
    assert gist(json.loads(stage.model.requests[-1].heard[-1])) == (
        True,
        {"selected": "v1"},
        "host-policy",
    )
