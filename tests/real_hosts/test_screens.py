"""Codex, Goose and Claude Code draw a destructive question with its safe answer first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from fixture_maker.cases import ASKED
from support.terminal import Pane

from abp_bridge.core.matrix import QuestionShape as Shape

from .hosts import asking
from .stage import Stage
from .terminals import claude_tui, codex_tui, goose_session, type_steps

TERMINALS: dict[str, Callable[[Stage, str], AbstractContextManager[Pane]]] = {
    "codex": codex_tui,
    "goose": goose_session,
    "claude": claude_tui,
}

QUESTION = "demo asks:"  # the user's prompt above it has all the words too


CAREFUL = {
    "codex": "\u203a 1. No, do not / 2. Delete [Enter]",
    "goose": "● No, do not / ○ Delete [Enter]",
    "claude": "Confirm: ▸ No, do not [Enter] / \u276f Accept [Escape]",
}


@pytest.mark.parametrize("host", TERMINALS)
def test_one_enter_confirms_nothing_destructive(host: str, stage: Stage) -> None:
    request: dict[str, Any] = ASKED[Shape.CONFIRM_DESTRUCTIVE].request
    with TERMINALS[host](stage, asking(request["method"], **request["params"])) as pane:
        pane.until("Delete all trips?", below=QUESTION)
        pane.until("cannot be undone", below=QUESTION)
        type_steps(pane, CAREFUL[host], below=QUESTION)
    response = stage.last_json()
    assert response.get("data", {}).get("confirmed") is not True
