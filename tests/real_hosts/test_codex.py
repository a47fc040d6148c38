"""Codex, at 2025-06-18: `codex exec`, which declines every question by itself, and `codex
app-server`, on which editors build.

Its forms hold what its terminal really shows, so numbers are asked for as text; the app-server does
not check what the person sends.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

import pytest
from real_servers.servers import MongoDB
from support.browser import type_on_the_page
from support.paths import APPS

from .hosts import (
    CANCEL,
    DECLINE,
    DROP,
    MONGODB,
    AppServer,
    accept,
    asking,
    calling,
    codex_exec,
    gist,
)
from .stage import Stage, recorded

KEY = "planted-key-91c2"
TWELVE = [{"value": f"v{number}", "label": f"Label {number}"} for number in range(1, 13)]


@pytest.fixture
def codex(stage: Stage) -> Iterator[AppServer]:
    with AppServer(stage) as codex:
        yield codex


def test_exec_has_the_tools_in_its_first_request_without_being_told_to_wait(stage: Stage) -> None:
    codex_exec(
        stage,
        calling("abp_call", capability="demo.echo", params={"value": "heard"}),
        required=False,
    )
    assert stage.model.requests[0].offers("abp_call"), (
        "the bridge was later than Codex's first second"
    )
    assert stage.results()[0]["content"][0]["text"] == "heard"


def test_exec_declines_by_itself_and_the_app_learns_that_no_person_was_asked(stage: Stage) -> None:
    codex_exec(stage, asking("elicitation/confirm", message="Book?"), required=True)
    response = stage.last_json()
    assert gist(response) == (False, None, "host-policy")
    assert "no person was asked" in response["error"]["message"]


def test_a_confirm_is_answered(codex: AppServer) -> None:
    (shown,), response = codex.ask("elicitation/confirm", accept(confirmed=True), message="Book?")
    assert (shown["mode"], shown["message"]) == ("form", "demo asks: Book?")
    assert gist(response) == (True, {"confirmed": True}, "person")


def test_a_choice_of_twelve_is_shown_whole(codex: AppServer) -> None:
    (shown,), response = codex.ask(
        "elicitation/select", accept(selected="v12"), prompt="Which?", options=TWELVE
    )
    assert shown["requestedSchema"]["properties"]["selected"]["enumNames"] == [
        option["label"] for option in TWELVE
    ]
    assert gist(response) == (True, {"selected": "v12"}, "person")


def test_a_number_is_asked_for_as_text(codex: AppServer) -> None:
    (shown,), response = codex.ask(
        "elicitation/input",
        accept(value="4"),
        prompt="How many?",
        schema={"type": "integer", "minimum": 1},
    )
    assert shown["requestedSchema"]["properties"]["value"]["type"] == "string"
    assert gist(response) == (True, {"value": 4}, "person")


def test_two_fields_are_one_form(codex: AppServer) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "member": {"type": "boolean"}},
        "required": ["name"],
    }
    (shown,), response = codex.ask(
        "elicitation/input", accept(name="Ann", member=True), prompt="Who?", schema=schema
    )
    assert set(shown["requestedSchema"]["properties"]) == {"name", "member"}
    assert gist(response) == (True, {"value": {"name": "Ann", "member": True}}, "person")


def test_a_person_who_declines_or_dismisses_is_not_a_policy(codex: AppServer) -> None:
    for answer, outcome in ((DECLINE, "declined"), (CANCEL, "cancelled")):
        _, response = codex.ask("elicitation/confirm", answer, message="Book?")
        assert gist(response) == (False, None, "person")
        assert (response["cancelled"], response["metadata"]["outcome"]) == (True, outcome)


def test_content_that_does_not_fit_is_asked_for_again(codex: AppServer) -> None:
    shown, response = codex.ask(
        "elicitation/confirm", accept(confirmed="maybe"), accept(confirmed=False), message="Book?"
    )
    assert "Please answer again" in shown[1]["message"]
    assert gist(response) == (True, {"confirmed": False}, "person")


def test_an_interrupted_turn_cancels_the_apps_call_and_ends_its_question(stage: Stage) -> None:
    """Codex takes the call back and, not always, answers the question with `cancel` in the same
    breath: either may end it.
    """
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


def test_a_pages_confirm_is_answered(stage: Stage) -> None:
    with AppServer(stage, "demo:page") as codex:
        (shown,), response = codex.ask(
            "elicitation/confirm", accept(confirmed=True), message="Book?"
        )
    assert shown["message"].endswith("asks: Book?")
    assert gist(response) == (True, {"confirmed": True}, "person")


def test_a_secret_is_typed_on_the_page_that_a_form_points_to(stage: Stage) -> None:
    """Codex declares url mode, and opens no address of this machine."""
    with AppServer(stage, ABP_PAGE="link") as codex:
        codex.begin_turn(asking("elicitation/input", prompt="Enter your API key"))
        shown = codex.question()
        assert (shown.params["mode"], shown.params["requestedSchema"]["properties"]) == ("form", {})
        type_on_the_page(shown.params["message"], KEY)
        assert codex.finish() == "completed"
    response = stage.last_json()
    assert gist(response) == (True, {"value": KEY}, "person")
    assert response["metadata"]["route"] == "page (on a page of the bridge's own)"


@pytest.mark.parametrize("pressed", MONGODB)
def test_mongodbs_own_question_is_answered(stage: Stage, mongodb: MongoDB, pressed: str) -> None:
    answer, dropped = MONGODB[pressed]
    stage.stand_before(mongodb.command)
    with AppServer(stage) as codex:
        # what Codex makes of the name for its model
        (shown,) = codex.play(calling("drop_database", **DROP), answer)
    assert "You are about to drop the **shop** database" in shown["message"]
    assert mongodb.commands().count("dropDatabase") == dropped


def test_exec_reads_what_nobody_answered_beside_a_servers_structured_result(stage: Stage) -> None:
    """Its model has nothing of such a result's texts, whatever its schema allows."""
    server = APPS / "mcp_server.py"
    stage.stand_before([sys.executable, server, stage.folder / "read", stage.folder / "deeds"])
    codex_exec(stage, calling("report"), ABP_WITHOUT_PERSON="true", ABP_PAGE="off")
    read = " ".join(stage.model.requests[-1].heard)
    assert "nobody answered" in read
    assert '"result":"cancel"' in read.replace(" ", "").replace("\\", "")
