"""Who answered, as the app is told: by the host's own time, whatever the bridge was busy with, and
by the next surface where a policy answered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.harness import accept, hosted, refuse

Json = Any
pytestmark = pytest.mark.anyio

FLOOR = {"ABP_PERSON_FLOOR": "400"}  # milliseconds, as it is when nobody says anything


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_link_that_is_refused_at_once_was_refused_by_the_host(action: str) -> None:
    """The page, which starts for it, takes longer to be there than a person to read."""
    async with hosted("--app", "demo", answer=refuse(action), env=FLOOR) as host:
        response = await host.ask("elicitation/input", prompt="The key?", sensitive=True)
    assert response["metadata"]["answeredBy"] == "host-policy"
    assert response["metadata"]["evidence"] == "faster-than-reading"


async def test_what_a_policy_answered_is_asked_on_the_next_surface(tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(["written"]))
    arguments = ["--app", "demo", "--answers", str(answers), "--ask-on", "host,mock"]
    async with hosted(*arguments, answer=accept(value="made up"), env=FLOOR) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["data"] == {"value": "written"}
    assert response["metadata"]["answeredBy"] == "script"


async def test_without_a_next_surface_a_policys_answer_is_told_as_one() -> None:
    async with hosted("--app", "demo", answer=accept(value="made up"), env=FLOOR) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["data"] == {"value": "made up"}
    assert response["metadata"]["answeredBy"] == "host-policy"


async def test_a_policy_cannot_confirm_what_cannot_be_undone() -> None:
    async with hosted("--app", "demo", answer=accept(confirmed=True), env=FLOOR) as host:
        response = await host.ask("elicitation/confirm", message="Delete all?", destructive=True)
    assert not response["success"]
    assert "no person was asked" in response["error"]["message"]
