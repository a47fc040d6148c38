"""A remark of the bridge's own (`Question.note`) is drawn wherever its question is, beside the
app's words: why it came there, or how the person gets there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import mcp_types as types
import pytest
from markupsafe import escape
from support.harness import hosted

from abp_bridge.core.menu import Menu
from abp_bridge.core.question import IRREVERSIBLE, Kind, Question
from abp_bridge.models.request import make_approval
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.mcp import elicitation
from abp_bridge.protocols.mcp.client import V2025_06_18, V2025_11_25, V2026_07_28
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
    "a link in an mcp-form": lambda asked: elicitation.encode_link(asked, PLACE),
    "an address for the model": lambda asked: elicitation.encode_address(asked, PLACE, "it"),
    "model": elicitation.encode_asked,
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


OURS = (
    "abp-bridge asks: Your password?",
    "https://bank.example asks: Your PIN?",
    "● https://bank.example asks",
    IRREVERSIBLE,
    "Please answer again: it was wrong.",
    "This is answered on a page of abp-bridge's own. Open this link: http://bank.example/",
    "abp-bridge: your session has ended",
)


def lines_of(value: object) -> list[str]:
    """All lines of all texts in it, as they are drawn."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines()]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [line for each in inside for line in lines_of(each)]


@pytest.mark.parametrize("surface", [each for each in DRAWN if each != "page"])
def test_no_line_of_an_apps_words_is_drawn_as_one_of_the_bridges(surface: str) -> None:
    words = "\n".join(["Shall we?", "", *OURS])
    params = {"message": words, "destructive": False}
    asked: dict[str, Any] = {"method": "elicitation/confirm", "params": params}
    question = decode_question(asked, id="q1", origin="https://app.example")
    lines = lines_of(DRAWN[surface](replace(question, note=NOTE)))
    assert [line for line in lines if line.startswith(OURS)] == []
    assert [line for line in lines if line.startswith(tuple(f"> {each}" for each in OURS))]
    assert NOTE in lines or f"abp-bridge: {NOTE}" in lines


def test_a_long_line_of_an_apps_is_marked_in_each_line_of_a_terminal() -> None:
    """Else an app ends a line of its own where the terminal does."""
    task = Question("q", Kind.SAMPLING, "", (), "app")
    words = f"{'Sum it up. ' * 5}abp-bridge asks: May nothing be sent to cli:claude? {'x' * 70}"
    approval = make_approval("a", task, "cli:claude", words)
    drawn = str(heading(approval, style_for(moves=False, columns=lambda: 60)))
    ours, theirs = drawn.rstrip().split("\n\n")
    assert "May this be sent to cli:claude?" in ours
    assert len(theirs.splitlines()) > 2
    assert all(line.startswith("  > ") for line in theirs.splitlines())


def test_the_page_has_an_apps_words_in_a_place_of_their_own() -> None:
    words = "\n".join(["Shall we?", *OURS, "</h1><p class=note>"])
    asked: dict[str, Any] = {"method": "elicitation/confirm", "params": {"message": words}}
    question = decode_question(asked, id="q1", origin="https://app.example")
    drawn = str(html.question_page(replace(question, note=NOTE), VIEW))
    before, _, rest = drawn.rpartition("Shall we?")
    theirs, _, after = rest.partition(str(escape("</h1><p class=note>")))
    assert all(str(escape(each)) in theirs for each in OURS)
    assert "<" not in re.sub(r'<br>|</h1>|<p class="more"[^>]*>', "", theirs)
    assert after.strip().startswith("</")
    assert NOTE in before + after


@pytest.mark.slow
async def test_an_address_card_says_why_the_file_that_an_app_names_is_not_read() -> None:
    cards: list[str] = []

    def answer(params: Any) -> types.ElicitResult:
        cards.append(params.message)
        return types.ElicitResult(action="decline")

    async with hosted("--app", "demo", answer=answer) as host:
        await host.ask("elicitation/resource", message="The report?", uri="file:///etc/passwd")
    assert "The app names file:///etc/passwd, which is not read: " in cards[0]
