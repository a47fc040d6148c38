"""What Codex, Goose and Claude Code draw: questions, labels, and careful defaults."""

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

# words that are shown, each with the keys that are pressed then; the last keys end the question
SCREENS = {
    ("codex", Shape.SELECT_FEW): "Which class? / 1. first / 2. second [Escape]",
    ("goose", Shape.SELECT_FEW): "Which class? / first / second [Enter]",
    ("claude", Shape.SELECT_FEW): "Which class? / Choice: [Right] / first / second [Escape Escape]",
    ("codex", Shape.MULTI_SELECT): (
        "What else? / A bike [Right] / A meal [Right] / Wi-Fi / On the train [Escape]"
    ),
    ("goose", Shape.MULTI_SELECT): (
        "What else? / A bike [Enter] / A meal [Enter] / Wi-Fi / On the train [Enter]"
    ),
    ("claude", Shape.MULTI_SELECT): (
        "What else? / Choice: [Right] / A bike / A meal / Wi-Fi — On the train [Escape Escape]"
    ),
    ("codex", Shape.FIELDS): (
        "Your seat, please / car / at least 1, at most 3 [C-n] / side / aisle / window [Escape]"
    ),
    ("goose", Shape.FIELDS): (
        "Your seat, please / at least 1, at most 3 [2 Enter] / side / aisle / window [Enter]"
    ),
    ("claude", Shape.FIELDS): "Your seat, please / car: / side: [Escape]",
}


def asked(shape: Shape) -> str:
    request: dict[str, Any] = ASKED[shape].request
    return asking(request["method"], **request["params"])


@pytest.mark.parametrize(("host", "shape"), SCREENS, ids=lambda each: getattr(each, "name", each))
def test_question_and_labels_are_drawn(host: str, shape: Shape, stage: Stage) -> None:
    with TERMINALS[host](stage, asked(shape)) as pane:
        type_steps(pane, SCREENS[host, shape], below=QUESTION)


CAREFUL = {
    "codex": "\u203a 1. No, do not / 2. Delete [Enter]",
    "goose": "● No, do not / ○ Delete [Enter]",
    "claude": "Confirm: ▸ No, do not [Enter] / \u276f Accept [Escape]",
}


@pytest.mark.parametrize("host", TERMINALS)
def test_one_enter_confirms_nothing_destructive(host: str, stage: Stage) -> None:
    with TERMINALS[host](stage, asked(Shape.CONFIRM_DESTRUCTIVE)) as pane:
        pane.until("Delete all trips?", below=QUESTION)
        pane.until("cannot be undone", below=QUESTION)
        type_steps(pane, CAREFUL[host], below=QUESTION)
    response = stage.last_json()
    assert response.get("data", {}).get("confirmed") is not True
