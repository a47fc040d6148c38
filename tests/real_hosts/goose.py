"""Goose as an ACP agent: an MCP client that tries 2026-07-28 first, and relays what its servers ask
to the editor.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

from support.visitor import type_on_the_page

from .acp import Editor, editor
from .stage import CANCEL, DECLINE, Json, Stage, accept, asking, calling, expect, gist

KEY = "planted-key-91c2"
CONFIG = """\
GOOSE_PROVIDER: openai
GOOSE_MODEL: mock
GOOSE_MODE: auto
GOOSE_TELEMETRY_ENABLED: false
GOOSE_DISABLE_KEYRING: true
OPENAI_HOST: {url}
OPENAI_BASE_PATH: v1/chat/completions
extensions: {{}}
"""


def environment(stage: Stage) -> dict[str, str]:
    """Goose's home is written; its environment is returned."""
    config = stage.home / ".config" / "goose" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG.format(url=stage.model.url))
    return stage.environment(OPENAI_API_KEY="none")


def goose(stage: Stage, **bridge_env: str) -> AbstractContextManager[Editor]:
    """`goose acp` in an editor."""
    return editor(stage, [stage.program, "acp"], environment(stage), **bridge_env)


def a_confirm_is_relayed_to_the_editor(stage: Stage, **bridge_env: str) -> None:
    with goose(stage, **bridge_env) as agent:
        (shown,), response = agent.ask(
            "elicitation/confirm", accept(confirmed=True), message="Book?"
        )
    expect((shown["mode"], shown["message"]), ("form", "demo asks: Book?"))
    expect(gist(response), (True, {"confirmed": True}, "person"))


def a_question_is_a_result_and_its_answer_the_call_again(stage: Stage) -> None:
    a_confirm_is_relayed_to_the_editor(stage)
    wire = stage.record().wire
    expect(wire.lines[0][1]["method"], "server/discover")
    expect((wire.received("initialize"), wire.sent("elicitation/create")), ([], []))
    first, second = wire.received("tools/call")
    assert "requestState" not in first["params"]
    expect(list(second["params"]["inputResponses"]), ["q1"])


def without_the_modern_era_a_question_is_a_request(stage: Stage) -> None:
    a_confirm_is_relayed_to_the_editor(stage, ABP_MCP_MODERN="false")
    wire = stage.record().wire
    expect(wire.lines[0][1]["method"], "server/discover")
    expect(wire.lines[1][1]["error"]["code"], -32601)
    expect((len(wire.received("initialize")), len(wire.sent("elicitation/create"))), (1, 1))


def a_person_who_declines_is_not_a_policy(stage: Stage, **bridge_env: str) -> None:
    with goose(stage, **bridge_env) as agent:
        _, response = agent.ask("elicitation/confirm", DECLINE, message="Book?")
    expect(gist(response), (False, None, "person"))


def a_person_who_declines_in_the_legacy_era_is_not_a_policy(stage: Stage) -> None:
    a_person_who_declines_is_not_a_policy(stage, ABP_MCP_MODERN="false")


def questions_asked_together_are_answered_together(stage: Stage) -> None:
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
    answers = json.loads(stage.results()[-1]["content"][0]["text"])
    expect(sorted(answer["data"]["confirmed"] for answer in answers), [False, True])


def a_question_of_a_cancelled_turn_is_a_time_out(stage: Stage) -> None:
    """Goose says nothing of a turn that was cancelled: the call is kept for as long as somebody
    could come back for it, and no longer.
    """
    with goose(stage, ABP_PARK_TIMEOUT="1000") as agent:
        agent.begin(asking("elicitation/confirm", message="Book?"))
        question = agent.question()
        agent.cancel()
        question.answer(CANCEL)
        expect(agent.finish(), "cancelled")
        agent.play(
            calling("abp_call", capability="demo.hold", timeout=3) + "\n" + calling("abp_status")
        )
    status: Json = json.loads(stage.results()[-1]["content"][0]["text"])
    expect(status["questions"]["open"], [])
    assert status["questions"]["ended"][0]["outcome"] in ("timed_out", "cancelled")


def a_secret_is_typed_on_the_page_that_a_form_points_to(stage: Stage, **bridge_env: str) -> None:
    """Goose opens no addresses: it relays the form without fields to the editor."""
    with goose(stage, ABP_PAGE="link", **bridge_env) as agent:
        agent.begin(asking("elicitation/input", prompt="Enter your API key"))
        question = agent.question()
        type_on_the_page(question.params["message"], KEY)
        question.answer(accept())
        expect(agent.finish(), "end_turn")
    response = json.loads(stage.results()[-1]["content"][0]["text"])
    expect(gist(response), (True, {"value": KEY}, "person"))


def a_secret_is_typed_on_the_page_in_the_legacy_era_too(stage: Stage) -> None:
    a_secret_is_typed_on_the_page_that_a_form_points_to(stage, ABP_MCP_MODERN="false")


CHECKS = (
    a_question_is_a_result_and_its_answer_the_call_again,
    without_the_modern_era_a_question_is_a_request,
    a_person_who_declines_is_not_a_policy,
    a_person_who_declines_in_the_legacy_era_is_not_a_policy,
    questions_asked_together_are_answered_together,
    a_question_of_a_cancelled_turn_is_a_time_out,
    a_secret_is_typed_on_the_page_that_a_form_points_to,
    a_secret_is_typed_on_the_page_in_the_legacy_era_too,
)
