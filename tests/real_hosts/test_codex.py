"""`codex exec`, which declines every question, and `codex app-server`, which editors use."""

from __future__ import annotations

import shlex
import sys

from support.paths import APPS

from .hosts import AppServer, accept, asking, calling, codex_exec, gist
from .stage import Stage, recorded


def test_exec_offers_the_tools_in_its_first_request(stage: Stage) -> None:
    codex_exec(
        stage,
        calling("abp_call", capability="demo.echo", params={"value": "heard"}),
        required=False,
    )
    assert stage.model.requests[0].offers("abp_call"), "Codex waits a second for its servers"
    assert stage.results()[0]["content"][0]["text"] == "heard"


def test_exec_declines_by_itself_and_the_app_is_told(stage: Stage) -> None:
    codex_exec(stage, asking("elicitation/confirm", message="Book?"), required=True)
    response = stage.last_json()
    assert gist(response) == (False, None, "host-policy")
    assert "no person was asked" in response["error"]["message"]


def test_number_is_asked_for_as_text(stage: Stage) -> None:
    schema = {"type": "integer", "minimum": 1}
    with AppServer(stage) as codex:
        (shown,), response = codex.ask(
            "elicitation/input", accept(value="4"), prompt="How many?", schema=schema
        )
    assert shown["requestedSchema"]["properties"]["value"]["type"] == "string"
    assert gist(response) == (True, {"value": 4}, "person")


def test_interrupted_turn_cancels_the_call_and_ends_its_question(stage: Stage) -> None:
    """Codex cancels the call and, sometimes, also answers the question with `cancel`."""
    demo = recorded(stage.folder / "app", sys.executable, "-m", "abp_bridge.apps.demo")
    with AppServer(stage, f"stdio:{shlex.join(demo)}") as codex:
        codex.begin_turn(asking("elicitation/confirm", message="Book?"))
        codex.question()
        codex.cancel()
        assert codex.finish() == "interrupted"
        codex.play(calling("abp_status"))
    status = stage.last_json()
    assert status["questions"]["open"] == []
    (outcome,) = (each["outcome"] for each in status["questions"]["ended"])
    assert outcome in ("withdrawn", "cancelled"), outcome
    assert len(stage.record().wire.sent("notifications/cancelled")) <= (outcome == "withdrawn"), (
        "an answered question is not taken back"
    )
    (call,), (cancel,) = (
        stage.record("app").wire.received(f"capabilities/{what}") for what in ("call", "cancel")
    )
    assert cancel["params"]["callId"] == call["params"]["options"]["callId"]


def test_exec_reads_the_note_beside_a_structured_result(stage: Stage) -> None:
    """Codex does not show its model the texts of such a result."""
    server = APPS / "mcp_server.py"
    stage.stand_before([sys.executable, server, stage.folder / "read", stage.folder / "deeds"])
    codex_exec(stage, calling("report"), ABP_WITHOUT_PERSON="true", ABP_PAGE="off")
    read = " ".join(stage.model.requests[-1].heard)
    assert "nobody answered" in read
    assert '"result":"cancel"' in read.replace(" ", "").replace("\\", "")
