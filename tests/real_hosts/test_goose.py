"""Goose as an ACP agent: an MCP client that tries 2026-07-28 first, and relays what its servers ask
to the editor.
"""

from __future__ import annotations

import pytest
from support.browser import type_on_the_page

from .hosts import CANCEL, DECLINE, LEGACY, accept, asking, calling, gist, goose
from .stage import Stage

KEY = "planted-key-91c2"
ERAS = pytest.mark.parametrize("era", [{}, LEGACY], ids=["modern", "legacy"])


def a_confirm_is_relayed_to_the_editor(stage: Stage, **bridge_env: str) -> None:
    with goose(stage, **bridge_env) as agent:
        (shown,), response = agent.ask(
            "elicitation/confirm", accept(confirmed=True), message="Book?"
        )
    assert (shown["mode"], shown["message"]) == ("form", "demo asks: Book?")
    # The editor is none that is known, and yes is where a form stands: nothing speaks for a person.
    assert gist(response) == (True, {"confirmed": True}, "unknown")


def test_a_question_is_a_result_and_its_answer_the_call_again(stage: Stage) -> None:
    a_confirm_is_relayed_to_the_editor(stage)
    wire = stage.record().wire
    assert wire.lines[0][1]["method"] == "server/discover"
    assert (wire.received("initialize"), wire.sent("elicitation/create")) == ([], [])
    first, second = wire.received("tools/call")
    assert "requestState" not in first["params"]
    assert list(second["params"]["inputResponses"]) == ["q1"]


def test_without_the_modern_era_a_question_is_a_request(stage: Stage) -> None:
    a_confirm_is_relayed_to_the_editor(stage, **LEGACY)
    wire = stage.record().wire
    assert wire.lines[0][1]["method"] == "server/discover"
    assert wire.lines[1][1]["error"]["code"] == -32601
    assert (len(wire.received("initialize")), len(wire.sent("elicitation/create"))) == (1, 1)


@ERAS
def test_a_person_who_declines_is_not_a_policy(stage: Stage, era: dict[str, str]) -> None:
    with goose(stage, **era) as agent:
        _, response = agent.ask("elicitation/confirm", DECLINE, message="Book?")
    assert gist(response) == (False, None, "person")


def test_questions_asked_together_are_answered_together(stage: Stage) -> None:
    requests = [
        {"method": "elicitation/confirm", "params": {"message": f"{number}?"}}
        for number in ("One", "Two")
    ]
    with goose(stage) as agent:
        agent.play(
            calling("abp_call", capability="demo.ask_all", params={"requests": requests}),
            accept(confirmed=True),
            accept(confirmed=False),
        )
    answers = stage.last_json()
    assert sorted(answer["data"]["confirmed"] for answer in answers) == [False, True]


def test_a_question_of_a_cancelled_turn_is_a_time_out(stage: Stage) -> None:
    """Goose says nothing of a turn that was cancelled: the call is kept for as long as somebody
    could come back for it, and no longer.
    """
    with goose(stage, ABP_PARK_TIMEOUT="1000") as agent:
        agent.begin_turn(asking("elicitation/confirm", message="Book?"))
        question = agent.question()
        agent.cancel()
        question.answer(CANCEL)
        assert agent.finish() == "cancelled"
        agent.play(
            calling("abp_call", capability="demo.hold", timeout=3) + "\n" + calling("abp_status")
        )
    status = stage.last_json()
    assert status["questions"]["open"] == []
    assert status["questions"]["ended"][0]["outcome"] in ("timed_out", "cancelled")


@ERAS
def test_a_secret_is_typed_on_the_page_that_a_form_points_to(
    stage: Stage, era: dict[str, str]
) -> None:
    """Goose opens no addresses: it relays the form without fields to the editor."""
    with goose(stage, ABP_PAGE="link", **era) as agent:
        agent.begin_turn(asking("elicitation/input", prompt="Enter your API key"))
        question = agent.question()
        type_on_the_page(question.params["message"], KEY)
        question.answer(accept())
        assert agent.finish() == "end_turn"
    response = stage.last_json()
    assert gist(response) == (True, {"value": KEY}, "person")
