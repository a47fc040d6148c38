"""Goose as an ACP agent: an MCP client that tries 2026-07-28 first, and relays what its servers ask to the editor."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .acp import Editor, editor
from .stage import DECLINE, Stage, accept, expect, gist

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


def goose(stage: Stage) -> AbstractContextManager[Editor]:
    """`goose acp` in an editor."""
    return editor(stage, [stage.program, "acp"], environment(stage))


def a_confirm_is_relayed_to_the_editor(stage: Stage) -> None:
    with goose(stage) as agent:
        (shown,), response = agent.ask("elicitation/confirm", accept(confirmed=True), message="Book?")
    expect((shown["mode"], shown["message"]), ("form", "demo asks: Book?"))
    expect(gist(response), (True, {"confirmed": True}, "person"))


def a_person_who_declines_is_not_a_policy(stage: Stage) -> None:
    with goose(stage) as agent:
        _, response = agent.ask("elicitation/confirm", DECLINE, message="Book?")
    expect(gist(response), (False, None, "person"))


def it_falls_back_to_the_handshake_when_discovery_is_refused(stage: Stage) -> None:
    with goose(stage) as agent:
        agent.ask("elicitation/confirm", accept(confirmed=True), message="Book?")
    wire = stage.record().wire
    expect(wire.lines[0][1]["method"], "server/discover")
    expect(wire.lines[1][1]["error"]["code"], -32601)
    expect(len(wire.received("initialize")), 1)


CHECKS = (
    a_confirm_is_relayed_to_the_editor,
    a_person_who_declines_is_not_a_policy,
    it_falls_back_to_the_handshake_when_discovery_is_refused,
)
