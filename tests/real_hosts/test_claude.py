"""Claude Code as an ACP agent (`claude-agent-acp`): relays what its servers ask to the editor, in
order, and lists tools again when they change.
"""

from __future__ import annotations

import pytest
from real_servers.servers import MongoDB
from support.browser import type_on_the_page

from .hosts import DROP, LEGACY, MONGODB, accept, asking, calling, claude, gist
from .stage import Stage

KEY = "planted-key-91c2"
ERAS = pytest.mark.parametrize("era", [{}, LEGACY], ids=["modern", "legacy"])


@ERAS
def test_a_form_is_relayed_to_the_editor(stage: Stage, era: dict[str, str]) -> None:
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


def test_a_capability_that_an_app_adds_becomes_a_tool_in_the_same_turn(stage: Stage) -> None:
    """Claude listens, and lists tools again at once, then not for two seconds: so the model is kept
    waiting for three.
    """
    with claude(stage) as agent:
        grow, wait, grown = (
            calling("abp_call", capability="demo.grow"),
            calling("abp_call", capability="demo.hold", timeout=3),
            calling("demo_grown"),
        )
        agent.play("\n".join([grow, wait, grown]))
    assert not stage.model.requests[0].offers("demo_grown")
    assert stage.results()[-1]["content"][0]["text"] == "here I am"


def test_a_capability_that_an_app_adds_becomes_a_tool_in_the_legacy_era(stage: Stage) -> None:
    with claude(stage, **LEGACY) as agent:
        agent.play(calling("abp_call", capability="demo.grow"))
        stage.await_tool("demo_grown")
        agent.play(calling("demo_grown"))
    assert not stage.model.requests[0].offers("demo_grown")
    assert stage.results()[-1]["content"][0]["text"] == "here I am"


def test_a_cancelled_turn_ends_the_question_in_the_legacy_era(stage: Stage) -> None:
    """Claude takes the call back and, a moment later, answers the question with `cancel`: either
    may end it.
    """
    with claude(stage, **LEGACY) as agent:
        agent.begin_turn(asking("elicitation/confirm", message="Book?"))
        agent.question()
        agent.cancel()
        assert agent.finish() == "cancelled"
        agent.play(calling("abp_status"))
    status = stage.last_json()
    assert (status["questions"]["open"], status["apps"]["demo"]["running"]) == ([], [])
    assert status["questions"]["ended"][0]["outcome"] in ("withdrawn", "cancelled")


def test_a_question_of_a_cancelled_turn_is_a_time_out(stage: Stage) -> None:
    """In the modern era a cancelled question leaves no trace at the server: its call is kept for as
    long as somebody could come back for it.
    """
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


@ERAS
def test_a_secret_is_typed_where_the_editor_is_sent(stage: Stage, era: dict[str, str]) -> None:
    """By url mode, which Claude passes on to the editor."""
    with claude(stage, **era) as agent:
        agent.begin_turn(asking("elicitation/input", prompt="Enter your API key"))
        question = agent.question()
        assert question.params["mode"] == "url"
        question.answer({"action": "accept"})
        type_on_the_page(question.params["url"], KEY)
        assert agent.finish() == "end_turn"
    response = stage.last_json()
    assert gist(response) == (True, {"value": KEY}, "person")
    assert response["metadata"]["route"] == "mcp-url (on a page of the bridge's own)"


@pytest.mark.parametrize("pressed", MONGODB)
def test_mongodbs_own_question_is_answered(stage: Stage, mongodb: MongoDB, pressed: str) -> None:
    answer, dropped = MONGODB[pressed]
    stage.stand_before(mongodb.command)
    with claude(stage) as agent:
        (shown,) = agent.play(calling("drop-database", **DROP), answer)
    assert "You are about to drop the **shop** database" in shown["message"]
    assert mongodb.commands().count("dropDatabase") == dropped
