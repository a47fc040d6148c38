"""`goose acp`: an MCP client that tries 2026-07-28 first and relays questions to the editor."""

from __future__ import annotations

from .hosts import CANCEL, LEGACY, accept, asking, calling, gist, goose
from .stage import Stage


def confirm_in_the_editor(stage: Stage, **bridge_env: str) -> None:
    with goose(stage, **bridge_env) as agent:
        (shown,), response = agent.ask(
            "elicitation/confirm", accept(confirmed=True), message="Book?"
        )
    assert (shown["mode"], shown["message"]) == ("form", "demo asks: Book?")
    # The editor is unknown, and yes is the form's default: nothing shows that a person answered.
    assert gist(response) == (True, {"confirmed": True}, "unknown")


def test_question_is_a_result_and_its_answer_is_another_call(stage: Stage) -> None:
    confirm_in_the_editor(stage)
    wire = stage.record().wire
    assert wire.lines[0][1]["method"] == "server/discover"
    assert (wire.received("initialize"), wire.sent("elicitation/create")) == ([], [])
    first, second = wire.received("tools/call")
    assert "requestState" not in first["params"]
    assert list(second["params"]["inputResponses"]) == ["q1"]


def test_question_of_legacy_mcp_is_a_request(stage: Stage) -> None:
    confirm_in_the_editor(stage, **LEGACY)
    wire = stage.record().wire
    assert wire.lines[0][1]["method"] == "server/discover"
    assert wire.lines[1][1]["error"]["code"] == -32601
    assert (len(wire.received("initialize")), len(wire.sent("elicitation/create"))) == (1, 1)


def test_question_of_a_cancelled_turn_times_out(stage: Stage) -> None:
    """Goose does not report a cancelled turn: the call is kept until its time is over."""
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
