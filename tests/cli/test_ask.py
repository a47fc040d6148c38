"""`abp-bridge ask` through its public door: each method on the terminal, the page and written
answers, and a stream of requests on its pipes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any, Self

import pytest
from support.browser import Browser
from support.harness import PATIENCE, environment
from support.terminal import CTRL_C, DOWN, ENTER, ESCAPE, Screen, Tty

Json = Any

ASK = [sys.executable, "-m", "abp_bridge", "ask"]
KEY = "planted-key-7f3a"


def ask(*words: str, stdin: bytes | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run to the end, with no terminal anywhere."""
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        [*ASK, *words],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        start_new_session=True,
        env=environment(**env),
        **given,
    )


def written(folder: Path, *entries: Json) -> str:
    path = folder / "answers.json"
    path.write_text(json.dumps(entries))
    return str(path)


# --- on written answers ---------------------------------------------------------------------------

METHODS: list[tuple[list[str], Json, Json]] = [
    (["elicitation/input", '{"prompt": "Name?"}'], "Ada", {"value": "Ada"}),
    (["input", "Name?"], "Ada", {"value": "Ada"}),
    (["preference", "Seat?", "aisle"], "window", {"value": "window"}),
    (["confirm", "Go on?"], False, {"confirmed": False}),
    (["select", "Season?", "spring", "summer"], "summer", {"selected": "summer"}),
    (
        ["resource", "Notes?", "text/plain"],
        {"file": "notes.txt"},
        {"content": "hello", "mimeType": "text/plain", "filename": "notes.txt"},
    ),
    (["sampling", "A poem"], {"result": "Roses"}, {"result": "Roses"}),
    (["sampling/create", '{"task": "A poem"}'], {"result": {"lines": 4}}, {"result": {"lines": 4}}),
]


@pytest.mark.parametrize(
    ("words", "entry", "data"), METHODS, ids=[" ".join(row[0]) for row in METHODS]
)
def test_every_method_is_answered_from_a_file(
    tmp_path: Path, words: list[str], entry: Json, data: Json
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    ended = ask(*words, "--on", "mock", "--answers", written(tmp_path, entry))
    assert (ended.returncode, ended.stderr) == (0, b"")
    response = json.loads(ended.stdout)
    assert response["data"] == data
    assert response["metadata"]["answeredBy"] == "script"


TINT = {
    "type": "object",
    "properties": {"tint": {"$ref": "#/$defs/tint"}},
    "$defs": {"tint": {"enum": ["red", "green"]}},
}


def test_what_a_reference_stands_for_is_asked_and_checked(tmp_path: Path) -> None:
    request = ["input", json.dumps({"prompt": "Tint?", "schema": TINT}), "--on", "mock"]
    answers = written(tmp_path, {"content": {"tint": "mud"}})
    response = json.loads(ask(*request, "--answers", answers).stdout)
    assert (response["success"], response["error"]["code"]) == (False, "NOT_SUPPORTED")
    assert 'tint must be one of "red", "green"' in response["error"]["message"]

    answers = written(tmp_path, {"content": {"tint": "green"}})
    response = json.loads(ask(*request, "--answers", answers).stdout)
    assert response["data"] == {"value": {"tint": "green"}}
    assert "unchecked" not in response["metadata"]


def test_a_schema_that_leads_back_to_itself_is_refused_with_its_reason(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    request = ["input", json.dumps({"prompt": "Tree?", "schema": schema})]
    ended = ask(*request, "--on", "mock", "--answers", written(tmp_path, "decline"))
    assert b"the schema's reference '#' leads back to itself" in ended.stdout + ended.stderr


def test_a_request_in_a_file_is_asked_with_its_own_time(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(
        json.dumps(
            {"method": "elicitation/confirm", "params": {"message": "Go on?"}, "timeout": 150}
        )
    )
    ended = ask(
        str(tmp_path / "request.json"),
        "--on",
        "mock",
        "--answers",
        written(tmp_path, {"action": "silence"}),
    )
    assert (ended.returncode, json.loads(ended.stdout)["error"]["code"]) == (1, "TIMEOUT")


def test_the_time_of_the_command_line_is_for_requests_that_name_none(tmp_path: Path) -> None:
    ended = ask(
        "confirm",
        "Go on?",
        "--timeout",
        "0.2",
        "--on",
        "mock",
        "--answers",
        written(tmp_path, {"action": "silence"}),
    )
    assert json.loads(ended.stdout)["error"]["message"] == "nobody answered within 0.2 s"


@pytest.mark.parametrize(
    ("entry", "code"),
    [("decline", 1), ("cancel", 1), ({"match": "other", "value": 1}, 1), (False, 0)],
)
def test_only_an_answer_is_a_success(tmp_path: Path, entry: Json, code: int) -> None:
    assert (
        ask("confirm", "Go on?", "--on", "mock", "--answers", written(tmp_path, entry)).returncode
        == code
    )


def test_a_named_file_is_read_when_its_folder_is_granted_and_leave_is_given(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    request = [
        "resource",
        json.dumps({"prompt": "Notes?", "uri": str(tmp_path / "notes.txt")}),
        "--on",
        "mock",
    ]
    answers = ["--answers", written(tmp_path, {"match": "May it read", "value": True})]
    assert (
        json.loads(ask(*request, "--root", str(tmp_path), *answers).stdout)["data"]["content"]
        == "hello"
    )
    assert json.loads(ask(*request, *answers).stdout)["error"]["code"] == "NOT_SUPPORTED"


# --- what is no question --------------------------------------------------------------------------

USAGE: list[tuple[list[str], str]] = [
    ([], "name what is asked: abp-bridge ask"),
    (
        ["frob"],
        (
            "'frob' is neither a method (input, preference, confirm, select, resource, sampling)"
            " nor a file that can be read"
        ),
    ),
    (["frob", "Go on?"], "'frob' is no method of ABP"),
    (["elicitation/choose", "Which?"], "is no method of ABP (is select meant?)"),
    (['{"prompt": "x"}'], "the method comes first, as in: abp-bridge ask input '{"),
    (["confirm", "{nope"], "the params: not JSON"),
    (["confirm"], 'give the message too, abp-bridge ask confirm "Go on?"'),
    (["confirm", "{}"], 'give the message too, abp-bridge ask confirm "Go on?"'),
    (["confirm", '{"destructive": true}'], "says nothing to whoever is asked"),
    (["confirm", ""], "says nothing to whoever is asked"),
    (["elicitation/input"], 'abp-bridge ask elicitation/input "Your name?"'),
    (["select"], 'abp-bridge ask select "Which season?" spring autumn'),
    (["sampling"], 'abp-bridge ask sampling "Sum this up"'),
    (["confirm", "{}", "more"], "after the params as JSON nothing else is expected"),
    (["confirm", "Go", "on?"], "is the message in quotes?"),
    (["confirm", "x", "--on", "mock"], "--on mock needs --answers FILE"),
    (["confirm", "x", "--on", "phone"], "invalid choice: 'phone'"),
    (["confirm", "x", "--timeout", "soon"], "must be a number of seconds, or have a unit"),
    (["confirm", "x", "--root", "/nonexistent"], "--root '/nonexistent' is no folder"),
    (["/etc/hostname"], "not JSON"),
    (["confirm", '{"mesage": "Go on?"}'], "the params have 'mesage', which is nothing; 'message'"),
    (["confirm", '{"message": "x", "destructve": true}'], "'destructive' is"),
    (["confirm", "x", "--as", "Abp-Bridge (secure)"], "abp-bridge cannot be who asks"),
    (["confirm", "x", "--onn", "page"], "--onn is no option (is --on meant?)"),
    (["select", "Which?"], "elicitation/select needs a list of at least one option"),
    (["confrim"], "nor a file that can be read: No such file or directory (is confirm meant?)"),
    (["confrim", "x"], "'confrim' is no method of ABP (is confirm meant?)"),
    (
        ["sampling", '{"tsak": "x"}'],
        "sampling says nothing to whoever is asked, and 'tsak' is noth",
    ),
    (
        ["preference", '{"message": "x", "defualt": 1}'],
        "the params have 'defualt', which is nothing",
    ),
    (["resource", '{"promt": "x"}'], "'prompt' is"),
    (
        ["select", '{"message": "x", "options": [{"value": "a", "lable": "b"}]}'],
        "an option has 'lable', which is nothing; 'label' is",
    ),
    (
        ["input", '{"schema": {"items": {"properties": {"a": {"minLenght": 2}}}}}'],
        "the schema has 'minLenght', which is nothing; 'minLength' is",
    ),
    (["-", "--exit-code"], "--exit-code is for one question"),
    (["-", "x"], "'ask -' takes its requests from stdin"),
]


@pytest.mark.parametrize(
    ("words", "said"), USAGE, ids=[" ".join(row[0]) or "nothing" for row in USAGE]
)
def test_what_is_no_question_says_what_would_be_one(words: list[str], said: str) -> None:
    ended = ask(*words)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert said in ended.stderr.decode()
    assert b"Traceback" not in ended.stderr


def boolean(**more: Json) -> str:
    return json.dumps({"prompt": "Deploy?", "schema": {"type": "boolean"}, **more})


FORM: Json = {
    "type": "object",
    "properties": {"deploy": {"type": "boolean"}},
    "required": ["deploy"],
}
ONE_OF_TWO: Json = {**FORM, "properties": {**FORM["properties"], "test": {"type": "boolean"}}}
NOES: dict[str, tuple[list[str], Json, int]] = {
    "a yes or no": (["input", boolean()], False, 3),
    "its yes": (["input", boolean()], True, 0),
    "a form of one": (["input", boolean(schema=FORM)], {"content": {"deploy": False}}, 3),
    "yes in a form of one": (["input", boolean(schema=FORM)], {"content": {"deploy": True}}, 0),
    "one no of several": (["input", boolean(schema=ONE_OF_TWO)], {"content": {"deploy": False}}, 0),
    "a preference": (["preference", boolean()], False, 3),
    "its default, declined": (["preference", boolean(default=True)], "decline", 3),
    "no number": (["preference", "How many?", "1"], "0", 0),
}


@pytest.mark.parametrize("what", NOES)
def test_every_yes_or_no_says_no_by_its_exit_code(what: str, tmp_path: Path) -> None:
    words, entry, code = NOES[what]
    ended = ask(*words, "--exit-code", "--on", "mock", "--answers", written(tmp_path, entry))
    assert ended.returncode == code, ended.stdout
    assert json.loads(ended.stdout)["success"]


def test_a_no_that_is_shown_as_dots_is_a_no() -> None:
    asked = json.dumps({"message": "Is it yours?", "sensitive": True})
    with Screen([*ASK, "--exit-code", "confirm", asked], environment(TERM="dumb")) as screen:
        screen.until("Number: ")
        screen.press("n", ENTER)
        screen.until('"confirmed": "••••••"')
        assert screen.end() == 3


ENDS = {"yes": (True, 0), "no": (False, 3), "declined": ("decline", 3), "cancelled": ("cancel", 1)}


@pytest.mark.parametrize("end", ENDS)
def test_an_exit_code_says_no_where_that_is_wanted(end: str, tmp_path: Path) -> None:
    entry, code = ENDS[end]
    (tmp_path / "answers.json").write_text(json.dumps([entry]))
    words = ["confirm", "Deploy?", "--on", "mock", "--answers", str(tmp_path / "answers.json")]
    assert ask(*words, "--exit-code").returncode == code
    assert json.loads(ask(*words).stdout)["success"] is (entry in (True, False))


def test_help_teaches_by_examples() -> None:
    helped = ask("--help").stdout.decode()
    for line in (
        'abp-bridge ask select "Which season?" spring summer autumn',
        "./program | abp-bridge ask -",
        "Exit code:\n  0  it was answered",
    ):
        assert line in helped


def test_no_terminal_is_said_with_what_to_do() -> None:
    ended = ask("confirm", "Go on?", "--on", "terminal")
    assert ended.returncode == 1
    why = json.loads(ended.stdout)["error"]["message"]
    assert "cannot be opened" in why
    assert "page: not set up (--on page)" in why
    assert b"to be asked: --on page: you are asked" in ended.stderr
    told = f"{why} {ended.stderr.decode()}"
    assert not re.search(r"--page open|--questions-api", told), "it has no such options"


@pytest.mark.parametrize("device", ["/dev/null", "/nonexistent", "."])
def test_what_is_no_terminal_is_said_with_what_to_do(device: str) -> None:
    ended = ask("confirm", "Go on?", "--on", "terminal", "--tty", device)
    assert ended.returncode == 1
    assert (
        "Type 'tty' in the terminal to use: it prints the name to give"
        in json.loads(ended.stdout)["error"]["message"]
    )


# --- on the terminal ------------------------------------------------------------------------------

HERE: list[tuple[list[str], str, list[str], Json]] = [
    (["input", "Name?"], "Answer:", ["Ada", ENTER], {"value": "Ada"}),
    (["preference", "Seat?", "aisle"], "Answer:", [ENTER], {"value": "aisle"}),
    (["confirm", "Go on?"], "Decline", [ENTER], {"confirmed": True}),
    (["select", "Season?", "spring", "summer"], "Decline", [DOWN, ENTER], {"selected": "summer"}),
    (["resource", "Host?"], "File:", ["/etc/hostname", ENTER], None),
]


@pytest.mark.parametrize(("words", "last", "keys", "data"), HERE, ids=[row[0][0] for row in HERE])
def test_a_person_at_the_terminal_is_asked(
    words: list[str], last: str, keys: list[str], data: Json
) -> None:
    with Screen([*ASK, *words], environment(TERM="xterm-256color")) as screen:
        screen.until("● this command asks")
        screen.until(last)
        screen.press(*keys)
        screen.until("{")
        assert screen.end() == 0
        assert screen.restored
    response = json.loads("{" + screen.shown[screen._seen :])
    assert data is None or response["data"] == data
    assert response["metadata"]["answeredBy"] == "person"


LIMITED: dict[str, Json] = {
    "A whole number, at least 1, at most 9": {"type": "integer", "minimum": 1, "maximum": 9},
    "A number, more than 0, a multiple of 0.5": {
        "type": "number",
        "exclusiveMinimum": 0,
        "multipleOf": 0.5,
    },
    "At least 2 characters, at most 4 characters, must match ^[A-Z]+$": {
        "type": "string",
        "minLength": 2,
        "maxLength": 4,
        "pattern": "^[A-Z]+$",
    },
    "A date (YYYY-MM-DD)": {"type": "string", "format": "date"},
    "Choose at least 1, at most 2": {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "minItems": 1,
        "maxItems": 2,
    },
    'JSON that fits {"type": "object"': {
        "type": "object",
        "properties": {"deep": {"type": "object", "properties": {"x": {"type": "string"}}}},
    },
}


@pytest.mark.parametrize("words", LIMITED)
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_what_an_answer_has_to_be_is_said_before_it_is_asked_for(words: str, term: str) -> None:
    params = json.dumps({"message": "What?", "schema": LIMITED[words]})
    with Screen([*ASK, "input", params], environment(TERM=term)) as screen:
        screen.until(words)
        screen.until("cancels")


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_each_field_of_several_is_named_before_its_options(term: str) -> None:
    fields: Json = {"name": {"type": "string"}, "seat": {"enum": ["aisle", "window"]}}
    schema = {"type": "object", "properties": fields}
    params = json.dumps({"message": "Your trip", "schema": schema})
    with Screen([*ASK, "input", params], environment(TERM=term)) as screen:
        screen.until("name:")
        screen.press("Ada", ENTER)
        screen.until("name: Ada")
        assert "seat" in screen.until("aisle")


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_title_that_the_question_has_said_is_not_said_again(term: str) -> None:
    params = json.dumps(
        {"message": "Your name?", "schema": {"type": "string", "title": "Your name"}}
    )
    with Screen([*ASK, "input", params], environment(TERM=term)) as screen:
        screen.until("cancels")
        screen.until("Answer:")
        screen.press("Ada", ENTER)
        assert screen.end() == 0
    assert screen.shown.count("Your name") == 1


def test_who_asks_can_be_named() -> None:
    with Screen(
        [*ASK, "--as", "deploy.sh", "confirm", "Go on?"], environment(TERM="xterm-256color")
    ) as screen:
        screen.until("● deploy.sh asks")
        screen.until("Decline")
        screen.press(ESCAPE)
        assert screen.end() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_quietly_and_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    with Screen([*ASK, "confirm", "Go on?"], environment(TERM="xterm-256color")) as screen:
        screen.until("Decline")
        screen.process.send_signal(number)
        assert screen.end() == 128 + number
        assert screen.restored
    assert "Traceback" not in screen.shown
    assert '"success"' not in screen.shown


@pytest.mark.parametrize(
    "script", ['"$@"', '"$@" < /dev/null 2>&1 > /dev/null | cat'], ids=["streams", "/dev/tty"]
)
def test_who_waits_for_another_program_at_the_terminal_says_so(script: str) -> None:
    command = ["sh", "-c", script, "sh", *ASK, "input", "Name?"]
    with Screen(command, environment(TERM="xterm-256color")) as screen:
        with open(screen.name, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            screen.until(f"waits until process {os.getpid()} has its answer at the same terminal")
            assert "Name?" not in screen.shown
        screen.until("Answer:")
        screen.press("Ada", ENTER)
        assert screen.end() == 0


def test_who_waits_for_another_program_at_the_terminal_can_leave() -> None:
    with Screen([*ASK, "confirm", "Go on?"], environment(TERM="xterm-256color")) as screen:
        with open(screen.name, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            screen.until("has its answer at the same terminal")
            screen.press(CTRL_C)
            assert screen.end() == 128 + signal.SIGINT
        with open(screen.name, "rb") as free:  # nobody is left who waits for it
            fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_signal_leaves_a_terminal_of_anothers_as_it_was() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with Asking("confirm", "Go on?", "--on", "terminal", "--tty", os.ttyname(theirs)) as asking:
        shown = b""
        while b"Decline" not in shown:
            assert select.select([ours], [], [], PATIENCE)[0], shown
            shown += os.read(ours, 65_536)
        assert termios.tcgetattr(theirs) != before
        asking.process.send_signal(signal.SIGTERM)
        assert asking.process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert (asking.stdout.read(), asking.stderr.read()) == (b"", b"")
    assert termios.tcgetattr(theirs) == before
    for fd in (ours, theirs):
        os.close(fd)


def test_a_secret_is_in_the_response_and_nowhere_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["sh", "-c", f'exec "$@" </dev/null >{out}', "sh", *ASK, "input", "Your API key?"]
    with Screen(command, environment(TERM="xterm-256color")) as screen:
        screen.until("Answer:")
        screen.press(KEY, ENTER)
        assert screen.end() == 0
    assert json.loads(out.read_text())["data"] == {"value": KEY}
    assert KEY not in screen.shown


@pytest.mark.parametrize(("more", "shown"), [([], False), (["--show"], True)])
def test_a_secret_is_not_printed_on_a_terminal_unless_asked_for(
    more: list[str], shown: bool
) -> None:
    with Screen([*ASK, "input", "Your API key?", *more], environment(TERM="dumb")) as screen:
        screen.until("Answer:")
        screen.press(KEY, ENTER)
        assert screen.end() == 0
    assert '"success": true' in screen.shown
    assert (KEY in screen.shown) is shown
    assert ('"value": "••••••"' in screen.shown) is not shown
    assert ("--show prints it" in screen.shown) is not shown


def test_in_a_form_only_the_secret_is_dots_on_a_terminal(tmp_path: Path) -> None:
    fields = {"user": {"type": "string"}, "db_pass": {"type": "string"}}
    params = json.dumps({"prompt": "Log in", "schema": {"type": "object", "properties": fields}})
    answers = written(tmp_path, {"content": {"user": "ada", "db_pass": KEY}})
    command = [*ASK, "input", params, "--on", "mock", "--answers", answers]
    with Screen(command, environment()) as screen:
        assert screen.end() == 0, screen.shown
    assert '"ada"' in screen.shown
    assert KEY not in screen.shown


# --- on the page ----------------------------------------------------------------------------------


class Asking:
    """A running `ask`, on pipes; what asks on the page has a terminal for its stderr, or no link
    would stand there.
    """

    def __init__(self, *words: str, stderr: int | None = None, **env: str) -> None:
        pipe = subprocess.PIPE
        ours, theirs = pty.openpty() if "page" in words and stderr is None else (-1, stderr)
        self.process = subprocess.Popen(
            [*ASK, *words],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe if theirs is None else theirs,
            start_new_session=True,
            env=environment(**env),
        )
        stderr_file = self.process.stderr
        if ours >= 0 and theirs is not None:
            os.close(theirs)
            # The block of this class closes it.
            stderr_file = open(ours, "rb", buffering=0)  # noqa: SIM115
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert stderr_file is not None
        self.stdin, self.stdout, self.stderr = (
            self.process.stdin,
            self.process.stdout,
            stderr_file,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()

    def link(self) -> tuple[str, str]:
        """The next link on stderr, and who asks."""
        line = self.stderr.readline().decode()
        said = re.search(
            r"abp-bridge: (.*) asks\. Answer at (http://127\.0\.0\.1:\d+/open/\S+)", line
        )
        assert said is not None, line
        return said[2], said[1]

    def rest(self) -> bytes:
        """What is left on stderr; a terminal that everybody left ends with an error."""
        with contextlib.suppress(OSError):
            return self.stderr.read()
        return b""

    def send(self, *messages: Json) -> None:
        for message in messages:
            self.stdin.write(json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def read(self) -> Json:
        ready, _, _ = select.select([self.stdout], [], [], PATIENCE)
        assert ready, "nothing was answered"
        return json.loads(self.stdout.readline())

    def end(self) -> int:
        """Close its stdin and wait: the exit code."""
        self.stdin.close()
        return self.process.wait(PATIENCE)


THERE: list[tuple[list[str], dict[str, str], Json]] = [
    (["input", "Name?"], {"field-0": "Ada"}, {"value": "Ada"}),
    (["preference", "Seat?", "aisle"], {"field-0": "window"}, {"value": "window"}),
    (["confirm", "Go on?"], {"action": "yes"}, {"confirmed": True}),
    (
        ["select", "Season?", "spring", "summer"],
        {"field-0": "1"},
        {"selected": "summer"},
    ),  # the second
]


@pytest.mark.parametrize(("words", "filled", "data"), THERE, ids=[row[0][0] for row in THERE])
def test_a_person_on_the_page_is_asked_at_the_printed_address(
    words: list[str], filled: dict[str, str], data: Json
) -> None:
    with Asking(*words, "--on", "page") as asking:
        url, who = asking.link()
        assert who == "this command"
        browser = Browser()
        assert words[1] in browser.open(url)
        browser.send(**filled)
        assert asking.read()["data"] == data
        assert asking.process.wait(PATIENCE) == 0


def test_who_reads_stderr_of_a_command_is_given_no_link() -> None:
    """A model that runs `ask` reads its stderr: the address there asks for a code, which is shown
    at the terminal that the person named.
    """
    words = ["input", "Name?", "--on", "page", "--tty"]
    with Tty() as terminal, Asking(*words, terminal.name, stderr=subprocess.PIPE) as asking:
        line = asking.stderr.readline().decode()
        assert "/open/" not in line
        address = re.findall(r"http\S+/code/\S+", line)
        browser = Browser()
        assert "Name?" not in browser.open(address[0])
        browser.post(code=terminal.code())
        assert "Name?" in browser.page
        browser.send(**{"field-0": "Ada"})
        assert asking.read()["data"] == {"value": "Ada"}


def test_who_can_be_shown_no_link_is_not_asked_on_the_page() -> None:
    ended = ask("input", "Name?", "--on", "page")
    response = json.loads(ended.stdout)
    assert (ended.returncode, response["error"]["code"]) == (1, "NOT_SUPPORTED")
    assert "Run it at a terminal, or name one (--tty DEVICE)" in response["error"]["message"]
    assert b"/open/" not in ended.stderr


def test_a_file_is_given_on_the_page() -> None:
    with Asking("resource", "A photo, please", "image/*", "--on", "page") as asking:
        browser = Browser()
        browser.open(asking.link()[0])
        browser.give("photo.png", "image/png", b"\x89PNG")
        assert asking.read()["data"] == {
            "content": "iVBORw==",
            "mimeType": "image/png",
            "encoding": "base64",
            "filename": "photo.png",
        }
        assert asking.process.wait(PATIENCE) == 0


def test_a_model_cannot_be_asked_on_the_page() -> None:
    ended = ask("sampling", "A poem", "--on", "page")
    response = json.loads(ended.stdout)
    assert (ended.returncode, response["error"]["code"]) == (1, "NOT_SUPPORTED")
    assert b"nobody was asked; to be asked: --sampling MODEL" in ended.stderr
    assert "a page asks the person, not a model" in response["error"]["message"]


# --- a stream -------------------------------------------------------------------------------------


def confirm(id: Json, message: str, **more: Json) -> Json:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "elicitation/confirm",
        "params": {"message": message, **more},
    }


def test_several_are_open_at_once_and_answered_in_any_order() -> None:
    with Asking("-", "--on", "page") as asking:
        asking.send(confirm(1, "First?"), confirm("two", "Second?"))
        pages: dict[str, Browser] = {}
        for _ in range(2):
            browser = Browser()
            shown = browser.open(asking.link()[0])
            pages["First?" if "First?" in shown else "Second?"] = browser
        for message, id in (("Second?", "two"), ("First?", 1)):
            pages[message].send(action="yes")
            answer = asking.read()
            assert (answer["jsonrpc"], answer["id"], answer["result"]["data"]) == (
                "2.0",
                id,
                {"confirmed": True},
            )
        assert asking.end() == 0


@pytest.fixture
def always(tmp_path: Path) -> list[str]:
    answers = written(
        tmp_path,
        {"match": "slow", "value": True, "delay": 300, "times": "always"},
        {"method": "confirm", "value": True, "times": "always"},
    )
    return ["-", "--on", "mock", "--answers", answers]


def test_a_pipeline_that_has_asked_and_ended_gets_its_answers(always: list[str]) -> None:
    lines = "\n".join(
        json.dumps(each)
        for each in (confirm(1, "slow?"), confirm(2, "slow too?"), confirm(3, "quick?"))
    )
    ended = ask(*always, stdin=lines.encode())  # without a line end, too
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert next(answer["id"] for answer in answers) == 3
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3]
    assert all(answer["result"]["data"] == {"confirmed": True} for answer in answers)


def test_the_envelope_is_answered_in_the_envelope(always: list[str]) -> None:
    requests = [
        {
            "type": "elicitation/request",
            "id": id,
            "payload": {"method": "elicitation/confirm", "params": {"message": "?"}},
        }
        for id in ("a", "b")
    ]
    ended = ask(*always, stdin="".join(json.dumps(each) + "\n" for each in requests).encode())
    for answer, id in zip(map(json.loads, ended.stdout.splitlines()), "ab", strict=True):
        assert (answer["type"], answer["id"], answer["payload"]["data"]) == (
            "elicitation/response",
            id,
            {"confirmed": True},
        )


def test_an_envelope_whose_type_is_the_method_is_answered(always: list[str]) -> None:
    lines = [
        {"type": "elicitation/confirm", "id": "a", "payload": {"message": "?"}},
        {"type": "capabilities/list", "id": "b"},
        {"type": "elicitation/confirm", "payload": {"message": "Who answers this?"}},
    ]
    ended = ask(*always, stdin="".join(json.dumps(each) + "\n" for each in lines).encode())
    answers = {answer["id"]: answer for answer in map(json.loads, ended.stdout.splitlines())}
    assert {answer["type"] for answer in answers.values()} == {"elicitation/response"}
    assert answers["a"]["payload"]["data"] == {"confirmed": True}
    refused = answers["b"]["payload"]
    assert not refused["success"]
    assert "has no method 'capabilities/list'" in refused["error"]["message"]
    assert answers.keys() == {"a", "b"}
    assert b"elicitation/confirm came without an id" in ended.stderr
    assert ended.returncode == 1


BAD: list[tuple[bytes, int, Json]] = [
    (b"nonsense\n", -32700, None),
    (b"[]\n", -32600, None),
    (b'"x"\n', -32600, None),
    (b'{"jsonrpc": "2.0", "id": 7, "method": 7}\n', -32600, 7),
    (b'{"jsonrpc": "2.0", "id": 8, "method": "capabilities/list"}\n', -32601, 8),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "elicitation/confirm"}\n', -32600, None),
]


@pytest.mark.parametrize(("line", "code", "id"), BAD)
def test_a_line_that_means_nothing_is_an_error_and_ends_nothing(
    always: list[str], line: bytes, code: int, id: Json
) -> None:
    """But the exit code tells of it, for who does not read the errors."""
    ended = ask(*always, stdin=line + json.dumps(confirm(1, "Go on?")).encode() + b"\n")
    error, answer = (json.loads(each) for each in ended.stdout.splitlines())
    assert (error["error"]["code"], error["id"], answer["result"]["data"], ended.returncode) == (
        code,
        id,
        {"confirmed": True},
        0 if code == -32601 else 1,
    )
    assert (b'"method": "elicitation/confirm"' in ended.stderr) == (code != -32601)


def test_an_answer_that_nobody_waits_for_is_told(always: list[str]) -> None:
    ended = ask(*always, stdin=b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    assert (ended.stdout, ended.returncode) == (b"", 1)
    assert ended.stderr.startswith(b"abp-bridge: a line answers what nobody asked. ")


def test_a_question_that_cannot_be_put_is_answered_with_the_reason(always: list[str]) -> None:
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "elicitation/select", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "elicitation/dance"},
    ]
    ended = ask(*always, stdin="".join(json.dumps(each) + "\n" for each in requests).encode())
    answers = {
        answer["id"]: answer["result"]["error"]["code"]
        for answer in map(json.loads, ended.stdout.splitlines())
    }
    assert answers == {1: "INVALID_PARAMS", 2: "NOT_SUPPORTED"}


def test_an_id_in_use_is_not_asked_again(tmp_path: Path) -> None:
    with Asking(
        "-",
        "--on",
        "mock",
        "--answers",
        written(tmp_path, {"action": "silence", "times": "always"}),
    ) as asking:
        asking.send(confirm(1, "First?", timeout=1_000), confirm(1, "Again?"))
        assert asking.read()["error"]["code"] == -32600
        assert asking.read()["result"]["error"]["code"] == "TIMEOUT"
        assert asking.end() == 1


def test_what_is_told_in_between_stands_on_stderr(always: list[str]) -> None:
    told = [
        {
            "jsonrpc": "2.0",
            "method": "notifications/state/changed",
            "params": {"field": "seat", "newValue": "14A"},
        },
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progress": 1, "total": 4, "status": "Searching"},
        },
        {
            "jsonrpc": "2.0",
            "method": "elicitation/confirm",
            "params": {"message": "Nobody can answer this"},
        },
    ]
    ended = ask(
        *always, "--as", "trip", stdin="".join(json.dumps(each) + "\n" for each in told).encode()
    )
    assert (ended.stdout, ended.returncode) == (b"", 1)
    assert ended.stderr.decode().splitlines() == [
        "abp-bridge: trip: seat is now 14A",
        "abp-bridge: trip: 1 of 4 Searching",
        "abp-bridge: elicitation/confirm came without an id, so that nothing can answer it",
    ]


def test_a_program_asks_at_the_terminal_one_after_the_other_and_tells_above_the_prompt(
    tmp_path: Path,
) -> None:
    lines = [
        confirm(1, "First?"),
        confirm(2, "Second?"),
        {
            "jsonrpc": "2.0",
            "method": "notifications/state/changed",
            "params": {"field": "x", "newValue": 1},
        },
    ]
    (tmp_path / "in").write_text("".join(json.dumps(each) + "\n" for each in lines[:2]))
    os.mkfifo(tmp_path / "pipe")
    command = ["sh", "-c", f'exec "$@" <{tmp_path}/pipe >{tmp_path}/out', "sh", *ASK, "-"]
    with (
        Screen(command, environment(TERM="xterm-256color")) as screen,
        open(tmp_path / "pipe", "w") as pipe,
    ):
        pipe.write((tmp_path / "in").read_text())
        pipe.flush()
        screen.until("First?")
        screen.until("Decline")
        pipe.write(json.dumps(lines[2]) + "\n")
        pipe.flush()
        screen.until("a program: x is now 1")
        screen.until("Decline")
        pipe.close()
        assert "Second?" not in screen.shown
        screen.press(CTRL_C)
        screen.until("cancelled")
        screen.until("Second?")
        screen.until("Decline")
        screen.press(ENTER)
        assert screen.end() == 0
    first, second = (
        json.loads(line)["result"] for line in (tmp_path / "out").read_text().splitlines()
    )
    assert (first["metadata"]["outcome"], second["data"]) == ("cancelled", {"confirmed": True})


def test_requests_are_not_typed_by_hand() -> None:
    with Screen([*ASK, "-"], environment(TERM="xterm-256color")) as screen:
        screen.until("COMMAND | abp-bridge ask -")
        assert screen.end() == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_stream_with_its_open_questions(number: signal.Signals) -> None:
    with Asking("-", "--on", "page") as asking:
        asking.send(confirm(1, "Go on?"))
        asking.link()
        asking.process.send_signal(number)
        assert asking.process.wait(PATIENCE) == 128 + number
        assert asking.stdout.read() == b""
        assert asking.rest() == b""


def test_nobody_reading_ends_a_stream_with_its_open_questions() -> None:
    with Asking("-", "--on", "page") as asking:
        asking.send(confirm(1, "Go on?"))
        asking.link()
        asking.stdout.close()
        assert asking.process.wait(PATIENCE) == 1
        assert asking.rest() == b""


def test_a_large_answer_reaches_a_slow_reader_whole(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("x" * 3_000_000)
    with Asking(
        "-", "--on", "mock", "--answers", written(tmp_path, {"file": "large.txt"})
    ) as asking:
        asking.send(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "elicitation/resource",
                "params": {"prompt": "A file"},
            }
        )
        asking.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            asking.process.wait(1.5)  # it waits for us
        assert len(json.loads(asking.stdout.read())["result"]["data"]["content"]) == 3_000_000
        assert asking.process.wait(PATIENCE) == 0


def test_the_sessions_own_order_is_not_this_commands() -> None:
    ended = subprocess.run(
        [*ASK, "confirm", "Go on?", "--on", "mock", "--answers", "/dev/stdin"],
        input=b"[true]",
        capture_output=True,
        env=environment(ABP_ASK_ON="page"),
        check=False,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
