"""`goose acp`: a cancelled turn is not reported."""

from __future__ import annotations

from .hosts import CANCEL, asking, calling, goose
from .stage import Stage


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
