"""`--audit`: who answered what, one line for each question, and no answer in it."""

from __future__ import annotations

import hashlib
import hmac
import json
import resource
import stat
from pathlib import Path
from typing import Any

import pytest
from support.acp_harness import client, never, selected
from support.harness import run
from support.mcp_proxy import FORM, proxied
from support.paths import PYTHON

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Permission, Question
from abp_bridge.session.audit import AuditLog
from abp_bridge.session.context import NO_CONTEXT, InputResolvedEvent

Json = Any

SECRET: Json = {
    "message": "Your token",
    "requestedSchema": {"type": "object", "properties": {"token": {"type": "string"}}},
}


def lines(file: Path) -> list[Json]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_question_has_a_line_and_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    with proxied(
        tmp_path, "--page", "off", "--audit", str(file), capabilities={"elicitation": FORM}
    ) as host:
        for tool, answer in (
            ("fastmcp", {"action": "accept", "content": {"value": "planted-name"}}),
            ("okta", {"action": "decline"}),
        ):
            call = host.begin_call(tool)
            host.reply(host.asked()["id"], answer)
            host.response(call)
        host.response(host.begin_call("ask", method="elicitation/create", params=SECRET))
    accepted, declined, nobody = lines(file)
    assert "planted-name" not in file.read_text()
    assert accepted["question"] == "Name?"
    assert accepted["asker"] == f"{PYTHON} mcp_server.py read deeds"
    assert [each["tools"] for each in (accepted, declined, nobody)] == [
        ["fastmcp"],
        ["okta"],
        ["ask"],
    ]
    assert accepted["asked"] <= accepted["ended"]
    assert (accepted["outcome"], accepted["answeredBy"]) == ("accepted", "person")
    assert (accepted["evidence"], accepted["route"]) == ("not-measured", "mcp-form")
    key = bytes.fromhex((tmp_path / "audit.key").read_text())
    digest = hmac.new(key, b'{"value":"planted-name"}', hashlib.sha256).hexdigest()
    assert accepted["answer"] == f"hmac-sha256:{digest}"
    assert (declined["outcome"], "answer" in declined) == ("declined", False)
    assert (nobody["outcome"], nobody["answeredBy"]) == ("unsupported", "nobody")
    for each in (file, tmp_path / "audit.key"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


async def test_each_session_of_a_process_has_the_times_of_its_own_questions(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    params = {"options": [{"value": "v", "label": "Go"}, {"value": "w", "label": "Stay"}]}
    async with client("--app", "demo", "--audit", str(file), handler=never) as person:
        await person.initialize()
        turns = []
        for count, prompt in enumerate(("First?", "Second?"), 1):
            asked = {"method": "elicitation/select", "params": {"prompt": prompt, **params}}
            words = f"/demo_ask {json.dumps({'request': asked})}"
            turns.append(await person.start(await person.new(), words))
            await person.asked("session/request_permission", count)
        for count, turn in enumerate(turns, 1):
            asked = await person.asked("session/request_permission", count)
            option = asked["params"]["options"][0]["optionId"]
            await person.send({"id": asked["id"], "result": selected(option)})
            await person.response(turn)
    first, second = lines(file)
    assert (first["question"], second["question"]) == ("First?", "Second?")
    assert first["asked"] < second["asked"] < first["ended"] < second["ended"]


def test_a_file_that_is_there_is_added_to_with_its_own_key(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    file.write_text("{}\n")
    file.chmod(0o644)
    AuditLog(str(file))
    key = (tmp_path / "audit.key").read_text()
    AuditLog(str(file))
    assert (tmp_path / "audit.key").read_text() == key
    assert lines(file) == [{}]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit", "audit.key"]


def resolved(name: str, content: Json, **more: Json) -> InputResolvedEvent:
    field = Field("confirmed", FieldType.BOOLEAN, {"type": "boolean"})
    question = Question(name, Kind.CONFIRM, "Sure?", (field,), "app", **more)
    answer = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content)
    return InputResolvedEvent(0.0, question, answer, NO_CONTEXT)


@pytest.mark.parametrize(("said", "outcome"), [(True, "accepted"), (False, "declined")])
def test_a_no_is_a_no(said: bool, outcome: str, tmp_path: Path) -> None:
    file = tmp_path / "audit"
    for permits in (Permission.CALL, None):
        AuditLog(str(file)).observer()(resolved("q", {"confirmed": said}, permits=permits))
    for each in lines(file):
        assert (each["outcome"], "answer" in each) == (outcome, said)


@pytest.mark.parametrize(
    ("tool", "answer", "outcome"),
    [
        ("mongodb", {"confirmation": "No"}, "declined"),
        ("mongodb", {"confirmation": "Yes, do it"}, "accepted"),
    ],
)
def test_what_the_server_got_is_recorded(
    tool: str, answer: Json, outcome: str, tmp_path: Path
) -> None:
    file = tmp_path / "audit"
    with proxied(
        tmp_path, "--page", "off", "--audit", str(file), capabilities={"elicitation": FORM}
    ) as host:
        call = host.begin_call(tool)
        host.reply(host.asked()["id"], {"action": "accept", "content": answer})
        host.response(call)
    assert [each["outcome"] for each in lines(file)] == [outcome]


@pytest.mark.parametrize("action", ["accept", "decline"])
def test_what_a_host_answered_by_itself_is_recorded_as_no_answer(
    action: str, tmp_path: Path
) -> None:
    file = tmp_path / "audit"
    arguments = ("--page", "off", "--audit", str(file))
    floor = {"ABP_PERSON_FLOOR": "1h"}
    with proxied(tmp_path, *arguments, env=floor, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call("supabase")
        content: Json = {"content": {"confirmed": "Run"}} if action == "accept" else {}
        host.reply(host.asked()["id"], {"action": action, **content})
        host.response(call)
    (record,) = lines(file)
    assert (record["outcome"], record["answeredBy"]) == ("cancelled", "host-policy")
    assert "answer" not in record


def test_what_a_call_is_made_with_is_in_no_record(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    arguments = ("--confirm", "all", "--page", "off", "--audit", str(file))
    with proxied(tmp_path, *arguments, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call("say", lines=["planted-value"])
        question = host.asked()
        assert "planted-value" in question["params"]["message"]
        host.reply(question["id"], {"action": "decline"})
        host.response(call)
    (record,) = lines(file)
    assert record["tools"] == ["say"]
    assert record["question"] == f"May say of {PYTHON} mcp_server.py read deeds be called?"


def test_a_record_that_cannot_be_written_is_said_once_and_the_next_begins_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "audit"
    observe = AuditLog(str(file)).observer()
    observe(resolved("first", {}))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 10, hard))
    try:
        observe(resolved("second", {}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (said,) = [each.getMessage() for each in caplog.records]
    assert "the record of the question second of app is missing" in said
    observe(resolved("third", {}))
    whole, torn, after = file.read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["outcome"] == json.loads(after)["outcome"] == "accepted"


def test_a_line_that_broke_off_before_is_ended_first(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    file.write_text('{"torn')
    AuditLog(str(file)).observer()(resolved("q", {}))
    assert json.loads(file.read_text().splitlines()[1])["question"] == "Sure?"


@pytest.mark.parametrize("key", ["", "00", "no key"])
def test_a_file_that_cannot_be_used_is_said_at_once(key: str, tmp_path: Path) -> None:
    (tmp_path / "audit.key").write_text(key)
    ended = run("mcp", "--audit", str(tmp_path / "audit"), "--", "true")
    assert ended.returncode == 2
    assert "--audit" in ended.stderr
    nowhere = run("serve", "--audit", str(tmp_path / "none" / "audit"))
    assert (nowhere.returncode, "No such file" in nowhere.stderr) == (2, True)
