"""`abp-bridge ask`: each method, from a file, at the terminal, on the page and in a stream."""

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
from pathlib import Path
from typing import Any, Self

import pytest
from support.browser import Browser
from support.harness import PATIENCE, environment, run
from support.terminal import DOWN, ENTER, Screen, Tty

Json = Any

ASK = [sys.executable, "-m", "abp_bridge", "ask"]
KEY = "planted-key-7f3a"


def ask(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run("ask", *words, stdin=stdin)


def answer(folder: Path, *entries: Json) -> list[str]:
    """The options that answer from a file with these entries."""
    path = folder / "answers.json"
    path.write_text(json.dumps(entries))
    return ["--on", "mock", "--answers", str(path)]


# --- one question, answered from a file -----------------------------------------------------------

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
def test_ask_answers_each_method_from_a_file(
    tmp_path: Path, words: list[str], entry: Json, data: Json
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    ended = ask(*words, *answer(tmp_path, entry))
    assert (ended.returncode, ended.stderr) == (0, "")
    response = json.loads(ended.stdout)
    assert response["data"] == data
    assert response["metadata"]["answeredBy"] == "script"


@pytest.mark.process
def test_ask_reads_answers_from_stdin_and_ignores_the_surface_order_of_a_session() -> None:
    words = ["confirm", "Go on?", "--on", "mock", "--answers", "/dev/stdin"]
    ended = run("ask", *words, stdin="[true]", env={"ABP_ASK_ON": "page"})
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ask_uses_the_timeout_of_a_request_in_a_file(tmp_path: Path) -> None:
    request = {"method": "elicitation/confirm", "params": {"message": "Go on?"}, "timeout": 50}
    (tmp_path / "request.json").write_text(json.dumps(request))
    ended = ask(str(tmp_path / "request.json"), *answer(tmp_path, {"action": "silence"}))
    assert (ended.returncode, json.loads(ended.stdout)["error"]["code"]) == (1, "TIMEOUT")


def test_ask_reads_a_named_file_only_inside_a_granted_root(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    named = json.dumps({"prompt": "Notes?", "uri": str(tmp_path / "notes.txt")})
    words = ["resource", named, *answer(tmp_path, {"match": "May it read", "value": True})]
    granted = json.loads(ask(*words, "--root", str(tmp_path)).stdout)
    assert granted["data"]["content"] == "hello"
    assert json.loads(ask(*words).stdout)["error"]["code"] == "NOT_SUPPORTED"


# --- wrong command lines --------------------------------------------------------------------------

USAGE: list[tuple[list[str], str]] = [
    ([], "name what is asked: abp-bridge ask"),
    (
        ["frob"],
        "'frob' is neither a method (input, preference, confirm, select, resource, sampling)"
        " nor a file that can be read",
    ),
    (["elicitation/choose", "Which?"], "is no method of ABP (is select meant?)"),
    (["confrim"], "nor a file that can be read: No such file or directory (is confirm meant?)"),
    (["confrim", "x"], "'confrim' is no method of ABP (is confirm meant?)"),
    (['{"prompt": "x"}'], "the method comes first, as in: abp-bridge ask input '{"),
    (["confirm", "{nope"], "the params: not JSON"),
    (["confirm"], 'give the message too, abp-bridge ask confirm "Go on?"'),
    (["confirm", '{"destructive": true}'], "says nothing to whoever is asked"),
    (["select"], 'abp-bridge ask select "Which season?" spring autumn'),
    (["select", "Which?"], "elicitation/select needs a list of at least one option"),
    (["confirm", "{}", "more"], "after the params as JSON nothing else is expected"),
    (["confirm", "Go", "on?"], "is the message in quotes?"),
    (["confirm", "x", "--on", "mock"], "--on mock needs --answers FILE"),
    (["/etc/hostname"], "not JSON"),
    (["confirm", '{"mesage": "Go on?"}'], "the params have 'mesage', which is nothing; 'message'"),
    (["confirm", "x", "--as", "Abp-Bridge (secure)"], "abp-bridge cannot be who asks"),
    (["-", "--exit-code"], "--exit-code is for one question"),
    (["-", "x"], "'ask -' takes its requests from stdin"),
]


@pytest.mark.parametrize(
    ("words", "said"), USAGE, ids=[" ".join(row[0]) or "nothing" for row in USAGE]
)
def test_ask_answers_a_wrong_command_line_with_the_right_one(words: list[str], said: str) -> None:
    ended = ask(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


# --- exit codes -----------------------------------------------------------------------------------


def boolean(**more: Json) -> str:
    return json.dumps({"prompt": "Deploy?", "schema": {"type": "boolean"}, **more})


FORM: Json = {
    "type": "object",
    "properties": {"deploy": {"type": "boolean"}},
    "required": ["deploy"],
}
ONE_OF_TWO: Json = {**FORM, "properties": {**FORM["properties"], "test": {"type": "boolean"}}}
# (what is asked, the answer, the exit code without --exit-code and with it)
EXITS: dict[str, tuple[list[str], Json, int, int]] = {
    "yes": (["confirm", "Deploy?"], True, 0, 0),
    "no": (["confirm", "Deploy?"], False, 0, 3),
    "declined": (["confirm", "Deploy?"], "decline", 1, 3),
    "cancelled": (["confirm", "Deploy?"], "cancel", 1, 1),
    "unanswered": (["confirm", "Deploy?"], {"match": "other", "value": 1}, 1, 1),
    "boolean input": (["input", boolean()], False, 0, 3),
    "form of one boolean": (["input", boolean(schema=FORM)], {"content": {"deploy": False}}, 0, 3),
    "form of two": (["input", boolean(schema=ONE_OF_TWO)], {"content": {"deploy": False}}, 0, 0),
    "boolean preference": (["preference", boolean()], False, 0, 3),
    "default of a declined preference": (["preference", boolean(default=True)], "decline", 0, 3),
    "number": (["preference", "How many?", "1"], "0", 0, 0),
}


@pytest.mark.parametrize("case", EXITS)
def test_ask_exit_code_says_no_only_if_wanted(case: str, tmp_path: Path) -> None:
    words, entry, plain, wanted = EXITS[case]
    words = [*words, *answer(tmp_path, entry)]
    ended = ask(*words)
    assert (ended.returncode, json.loads(ended.stdout)["success"]) == (plain, plain == 0)
    assert ask(*words, "--exit-code").returncode == wanted


@pytest.mark.terminal
def test_ask_exit_code_is_no_for_a_sensitive_confirm() -> None:
    asked = json.dumps({"message": "Is it yours?", "sensitive": True})
    with Screen([*ASK, "--exit-code", "confirm", asked], environment(TERM="dumb")) as screen:
        screen.until("Number: ")
        screen.press("n", ENTER)
        screen.until('"confirmed": "••••••"')
        assert screen.end() == 3


# --- at the terminal ------------------------------------------------------------------------------


@pytest.mark.process
def test_ask_without_a_terminal_says_what_to_do() -> None:
    ended = ask("confirm", "Go on?", "--on", "terminal")
    assert ended.returncode == 1
    why = json.loads(ended.stdout)["error"]["message"]
    assert "cannot be opened" in why
    assert "page: not set up (--on page)" in why
    assert "to be asked: --on page: you are asked" in ended.stderr
    assert not re.search(r"--page open|--questions-api", why + ended.stderr), "no options of ask"


@pytest.mark.parametrize("device", ["/dev/null", "/nonexistent", "."])
def test_ask_rejects_a_device_that_is_not_a_terminal(device: str) -> None:
    ended = ask("confirm", "Go on?", "--on", "terminal", "--tty", device)
    assert ended.returncode == 1
    why = json.loads(ended.stdout)["error"]["message"]
    assert "Type 'tty' in the terminal to use: it prints the name to give" in why


@pytest.mark.terminal
def test_ask_asks_at_the_terminal() -> None:
    words = ["select", "Season?", "spring", "summer"]
    with Screen([*ASK, *words], environment(TERM="xterm-256color")) as screen:
        screen.until("● this command asks")
        screen.until("Decline")
        screen.press(DOWN, ENTER)
        screen.until("{")
        assert screen.end() == 0
        assert screen.restored
    response = json.loads("{" + screen.shown[screen._seen :])
    assert response["data"] == {"selected": "summer"}
    assert response["metadata"]["answeredBy"] == "person"


@pytest.mark.terminal
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ask_restores_the_terminal_after_a_signal(number: signal.Signals) -> None:
    with Screen([*ASK, "confirm", "Go on?"], environment(TERM="xterm-256color")) as screen:
        screen.until("Decline")
        screen.process.send_signal(number)
        assert screen.end() == 128 + number
        assert screen.restored
    assert "Traceback" not in screen.shown
    assert '"success"' not in screen.shown


@pytest.mark.terminal
@pytest.mark.parametrize(
    "script", ['"$@"', '"$@" < /dev/null 2>&1 > /dev/null | cat'], ids=["streams", "/dev/tty"]
)
def test_ask_waits_for_another_program_at_the_terminal(script: str) -> None:
    command = ["sh", "-c", script, "sh", *ASK, "input", "Name?"]
    with Screen(command, environment(TERM="xterm-256color")) as screen:
        with open(screen.name, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            screen.until(f"waits until process {os.getpid()} has its answer at the same terminal")
            assert "Name?" not in screen.shown
        screen.until("Answer:")
        screen.press("Ada", ENTER)
        assert screen.end() == 0


@pytest.mark.terminal
def test_ask_writes_a_secret_to_the_response_only(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["sh", "-c", f'exec "$@" </dev/null >{out}', "sh", *ASK, "input", "Your API key?"]
    with Screen(command, environment(TERM="xterm-256color")) as screen:
        screen.until("Answer:")
        screen.press(KEY, ENTER)
        assert screen.end() == 0
    assert json.loads(out.read_text())["data"] == {"value": KEY}
    assert KEY not in screen.shown


@pytest.mark.terminal
@pytest.mark.parametrize(("more", "shown"), [([], False), (["--show"], True)])
def test_ask_prints_a_secret_to_a_terminal_only_if_wanted(
    more: list[str], shown: bool, tmp_path: Path
) -> None:
    fields = {"user": {"type": "string"}, "db_pass": {"type": "string"}}
    params = json.dumps({"prompt": "Log in", "schema": {"type": "object", "properties": fields}})
    answers = answer(tmp_path, {"content": {"user": "ada", "db_pass": KEY}})
    with Screen([*ASK, "input", params, *answers, *more], environment()) as screen:
        assert screen.end() == 0, screen.shown
    assert '"ada"' in screen.shown
    assert (KEY in screen.shown) is shown
    assert ('"db_pass": "••••••"' in screen.shown) is not shown
    assert ("--show prints it" in screen.shown) is not shown


# --- on the page ----------------------------------------------------------------------------------


class Asking:
    """A running `ask` on pipes. Its stderr is a terminal if it asks on the page, as it shows a link
    nowhere else.
    """

    def __init__(self, *words: str, stderr: int | None = None) -> None:
        pipe = subprocess.PIPE
        ours, theirs = pty.openpty() if "page" in words and stderr is None else (-1, stderr)
        self.process = subprocess.Popen(
            [*ASK, *words],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe if theirs is None else theirs,
            start_new_session=True,
            env=environment(),
        )
        stderr_file = self.process.stderr
        if ours >= 0 and theirs is not None:
            os.close(theirs)
            stderr_file = open(ours, "rb", buffering=0)  # noqa: SIM115
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert stderr_file is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.stderr = stderr_file

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
        pattern = r"abp-bridge: (.*) asks\. Answer at (http://127\.0\.0\.1:\d+/open/\S+)"
        said = re.search(pattern, line)
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


@pytest.mark.terminal
def test_ask_asks_on_the_page_at_the_printed_address() -> None:
    with Asking("select", "Season?", "spring", "summer", "--on", "page") as asking:
        url, who = asking.link()
        assert who == "this command"
        browser = Browser()
        assert "Season?" in browser.open(url)
        browser.send(**{"field-0": "1"})  # the second
        assert asking.read()["data"] == {"selected": "summer"}
        assert asking.process.wait(PATIENCE) == 0


@pytest.mark.terminal
def test_ask_shows_a_program_that_reads_stderr_no_link() -> None:
    """A model that runs `ask` reads its stderr: the address there asks for a code, which is shown
    at the terminal that the user named.
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


@pytest.mark.network
def test_ask_on_the_page_fails_if_it_can_show_no_link() -> None:
    ended = ask("input", "Name?", "--on", "page")
    response = json.loads(ended.stdout)
    assert (ended.returncode, response["error"]["code"]) == (1, "NOT_SUPPORTED")
    assert "Run it at a terminal, or name one (--tty DEVICE)" in response["error"]["message"]
    assert "/open/" not in ended.stderr


def test_ask_cannot_ask_a_model_on_the_page() -> None:
    ended = ask("sampling", "A poem", "--on", "page")
    response = json.loads(ended.stdout)
    assert (ended.returncode, response["error"]["code"]) == (1, "NOT_SUPPORTED")
    assert "nobody was asked; to be asked: --sampling MODEL" in ended.stderr
    assert "a page asks the person, not a model" in response["error"]["message"]


# --- a stream -------------------------------------------------------------------------------------


def confirm(id: Json, message: str, **more: Json) -> Json:
    params = {"message": message, **more}
    return {"jsonrpc": "2.0", "id": id, "method": "elicitation/confirm", "params": params}


def stream(options: list[str], *messages: Json) -> subprocess.CompletedProcess[str]:
    """Run `ask -` on these messages, or lines."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in messages]
    return ask("-", *options, stdin="".join(f"{line}\n" for line in lines))


@pytest.fixture
def always(tmp_path: Path) -> list[str]:
    return answer(
        tmp_path,
        {"match": "slow", "value": True, "delay": 100, "times": "always"},
        {"method": "confirm", "value": True, "times": "always"},
    )


@pytest.mark.terminal
def test_ask_stream_answers_open_questions_in_any_order() -> None:
    with Asking("-", "--on", "page") as asking:
        asking.send(confirm(1, "First?"), confirm("two", "Second?"))
        pages: dict[str, Browser] = {}
        for _ in range(2):
            browser = Browser()
            shown = browser.open(asking.link()[0])
            pages["First?" if "First?" in shown else "Second?"] = browser
        for message, id in (("Second?", "two"), ("First?", 1)):
            pages[message].send(action="yes")
            answered = asking.read()
            assert (answered["jsonrpc"], answered["id"]) == ("2.0", id)
            assert answered["result"]["data"] == {"confirmed": True}
        assert asking.end() == 0


@pytest.mark.slow
def test_ask_stream_answers_all_after_the_end_of_stdin(always: list[str]) -> None:
    requests = (confirm(1, "slow?"), confirm(2, "slow too?"), confirm(3, "quick?"))
    lines = "\n".join(map(json.dumps, requests))  # without a last line end
    ended = ask("-", *always, stdin=lines)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, ended.stderr) == (0, "")
    assert answers[0]["id"] == 3
    assert sorted(each["id"] for each in answers) == [1, 2, 3]
    assert all(each["result"]["data"] == {"confirmed": True} for each in answers)


def test_ask_stream_answers_envelopes_in_envelopes(always: list[str]) -> None:
    asked = {"method": "elicitation/confirm", "params": {"message": "?"}}
    lines = [
        {"type": "elicitation/request", "id": "a", "payload": asked},
        {"type": "elicitation/confirm", "id": "b", "payload": {"message": "?"}},
        {"type": "capabilities/list", "id": "c"},
        {"type": "elicitation/confirm", "payload": {"message": "Who answers this?"}},
    ]
    ended = stream(always, *lines)
    answers = {each["id"]: each for each in map(json.loads, ended.stdout.splitlines())}
    assert {each["type"] for each in answers.values()} == {"elicitation/response"}
    assert answers["a"]["payload"]["data"] == {"confirmed": True}
    assert answers["b"]["payload"]["data"] == {"confirmed": True}
    refused = answers["c"]["payload"]
    assert not refused["success"]
    assert "has no method 'capabilities/list'" in refused["error"]["message"]
    assert answers.keys() == {"a", "b", "c"}
    assert "elicitation/confirm came without an id" in ended.stderr
    assert ended.returncode == 1


BAD: list[tuple[str, int, Json]] = [
    ("nonsense", -32700, None),
    ("[]", -32600, None),
    ('{"jsonrpc": "2.0", "id": 7, "method": 7}', -32600, 7),
    ('{"jsonrpc": "2.0", "id": 8, "method": "capabilities/list"}', -32601, 8),
]


@pytest.mark.parametrize(("line", "code", "id"), BAD)
def test_ask_stream_continues_after_an_invalid_line(
    always: list[str], line: str, code: int, id: Json
) -> None:
    """The exit code reports it to programs that do not read the errors."""
    ended = stream(always, line, confirm(1, "Go on?"))
    error, answered = map(json.loads, ended.stdout.splitlines())
    assert (error["error"]["code"], error["id"]) == (code, id)
    assert answered["result"]["data"] == {"confirmed": True}
    is_request = code == -32601
    assert ended.returncode == (0 if is_request else 1)
    assert ('"method": "elicitation/confirm"' in ended.stderr) is not is_request


def test_ask_stream_reports_an_unmatched_response(always: list[str]) -> None:
    ended = stream(always, {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert ended.stderr.startswith("abp-bridge: a line answers what nobody asked. ")


def test_ask_stream_rejects_an_invalid_question_with_its_reason(always: list[str]) -> None:
    ended = stream(
        always,
        {"jsonrpc": "2.0", "id": 1, "method": "elicitation/select", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "elicitation/dance"},
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    codes = {each["id"]: each["result"]["error"]["code"] for each in answers}
    assert codes == {1: "INVALID_PARAMS", 2: "NOT_SUPPORTED"}


@pytest.mark.slow
def test_ask_stream_rejects_an_id_in_use(tmp_path: Path) -> None:
    silent = answer(tmp_path, {"action": "silence", "times": "always"})
    ended = stream(silent, confirm(1, "First?", timeout=100), confirm(1, "Again?"))
    rejected, timed_out = map(json.loads, ended.stdout.splitlines())
    assert rejected["error"]["code"] == -32600
    assert timed_out["result"]["error"]["code"] == "TIMEOUT"
    assert ended.returncode == 1


def test_ask_stream_writes_notifications_to_stderr(always: list[str]) -> None:
    told = {
        "notifications/state/changed": {"field": "seat", "newValue": "14A"},
        "notifications/progress": {"progress": 1, "total": 4, "status": "Searching"},
        "elicitation/confirm": {"message": "Nobody can answer this"},
    }
    lines = [{"jsonrpc": "2.0", "method": name, "params": each} for name, each in told.items()]
    ended = stream([*always, "--as", "trip"], *lines)
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert ended.stderr.splitlines() == [
        "abp-bridge: trip: seat is now 14A",
        "abp-bridge: trip: 1 of 4 Searching",
        "abp-bridge: elicitation/confirm came without an id, so that nothing can answer it",
    ]


@pytest.mark.terminal
def test_ask_stream_is_not_typed_at_a_terminal() -> None:
    with Screen([*ASK, "-"], environment(TERM="xterm-256color")) as screen:
        screen.until("COMMAND | abp-bridge ask -")
        assert screen.end() == 2


@pytest.mark.terminal
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ask_stream_ends_on_a_signal_without_an_answer(number: signal.Signals) -> None:
    with Asking("-", "--on", "page") as asking:
        asking.send(confirm(1, "Go on?"))
        asking.link()
        asking.process.send_signal(number)
        assert asking.process.wait(PATIENCE) == 128 + number
        assert asking.stdout.read() == b""
        assert asking.rest() == b""


@pytest.mark.terminal
def test_ask_stream_ends_if_its_reader_leaves() -> None:
    with Asking("-", "--on", "page") as asking:
        asking.send(confirm(1, "Go on?"))
        asking.link()
        asking.stdout.close()
        assert asking.process.wait(PATIENCE) == 1
        assert asking.rest() == b""


@pytest.mark.process
def test_ask_stream_writes_a_large_answer_whole(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("x" * 3_000_000)
    asked = {"method": "elicitation/resource", "params": {"prompt": "A file"}}
    with Asking("-", *answer(tmp_path, {"file": "large.txt"})) as asking:
        asking.send({"jsonrpc": "2.0", "id": 1, **asked})
        asking.stdin.close()
        assert select.select([asking.stdout], [], [], PATIENCE)[0]
        assert asking.process.poll() is None  # it waits for its reader
        assert len(json.loads(asking.stdout.read())["result"]["data"]["content"]) == 3_000_000
        assert asking.process.wait(PATIENCE) == 0
