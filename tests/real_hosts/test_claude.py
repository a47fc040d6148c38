"""`claude-agent-acp`: lists tools again when they change, and cancels without saying so."""

from __future__ import annotations

from .hosts import asking, calling, claude
from .stage import Stage


def test_added_capability_becomes_a_tool_in_the_same_turn(stage: Stage) -> None:
    """Claude lists tools again at once, then not for two seconds: so the model waits for three."""
    with claude(stage) as agent:
        grow, wait, grown = (
            calling("abp_call", capability="demo.grow"),
            calling("abp_call", capability="demo.hold", timeout=3),
            calling("demo_grown"),
        )
        agent.play("\n".join([grow, wait, grown]))
    assert not stage.model.requests[0].offers("demo_grown")
    assert stage.results()[-1]["content"][0]["text"] == "here I am"


def test_question_of_a_cancelled_turn_times_out(stage: Stage) -> None:
    """A modern host does not report it: the call is kept until its time is over."""
    with claude(stage, ABP_PARK_TIMEOUT="1000") as agent:
        agent.begin_turn(asking("elicitation/confirm", message="Book?"))
        agent.question()
        agent.cancel()
        assert agent.finish() == "cancelled"
        agent.play(
            calling("abp_call", capability="demo.hold", timeout=3) + "\n" + calling("abp_status")
        )
    status = stage.last_json()
    assert (status["questions"]["open"], status["apps"]["demo"]["running"]) == ([], [])
    assert status["questions"]["ended"][0]["outcome"] == "timed_out"
