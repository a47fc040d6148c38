"""A question at a terminal, by real keys on a pseudo-terminal: with arrow keys, and line by line where the cursor cannot be moved."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from screen import BACKSPACE, CTRL_C, CTRL_D, DOWN, ENTER, ESCAPE, SPACE, UP, Screen

from abp_bridge.core.question import Kind, Question
from abp_bridge.hosts.contract import SurfaceRefused
from abp_bridge.hosts.terminal import Terminal

Json = Any

ASKER = str(Path(__file__).with_name("asker.py"))
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "März"]


class Asking(Screen):
    """A screen on which questions are asked."""

    def __init__(self, *requests: Json, **env: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        super().__init__([sys.executable, ASKER, *map(json.dumps, requests)], {**kept, **env})
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

    def __init__(self, method: str, params: Json, **env: str) -> None:
        super().__init__({"method": f"elicitation/{method}", "params": params}, **env)


def ready(screen: Asked, term: str) -> None:
    """Wait until keys count: what was typed before the question was there is thrown away."""
    screen.until("Ctrl-C cancels" if term == "dumb" else "Esc cancels")
    if term == "dumb":
        screen.until(": ")


def test_who_asks_comes_before_what_is_asked() -> None:
    with Asked("input", {"prompt": "What is\nyour name?"}) as screen:
        screen.until("What is")
        screen.until("your name?")


def test_text_is_given_as_it_was_typed(term: str) -> None:
    with Asked("input", {"prompt": "Name?", "schema": {"type": "string"}}, TERM=term) as screen:
        ready(screen, term)
        screen.press(" Zoë O'Hara ", ENTER)
        assert screen.reply() == ["accepted", {"value": " Zoë O'Hara "}, 0]


def test_what_does_not_fit_is_refused_at_the_prompt_with_the_reason(term: str) -> None:
    with Asked("input", {"prompt": "Mail?", "schema": {"type": "string", "format": "email"}}, TERM=term) as screen:
        ready(screen, term)
        screen.press("nope", ENTER)
        screen.until('must be an e-mail address, not "nope"')
        ready(screen, term) if term != "dumb" else screen.until(": ")
        screen.press(*(BACKSPACE * 4 if term != "dumb" else ""), "a@b.org", ENTER)
        assert screen.reply() == ["accepted", {"value": "a@b.org"}, 0]


def test_a_default_is_there_and_counts_when_enter_is_pressed(term: str) -> None:
    with Asked("input", {"prompt": "How many?", "schema": {"type": "integer", "default": 2}}, TERM=term) as screen:
        ready(screen, term)
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"value": "2"}, 0]


def test_a_number_is_asked_again_until_it_is_one(term: str) -> None:
    with Asked("input", {"prompt": "How much?", "schema": {"type": "number", "maximum": 5}}, TERM=term) as screen:
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


def test_yes_or_no_by_number() -> None:
    with Asked("confirm", {"message": "Delete it?", "destructive": True}, TERM="dumb") as screen:
        screen.until("1) No")
        screen.until("2) Yes")
        screen.until("Number: ")
        screen.press(ENTER)
        screen.until("must be one number from 1 to 3")
        screen.until("Number: ")
        screen.press("2", ENTER)
        assert screen.reply() == ["accepted", {"confirmed": True}, 0]


def test_an_option_is_chosen_with_the_arrow_keys_from_the_default_on() -> None:
    with Asked("select", {"prompt": "Season?", "options": ["spring", "summer", "autumn"], "default": "summer"}) as screen:
        screen.until("» summer (default)")
        screen.until("Decline to answer")
        screen.press(DOWN, ENTER)
        screen.until("Choice: autumn")
        assert screen.reply() == ["accepted", {"selected": "autumn"}, 0]


def test_what_an_option_means_is_shown_when_it_is_pointed_at() -> None:
    options = [{"value": 1, "label": "One", "description": "the first"}, {"value": 2, "label": "Two", "description": "the second"}]
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
        screen.press("m", "ä")
        screen.until("/ mä")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"selected": "März"}, 0]


def test_enter_on_a_search_that_finds_nothing_chooses_nothing() -> None:
    with Asked("select", {"prompt": "Month?", "options": MONTHS}) as screen:
        screen.until("Decline to answer")
        screen.press("x", "y")
        screen.until("y...")
        screen.press(ENTER, BACKSPACE, BACKSPACE, "A", "p", "r", "i", "l")
        screen.until("April")
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"selected": "April"}, 0]


def test_an_option_is_chosen_by_its_number() -> None:
    with Asked("select", {"prompt": "Month?", "options": MONTHS, "default": "May"}, TERM="dumb") as screen:
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


MULTI = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2, "default": ["a"]}


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
        for wrong, why in (("1,2,3", "at most 2"), ("0", "at least 1"), ("4", "numbers from 1 to 3")):
            screen.press(wrong, ENTER)
            screen.until(why)
            screen.until("Answer [1]: ")
        screen.press("2, 3", ENTER)
        assert screen.reply() == ["accepted", {"value": ["b", "c"]}, 0]


def test_many_options_are_searched_and_marked() -> None:
    schema = {"type": "array", "items": {"enum": MONTHS}}
    with Asked("input", {"prompt": "Which months?", "schema": schema}) as screen:
        screen.until("○ März")
        screen.press("A", "p", SPACE, BACKSPACE, BACKSPACE, "y")
        screen.until("/ y")
        screen.press(ENTER)
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
        screen.until("As in the passport")
        screen.until("Their name:")
        screen.press("Grace", ENTER)
        screen.until("Enter alone leaves it out")
        screen.until("phone:")
        screen.press(ENTER)
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


@pytest.mark.parametrize(("keys", "ending"), [([ENTER], ["accepted", {}, 0]), ([DOWN, ENTER], ["declined", {}, 0])])
def test_a_form_without_fields_asks_for_consent(keys: list[str], ending: Json) -> None:
    with Asking({"message": "May I?", "requestedSchema": {"type": "object", "properties": {}}}) as screen:
        screen.until("Accept")
        screen.until("Decline to answer")
        screen.press(*keys)
        assert screen.reply() == ending


def test_questions_that_come_together_are_asked_one_after_the_other() -> None:
    first, second = ({"method": "elicitation/input", "params": {"prompt": prompt}} for prompt in ("First?", "Second?"))
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


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [Kind.SAMPLING])
async def test_what_is_no_form_is_refused(kind: Kind) -> None:
    with pytest.raises(SurfaceRefused):
        await Terminal().ask(Question("q", kind, "A photo?", (), "app"))


def test_a_secret_is_never_on_the_screen(term: str) -> None:
    with Asked("input", {"prompt": "Your password?", "schema": {"type": "string", "default": "hunter1"}}, TERM=term) as screen:
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
@pytest.mark.parametrize(("key", "ending"), [(CTRL_D, ["declined", {}, 0]), (CTRL_C, ["cancelled", {}, 1]), (ESCAPE, ["cancelled", {}, 0])])
def test_every_kind_can_be_declined_and_cancelled(method: str, params: Json, key: str, ending: Json) -> None:
    with Asked(method, params) as screen:
        screen.until("Esc cancels")
        screen.press(key)
        assert screen.reply() == ending


@pytest.mark.parametrize(("key", "ending"), [(CTRL_D, ["declined", {}, 0]), (CTRL_C, ["cancelled", {}, 1])])
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
    with Asked("confirm", {"message": "Sure?"}, **({"NO_COLOR": "1"} if how == "NO_COLOR" else {"TERM": "dumb"})) as screen:
        screen.until("Decline to answer")
        if how == "dumb":
            screen.until(": ")
        screen.press(CTRL_D)
        screen.reply()
        assert b"\x1b[1;36m" not in screen.raw
        assert b"[36" not in screen.raw
