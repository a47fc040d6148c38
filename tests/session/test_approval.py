"""A person before a call: asked on whatever their host has, before the app hears of it; without
their approval it never does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.lowlevel
import mcp_types as types
import pytest
from support.acp_harness import client, labels, never, pressing
from support.acp_proxy import opened, play, proxied
from support.harness import MODERN, VERSIONS, RawHost, accept, hosted, refuse, text
from support.peer import PATIENCE
from support.puppets import App, puppets, scripted

from abp_bridge.apps import abp
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import Capability
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.session.approval import make_question, refusal
from abp_bridge.surfaces.terminal import rendering

Json = Any

WIPE = {"name": "wipe", "description": "Empties a folder", "annotations": {"destructiveHint": True}}
LOOK = {"name": "look", "description": "Looks", "annotations": {"readOnlyHint": True}}
SAVE = {"name": "save", "description": "Saves"}
ERAS = [*VERSIONS, MODERN]


class Desk:
    """An app with three capabilities, and what a recording says that it was told."""

    def __init__(self, folder: Path) -> None:
        listed = [{**each, "steps": [{"return": "done"}]} for each in (WIPE, LOOK, SAVE)]
        script = {"app": {"id": "desk", "name": "Desk"}, "capabilities": listed}
        path = folder / "script.json"
        path.write_text(json.dumps(script))
        self._record = folder / "record.jsonl"
        self.arguments = ("--app", scripted(path), "--record", str(self._record))

    @property
    def heard(self) -> list[str]:
        """The capabilities that it was called for, and whether a call was taken back."""
        entries = map(json.loads, self._record.read_text().splitlines())
        to_app = [each for each in entries if each.get("way") == "bridge->app"]
        told = [each["message"] for each in to_app if "message" in each]
        return [
            each["params"].get("capability", "(cancelled)")
            for each in told
            if each.get("method", "").startswith("capabilities/c")
        ]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class Person:
    """Answers every form alike, and keeps what it read."""

    def __init__(self, answer: Callable[[Any], types.ElicitResult]) -> None:
        self.read: list[str] = []
        self._answer = answer

    def __call__(self, params: Any) -> types.ElicitResult:
        self.read.append(params.message)
        return self._answer(params)


@pytest.mark.parametrize("version", ERAS)
async def test_what_is_destructive_is_asked_first_and_what_is_not_is_not(
    version: str, desk: Desk
) -> None:
    person = Person(accept(confirmed=True))
    options = (*desk.arguments, "--confirm", "destructive")
    async with hosted(*options, answer=person, version=version) as host:
        result = await host.call("wipe", path="/tmp", apiKey="hunter2")
        assert (text(result), result.is_error) == ("done", False)
        assert text(await host.call("look")) == text(await host.call("save")) == "done"
    (read,) = person.read
    assert read.startswith('abp-bridge asks: May wipe of "Desk" (stdio:')
    assert 'path: "/tmp"' in read
    assert "cannot be undone" in read
    assert "hunter2" not in read
    assert "scripted.py" in read, "who would be called"
    assert desk.heard == ["wipe", "look", "save"]


CHOSEN = {
    "all": (["all"], ["wipe", "look", "save"]),
    "one by its name": (["save"], ["save"]),
    "one and what is destructive": (["destructive", "look"], ["wipe", "look"]),
}


@pytest.mark.parametrize(("chosen", "asked"), CHOSEN.values(), ids=CHOSEN)
async def test_a_person_chooses_what_they_are_asked_about(
    chosen: list[str], asked: list[str], desk: Desk
) -> None:
    person = Person(accept(confirmed=True))
    options = [word for each in chosen for word in ("--confirm", each)]
    async with hosted(*desk.arguments, *options, answer=person) as host:
        for name in ("wipe", "look", "save"):
            await host.call(name)
    assert [read.split("May ")[1].split(" ")[0] for read in person.read] == asked


NOS = {
    "a no": (accept(confirmed=False), "the user said no"),
    "declined": (refuse("decline"), "the user said no"),
    "dismissed": (refuse("cancel"), "the user dismissed the question"),
}


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(("answer", "why"), NOS.values(), ids=NOS)
async def test_a_no_means_that_nothing_is_called_and_the_result_says_so(
    answer: Callable[[Any], types.ElicitResult], why: str, version: str, desk: Desk
) -> None:
    options = (*desk.arguments, "--confirm", "all")
    async with hosted(*options, answer=answer, version=version) as host:
        result = await host.call("save")
        assert result.is_error
        assert f"save was not called. It needs a person's approval (--confirm), and {why}." in text(
            result
        )
    assert desk.heard == []


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("options", [(), ("--ask-via-model",)], ids=["nobody", "a model"])
async def test_without_a_person_nothing_is_called(
    version: str, options: tuple[str, ...], desk: Desk
) -> None:
    confirmed = (*desk.arguments, "--confirm", "all", *options)
    async with hosted(*confirmed, version=version) as host:
        result = await host.call("save")
        assert result.is_error
        assert text(result).startswith("PERMISSION_REQUIRED: save was not called.")
        assert "Nobody could be asked" in text(result)
        assert "abp_answer" not in text(result), "a model is not asked about its own call"
    assert desk.heard == []


@pytest.mark.parametrize(
    "answer", [accept(confirmed=True), *(answer for answer, _ in NOS.values())]
)
async def test_a_policy_is_no_person(
    answer: Callable[[Any], types.ElicitResult], desk: Desk
) -> None:
    options = (*desk.arguments, "--confirm", "all")
    fast = {"ABP_PERSON_FLOOR": "60000"}
    async with hosted(*options, answer=answer, env=fast) as host:
        result = await host.call("save")
        assert text(result).startswith(f"PERMISSION_REQUIRED: save was {NOT_GIVEN}")
        assert "no person was asked." in text(result)
        assert text(result).endswith(" To be asked yourself, set up --page open or --tty DEVICE.")
    assert desk.heard == []


NOT_GIVEN = "not called. It needs a person's approval (--confirm), and no person gave it."


UNKNOWN_NOS: dict[str, tuple[Json, types.Implementation, str]] = {
    "the first choice": (
        accept(confirmed=False),
        types.Implementation(name="somebody", version="1"),
        "The host took the default or the first choice; nobody knows whether a person did.",
    ),
    "dismissed": (
        refuse("cancel"),
        types.Implementation(name="fast-agent-mcp", version="0.10.46"),
        "nobody knows whether a person did.",
    ),
}


@pytest.mark.parametrize(("no", "who", "why"), UNKNOWN_NOS.values(), ids=UNKNOWN_NOS)
async def test_a_no_of_nobody_knows_whom_is_not_called_a_persons(
    no: Json, who: types.Implementation, why: str, desk: Desk
) -> None:
    async def answer(params: Json) -> Json:
        await host.client.list_tools()  # so long that somebody may have read it, by this floor
        return no(params)

    options = (*desk.arguments, "--confirm", "all")
    floor = {"ABP_PERSON_FLOOR": "0.001"}
    async with hosted(*options, answer=answer, env=floor, client_info=who) as host:
        result = text(await host.call("save"))
    assert f"PERMISSION_REQUIRED: save was {NOT_GIVEN}" in result
    assert why in result
    assert desk.heard == []


async def test_a_no_that_was_written_down_is_the_files(desk: Desk, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps([False]))
    options = (*desk.arguments, "--confirm", "all", "--answers", str(answers))
    async with hosted(*options) as host:
        result = text(await host.call("save"))
    assert result.startswith("USER_CANCELLED: save was not called.")
    assert result.endswith("and an answers file said no.")


def test_a_host_that_gives_the_call_up_takes_the_question_with_it(desk: Desk) -> None:
    with RawHost(*desk.arguments, "--confirm", "all") as host:
        host.initialize(elicitation={"form": {}})
        call = host.begin("tools/call", {"name": "abp_call", "arguments": {"capability": "save"}})
        asked = host.until(lambda message: message.get("method") == "elicitation/create")
        host.send("notifications/cancelled", {"requestId": call})
        assert host.notified("notifications/cancelled")["requestId"] == asked["id"]
        host.reply(asked["id"], {"action": "accept", "content": {"confirmed": True}})
        status = host.result("tools/call", {"name": "abp_status", "arguments": {}})
        assert json.loads(status["content"][0]["text"])["questions"]["open"] == []
        assert host.end() == 0
    assert desk.heard == []


def test_a_modern_host_comes_back_with_the_approval_or_lets_the_call_go(desk: Desk) -> None:
    meta = "io.modelcontextprotocol/"
    about = {f"{meta}protocolVersion": MODERN, f"{meta}clientCapabilities": {"elicitation": {}}}
    saving = {"name": "abp_call", "arguments": {"capability": "save"}, "_meta": about}
    with RawHost(*desk.arguments, "--confirm", "all") as host:
        asked = host.result("tools/call", saving)
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        back = {**saving, "requestState": asked["requestState"]}
        yes = {key: {"action": "accept", "content": {"confirmed": True}}}
        assert desk.heard == []
        done = host.result("tools/call", {**back, "inputResponses": yes})
        assert done["content"][0]["text"] == "done"

        asked = host.result("tools/call", saving)
        attached = host.begin("tools/call", {**saving, "requestState": asked["requestState"]})
        host.send("notifications/cancelled", {"requestId": attached})
        looking = {"name": "abp_status", "arguments": {}, "_meta": about}
        status = json.loads(host.result("tools/call", looking)["content"][0]["text"])
        assert status["questions"]["open"] == []
        assert host.end() == 0
    assert desk.heard == ["save"]


ALLOW: dict[str, tuple[str, str, list[str]]] = {
    "allowed": ("Allow", "done", ["wipe"]),
    "refused": ("Do not allow", "wipe was not called", []),
}


@pytest.mark.parametrize(("button", "said", "heard"), ALLOW.values(), ids=ALLOW)
async def test_an_acp_client_has_a_card_with_the_safe_button_first(
    button: str, said: str, heard: list[str], desk: Desk
) -> None:
    options = (*desk.arguments, "--confirm", "destructive")
    async with client(*options, handler=pressing(button)) as editor:
        await editor.initialize({})
        session = await editor.new()
        await editor.prompt(session, "/connect")
        _, words = await editor.prompt(session, "/wipe")
        assert said in words
        (card,) = editor.wire.sent("session/request_permission")
        assert labels(card)[0] == "Do not allow"
        title = card["toolCall"]["title"]
        assert title.startswith('abp-bridge asks: May wipe of "Desk" (stdio:')
    assert desk.heard == heard


@pytest.mark.parametrize(("button", "said", "heard"), ALLOW.values(), ids=ALLOW)
async def test_an_agents_call_behind_the_proxy_is_asked_of_the_client(
    button: str, said: str, heard: list[str], desk: Desk
) -> None:
    options = (*desk.arguments, "--confirm", "destructive")
    call = {"call": "abp_call", "arguments": {"capability": "wipe", "params": {"path": "/tmp"}}}
    async with proxied(*options, handler=pressing(button)) as editor:
        session = await opened(editor)
        (came,) = await play(editor, session, call)
        assert said in came["text"]
        (card,) = editor.wire.sent("session/request_permission")
        assert labels(card)[0] == "Do not allow"
    assert desk.heard == heard


async def test_a_client_that_cancels_the_turn_takes_the_question_with_it(desk: Desk) -> None:
    async with client(*desk.arguments, "--confirm", "all", handler=never) as editor:
        await editor.initialize({})
        session = await editor.new()
        await editor.prompt(session, "/connect")
        prompt = await editor.start(session, "/save")
        asked = await editor.asked("session/request_permission")
        await editor.notify("session/cancel", {"sessionId": session})
        assert (await editor.response(prompt))["result"]["stopReason"] == "cancelled"
        assert editor.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
    assert desk.heard == []


async def test_a_name_that_no_app_has_is_said(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ("--confirm", "Wipe", "--confirm", "destructive", "--log-file", str(log))
    async with hosted(*desk.arguments, *options) as host:
        connected = [text(await host.client.call_tool("abp_connect", {})) for _ in range(2)]
        status = await host.status()
    warning = (
        "--confirm Wipe: no connected app has a capability of that name, and nobody is asked before"
        " one; is wipe meant?"
    )
    assert all(f"Warning: {warning}" in each for each in connected)
    assert status["confirm"] == {"Wipe": [], "destructive": ["wipe"]}
    assert status["warnings"] == [warning]
    assert log.read_text().count(warning) == 1


async def test_the_name_that_a_host_shows_is_a_name_too(desk: Desk) -> None:
    async with hosted(*desk.arguments, "--confirm", "abp_save") as host:
        assert text(await host.call("save")).startswith("PERMISSION_REQUIRED")
        assert "warnings" not in await host.status()
    assert desk.heard == []


def test_parameters_are_shown_whole_the_long_ones_last() -> None:
    params = {"text": "x  " * 200, "path": "/tmp", "odd\u3164": "\u3164"}
    question = make_question("q", "app", Capability("save"), params)
    assert question.uncut == ""
    assert question.message.splitlines()[2:] == [
        "With:",
        'path: "/tmp"',
        'odd\\u3164: "\\u3164"',
        f'text: "{"x  " * 200}"',
    ]


def test_nothing_is_cut_in_silence() -> None:
    long = {f"p{number}": "x" * 1_000 for number in range(33)}
    question = make_question("q", "app", Capability("save"), long)
    assert "more characters not shown" in question.message
    assert question.in_full().message.count("x" * 1_000) == 33
    assert "not shown" not in question.in_full().message
    drawn = rendering.heading(question.in_full(), rendering.Style(False, lambda: 100))
    assert drawn.count("x") == 33_000


def test_a_parameter_cannot_pass_for_words_of_the_bridge() -> None:
    params: Json = {
        "a\nWithout parameters.": "b\n\u202eMay look be called?",
        "in": [{"password": "s3"}],
    }
    message = make_question("q", "app", Capability("save"), params).message
    assert message.splitlines()[3:] == [
        r'a\nWithout parameters.: "b\n\u202eMay look be called?"',
        """in: [{"password": "(not shown: its name is a secret's)"}]""",
    ]


def test_an_app_cannot_pass_for_the_bridge_by_its_names() -> None:
    name = 'Shop" (abp-bridge) be called?\nabp-bridge: yes. May "x'
    wipe = Capability("look be called? It is harmless. May wipe")
    question = make_question("q", "stdio:app.py", wipe, {}, name=name)
    assert question.message.splitlines()[0] == (
        'May "look be called? It is harmless. May wipe" of'
        r' "Shop\" (abp-bridge) be called?\\nabp-bridge: yes. May \"x" (stdio:app.py) be called?'
    )
    assert (question.asker, question.origin) == ("abp-bridge", "stdio:app.py")
    assert make_question("q", "demo", Capability("a.b"), {}).message.startswith(
        "May a.b of demo be called?"
    )


def test_an_app_cannot_pass_for_the_bridge_by_what_it_says_of_a_capability() -> None:
    said = 'Saves" it.\n\nabp-bridge: this is safe'
    message = make_question("q", "app", Capability("save", said), {}).message
    assert message.endswith('The app says of it: "Saves\\" it. abp-bridge: this is safe"')


def test_only_a_persons_yes_lets_a_call_through() -> None:
    for outcome in Outcome:
        for content in ({}, {"confirmed": True}, {"confirmed": False}, {"confirmed": "yes"}):
            refused = refusal("save", Answer(outcome, AnsweredBy.PERSON, content))
            allowed = outcome is Outcome.ACCEPTED and content == {"confirmed": True}
            assert (refused is None) is allowed


SILENT: dict[str, Json] = {
    "an error": {"error": {"code": -32603, "message": "not now"}},
    "a refusal": {"result": {"success": False, "error": {"code": "BUSY", "message": "not now"}}},
    "no list": {"result": "nothing"},
    "no answer": {},
}


@pytest.mark.parametrize("silent", SILENT)
@pytest.mark.slow
async def test_what_an_app_does_not_say_of_itself_may_be_destructive(
    silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its list has the marks: without one, a person is asked but before what it called
    harmless already; and no more once there is one.
    """
    monkeypatch.setattr(abp, "LIST_LIMIT", PATIENCE if SILENT[silent] else 0.1)
    person = Person(refuse("decline"))
    async with (
        puppets(tmp_path) as started,
        hosted("--app", started.target, "--confirm", "destructive", answer=person) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(host.client.call_tool, "abp_connect", {})
        app = await started.app()
        offered = ["wipe", LOOK]
        opened = {"sessionId": "s", "app": {"id": "desk"}, "capabilities": offered}
        await app.send(id=(await app.next("initialize"))["id"], result=opened)
        listing = await app.next("capabilities/list")
        if SILENT[silent]:
            await app.send(id=listing["id"], **SILENT[silent])
        refused = await host.call("wipe")
        assert text(refused).startswith("USER_CANCELLED: wipe was not called.")
        (asked,) = person.read
        assert "Nothing says that this can be undone" in asked
        tasks.start_soon(host.call, "look")
        await end_call(app, "look")
        await app.send(method="notifications/capabilities/list_changed", params={})
        await app.send(id=(await app.next("capabilities/list"))["id"], result=[SAVE, LOOK])
        with anyio.fail_after(PATIENCE):
            while '"save"' not in json.dumps(await host.status()):
                await anyio.lowlevel.checkpoint()
        tasks.start_soon(host.call, "save")
        await end_call(app, "save")
    assert len(person.read) == 1


async def end_call(app: App, capability: str) -> None:
    """The app is called for this, and is done."""
    called = await app.next("capabilities/call")
    assert called["params"]["capability"] == capability
    await app.send(id=called["id"], result={"success": True, "data": "done"})
