"""Replays: what a broken bridge and an odd fixture are told, and how a fixture is drawn."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conversations import FIXTURES
from harness import PATIENCE, run

from abp_bridge.record.pattern import match
from abp_bridge.record.script import Differs, Script
from abp_bridge.record.trace import Entry, read
from abp_bridge.record.words import escape, fill

Json = Any

BROKEN = Path(__file__).parent / "apps" / "broken.py"
SELECT = FIXTURES / "mcp-form" / "2025-11-25" / "select-many.jsonl"
PROGRESS = FIXTURES / "mcp" / "2025-11-25" / "progress.jsonl"


def broken(fault: str) -> str:
    return f"{sys.executable} {BROKEN} {fault}"


# --- what a replay finds ----------------------------------------------------------------------------------------------------------------------

# fault -> (the fixture that finds it, what is said of it)
FAULTS = {
    "drop": (SELECT, 'params.requestedSchema.properties.selected.enum: 12 options expected, 11 given; missing: "Madrid"'),
    "twice": (SELECT, "the bridge answered twice: a second response to the host's request 2"),
    "three": (SELECT, "params.requestedSchema.properties.selected.enum: 12 options expected, 3 given"),
    "mute": (SELECT, "nothing came within 2 s: the request elicitation/create to the host was expected"),
    "hoarse": (SELECT, "a line to the host that is no JSON"),
    "early": (PROGRESS, "the response to the host's request 2 came before the notification notifications/progress"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_bridge_fails_with_words_that_name_the_fault(fault: str) -> None:
    fixture, words = FAULTS[fault]
    played = run("replay", str(fixture), "--bridge", broken(fault), "--patience", "2")
    assert played.returncode == 1
    assert words in played.stdout
    assert re.search(r"line \d+: ", played.stdout)
    assert played.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_a_difference_can_be_read_by_a_program() -> None:
    played = run("replay", str(SELECT), str(PROGRESS), "--bridge", broken("three"), "--json")
    failed, passed, closing = map(json.loads, played.stdout.splitlines())
    assert (failed["fixture"], failed["passed"], failed["line"]) == (str(SELECT), False, 13)
    assert failed["details"] == [
        'params.requestedSchema.properties.selected.enum: 12 options expected, 3 given; missing: "Dublin", "Edinburgh", "Florence" and 6 more'
    ]
    assert len(failed["expected"]["params"]["requestedSchema"]["properties"]["selected"]["enum"]) == 12
    assert passed["passed"] is True
    assert closing == {"passed": 1, "failed": 1}


def test_a_bridge_that_ends_is_told_with_its_last_words() -> None:
    played = run("replay", str(SELECT), "--bridge", "sh -c 'echo no such luck >&2; exit 3'")
    assert "the bridge ended (exit code 3; its last words: no such luck)" in played.stdout
    assert played.returncode == 1


def test_another_bridge_may_be_told_in_its_own_way_where_the_app_is() -> None:
    ours = f"{sys.executable} -m abp_bridge serve --app 'stdio:{{app}}'"
    assert run("replay", str(SELECT), "--bridge", ours).stdout.endswith("1 passed, 0 failed\n")


# text, what is said of it
MALFORMED = {
    "nothing": ("", "a trace or a fixture begins with a head line"),
    "no JSON": ("hello\nworld\n", "line 1: this is not JSON"),
    "no head": ('{"way": "host->bridge", "message": {}}\n', "line 1: the first line must be a head"),
    "another format": ('{"abp-fixture": 99}\n', "line 1: this is of another version"),
    "an odd head": ('{"abp-fixture": 1, "run": "serve"}\n', "line 1: run in the head cannot be read: it must be a list of texts"),
    "a file elsewhere": ('{"abp-fixture": 1, "files": {"../x": ""}}\n', "line 1: files in the head: '../x' must be a plain name"),
    "no way": ('{"abp-fixture": 1}\n{"message": {}}\n', 'line 2: this needs a "way"'),
    "an unknown way": ('{"abp-fixture": 1}\n{"way": "host->app", "message": {}}\n', 'line 2: this needs a "way"'),
    "nothing said": (
        '{"abp-fixture": 1}\n{"way": "host->bridge"}\n',
        "line 2: this must have exactly one of message, raw, closed, fill, screen, keys, http",
    ),
    "a name too early": (
        '{"abp-fixture": 1}\n{"way": "host->bridge", "message": {"id": "[id 1]"}}\n',
        "line 2: [id 1] stands here before the bridge chose anything for it",
    ),
    "an app too early": (
        '{"abp-fixture": 1}\n{"way": "app->bridge", "message": {"jsonrpc": "2.0", "method": "x"}}\n',
        "line 2: the app is to speak here, and the bridge has not started it",
    ),
    "cut off": ('{"abp-fixture": 1}\n{"way": "host->bri', "its last line is cut off"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_file_that_is_no_fixture_is_a_failure_that_says_why(case: str, tmp_path: Path) -> None:
    text, words = MALFORMED[case]
    path = tmp_path / "odd.jsonl"
    path.write_text(text)
    played = run("replay", str(path))
    assert (played.returncode, played.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed"), played.stderr
    assert words in played.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "nowhere.jsonl"), "there is no nowhere.jsonl"),
        (("replay", "."), "there is no fixture in ."),
        (("replay", str(SELECT), "--bridge", "no-such-bridge"), "there is no program 'no-such-bridge'"),
        (("replay", "--save", "only-one"), "--save needs two names"),
        (("trace", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(arguments: Sequence[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FIXTURES.parent))
    monkeypatch.chdir(tmp_path)
    played = run(*arguments)
    assert played.returncode == 2
    assert words in played.stderr
    assert len(played.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--patience", "soon"), "'soon' must be a number of seconds"),
        (("--patience", "0"), "'0' must be a number of seconds"),
        (("--patience", "nan"), "'nan' must be a number of seconds"),
        (("--jobs", "-1"), "'-1' must be a whole number, from 1"),
        (("--jobs", "many"), "'many' must be a whole number, from 1"),
    ],
)
def test_numbers_that_make_no_sense_are_said(arguments: Sequence[str], words: str) -> None:
    played = run("replay", str(SELECT), *arguments)
    assert (played.returncode, words in played.stderr) == (2, True), played.stderr


@pytest.mark.parametrize("command", ["matrix", "matrix --format markdown --fixture", f"trace {SELECT} --full", f"replay {SELECT} {PROGRESS}"])
def test_who_stops_reading_gets_no_traceback(command: str) -> None:
    played = subprocess.Popen([sys.executable, "-m", "abp_bridge", *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert played.stdout is not None
    assert played.stderr is not None
    played.stdout.close()
    said = played.stderr.read().decode()
    played.stderr.close()
    assert (played.wait(4 * PATIENCE), said) == (141, "")


# what a person does, what is said of it
ODD_PERSONS: dict[str, tuple[Json, str]] = {
    "a page that is not ours": ({"open": "http://example.com/", "fill": []}, "is no page of this machine's"),
    "keys without a terminal": ({"keys": "x"}, 'there is no terminal to type at: "run" in the head needs "--tty", "{tty}"'),
    "a request without a port": ({"http": "GET /question"}, 'there is no port to ask at: "run" in the head needs'),
    "a request that is none": ({"http": "DELETE /all"}, "its http cannot be read: it must be a request to the questions API"),
    "an odd button": ({"open": "[link 1]", "fill": [], "press": "explode"}, "its fill cannot be read"),
}


@pytest.mark.parametrize("odd", ODD_PERSONS)
def test_a_person_who_does_what_cannot_be_done_is_a_failure_that_says_why(odd: str, tmp_path: Path) -> None:
    does, words = ODD_PERSONS[odd]
    path = tmp_path / "odd.jsonl"
    told = {"way": "bridge->host", "message": {"jsonrpc": "2.0", "id": 1, "result": "[any]"}}
    path.write_text("".join(json.dumps(line) + "\n" for line in ({"abp-fixture": 1}, {"way": "person->bridge", **does}, told)))
    played = run("replay", str(path))
    assert (played.returncode, words in played.stdout) == (1, True), played.stdout


TERMINAL = FIXTURES / "terminal" / "chosen.jsonl"
OFFERED = FIXTURES / "questions-api" / "chosen.jsonl"
READ = FIXTURES / "page" / "hints.jsonl"


@pytest.mark.parametrize(
    ("fixture", "before", "after", "words"),
    [
        (TERMINAL, '"Book it?"', '"Cancel it?"', "what the terminal shows is not as it should be"),
        (OFFERED, '{"status": 200, "body": true}', '{"status": 404, "body": true}', "the questions API's response is not as it should be"),
        (READ, "As it is printed there", "As you like", "the page could not be filled in: there is nothing of 'As you like' on it"),
    ],
    ids=["terminal", "questions API", "page"],
)
def test_what_a_person_is_shown_is_compared_too(fixture: Path, before: str, after: str, words: str, tmp_path: Path) -> None:
    text = fixture.read_text()
    lines = [line.replace(before, after) if line.startswith('{"way": "bridge->person"') or '"reads"' in line else line for line in text.splitlines()]
    (tmp_path / "other.jsonl").write_text("\n".join(lines) + "\n")
    played = run("replay", str(tmp_path / "other.jsonl"), "--patience", "3")
    assert (played.returncode, words in played.stdout) == (1, True), played.stdout


# --- drawing ----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 97, 200])
def test_a_drawing_fits_and_says_what_it_leaves_out(width: int) -> None:
    drawn = run("trace", str(SELECT), "--width", str(width)).stdout
    assert max(map(len, drawn.splitlines())) <= width
    assert "elicitation/create" in drawn
    assert "more characters]" in drawn
    assert "\x1b" not in drawn


def test_a_drawing_can_be_whole() -> None:
    drawn = run("trace", str(SELECT), "--width", "80", "--full").stdout
    assert "more characters]" not in drawn
    assert '"Madrid"' in drawn


def test_a_trace_can_be_read_by_a_program() -> None:
    lines = [json.loads(line) for line in run("trace", str(SELECT), "--json").stdout.splitlines()]
    assert lines[0] == {"line": 2, "from": "host", "to": "bridge", "message": lines[0]["message"]}


# --- the parts --------------------------------------------------------------------------------------------------------------------------------


def test_a_name_means_the_same_wherever_it_stands() -> None:
    found = match({"id": "[id 1]", "text": "waits for [id 1], [number] ms"}, {"id": "a-7", "text": "waits for a-7, 1.5e3 ms"}, {})
    assert found.learned == {"[id 1]": "a-7"}
    assert not found.differences
    wrong = match({"id": "[id 1]", "text": "waits for [id 1]"}, {"id": "a-7", "text": "waits for a-8"}, {})
    assert [each.path for each in wrong.differences] == ["text"]
    assert fill({"to": "[id 1]", "words": "[id 1]!"}, {"[id 1]": 7}) == {"to": 7, "words": "7!"}


def test_two_options_with_one_id_are_a_fault() -> None:
    options = [{"optionId": "[option 1]"}, {"optionId": "[option 2]"}]
    found = match(options, [{"optionId": "x"}, {"optionId": "x"}], {})
    assert [str(each) for each in found.differences] == ['[1].optionId: one of its own expected, "x" given, which is [option 1] already']


def test_yes_is_not_one_and_members_are_named() -> None:
    found = match({"a": 1, "b": {"c": True}, "d": None}, {"a": True, "b": {"c": True, "e": 2}}, {})
    assert [str(each) for each in found.differences] == [
        "a: 1 expected, true given",
        "b.e: nothing expected, 2 given",
        "d: null expected, nothing given",
    ]


def entry(way: str, message: Json, line: int = 0) -> Entry:
    sender, _, to = way.partition("->")
    return Entry("message", message, sender, to, line=line)


def ask(id: Json, method: str = "ask") -> Json:
    return {"id": id, "method": method}


def test_what_is_asked_at_once_may_come_in_any_order() -> None:
    script = Script(
        [
            entry("bridge->host", ask("[id 1]", "one")),
            entry("bridge->host", ask("[id 2]", "two")),
            entry("host->bridge", {"id": "[id 1]", "result": 1}),
        ]
    )
    script.heard("host", "message", ask("x", "two"))
    assert script.next() == []
    script.heard("host", "message", ask("y", "one"))
    assert [value for _, value in script.next()] == [{"id": "y", "result": 1}]
    assert script.over


def test_a_notification_may_come_before_it_is_expected() -> None:
    told = {"method": "notifications/tools/list_changed"}
    script = Script(
        [entry("host->bridge", ask(1)), entry("bridge->host", {"id": 1, "result": 1}), entry("host->bridge", ask(2)), entry("bridge->host", told)]
    )
    script.next()
    script.heard("host", "message", told)
    script.heard("host", "message", {"id": 1, "result": 1})
    assert len(script.next()) == 1
    assert script.over
    assert script.left_over() is None


def test_what_no_line_shows_is_a_difference() -> None:
    script = Script([entry("host->bridge", ask(1)), entry("bridge->host", {"id": 1, "result": 1}, line=3)])
    script.next()
    with pytest.raises(Differs, match="something that the fixture does not show: the request ask to the host") as found:
        script.heard("host", "message", ask("x"))
    assert found.value.line == 3


def test_a_fixture_that_holds_a_bridge_to_nothing_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text('{"abp-fixture": 1, "shows": "nothing", "run": ["serve"], "host": "mcp 2025-11-25"}\n')
    played = run("replay", str(path))
    assert played.returncode != 0
    assert "there is nothing to hold this one to" in played.stdout


def test_a_bridge_that_ends_badly_does_not_pass(tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.write_text(f'#!/bin/sh\n"{sys.executable}" -m abp_bridge "$@"\nexit 70\n')
    failing.chmod(0o755)
    played = run("replay", str(FIXTURES / "mcp-form" / "2025-11-25" / "boolean.jsonl"), "--bridge", str(failing))
    assert played.returncode == 1
    assert "the bridge ended with exit code 70" in played.stdout
