"""What is told of a page's console, without a page."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from abp_bridge.apps.browser.page_state import (
    BURST,
    CUT_SECRET,
    FULL,
    MAX_LOOKED_AT,
    RATE,
    Console,
    show_place,
)
from abp_bridge.core.ledger import Notice, describe_notice
from abp_bridge.core.redact.texts import PIECE

Json = Any


def test_lines_that_there_is_no_room_for_are_counted_in_the_next() -> None:
    told: list[Notice] = []
    now = [0.0]
    console = Console(told.append, lambda: "", lambda: now[0])
    for number in range(int(BURST) + 3):
        console.write_line("error", str(number))
    assert len(told) == BURST + 1
    assert describe_notice(told[-1]) == f"its page's console has a warning: {FULL}"
    now[0] = 1 / RATE
    console.add_report({"level": "warning", "message": "at last", "lost": 4})
    assert describe_notice(told[-1]) == (
        "its page's console has a warning: at last; 7 before it were not told"
    )


def test_what_is_no_line_is_told_as_one_without_words() -> None:
    told: list[Notice] = []
    console = Console(told.append, lambda: "", lambda: 0.0)
    console.add_report(["nonsense"])
    assert describe_notice(told[-1]) == "its page's console has an error:"
    assert console.said == " Its page's console has an error:."


def test_a_place_is_a_file_of_the_pages_own_or_an_address_without_its_query() -> None:
    own = "http://localhost:3000"
    assert show_place(f"{own}/js/app.js?v=1:12:5", own) == "/js/app.js:12:5"
    assert show_place(f"{own}/:3:1", own) == "/:3:1"
    assert show_place("https://cdn.example/x.js#a:1:2", own) == "https://cdn.example/x.js:1:2"


def said_by(console: Console, told: list[Notice], words: str, **more: Json) -> str:
    console.add_report({"message": words, **more})
    return describe_notice(told[-1])


def test_cut_line_of_a_console_has_no_part_of_a_secret() -> None:
    told: list[Notice] = []
    console = Console(told.append, lambda: "", lambda: 0.0)
    words = "so it is: hunter"
    assert said_by(console, told, words, cut=9) == (
        "its page's console has an error: so it is: hunter … [9 more characters not shown]"
    )
    console.hide(["hunter2 and more", "😀" * PIECE, 271828.0])
    for secret in ("hunter2 and more", "😀" * PIECE):
        for spelled in (secret, json.dumps(secret), quote(quote(secret))):
            beginning = f"{'x' * CUT_SECRET}{spelled[:-2]}"
            shown, cut = console.replace_secrets(beginning, 2)
            assert shown.strip("x") == ""
            assert len(shown) + cut == len(beginning) + 2
    long = f"hunter{'x' * 2 * MAX_LOOKED_AT}"
    assert console.replace_secrets(long)[1] == len(long) - (MAX_LOOKED_AT - CUT_SECRET)
    assert said_by(console, told, "PIN 271828.") == "its page's console has an error: PIN [secret]."
