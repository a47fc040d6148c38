"""Traces: what they hold, what they never hold, and the fixtures made of them."""

from __future__ import annotations

import base64
import json
import resource
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fixture_maker.cases import ASKED, Case, cases, on_surface
from fixture_maker.host import Bridge
from fixture_maker.person import Filled, Person, person
from support import in_process
from support.harness import RawHost, run
from support.traces import written

from abp_bridge.conformance.fixture import reduce
from abp_bridge.conformance.format import TraceError, parse_recordings
from abp_bridge.conformance.match import match
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


@pytest.mark.process
def test_trace_becomes_a_fixture_that_passes(tmp_path: Path) -> None:
    asked = ASKED[QuestionShape.SELECT_MANY]
    text = recorded(tmp_path, case([{"ask": asked.request}], person(asked)))
    events = [json.loads(line) for line in text.splitlines() if '"event"' in line]
    assert [event["event"] for event in events] == [
        "InputRequestEvent",
        "AttemptEvent",
        "InputResolvedEvent",
    ]
    trace, made = str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl")
    saved = run("replay", "--save", trace, made, "--shows", "Twelve cities")
    assert saved.returncode == 0, saved.stderr
    (fixture,) = parse_recordings((tmp_path / "fixture.jsonl").read_text())
    assert fixture.head.proves == (
        {"surface": "mcp-form", "version": "2025-11-25", "shape": "select, more than 4"},
    )
    assert fixture.head.shows == "Twelve cities"
    for name in (made, trace):
        assert run("replay", name).stdout.endswith("1 passed, 0 failed\n")
    again = run("replay", "--save", trace, made)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def save(tmp_path: Path) -> tuple[int, str, str]:
    """Save a trace as a fixture: the exit code, stdout and stderr."""
    words = ["replay", "--save", str(tmp_path / "trace.jsonl"), str(tmp_path / "fixture.jsonl")]
    return in_process.run_command(words)


def state(value: Json) -> Json:
    return {"tell": STATE, "params": {"field": "x", "newValue": value}}


@pytest.mark.process
@pytest.mark.network
def test_secret_is_not_in_a_trace(tmp_path: Path) -> None:
    """Not as the answer, and not where the app says it again: in its result, in a state, in an
    address.
    """
    environment = {"SOME_API_KEY": "key-0815-secret", "PLACE_OF_WORK": "Atlantis-Secret-Lab"}
    steps = [
        {"ask": ASKED[QuestionShape.SECRET].request, "aloud": True},
        state(f"they typed {SECRET}!"),
        state("key-0815-secret of Atlantis-Secret-Lab"),
        state("https://ann:hunter2secret@example.com/?token=abcsecretdef"),
        state({"password": "opensesamesecret"}),
        state("opensesamesecret is the word"),
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
    save(tmp_path)
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


@pytest.mark.process
@pytest.mark.network
@pytest.mark.parametrize(
    ("surface", "version"),
    [column for column in MATRIX if column[0] not in (Surface.MCP_SAMPLING, Surface.SAMPLING)],
    ids=str,
)
def test_secret_is_not_in_a_trace_of_any_surface(
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
        steps=[{"ask": asked.request, "aloud": True}, *map(state, SAID_AGAIN)],
        person=person(asked),
        files={"answers.json": json.dumps([{"value": SECRET}])},
        arguments=(*arguments, *(["--page"] if refused else [])),
        env={name: password if "PASSWORD" in name else word for name, word in alone.env.items()},
        asked=(asked,),
        beside="" if refused else alone.beside,
        mute=alone.mute and not refused,
    )
    text = recorded(tmp_path, conversation)
    saved = save(tmp_path)
    drawn = in_process.run_command(["trace", str(tmp_path / "trace.jsonl"), "--full"])[1]
    for where in (text, (tmp_path / "fixture.jsonl").read_text(), drawn):
        assert '"success": true' in where
        assert "[secret]" in where
    for where in (
        text,
        (tmp_path / "fixture.jsonl").read_text(),
        drawn,
        *saved[1:],
        (tmp_path / "host.stderr").read_text(),
    ):
        for planted in (SECRET, "tr0ub4dor", base64.b64encode(b"tr0ub4dor").decode()[:8], password):
            assert planted not in where


def test_secret_in_an_envelope_is_hidden(tmp_path: Path) -> None:
    request = {
        "method": "elicitation/input",
        "params": {"prompt": "Your PIN?", "schema": {"type": "integer"}},
    }
    answer = {"success": True, "data": {"value": 271828}}
    told = {"event": "x", "data": {"typed": 271828, "words": "PIN 271828 taken"}}
    text = written(
        tmp_path,
        ("app", "bridge", {"type": "elicitation/request", "id": "q1", "payload": request}),
        (
            "bridge",
            "app",
            {"type": "elicitation/response", "id": "q1", "timestamp": 1, "payload": answer},
        ),
        ("app", "bridge", {"type": "notification", "payload": told}),
    )
    assert "271828" not in text
    assert '"data": {"value": "[secret]"}' in text


def test_secret_field_of_an_agents_form_is_hidden(tmp_path: Path) -> None:
    fields = {"user": {"type": "string"}, "password": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    params = {"mode": "form", "message": "Log in", "requestedSchema": schema}
    form = {"method": "elicitation/create", "params": params}
    answer = {"action": "accept", "content": {"user": "annabel", "password": "hunter2hunter2"}}
    echo = {"method": "x", "params": {"said": "annabel typed hunter2hunter2"}}
    text = written(
        tmp_path,
        ("agent", "bridge", {"jsonrpc": "2.0", "id": 1, **form}),
        ("bridge", "host", {"jsonrpc": "2.0", "id": "abp-1", **form}),
        ("host", "bridge", {"jsonrpc": "2.0", "id": "abp-1", "result": answer}),
        ("bridge", "agent", {"jsonrpc": "2.0", "id": 1, "result": answer}),
        ("agent", "bridge", {"jsonrpc": "2.0", **echo}),
    )
    assert "hunter2" not in text
    assert "annabel typed [secret]" in text


def test_long_text_is_cut_in_a_trace(tmp_path: Path) -> None:
    text = written(tmp_path, ("app", "bridge", {"id": 1, "result": {"content": "x" * 1_000_000}}))
    assert '"content": "[cut 1000000 characters]"' in text


@pytest.mark.process
def test_trace_is_private_and_of_one_session_at_a_time(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"

    def record() -> RawHost:
        return RawHost("--app", "demo", "--record", str(trace))

    with record() as host:
        assert host.end() == 0
    assert not trace.exists(), "a host that sends nothing leaves no file"
    with record() as host:
        host.initialize()
        assert stat.S_IMODE(trace.stat().st_mode) == 0o600
        with record() as other:
            other.initialize()
            assert other.end() == 0
        assert host.end() == 0
    assert len(parse_recordings(trace.read_text())) == 1
    assert len(parse_recordings(Path(f"{trace}.2").read_text())) == 1
    with record() as host:
        host.initialize()
        assert host.end() == 0
    assert len(parse_recordings(trace.read_text())) == 2, "the next is appended"


@pytest.mark.process
def test_full_disk_ends_the_recording_and_not_the_session(tmp_path: Path) -> None:
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
    [(-4, True), (-5, True), (-1, False)],
    ids=["after a letter", "within a letter", "before the end of the line"],
)
def test_trace_that_is_cut_off_is_drawn(kept: int, is_cut: bool, tmp_path: Path) -> None:
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


def test_too_many_secrets_end_the_recording_and_not_the_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abp_bridge.conformance.redactor.MAX_KNOWN", 100)
    trace = tmp_path / "trace.jsonl"
    secrets = [f"planted secret {number:05}" for number in range(101)]
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        host.initialize()
        host.request("tools/call", {"name": "none", "arguments": {"passwords": secrets}})
        host.request("tools/call", {"name": "none", "arguments": {"note": secrets[-1]}})
        assert "result" in host.request("tools/list")
        assert host.end() == 0
    reason = "there were more secrets than can be kept in mind"
    assert f"the recording ends here: {reason}. The session goes on" in caplog.text
    text = trace.read_text()
    assert "planted" not in text
    assert json.loads(text.splitlines()[-1]) == {
        "event": "RecordingEnded",
        "reason": f"{reason}; what came after is not here",
    }
    (kept,) = parse_recordings(text)
    assert not kept.unfinished


HEAD = '{"abp-trace": 1, "run": ["serve", "--app", "stdio:{app}"], "apps": {"app": "demo"}}\n'


def reduced(*entries: Json) -> list[Json]:
    (made,) = parse_recordings(HEAD + "".join(json.dumps(each) + "\n" for each in entries))
    return [each.value for each in reduce(made).entries]


def test_fixture_keeps_answers_that_are_named_like_members_of_the_bridge() -> None:
    data = {"value": {"agent": "Smith", "seconds": 12, "timestamp": 5, "latencyMs": 7}}
    result = {"success": True, "data": data, "metadata": {"latencyMs": 3.5}}
    (made,) = reduced({"way": "bridge->app", "message": {"id": "q1", "result": result}})
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
def test_fixture_has_the_minimum_answer_time_of_its_recording(
    answered_by: list[str], floor: str
) -> None:
    event = {"event": "InputResolvedEvent", "route": "mcp-form"}
    lines = [json.dumps({**event, "answeredBy": each}) + "\n" for each in answered_by]
    (recording,) = parse_recordings(HEAD + "".join(lines))
    assert reduce(recording).head.env["ABP_PERSON_FLOOR"] == floor


def test_fixture_keeps_the_bridges_words_that_an_agent_repeats() -> None:
    """A recording has the app's own command; a replay has its stand-in's."""
    said = {"method": "session/update", "params": {"text": "stdio:python trips.py asked: Go?"}}
    head = '{"abp-trace": 1, "run": ["acp"], "apps": {"app": "stdio:python trips.py"}}\n'
    ways = [{"way": way, "message": said} for way in ("agent->bridge", "bridge->host")]
    (made,) = parse_recordings(head + "".join(json.dumps(each) + "\n" for each in ways))
    repeated, passed_on = (each.value for each in reduce(made).entries)
    assert repeated == passed_on
    assert repeated["params"]["text"] == "stdio:app asked: Go?"


def test_fixture_leaves_out_lists_that_a_host_only_reads() -> None:
    looked = {"way": "host->bridge", "message": {"id": 1, "method": "tools/list"}}
    shown = {"way": "bridge->host", "message": {"id": 1, "result": {"tools": []}}}
    call = {"id": 2, "method": "tools/call"}
    assert reduced(looked, shown, {"way": "host->bridge", "message": call}) == [call]


@pytest.mark.parametrize("who", ["host->bridge", "bridge->host"])
def test_fixture_leaves_out_what_the_end_of_a_session_causes(who: str) -> None:
    asked = {"id": "q1", "method": "elicitation/confirm", "params": {"message": "Go?"}}
    withdrawn = {"id": "q1", "result": {"success": False, "cancelled": True}}
    assert reduced(
        {"way": "host->bridge", "message": {"id": 2, "method": "tools/call"}},
        {"way": "app->bridge", "message": asked},
        {"way": who, "closed": True},
        {"way": "bridge->app", "message": withdrawn},
    ) == [{"id": 2, "method": "tools/call"}, asked]


def test_fixture_has_either_name_of_the_app() -> None:
    said = {"method": "x", "params": {"message": "demo asks: demo.trip?"}}
    (told,) = reduced({"way": "bridge->host", "message": said})
    expected = told["params"]["message"]
    assert expected == "[either demo|stdio:app] asks: demo.trip?"
    assert match(expected, "stdio:app asks: demo.trip?", {})
    assert not match(expected, "other asks: demo.trip?", {})


def test_message_too_deep_for_a_trace_is_cut_there_and_answered(tmp_path: Path) -> None:
    trace = tmp_path / "deep.trace"
    deep: Json = []
    for _ in range(600):
        deep = [deep]
    with RawHost("--app", "demo", "--record", str(trace)) as host:
        host.initialize()
        host.send("odd", {"a": deep})
        assert "result" in host.request("ping")
        assert host.end() == 0
    assert "[cut " in trace.read_text()


def test_file_of_several_recordings_is_read_whole() -> None:
    assert len(parse_recordings(HEAD * 3)) == 3
    with pytest.raises(TraceError, match="this is not JSON"):
        parse_recordings(HEAD + "x\n" + HEAD)


# --- what hosts and agents tell of themselves -----------------------------------------------------


def said(way: str, **message: Json) -> Json:
    return {"way": way, "message": {"jsonrpc": "2.0", **message}}


def passed_on(**message: Json) -> list[Json]:
    """What an agent says, and a proxy passes on."""
    return [said("agent->bridge", **message), said("bridge->host", **message)]


def test_fixture_keeps_the_meta_members_of_mcp() -> None:
    kept = {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta = {**kept, "threadId": "t-1", "agent-working-dir": "/home/ann"}
    params = {"name": "abp_call", "_meta": meta}
    (call,) = reduced(said("host->bridge", id=2, method="tools/call", params=params))
    assert call["params"] == {"name": "abp_call", "_meta": kept}


def test_fixture_leaves_out_what_an_agent_says_about_itself() -> None:
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    text = {"type": "text", "text": "Hello"}
    words = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": text}}
    kept = reduced(
        *passed_on(method="_auth/status_update", params={}),
        *passed_on(method="session/update", params={"sessionId": "s", "update": commands}),
        *passed_on(method="session/update", params=words),
    )
    assert [each["params"] for each in kept] == [words, words]


def test_fixture_keeps_what_a_proxy_changes() -> None:
    update = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    changed = update | {"availableCommands": [{"name": "plan"}]}
    kept = reduced(
        said("agent->bridge", method="session/update", params={"update": update}),
        said("bridge->host", method="session/update", params={"update": changed}),
    )
    assert [each["params"]["update"] for each in kept] == [update, changed]


def test_fixture_leaves_out_settings_in_an_agents_result() -> None:
    kept = {"sessionId": "s", "modes": {"currentModeId": "a"}}
    result = {**kept, "configOptions": [1, 2], "models": {}, "_meta": {"quota": 1, "mine": 2}}
    messages = reduced(*passed_on(id=1, result=result))
    assert [each["result"] for each in messages] == [{**kept, "_meta": {"mine": 2}}] * 2


def test_fixture_leaves_out_other_servers_of_the_host() -> None:
    theirs = {"name": "files", "command": "/home/ann/bin/files", "args": [], "env": []}
    env = [{"name": "TOKEN", "value": "1"}]
    ours = {"name": "abp", "command": "/usr/bin/python3", "args": ["relay.py"], "env": env}

    def new(way: str, *servers: Json) -> Json:
        return said(way, id=1, method="session/new", params={"cwd": "/", "mcpServers": [*servers]})

    asked, passed = reduced(new("host->bridge", theirs), new("bridge->agent", theirs, ours))
    assert asked["params"]["mcpServers"] == []
    assert passed["params"]["mcpServers"] == [
        {"name": "abp", "command": "[any]", "args": "[any]", "env": "[any]"}
    ]


def test_fixture_keeps_ids_of_the_agent_and_names_those_of_the_bridge() -> None:
    options = [{"optionId": "allow", "name": "Yes", "kind": "allow_once"}]
    asked = {"sessionId": "s-1", "options": options}
    request = {"method": "session/request_permission"}
    own_call = {"sessionId": "s-1", "toolCall": {"toolCallId": "abp-ask-1"}}
    _, passed, own = reduced(
        *passed_on(id="p", **request, params=asked),
        said("bridge->host", id="abp-1", **request, params=own_call),
    )
    assert passed["params"] == asked
    assert own["params"] == {"sessionId": "s-1", "toolCall": {"toolCallId": "[tool 1]"}}


@pytest.mark.process
def test_calls_on_the_tools_of_an_agent_are_recorded(tmp_path: Path) -> None:
    (behind,) = [each for each in cases() if each.path == "acp-proxy/app-by-buttons.jsonl"]
    (made,) = parse_recordings(recorded(tmp_path, behind))
    called = [entry for entry in made.entries if entry.party == "tools" and entry.kind == "message"]
    assert [entry.value.get("method") for entry in called if not entry.ours] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert '"ABP_RELAY_TOKEN", "value": "[secret]"' in (tmp_path / "trace.jsonl").read_text()
