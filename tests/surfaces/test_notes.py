"""A remark of the bridge's own (`Question.note`) is drawn wherever its question is, beside the
app's words: why it came there, or how the person gets there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import mcp_types as types
import pytest
from support.harness import hosted

from abp_bridge.core.menu import Menu
from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.mcp import elicitation, model_messages
from abp_bridge.protocols.mcp.versions import V2025_06_18, V2025_11_25, V2026_07_28
from abp_bridge.protocols.opencode import encode_request
from abp_bridge.surfaces.page import html
from abp_bridge.surfaces.terminal.rendering import heading, style_for

NOTE = "The file that the app names is not read."
PLACE = "http://127.0.0.1:8123/x"
ASKED: dict[str, Any] = {"message": "Delete the draft?", "destructive": True}
VIEW = html.View("/", "/q", "guard", datetime(2026, 1, 1))

DRAWN: dict[str, Callable[[Question], object]] = {
    "mcp-form 2025-06-18": lambda asked: elicitation.encode_form(asked, V2025_06_18),
    "mcp-form 2025-11-25": lambda asked: elicitation.encode_form(asked, V2025_11_25),
    "mcp-form 2026-07-28": lambda asked: elicitation.encode_form(asked, V2026_07_28),
    "mcp-form again": lambda asked: elicitation.encode_form(asked, V2025_11_25, problem="no"),
    "mcp-url": lambda asked: elicitation.encode_url(asked, PLACE, "e"),
    "a link in an mcp-form": lambda asked: model_messages.encode_link(asked, PLACE),
    "an address for the model": lambda asked: model_messages.encode_address(asked, PLACE, "it"),
    "model": model_messages.encode_asked,
    "acp-form": lambda asked: acp.encode_form(asked, "s", "c"),
    "acp-url": lambda asked: acp.encode_url(asked, "s", "c", PLACE, "e"),
    "a link on an acp-permission": lambda asked: acp.encode_permission(
        asked, acp.link_step(asked, PLACE), "s", "c"
    ),
    "acp-permission": lambda asked: acp.encode_permission(asked, Menu(asked).step, "s", "c"),
    "terminal": lambda asked: heading(asked, style_for(moves=False, columns=lambda: 100)),
    "page": lambda asked: html.question_page(asked, VIEW),
    "questions-api": lambda asked: encode_request(asked, "q", "s"),
}


@pytest.mark.parametrize("surface", DRAWN)
def test_what_the_bridge_has_to_say_stands_beside_the_question(surface: str) -> None:
    asked: dict[str, Any] = {"method": "elicitation/confirm", "params": ASKED}
    question = decode_question(asked, id="q1", origin="app")
    with_note = json.dumps(DRAWN[surface](replace(question, note=NOTE)))
    assert with_note.count(NOTE) == 1
    assert with_note.index("Delete the draft?") < with_note.index(NOTE)
    assert NOTE not in json.dumps(DRAWN[surface](question))


@pytest.mark.anyio
async def test_an_address_card_says_why_the_file_that_an_app_names_is_not_read() -> None:
    cards: list[str] = []

    def answer(params: Any) -> types.ElicitResult:
        cards.append(params.message)
        return types.ElicitResult(action="decline")

    async with hosted("--app", "demo", answer=answer) as host:
        await host.ask("elicitation/resource", message="The report?", uri="file:///etc/passwd")
    assert "The app names file:///etc/passwd, which is not read: " in cards[0]
