"""Claude Code as an ACP agent (`claude-agent-acp`): relays what its servers ask to the editor, in order, and lists tools again when they change."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

from .acp import Editor, editor
from .stage import Json, Stage, accept, asking, calling, expect, gist


def environment(stage: Stage) -> dict[str, str]:
    """Claude as quiet as it can be, with our model."""
    quiet = dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "IS_SANDBOX"), "1")
    return stage.environment(ANTHROPIC_BASE_URL=stage.model.url, ANTHROPIC_API_KEY="none", ENABLE_TOOL_SEARCH="false", **quiet)


def claude(stage: Stage) -> AbstractContextManager[Editor]:
    """`claude-agent-acp` in an editor."""
    return editor(stage, [stage.program], environment(stage))


def a_form_is_relayed_to_the_editor(stage: Stage) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}
    with claude(stage) as agent:
        (shown,), response = agent.ask("elicitation/input", accept(name="Ann", age=7), prompt="Who?", schema=schema)
    expect((shown["mode"], shown["message"]), ("form", "demo asks: Who?"))
    expect(list(shown["requestedSchema"]["properties"]), ["name", "age"])
    expect(gist(response), (True, {"value": {"name": "Ann", "age": 7}}, "person"))


def a_capability_that_an_app_adds_becomes_a_tool(stage: Stage) -> None:
    """Claude lists tools again at once, then not for two seconds: the app's connecting was the first change, its growing the second."""
    with claude(stage) as agent:
        agent.play(calling("abp_call", capability="demo.grow"))
        stage.await_tool("demo_grown")
        agent.play(calling("demo_grown"))
    assert not stage.model.requests[0].offers("demo_grown")
    expect(stage.results()[-1]["content"][0]["text"], "here I am")


def a_cancelled_turn_ends_the_question(stage: Stage) -> None:
    """Claude takes the call back and, a moment later, answers the question with `cancel`: either may end it."""
    with claude(stage) as agent:
        agent.begin(asking("elicitation/confirm", message="Book?"))
        agent.question()
        agent.cancel()
        expect(agent.finish(), "cancelled")
        agent.play(calling("abp_status"))
    status: Json = json.loads(stage.results()[-1]["content"][0]["text"])
    expect((status["questions"]["open"], status["apps"]["demo"]["running"]), ([], []))
    assert status["questions"]["ended"][0]["outcome"] in ("withdrawn", "cancelled")


CHECKS = (
    a_form_is_relayed_to_the_editor,
    a_capability_that_an_app_adds_becomes_a_tool,
    a_cancelled_turn_ends_the_question,
)
