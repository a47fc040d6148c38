"""`abp-bridge demo` through its public door: off a terminal, with written answers, as JSON lines,
and by real keys on a pseudo-terminal.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.paths import DOCS
from support.peer import PATIENCE
from support.terminal import CTRL_C, CTRL_D, DOWN, ENTER, ESCAPE, Screen

Json = Any

DEMO = [sys.executable, "-m", "abp_bridge", "demo"]
EXAMPLE = DOCS / "demo-answers.json"
ASKED = [
    "Whose trip is it?",
    "Where should the ticket be sent?",
    "Sea or mountains?",
    "Which season?",
    "Which month?",
    "How many travellers?",
    "What may it cost at most, in euros?",
    "By train where possible?",
    "Which class?",
    "Who should be called if something happens?",
    "Window or aisle?",
    "A photo for the ticket?",
    "Write one friendly sentence about the trip.",
    "Book it?",
    "Delete the draft of the trip?",
]


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    with _watched_env() as env:
        yield env


@contextmanager
def _watched_env() -> Iterator[dict[str, str]]:
    """An environment by which everything that the demo starts can be found again; nothing of it may
    be left.
    """
    mark = f"ABP_TEST_MARK={uuid.uuid4().hex}"
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "ABP_TOOL_CACHE")
        if name in os.environ
    }
    yield {**kept, **dict([mark.split("=")])}
    deadline = time.monotonic() + 5
    while left := _marked(mark):
        assert time.monotonic() < deadline, f"still running: {left}"


def _marked(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def first_line(asked: Json) -> str:
    """What an app asked, without the address that it may be answered at."""
    line: str = asked["message"].splitlines()[0]
    return line


def run(
    env: dict[str, str], *arguments: str, stdin: int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *arguments],
        stdin=stdin,
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )


def told(env: dict[str, str], *arguments: str) -> list[Json]:
    """The events of `--json`."""
    ended = run(env, "--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return [json.loads(line) for line in ended.stdout.splitlines()]


# What several tests look at is run once.


@pytest.fixture(scope="module")
def shown_off_a_terminal() -> subprocess.CompletedProcess[str]:
    with _watched_env() as env:
        return run({**env, "COLUMNS": "200"})


@pytest.fixture(scope="module")
def scripted() -> list[Json]:
    """The events of a demo that nobody and no file answers."""
    with _watched_env() as env:
        return told(env)


@dataclass(frozen=True)
class Interrupted:
    """What was seen of a demo that was ended by Ctrl-C at its second question."""

    raw: bytes  # up to the first
    shown: str
    code: int
    restored: bool


def _interrupt(env: dict[str, str]) -> Interrupted:
    with Screen(DEMO, env) as screen:
        prompt(screen, "Whose trip is it?")
        raw = screen.raw
        screen.press(CTRL_C)
        screen.until("cancelled")
        screen.until("Ctrl-C once more ends abp-bridge demo.")
        prompt(screen, "Where should the ticket be sent?")
        screen.press(CTRL_C)
        screen.until("Ended. The bridge is closed.")
        return Interrupted(code=screen.end(), restored=screen.restored, shown=screen.shown, raw=raw)


@pytest.fixture(scope="module")
def interrupted() -> Interrupted:
    with _watched_env() as env:
        return _interrupt(env)


def of(events: list[Json], kind: str) -> list[Json]:
    return [event for event in events if event["event"] == kind]


def answers(tmp_path: Path, content: Json) -> str:
    path = tmp_path / "answers.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


# --- off a terminal -------------------------------------------------------------------------------


def test_off_a_terminal_it_runs_through_and_says_who_answered(
    shown_off_a_terminal: subprocess.CompletedProcess[str],
) -> None:
    ended = shown_off_a_terminal
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "answered by the demo's script, as there is no terminal" in " ".join(
        ended.stdout.split()
    )
    assert "\x1b" not in ended.stdout
    assert "--page" not in ended.stdout, "it has no such option"
    at = 0
    for words in (
        "● demo asks\n  Whose trip is it?\n  Name: Ada Example  [the demo's script]",
        "20 %  Choosing · about 4 s left",
        "· demo: trip.stage is now details",
        "cancelled  [the demo's script]",
        "declined  [the demo's script]",
        "(no model here) This sentence is the demo's own",
        "This cannot be undone",
        "100 %  Done",
        "photo       NOT_SUPPORTED: Nobody could be asked: mcp-url",
        "demo.work returned:\n    sorted  4",
        "abp_demo_grown is new",
        "── The account",
        "15 questions: 12 accepted, 1 cancelled, 1 declined, 1 unsupported.",
    ):
        at = ended.stdout.index(words, at)


def test_the_account_has_every_question_with_its_route_and_who_answered(
    shown_off_a_terminal: subprocess.CompletedProcess[str],
) -> None:
    table = [
        re.split(" {2,}", line.strip())
        for line in shown_off_a_terminal.stdout.split("── The account")[1].splitlines()
    ]
    cells = [row for row in table if row[0].isdigit()]
    assert [row[1] for row in cells] == ASKED
    assert cells[0][2:6] == ["input", "accepted", "script", "mcp-form"]
    assert cells[11][2:6] == [
        "resource",
        "unsupported",
        "nobody",
        "mcp-url (on a page of the bridge's own)",
    ]
    assert cells[12][2:6] == ["sampling", "accepted", "demo", "mcp-sampling"]
    assert all(row[6].endswith((" s", " ms")) for row in cells)


@pytest.mark.parametrize("columns", [36, 40, 56, 80])
def test_no_line_is_wider_than_the_terminal(env: dict[str, str], columns: int) -> None:
    assert _width(run({**env, "COLUMNS": str(columns)})) <= columns


def test_no_line_is_wider_than_a_wide_terminal(
    shown_off_a_terminal: subprocess.CompletedProcess[str],
) -> None:
    assert _width(shown_off_a_terminal) <= 200


def _width(ended: subprocess.CompletedProcess[str]) -> int:
    """Of the longest line that has no link, which is whole."""
    return max(len(line) for line in ended.stdout.splitlines() if "http" not in line)


def test_nobody_reading_is_a_quiet_end(env: dict[str, str]) -> None:
    with subprocess.Popen(
        DEMO, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_the_bridge(env: dict[str, str], number: signal.Signals) -> None:
    with subprocess.Popen(
        [*DEMO, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as process:
        assert process.stdout is not None
        while b'"connected"' not in process.stdout.readline():
            pass
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(PATIENCE) in (128 + number, 0)  # 0: it was done before
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("command", [DEMO, [*DEMO[:-1], "try", "demo"]])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ABP_CALL_TIMEOUT=soon", "ABP_CALL_TIMEOUT='soon' cannot be used: it must be a number"),
        ("ABP_RECORD=/nope/x", "--record '/nope/x' cannot be written: there is no /nope."),
    ],
)
def test_a_setting_that_cannot_be_used_is_said_once_and_nothing_begins(
    env: dict[str, str], command: list[str], setting: str, said: str
) -> None:
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**env, **dict([setting.split("=")])},
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"abp-bridge: {said}")
    assert ended.stderr.count("\n") == 1


def test_a_missing_browser_is_a_clear_error(env: dict[str, str]) -> None:
    ended = run({**env, "ABP_CHROME": "/nonexistent/chrome"}, "--browser")
    assert ended.returncode == 2
    assert "/nonexistent/chrome" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "bug" not in ended.stderr


def test_the_same_trip_is_told_by_a_page_in_a_browser(env: dict[str, str]) -> None:
    events = told({**env, "ABP_CHROME_SANDBOX": "0"}, "--browser")
    assert {event["from"] for event in of(events, "asked")} == {"demo page"}
    assert [first_line(event) for event in of(events, "asked")] == ASKED
    assert [event["failed"] for event in of(events, "result")] == [False, False, False]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has no sandbox")
def test_without_a_sandbox_it_says_so(env: dict[str, str]) -> None:
    ended = run({**env, "ABP_CHROME": "/bin/false"}, "--browser")
    assert "As root, Chromium runs without its sandbox (ABP_CHROME_SANDBOX=0)" in " ".join(
        ended.stdout.split()
    )


# --- as JSON lines --------------------------------------------------------------------------------


def test_every_line_is_an_event(scripted: list[Json]) -> None:
    events = scripted
    assert {event["event"] for event in events} == {
        "connected",
        "asked",
        "answered",
        "progress",
        "log",
        "result",
        "account",
    }
    [connected] = of(events, "connected")
    assert (connected["app"], connected["origin"], connected["mcp"], connected["answers"]) == (
        "ABP demo",
        "demo",
        "2025-11-25",
        "the demo's script",
    )
    assert [event["capability"] for event in of(events, "result")] == [
        "demo.trip",
        "demo.work",
        "demo.grow",
    ]
    assert [
        event["progress"] for event in of(events, "progress") if event["capability"] == "demo.work"
    ] == [1, 2, pytest.approx(2), 3, 4], "and a text that changed meanwhile"
    assert "started demo.trip" in [event["told"] for event in of(events, "log")]


def test_each_question_has_its_answer_and_its_row_in_the_account(scripted: list[Json]) -> None:
    events = scripted
    asked, answered, [account] = of(events, "asked"), of(events, "answered"), of(events, "account")
    assert [first_line(event) for event in asked] == ASKED
    assert {event["from"] for event in asked} == {"demo"}
    assert [event["number"] for event in asked] == [event["number"] for event in answered]
    season = next(event for event in asked if event["message"] == "Which season?")["fields"][0]
    assert (season["type"], season["default"], season["choices"][0]) == (
        "choice",
        "autumn",
        {"key": "spring", "label": "Spring"},
    )
    assert [row["message"] for row in account["questions"]] == ASKED
    ours = [row for row in account["questions"] if row["route"]]
    assert [row["outcome"] for row in ours] == [event["outcome"] for event in answered]
    answerers = {row.get("answerer", row["answeredBy"]) for row in ours}
    assert answerers == {"script", "demo", "nobody"}


def test_the_app_gets_what_was_answered(scripted: list[Json]) -> None:
    data = of(scripted, "result")[0]["data"]
    assert data["name"] == {"value": "Ada Example"}
    assert data["travellers"] == {"value": 2}
    assert data["contact"] == {"value": {"name": "Grace Example"}}
    assert data["delete"] == {"confirmed": False}
    assert data["seat"] == {"value": "window"}  # declined: a preference has the app's own default
    assert data["budget"]["code"] == "USER_CANCELLED"
    assert data["greeting"]["result"].startswith("(no model here)")


# --- written answers ------------------------------------------------------------------------------


def test_the_example_file_answers_everything(env: dict[str, str]) -> None:
    events = told(env, "--answers", str(EXAMPLE))
    [account] = of(events, "account")
    assert account["remarks"] == []
    outcomes = {
        first_line(event): reply["outcome"]
        for event, reply in zip(of(events, "asked"), of(events, "answered"), strict=True)
    }
    assert {message for message, outcome in outcomes.items() if outcome != "accepted"} == {
        "What may it cost at most, in euros?",
        "A photo for the ticket?",
        "Window or aisle?",
    }
    data = of(events, "result")[0]["data"]
    assert (data["month"], data["travellers"], data["train"]) == (
        {"selected": "12"},
        {"value": 4},
        {"value": False},
    )
    assert data["contact"] == {"value": {"name": "Grace Example", "phone": "+44 20 7946 0000"}}


def test_when_the_answers_run_out_nobody_answers_the_rest_and_the_account_says_so(
    env: dict[str, str], tmp_path: Path
) -> None:
    ended = run(
        env,
        "--answers",
        answers(
            tmp_path,
            [
                "Ada",
                {"match": "season", "value": "winter"},
                {"match": "no such question", "value": 1},
            ],
        ),
    )
    assert ended.returncode == 0
    words = " ".join(ended.stdout.split())
    assert "Name: Ada [the answers file]" in words
    assert "Choice: Winter [the answers file]" in words
    assert "nobody answered: no entry answers it;" in words
    assert "(2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 15)" in words
    assert "No question used the entry 3." in words


def test_an_answer_that_does_not_fit_is_none_and_said(env: dict[str, str], tmp_path: Path) -> None:
    written = [
        {"match": "ticket", "value": "nowhere"},
        {"match": "called", "value": "Grace"},
        {"match": "season", "content": {"colour": "red"}},
        {"match": "Book", "value": True},
    ]
    ended = run(env, "--answers", answers(tmp_path, written))
    words = " ".join(ended.stdout.split())
    assert ended.returncode == 1
    assert (
        "entry 1 does not answer 'Where should the ticket be sent?': value must be an e-mail"
        " address" in words
    )
    assert (
        "entry 2 does not answer 'Who should be called if something happens?': the question has 2"
        " fields" in words
    )
    assert "entry 3 does not answer 'Which season?': the question has no field 'colour'" in words
    assert "Confirm: yes" in words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not JSON"),
        ("[", "is not JSON"),
        ("[NaN]", "NaN"),
        ("\xff\xfe", "is not JSON"),
        ("{}", "holds no list"),
        ([{"vallue": 1}], "entry 1 has 'vallue'"),
        (["Ada", {"match": "x"}], "entry 2 must have exactly one of"),
        ([{"value": 1, "action": "decline"}], "entry 1 must have exactly one of"),
        ([{"match": "", "value": 1}], "the match of entry 1"),
        ([{"content": "Ada"}], "the content of entry 1"),
        ([{"action": "accept"}], "to accept, give content or a value"),
        (" " * 1_000_001, "larger than"),
    ],
)
def test_an_answers_file_that_cannot_be_used_is_said_before_anything_starts(
    env: dict[str, str], tmp_path: Path, content: Json, words: str
) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(
        content.encode("latin-1") if isinstance(content, str) else json.dumps(content).encode()
    )
    ended = run(env, "--answers", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in ended.stderr
    assert str(path) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_missing_answers_file_says_what_it_must_be(env: dict[str, str], tmp_path: Path) -> None:
    ended = run(env, "--answers", str(tmp_path / "none.json"))
    assert ended.returncode == 2
    assert "cannot be read: No such file or directory. It must be a JSON list" in ended.stderr


# --- at a terminal --------------------------------------------------------------------------------


def prompt(screen: Screen, message: str) -> None:
    """Wait until `message` is asked and keys count."""
    screen.until("● demo asks")
    screen.until(message)
    screen.until("Esc cancels")


TRIP: list[tuple[str, str, list[str]]] = [
    ("Whose trip is it?", "Name:", ["Zoë", ENTER]),
    ("Where should the ticket be sent?", "E-mail:", ["zoe@example.org", ENTER]),
    ("Sea or mountains?", "Decline", [DOWN, ENTER]),
    ("Which season?", "Decline", [ENTER]),
    ("Which month?", "Decline", ["d", "e", "c", ENTER]),
    ("How many travellers?", "Travellers:", [ENTER]),
    ("What may it cost at most, in euros?", "Budget:", ["99.5", ENTER]),
    ("By train where possible?", "Decline", [DOWN, ENTER]),
    ("Which class?", "Decline", [CTRL_D]),
    ("Who should be called if something happens?", "Their name:", ["Max", ENTER]),
    ("", "Their telephone:", [ENTER]),
    ("Window or aisle?", "Decline", [ESCAPE]),
    ("A photo for the ticket?", "Decline", [DOWN, ENTER]),
    ("Book it?", "Decline", [ENTER]),
    ("Delete the draft of the trip?", "Decline", [DOWN, ENTER]),
]


def test_a_person_goes_through_the_whole_trip_by_keys(env: dict[str, str]) -> None:
    with Screen(DEMO, env) as screen:
        screen.until("You are asked")
        for message, last, keys in TRIP:
            if message:
                prompt(screen, message)
            screen.until(last)
            screen.press(*keys)
        assert screen.end() == 0
        assert screen.restored
    returned = screen.shown.split("demo.trip returned:")[1]
    for line in (
        'name        {"value": "Zoë"}',
        'where       {"selected": "mountains"}',
        'season      {"selected": "autumn"}',
        'month       {"selected": "12"}',
        'travellers  {"value": 2}',
        'budget      {"value": 99.5}',
        'train       {"value": false}',
        "class       USER_CANCELLED: The user declined to answer.",
        'contact     {"value": {"name": "Max"}}',
        'seat        {"value": "window"}',
        'book        {"confirmed": true}',
        'delete      {"confirmed": true}',
    ):
        assert line in returned
    account = returned.split("── The account")[1]
    assert "15 questions: 12 accepted, 2 declined, 1 cancelled." in " ".join(account.split())
    assert "person" in account
    assert "script" not in account


def test_the_screen_has_colour_and_one_progress_line(interrupted: Interrupted) -> None:
    assert b"\x1b[1;36m" in interrupted.raw
    assert b"\r\x1b[2K" in interrupted.raw


def test_no_color_is_respected(env: dict[str, str]) -> None:
    with Screen(DEMO, {**env, "NO_COLOR": "1"}) as screen:
        prompt(screen, "Whose trip is it?")
        screen.press(CTRL_C)
        prompt(screen, "Where should")
        screen.press(CTRL_C)
        screen.end()
    assert b"\x1b[1;36m" not in screen.raw


def test_ctrl_c_cancels_a_question_and_a_second_one_ends_the_demo(
    interrupted: Interrupted,
) -> None:
    assert interrupted.code == 128 + signal.SIGINT
    assert interrupted.restored
    assert "Traceback" not in interrupted.shown


def test_an_answer_in_between_forgives_the_first_ctrl_c(env: dict[str, str]) -> None:
    with Screen(DEMO, env) as screen:
        prompt(screen, "Whose trip is it?")
        screen.press(CTRL_C)
        prompt(screen, "Where should the ticket be sent?")
        screen.press("a@b.org", ENTER)
        prompt(screen, "Sea or mountains?")
        screen.press(CTRL_C)
        prompt(screen, "Which season?")
        screen.press(CTRL_C)
        assert screen.end() == 128 + signal.SIGINT


def test_ctrl_c_without_arrow_keys_does_the_same(env: dict[str, str]) -> None:
    with Screen(DEMO, {**env, "TERM": "dumb"}) as screen:
        screen.until("Whose trip is it?")
        screen.until("Name: ")
        screen.press(CTRL_C)
        screen.until("Ctrl-C once more ends abp-bridge demo.")
        screen.until("E-mail: ")
        screen.press(CTRL_C)
        assert screen.end() == 128 + signal.SIGINT
        assert screen.restored
        assert "\x1b" not in screen.raw.decode()


def test_a_signal_at_a_prompt_leaves_the_terminal_as_it_was(env: dict[str, str]) -> None:
    with Screen(DEMO, env) as screen:
        prompt(screen, "Whose trip is it?")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 128 + signal.SIGTERM
        assert screen.restored
        assert "Traceback" not in screen.shown


def test_a_terminal_that_is_closed_ends_the_demo(env: dict[str, str]) -> None:
    with Screen(DEMO, env) as screen:
        prompt(screen, "Whose trip is it?")
        screen.hang_up()
        assert screen.process.wait(PATIENCE) == 128 + signal.SIGHUP


def test_written_answers_are_used_at_a_terminal_too(env: dict[str, str]) -> None:
    with Screen([*DEMO, "--answers", str(EXAMPLE)], env) as screen:
        screen.until("answered from your answers file")
        assert screen.end() == 0
        assert "15 questions: 12 accepted" in " ".join(screen.shown.split())


# --- starting -------------------------------------------------------------------------------------


def test_the_command_line_loads_nothing_of_the_demo_until_it_is_wanted() -> None:
    code = (
        "import sys, abp_bridge.cli.main; print([name for name in sys.modules if name.split('.')[0]"
        " in ('mcp', 'questionary', 'prompt_toolkit', 'anyio')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
