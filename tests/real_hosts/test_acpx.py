"""acpx without forms: a user of its library sees buttons.

Without forms every step is a yes or no.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from .hosts import (
    PACE,
    YES,
    Question,
    Runtime,
    first_json,
    gist,
)
from .stage import BRIDGE_ENV, Stage

Json = Any

NO, DISMISS = {"outcome": "reject_once"}, {"outcome": "cancel"}
# Seconds for another button: a policy's times would be the same.
GLANCING = (0.45 + PACE.expovariate(20) for _ in itertools.count())


def acpx_page(stage: Stage, *, forms: bool, chat: str = "true") -> AbstractContextManager[Runtime]:
    agent = stage.bridge("demo:page", "acp")
    env = stage.environment(**BRIDGE_ENV, ABP_ACP_CHAT=chat)
    return Runtime(stage, agent, env, forms=forms)


def request(method: str, **params: Json) -> Json:
    return {"method": f"elicitation/{method}", "params": params}


def select(count: int, **more: Json) -> Json:
    options = [{"value": f"v{at}", "label": f"Label {at}"} for at in range(1, count + 1)]
    return request("select", prompt=f"Which of {count}?", options=options, **more)


TRIP = {
    "type": "object",
    "properties": {
        "train": {"type": "boolean"},
        "class": {"enum": [1, 2]},
        "bags": {"type": "integer", "minimum": 0, "maximum": 2},
    },
    "required": ["train", "class"],
}
BOOK, SURE = request("confirm", message="Book?"), request("confirm", message="Sure?")
DELETE = request("confirm", message="Delete all files?", destructive=True)
SEAT = request(
    "preference", prompt="Which seat?", schema={"enum": ["window", "aisle"]}, default="window"
)
# a question, the ends of the steps that the user accepts, and what the app gets
CASES: list[tuple[Json, list[str], Json]] = [
    (BOOK, ["Book?"], {"confirmed": True}),
    (DELETE, ["This cannot be undone, says who asks."], {"confirmed": True}),
    *((select(at), [f"— Label {at}?"], {"selected": f"v{at}"}) for at in (3, 4, 5, 57)),
    (
        select(6, multiple=True),
        ["— ☐ Label 2?", "— ☐ Label 4?", "— Done (2 chosen)?"],
        {"selected": ["v2", "v4"]},
    ),
    (
        request("input", prompt="Which trip?", schema=TRIP),
        ["— Yes?", "— 2?", "— Leave empty?", "— Send?"],
        {"value": {"train": True, "class": 2}},
    ),
    (SEAT, ["— aisle?"], {"value": "aisle"}),
]
NAME = request("input", prompt="Name?", schema={"type": "string"})


def words(asked: Json) -> str:
    return f"demo page asks: {asked['params'].get('prompt') or asked['params']['message']}"


def all_at_once(*requests: Json) -> str:
    """The command that has the demo app ask all `requests` at once."""
    return f"/demo_ask_all {json.dumps({'requests': requests})}"


def stepping(*answers: tuple[str, str, Json]) -> Callable[[Question], None]:
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


@pytest.mark.parametrize("forms", [True, False])
def test_cancelled_turn_withdraws_its_question(forms: bool, stage: Stage) -> None:
    with acpx_page(stage, forms=forms) as acpx:
        acpx.begin_turn(all_at_once(BOOK))
        acpx.question()
        acpx.cancel()
        assert acpx.finish() == "cancelled"
        acpx.notified("withdrawn")
        acpx.talk("/status", stepping())
    status = json.loads(acpx.said.removeprefix("```json").removesuffix("```"))
    running = [app["running"] for app in status["apps"].values()]
    assert (status["questions"]["open"], running) == ([], [[]])
    (outcome,) = (each["outcome"] for each in status["questions"]["ended"])
    assert outcome in ("withdrawn", "cancelled"), outcome


def test_buttons_reach_every_option_by_yes_and_no(stage: Stage) -> None:
    with acpx_page(stage, forms=False, chat="false") as acpx:
        person = stepping(
            *((words(asked), step, YES) for asked, steps, _ in CASES for step in steps)
        )
        shown = acpx.talk(all_at_once(*(asked for asked, *_ in CASES), NAME), person)
    assert all(len(permission["options"]) == 2 for permission in shown)
    *responses, name = first_json(acpx.said)
    assert list(map(gist, responses)) == [(True, data, "person") for *_, data in CASES]
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
        acpx.talk(all_at_once(BOOK, SURE, select(5), select(57)), person)
    responses = json.loads(acpx.said)
    assert outcomes(responses) == ["accepted", "cancelled", "declined", "cancelled"]
    no = True, {"confirmed": False}, "person"
    assert list(map(gist, responses)) == [no, *[(False, None, "person")] * 3]
