"""Replays: what a broken bridge and an odd fixture are told, and how a fixture is drawn."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fixture_maker.cases import CITIES, Case
from fixture_maker.host import Bridge
from fixture_maker.person import Asked, person
from hypothesis import given
from hypothesis import strategies as st
from support.harness import PATIENCE, run
from support.paths import APPS, FIXTURES

from abp_bridge import settings
from abp_bridge.cli import replay
from abp_bridge.conformance import expectations, workspace
from abp_bridge.conformance.expectations import Expectations
from abp_bridge.conformance.fixture import reduce
from abp_bridge.conformance.format import Entry, Recording, TraceError, dump_head, parse_recordings
from abp_bridge.conformance.match import ReplayMismatchError, match
from abp_bridge.conformance.placeholders import escape, fill, parts
from abp_bridge.conformance.sequence_diagram import draw

Json = Any

BROKEN = APPS / "broken.py"
SELECT = FIXTURES / "mcp-form" / "2025-11-25" / "select-many.jsonl"
TERMINAL = FIXTURES / "terminal" / "chosen.jsonl"
TOOLS = FIXTURES / "mcp" / "2025-11-25" / "tools-and-resources.jsonl"
CHOSEN = FIXTURES / "page" / "chosen.jsonl"
CONFIRM = FIXTURES / "mcp-form" / "2025-11-25" / "confirm-destructive.jsonl"
BEHIND = FIXTURES / "acp-proxy" / "app-in-a-form.jsonl"
PROGRESS = FIXTURES / "mcp" / "2025-11-25" / "progress.jsonl"


def broken(fault: str) -> str:
    return f"{sys.executable} {BROKEN} {fault}"


# --- what a replay finds --------------------------------------------------------------------------

# fault -> (the fixture that finds it, what is said of it)
FAULTS = {
    "drop": (
        SELECT,
        (
            "params.requestedSchema.properties.selected.enum: 12 options expected, 11 given;"
            ' missing: "Madrid"'
        ),
    ),
    "twice": (SELECT, "the bridge answered twice: a second response to the host's request 2"),
    "three": (
        SELECT,
        "params.requestedSchema.properties.selected.enum: 12 options expected, 3 given",
    ),
    "mute": (
        SELECT,
        "nothing came within 2 s: the request elicitation/create to the host was expected",
    ),
    "hoarse": (SELECT, "a line to the host that is no JSON"),
    "early": (
        PROGRESS,
        "the response to the host's request 2 came before the notification notifications/progress",
    ),
    "double": (
        SELECT,
        (
            "no goodbye when its host had left: a response to the app, to a question that is not"
            " open: 'q1'"
        ),
    ),
    "odd": (SELECT, "no goodbye when its host had left: explode to the app"),
    "mumble": (SELECT, "no goodbye when its host had left: a line to the app that is no JSON"),
    "same-id": (SELECT, 'id: one of its own expected, "1" given, which is [id 1] already'),
    "more": (TERMINAL, "the terminal shows something that the fixture does not show"),
    "eager": (SELECT, "the response to the host's request 2 came too early: it is line 17"),
    "invent": (CONFIRM, "the response to the app's request 'q1' came too early: it is line 15"),
    "orphan": (SELECT, "the bridge has ended, and left the app running"),
    "killed": (
        SELECT,
        "the bridge ended what it says to the app, in the middle of the conversation",
    ),
    "spare": (SELECT, "the bridge started the app again, while it was still running"),
    "again": (SELECT, "the bridge said shutdown to the app twice"),
    "tail": (SELECT, "the bridge answered twice: a second response to the host's request 2"),
    "crash": (BEHIND, "the bridge ended with exit code 70"),
    "tools": (TOOLS, "result.tools: 6 items expected, 5 given; missing: "),
    "page": (CHOSEN, "the page could not be filled in: there is nothing of 'first' on it"),
    "flood": (SELECT, "the bridge said 1000 things and more before the fixture came to them"),
}


AT_THE_END = ("orphan", "crash", "spare", "killed")
# seconds: only what is found by silence is waited for in vain
SILENCE, LONG = "2", "60"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_bridge_fails_with_words_that_name_the_fault(fault: str) -> None:
    fixture, words = FAULTS[fault]
    patience = SILENCE if fault == "mute" else LONG
    played = run("replay", str(fixture), "--bridge", broken(fault), "--patience", patience)
    assert played.returncode == 1
    assert words in played.stdout
    assert re.search(r"line \d+: ", played.stdout) or fault in AT_THE_END
    assert played.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_a_bridge_that_speaks_without_end_fails() -> None:
    played = run("replay", str(SELECT), "--bridge", broken("endless"))
    assert (
        played.returncode,
        "the bridge says too much: more than 32 MiB in one fixture" in played.stdout,
    ) == (1, True), played.stdout


def test_a_difference_can_be_read_by_a_program() -> None:
    played = run("replay", str(SELECT), str(PROGRESS), "--bridge", broken("three"), "--json")
    failed, passed, closing = map(json.loads, played.stdout.splitlines())
    assert (failed["fixture"], failed["passed"], failed["line"]) == (str(SELECT), False, 13)
    assert failed["details"] == [
        "params.requestedSchema.properties.selected.enum: 12 options expected, 3 given; missing:"
        ' "Dublin", "Edinburgh", "Florence" and 6 more'
    ]
    assert (
        len(failed["expected"]["params"]["requestedSchema"]["properties"]["selected"]["enum"]) == 12
    )
    assert passed["passed"] is True
    assert closing == {"passed": 1, "failed": 1, "skipped": 0}


@pytest.mark.parametrize("as_json", [False, True])
def test_replay_skips_fixture_without_its_extra(
    as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "find_spec", lambda package: None)
    fixture = str(FIXTURES / "apps" / "sampling-api.jsonl")
    played = run("replay", fixture, *["--json"] * as_json)
    assert played.returncode == 0
    first, last = played.stdout.splitlines()
    if as_json:
        assert json.loads(first)["skipped"] == "needs extra 'models'"
        assert json.loads(last) == {"passed": 0, "failed": 0, "skipped": 1}
    else:
        assert first == f"skip  {fixture}: needs extra 'models'"
        assert last == "0 passed, 0 failed, 1 skipped"


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
    "no head": (
        '{"way": "host->bridge", "message": {}}\n',
        "line 1: the first line must be a head",
    ),
    "another format": ('{"abp-fixture": 99}\n', "line 1: this is of another version"),
    "an odd head": (
        '{"abp-fixture": 1, "run": "serve"}\n',
        "line 1: run in the head cannot be read: it must be a list of texts",
    ),
    "a file elsewhere": (
        '{"abp-fixture": 1, "files": {"../x": ""}}\n',
        "line 1: files in the head: '../x' must be a plain name",
    ),
    "no way": ('{"abp-fixture": 1}\n{"message": {}}\n', 'line 2: this needs a "way"'),
    "an unknown way": (
        '{"abp-fixture": 1}\n{"way": "host->app", "message": {}}\n',
        "line 2: 'host->app' is none: this needs a \"way\"",
    ),
    "nothing said": (
        '{"abp-fixture": 1}\n{"way": "host->bridge"}\n',
        "line 2: this must have exactly one of message, raw, closed, fill, screen, keys, http",
    ),
    "a name too early": (
        '{"abp-fixture": 1}\n{"way": "host->bridge", "message": {"id": "[id 1]"}}\n',
        "line 2: [id 1] stands here before the bridge chose anything for it",
    ),
    "an app too early": (
        (
            '{"abp-fixture": 1}\n{"way": "app->bridge", "message": {"jsonrpc": "2.0", "method":'
            ' "x"}}\n'
        ),
        "line 2: the app is to speak here, and the bridge has not started it",
    ),
    "cut off": ('{"abp-fixture": 1}\n{"way": "host->bri', "its last line is cut off"),
}


def failures(folder: Path, texts: Mapping[str, str], *options: str) -> dict[str, str]:
    """What is said of each file, of which none may pass. One process plays them all."""
    for number, text in enumerate(texts.values()):
        (folder / f"{number:02}.jsonl").write_text(text)
    played = run("replay", str(folder), *options)
    assert (played.returncode, played.stderr) == (1, "")
    assert played.stdout.splitlines()[-1] == f"0 passed, {len(texts)} failed"
    _, *said = re.split(
        rf"^FAIL  {re.escape(str(folder))}/\d+\.jsonl$", played.stdout, flags=re.MULTILINE
    )
    return dict(zip(texts, said, strict=True))


def without(expected: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """What is said in those cases where the words that are expected are not in it."""
    return {case: said[case] for case, words in expected.items() if words not in said[case]}


def test_a_file_that_is_no_fixture_is_a_failure_that_says_why(tmp_path: Path) -> None:
    said = failures(tmp_path, {case: text for case, (text, _) in MALFORMED.items()})
    assert {
        case: said[case] for case, (_, words) in MALFORMED.items() if words not in said[case]
    } == {}


HOST: Json = {"way": "host->bridge", "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}}
PONG: Json = {"way": "bridge->host", "message": {"jsonrpc": "2.0", "id": 1, "result": {}}}
NAMED: Json = {"way": "bridge->host", "message": {"jsonrpc": "2.0", "id": "[id 1]", "result": {}}}
WITH_TTY = ["serve", "--tty", "{tty}"]


def nested(levels: int) -> Json:
    value: Json = []
    for _ in range(levels):
        value = [value]
    return value


# what is odd -> (the head, the lines, what is said)
ODD: dict[str, tuple[Json, Sequence[Json], str]] = {
    "a number for a link": (
        {},
        [HOST, NAMED, {"way": "person->bridge", "open": "[id 1]", "fill": []}],
        "line 4: with what the bridge chose in it, its fill cannot be read",
    ),
    "a number for what is typed": (
        {"run": WITH_TTY},
        [HOST, NAMED, {"way": "person->bridge", "keys": "[id 1]"}],
        "its keys cannot be read",
    ),
    "a number for a line": (
        {},
        [HOST, NAMED, {"way": "host->bridge", "raw": "[id 1]"}],
        "its raw cannot be read",
    ),
    "a number for a member": (
        {},
        [HOST, NAMED, {"way": "host->bridge", "message": {"[id 1]": 1}}, PONG],
        "something that the fixture does not show",
    ),
    "a word for anything is said": (
        {},
        [{"way": "host->bridge", "message": {"id": "[any]"}}],
        "line 2: [any] stands for more than one thing",
    ),
    "a deep message": (
        {},
        [{"way": "host->bridge", "message": nested(600)}],
        "line 2: this is nested more than 200 levels deep",
    ),
    "half of a character, said": (
        {},
        [{"way": "host->bridge", "raw": "\ud800"}],
        "its raw cannot be read",
    ),
    "half of a character, typed": (
        {"run": WITH_TTY},
        [{"way": "person->bridge", "keys": "\ud800"}],
        "its keys cannot be read",
    ),
    "half of a character, heard": (
        {},
        [HOST, {"way": "bridge->host", "message": {"id": 1, "result": "\ud800"}}],
        "is not as it should be",
    ),
    "half of a character, opened": (
        {},
        [{"way": "person->bridge", "open": "http://localhost/\ud800", "fill": []}, PONG],
        "could not be filled in",
    ),
    "half of a character in a file": (
        {"files": {"x": "\ud800"}},
        [],
        "files in the head: no command and no file",
    ),
    "half of a character in run": (
        {"run": ["serve", "\udfff"]},
        [],
        "run in the head: no command and no file",
    ),
    "half of a character in env": (
        {"env": {"LANG": "\udfff"}},
        [],
        "env in the head: no command and no file",
    ),
    "controls in what it shows": ({"shows": "\x1b[2J", "run": ["ask"]}, [], "\\x1b[2J"),
    "a NUL in run": (
        {"run": ["serve", "\0"]},
        [],
        "run in the head: no command and no file can have a NUL",
    ),
    "a NUL in env": (
        {"env": {"TERM": "a\0b"}},
        [],
        "env in the head: no command and no file can have a NUL",
    ),
    "a variable with =": (
        {"env": {"TERM=x": "y"}},
        [],
        "env in the head: 'TERM=x' is no setting that a fixture may make",
    ),
    "an open brace": ({"run": ["serve", "{"]}, [], "run in the head: '{' is no option"),
    "empty braces": (
        {"run": ["serve", "--app", "stdio:{}"]},
        [],
        "run in the head: --app 'stdio:{}' is refused",
    ),
    "turned braces": ({"run": ["serve", "}{"]}, [], "run in the head: '}{' is no option"),
    "a party that is a folder": ({"run": ["serve", "--app", "stdio:{app ..}"]}, [], "is refused"),
    "two parties of one name": (
        {"run": ["serve", "--app", "stdio:{app}", "--app", "stdio:{app app}"]},
        [],
        "two of its parties would have one name",
    ),
    "a file named as the stand-ins' socket": (
        {"files": {"s": "x", "app": "x"}},
        [HOST, PONG, PONG],
        "nothing came",
    ),
    "no patience": ({"patience": 0}, [], "patience in the head cannot be read"),
    "next to no patience": (
        {"patience": 1e-9, "run": ["serve"]},
        [],
        "there is nothing to hold this one to",
    ),
    "endless patience": ({"patience": 10**400}, [], "patience in the head cannot be read"),
    "a huge id": (
        {"patience": 2},
        [
            {"way": "host->bridge", "message": {"jsonrpc": "2.0", "id": 10**400, "method": "ping"}},
            PONG,
        ],
        "line 3: ",
    ),
    "a number that is too huge": ({}, ["9" * 5_000], "line 2: this is not JSON"),
    "a list as id": (
        {},
        [{"way": "host->bridge", "message": {"jsonrpc": "2.0", "id": [1], "method": {}}}, NAMED],
        "something that the fixture does not show",
    ),
    "a person who is sent a number": (
        {},
        [HOST, PONG, {"way": "bridge->person", "message": 5}],
        "the questions API's response was expected",
    ),
    "nobody who reads": (
        {"run": WITH_TTY, "patience": 1},
        [{"way": "person->bridge", "keys": "x\n" * 50_000}, PONG],
        "what is typed does not reach the bridge",
    ),
    "a line that no terminal takes": (
        {"run": WITH_TTY},
        [{"way": "person->bridge", "keys": "x" * 5_000 + "\n"}, PONG],
        "takes lines of 4095 bytes",
    ),
    "an address that is connected": (
        {"run": ["serve"]},
        [
            {
                "way": "host->bridge",
                "message": {
                    "method": "tools/call",
                    "params": {"name": "abp_connect", "arguments": {"target": "https://a.example"}},
                },
            }
        ],
        "line 2: this has an address connected",
    ),
    "an address in a prompt": (
        {},
        [
            {
                "way": "host->bridge",
                "raw": (
                    ' {"method": "session/prompt", "params": {"prompt": [{"type": "text", "text":'
                    ' "/connect HTTP://a.example"}]}}'
                ),
            }
        ],
        "line 2: this has an address connected",
    ),
}


def test_an_odd_fixture_is_a_failure_that_says_why(tmp_path: Path) -> None:
    texts = {
        odd: fixture_text(head, *entries).replace(f'"{"9" * 5_000}"', "9" * 5_000)
        for odd, (head, entries, _) in ODD.items()
    }
    said = failures(tmp_path, texts, "--patience", "6")
    assert without({odd: words for odd, (*_, words) in ODD.items()}, said) == {}
    assert "\x1b" not in "".join(said.values())


def fixture_text(head: Json, *entries: Json) -> str:
    return "".join(json.dumps(line) + "\n" for line in ({"abp-fixture": 1, **head}, *entries))


@pytest.mark.process
def test_a_place_that_is_too_long_for_a_socket_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (long := tmp_path / ("x" * 120)).mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    played = run("replay", str(SELECT))
    assert (played.returncode, played.stderr) == (1, "")
    assert "the stand-ins' socket cannot be made at" in played.stdout


STAND_IN = "an agent or a server must be a stand-in"

# what a fixture must not have a bridge do -> its head, what is said
REFUSED: dict[str, tuple[Json, str]] = {
    "a command as app": (
        {"run": ["serve", "--app", "stdio:rm -rf x"]},
        "--app 'stdio:rm -rf x' is refused: an app must be a stand-in",
    ),
    "a command as app, in one word": (
        {"run": ["serve", "--app=stdio:sh"]},
        "--app 'stdio:sh' is refused",
    ),
    "a command after the stand-in": ({"run": ["serve", "--app", "stdio:{app};sh"]}, "is refused"),
    "a page as app": ({"run": ["serve", "--app", "https://app.example"]}, "is refused"),
    "a short option": (
        {"run": ["serve", "--rec", "/tmp/x"]},
        "'--rec' is no option that a fixture may use",
    ),
    "a command as agent": ({"run": ["acp", "--", "sh", "-c", "x"]}, STAND_IN),
    "an agent without a command": ({"run": ["acp", "--"]}, STAND_IN),
    "a command as server": ({"run": ["mcp", "--", "sh", "-c", "x"]}, STAND_IN),
    "an agent as server": ({"run": ["mcp", "--", "{agent}"]}, STAND_IN),
    "a server without a command": ({"run": ["mcp", "--url", "https://x.example"]}, STAND_IN),
    "a browser for a server": ({"env": {"ABP_PAGE": "open"}}, "a replay opens no browser"),
    "an agent of serve's": ({"run": ["serve", "--", "{agent}"]}, STAND_IN),
    "another command": ({"run": ["install", "zed"]}, "must begin with serve, acp or mcp"),
    "a file elsewhere": (
        {"run": ["serve", "--record", "/tmp/x"]},
        "--record '/tmp/x' is refused: it must lie in {folder}",
    ),
    "a file above": ({"run": ["serve", "--answers", "{folder}/../x"]}, "it must lie in {folder}"),
    "a root elsewhere": ({"run": ["serve", "--root", "/"]}, "it must lie in {folder}"),
    "a model at an address": (
        {"env": {"ABP_SAMPLING": "https://x.example/v1#m"}},
        "ABP_SAMPLING='https://x.example/v1#m' is refused: a model must be a stand-in",
    ),
    "another terminal": ({"run": ["serve", "--tty", "/dev/tty1"]}, "it must be {tty}"),
    "another port": ({"run": ["serve", "--questions-api", "80"]}, "it must be {port}"),
    "a browser": ({"run": ["serve", "--page", "open"]}, "a replay opens no browser"),
    "a private host": (
        {"run": ["serve", "--allow", "10.0.0.1"]},
        "'--allow' is no option that a fixture may use",
    ),
    "apps in env": (
        {"env": {"ABP_APPS": "stdio:rm -rf"}},
        "'ABP_APPS' is no setting that a fixture may make",
    ),
    "a program in env": (
        {"env": {"ABP_CHROME": "/bin/sh"}},
        "'ABP_CHROME' is no setting that a fixture may make",
    ),
    "a file in env": (
        {"env": {"ABP_RECORD": "/tmp/x"}},
        "ABP_RECORD='/tmp/x' is refused: it must lie in {folder}",
    ),
    "a folder after a file": ({"env": {"ABP_ROOTS": "{folder}/a:/etc"}}, "each must lie in {fold"),
    "folders in env": ({"env": {"ABP_ROOTS": "{folder}:/etc"}}, "each must lie in {folder}"),
    "a library": ({"env": {"LD_PRELOAD": "x.so"}}, "'LD_PRELOAD' is no setting"),
    "a path": ({"env": {"PATH": "{folder}"}}, "'PATH' is no setting"),
    "a terminal's file": ({"env": {"TERM": "../../x"}}, "TERM='../../x' is refused"),
    "a zone's file": ({"env": {"TZ": ":/etc/x"}}, "TZ=':/etc/x' is refused"),
}


def test_a_fixture_starts_nothing_but_stand_ins(tmp_path: Path) -> None:
    texts = {case: fixture_text(head) for case, (head, _) in REFUSED.items()}
    said = failures(tmp_path, texts, "--bridge", "false")
    assert {
        case: said[case] for case, (_, words) in REFUSED.items() if words not in said[case]
    } == {}


REFUSED_SETTINGS = {
    "allowed_hosts",
    "browser_url",
    "chrome",
    "chrome_sandbox",
    "log_level",
    "log_file",
    "page_port",
    "profile",
    "notify",
    "notify_urls",
    "notify_text",
    "audit",
    "server_url",
    "server_token",
    "listen",
    "tool_cache",
    "listen_origins",
}


def test_what_a_fixture_may_set_is_decided_for_each_setting() -> None:
    assert {name for name, row in settings.TABLE.items() if not row.replayable} == REFUSED_SETTINGS
    for name, row in settings.TABLE.items():
        assert (row.variable in workspace.VARIABLES) == (
            bool(row.variable) and name not in REFUSED_SETTINGS
        )
        assert (row.flag in workspace.OPTIONS) == (
            bool({"serve", "acp", "mcp"} & {*row.commands} and row.flag)
            and name not in REFUSED_SETTINGS
        )


@pytest.mark.parametrize(
    ("run", "env"),
    [
        (
            [
                "serve",
                "--app",
                "demo",
                "--app=stdio:{app 2}",
                "--page",
                "--page",
                "link",
                "--page=off",
            ],
            {"TZ": "Europe/Berlin", "LC_ALL": "C.UTF-8"},
        ),
        (["mcp", "--sampling", "openai:gpt-5-mini", "--", "{server}"], {}),
        (["serve", "--sampling={app model}#llama3"], {"ABP_SAMPLING": "cli:claude"}),
        (
            ["acp", "--record", "{folder}/x", "--", "{agent}", "--anything", "-c", "{ }"],
            {"ABP_ROOTS": "{folder}/a:{folder}/b"},
        ),
    ],
)
def test_what_does_no_harm_is_not_refused(run: Sequence[str], env: Json) -> None:
    (fixture,) = parse_recordings(json.dumps({"abp-fixture": 1, "run": run, "env": env}) + "\n")
    assert not list(workspace.find_refusals(fixture))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "nowhere.jsonl"), "there is no nowhere.jsonl"),
        (("replay", "."), "there is no fixture in ."),
        (
            ("replay", str(SELECT), "--bridge", "no-such-bridge"),
            "there is no program 'no-such-bridge'",
        ),
        (("replay", "--save", "only-one"), "--save needs two names"),
        (("trace", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    arguments: Sequence[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FIXTURES.parent))
    monkeypatch.chdir(tmp_path)
    played = run(*arguments)
    assert played.returncode == 2
    assert words in played.stderr
    assert len(played.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--patience", "soon"), "it must be a number of seconds, or have a unit"),
        (("--patience", "0"), "it must be more than 0"),
        (("--patience", "nan"), "it must be a number of seconds, or have a unit"),
        (("--jobs", "-1"), "'-1' must be a whole number, from 1"),
        (("--jobs", "many"), "'many' must be a whole number, from 1"),
    ],
)
def test_numbers_that_make_no_sense_are_said(arguments: Sequence[str], words: str) -> None:
    played = run("replay", str(SELECT), *arguments)
    assert (played.returncode, words in played.stderr) == (2, True), played.stderr


@pytest.mark.parametrize(
    "command",
    [
        "matrix",
        "matrix --format markdown --fixture",
        f"trace {SELECT} --full",
        f"replay {SELECT} {PROGRESS}",
    ],
)
def test_who_stops_reading_gets_no_traceback(command: str) -> None:
    played = subprocess.Popen(
        [sys.executable, "-m", "abp_bridge", *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert played.stdout is not None
    assert played.stderr is not None
    played.stdout.close()
    said = played.stderr.read().decode()
    played.stderr.close()
    assert (played.wait(4 * PATIENCE), said) == (141, "")


# what a person does, what is said of it
ODD_PERSONS: dict[str, tuple[Json, str]] = {
    "a page that is not ours": (
        {"open": "http://example.com/", "fill": []},
        "is no page of this machine's",
    ),
    "keys without a terminal": (
        {"keys": "x"},
        'there is no terminal to type at: "run" in the head needs "--tty", "{tty}"',
    ),
    "a request without a port": (
        {"http": "GET /question"},
        'there is no port to ask at: "run" in the head needs',
    ),
    "a request that is none": (
        {"http": "DELETE /all"},
        "its http cannot be read: it must be a request to the questions API",
    ),
    "an odd button": (
        {"open": "[link 1]", "fill": [], "press": "explode"},
        "its fill cannot be read",
    ),
}


@pytest.mark.parametrize("odd", ODD_PERSONS)
def test_a_person_who_does_what_cannot_be_done_is_a_failure_that_says_why(
    odd: str, tmp_path: Path
) -> None:
    does, words = ODD_PERSONS[odd]
    path = tmp_path / "odd.jsonl"
    told = {"way": "bridge->host", "message": {"jsonrpc": "2.0", "id": 1, "result": "[any]"}}
    path.write_text(
        "".join(
            json.dumps(line) + "\n"
            for line in ({"abp-fixture": 1}, {"way": "person->bridge", **does}, told)
        )
    )
    played = run("replay", str(path))
    assert (played.returncode, words in played.stdout) == (1, True), played.stdout


OFFERED = FIXTURES / "questions-api" / "chosen.jsonl"
READ = FIXTURES / "page" / "hints.jsonl"


@pytest.mark.parametrize(
    ("fixture", "before", "after", "words"),
    [
        (TERMINAL, '"Book it?"', '"Cancel it?"', "what the terminal shows is not as it should be"),
        (
            OFFERED,
            '{"status": 200, "body": true}',
            '{"status": 404, "body": true}',
            "the questions API's response is not as it should be",
        ),
        (
            READ,
            "As it is printed there",
            "As you like",
            "the page could not be filled in: there is nothing of 'As you like' on it",
        ),
    ],
    ids=["terminal", "questions API", "page"],
)
def test_what_a_person_is_shown_is_compared_too(
    fixture: Path, before: str, after: str, words: str, tmp_path: Path
) -> None:
    text = fixture.read_text()
    lines = [
        (
            line.replace(before, after)
            if line.startswith('{"way": "bridge->person"') or '"reads"' in line
            else line
        )
        for line in text.splitlines()
    ]
    (tmp_path / "other.jsonl").write_text("\n".join(lines) + "\n")
    played = run("replay", str(tmp_path / "other.jsonl"), "--patience", "3")
    assert (played.returncode, words in played.stdout) == (1, True), played.stdout


# --- drawing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 97, 200])
def test_a_drawing_fits(width: int) -> None:
    drawn = run("trace", str(SELECT), "--width", str(width)).stdout
    assert max(map(len, drawn.splitlines())) <= width
    assert "elicitation/create" in drawn
    assert "\x1b" not in drawn


def test_a_drawing_says_what_it_leaves_out() -> None:
    assert "more characters]" in run("trace", str(BEHIND), "--width", "97").stdout


def test_a_drawing_names_what_messages_are_about() -> None:
    modern = run(
        "trace", str(FIXTURES / "hosts" / "goose" / "select-many.jsonl"), "--width", "120"
    ).stdout
    assert "tools/call abp_call 2" in modern
    assert '{"inputResponses": {"[input 1]": {"action": "accept",' in modern
    acp = run(
        "trace",
        str(FIXTURES / "hosts" / "zed-before-forms" / "select-many.jsonl"),
        "--width",
        "120",
    ).stdout
    assert "session/update: agent_message_chunk" in acp
    assert "presses [Lisbon]" in acp


@pytest.mark.parametrize(
    "host", ["zed", "goose", "codex", "claude-code-legacy", "zed-before-forms"]
)
def test_a_drawing_shows_all_that_there_is_to_choose_from(host: str) -> None:
    drawn = run(
        "trace", str(FIXTURES / "hosts" / host / "select-many.jsonl"), "--width", "80"
    ).stdout
    left = " ".join(line.partition("│")[0].strip() for line in drawn.splitlines())
    assert all(city in left for city in CITIES)


def test_a_drawing_can_be_whole() -> None:
    drawn = run("trace", str(SELECT), "--width", "80", "--full").stdout
    assert "more characters]" not in drawn
    assert '"Madrid"' in drawn


def test_a_drawing_shows_a_message_without_a_name() -> None:
    said = {"way": "host->bridge", "message": {"jsonrpc": "2.0", "method": "", "params": {"x": 1}}}
    (recording,) = parse_recordings(f'{{"abp-fixture": 1}}\n{json.dumps(said)}\n')
    drawn = list(draw(recording, 80))
    assert any(line.startswith("? ─") for line in drawn)
    assert any('{"x": 1}' in line for line in drawn)


def test_a_trace_can_be_read_by_a_program() -> None:
    assert run("trace", str(SELECT), "--json").stdout == SELECT.read_text()


@pytest.mark.process
def test_a_drawing_needs_no_letters_that_a_terminal_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    drawn = run(
        "trace", str(FIXTURES / "hosts" / "acpx" / "confirm-destructive.jsonl"), "--width", "100"
    ).stdout
    assert "<---" in drawn
    assert "\\u25" not in drawn


# --- the parts ------------------------------------------------------------------------------------


def test_a_name_means_the_same_wherever_it_stands() -> None:
    found = match(
        {"id": "[id 1]", "text": "waits for [id 1], [number] ms"},
        {"id": "a-7", "text": "waits for a-7, 1.5e3 ms"},
        {},
    )
    assert found.learned == {"[id 1]": "a-7"}
    assert not found.differences
    wrong = match(
        {"id": "[id 1]", "text": "waits for [id 1]"}, {"id": "a-7", "text": "waits for a-8"}, {}
    )
    assert [each.path for each in wrong.differences] == ["text"]
    assert fill({"to": "[id 1]", "words": "[id 1]!"}, {"[id 1]": 7}) == {"to": 7, "words": "7!"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("[id 1]", False),
        ("[id 1]", 1.5),
        ("[id 1]", None),
        ("[id 1]", {}),
        ("[link 1]", ""),
        ("[call 1]", 7),
    ],
)
def test_a_name_is_a_text_and_an_id_may_be_a_whole_number(name: str, value: Json) -> None:
    found = match({"a": name}, {"a": value}, {})
    assert [each.path for each in found.differences] == ["a"]
    assert match({"a": "[id 1]"}, {"a": 7}, {})


def heard_in_turn(*said: tuple[str, Json, Json]) -> None:
    """(way, what the fixture has, what the bridge says)."""
    expectations = Expectations([entry(way, has) for way, has, _ in said])
    for way, _, says in said:
        expectations.take_next()
        expectations.on_message(way.rpartition(">")[2], "message", says)
    assert expectations.left_over() is None


@pytest.mark.parametrize(
    "name", ["id", "link", "call", "question", "state", "elicitation", "session", "tool"]
)
def test_what_a_bridge_chooses_differs_in_a_whole_conversation(name: str) -> None:
    with pytest.raises(ReplayMismatchError) as found:
        heard_in_turn(
            ("bridge->host", {"method": "a", "x": f"[{name} 1]"}, {"method": "a", "x": "same"}),
            (
                "bridge->host",
                {"method": "b", "x": f"see [{name} 2]!"},
                {"method": "b", "x": "see same!"},
            ),
        )
    assert found.value.details == (
        f'x: one of its own expected, "same" given, which is [{name} 1] already',
    )


def test_ids_differ_for_each_party_and_options_in_each_message() -> None:
    heard_in_turn(
        ("bridge->host", ask("[id 1]"), ask(1)),
        ("bridge->app", ask("[id 2]"), ask(1)),
        ("bridge->host", {"method": "a", "x": "[option 1]"}, {"method": "a", "x": "yes"}),
        ("bridge->host", {"method": "b", "x": "[option 2]"}, {"method": "b", "x": "yes"}),
    )


def test_how_often_it_is_said_that_something_goes_on_is_a_matter_of_the_machine() -> None:
    said: Json = {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 0}}
    later: Json = {**said, "params": {"progressToken": 1, "progress": 1}}
    expectations = Expectations([entry("bridge->host", ask("[id 1]"))])
    for message in (said, said, ask(1)):
        expectations.take_next()
        expectations.on_message("host", "message", message)
    assert expectations.left_over() is None
    with pytest.raises(ReplayMismatchError):
        Expectations([entry("bridge->host", ask(1))]).on_message("host", "message", later)


def test_an_app_that_starts_again_is_spoken_to_from_the_beginning() -> None:
    expectations = Expectations(
        [
            entry("bridge->app", ask("[id 1]")),
            Entry("closed", True, "app", "bridge"),
            entry("bridge->app", ask("[id 2]")),
        ]
    )
    expectations.take_next()
    expectations.on_message("app", "message", ask(1))
    expectations.take_next()
    expectations.on_message("app", "message", ask(1))
    assert expectations.left_over() is None


WORDS = [
    "[",
    "]",
    "[any]",
    "[tmp]",
    "[id 1]",
    "[number]",
    "[cut 5 characters]",
    "[either a|b]",
    "any]",
    "x",
    "1",
    " ",
    '"',
    "\\",
    "\n",
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map("".join))


@given(TEXTS, TEXTS)
def test_what_is_escaped_stands_for_itself_and_nothing_else(text: str, other: str) -> None:
    assert fill(escape(text), {}) == text
    assert match(escape(text), text, {})
    assert bool(match(escape(text), other, {})) is (text == other)
    assert match({escape(text): escape(text)}, {text: text}, {})


def test_brackets_of_the_texts_own_are_written_twice_before_a_word() -> None:
    assert parts("[[any] and [[[any]] and [[x]") == ("[any] and [", "[any]", "] and [[x]")
    assert match("[[[id 1]]", "[abc]", {}).learned == {"[id 1]": "abc"}
    assert not match("[[any]", "anything", {})
    assert match({"...": "[[any]"}, {"...": "[any]"}, {})
    assert not match({"...": "[[any]"}, {}, {}), "it is a member like any other"


PIECES = ["[any]", "[number]", "[either a|ab]", "[id 1]", "a", "b", "1", "1.", "-", " ", "see "]
MEANT = {
    "[any]": ".*?",
    "[number]": r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?",
    "[either a|ab]": "(?:ab|a)",
    "[id 1]": r"(?P<id>[^\s\"\\]+?)",
}


def expression_of(pieces: Sequence[str]) -> str:
    """What the grammar says: each word ends where the letters after it begin, the last one where
    the letters at the end do, and nothing is taken back.
    """
    expression, known = "", False
    words = parts("".join(pieces))
    for place in range(1, len(words), 2):
        word, after = words[place], re.escape(words[place + 1])
        end = r"\Z" if place + 2 == len(words) else ""
        meant = "(?P=id)" if word == "[id 1]" and known else MEANT[word]
        known = known or word == "[id 1]"
        number = "(?>" + meant + ")" if word == "[number]" else meant
        expression += f"(?>{number}{after}{end})"
    return re.escape(words[0]) + expression


@given(st.lists(st.sampled_from(PIECES), max_size=6), st.text("ab1.-e see", max_size=12))
def test_a_text_is_read_from_the_left_without_going_back(pieces: Sequence[str], text: str) -> None:
    pieces, text = ["x", *pieces], f"x{text}"  # a name that stands alone may be a number, too
    read = re.fullmatch(expression_of(pieces), text, re.DOTALL)
    found = match("".join(pieces), text, {})
    assert bool(found) is (read is not None)
    if read is not None:
        assert found.learned.get("[id 1]") == read.groupdict().get("id")


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("x" + "[any]a" * 8 + "b", "x" + "a" * 50_000),
        ("[number]" * 8 + "x", "1" * 50_000),
        ("".join(f"[id {number}]" for number in range(8)) + "x", "a" * 50_000),
        ("[either a|aa]" * 60 + "b", "a" * 90),
        ("".join(f"[any] [id {number}]" for number in range(30)) + "x", "ab " * 20_000),
        ("[" * 50_000 + "any]", "x"),
    ],
    ids=["anything", "numbers", "names", "either", "names anywhere", "brackets"],
)
def test_no_text_hangs_a_replay(expected: str, got: str) -> None:
    assert not match(expected, got, {})


# what a bridge says to an app that has asked q1 and q2 (an envelope), when its host has left ->
# what is wrong with it
GOODBYES: dict[str, tuple[str, Json, str]] = {
    "shutdown": ("message", {"jsonrpc": "2.0", "id": 9, "method": "shutdown"}, ""),
    "shutdown, told": ("message", {"jsonrpc": "2.0", "method": "shutdown"}, ""),
    "shutdown in an envelope": ("message", {"type": "shutdown", "payload": {}}, ""),
    "a call is cancelled": (
        "message",
        {"jsonrpc": "2.0", "id": 9, "method": "capabilities/cancel"},
        "",
    ),
    "a question is taken back": (
        "message",
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        "",
    ),
    "a question is refused": (
        "message",
        {"jsonrpc": "2.0", "id": "q1", "result": {"success": False}},
        "",
    ),
    "a question fails": ("message", {"jsonrpc": "2.0", "id": "q1", "error": {}}, ""),
    "an envelope's question is refused": (
        "message",
        {"type": "elicitation/response", "id": "q2", "payload": {"success": False}},
        "",
    ),
    "an answer from nobody": (
        "message",
        {"jsonrpc": "2.0", "id": "q1", "result": {"success": True}},
        "an answer to the app, when there was nobody",
    ),
    "an answer to nothing": (
        "message",
        {"jsonrpc": "2.0", "id": "q3", "result": {"success": False}},
        "to a question that is not open: 'q3'",
    ),
    "another method": (
        "message",
        {"jsonrpc": "2.0", "id": 9, "method": "capabilities/call"},
        "capabilities/call to the app",
    ),
    "no JSON": ("raw", "Goodbye!", "a line to the app that is no JSON"),
    "no message": ("message", [1], "something to the app"),
}


@pytest.mark.parametrize("case", GOODBYES)
def test_a_goodbye_is_one_of_a_few(case: str) -> None:
    kind, said, words = GOODBYES[case]
    open = expectations.OpenQuestions()
    open.note_question("app", {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/input"})
    open.note_question(
        "app",
        {"type": "elicitation/request", "id": "q2", "payload": {"method": "elicitation/input"}},
    )
    found = expectations.goodbye_fault("app", kind, said, open)
    assert (words in found) if words else (found == "")
    if expectations.is_answer(said):
        assert expectations.goodbye_fault("app", kind, said, open), "and not twice"


def test_a_preference_may_have_its_default_at_the_end() -> None:
    open = expectations.OpenQuestions()
    open.note_question("app", {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/preference"})
    assert (
        expectations.goodbye_fault(
            "app", "message", {"jsonrpc": "2.0", "id": "q1", "result": {"success": True}}, open
        )
        == ""
    )


def test_what_looks_like_a_word_in_brackets_is_itself_in_a_fixture_of_a_trace(
    tmp_path: Path,
) -> None:
    """An app that says "[any]" or "[id 1]" makes no hole in what a bridge is held to, and nothing
    that cannot be said.
    """
    odd = "[any] [id 1] [[number]] [either a|b] [tmp]/x [cut 5 characters] [call 7]"
    asked = Asked({"method": "elicitation/input", "params": {"prompt": odd}}, {"value": f"{odd}!"})
    capabilities: Json = {"elicitation": {"form": {}}}
    steps = [{"ask": asked.request, "aloud": True}]
    Bridge(Case(steps, capabilities=capabilities, person=person(asked)), tmp_path).play()
    saved = tmp_path / "fixture.jsonl"
    assert run("replay", "--save", str(tmp_path / "trace.jsonl"), str(saved)).returncode == 0
    assert (
        "[[any] [[id 1] [[[[number]] [[either a|b] [tmp]/x [cut 5 characters] [[call 7]"
        in saved.read_text()
    )
    assert run("replay", str(saved)).stdout.endswith("1 passed, 0 failed\n")
    other = "".join(
        line.replace("[[any]", "gone") if '"way": "app->' in line else f"{line}"
        for line in saved.read_text().splitlines(keepends=True)
    )
    (tmp_path / "other.jsonl").write_text(other)
    assert run("replay", str(tmp_path / "other.jsonl")).returncode == 1, "[any] is not anything"


TRACE = '{"abp-trace": 1, "apps": {"app": "demo"}}\n'


@given(TEXTS)
def test_what_a_trace_says_is_what_its_fixture_says(text: str) -> None:
    """But for the words that a recording puts there itself."""
    (trace,) = parse_recordings(
        TRACE
        + json.dumps({"way": "app->bridge", "message": {"method": "x", "params": text}})
        + "\n"
    )
    (said,) = reduce(trace).entries
    assert fill(said.value, {"[tmp]": "[tmp]"}) == {"method": "x", "params": text}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "method", "params", "result", "type", "requestId"]), inner
        )
    ),
    max_leaves=6,
)
WAYS = [
    "host->bridge",
    "bridge->host",
    "app->bridge",
    "bridge->app",
    "agent->bridge",
    "bridge->person",
    "person->bridge",
]
LINES = st.fixed_dictionaries(
    {},
    optional={
        "way": st.sampled_from(WAYS),
        "event": st.sampled_from(["InputRequestEvent", "InputResolvedEvent", "x"]),
        "question": JSON,
        "answeredBy": JSON,
        **dict.fromkeys(
            (
                "message",
                "raw",
                "closed",
                "screen",
                "keys",
                "http",
                "body",
                "fill",
                "open",
                "press",
                "reads",
                "ms",
            ),
            JSON,
        ),
    },
)


@given(
    st.sampled_from(["abp-fixture", "abp-trace"]),
    st.dictionaries(st.sampled_from(["run", "env", "files", "patience", "proves"]), JSON),
    st.lists(LINES),
)
def test_a_file_is_refused_or_can_be_played(kind: str, head: Json, entries: Sequence[Json]) -> None:
    """Whatever stands in it: the bridge says what each line has."""
    try:
        (found,) = parse_recordings(
            "".join(json.dumps(line) + "\n" for line in ({kind: 1, **head}, *entries))
        )
    except TraceError:
        return
    fixture = reduce(found)
    if not list(workspace.find_refusals(fixture)):
        assert dump_head(fixture.head)
        follow(fixture)


def follow(fixture: Recording) -> None:
    expectations = Expectations(fixture.entries)
    with suppress(ReplayMismatchError):
        expectations.take_next()
        for each in fixture.entries:
            if each.ours:
                expectations.on_message(each.party, each.kind, each.value)
                expectations.take_next()
        raise expectations.overdue("nothing came")


def test_two_options_with_one_id_are_a_fault() -> None:
    options = [{"optionId": "[option 1]"}, {"optionId": "[option 2]"}]
    found = match(options, [{"optionId": "x"}, {"optionId": "x"}], {})
    assert [str(each) for each in found.differences] == [
        '[1].optionId: one of its own expected, "x" given, which is [option 1] already'
    ]


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
    expectations = Expectations(
        [
            entry("bridge->host", ask("[id 1]", "one")),
            entry("bridge->host", ask("[id 2]", "two")),
            entry("host->bridge", {"id": "[id 1]", "result": 1}),
        ]
    )
    expectations.on_message("host", "message", ask("x", "two"))
    assert expectations.take_next() == []
    expectations.on_message("host", "message", ask("y", "one"))
    assert [value for _, value in expectations.take_next()] == [{"id": "y", "result": 1}]
    assert expectations.is_over


def test_a_notification_may_come_before_it_is_expected() -> None:
    told = {"method": "notifications/tools/list_changed"}
    expectations = Expectations(
        [
            entry("host->bridge", ask(1)),
            entry("bridge->host", {"id": 1, "result": 1}),
            entry("host->bridge", ask(2)),
            entry("bridge->host", told),
        ]
    )
    expectations.take_next()
    expectations.on_message("host", "message", told)
    expectations.on_message("host", "message", {"id": 1, "result": 1})
    assert len(expectations.take_next()) == 1
    assert expectations.is_over
    assert expectations.left_over() is None


def cancel(id: Json) -> Json:
    return {"method": "notifications/cancelled", "params": {"requestId": id}}


def test_a_request_may_be_taken_back_while_its_answer_is_on_its_way() -> None:
    """A host that cancels a call and dismisses its question says both at once; who reads the first
    alone takes the question back.
    """
    expectations = Expectations(
        [
            entry("bridge->host", ask("[id 1]")),
            entry("bridge->host", ask("[id 2]")),
            entry("host->bridge", cancel(7)),
            entry("host->bridge", {"id": "[id 1]", "result": 1}),
            entry("bridge->app", ask("[id 3]")),
        ]
    )
    expectations.on_message("host", "message", ask("x"))
    expectations.on_message("host", "message", ask("y"))
    expectations.take_next()
    expectations.on_message("host", "message", cancel("x"))
    with pytest.raises(ReplayMismatchError, match="does not show: the notification"):
        expectations.on_message("host", "message", cancel("y"))


def test_what_no_line_shows_is_a_difference() -> None:
    expectations = Expectations(
        [entry("host->bridge", ask(1)), entry("bridge->host", {"id": 1, "result": 1}, line=3)]
    )
    expectations.take_next()
    with pytest.raises(
        ReplayMismatchError,
        match="something that the fixture does not show: the request ask to the host",
    ) as found:
        expectations.on_message("host", "message", ask("x"))
    assert found.value.line == 3


def test_a_fixture_that_holds_a_bridge_to_nothing_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(
        '{"abp-fixture": 1, "shows": "nothing", "run": ["serve"], "host": "mcp 2025-11-25"}\n'
    )
    played = run("replay", str(path))
    assert played.returncode != 0
    assert "there is nothing to hold this one to" in played.stdout


def test_a_bridge_that_ends_badly_does_not_pass(tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.write_text(f'#!/bin/sh\n"{sys.executable}" -m abp_bridge "$@"\nexit 70\n')
    failing.chmod(0o755)
    played = run(
        "replay",
        str(FIXTURES / "mcp-form" / "2025-11-25" / "boolean.jsonl"),
        "--bridge",
        str(failing),
    )
    assert played.returncode == 1
    assert "the bridge ended with exit code 70" in played.stdout


INTRUDER = "import os, pathlib; pathlib.Path(os.environ['HOME'], 'intruder').write_text('here')"


@pytest.mark.parametrize("name", ["abp_bridge.py", "json.py", "sitecustomize.py"])
def test_a_fixtures_files_are_no_modules(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bridge runs in the folder that they are laid out in, and so does the demo app that it
    starts.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    lines = [json.loads(line) for line in SELECT.read_text().splitlines()]
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "abp_connect", "arguments": {}},
    }
    lines[0] |= {"run": ["serve", "--app", "demo"], "files": {name: INTRUDER}}
    odd = [
        lines[0],
        lines[1],
        {"way": "host->bridge", "message": call},
        {"way": "bridge->host", "message": {"id": 7, "...": "[any]"}},
    ]
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in odd))
    assert run("replay", str(path), "--patience", "3").returncode == 1
    assert not (tmp_path / "intruder").exists()


# --- an agent's tools -----------------------------------------------------------------------------


def test_an_agents_tools_are_launched_as_the_bridge_says() -> None:
    drawn = run("trace", str(BEHIND)).stdout
    assert "tools: tools/call abp_call 1" in drawn
    assert run("replay", str(BEHIND)).stdout.endswith("1 passed, 0 failed\n")


def test_a_fixture_launches_no_program_of_its_own_as_an_agents_tools(tmp_path: Path) -> None:
    """Its host gives the agent a server, and the bridge passes that on: it is nobody's to launch
    here.
    """
    launched = tmp_path / "launched"
    server = {"name": "mine", "command": "touch", "args": [str(launched)], "env": []}
    lines = [json.loads(line) for line in BEHIND.read_text().splitlines()]
    lines[0]["run"] = ["acp", "--", "{agent}"]  # without an app, so that the bridge gives no server
    for line in lines[1:]:
        if line.get("message", {}).get("method") == "session/new":
            line["message"]["params"]["mcpServers"] = (
                [server] if line["way"] == "host->bridge" else "[any]"
            )
        if line["way"] == "bridge->agent" and line["message"].get("method") == "initialize":
            line["message"]["params"] = "[any]"
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    played = run("replay", str(path), "--patience", "2")
    assert (played.returncode, "the bridge has given it no server for them" in played.stdout) == (
        1,
        True,
    ), played.stdout
    assert not launched.exists()


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (
            {"command": "no-such-program-anywhere", "args": [], "env": []},
            "cannot be launched: there is no program 'no-such-program-anywhere'",
        ),
        ({"command": "true", "args": "x", "env": []}, "its args and env must be texts"),
        ({"command": "true", "args": ["\0"]}, "its args and env must be texts"),
        ({"command": "true", "env": [{"name": "X"}]}, "its args and env must be texts"),
        ({"command": 7}, "the bridge has given it no server for them"),
        ("x", "the bridge has given it no server for them"),
    ],
    ids=["no program", "odd args", "NUL", "odd env", "odd command", "no server"],
)
def test_a_server_that_cannot_be_launched_is_a_failure_that_says_why(
    server: Json, words: str, tmp_path: Path
) -> None:
    bridge = tmp_path / "bridge.py"
    bridge.write_text(
        "import json, subprocess, sys\nagent = subprocess.Popen([sys.argv[-1]],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\nsaid = {'jsonrpc': '2.0', 'method':"
        " 'session/new', 'params': {'mcpServers':"
        f" [{server!r}]}}}}\nagent.stdin.write(json.dumps(said).encode() +"
        " b'\\n')\nagent.stdin.flush()\nsys.stdin.read()\n"
    )
    path = tmp_path / "odd.jsonl"
    given = {
        "way": "bridge->agent",
        "message": {"jsonrpc": "2.0", "method": "session/new", "params": "[any]"},
    }
    used = {"way": "tools->bridge", "message": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}
    path.write_text(
        "".join(
            json.dumps(line) + "\n"
            for line in ({"abp-fixture": 1, "run": ["acp", "--", "{agent}"]}, given, used)
        )
    )
    played = run("replay", str(path), "--bridge", f"{sys.executable} {bridge}")
    assert (played.returncode, words in played.stdout) == (1, True), played.stdout
    assert "Traceback" not in played.stderr
