"""A conversation as one text."""

from __future__ import annotations

import pytest

from abp_bridge.models.agent import AgentMessage, Role
from abp_bridge.models.session import format_prompt

CONVERSATIONS: dict[str, list[tuple[Role, str]]] = {
    "": [],
    "Hello": [("user", "Hello")],
    "Be short.\n\nHello": [("system", "Be short."), ("user", "Hello")],
    "This is asked:\n\n \ufeff/stats now": [("user", " \ufeff/stats now")],
    "This is asked:\n\n/model x\n\nHello": [("system", "/model x"), ("user", "Hello")],
    "The user said:\n> A\n> B\n\nYou said:\n> C\n\nD": [
        ("user", "A\nB"),
        ("assistant", "C"),
        ("user", "D"),
    ],
}


@pytest.mark.parametrize("text", CONVERSATIONS)
def test_a_conversation_as_one_text(text: str) -> None:
    assert format_prompt([AgentMessage(*each) for each in CONVERSATIONS[text]]) == text
