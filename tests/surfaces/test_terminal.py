"""A question at a terminal, by real keys on a pseudo-terminal: with arrow keys, and line by line
where the cursor cannot be moved.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
import pytest
from anyio import to_thread
from support.paths import TESTS
from support.peer import PATIENCE
from support.terminal import (
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    DOWN,
    ENTER,
    ESCAPE,
    SPACE,
    UP,
    Screen,
    Tty,
)

from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.question import Kind, Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.session.surface import SurfaceUnsupportedError
from abp_bridge.surfaces.terminal.surface import Terminal

Json = Any

ASKER = str(TESTS / "support" / "asker.py")
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "März",
]


class Asking(Screen):
    """A screen on which questions are asked."""

    def __init__(self, *requests: Json, columns: int = 100, **env: str) -> None:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "HOME", "LANG", "ABP_TOOL_CACHE")
            if name in os.environ
        }
        command = [sys.executable, ASKER, *map(json.dumps, requests)]
        super().__init__(command, {**kept, **env}, columns=columns)
        self.until("● https://app.example asks")

    def reply(self) -> Json:
        """What `Terminal.ask` gave back: [outcome, content, interrupts]."""
        self.until("REPLY ")
        assert self.end() == 0
        assert self.restored
        return json.loads(self.shown[self._seen :].splitlines()[0])


@pytest.fixture(params=["xterm-256color", "dumb"])
def term(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Asked(Asking):
    """A screen with one ABP question on it."""

    def __init__(self, method: str, params: Json, *, columns: int = 100, **env: str) -> None:
        request = {"method": f"elicitation/{method}", "params": params}
        super().__init__(request, columns=columns, **env)


def ready(screen: Asked, term: str) -> None:
    """Wait until keys count: what was typed before the question was there is thrown away."""
    screen.until("Ctrl-C cancels" if term == "dumb" else "Esc cancels")
    if term == "dumb":
        screen.until(": ")


def test_who_asks_comes_before_what_is_asked() -> None:
    with Asked("input", {"prompt": "What is\nyour name?"}) as screen:
        screen.until("What is")
        screen.until("your name?")


def test_the_keys_on_a_narrow_terminal_are_broken_between_words(term: str) -> None:
    with Asked("select", {"message": "Which?", "options": ["a", "b"]}, columns=40, TERM=term) as on:
        shown = on.until("cancels")
        assert "Ctrl-D declines" in " ".join(shown.split())


def test_a_terminal_is_asked_nothing_that_it_might_answer_after_the_prompt() -> None:
    with Asked("input", {"prompt": "Name?"}) as screen:
        ready(screen, "xterm-256color")
        screen.press(CTRL_C)
        assert screen.reply()[0] == "cancelled"
        assert b"\x1b[6n" not in screen.raw, "where its cursor is"


def test_ctrl_d_declines_what_was_typed_before_it(term: str) -> None:
    request = {"message": "Delete all files?", "destructive": True}
    with Asked("confirm", request, TERM=term) as screen:
        ready(screen, term)
        screen.press("2", CTRL_D)
        assert screen.reply() == ["declined", {}, 0]


def test_text_is_given_as_it_was_typed(term: str) -> None:
    with Asked("input", {"prompt": "Name?", "schema": {"type": "string"}}, TERM=term) as screen:
        ready(screen, term)
        screen.press(" Zoë O'Hara ", ENTER)
        assert screen.reply() == ["accepted", {"value": " Zoë O'Hara "}, 0]


def test_what_does_not_fit_is_refused_at_the_prompt_with_the_reason(term: str) -> None:
    with Asked(
        "input", {"prompt": "Mail?", "schema": {"type": "string", "format": "email"}}, TERM=term
    ) as screen:
        ready(screen, term)
        screen.press("nope", ENTER)
        screen.until('must be an e-mail address, not "nope"')
        ready(screen, term) if term != "dumb" else screen.until(": ")
        screen.press(*(BACKSPACE * 4 if term != "dumb" else ""), "a@b.org", ENTER)
        assert screen.reply() == ["accepted", {"value": "a@b.org"}, 0]


def test_a_default_is_there_and_counts_when_enter_is_pressed(term: str) -> None:
    with Asked(
        "input", {"prompt": "How many?", "schema": {"type": "integer", "default": 2}}, TERM=term
    ) as screen:
        ready(screen, term)
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"value": "2"}, 0]


def test_a_number_is_asked_again_until_it_is_one(term: str) -> None:
    with Asked(
        "input", {"prompt": "How much?", "schema": {"type": "number", "maximum": 5}}, TERM=term
    ) as screen:
        ready(screen, term)
        screen.press("many", ENTER)
        screen.until('must be a number, not "many"')
        ready(screen, term) if term != "dumb" else screen.until(": ")
        screen.press(*(BACKSPACE * 4 if term != "dumb" else ""), "4.5", ENTER)
        assert screen.reply() == ["accepted", {"value": "4.5"}, 0]


def test_nested_data_is_typed_as_json(term: str) -> None:
    schema = {"type": "object", "required": ["a"]}
    with Asked("input", {"prompt": "Data?", "schema": schema}, TERM=term) as screen:
        ready(screen, term)
        screen.press('{"a": [1, 2]}', ENTER)
        assert screen.reply() == ["accepted", {"value": '{"a": [1, 2]}'}, 0]


@pytest.mark.parametrize("destructive", [False, True])
def test_what_cannot_be_undone_has_its_safe_answer_first(destructive: bool) -> None:
    with Asked("confirm", {"message": "Delete it?", "destructive": destructive}) as screen:
        assert ("cannot be undone" in screen.until("Esc cancels")) is destructive
        screen.until("Decline to answer")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"confirmed": not destructive}, 0]


YES_OR_NO = {"2": True, "y": True, "YES ": True, "n": False, "1": False}


@pytest.mark.parametrize("typed", YES_OR_NO)
def test_yes_or_no_by_number_or_by_its_letter(typed: str) -> None:
    with Asked("confirm", {"message": "Delete it?", "destructive": True}, TERM="dumb") as screen:
        screen.until("1) No, do not")
        screen.until("2) Delete")
        screen.until("Number: ")
        screen.press(ENTER)
        screen.until("must be one number from 1 to 3, or y or n")
        screen.until("Number: ")
        screen.press(typed, ENTER)
        assert screen.reply() == ["accepted", {"confirmed": YES_OR_NO[typed]}, 0]


TITLED = {
    "yes or no": {"type": "boolean", "title": "Erase the whole disk"},
    "a choice": {"enum": ["all of it", "nothing"], "title": "Erase the whole disk"},
    "in a form": {
        "type": "object",
        "properties": {"erase": {"type": "boolean", "title": "Erase the whole disk"}},
        "required": ["erase"],
    },
}


@pytest.mark.parametrize("schema", TITLED.values(), ids=TITLED)
def test_what_the_only_field_is_called_stands_there_before_it_is_answered(
    schema: Json, term: str
) -> None:
    with Asked("input", {"prompt": "Please answer.", "schema": schema}, TERM=term) as screen:
        ready(screen, term)
        assert screen.shown.count("Erase the whole disk") == 1
        screen.press(CTRL_D)
        assert screen.reply() == ["declined", {}, 0]


def test_a_title_that_says_what_the_question_says_is_not_shown_twice() -> None:
    schema = {"type": "boolean", "title": "A window seat"}
    with Asked("input", {"prompt": "A window seat?", "schema": schema}, TERM="dumb") as screen:
        ready(screen, "dumb")
        assert screen.shown.count("A window seat") == 1
        screen.press(CTRL_D)
        assert screen.reply() == ["declined", {}, 0]


def test_whether_a_list_has_an_entry_at_all_is_asked_in_words() -> None:
    columns = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {"type": "array", "title": "Guests", "items": columns}
    with Asked("input", {"prompt": "Who comes?", "schema": schema}, TERM="dumb") as screen:
        screen.until("Add an entry")
        screen.until("1) Yes")
        screen.until("Number [")
        screen.press(CTRL_D)
        assert screen.reply() == ["declined", {}, 0]


def test_an_option_is_chosen_with_the_arrow_keys_from_the_default_on() -> None:
    with Asked(
        "select",
        {"prompt": "Season?", "options": ["spring", "summer", "autumn"], "default": "summer"},
    ) as screen:
        screen.until("» summer (default)")
        screen.until("Decline to answer")
        screen.press(DOWN, ENTER)
        screen.until("Choice: autumn")
        assert screen.reply() == ["accepted", {"selected": "autumn"}, 0]


def test_what_an_option_means_is_shown_when_it_is_pointed_at() -> None:
    options = [
        {"value": 1, "label": "One", "description": "the first"},
        {"value": 2, "label": "Two", "description": "the second"},
    ]
    with Asked("select", {"prompt": "Which?", "options": options}) as screen:
        screen.until("Description: the first")
        screen.press(DOWN)
        screen.until("second")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"selected": "2"}, 0]


def test_a_long_list_is_searched_in_any_letters() -> None:
    with Asked("select", {"prompt": "Month?", "options": MONTHS}) as screen:
        screen.until("letters search")
        screen.until("Decline to answer")
        screen.press("mä")  # at once: what is drawn key by key never stands together
        screen.until("/ mä")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"selected": "März"}, 0]


def test_enter_on_a_search_that_finds_nothing_chooses_nothing() -> None:
    with Asked("select", {"prompt": "Month?", "options": MONTHS}) as screen:
        screen.until("Decline to answer")
        screen.press("x")
        screen.until("x...")
        screen.press("y")
        screen.until("y")
        screen.press(ENTER, BACKSPACE, BACKSPACE, "A", "p", "r", "i", "l")
        screen.until("April")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"selected": "April"}, 0]


def test_an_option_is_chosen_by_its_number() -> None:
    with Asked(
        "select", {"prompt": "Month?", "options": MONTHS, "default": "May"}, TERM="dumb"
    ) as screen:
        screen.until("12) März")
        screen.until("Number [5]: ")
        for wrong in ("0", "14", "März", "1,2"):
            screen.press(wrong, ENTER)
            screen.until("must be one number from 1 to 13")
            screen.until("Number [5]: ")
        screen.press("12", ENTER)
        assert screen.reply() == ["accepted", {"selected": "März"}, 0]


def test_a_number_and_its_text_are_two_options(term: str) -> None:
    with Asked("select", {"prompt": "Which?", "options": [1, "1"]}, TERM=term) as screen:
        ready(screen, term)
        screen.press("2" if term == "dumb" else DOWN, ENTER)
        assert screen.reply() == ["accepted", {"selected": "1"}, 0]


MULTI = {
    "type": "array",
    "items": {"type": "string", "enum": ["a", "b", "c"]},
    "minItems": 1,
    "maxItems": 2,
    "default": ["a"],
}


def test_several_options_are_marked_with_space_within_their_limits() -> None:
    with Asked("input", {"prompt": "Which ones?", "schema": MULTI}) as screen:
        screen.until("● a")
        screen.until("○ c")
        screen.press(DOWN, SPACE, DOWN, SPACE, ENTER)
        screen.until("must name at most 2")
        screen.until("● c")
        screen.press(UP, UP, SPACE, ENTER)
        screen.until("Answer: b, c")
        assert screen.reply() == ["accepted", {"value": ["b", "c"]}, 0]


def test_several_options_are_given_as_numbers_within_their_limits() -> None:
    with Asked("input", {"prompt": "Which ones?", "schema": MULTI}, TERM="dumb") as screen:
        screen.until("Answer [1]: ")
        for wrong, why in (
            ("1,2,3", "at most 2"),
            ("0", "at least 1"),
            ("4", "numbers from 1 to 3"),
        ):
            screen.press(wrong, ENTER)
            screen.until(why)
            screen.until("Answer [1]: ")
        screen.press("2, 3", ENTER)
        assert screen.reply() == ["accepted", {"value": ["b", "c"]}, 0]


def test_many_options_are_searched_and_marked() -> None:
    schema = {"type": "array", "items": {"enum": MONTHS}}
    with Asked("input", {"prompt": "Which months?", "schema": schema}) as screen:
        screen.until("○ März")
        screen.press("A", "p", SPACE, BACKSPACE, BACKSPACE, "y", ENTER)
        assert screen.reply() == ["accepted", {"value": ["April"]}, 0]


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Their name", "description": "As in the passport"},
        "phone": {"type": "string"},
        "size": {"enum": ["s", "l"]},
    },
    "required": ["name"],
}


def test_several_fields_are_filled_in_one_after_the_other_and_optional_ones_left_out() -> None:
    with Asked("input", {"prompt": "Who?", "schema": FORM}) as screen:
        screen.until("1 of 3")
        screen.until("As in the passport")
        screen.until("Their name:")
        screen.press("Grace", ENTER)
        screen.until("2 of 3")
        screen.until("Enter alone leaves it out")
        screen.until("phone:")
        screen.press(ENTER)
        screen.until("3 of 3")
        screen.until("Leave this out")
        screen.until("Decline to answer")
        screen.press(DOWN, DOWN, ENTER)
        screen.until("size: (left out)")
        assert screen.reply() == ["accepted", {"name": "Grace"}, 0]


def test_declining_one_field_declines_the_question() -> None:
    with Asked("input", {"prompt": "Who?", "schema": FORM}) as screen:
        screen.until("Esc cancels")
        screen.press("Grace", ENTER)
        screen.until("phone:")
        screen.press(CTRL_D)
        assert screen.reply() == ["declined", {}, 0]


def test_fields_that_do_not_fit_together_are_asked_for_again() -> None:
    schema = {
        "type": "object",
        "properties": {"mail": {"type": "string"}, "phone": {"type": "string"}},
        "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
    }
    with Asked("input", {"prompt": "How can we reach you?", "schema": schema}) as screen:
        screen.until("mail:")
        screen.press(ENTER)
        screen.until("phone:")
        screen.press(ENTER)
        screen.until("fits none of 2 allowed forms")
        screen.until("Esc cancels")
        screen.until("mail:")
        screen.press("a@b.org", ENTER)
        screen.until("Esc cancels")
        screen.until("phone:")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"mail": "a@b.org"}, 0]


@pytest.mark.parametrize(
    ("keys", "ending"),
    [
        ([ENTER], ["accepted", {"confirmed": True}, 0]),
        ([DOWN, ENTER], ["accepted", {"confirmed": False}, 0]),
        ([DOWN, DOWN, ENTER], ["declined", {}, 0]),
    ],
)
def test_a_form_without_fields_asks_for_consent(keys: list[str], ending: Json) -> None:
    with Asking(
        {"message": "May I?", "requestedSchema": {"type": "object", "properties": {}}}
    ) as screen:
        screen.until("» Yes")
        screen.until("Decline to answer")
        screen.press(*keys)
        assert screen.reply() == ending


def test_questions_that_come_together_are_asked_one_after_the_other() -> None:
    first, second = (
        {"method": "elicitation/input", "params": {"prompt": prompt}}
        for prompt in ("First?", "Second?")
    )
    with Asking(first, second) as screen:
        screen.until("First?")
        screen.until("Answer:")
        assert "Second?" not in screen.shown
        screen.press("1", ENTER)
        assert "Answer: 1" in screen.until("Second?")
        screen.until("Esc cancels")
        screen.press("2", ENTER)
        screen.until("Answer: 2")
        assert screen.end() == 0
        assert [line for line in screen.shown.splitlines() if "REPLY" in line] == [
            'REPLY ["accepted", {"value": "1"}, 0]',
            'REPLY ["accepted", {"value": "2"}, 0]',
        ]


def test_a_secret_is_never_on_the_screen(term: str) -> None:
    with Asked(
        "input",
        {"prompt": "Your password?", "schema": {"type": "string", "default": "hunter1"}},
        TERM=term,
    ) as screen:
        ready(screen, term)
        screen.press("hunter2", ENTER)
        assert screen.reply() == ["accepted", {"value": "hunter2"}, 0]
        assert "••••••" in screen.shown
        before_reply = screen.shown.split("REPLY")[0]
        assert "hunter" not in before_reply


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("input", {"prompt": "Name?"}),
        ("confirm", {"message": "Sure?"}),
        ("select", {"prompt": "Month?", "options": MONTHS}),
        ("input", {"prompt": "Which ones?", "schema": MULTI}),
    ],
)
@pytest.mark.parametrize(
    ("key", "ending"),
    [(CTRL_D, ["declined", {}, 0]), (CTRL_C, ["cancelled", {}, 1]), (ESCAPE, ["cancelled", {}, 0])],
)
def test_every_kind_can_be_declined_and_cancelled(
    method: str, params: Json, key: str, ending: Json
) -> None:
    with Asked(method, params) as screen:
        screen.until("Esc cancels")
        screen.press(key)
        assert screen.reply() == ending


@pytest.mark.parametrize(
    ("key", "ending"), [(CTRL_D, ["declined", {}, 0]), (CTRL_C, ["cancelled", {}, 1])]
)
@pytest.mark.parametrize("secret", [False, True])
def test_lines_can_be_declined_and_cancelled(key: str, ending: Json, secret: bool) -> None:
    with Asked("input", {"prompt": "What?", "sensitive": secret}, TERM="dumb") as screen:
        screen.until(": ")
        screen.press(key)
        assert screen.reply() == ending


def test_a_choice_can_be_declined_in_the_list(term: str) -> None:
    with Asked("select", {"prompt": "Which?", "options": ["a", "b"]}, TERM=term) as screen:
        ready(screen, term)
        screen.press("3" if term == "dumb" else UP, ENTER)
        assert screen.reply() == ["declined", {}, 0]


def test_what_is_typed_before_the_question_is_there_answers_nothing() -> None:
    with Asked("input", {"prompt": "Who?", "schema": FORM}) as screen:
        screen.until("Their name:")
        # The answer, and in the same breath what would answer the next two fields.
        screen.press("Grace\rtoo fast\r\r")
        screen.until("phone:")
        screen.press("123", ENTER)
        screen.until("Decline to answer")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"name": "Grace", "phone": "123", "size": "s"}, 0]


def test_of_an_optional_yes_or_no_nothing_is_proposed() -> None:
    schema = {"type": "object", "properties": {"express": {"type": "boolean"}}}
    with Asked("input", {"prompt": "How?", "schema": schema}) as screen:
        screen.until("» Leave this out")
        screen.until("Decline to answer")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {}, 0]


def test_what_is_filled_in_already_is_not_said_to_be_left_out() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}}}
    with Asked("input", {"prompt": "Who?", "schema": schema}) as screen:
        screen.until("Esc cancels")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"name": "Ada"}, 0]
    assert "leaves it out" not in screen.shown


def test_what_the_app_tells_stands_above_the_open_prompt() -> None:
    with Asked("input", {"prompt": "Name?"}) as screen:
        screen.until("Esc cancels")
        screen.process.send_signal(signal.SIGUSR1)
        screen.until("the app told something")
        screen.until("Esc cancels")
        screen.press("Ada", ENTER)
        assert screen.reply() == ["accepted", {"value": "Ada"}, 0]


def test_a_question_that_is_withdrawn_is_taken_down(term: str) -> None:
    with Asked("input", {"prompt": "Password?"}, TERM=term) as screen:
        ready(screen, term)
        screen.process.send_signal(signal.SIGUSR2)
        screen.until("(withdrawn)")
        assert screen.end() == 0
        assert screen.restored
        assert "REPLY" not in screen.shown


def test_a_signal_cancels_the_open_prompt_like_ctrl_c() -> None:
    with Asked("confirm", {"message": "Sure?"}) as screen:
        screen.until("Decline to answer")
        screen.process.send_signal(signal.SIGINT)
        assert screen.reply() == ["cancelled", {}, 1]


@pytest.mark.parametrize("how", ["NO_COLOR", "dumb"])
def test_no_colour_where_none_is_wanted(how: str) -> None:
    env: Any = {"NO_COLOR": "1"} if how == "NO_COLOR" else {"TERM": "dumb"}
    with Asked("confirm", {"message": "Sure?"}, **env) as screen:
        screen.until("Decline to answer")
        if how == "dumb":
            screen.until(": ")
        screen.press(CTRL_D)
        screen.reply()
        assert b"\x1b[1;36m" not in screen.raw
        assert b"[36" not in screen.raw


# --- files ----------------------------------------------------------------------------------------


def give(screen: Screen, term: str, *typed: str) -> None:
    """Type a file's name where one stands already."""
    screen.press(*(["\x15"] if term != "dumb" else []), *typed, ENTER)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One whose name fits a line of the terminal."""
    with tempfile.TemporaryDirectory(prefix="f-") as name:
        yield Path(name)


def test_a_file_is_named_again_until_it_can_be_given(term: str, folder: Path) -> None:
    (folder / "report.json").write_text('{"a": 1}')
    (folder / "two words.json").write_text("{}")
    with open(folder / "huge.json", "wb") as huge:
        huge.truncate(MAX_SIZE + 1)
    (folder / "notes.txt").write_text("x")
    (folder / "secret.json").write_text("{}")
    wrong = {
        "none.json": "there is no file none.json there",
        "": "is a folder; give a file in it",
        "huge.json": f"huge.json is too large: at most {MAX_SIZE} bytes can be given",
        "notes.txt": "notes.txt is text/plain; it must be application/json",
    }
    params = {"prompt": "The report?", "type": "application/json"}
    with Asked("resource", params, TERM=term, HOME=str(folder)) as screen:
        ready(screen, term)
        for name, why in wrong.items():
            give(screen, term, f"{folder}/{name}")
            screen.until(why)
            screen.until("File:")
        give(screen, term, "~/report.json")
        screen.until("File: report.json (application/json)")
        content = {"content": '{"a": 1}', "mimeType": "application/json", "filename": "report.json"}
        assert screen.reply() == ["accepted", {"file": content}, 0]


def test_a_file_that_is_dragged_in_may_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "two words.txt").write_text("hello")
    with Asked("resource", {"prompt": "Notes?"}) as screen:
        screen.until("File:")
        screen.press(f"'{tmp_path}/two words.txt' ", ENTER)
        assert screen.reply()[1]["file"]["content"] == "hello"


def test_what_is_no_file_is_not_read(term: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with Asked("resource", {"prompt": "Notes?"}, TERM=term) as screen:
        ready(screen, term)
        give(screen, term, str(tmp_path / "pipe"))
        screen.until("pipe is no file")
        screen.until("File:")
        screen.press(CTRL_D)
        assert screen.reply() == ["declined", {}, 0]


@pytest.mark.anyio
async def test_a_model_is_not_asked_at_a_terminal() -> None:
    with pytest.raises(SurfaceUnsupportedError, match="not a model"):
        await Terminal().prompt(Question("q", Kind.SAMPLING, "A poem", (), "app"), NO_CONTEXT)


def test_a_secret_that_does_not_fit_is_not_shown_either(term: str) -> None:
    schema = {"type": "string", "format": "email"}
    with Asked("input", {"prompt": "Your password?", "schema": schema}, TERM=term) as screen:
        ready(screen, term)
        screen.press("hunter2", ENTER)
        screen.until("must be an e-mail address")
        ready(screen, term) if term != "dumb" else screen.until(": ")
        screen.press("hunter@2.org", ENTER)
        assert screen.reply() == ["accepted", {"value": "hunter@2.org"}, 0]
        assert "hunter" not in screen.shown.split("REPLY")[0]


# --- at a terminal of another's -------------------------------------------------------------------


class Elsewhere:
    """A pseudo-terminal on which nothing runs; `asker.py` asks there, from elsewhere."""

    def __init__(self, *requests: Json, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        self.device = os.ttyname(theirs)
        self.settings = termios.tcgetattr(theirs)
        self._theirs = theirs
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "HOME", "LANG", "ABP_TOOL_CACHE")
            if name in os.environ
        }
        command = [sys.executable, ASKER, "--tty", self.device, *map(json.dumps, requests)]
        streams: Any = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        self.process = subprocess.Popen(command, env={**kept, **env}, **streams)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE)
        for fd in (self._ours, self._theirs):
            if fd >= 0:
                os.close(fd)

    def until(self, words: str) -> None:
        while words not in self.shown:
            assert select.select([self._ours], [], [], PATIENCE)[0], (
                f"never shown: {words!r}; this was:\n{self.shown}"
            )
            self.shown += os.read(self._ours, 65_536).decode(errors="replace")
        self.shown = self.shown.partition(words)[2]

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self._ours, key.encode())

    def hang_up(self) -> None:
        os.close(self._theirs)
        os.close(self._ours)
        self._ours = self._theirs = -1

    def replies(self) -> list[Json]:
        out, err = self.process.communicate(timeout=PATIENCE)
        assert (err, self.process.returncode) == (b"", 0)
        return [json.loads(line.partition(b" ")[2]) for line in out.splitlines()]

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.settings


SURE = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}


def test_a_named_terminal_is_asked_at_and_left_as_it_was(term: str) -> None:
    with Elsewhere(SURE, TERM=term) as there:
        there.until("Decline to answer")
        if term == "dumb":
            there.until(": ")
        there.press("1" if term == "dumb" else "", ENTER)
        assert there.replies() == [["accepted", {"confirmed": True}, 0]]
        assert there.restored


@pytest.mark.parametrize("value", ["", None])
def test_a_named_terminal_is_taken_for_one_that_can_move_its_cursor(value: str | None) -> None:
    with Elsewhere(SURE, **({} if value is None else {"TERM": value})) as there:
        there.until("Esc cancels")
        there.press(ESCAPE)
        assert there.replies() == [["cancelled", {}, 0]]


def test_ctrl_c_cancels_there_too(term: str) -> None:
    with Elsewhere(
        {"method": "elicitation/input", "params": {"prompt": "Name?"}}, TERM=term
    ) as there:
        there.until("Answer: " if term == "dumb" else "Answer:")
        there.press("Ad", CTRL_C)
        assert there.replies()[0][0] == "cancelled"
        assert there.restored


def test_a_window_that_is_closed_meanwhile_refuses_with_what_to_do(term: str) -> None:
    with Elsewhere(SURE, SURE, TERM=term) as there:
        there.until("Decline to answer")
        if term == "dumb":
            there.until(": ")
        there.hang_up()
        for reply in there.replies():
            assert reply[0] == "refused"
            assert "has gone. Start again with the name of another" in reply[1]


def test_a_terminal_that_is_stopped_holds_up_nobody() -> None:
    """Nobody reads what is written there: the question ends by its own time, and the program with
    it.
    """
    long = {"method": "elicitation/confirm", "params": {"message": "word " * 700}}
    with Elsewhere(*[long] * 8, TERM="dumb", ASKER_LIMIT="0.2") as there:
        assert there.replies() == [["late", {}, 0]] * 8


def test_a_line_that_a_terminal_cannot_hold_is_not_half_taken() -> None:
    """Without keys of our own the terminal keeps 4,095 bytes of a line, and drops the rest
    unseen.
    """
    with Asked("input", {"prompt": "Name?"}, TERM="dumb") as screen:
        ready(screen, "dumb")
        for _ in range(8):
            screen.press("x" * 1000)
        screen.press(ENTER)
        screen.until("more than this terminal takes in one line (4094 characters)")
        screen.until("Answer: ")
        screen.press("short", ENTER)
        assert screen.reply() == ["accepted", {"value": "short"}, 0]


@pytest.mark.anyio
async def test_of_two_programs_at_one_terminal_one_waits_until_the_other_has_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    replies: list[Json] = []
    prompt = r"cancels\)\s+Answer: "

    async def ask(words: str, **more: Json) -> None:
        asked: Json = {"method": "elicitation/input", "params": {"prompt": words, **more}}
        question = decode_question(asked, id=words, origin="https://app.example")
        replies.append((await Terminal(tty.name).prompt(question, NO_CONTEXT)).content)

    with Tty() as tty:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(ask, "Key?", sensitive=True))
            await to_thread.run_sync(tty.until, prompt)
            tasks.start_soon(ask, "Nickname?")
            await anyio.wait_all_tasks_blocked()
            assert tty.now() == ""
            tty.type("hunter2")
            shown = await to_thread.run_sync(tty.until, prompt)
            tty.type("Ada")
    assert replies == [{"value": "hunter2"}, {"value": "Ada"}]
    assert "hunter2" not in shown
