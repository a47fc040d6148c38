"""Recordings: what a trace holds and what it never holds, and what becomes of it as a fixture."""

from __future__ import annotations

import base64
import json
import re
import resource
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fixture_maker.cases import ASKED, Case, cases, on_surface
from fixture_maker.host import Bridge
from fixture_maker.person import Filled, Person, person
from support.harness import PATIENCE, RawHost, environment, run
from support.paths import APPS
from support.traces import written

from abp_bridge.conformance.fixture import reduce
from abp_bridge.conformance.format import TraceError, parse_recordings
from abp_bridge.conformance.match import match
from abp_bridge.conformance.redactor import MAX_KNOWN
from abp_bridge.conformance.user_drivers import free_port
from abp_bridge.core.matrix import MATRIX, QuestionShape, SurfaceVariant, find_cell
from abp_bridge.core.surface import Surface

Json = Any

SECRET = 'tr0ub4dor "&" 3'
STATE = "notifications/state/changed"
FORMS: Json = {"elicitation": {"form": {}}}
LINK: Json = {"elicitation": {"form": {}, "url": {}}}


def case(steps: Json, answers: Person | None = None, **more: Any) -> Case:
    answers = answers or person(replace(ASKED[QuestionShape.SECRET], page=(SECRET,)))
    return Case(steps, capabilities=LINK, person=answers, **more)


def recorded(tmp_path: Path, conversation: Case) -> str:
    """The trace of a conversation."""
    return Bridge(conversation, tmp_path).play()


def test_a_recording_becomes_a_fixture_that_passes(tmp_path: Path) -> None:
    recorded(
        tmp_path,
        case(
            [{"ask": ASKED[QuestionShape.SELECT_MANY].request}],
            person(ASKED[QuestionShape.SELECT_MANY]),
        ),
    )
    saved = run(
        "replay",
        "--save",
        str(tmp_path / "trace.jsonl"),
        str(tmp_path / "fixture.jsonl"),
        "--shows",
        "Twelve cities",
    )
    assert saved.returncode == 0, saved.stderr
    (fixture,) = parse_recordings((tmp_path / "fixture.jsonl").read_text())
    assert fixture.head.proves == (
        {"surface": "mcp-form", "version": "2025-11-25", "shape": "select, more than 4"},
    )
    assert fixture.head.shows == "Twelve cities"
    for name in ("fixture.jsonl", "trace.jsonl"):
        assert run("replay", str(tmp_path / name)).stdout.endswith("1 passed, 0 failed\n")
    again = run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_a_trace_holds_what_happened_to_each_question(tmp_path: Path) -> None:
    text = recorded(
        tmp_path,
        case([{"ask": ASKED[QuestionShape.CONFIRM].request}], person(ASKED[QuestionShape.CONFIRM])),
    )
    events = [json.loads(line) for line in text.splitlines() if '"event"' in line]
    assert [event["event"] for event in events] == [
        "InputRequestEvent",
        "AttemptEvent",
        "InputResolvedEvent",
    ]
    assert events[-1]["content"] == {"confirmed": True}


def test_a_secret_stands_nowhere(tmp_path: Path) -> None:
    """Not as the answer, and not where the app says it again: in its result, in a state, in an
    address.
    """
    environment = {"SOME_API_KEY": "key-0815-secret", "PLACE_OF_WORK": "Atlantis-Secret-Lab"}
    steps = [
        {"ask": ASKED[QuestionShape.SECRET].request, "aloud": True},
        {"tell": STATE, "params": {"field": "note", "newValue": f"they typed {SECRET}!"}},
        {
            "tell": STATE,
            "params": {"field": "key", "newValue": "key-0815-secret of Atlantis-Secret-Lab"},
        },
        {
            "tell": STATE,
            "params": {
                "field": "from",
                "newValue": "https://ann:hunter2secret@example.com/?token=abcsecretdef",
            },
        },
        {"tell": STATE, "params": {"field": "login", "newValue": {"password": "opensesamesecret"}}},
        {"tell": STATE, "params": {"field": "again", "newValue": "opensesamesecret is the word"}},
        {
            "tell": "notifications/error",
            "params": {
                "code": "X",
                "message": f"Authorization: Bearer abc.secret.def in {Path.home()}/secret-place",
            },
        },
    ]
    links: list[str] = []
    ask = person(replace(ASKED[QuestionShape.SECRET], page=(SECRET,)))

    def answers(method: str, params: Json) -> Any:
        given = ask(method, params)
        if isinstance(given, Filled):
            links.append(given.url)
        return given

    text = recorded(tmp_path, case(steps, answers, env=environment))
    (tmp_path / "fixture.jsonl").unlink(missing_ok=True)
    run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    drawn = run("trace", str(tmp_path / "trace.jsonl"), "--width", "400")
    (link,) = links
    planted = [
        SECRET,
        "tr0ub4dor",
        "key-0815",
        "Atlantis",
        "hunter2",
        "abcsecretdef",
        "opensesame",
        "abc.secret.def",
        link.rpartition("/")[2],
    ]
    for where in (text, (tmp_path / "fixture.jsonl").read_text(), drawn.stdout, drawn.stderr):
        assert where or where is drawn.stderr
        for each in [*planted, str(Path.home()) + "/"]:
            assert each not in where, each
    assert "[secret]" in text
    assert "[env SOME_API_KEY]" in text
    assert run("replay", str(tmp_path / "fixture.jsonl")).stdout.endswith("1 passed, 0 failed\n")


# What an app that cannot keep it to itself says of a secret.
SAID_AGAIN: tuple[Json, ...] = (
    f"they typed {SECRET}!",
    json.dumps({"login": {"typed": SECRET}}),
    f"https://app.example/?note={quote(SECRET)}",
    base64.b64encode(f"ann:{SECRET}".encode()).decode(),
    {"password": SECRET, "again": [SECRET]},
)


@pytest.mark.parametrize(
    ("surface", "version"),
    [column for column in MATRIX if column[0] not in (Surface.MCP_SAMPLING, Surface.SAMPLING)],
    ids=str,
)
def test_a_secret_stands_nowhere_whatever_asks(
    surface: Surface, version: str, tmp_path: Path
) -> None:
    """Where a surface takes none, it is given on the page, to which a form points where the host
    would show nothing; and the password of those who may answer by the questions API is one too.
    """
    password = "planted-password-51c2"
    alone = on_surface(surface, version)
    if surface is Surface.ABP:  # its agent is shown no link: the person is at a terminal
        typed = on_surface(Surface.TERMINAL, "")
        surface = Surface.TERMINAL
        alone = replace(typed, protocol="abp", version="0.1", capabilities=alone.capabilities)
    asked = replace(ASKED[QuestionShape.SECRET], page=(SECRET,), keys=(SECRET,))
    refused = not find_cell(QuestionShape.SECRET, SurfaceVariant(surface, version)).asks
    arguments = [word.replace("{port}", str(free_port())) for word in alone.arguments]
    conversation = replace(
        alone,
        capabilities=alone.capabilities or (FORMS if refused and alone.protocol == "mcp" else {}),
        steps=[
            {"ask": asked.request, "aloud": True},
            *(
                {"tell": STATE, "params": {"field": "note", "newValue": each}}
                for each in SAID_AGAIN
            ),
        ],
        person=person(asked),
        files={"answers.json": json.dumps([{"value": SECRET}])},
        arguments=(*arguments, *(["--page"] if refused else [])),
        env={name: password if "PASSWORD" in name else word for name, word in alone.env.items()},
        asked=(asked,),
        beside="" if refused else alone.beside,
        mute=alone.mute and not refused,
    )
    text = recorded(tmp_path, conversation)
    saved = run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    drawn = run("trace", str(tmp_path / "trace.jsonl"), "--full")
    for where in (text, (tmp_path / "fixture.jsonl").read_text(), drawn.stdout):
        assert '"success": true' in where
        assert "[secret]" in where
    for where in (
        text,
        (tmp_path / "fixture.jsonl").read_text(),
        drawn.stdout,
        saved.stdout,
        saved.stderr,
        (tmp_path / "host.stderr").read_text(),
    ):
        for planted in (SECRET, "tr0ub4dor", base64.b64encode(b"tr0ub4dor").decode()[:8], password):
            assert planted not in where


def test_a_secret_in_an_envelope_is_one_too(tmp_path: Path) -> None:
    request = {
        "method": "elicitation/input",
        "params": {"prompt": "Your PIN?", "schema": {"type": "integer"}},
    }
    text = written(
        tmp_path,
        ("app", "bridge", {"type": "elicitation/request", "id": "q1", "payload": request}),
        (
            "bridge",
            "app",
            {
                "type": "elicitation/response",
                "id": "q1",
                "timestamp": 1,
                "payload": {"success": True, "data": {"value": 271828}},
            },
        ),
        (
            "app",
            "bridge",
            {
                "type": "notification",
                "payload": {"event": "x", "data": {"typed": 271828, "words": "PIN 271828 taken"}},
            },
        ),
    )
    assert "271828" not in text
    assert '"data": {"value": "[secret]"}' in text


def test_what_an_agent_asks_for_in_a_form_can_be_secret(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"user": {"type": "string"}, "password": {"type": "string"}},
        "required": ["user", "password"],
    }
    form = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Log in", "requestedSchema": schema},
    }
    answer = {"action": "accept", "content": {"user": "annabel", "password": "hunter2hunter2"}}
    text = written(
        tmp_path,
        ("agent", "bridge", {"jsonrpc": "2.0", "id": 1, **form}),
        ("bridge", "host", {"jsonrpc": "2.0", "id": "abp-1", **form}),
        ("host", "bridge", {"jsonrpc": "2.0", "id": "abp-1", "result": answer}),
        ("bridge", "agent", {"jsonrpc": "2.0", "id": 1, "result": answer}),
        (
            "agent",
            "bridge",
            {"jsonrpc": "2.0", "method": "x", "params": {"said": "annabel typed hunter2hunter2"}},
        ),
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
    assert (
        len(parse_recordings(trace.read_text())),
        len(parse_recordings(Path(f"{trace}.2").read_text())),
    ) == (
        1,
        1,
    ), "two at once are not mixed"
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        host.initialize()
        assert host.end() == 0
    assert len(parse_recordings(trace.read_text())) == 2, "the next is appended"


def test_a_full_disk_ends_the_recording_and_not_the_session(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, limit[1]))
    try:
        # A module that is imported meanwhile would leave half of its bytecode behind.
        env = {"PYTHONDONTWRITEBYTECODE": "1"}
        host = RawHost("--app", "demo", "--record", str(trace), env=env)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    with host:
        host.initialize()
        for _ in range(20):
            assert "result" in host.request("tools/list")
        assert host.end() == 0
    (kept,) = parse_recordings(trace.read_text())
    assert kept.unfinished
    assert kept.entries
    drawn = run("trace", str(trace))
    assert drawn.stdout.endswith("(the last line of the file is cut off)\n")
    assert "cut off" in run("replay", str(trace)).stdout


CAFE = '{"abp-trace": 1}\n{"way": "host->bridge", "message": {"method": "café"}}\n'.encode()


@pytest.mark.parametrize(
    ("kept", "is_cut"),
    [(-4, True), (-5, True), (-1, False), (None, False)],
    ids=["after a letter", "within a letter", "before the end of the line", "nowhere"],
)
def test_a_file_is_drawn_wherever_it_is_cut_off(
    kept: int | None, is_cut: bool, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(CAFE + CAFE.splitlines(keepends=True)[1][:kept])
    drawn = run("trace", str(trace))
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert drawn.stdout.count("café") == (1 if is_cut else 2)
    assert drawn.stdout.endswith("(the last line of the file is cut off)\n") == is_cut


def test_a_file_with_half_a_letter_in_its_middle_is_no_text(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(CAFE.replace("é".encode(), b"\xc3"))
    drawn = run("trace", str(trace))
    assert (drawn.returncode, "is no text" in drawn.stderr) == (2, True), drawn


def test_more_secrets_than_can_be_kept_end_the_recording_and_not_the_session(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    secrets = [f"planted secret {number:05}" for number in range(MAX_KNOWN + 1)]
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        host.initialize()
        host.request("tools/call", {"name": "none", "arguments": {"passwords": secrets}})
        host.request("tools/call", {"name": "none", "arguments": {"note": secrets[-1]}})
        assert "result" in host.request("tools/list")
        assert host.end() == 0
    assert (
        "the recording ends here: there were more secrets than can be kept in mind. The session"
        " goes on" in capfd.readouterr().err
    )
    text = trace.read_text()
    assert "planted" not in text
    assert json.loads(text.splitlines()[-1]) == {
        "event": "RecordingEnded",
        "reason": "there were more secrets than can be kept in mind; what came after is not here",
    }
    (kept,) = parse_recordings(text)
    assert not kept.unfinished


def test_an_agent_behind_the_proxy_is_recorded_too(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    agent = APPS / "acp_agent.py"
    command = [
        sys.executable,
        "-m",
        "abp_bridge",
        "acp",
        "--record",
        str(trace),
        "--",
        sys.executable,
        str(agent),
    ]
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    said = subprocess.run(
        command,
        input=json.dumps(opening).encode() + b"\n",
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(said.stdout)["id"] == 1
    (made,) = parse_recordings(trace.read_text())
    assert [(entry.sender, entry.to) for entry in made.entries if entry.kind == "message"] == [
        ("host", "bridge"),
        ("bridge", "agent"),
        ("agent", "bridge"),
        ("bridge", "host"),
    ]
    assert made.head.run == ("acp", "--", "{agent}")


HEAD = '{"abp-trace": 1, "run": ["serve", "--app", "stdio:{app}"], "apps": {"app": "demo"}}\n'


def reduced(*entries: Json) -> list[Json]:
    (made,) = parse_recordings(HEAD + "".join(json.dumps(each) + "\n" for each in entries))
    return [each.value for each in reduce(made).entries]


def test_a_persons_own_words_are_held_against_a_bridge() -> None:
    """Though they stand under names such as a bridge has for its own."""
    data = {
        "value": {
            "agent": "Smith",
            "seconds": 12,
            "instructions": "Ring twice",
            "timestamp": 5,
            "latencyMs": 7,
        }
    }
    said = {
        "way": "bridge->app",
        "message": {
            "id": "q1",
            "result": {"success": True, "data": data, "metadata": {"latencyMs": 3.5}},
        },
    }
    (made,) = reduced(said)
    assert made["result"] == {"success": True, "data": data, "metadata": {"latencyMs": "[number]"}}


@pytest.mark.parametrize(
    ("answered_by", "floor"),
    [
        (["person"], "0"),
        (["host-policy"], "60000"),
        (["unknown", "unknown"], "0.001"),
        (["person", "host-policy"], "0"),
        ([], "0"),
    ],
)
def test_who_answered_a_question_answers_it_in_the_fixture_too(
    answered_by: list[str], floor: str
) -> None:
    events = [
        {"event": "InputResolvedEvent", "route": "mcp-form", "answeredBy": each}
        for each in answered_by
    ]
    (recording,) = parse_recordings(HEAD + "".join(json.dumps(each) + "\n" for each in events))
    assert reduce(recording).head.env["ABP_PERSON_FLOOR"] == floor


def test_what_an_agent_repeats_of_the_bridges_words_is_passed_on_in_the_fixture_too() -> None:
    """A recording has the app's own command; a replay has its stand-in's."""
    said = {"method": "session/update", "params": {"text": "stdio:python trips.py asked: Go?"}}
    head = '{"abp-trace": 1, "run": ["acp"], "apps": {"app": "stdio:python trips.py"}}\n'
    ways = [{"way": way, "message": said} for way in ("agent->bridge", "bridge->host")]
    (made,) = parse_recordings(head + "".join(json.dumps(each) + "\n" for each in ways))
    repeated, passed_on = (each.value for each in reduce(made).entries)
    assert repeated == passed_on
    assert repeated["params"]["text"] == "stdio:app asked: Go?"


def test_what_a_host_only_looks_at_is_left_out() -> None:
    looked = {"way": "host->bridge", "message": {"id": 1, "method": "tools/list"}}
    shown = {"way": "bridge->host", "message": {"id": 1, "result": {"tools": []}}}
    assert reduced(
        looked, shown, {"way": "host->bridge", "message": {"id": 2, "method": "tools/call"}}
    ) == [{"id": 2, "method": "tools/call"}]


@pytest.mark.parametrize("who", ["host->bridge", "bridge->host"])
def test_what_the_end_of_a_session_brings_about_is_left_out(who: str) -> None:
    """Whether its host left, or a signal had the bridge leave: a replay ends it in its own way."""
    asked = {"id": "q1", "method": "elicitation/confirm", "params": {"message": "Go?"}}
    withdrawn = {"id": "q1", "result": {"success": False, "cancelled": True}}
    assert reduced(
        {"way": "host->bridge", "message": {"id": 2, "method": "tools/call"}},
        {"way": "app->bridge", "message": asked},
        {"way": who, "closed": True},
        {"way": "bridge->app", "message": withdrawn},
    ) == [{"id": 2, "method": "tools/call"}, asked]


def test_an_apps_name_is_its_stand_ins_too() -> None:
    (told,) = reduced(
        {
            "way": "bridge->host",
            "message": {"method": "x", "params": {"message": "demo asks: demo.trip?"}},
        }
    )
    expected = told["params"]["message"]
    assert expected == "[either demo|stdio:app] asks: demo.trip?"
    assert match(expected, "stdio:app asks: demo.trip?", {})
    assert not match(expected, "other asks: demo.trip?", {})


def test_a_recording_ends_no_session(tmp_path: Path) -> None:
    """What is too deep to be written down is cut in the trace, and answered as without one."""
    trace = tmp_path / "deep.trace"
    deep = "[" * 600 + "]" * 600
    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}),
        f'{{"jsonrpc": "2.0", "method": "odd", "params": {{"a": {deep}}}}}',
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
    ]
    command = [sys.executable, "-m", "abp_bridge", "serve", "--app", "demo", "--record", str(trace)]
    ended = subprocess.run(
        command,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout.splitlines()[-1])["id"] == 2
    assert "[cut " in trace.read_text()


def test_a_file_of_several_recordings_is_read_whole() -> None:
    assert len(parse_recordings(HEAD * 3)) == 3
    with pytest.raises(TraceError, match="this is not JSON"):
        parse_recordings(HEAD + "x\n" + HEAD)


# --- what hosts and agents tell of themselves -----------------------------------------------------


def said(way: str, **message: Json) -> Json:
    return {"way": way, "message": {"jsonrpc": "2.0", **message}}


def passed_on(**message: Json) -> list[Json]:
    """What an agent says, and a proxy passes on."""
    return [said("agent->bridge", **message), said("bridge->host", **message)]


def test_of_the_meta_of_a_hosts_call_what_mcp_has_is_kept() -> None:
    meta = {
        "progressToken": 1,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "threadId": "t-1",
        "agent-working-dir": "/home/ann",
    }
    (call,) = reduced(
        said("host->bridge", id=2, method="tools/call", params={"name": "abp_call", "_meta": meta})
    )
    assert call["params"] == {
        "name": "abp_call",
        "_meta": {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28"},
    }


def test_what_an_agent_tells_of_itself_is_left_out_where_it_is_passed_on() -> None:
    commands = {
        "sessionId": "s",
        "update": {"sessionUpdate": "available_commands_update", "availableCommands": []},
    }
    words = {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "Hello"},
        },
    }
    kept = reduced(
        *passed_on(method="_auth/status_update", params={}),
        *passed_on(method="session/update", params=commands),
        *passed_on(method="session/update", params=words),
    )
    assert [each["params"] for each in kept] == [words, words]


def test_what_a_proxy_changes_of_it_stays_both_ways() -> None:
    update = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    changed = update | {"availableCommands": [{"name": "plan"}]}
    kept = reduced(
        said("agent->bridge", method="session/update", params={"update": update}),
        said("bridge->host", method="session/update", params={"update": changed}),
    )
    assert [each["params"]["update"] for each in kept] == [update, changed]


def test_an_agents_lists_of_settings_are_left_out_of_its_results() -> None:
    result = {
        "sessionId": "s",
        "modes": {"currentModeId": "a"},
        "configOptions": [1, 2],
        "models": {},
        "_meta": {"quota": 1, "mine": 2},
    }
    kept = reduced(
        said("agent->bridge", id=1, result=result), said("bridge->host", id=1, result=result)
    )
    assert [each["result"] for each in kept] == [
        {"sessionId": "s", "modes": {"currentModeId": "a"}, "_meta": {"mine": 2}}
    ] * 2


def test_a_hosts_other_servers_are_left_out_and_the_bridges_own_is_started_as_it_likes() -> None:
    theirs = {"name": "files", "command": "/home/ann/bin/files", "args": [], "env": []}
    ours = {
        "name": "abp",
        "command": "/usr/bin/python3",
        "args": ["relay.py"],
        "env": [{"name": "TOKEN", "value": "1"}],
    }
    asked, passed = reduced(
        said(
            "host->bridge", id=1, method="session/new", params={"cwd": "/", "mcpServers": [theirs]}
        ),
        said(
            "bridge->agent",
            id=1,
            method="session/new",
            params={"cwd": "/", "mcpServers": [theirs, ours]},
        ),
    )
    assert asked["params"]["mcpServers"] == []
    assert passed["params"]["mcpServers"] == [
        {"name": "abp", "command": "[any]", "args": "[any]", "env": "[any]"}
    ]


def test_what_an_agent_chose_is_not_the_bridges_to_choose() -> None:
    """A proxy passes its ids on; what it opens itself has names of its own."""
    asked = {
        "sessionId": "s-1",
        "options": [{"optionId": "allow", "name": "Yes", "kind": "allow_once"}],
    }
    _, passed, own = reduced(
        *passed_on(id="p", method="session/request_permission", params=asked),
        said(
            "bridge->host",
            id="abp-1",
            method="session/request_permission",
            params={"sessionId": "s-1", "toolCall": {"toolCallId": "abp-ask-1"}},
        ),
    )
    assert passed["params"] == asked
    assert own["params"] == {"sessionId": "s-1", "toolCall": {"toolCallId": "[tool 1]"}}


def test_words_that_a_host_quotes_are_no_name_of_a_question() -> None:
    prompt = {"prompt": [{"type": "text", "text": 'Ask {"question": "Why?"}'}]}
    _, passed = reduced(
        said("host->bridge", id=1, method="session/prompt", params=prompt),
        said("bridge->agent", id=1, method="x", params=prompt),
    )
    assert passed["params"] == prompt


def test_what_an_agent_calls_on_its_tools_is_recorded_too(tmp_path: Path) -> None:
    (behind,) = [each for each in cases() if each.path == "acp-proxy/app-by-buttons.jsonl"]
    (made,) = parse_recordings(recorded(tmp_path, behind))
    called = [entry for entry in made.entries if entry.party == "tools" and entry.kind == "message"]
    assert [entry.value.get("method") for entry in called if not entry.ours] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert "ABP_RELAY_TOKEN" in (tmp_path / "trace.jsonl").read_text()
    assert re.search(
        r'"ABP_RELAY_TOKEN", "value": "\[secret\]"', (tmp_path / "trace.jsonl").read_text()
    )


def state(value: Json) -> Json:
    return {"tell": STATE, "params": {"field": "x", "newValue": value}}


CONFIRM: Json = {"ask": ASKED[QuestionShape.CONFIRM].request}
ORDINARY: dict[str, tuple[Json, dict[str, str]]] = {
    "a number under a telling name": ([CONFIRM, state({"token": 812})], {}),
    "an object under a telling name": (
        [CONFIRM, state({"credentials": {"user": "ann", "kind": "basic"}})],
        {},
    ),
    "a word of the protocol under a telling name": ([state({"password": "boolean"}), CONFIRM], {}),
    "required under a telling name": ([state({"credentials": "required"}), CONFIRM], {}),
    "accept under a telling name": ([state({"authorization": "accept"}), CONFIRM], {}),
    "TOKENIZERS_PARALLELISM=false": (
        [CONFIRM, state({"ok": False})],
        {"TOKENIZERS_PARALLELISM": "false"},
    ),
    "SSL_MODE=required": ([CONFIRM], {"SSL_MODE": "required"}),
    "MCP_PROTOCOL_VERSION=2025-11-25": ([CONFIRM], {"MCP_PROTOCOL_VERSION": "2025-11-25"}),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_what_only_looks_like_a_secret_spoils_no_fixture(name: str, tmp_path: Path) -> None:
    steps, env = ORDINARY[name]
    recorded(tmp_path, case(steps, person(ASKED[QuestionShape.CONFIRM]), env=env))
    saved = run("replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl"))
    played = run("replay", str(tmp_path / "fixture.jsonl"))
    assert "1 passed, 0 failed" in played.stdout, saved.stderr + played.stdout + played.stderr
