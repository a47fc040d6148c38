"""`abp-bridge demo`: without a terminal, from an answers file, as JSON lines, and at a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import harness
from support.paths import DOCS
from support.peer import PATIENCE
from support.terminal import CTRL_C, ENTER, Screen

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


def demo(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return harness.run("demo", *arguments, env=env)


def told(*arguments: str, **env: str) -> list[Json]:
    """The events of `--json`."""
    ended = demo("--json", *arguments, **env)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def of(events: list[Json], kind: str) -> list[Json]:
    return [event for event in events if event["event"] == kind]


def first_line(asked: Json) -> str:
    """What an app asked, without the address that it may be answered at."""
    line: str = asked["message"].splitlines()[0]
    return line


@pytest.fixture(scope="module")
def printed() -> subprocess.CompletedProcess[str]:
    return demo(COLUMNS="200")


@pytest.fixture(scope="module")
def events() -> list[Json]:
    """The events of a demo that no user and no file answers."""
    return told()


def answers(tmp_path: Path, *entries: Json) -> str:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(entries))
    return str(path)


# --- without a terminal ---------------------------------------------------------------------------


@pytest.mark.network
def test_demo_without_a_terminal_says_who_answered(
    printed: subprocess.CompletedProcess[str],
) -> None:
    assert (printed.returncode, printed.stderr) == (0, "")
    words = " ".join(printed.stdout.split())
    assert "answered by the demo's script, as there is no terminal" in words
    assert "\x1b" not in printed.stdout
    assert "--page" not in printed.stdout, "it has no such option"
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
        at = printed.stdout.index(words, at)


@pytest.mark.parametrize("command", [["demo"], ["try", "demo"]])
def test_demo_rejects_an_unusable_setting(command: list[str]) -> None:
    ended = harness.run(*command, env={"ABP_RECORD": "/nope/x"})
    assert (ended.returncode, ended.stdout) == (2, "")
    said = "abp-bridge: --record '/nope/x' cannot be written: there is no /nope."
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("\n") == 1


def test_demo_reports_a_missing_browser() -> None:
    ended = demo("--browser", ABP_CHROME="/nonexistent/chrome")
    assert ended.returncode == 2
    assert "/nonexistent/chrome" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "bug" not in ended.stderr


@pytest.mark.browser
def test_demo_in_a_browser_asks_the_same() -> None:
    events = told("--browser", ABP_CHROME_SANDBOX="0")
    assert {event["from"] for event in of(events, "asked")} == {"demo page"}
    assert [first_line(event) for event in of(events, "asked")] == ASKED
    assert [event["failed"] for event in of(events, "result")] == [False, False, False]


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has no sandbox")
def test_demo_says_that_the_browser_has_no_sandbox() -> None:
    words = " ".join(demo("--browser", ABP_CHROME="/bin/false").stdout.split())
    assert "As root, Chromium runs without its sandbox (ABP_CHROME_SANDBOX=0)" in words


# --- as JSON lines --------------------------------------------------------------------------------


@pytest.mark.network
def test_demo_events_tell_the_whole_session(events: list[Json]) -> None:
    kinds = {"connected", "asked", "answered", "progress", "log", "result", "account"}
    assert {event["event"] for event in events} == kinds
    [connected] = of(events, "connected")
    names = {"app": "ABP demo", "origin": "demo", "mcp": "2025-11-25"}
    assert {**connected, **names, "answers": "the demo's script"} == connected
    called = [event["capability"] for event in of(events, "result")]
    assert called == ["demo.trip", "demo.work", "demo.grow"]
    work = [each for each in of(events, "progress") if each["capability"] == "demo.work"]
    assert [each["progress"] for each in work] == [1, 2, pytest.approx(2), 3, 4]
    assert "started demo.trip" in [event["told"] for event in of(events, "log")]


@pytest.mark.network
def test_demo_events_have_an_answer_and_a_row_for_each_question(events: list[Json]) -> None:
    asked, answered, [account] = of(events, "asked"), of(events, "answered"), of(events, "account")
    assert [first_line(event) for event in asked] == ASKED
    assert {event["from"] for event in asked} == {"demo"}
    assert [event["number"] for event in asked] == [event["number"] for event in answered]
    season = next(event for event in asked if event["message"] == "Which season?")["fields"][0]
    assert (season["type"], season["default"]) == ("choice", "autumn")
    assert season["choices"][0] == {"key": "spring", "label": "Spring"}
    assert [row["message"] for row in account["questions"]] == ASKED
    ours = [row for row in account["questions"] if row["route"]]
    assert [row["outcome"] for row in ours] == [event["outcome"] for event in answered]
    answerers = {row.get("answerer", row["answeredBy"]) for row in ours}
    assert answerers == {"script", "demo", "nobody"}


@pytest.mark.network
def test_demo_app_gets_the_answers(events: list[Json]) -> None:
    data = of(events, "result")[0]["data"]
    assert data["name"] == {"value": "Ada Example"}
    assert data["travellers"] == {"value": 2}
    assert data["contact"] == {"value": {"name": "Grace Example"}}
    assert data["delete"] == {"confirmed": False}
    assert data["seat"] == {"value": "window"}  # declined: a preference has the app's own default
    assert data["budget"]["code"] == "USER_CANCELLED"
    assert data["greeting"]["result"].startswith("(no model here)")


# --- an answers file ------------------------------------------------------------------------------


@pytest.mark.network
def test_demo_example_file_answers_every_question() -> None:
    events = told("--answers", str(EXAMPLE))
    [account] = of(events, "account")
    assert account["remarks"] == []
    pairs = zip(of(events, "asked"), of(events, "answered"), strict=True)
    others = {first_line(asked) for asked, reply in pairs if reply["outcome"] != "accepted"}
    assert others == {
        "What may it cost at most, in euros?",
        "A photo for the ticket?",
        "Window or aisle?",
    }
    data = of(events, "result")[0]["data"]
    assert (data["month"], data["travellers"]) == ({"selected": "12"}, {"value": 4})
    assert data["train"] == {"value": False}
    assert data["contact"] == {"value": {"name": "Grace Example", "phone": "+44 20 7946 0000"}}


@pytest.mark.network
def test_demo_without_enough_answers_says_which_questions_no_one_answered(tmp_path: Path) -> None:
    entries = ["Ada", {"match": "season", "value": "winter"}, {"match": "no such", "value": 1}]
    ended = demo("--answers", answers(tmp_path, *entries))
    assert ended.returncode == 0
    words = " ".join(ended.stdout.split())
    assert "Name: Ada [the answers file]" in words
    assert "Choice: Winter [the answers file]" in words
    assert "nobody answered: no entry answers it;" in words
    assert "(2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 15)" in words
    assert "No question used the entry 3." in words


@pytest.mark.network
def test_demo_reports_answers_that_do_not_fit(tmp_path: Path) -> None:
    written = [{"match": "ticket", "value": "nowhere"}, {"match": "Book", "value": True}]
    ended = demo("--answers", answers(tmp_path, *written))
    words = " ".join(ended.stdout.split())
    problem = "'Where should the ticket be sent?': value must be an e-mail address"
    assert (ended.returncode, f"entry 1 does not answer {problem}" in words) == (1, True)
    assert "Confirm: yes" in words


UNUSABLE = {
    "": "is not JSON",
    "[NaN]": "NaN",
    "\xff\xfe": "is not JSON",
}


@pytest.mark.parametrize("text", UNUSABLE, ids=[each[:30] for each in UNUSABLE])
def test_demo_rejects_an_unusable_answers_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(text.encode("latin-1"))
    ended = demo("--answers", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert UNUSABLE[text] in ended.stderr
    assert str(path) in ended.stderr
    assert "Traceback" not in ended.stderr


# --- processes and terminals ----------------------------------------------------------------------


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    """An environment by which everything that the demo starts can be found; it must all end."""
    mark = f"ABP_TEST_MARK={uuid.uuid4().hex}"
    yield {**harness.environment(), **dict([mark.split("=")])}
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


def start(*arguments: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen([*DEMO, *arguments], stdin=null, stdout=pipe, stderr=pipe, env=env)


@pytest.mark.process
def test_demo_ends_quietly_if_its_reader_leaves(env: dict[str, str]) -> None:
    with start(env=env) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_demo_ends_with_its_bridge_on_a_signal(env: dict[str, str], number: signal.Signals) -> None:
    with start("--json", env=env) as process:
        assert process.stdout is not None
        while b'"connected"' not in process.stdout.readline():
            pass
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(PATIENCE) in (128 + number, 0)  # 0: it was done before
        assert process.stderr is not None
        assert process.stderr.read() == b""


def prompt(screen: Screen, message: str) -> None:
    """Wait until `message` is asked and keys count."""
    screen.until("● demo asks")
    screen.until(message)
    screen.until("Esc cancels")


@pytest.mark.terminal
def test_demo_ends_on_a_second_ctrl_c(env: dict[str, str]) -> None:
    with Screen(DEMO, env) as screen:
        prompt(screen, "Whose trip is it?")
        assert b"\x1b[1;36m" in screen.raw  # in colour
        assert b"\r\x1b[2K" in screen.raw  # one line of progress
        screen.press(CTRL_C)
        screen.until("cancelled")
        screen.until("Ctrl-C once more ends abp-bridge demo.")
        prompt(screen, "Where should the ticket be sent?")
        screen.press("a@b.org", ENTER)  # an answer in between forgives the first
        prompt(screen, "Sea or mountains?")
        screen.press(CTRL_C)
        prompt(screen, "Which season?")
        screen.press(CTRL_C)
        screen.until("Ended. The bridge is closed.")
        assert screen.end() == 128 + signal.SIGINT
        assert screen.restored
    assert "Traceback" not in screen.shown


@pytest.mark.terminal
def test_demo_ends_if_its_terminal_is_closed(env: dict[str, str]) -> None:
    with Screen(DEMO, env) as screen:
        prompt(screen, "Whose trip is it?")
        screen.hang_up()
        assert screen.process.wait(PATIENCE) == 128 + signal.SIGHUP
