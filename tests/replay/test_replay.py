"""`abp-bridge replay` and `trace`: what broken bridges and odd fixtures are told, and drawings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixture_maker.cases import Case
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
from abp_bridge.conformance.format import Entry, parse_recordings
from abp_bridge.conformance.match import ReplayMismatchError, match
from abp_bridge.conformance.placeholders import escape, fill, parts

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

# fault -> (the fixture that finds it, the words of the difference)
ENUM = "params.requestedSchema.properties.selected.enum: 12 options expected, "
FAULTS = {
    "drop": (SELECT, f'{ENUM}11 given; missing: "Madrid"'),
    "twice": (SELECT, "the bridge answered twice: a second response to the host's request 2"),
    "mute": (SELECT, "nothing came within 1 s: the request elicitation/create to the host was exp"),
    "hoarse": (SELECT, "a line to the host that is no JSON"),
    "early": (
        PROGRESS,
        "the response to the host's request 2 came before the notification notifications/progress",
    ),
    "double": (SELECT, "no goodbye when its host had left: a response to the app, to a question"),
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
    "crash": (BEHIND, "the bridge ended with exit code 70"),
    "tools": (TOOLS, "result.tools: 6 items expected, 5 given; missing: "),
    "page": (CHOSEN, "the page could not be filled in: there is nothing of 'first' on it"),
    "flood": (SELECT, "the bridge said 1000 things and more before the fixture came to them"),
    "endless": (SELECT, "the bridge says too much: more than 32 MiB in one fixture"),
}


AT_THE_END = ("orphan", "crash", "spare", "killed", "endless")
# seconds: only what is found by silence is waited for in vain
SILENCE, LONG = "1", "60"


@pytest.mark.process
@pytest.mark.parametrize("fault", FAULTS)
def test_replay_names_the_fault_of_a_broken_bridge(fault: str) -> None:
    fixture, words = FAULTS[fault]
    patience = SILENCE if fault == "mute" else LONG
    played = run("replay", str(fixture), "--bridge", broken(fault), "--patience", patience)
    assert played.returncode == 1
    assert words in played.stdout
    assert re.search(r"line \d+: ", played.stdout) or fault in AT_THE_END
    assert played.stdout.splitlines()[-1] == "0 passed, 1 failed"


@pytest.mark.process
def test_replay_writes_differences_as_json() -> None:
    played = run("replay", str(SELECT), str(PROGRESS), "--bridge", broken("three"), "--json")
    failed, passed, closing = map(json.loads, played.stdout.splitlines())
    assert (failed["fixture"], failed["passed"], failed["line"]) == (str(SELECT), False, 13)
    missing = '"Dublin", "Edinburgh", "Florence" and 6 more'
    assert failed["details"] == [f"{ENUM}3 given; missing: {missing}"]
    properties = failed["expected"]["params"]["requestedSchema"]["properties"]
    assert len(properties["selected"]["enum"]) == 12
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


@pytest.mark.process
def test_replay_quotes_the_last_words_of_a_bridge_that_exits() -> None:
    played = run("replay", str(SELECT), "--bridge", "sh -c 'echo no such luck >&2; exit 3'")
    assert "the bridge ended (exit code 3; its last words: no such luck)" in played.stdout
    assert played.returncode == 1


@pytest.mark.process
def test_replay_puts_the_app_into_the_command_of_another_bridge() -> None:
    ours = f"{sys.executable} -m abp_bridge serve --app 'stdio:{{app}}'"
    assert run("replay", str(SELECT), "--bridge", ours).stdout.endswith("1 passed, 0 failed\n")


HEAD = '{"abp-fixture": 1}\n'
# text, the error
MALFORMED = {
    "nothing": ("", "a trace or a fixture begins with a head line"),
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
    "no way": (HEAD + '{"message": {}}\n', 'line 2: this needs a "way"'),
    "an unknown way": (
        HEAD + '{"way": "host->app", "message": {}}\n',
        "line 2: 'host->app' is none: this needs a \"way\"",
    ),
    "nothing said": (
        HEAD + '{"way": "host->bridge"}\n',
        "line 2: this must have exactly one of message, raw, closed, fill, screen, keys, http",
    ),
    "a name too early": (
        HEAD + '{"way": "host->bridge", "message": {"id": "[id 1]"}}\n',
        "line 2: [id 1] stands here before the bridge chose anything for it",
    ),
    "an app too early": (
        HEAD + '{"way": "app->bridge", "message": {"jsonrpc": "2.0", "method": "x"}}\n',
        "line 2: the app is to speak here, and the bridge has not started it",
    ),
    "cut off": (HEAD + '{"way": "host->bri', "its last line is cut off"),
    "no expectation": (
        '{"abp-fixture": 1, "run": ["serve"], "host": "mcp 2025-11-25"}\n',
        "there is nothing to hold this one to",
    ),
}


def failures(folder: Path, texts: Mapping[str, str], *options: str) -> dict[str, str]:
    """What is said of each file, of which none may pass. One command plays them all."""
    for number, text in enumerate(texts.values()):
        (folder / f"{number:02}.jsonl").write_text(text)
    played = run("replay", str(folder), *options)
    assert (played.returncode, played.stderr) == (1, "")
    assert played.stdout.splitlines()[-1] == f"0 passed, {len(texts)} failed"
    start = rf"^FAIL  {re.escape(str(folder))}/\d+\.jsonl$"
    _, *said = re.split(start, played.stdout, flags=re.MULTILINE)
    return dict(zip(texts, said, strict=True))


def without(expected: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """What is said in those cases where the words that are expected are not in it."""
    return {case: said[case] for case, words in expected.items() if words not in said[case]}


@pytest.mark.process
def test_replay_says_why_a_file_is_not_a_fixture(tmp_path: Path) -> None:
    said = failures(tmp_path, {case: text for case, (text, _) in MALFORMED.items()})
    assert without({case: words for case, (_, words) in MALFORMED.items()}, said) == {}


HOST: Json = {"way": "host->bridge", "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}}
PONG: Json = {"way": "bridge->host", "message": {"jsonrpc": "2.0", "id": 1, "result": {}}}
NAMED: Json = {"way": "bridge->host", "message": {"jsonrpc": "2.0", "id": "[id 1]", "result": {}}}


def nested(levels: int) -> Json:
    value: Json = []
    for _ in range(levels):
        value = [value]
    return value


def told(sender: str, **entry: Json) -> Json:
    return {"way": f"{sender}->bridge", **entry}


CONNECT = {"name": "abp_connect", "arguments": {"target": "https://a.example"}}
CONNECT_TYPED = (
    ' {"method": "session/prompt", "params": {"prompt": [{"type": "text", "text":'
    ' "/connect HTTP://a.example"}]}}'
)
UNSHOWN = "something that the fixture does not show"
# what is odd -> (the head, the lines, the error)
ODD: dict[str, tuple[Json, Sequence[Json], str]] = {
    "a number for a member": (
        {},
        [HOST, NAMED, told("host", message={"[id 1]": 1}), PONG],
        UNSHOWN,
    ),
    "a deep message": (
        {},
        [told("host", message=nested(600))],
        "line 2: this is nested more than 200 levels deep",
    ),
    "controls in what it shows": ({"shows": "\x1b[2J", "run": ["ask"]}, [], "\\x1b[2J"),
    "a NUL in run": (
        {"run": ["serve", "\0"]},
        [],
        "run in the head: no command and no file can have a NUL",
    ),
    "an address that is connected": (
        {"run": ["serve"]},
        [told("host", message={"method": "tools/call", "params": CONNECT})],
        "line 2: this has an address connected",
    ),
    "an address in a prompt": (
        {},
        [told("host", raw=CONNECT_TYPED)],
        "line 2: this has an address connected",
    ),
    "a page that is not ours": (
        {},
        [told("person", open="http://example.com/", fill=[]), PONG],
        "is no page of this machine's",
    ),
    "keys without a terminal": (
        {},
        [told("person", keys="x"), PONG],
        'there is no terminal to type at: "run" in the head needs "--tty", "{tty}"',
    ),
    "a request without a port": (
        {},
        [told("person", http="GET /question"), PONG],
        'there is no port to ask at: "run" in the head needs',
    ),
}


@pytest.mark.terminal
def test_replay_says_why_an_odd_fixture_fails(tmp_path: Path) -> None:
    texts = {odd: fixture_text(head, *entries) for odd, (head, entries, _) in ODD.items()}
    said = failures(tmp_path, texts, "--patience", "6")
    assert without({odd: words for odd, (*_, words) in ODD.items()}, said) == {}
    assert "\x1b" not in "".join(said.values())


def fixture_text(head: Json, *entries: Json) -> str:
    return dump_lines({"abp-fixture": 1, **head}, *entries)


def dump_lines(*lines: Json) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


STAND_IN = "an agent or a server must be a stand-in"

# what a fixture must not have a bridge do -> its head, what is said
REFUSED: dict[str, tuple[Json, str]] = {
    "a command as app": (
        {"run": ["serve", "--app", "stdio:rm -rf x"]},
        "--app 'stdio:rm -rf x' is refused: an app must be a stand-in",
    ),
    "a command after the stand-in": ({"run": ["serve", "--app", "stdio:{app};sh"]}, "is refused"),
    "a short option": (
        {"run": ["serve", "--rec", "/tmp/x"]},
        "'--rec' is no option that a fixture may use",
    ),
    "a command as agent": ({"run": ["acp", "--", "sh", "-c", "x"]}, STAND_IN),
    "an agent as server": ({"run": ["mcp", "--", "{agent}"]}, STAND_IN),
    "a browser for a server": ({"env": {"ABP_PAGE": "open"}}, "a replay opens no browser"),
    "another command": ({"run": ["install", "zed"]}, "must begin with serve, acp or mcp"),
    "a file elsewhere": (
        {"run": ["serve", "--record", "/tmp/x"]},
        "--record '/tmp/x' is refused: it must lie in {folder}",
    ),
    "a root elsewhere": ({"run": ["serve", "--root", "/"]}, "it must lie in {folder}"),
    "a model at an address": (
        {"env": {"ABP_SAMPLING": "https://x.example/v1#m"}},
        "ABP_SAMPLING='https://x.example/v1#m' is refused: a model must be a stand-in",
    ),
    "another terminal": ({"run": ["serve", "--tty", "/dev/tty1"]}, "it must be {tty}"),
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
    "a library": ({"env": {"LD_PRELOAD": "x.so"}}, "'LD_PRELOAD' is no setting"),
    "a terminal's file": ({"env": {"TERM": "../../x"}}, "TERM='../../x' is refused"),
}


def test_replay_starts_nothing_but_stand_ins(tmp_path: Path) -> None:
    texts = {case: fixture_text(head) for case, (head, _) in REFUSED.items()}
    said = failures(tmp_path, texts, "--bridge", "false")
    assert without({case: words for case, (_, words) in REFUSED.items()}, said) == {}


REFUSED_SETTINGS = (
    *("allowed_hosts", "browser_url", "chrome", "chrome_sandbox", "log_level", "log_file"),
    *("page_port", "profile", "notify", "notify_urls", "notify_text", "audit", "server_url"),
    *("server_token", "listen", "tool_cache", "listen_origins"),
)


def test_each_setting_may_be_used_by_a_fixture_or_not() -> None:
    assert {name for name, row in settings.TABLE.items() if not row.replayable} == {
        *REFUSED_SETTINGS
    }
    for name, row in settings.TABLE.items():
        assert (row.variable in workspace.VARIABLES) == (
            bool(row.variable) and name not in REFUSED_SETTINGS
        )
        assert (row.flag in workspace.OPTIONS) == (
            bool({"serve", "acp", "mcp"} & {*row.commands} and row.flag)
            and name not in REFUSED_SETTINGS
        )


TWO_APPS = ["serve", "--app", "demo", "--app=stdio:{app 2}", "--page", "--page", "link"]
AGENT = ["acp", "--record", "{folder}/x", "--", "{agent}", "--anything", "-c", "{ }"]


@pytest.mark.parametrize(
    ("run", "env"),
    [
        ([*TWO_APPS, "--page=off"], {"TZ": "Europe/Berlin", "LC_ALL": "C.UTF-8"}),
        (["mcp", "--sampling", "openai:gpt-5-mini", "--", "{server}"], {}),
        (["serve", "--sampling={app model}#llama3"], {"ABP_SAMPLING": "cli:claude"}),
        (AGENT, {"ABP_ROOTS": "{folder}/a:{folder}/b"}),
    ],
)
def test_harmless_fixture_is_not_refused(run: Sequence[str], env: Json) -> None:
    (fixture,) = parse_recordings(json.dumps({"abp-fixture": 1, "run": run, "env": env}) + "\n")
    assert not list(workspace.find_refusals(fixture))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "nowhere.jsonl"), "there is no nowhere.jsonl"),
        (("replay", "."), "there is no fixture in ."),
        (("replay", str(SELECT), "--bridge", "no-such"), "there is no program 'no-such'"),
        (("replay", "--save", "only-one"), "--save needs two names"),
        (("replay", str(SELECT), "--patience", "0"), "it must be more than 0"),
        (("replay", str(SELECT), "--jobs", "many"), "'many' must be a whole number, from 1"),
        (("trace", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
    ],
)
def test_replay_answers_a_wrong_command_line_in_one_line(
    arguments: Sequence[str], words: str, tmp_path: Path
) -> None:
    played = run(*arguments, cwd=tmp_path)
    assert played.returncode == 2
    assert words in played.stderr
    assert len(played.stderr.splitlines()) == 1


@pytest.mark.process
@pytest.mark.parametrize("command", ["matrix --format markdown --fixture", f"replay {SELECT}"])
def test_command_ends_quietly_if_its_reader_leaves(command: str) -> None:
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


OFFERED = FIXTURES / "questions-api" / "chosen.jsonl"
READ = FIXTURES / "page" / "hints.jsonl"
# what a user is shown: (the fixture, what is shown, what another fixture has there, the error)
SHOWN = {
    "terminal": (
        TERMINAL,
        '"Book it?"',
        '"Cancel it?"',
        "what the terminal shows is not as it should be",
    ),
    "questions API": (
        OFFERED,
        '{"status": 200, "body": true}',
        '{"status": 404, "body": true}',
        "the questions API's response is not as it should be",
    ),
    "page": (
        READ,
        "As it is printed there",
        "As you like",
        "the page could not be filled in: there is nothing of 'As you like' on it",
    ),
}


@pytest.mark.terminal
def test_replay_compares_what_a_user_is_shown(tmp_path: Path) -> None:
    texts = {}
    for name, (fixture, before, after, _) in SHOWN.items():
        lines = fixture.read_text().splitlines()
        shown = [line.startswith('{"way": "bridge->person"') or '"reads"' in line for line in lines]
        other = [
            line.replace(before, after) if is_shown else line
            for line, is_shown in zip(lines, shown, strict=True)
        ]
        texts[name] = "\n".join(other) + "\n"
    said = failures(tmp_path, texts, "--patience", "3")
    assert without({name: row[3] for name, row in SHOWN.items()}, said) == {}


# --- drawing --------------------------------------------------------------------------------------


def draw_trace(path: Path | str, *options: str) -> str:
    """What `abp-bridge trace` prints of a fixture."""
    drawn = run("trace", str(FIXTURES / path), *options)
    assert (drawn.returncode, drawn.stderr) == (0, "")
    return drawn.stdout


@pytest.mark.parametrize("width", [60, 97, 200])
def test_trace_fits_the_width(width: int) -> None:
    drawn = draw_trace(SELECT, "--width", str(width))
    assert max(map(len, drawn.splitlines())) <= width
    assert "elicitation/create" in drawn
    assert "\x1b" not in drawn


def test_trace_says_what_it_leaves_out_unless_it_is_full() -> None:
    assert "more characters]" in draw_trace(BEHIND, "--width", "97")
    assert "tools: tools/call abp_call 1" in draw_trace(BEHIND)
    drawn = draw_trace(SELECT, "--width", "80", "--full")
    assert "more characters]" not in drawn
    assert '"Madrid"' in drawn


def test_trace_names_what_messages_are_about() -> None:
    stateless = draw_trace("hosts/goose/select-many.jsonl", "--width", "120")
    assert "tools/call abp_call 2" in stateless
    assert '{"inputResponses": {"[input 1]": {"action": "accept",' in stateless
    acp = draw_trace("hosts/zed-before-forms/select-many.jsonl", "--width", "120")
    assert "session/update: agent_message_chunk" in acp
    assert "presses [Lisbon]" in acp


def test_trace_writes_json() -> None:
    assert draw_trace(SELECT, "--json") == SELECT.read_text()


@pytest.mark.process
def test_trace_uses_only_letters_of_the_encoding() -> None:
    path = FIXTURES / "hosts" / "acpx" / "confirm-destructive.jsonl"
    drawn = run("trace", str(path), "--width", "100", env={"PYTHONIOENCODING": "ascii"}).stdout
    assert "<---" in drawn
    assert "\\u25" not in drawn


# --- the parts ------------------------------------------------------------------------------------


def test_match_name_has_one_value_everywhere() -> None:
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
    [("[id 1]", False), ("[id 1]", 1.5), ("[id 1]", None), ("[link 1]", ""), ("[call 1]", 7)],
)
def test_match_name_is_a_text_and_an_id_also_an_integer(name: str, value: Json) -> None:
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
def test_names_differ_in_a_whole_conversation(name: str) -> None:
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


def test_progress_of_nothing_may_come_any_number_of_times() -> None:
    said: Json = {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 0}}
    later: Json = {**said, "params": {"progressToken": 1, "progress": 1}}
    expectations = Expectations([entry("bridge->host", ask("[id 1]"))])
    for message in (said, said, ask(1)):
        expectations.take_next()
        expectations.on_message("host", "message", message)
    assert expectations.left_over() is None
    with pytest.raises(ReplayMismatchError):
        Expectations([entry("bridge->host", ask(1))]).on_message("host", "message", later)


def test_ids_may_repeat_after_an_app_restarts() -> None:
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


WORDS = (
    *("[", "]", "[any]", "[tmp]", "[id 1]", "[number]", "[cut 5 characters]", "[either a|b]"),
    *("any]", "x", "1", " ", '"', "\\", "\n"),
)
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map("".join))


@given(TEXTS, TEXTS)
@pytest.mark.slow
def test_match_escaped_text_is_only_itself(text: str, other: str) -> None:
    assert fill(escape(text), {}) == text
    assert match(escape(text), text, {})
    assert bool(match(escape(text), other, {})) is (text == other)
    assert match({escape(text): escape(text)}, {text: text}, {})


def test_match_doubles_brackets_before_a_word() -> None:
    assert parts("[[any] and [[[any]] and [[x]") == ("[any] and [", "[any]", "] and [[x]")
    assert match("[[[id 1]]", "[abc]", {}).learned == {"[id 1]": "abc"}
    assert not match("[[any]", "anything", {})
    assert match({"...": "[[any]"}, {"...": "[any]"}, {})
    assert not match({"...": "[[any]"}, {}, {}), "it is a member like any other"


def said(**members: Json) -> Json:
    return {"jsonrpc": "2.0", **members}


ENVELOPE_NO = {"type": "elicitation/response", "id": "q2", "payload": {"success": False}}
# what a bridge says to an app that has asked q1 and q2 (an envelope), when its host has left ->
# what is wrong with it
GOODBYES: dict[str, tuple[str, Json, str]] = {
    "shutdown": ("message", said(id=9, method="shutdown"), ""),
    "shutdown in an envelope": ("message", {"type": "shutdown", "payload": {}}, ""),
    "cancelled call": ("message", said(id=9, method="capabilities/cancel"), ""),
    "withdrawn question": ("message", said(method="notifications/cancelled"), ""),
    "refused question": ("message", said(id="q1", result={"success": False}), ""),
    "failed question": ("message", said(id="q1", error={}), ""),
    "refused question of an envelope": ("message", ENVELOPE_NO, ""),
    "invented answer": (
        "message",
        said(id="q1", result={"success": True}),
        "an answer to the app, when there was nobody",
    ),
    "answer to nothing": (
        "message",
        said(id="q3", result={"success": False}),
        "to a question that is not open: 'q3'",
    ),
    "another method": (
        "message",
        said(id=9, method="capabilities/call"),
        "capabilities/call to the app",
    ),
    "no JSON": ("raw", "Goodbye!", "a line to the app that is no JSON"),
    "no message": ("message", [1], "something to the app"),
}


@pytest.mark.parametrize("case", GOODBYES)
def test_goodbye_is_one_of_a_few(case: str) -> None:
    kind, message, words = GOODBYES[case]
    open = expectations.OpenQuestions()
    asked = {"method": "elicitation/input"}
    open.note_question("app", said(id="q1", **asked))
    open.note_question("app", {"type": "elicitation/request", "id": "q2", "payload": asked})
    found = expectations.goodbye_fault("app", kind, message, open)
    assert (words in found) if words else (found == "")
    if expectations.is_answer(message):
        assert expectations.goodbye_fault("app", kind, message, open), "and not twice"


def test_preference_may_have_its_default_in_a_goodbye() -> None:
    open = expectations.OpenQuestions()
    open.note_question("app", said(id="q1", method="elicitation/preference"))
    answer = said(id="q1", result={"success": True})
    assert expectations.goodbye_fault("app", "message", answer, open) == ""


@pytest.mark.process
def test_saved_fixture_escapes_words_in_brackets(tmp_path: Path) -> None:
    """An app that says "[any]" makes no hole in what a bridge must say."""
    odd = "[any] [id 1] [[number]] [either a|b] [tmp]/x [cut 5 characters] [call 7]"
    asked = Asked({"method": "elicitation/input", "params": {"prompt": odd}}, {"value": f"{odd}!"})
    steps = [{"ask": asked.request, "aloud": True}]
    forms: Json = {"elicitation": {"form": {}}}
    Bridge(Case(steps, capabilities=forms, person=person(asked)), tmp_path).play()
    saved, other = tmp_path / "fixture.jsonl", tmp_path / "other.jsonl"
    assert run("replay", "--save", str(tmp_path / "trace.jsonl"), str(saved)).returncode == 0
    text = saved.read_text()
    escaped = "[[any] [[id 1] [[[[number]] [[either a|b] [tmp]/x [cut 5 characters] [[call 7]"
    assert escaped in text
    lines = text.splitlines(keepends=True)
    other.write_text(
        "".join(
            line.replace("[[any]", "gone") if '"way": "app->' in line else line for line in lines
        )
    )
    played = run("replay", str(saved), str(other))
    assert played.stdout.startswith(f"ok    {saved}\nFAIL  {other}\n"), "[any] is not anything"


def test_match_two_options_with_one_id_differ() -> None:
    options = [{"optionId": "[option 1]"}, {"optionId": "[option 2]"}]
    found = match(options, [{"optionId": "x"}, {"optionId": "x"}], {})
    assert [str(each) for each in found.differences] == [
        '[1].optionId: one of its own expected, "x" given, which is [option 1] already'
    ]


def test_match_true_is_not_1_and_members_are_named() -> None:
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


def test_expectations_take_concurrent_requests_in_any_order() -> None:
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


def test_expectations_take_an_early_notification() -> None:
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


def test_expectations_take_a_withdrawal_that_crosses_an_answer() -> None:
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


def test_expectations_reject_an_unexpected_message() -> None:
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


INTRUDER = "import os, pathlib; pathlib.Path(os.environ['HOME'], 'intruder').write_text('here')"


@pytest.mark.process
@pytest.mark.parametrize("name", ["abp_bridge.py", "sitecustomize.py"])
def test_replay_imports_no_file_of_a_fixture(name: str, tmp_path: Path) -> None:
    """The bridge and its demo app run in the folder with these files."""
    head = json.loads(SELECT.read_text().splitlines()[0])
    head |= {"run": ["serve", "--app", "demo"], "files": {name: INTRUDER}}
    hello = json.loads(SELECT.read_text().splitlines()[1])
    connect = said(id=7, method="tools/call", params={"name": "abp_connect", "arguments": {}})
    answer = {"way": "bridge->host", "message": {"id": 7, "...": "[any]"}}
    path = tmp_path / "odd.jsonl"
    path.write_text(dump_lines(head, hello, told("host", message=connect), answer))
    played = run("replay", str(path), "--patience", "3", env={"HOME": str(tmp_path)})
    assert played.returncode == 1
    assert not (tmp_path / "intruder").exists()


# --- an agent's tools -----------------------------------------------------------------------------


@pytest.mark.process
def test_replay_launches_no_program_of_a_fixture_as_tools(tmp_path: Path) -> None:
    """Its host gives the agent a server, and the bridge passes that on."""
    launched = tmp_path / "launched"
    server = {"name": "mine", "command": "touch", "args": [str(launched)], "env": []}
    lines = [json.loads(line) for line in BEHIND.read_text().splitlines()]
    lines[0]["run"] = ["acp", "--", "{agent}"]  # without an app, so that the bridge gives no server
    for line in lines[1:]:
        message = line.get("message", {})
        if message.get("method") == "session/new":
            is_hosts = line["way"] == "host->bridge"
            message["params"]["mcpServers"] = [server] if is_hosts else "[any]"
        if line["way"] == "bridge->agent" and message.get("method") == "initialize":
            message["params"] = "[any]"
    path = tmp_path / "odd.jsonl"
    path.write_text(dump_lines(*lines))
    played = run("replay", str(path), "--patience", "1")
    assert played.returncode == 1
    assert "the bridge has given it no server for them" in played.stdout
    assert not launched.exists()
