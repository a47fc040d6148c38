"""A question at a terminal, by real keys on a pseudo-terminal: with arrow keys, and line by line
where the cursor cannot be moved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import anyio
import pytest
from anyio import to_thread
from anyio.from_thread import start_blocking_portal
from support.harness import environment
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
    Watched,
)

from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.question import Kind, Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.mcp.server_elicitation import decode_form
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.session.surface import SurfaceUnsupportedError
from abp_bridge.surfaces.terminal.surface import Terminal

Json = Any

MONTHS = [
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "März"),
]


def question(method: str, **params: Json) -> Question:
    raw: Json = {"method": f"elicitation/{method}", "params": params}
    return decode_question(raw, id="q", origin="https://app.example")


class Asked(Watched):
    """A terminal at which a bridge asks `questions`, in a thread."""

    def __init__(self, *questions: Question, columns: int = 100, **env: str) -> None:
        super().__init__(columns, rows=60)
        self._questions, self._env = questions, env

    def __enter__(self) -> Self:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"TERM": "xterm-256color", **self._env}.items():
                patch.setenv(name, value)
            self.terminal = Terminal(self.name)
        self._stack = ExitStack()
        self.portal = self._stack.enter_context(start_blocking_portal())
        self.asking = [
            self.portal.start_task_soon(self.terminal.prompt, each, NO_CONTEXT)
            for each in self._questions
        ]
        return self

    def __exit__(self, *problem: object) -> None:
        for each in self.asking:
            each.cancel()
        self._stack.close()
        self.was_restored = self.fd < 0 or self.restored
        with suppress(OSError):
            os.close(self.terminal._device.fd)
        if self.fd >= 0:
            self.hang_up()

    def reply(self, number: int = 0) -> list[Json]:
        """The outcome and the content of the answer to a question."""
        given = self.asking[number].result(PATIENCE)
        assert self.restored
        return [given.outcome.value, dict(given.content)]

    def until_ready(self) -> None:
        """Wait until keys count: what was typed before the question was there is thrown away."""
        if self.terminal._device.moves:
            self.until("Esc cancels")
        else:
            self.until("Ctrl-C cancels")
            self.until(": ")


@pytest.fixture(params=["xterm-256color", "dumb"])
def term(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- answers --------------------------------------------------------------------------------------

Steps = Sequence[tuple[str, tuple[str, ...]]]  # what is shown, and the keys that are pressed then

MULTI = {
    "type": "array",
    "items": {"type": "string", "enum": ["a", "b", "c"]},
    "minItems": 1,
    "maxItems": 2,
    "default": ["a"],
}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Their name", "description": "As in the passport"},
        "phone": {"type": "string"},
        "size": {"enum": ["s", "l"]},
    },
    "required": ["name"],
}
CONTACT = {
    "type": "object",
    "properties": {"mail": {"type": "string"}, "phone": {"type": "string"}},
    "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
}
EXPRESS = {"type": "object", "properties": {"express": {"type": "boolean"}}}
ONE_TWO = [
    {"value": 1, "label": "One", "description": "the first"},
    {"value": 2, "label": "Two", "description": "the second"},
]

BY_KEYS: Mapping[str, tuple[Question, Steps, Json]] = {
    "a destructive confirm has its safe answer first": (
        question("confirm", message="Delete it?", destructive=True),
        [("cannot be undone", ()), ("Decline to answer", (ENTER,))],
        {"confirmed": False},
    ),
    "an option's description is shown when it is pointed at": (
        question("select", prompt="Which?", options=ONE_TWO),
        [("Description: the first", (DOWN,)), ("second", (ENTER,))],
        {"selected": "2"},
    ),
    "a long list is searched in any letters": (
        question("select", prompt="Month?", options=MONTHS),
        [("letters search", ()), ("Decline to answer", ("mä",)), ("/ mä", (ENTER,))],
        {"selected": "März"},
    ),
    "a search that finds nothing chooses nothing": (
        question("select", prompt="Month?", options=MONTHS),
        [
            ("Decline to answer", ("x",)),
            ("x...", ("y",)),
            ("y", (ENTER, BACKSPACE, BACKSPACE, *"April")),
            ("April", (ENTER,)),
        ],
        {"selected": "April"},
    ),
    "multiple choice within its limits": (
        question("input", prompt="Which ones?", schema=MULTI),
        [
            ("● a", ()),
            ("○ c", (DOWN, SPACE, DOWN, SPACE, ENTER)),
            ("must name at most 2", ()),
            ("● c", (UP, UP, SPACE, ENTER)),
            ("Answer: b, c", ()),
        ],
        {"value": ["b", "c"]},
    ),
    "fields that do not fit together are asked again": (
        question("input", prompt="How can we reach you?", schema=CONTACT),
        [
            ("mail:", (ENTER,)),
            ("phone:", (ENTER,)),
            ("fits none of 2 allowed forms", ()),
            ("Esc cancels", ()),
            ("mail:", ("a@b.org", ENTER)),
            ("Esc cancels", ()),
            ("phone:", (ENTER,)),
        ],
        {"mail": "a@b.org"},
    ),
    "an optional yes or no has no default": (
        question("input", prompt="How?", schema=EXPRESS),
        [("» Leave this out", ()), ("Decline to answer", (ENTER,))],
        {},
    ),
    "keys typed before the next field are discarded": (
        question("input", prompt="Who?", schema=FORM),
        [
            ("Their name:", ("Grace\rtoo fast\r\r",)),
            ("phone:", ("123", ENTER)),
            ("Decline to answer", (ENTER,)),
        ],
        {"name": "Grace", "phone": "123", "size": "s"},
    ),
}
BY_LINES: Mapping[str, tuple[Question, Steps, Json]] = {
    "an option by its number": (
        question("select", prompt="Month?", options=MONTHS, default="May"),
        [
            ("12) März", ()),
            *(
                step
                for wrong in ("0", "14", "März", "1,2")
                for step in (
                    ("Number [5]: ", (wrong, ENTER)),
                    ("must be one number from 1 to 13", ()),
                )
            ),
            ("Number [5]: ", ("12", ENTER)),
        ],
        {"selected": "März"},
    ),
    "multiple choice by numbers": (
        question("input", prompt="Which ones?", schema=MULTI),
        [
            ("Answer [1]: ", ("1,2,3", ENTER)),
            ("at most 2", ()),
            ("Answer [1]: ", ("0", ENTER)),
            ("at least 1", ()),
            ("Answer [1]: ", ("4", ENTER)),
            ("numbers from 1 to 3", ()),
            ("Answer [1]: ", ("2, 3", ENTER)),
        ],
        {"value": ["b", "c"]},
    ),
    **{
        f"yes or no by {typed!r}": (
            question("confirm", message="Delete it?", destructive=True),
            [
                ("1) No, do not", ()),
                ("2) Delete", ()),
                ("Number: ", (ENTER,)),
                ("must be one number from 1 to 3, or y or n", ()),
                ("Number: ", (typed, ENTER)),
            ],
            {"confirmed": confirmed},
        )
        for typed, confirmed in {"2": True, "YES ": True, "n": False}.items()
    },
    # The terminal itself keeps 4,095 bytes of a line, and drops the rest.
    "a line that is too long is asked for again": (
        question("input", prompt="Name?"),
        [
            ("Ctrl-C cancels", ()),
            ("Answer: ", (*["x" * 1000] * 8, ENTER)),
            ("more than this terminal takes in one line (4094 characters)", ()),
            ("Answer: ", ("short", ENTER)),
        ],
        {"value": "short"},
    ),
}


def check_answer(case: tuple[Question, Steps, Json], term: str) -> None:
    asked, steps, content = case
    with Asked(asked, TERM=term) as screen:
        for seen, keys in steps:
            screen.until(seen)
            screen.press(*keys)
        assert screen.reply() == ["accepted", content]


@pytest.mark.parametrize("case", BY_KEYS.values(), ids=BY_KEYS)
@pytest.mark.slow
def test_question_is_answered_by_keys(case: tuple[Question, Steps, Json]) -> None:
    check_answer(case, "xterm-256color")


@pytest.mark.parametrize("case", BY_LINES.values(), ids=BY_LINES)
def test_question_is_answered_by_lines(case: tuple[Question, Steps, Json]) -> None:
    check_answer(case, "dumb")


TYPED: Mapping[str, tuple[Json, str, str]] = {
    "text": ({"type": "string"}, " Zoë O'Hara ", " Zoë O'Hara "),
    "the default": ({"type": "integer", "default": 2}, "", "2"),
    "nested data": ({"type": "object", "required": ["a"]}, '{"a": [1, 2]}', '{"a": [1, 2]}'),
}


@pytest.mark.parametrize(("schema", "typed", "value"), TYPED.values(), ids=TYPED)
def test_text_is_accepted_as_typed(schema: Json, typed: str, value: str, term: str) -> None:
    with Asked(question("input", prompt="What?", schema=schema), TERM=term) as screen:
        screen.until_ready()
        screen.press(typed, ENTER)
        assert screen.reply() == ["accepted", {"value": value}]


@pytest.mark.parametrize(
    ("schema", "wrong", "why", "right"),
    [
        (
            {"type": "string", "format": "email"},
            "nope",
            'must be an e-mail address, not "nope"',
            "a@b.org",
        ),
        ({"type": "number", "maximum": 5}, "many", 'must be a number, not "many"', "4.5"),
    ],
    ids=["mail", "number"],
)
@pytest.mark.slow
def test_invalid_text_is_rejected_at_the_prompt_with_the_reason(
    schema: Json, wrong: str, why: str, right: str, term: str
) -> None:
    with Asked(question("input", prompt="What?", schema=schema), TERM=term) as screen:
        screen.until_ready()
        screen.press(wrong, ENTER)
        screen.until(why)
        if term == "dumb":
            screen.until(": ")
        else:
            screen.until_ready()
            screen.press(*(BACKSPACE * 4))
        screen.press(right, ENTER)
        assert screen.reply() == ["accepted", {"value": right}]


@pytest.mark.parametrize(
    ("keys", "ending"),
    [
        ((ENTER,), ["accepted", {"confirmed": True}]),
        ((DOWN, ENTER), ["accepted", {"confirmed": False}]),
        ((DOWN, DOWN, ENTER), ["declined", {}]),
    ],
)
@pytest.mark.slow
def test_form_without_fields_asks_for_consent(keys: tuple[str, ...], ending: Json) -> None:
    form: Json = {"message": "May I?", "requestedSchema": {"type": "object", "properties": {}}}
    with Asked(decode_form(form, id="q", origin="https://app.example")) as screen:
        screen.until("» Yes")
        screen.until("Decline to answer")
        screen.press(*keys)
        assert screen.reply() == ending


def test_questions_at_the_same_time_are_asked_one_after_the_other() -> None:
    both = [question("input", prompt=prompt) for prompt in ("First?", "Second?")]
    with Asked(*both) as screen:
        screen.until("First?")
        screen.until("Answer:")
        assert "Second?" not in screen.shown
        screen.press("1", ENTER)
        assert "Answer: 1" in screen.until("Second?")
        screen.until("Esc cancels")
        screen.press("2", ENTER)
        assert screen.reply(1) == ["accepted", {"value": "2"}]
        assert screen.reply(0) == ["accepted", {"value": "1"}]


# --- decline and cancel ---------------------------------------------------------------------------

KINDS = {
    "text": question("input", prompt="Name?"),
    "confirm": question("confirm", message="Sure?"),
    "search": question("select", prompt="Month?", options=MONTHS),
    "multiple choice": question("input", prompt="Which ones?", schema=MULTI),
}
SECRET = question("input", prompt="What?", sensitive=True)
ENDINGS = {CTRL_D: "declined", CTRL_C: "cancelled", ESCAPE: "cancelled"}


@pytest.mark.parametrize("key", ENDINGS, ids=["Ctrl-D", "Ctrl-C", "Esc"])
@pytest.mark.parametrize("asked", KINDS.values(), ids=KINDS)
@pytest.mark.slow
def test_every_kind_is_declined_and_cancelled_by_a_key(asked: Question, key: str) -> None:
    with Asked(asked) as screen:
        screen.until_ready()
        screen.press(key)
        assert screen.reply() == [ENDINGS[key], {}]
        assert screen.terminal.interrupts == (key == CTRL_C)


@pytest.mark.parametrize("key", [CTRL_D, CTRL_C], ids=["Ctrl-D", "Ctrl-C"])
@pytest.mark.parametrize("asked", [KINDS["text"], SECRET], ids=["text", "secret"])
def test_lines_are_declined_and_cancelled_by_a_key(asked: Question, key: str) -> None:
    with Asked(asked, TERM="dumb") as screen:
        screen.until_ready()
        screen.press(*(["Ad"] if key == CTRL_C else []), key)
        assert screen.reply() == [ENDINGS[key], {}]


def test_ctrl_d_declines_despite_what_was_typed(term: str) -> None:
    asked = question("confirm", message="Delete all files?", destructive=True)
    with Asked(asked, TERM=term) as screen:
        screen.until_ready()
        screen.press("2", CTRL_D)
        assert screen.reply() == ["declined", {}]


def test_select_has_an_option_to_decline(term: str) -> None:
    with Asked(question("select", prompt="Which?", options=["a", "b"]), TERM=term) as screen:
        screen.until_ready()
        screen.press("3" if term == "dumb" else UP, ENTER)
        assert screen.reply() == ["declined", {}]


def test_declining_one_field_declines_the_question() -> None:
    with Asked(question("input", prompt="Who?", schema=FORM)) as screen:
        screen.until_ready()
        screen.press("Grace", ENTER)
        screen.until("phone:")
        screen.press(CTRL_D)
        assert screen.reply() == ["declined", {}]


def test_withdrawn_question_is_marked_and_the_terminal_restored(term: str) -> None:
    with Asked(question("input", prompt="Password?"), TERM=term) as screen:
        screen.until_ready()
        screen.asking[0].cancel()
        screen.until("(withdrawn)")
    assert screen.was_restored


# --- what is shown --------------------------------------------------------------------------------

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
@pytest.mark.slow
def test_title_of_the_only_field_is_shown_once(schema: Json, term: str) -> None:
    asked = question("input", prompt="Please answer.", schema=schema)
    with Asked(asked, TERM=term) as screen:
        screen.until_ready()
        assert screen.shown.count("Erase the whole disk") == 1


def test_title_that_repeats_the_question_is_not_shown() -> None:
    schema = {"type": "boolean", "title": "A window seat"}
    asked = question("input", prompt="A window seat?", schema=schema)
    with Asked(asked, TERM="dumb") as screen:
        screen.until_ready()
        assert screen.shown.count("A window seat") == 1


def test_field_with_a_default_is_not_said_to_be_left_out() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}}}
    with Asked(question("input", prompt="Who?", schema=schema)) as screen:
        screen.until_ready()
        screen.press(ENTER)
        assert screen.reply() == ["accepted", {"name": "Ada"}]
    assert "leaves it out" not in screen.shown


def test_origin_is_shown_before_every_line_of_the_question() -> None:
    with Asked(question("input", prompt="What is\nyour name?")) as screen:
        screen.until("● https://app.example asks")
        screen.until("What is")
        screen.until("your name?")


@pytest.mark.slow
def test_hint_wraps_between_words_on_a_narrow_terminal(term: str) -> None:
    asked = question("select", message="Which?", options=["a", "b"])
    with Asked(asked, columns=40, TERM=term) as screen:
        shown = screen.until("cancels")
        assert "Ctrl-D declines" in " ".join(shown.split())


def test_notice_of_the_app_is_shown_above_the_open_prompt() -> None:
    with Asked(question("input", prompt="Name?")) as screen:
        screen.until_ready()
        screen.portal.call(screen.terminal.say, "the app told something")
        screen.until("the app told something")
        screen.until_ready()
        screen.press("Ada", ENTER)
        assert screen.reply() == ["accepted", {"value": "Ada"}]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_no_colour_with_no_color_or_a_dumb_terminal(env: Json) -> None:
    with Asked(question("confirm", message="Sure?"), **env) as screen:
        screen.until_ready()
        screen.press(CTRL_D)
        screen.reply()
        assert b"\x1b[1;36m" not in screen.raw
        assert b"[36" not in screen.raw


# --- secrets --------------------------------------------------------------------------------------


def test_secret_is_never_shown(term: str) -> None:
    schema = {"type": "string", "default": "hunter1"}
    asked = question("input", prompt="Your password?", schema=schema)
    with Asked(asked, TERM=term) as screen:
        screen.until_ready()
        screen.press("hunter2", ENTER)
        assert screen.reply() == ["accepted", {"value": "hunter2"}]
        screen.until("••••••")
        assert "hunter" not in screen.shown


def test_invalid_secret_is_not_shown_in_its_problem(term: str) -> None:
    schema = {"type": "string", "format": "email"}
    asked = question("input", prompt="Your password?", schema=schema)
    with Asked(asked, TERM=term) as screen:
        screen.until_ready()
        screen.press("hunter2", ENTER)
        screen.until("must be an e-mail address")
        screen.until(": ") if term == "dumb" else screen.until_ready()
        screen.press("hunter@2.org", ENTER)
        assert screen.reply() == ["accepted", {"value": "hunter@2.org"}]
        assert "hunter" not in screen.shown


# --- files ----------------------------------------------------------------------------------------


def give(screen: Asked, term: str, *typed: str) -> None:
    """Type a file's name in place of the one that is there."""
    screen.press(*(["\x15"] if term != "dumb" else []), *typed, ENTER)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose name fits a line of the terminal."""
    with tempfile.TemporaryDirectory(prefix="f-") as name:
        monkeypatch.setenv("HOME", name)
        yield Path(name)


@pytest.mark.slow
def test_file_is_named_again_until_it_is_accepted(term: str, folder: Path) -> None:
    (folder / "report.json").write_text('{"a": 1}')
    with open(folder / "huge.json", "wb") as huge:
        huge.truncate(MAX_SIZE + 1)
    (folder / "notes.txt").write_text("x")
    os.mkfifo(folder / "pipe.json")
    wrong = {
        "none.json": "there is no file none.json there",
        "": "is a folder; give a file in it",
        "huge.json": f"huge.json is too large: at most {MAX_SIZE} bytes can be given",
        "notes.txt": "notes.txt is text/plain; it must be application/json",
        "pipe.json": "pipe.json is no file",
    }
    asked = question("resource", prompt="The report?", type="application/json")
    with Asked(asked, TERM=term) as screen:
        screen.until_ready()
        for name, why in wrong.items():
            give(screen, term, f"{folder}/{name}")
            screen.until(why)
            screen.until("File:")
        give(screen, term, "~/report.json")
        screen.until("File: report.json (application/json)")
        content = {"content": '{"a": 1}', "mimeType": "application/json", "filename": "report.json"}
        assert screen.reply() == ["accepted", {"file": content}]


def test_name_of_a_dropped_file_may_be_quoted(folder: Path) -> None:
    (folder / "two words.txt").write_text("hello")
    with Asked(question("resource", prompt="Notes?")) as screen:
        screen.until("File:")
        screen.press(f"'{folder}/two words.txt' ", ENTER)
        assert screen.reply()[1]["file"]["content"] == "hello"


async def test_model_question_is_not_asked_at_a_terminal() -> None:
    with pytest.raises(SurfaceUnsupportedError, match="not a model"):
        await Terminal().prompt(Question("q", Kind.SAMPLING, "A poem", (), "app"), NO_CONTEXT)


# --- the terminal itself --------------------------------------------------------------------------


def test_named_terminal_without_term_can_move_its_cursor() -> None:
    with Asked(KINDS["confirm"], TERM="") as screen:
        screen.until("Esc cancels")


@pytest.mark.slow
def test_closed_terminal_refuses_its_questions_with_what_to_do(term: str) -> None:
    with Asked(*[KINDS["confirm"]] * 2, TERM=term) as screen:
        screen.until_ready()
        screen.hang_up()
        for each in screen.asking:
            with pytest.raises(SurfaceUnsupportedError, match=r"has gone\. Start again with"):
                each.result(PATIENCE)


@pytest.mark.slow
async def test_stopped_terminal_does_not_block_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody reads what is written there."""
    monkeypatch.setenv("TERM", "dumb")
    with Tty() as tty:
        terminal = Terminal(tty.name)
        for _ in range(8):
            with anyio.move_on_after(0.02) as limit:
                await terminal.prompt(question("confirm", message="word " * 700), NO_CONTEXT)
            assert limit.cancelled_caught
        os.close(terminal._device.fd)


@pytest.mark.process  # which waits for the lock
async def test_second_program_at_a_terminal_waits_until_the_first_has_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    replies: list[Json] = []
    prompt = r"cancels\)\s+Answer: "

    async def ask(asked: Question) -> None:
        terminal = Terminal(tty.name)
        replies.append((await terminal.prompt(asked, NO_CONTEXT)).content)
        os.close(terminal._device.fd)

    with Tty() as tty:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, question("input", prompt="Key?", sensitive=True))
            await to_thread.run_sync(tty.until, prompt)
            tasks.start_soon(ask, question("input", prompt="Nickname?"))
            await anyio.wait_all_tasks_blocked()
            assert tty.now() == ""
            tty.type("hunter2")
            shown = await to_thread.run_sync(tty.until, prompt)
            tty.type("Ada")
    assert replies == [{"value": "hunter2"}, {"value": "Ada"}]
    assert "hunter2" not in shown


# --- the terminal of the process ------------------------------------------------------------------


def asked_on_stdio(asked: Json, term: str) -> Screen:
    asker = [sys.executable, str(TESTS / "support" / "asker.py"), json.dumps(asked)]
    return Screen(asker, {**environment(), "TERM": term})


@pytest.mark.process
@pytest.mark.terminal
def test_question_on_stdin_and_stdout(term: str) -> None:
    asked = {"method": "elicitation/input", "params": {"prompt": "Your password?"}}
    with asked_on_stdio(asked, term) as screen:
        screen.until("Ctrl-C cancels" if term == "dumb" else "Esc cancels")
        screen.until("Answer:")
        screen.press("hunter2", ENTER)
        screen.until("REPLY ")
        assert screen.end() == 0
        assert screen.restored
        before, _, reply = screen.shown.partition("REPLY ")
        assert json.loads(reply.splitlines()[0]) == ["accepted", {"value": "hunter2"}, 0]
        assert "hunter" not in before


@pytest.mark.process
@pytest.mark.terminal
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGINT"])
def test_ctrl_c_and_sigint_cancel_a_question_on_stdin(how: str) -> None:
    asked = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}
    with asked_on_stdio(asked, "xterm-256color") as screen:
        screen.until("Decline to answer")
        screen.press(CTRL_C) if how == "Ctrl-C" else screen.process.send_signal(signal.SIGINT)
        screen.until('REPLY ["cancelled", {}, 1]')
        assert screen.end() == 0
        assert screen.restored
