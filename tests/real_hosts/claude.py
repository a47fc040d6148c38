"""Claude Code as an ACP agent (`claude-agent-acp`): relays what its servers ask to the editor, in
order, and lists tools again when they change.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

from support.visitor import type_on_the_page

from .acp import Editor, editor
from .stage import Json, Stage, accept, asking, calling, expect, gist


def environment(stage: Stage) -> dict[str, str]:
    """Claude as quiet as it can be, with our model."""
    quiet = dict.fromkeys(
        (
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_TELEMETRY",
            "DISABLE_AUTOUPDATER",
            "IS_SANDBOX",
        ),
        "1",
    )
    return stage.environment(
        ANTHROPIC_BASE_URL=stage.model.url,
        ANTHROPIC_API_KEY="none",
        ENABLE_TOOL_SEARCH="false",
        **quiet,
    )


def claude(stage: Stage, **bridge_env: str) -> AbstractContextManager[Editor]:
    """`claude-agent-acp` in an editor."""
    return editor(stage, [stage.program], environment(stage), **bridge_env)


KEY = "planted-key-91c2"
LEGACY = {"ABP_MCP_MODERN": "false"}


def a_form_is_relayed_to_the_editor(stage: Stage, **bridge_env: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    with claude(stage, **bridge_env) as agent:
        (shown,), response = agent.ask(
            "elicitation/input", accept(name="Ann", age=7), prompt="Who?", schema=schema
        )
    expect((shown["mode"], shown["message"]), ("form", "demo asks: Who?"))
    expect(list(shown["requestedSchema"]["properties"]), ["name", "age"])
    expect(gist(response), (True, {"value": {"name": "Ann", "age": 7}}, "person"))
    handshakes = [record.wire.received("initialize") for record in stage.records()]
    expect(any(handshakes), bool(bridge_env))


def a_form_of_the_legacy_era_is_relayed_to_the_editor(stage: Stage) -> None:
    a_form_is_relayed_to_the_editor(stage, **LEGACY)


def a_capability_that_an_app_adds_becomes_a_tool_in_the_same_turn(stage: Stage) -> None:
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
    expect(stage.results()[-1]["content"][0]["text"], "here I am")


def a_capability_that_an_app_adds_becomes_a_tool_in_the_legacy_era(stage: Stage) -> None:
    with claude(stage, **LEGACY) as agent:
        agent.play(calling("abp_call", capability="demo.grow"))
        stage.await_tool("demo_grown")
        agent.play(calling("demo_grown"))
    assert not stage.model.requests[0].offers("demo_grown")
    expect(stage.results()[-1]["content"][0]["text"], "here I am")


def a_cancelled_turn_ends_the_question_in_the_legacy_era(stage: Stage) -> None:
    """Claude takes the call back and, a moment later, answers the question with `cancel`: either
    may end it.
    """
    with claude(stage, **LEGACY) as agent:
        agent.begin(asking("elicitation/confirm", message="Book?"))
        agent.question()
        agent.cancel()
        expect(agent.finish(), "cancelled")
        agent.play(calling("abp_status"))
    status: Json = json.loads(stage.results()[-1]["content"][0]["text"])
    expect((status["questions"]["open"], status["apps"]["demo"]["running"]), ([], []))
    assert status["questions"]["ended"][0]["outcome"] in ("withdrawn", "cancelled")


def a_question_of_a_cancelled_turn_is_a_time_out(stage: Stage) -> None:
    """In the modern era a cancelled question leaves no trace at the server: its call is kept for as
    long as somebody could come back for it.
    """
    with claude(stage, ABP_PARK_TIMEOUT="1000") as agent:
        agent.begin(asking("elicitation/confirm", message="Book?"))
        agent.question()
        agent.cancel()
        expect(agent.finish(), "cancelled")
        agent.play(
            calling("abp_call", capability="demo.hold", timeout=3) + "\n" + calling("abp_status")
        )
    status: Json = json.loads(stage.results()[-1]["content"][0]["text"])
    expect((status["questions"]["open"], status["apps"]["demo"]["running"]), ([], []))
    expect(status["questions"]["ended"][0]["outcome"], "timed_out")


def a_secret_is_typed_where_the_editor_is_sent(stage: Stage, **bridge_env: str) -> None:
    """By url mode, which Claude passes on to the editor."""
    with claude(stage, **bridge_env) as agent:
        agent.begin(asking("elicitation/input", prompt="Enter your API key"))
        question = agent.question()
        expect(question.params["mode"], "url")
        question.answer({"action": "accept"})
        type_on_the_page(question.params["url"], KEY)
        expect(agent.finish(), "end_turn")
    response = json.loads(stage.results()[-1]["content"][0]["text"])
    expect(gist(response), (True, {"value": KEY}, "person"))
    expect(response["metadata"]["route"], "mcp-url (on a page of the bridge's own)")


def a_secret_is_typed_where_the_editor_is_sent_in_the_legacy_era(stage: Stage) -> None:
    a_secret_is_typed_where_the_editor_is_sent(stage, **LEGACY)


CHECKS = (
    a_form_is_relayed_to_the_editor,
    a_form_of_the_legacy_era_is_relayed_to_the_editor,
    a_capability_that_an_app_adds_becomes_a_tool_in_the_same_turn,
    a_capability_that_an_app_adds_becomes_a_tool_in_the_legacy_era,
    a_cancelled_turn_ends_the_question_in_the_legacy_era,
    a_question_of_a_cancelled_turn_is_a_time_out,
    a_secret_is_typed_where_the_editor_is_sent,
    a_secret_is_typed_where_the_editor_is_sent_in_the_legacy_era,
)
