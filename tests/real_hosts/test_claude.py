"""`claude-agent-acp`: relays questions to the editor, and lists tools again when they change."""

from __future__ import annotations

from typing import Any

import pytest

from .hosts import LEGACY, accept, asking, calling, claude, gist
from .stage import Stage

ERAS = pytest.mark.parametrize("era", [{}, LEGACY], ids=["modern", "legacy"])


@ERAS
def test_form_is_relayed_to_the_editor(stage: Stage, era: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    with claude(stage, **era) as agent:
        (shown,), response = agent.ask(
            "elicitation/input", accept(name="Ann", age=7), prompt="Who?", schema=schema
        )
    assert (shown["mode"], shown["message"]) == ("form", "demo asks: Who?")
    assert list(shown["requestedSchema"]["properties"]) == ["name", "age"]
    assert gist(response) == (True, {"value": {"name": "Ann", "age": 7}}, "person")
    handshakes = [record.wire.received("initialize") for record in stage.records()]
    assert any(handshakes) == bool(era)


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


def test_cancelled_turn_ends_a_legacy_question(stage: Stage) -> None:
    """Claude cancels the call and, a moment later, answers the question with `cancel`."""
    with claude(stage, **LEGACY) as agent:
        agent.begin_turn(asking("elicitation/confirm", message="Book?"))
        agent.question()
        agent.cancel()
        assert agent.finish() == "cancelled"
        agent.play(calling("abp_status"))
    status = stage.last_json()
    assert (status["questions"]["open"], status["apps"]["demo"]["running"]) == ([], [])
    assert status["questions"]["ended"][0]["outcome"] in ("withdrawn", "cancelled")


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
