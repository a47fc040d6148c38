"""Recordings: fixtures that any bridge can be held to, faults that a replay finds, and what a trace never holds."""

from __future__ import annotations

import json
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conversations import ASKED, CITIES, FIXTURES, SPOKEN, Bridge, Case, Filled, _legacy, _person, cases
from harness import PATIENCE, RawHost, environment

from abp_bridge.capabilities import WITHOUT
from abp_bridge.core.matrix import MATRIX, NOBODY, Column, Shape, Surface, Treatment, route
from abp_bridge.core.telling import HINTS, PROTOCOLS, TOLD, Event, Hint
from abp_bridge.record.pattern import fill, match
from abp_bridge.record.recorder import Recorder
from abp_bridge.record.redact import Redactor
from abp_bridge.record.reduce import reduce
from abp_bridge.record.script import Differs, Script
from abp_bridge.record.trace import Entry, Recording, TraceError, read
from abp_bridge.settings import Settings

Json = Any

BROKEN = Path(__file__).parent / "apps" / "broken.py"
SELECT = FIXTURES / "mcp-form" / "2025-11-25" / "select-many.jsonl"
PROGRESS = FIXTURES / "mcp" / "2025-11-25" / "progress.jsonl"


def run(*arguments: str, timeout: float = 4 * PATIENCE) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "abp_bridge", *arguments], capture_output=True, text=True, timeout=timeout, check=False)


def run_at(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "abp_bridge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False, cwd=folder)


def broken(fault: str) -> str:
    return f"{sys.executable} {BROKEN} {fault}"


# --- the fixtures ---------------------------------------------------------------------------------------------------------------------------


def test_every_fixture_passes() -> None:
    played = run("replay", str(FIXTURES), timeout=20 * PATIENCE)
    assert played.returncode == 0, played.stdout
    assert played.stdout.splitlines()[-1] == f"{len(list(FIXTURES.rglob('*.jsonl')))} passed, 0 failed"


def proofs(*members: str) -> dict[tuple[str, ...], tuple[Recording, int]]:
    """What the fixtures say they prove: a fixture, and which of its questions it is."""
    found: dict[tuple[str, ...], tuple[Recording, int]] = {}
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        (fixture,) = read(path.read_text())
        for place, proof in enumerate(fixture.head.proves):
            if all(member in proof for member in members):
                found.setdefault(tuple(proof[member] for member in members), (fixture, place))
    return found


CELLS = proofs("surface", "version", "shape")


@pytest.mark.parametrize(
    ("surface", "version", "shape"), [(surface, version, shape) for (surface, version), row in MATRIX.items() for shape in row], ids=str
)
def test_each_cell_has_a_fixture_that_shows_what_the_matrix_says(surface: Surface, version: str, shape: Shape) -> None:
    fixture, place = CELLS[surface.value, version, shape.value]
    cell, answer = route(shape, Column(surface, version)), answers(fixture)[place]
    if cell.treatment is Treatment.REFUSED:
        assert answer["error"]["code"] == "NOT_SUPPORTED"
        assert f"{surface.value}: {cell.how}" in answer["error"]["details"]["reason"]
    else:
        assert answer["success"]
        way = f"{surface.value} ({cell.how})" if cell.how else surface.value
        # Several fields also say how each of them goes.
        assert answer["metadata"]["route"].startswith(way.rstrip(")")) if shape is Shape.FIELDS else answer["metadata"]["route"] == way


@pytest.mark.parametrize("shape", Shape)
def test_a_host_without_elicitation_is_never_answered_for(shape: Shape) -> None:
    fixture, place = CELLS[WITHOUT, "", shape.value]
    answer = answers(fixture)[place]
    assert answer["error"]["code"] == "NOT_SUPPORTED"
    assert NOBODY in answer["error"]["details"]["reason"]


def answers(fixture: Recording) -> list[Json]:
    """What the app was told, question by question."""
    return [entry.value["result"] for entry in fixture.entries if entry.to == "app" and str(entry.value.get("id", "")).startswith("q")]


def heard(fixture: Recording) -> str:
    """All that the bridge said to the host and showed the person, and what they read."""
    said = [entry for entry in fixture.entries if entry.to in ("host", "person", "app") or entry.kind == "fill"]
    return "\n".join(f"{entry.to or entry.kind}: {json.dumps(entry.value, ensure_ascii=False)}" for entry in said)


DEFAULT, ABOUT = Hint.DEFAULT, Hint.DESCRIPTION
IN_A_FORM = {DEFAULT: '"default": "Ann"', ABOUT: '"description": "As it is printed there'}
ON_THE_PAGE = {
    DEFAULT: '"reads": ["As it is printed there", "Suggested by the app."], "fill": []',
    ABOUT: '"reads": ["Both have Wi-Fi"',
}
HINTED: dict[Surface, dict[Hint, str]] = {
    Surface.MCP_FORM: IN_A_FORM,
    Surface.ACP_FORM: IN_A_FORM,
    Surface.MCP_URL: ON_THE_PAGE,
    Surface.ACP_URL: ON_THE_PAGE,
    Surface.PAGE: ON_THE_PAGE,
    Surface.ACP_PERMISSION: {
        DEFAULT: '"options": [{"optionId": "[option 1]", "name": "Second (default)"',
        ABOUT: "Which class?\\n\\nBoth have Wi-Fi",
    },
    Surface.TERMINAL: {DEFAULT: '"Answer [Ann]:"', ABOUT: '"As it is printed there"'},
    Surface.QUESTIONS_API: {DEFAULT: '{"label": "Ann", "description": "(suggested by the app)"}', ABOUT: "on the card?\\n\\nAs it is printed there"},
    Surface.MOCK: {DEFAULT: '"route": "mock"', ABOUT: '"route": "mock"'},
    Surface.MODEL: {DEFAULT: '\\"default\\": \\"Ann\\"', ABOUT: '\\"description\\": \\"As it is printed there\\"'},
}
HINTS_FOUND = proofs("surface", "version", "hint")


@pytest.mark.parametrize(("surface", "version", "hint"), [(*column, hint) for column, row in HINTS.items() for hint in row], ids=str)
def test_each_hint_is_shown_as_the_matrix_says(surface: Surface, version: str, hint: Hint) -> None:
    fixture, _ = HINTS_FOUND[surface.value, version, hint.value]
    shown = "As it is printed there (default: Ann)" if (version, hint) == ("2025-06-18", DEFAULT) else HINTED[surface][hint]
    assert shown in heard(fixture)


def test_the_hints_of_every_surface_of_a_person_are_in_the_matrix() -> None:
    assert set(HINTS) == {column for column in MATRIX if column[0] is not Surface.MCP_SAMPLING}


LEGACY_TOLD = {
    Event.PROGRESS: '"method": "notifications/progress", "params": {"progressToken": "p1", "progress": 2',
    Event.CAPABILITIES: '"method": "notifications/tools/list_changed"',
    Event.STATE: '"method": "notifications/resources/list_changed"',
    Event.OPERATION: '"data": {"event": "notifications/operation/started"',
    Event.ERROR: '"level": "error", "logger": "stdio:app"',
    Event.DECLINED: '"code": "USER_CANCELLED"',
    Event.CANCELLED: '"code": "USER_CANCELLED"',
    Event.TIMEOUT: '"method": "notifications/cancelled"',
    Event.PREFERENCE: '"answeredBy": "default"',
    Event.HOST_CANCELS: '"method": "capabilities/cancel"',
    Event.APP_ENDS: '"method": "notifications/cancelled"',
    Event.TOGETHER: '"id": "q2", "result": {"success": true',
}
ACP_TOLD = LEGACY_TOLD | {
    Event.PROGRESS: '"_meta": {"toolNotification": {"type": "progress"',
    Event.CAPABILITIES: '"name": "report"',
    Event.STATE: '"sessionUpdate": "notice", "severity": "info", "title": "seats is now 2"',
    Event.OPERATION: '"sessionUpdate": "tool_call", "toolCallId": "[tool 2]", "title": "sync"',
    Event.ERROR: '"sessionUpdate": "notice", "severity": "error"',
    Event.TIMEOUT: '"method": "$/cancel_request"',
    Event.APP_ENDS: '"method": "$/cancel_request"',
}
MODERN_TOLD = LEGACY_TOLD | {
    Event.CAPABILITIES: '"method": "notifications/tools/list_changed", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "changes"',
    Event.TIMEOUT: '"code": "TIMEOUT"',
    Event.APP_ENDS: "DISCONNECTED: The app is gone",
    Event.TOGETHER: '"inputRequests": {"q1": {"method": "elicitation/create"',
}
SHOWN = {"MCP 2025-06-18": LEGACY_TOLD, "MCP 2025-11-25": LEGACY_TOLD, "MCP 2026-07-28": MODERN_TOLD, "ACP 1": ACP_TOLD}
EVENTS_FOUND = proofs("protocol", "event")


@pytest.mark.parametrize(("protocol", "event"), [(protocol, event) for protocol in PROTOCOLS for event in Event], ids=str)
def test_each_event_reaches_its_hosts_as_the_matrix_says(protocol: str, event: Event) -> None:
    assert TOLD[protocol][event].asks
    fixture, _ = EVENTS_FOUND[protocol, event.value]
    assert SHOWN[protocol][event] in heard(fixture)


def test_a_preference_has_the_apps_own_default_where_nobody_can_be_asked() -> None:
    fixture, _ = EVENTS_FOUND[WITHOUT, Event.PREFERENCE.value]
    last = answers(fixture)[-1]
    assert (last["data"], last["metadata"]["answeredBy"]) == ({"value": "second"}, "default")


def test_each_fixture_has_the_conversation_that_makes_it() -> None:
    assert {str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*.jsonl")} == {case.path for case in cases()}


# host -> (how it is asked about twelve cities, in how many steps until Lisbon is chosen)
TWELVE = {
    "codex": ("elicitation/create", 1),
    "zed": ("elicitation/create", 1),
    "zed-before-forms": ("session/request_permission", 4),
    "goose-legacy": ("elicitation/create", 1),
    "claude-code-legacy": ("elicitation/create", 1),
    "acpx": ("session/request_permission", 11),
}


@pytest.mark.parametrize("host", TWELVE)
def test_twelve_options_are_all_there_in_every_host(host: str) -> None:
    method, steps = TWELVE[host]
    (fixture,) = read((FIXTURES / "hosts" / host / "select-many.jsonl").read_text())
    asked = [entry.value for entry in fixture.entries if entry.to == "host" and entry.value.get("method") == method]
    assert len(asked) == steps
    assert all(city in json.dumps(asked[0], ensure_ascii=False) for city in CITIES)
    assert any(entry.value.get("result", {}).get("data") == {"selected": "Lisbon"} for entry in fixture.entries if entry.to == "app")


def test_the_matrix_in_the_docs_is_the_one_that_is_routed_by() -> None:
    printed = run_at(FIXTURES.parent, "matrix", "--format", "markdown", "--fixture")
    assert printed.stdout == (FIXTURES.parent / "docs" / "capabilities.md").read_text(), "make docs"


def test_the_matrix_is_printed_for_a_host_and_for_programs() -> None:
    assert "options are asked one by one" in run("matrix", "--host", "acpx").stdout
    cells = json.loads(run("matrix", "--format", "json", "--host", "codex-mcp-client").stdout)["questions"]
    assert {cell["how"] for cell in cells if (cell["surface"], cell["shape"]) == ("mcp-form", "number")} == {"as text"}
    unknown = run("matrix", "--host", "nobody")
    assert (unknown.returncode, "no profile is known of 'nobody'" in unknown.stderr) == (2, True)


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


# --- recording --------------------------------------------------------------------------------------------------------------------------------

SECRET = 'tr0ub4dor "&" 3'
LINK: Json = {"elicitation": {"form": {}, "url": {}}}


def case(steps: Json, person: Any = None, **more: Any) -> Case:
    person = person or _person(replace(ASKED[Shape.SECRET], page=(SECRET,)))
    return Case("x", "x", {}, "mcp", "2025-11-25", LINK, steps, person, **more)


def recorded(tmp_path: Path, conversation: Case) -> str:
    """The trace of a conversation."""
    trace = tmp_path / "trace.jsonl"
    bridge = Bridge(conversation, str(tmp_path), str(trace))
    try:
        _legacy(bridge, conversation)
        bridge.end()
    finally:
        bridge.close()
    return trace.read_text()


def test_a_recording_becomes_a_fixture_that_passes(tmp_path: Path) -> None:
    recorded(tmp_path, case([{"ask": ASKED[Shape.SELECT_MANY].request}], _person(ASKED[Shape.SELECT_MANY])))
    saved = run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"), "--shows", "Twelve cities")
    assert saved.returncode == 0, saved.stderr
    (fixture,) = read((tmp_path / "fixture.jsonl").read_text())
    assert fixture.head.proves == ({"surface": "mcp-form", "version": "2025-11-25", "shape": "select, more than 4"},)
    assert fixture.head.shows == "Twelve cities"
    for name in ("fixture.jsonl", "trace.jsonl"):
        assert run("replay", str(tmp_path / name)).stdout.endswith("1 passed, 0 failed\n")
    again = run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_a_trace_holds_what_happened_to_each_question(tmp_path: Path) -> None:
    text = recorded(tmp_path, case([{"ask": ASKED[Shape.CONFIRM].request}], _person(ASKED[Shape.CONFIRM])))
    events = [json.loads(line) for line in text.splitlines() if '"event"' in line]
    assert [event["event"] for event in events] == ["InputRequestEvent", "RungEvent", "InputResolvedEvent"]
    assert events[-1]["content"] == {"confirmed": True}


def test_a_secret_stands_nowhere(tmp_path: Path) -> None:
    """Not as the answer, and not where the app says it again: in its result, in a state, in an address."""
    environment = {"SOME_API_KEY": "key-0815-secret", "PLACE_OF_WORK": "Atlantis-Secret-Lab"}
    steps = [
        {"ask": ASKED[Shape.SECRET].request, "aloud": True},
        {"tell": "notifications/state/changed", "params": {"field": "note", "newValue": f"they typed {SECRET}!"}},
        {"tell": "notifications/state/changed", "params": {"field": "key", "newValue": "key-0815-secret of Atlantis-Secret-Lab"}},
        {"tell": "notifications/state/changed", "params": {"field": "from", "newValue": "https://ann:hunter2secret@example.com/?token=abcsecretdef"}},
        {"tell": "notifications/state/changed", "params": {"field": "login", "newValue": {"password": "opensesamesecret"}}},
        {"tell": "notifications/state/changed", "params": {"field": "again", "newValue": "opensesamesecret is the word"}},
        {"tell": "notifications/error", "params": {"code": "X", "message": f"Authorization: Bearer abc.secret.def in {Path.home()}/secret-place"}},
    ]
    links: list[str] = []
    ask = _person(replace(ASKED[Shape.SECRET], page=(SECRET,)))

    def person(method: str, params: Json) -> Any:
        given = ask(method, params)
        if isinstance(given, Filled):
            links.append(given.url)
        return given

    text = recorded(tmp_path, case(steps, person, env=environment))
    (tmp_path / "fixture.jsonl").unlink(missing_ok=True)
    run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    drawn = run("trace", str(tmp_path / "trace.jsonl"), "--width", "400")
    (link,) = links
    planted = [SECRET, "tr0ub4dor", "key-0815", "Atlantis", "hunter2", "abcsecretdef", "opensesame", "abc.secret.def", link.rpartition("/")[2]]
    for where in (text, (tmp_path / "fixture.jsonl").read_text(), drawn.stdout, drawn.stderr):
        assert where or where is drawn.stderr
        for each in [*planted, str(Path.home()) + "/"]:
            assert each not in where, each
    assert "[secret]" in text
    assert "[env SOME_API_KEY]" in text
    assert run("replay", str(tmp_path / "fixture.jsonl")).stdout.endswith("1 passed, 0 failed\n")


@pytest.mark.parametrize("surface", [Surface.TERMINAL, Surface.MOCK, Surface.PAGE, Surface.QUESTIONS_API], ids=str)
def test_a_secret_given_beside_the_host_stands_nowhere(surface: Surface, tmp_path: Path) -> None:
    """Typed at a terminal, written down before, sent on the page; and the password of those who may answer by the questions API."""
    password = "planted-password-51c2"
    spoken, asked = SPOKEN[surface], replace(ASKED[Shape.SECRET], page=(SECRET,), keys=(SECRET,))
    steps = [
        {"ask": asked.request, "aloud": True},
        {"tell": "notifications/state/changed", "params": {"field": "note", "newValue": f"they typed {SECRET}!"}},
    ]
    conversation = case(
        steps if surface is not Surface.QUESTIONS_API else [{"ask": ASKED[Shape.TEXT].request}],
        _person(asked),
        files={"answers.json": json.dumps([{"value": SECRET}])},
        arguments=spoken.arguments,
        env=dict(spoken.env) | {name: password for name in spoken.env if name == "ABP_QUESTIONS_PASSWORD"},
        asked=(ASKED[Shape.TEXT] if surface is Surface.QUESTIONS_API else asked,),
        beside=spoken.beside,
    )
    text = recorded(tmp_path, replace(conversation, capabilities=spoken.capabilities))
    run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    drawn = run("trace", str(tmp_path / "trace.jsonl"), "--full")
    for where in (text, (tmp_path / "fixture.jsonl").read_text(), drawn.stdout):
        assert '"success": true' in where
        for planted in (SECRET, "tr0ub4dor", password):
            assert planted not in where
    assert ("[secret]" in text) is (surface is not Surface.QUESTIONS_API)


def written(tmp_path: Path, *passed: tuple[str, str, Json]) -> str:
    """What a recorder writes of these messages."""
    recorder = Recorder(str(tmp_path / "trace"), Settings(), "serve", environ={})
    for sender, to, message in passed:
        recorder.message(sender, to, message)
    return (tmp_path / "trace").read_text()


def test_a_secret_in_an_envelope_is_one_too(tmp_path: Path) -> None:
    request = {"method": "elicitation/input", "params": {"prompt": "Your PIN?", "schema": {"type": "integer"}}}
    text = written(
        tmp_path,
        ("app", "bridge", {"type": "elicitation/request", "id": "q1", "payload": request}),
        ("bridge", "app", {"type": "elicitation/response", "id": "q1", "timestamp": 1, "payload": {"success": True, "data": {"value": 271828}}}),
        ("app", "bridge", {"type": "notification", "payload": {"event": "x", "data": {"typed": 271828, "words": "PIN 271828 taken"}}}),
    )
    assert "271828" not in text
    assert '"data": {"value": "[secret]"}' in text


def test_what_an_agent_asks_for_in_a_form_can_be_secret(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"user": {"type": "string"}, "password": {"type": "string"}}, "required": ["user", "password"]}
    form = {"method": "elicitation/create", "params": {"mode": "form", "message": "Log in", "requestedSchema": schema}}
    answer = {"action": "accept", "content": {"user": "annabel", "password": "hunter2hunter2"}}
    text = written(
        tmp_path,
        ("agent", "bridge", {"jsonrpc": "2.0", "id": 1, **form}),
        ("bridge", "host", {"jsonrpc": "2.0", "id": "abp-1", **form}),
        ("host", "bridge", {"jsonrpc": "2.0", "id": "abp-1", "result": answer}),
        ("bridge", "agent", {"jsonrpc": "2.0", "id": 1, "result": answer}),
        ("agent", "bridge", {"jsonrpc": "2.0", "method": "x", "params": {"said": "annabel typed hunter2hunter2"}}),
    )
    assert "hunter2" not in text
    assert "annabel typed [secret]" in text, "what is no secret stays"


def test_what_is_too_long_is_left_out_and_said(tmp_path: Path) -> None:
    text = written(tmp_path, ("app", "bridge", {"id": 1, "result": {"content": "x" * 1_000_000}}))
    assert '"content": "[cut 1000000 characters]"' in text


def test_a_recording_is_its_owners_and_begins_with_the_first_message(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        assert not trace.exists()
        assert host.end() == 0
    assert not trace.exists(), "a host that only looks leaves nothing"
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        host.initialize()
        assert stat.S_IMODE(trace.stat().st_mode) == 0o600
        with RawHost("--app", "demo", "--record", str(trace)) as other:
            other.initialize()
            assert other.end() == 0
        assert host.end() == 0
    assert (len(read(trace.read_text())), len(read(Path(f"{trace}.2").read_text()))) == (1, 1), "two at once are not mixed"
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        host.initialize()
        assert host.end() == 0
    assert len(read(trace.read_text())) == 2, "the next is appended"


@pytest.mark.parametrize("name", ["/dev/full", "/nowhere/trace", "."])
def test_a_recording_that_cannot_be_made_does_not_end_the_session(name: str) -> None:
    with RawHost("--app", "demo", "--record", name) as host:
        assert host.initialize()["result"]["protocolVersion"] == "2025-11-25"
        assert "result" in host.request("tools/list")
        assert host.end() == 0


def test_a_full_disk_ends_the_recording_and_not_the_session(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, limit[1]))
    try:
        host = RawHost("--app", "demo", "--record", str(trace))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    with host:
        host.initialize()
        for _ in range(20):
            assert "result" in host.request("tools/list")
        assert host.end() == 0
    (kept,) = read(trace.read_text())
    assert kept.unfinished
    assert kept.entries
    drawn = run("trace", str(trace))
    assert drawn.stdout.endswith("(the last line of the file is cut off)\n")
    assert "cut off" in run("replay", str(trace)).stdout


def test_an_agent_behind_the_proxy_is_recorded_too(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    agent = Path(__file__).parent / "apps" / "acp_agent.py"
    command = [sys.executable, "-m", "abp_bridge", "acp", "--record", str(trace), "--", sys.executable, str(agent)]
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}
    said = subprocess.run(command, input=json.dumps(opening).encode() + b"\n", capture_output=True, timeout=PATIENCE, check=True)
    assert json.loads(said.stdout)["id"] == 1
    (made,) = read(trace.read_text())
    assert [(entry.sender, entry.to) for entry in made.entries if entry.kind == "message"] == [
        ("host", "bridge"),
        ("bridge", "agent"),
        ("agent", "bridge"),
        ("bridge", "host"),
    ]
    assert made.head.run == ("acp", "--", "{agent}")


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


HEAD = '{"abp-trace": 1, "run": ["serve", "--app", "stdio:{app}"], "apps": {"app": "demo"}}\n'


def reduced(*entries: Json) -> list[Json]:
    (made,) = read(HEAD + "".join(json.dumps(each) + "\n" for each in entries))
    return [each.value for each in reduce(made).entries]


def test_what_a_host_only_looks_at_is_left_out() -> None:
    looked = {"way": "host->bridge", "message": {"id": 1, "method": "tools/list"}}
    shown = {"way": "bridge->host", "message": {"id": 1, "result": {"tools": []}}}
    assert reduced(looked, shown, {"way": "host->bridge", "message": {"id": 2, "method": "tools/call"}}) == [{"id": 2, "method": "tools/call"}]


def test_an_apps_name_is_its_stand_ins_too() -> None:
    (told,) = reduced({"way": "bridge->host", "message": {"method": "x", "params": {"message": "demo asks: demo.trip?"}}})
    expected = told["params"]["message"]
    assert expected == "[either demo|stdio:app] asks: demo.trip?"
    assert match(expected, "stdio:app asks: demo.trip?", {})
    assert not match(expected, "other asks: demo.trip?", {})


def test_a_short_secret_is_replaced_where_it_stands_alone() -> None:
    redactor = Redactor(env={}, places={})
    redactor.learn(42)
    assert redactor.clean({"pin": "42", "text": "it is 42, not 1421", "id": "abp-142"}) == {
        "pin": "[secret]",
        "text": "it is [secret], not 1421",
        "id": "abp-142",
    }


def test_paths_of_this_machine_are_whole_names() -> None:
    redactor = Redactor(env={}, places={"/home/ann": "~", "/home/ann/project": "[cwd]"})
    assert redactor.text("/home/ann/project/x, /home/ann, /home/anna") == "[cwd]/x, ~, /home/anna"


def test_a_file_of_several_recordings_is_read_whole() -> None:
    assert len(read(HEAD * 3)) == 3
    with pytest.raises(TraceError, match="this is not JSON"):
        read(HEAD + "x\n" + HEAD)


def test_a_recording_ends_no_session(tmp_path: Path) -> None:
    """What is too deep to be written down is cut in the trace, and answered as without one."""
    trace = tmp_path / "deep.trace"
    deep = "[" * 600 + "]" * 600
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}),
        f'{{"jsonrpc": "2.0", "method": "odd", "params": {{"a": {deep}}}}}',
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
    ]
    command = [sys.executable, "-m", "abp_bridge", "serve", "--app", "demo", "--record", str(trace)]
    ended = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, env=environment(), timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout.splitlines()[-1])["id"] == 2
    assert "[cut " in trace.read_text()


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
