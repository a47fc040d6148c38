"""ACP agents as apps."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from support.acp_harness import CANCELLED, check_client, selected
from support.browser import PASSWORD, give_password
from support.harness import (
    MODERN,
    PATIENCE,
    RawHost,
    accept,
    hosted,
    refuse,
    text,
)
from support.paths import APPS
from support.tool_pages import Person as Silent

from abp_bridge.apps import acp as app_of_agents
from abp_bridge.apps.program import CANCEL, MAX_OPEN, Program
from abp_bridge.apps.targets import make_app
from abp_bridge.core.ledger import describe_notice
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

Json = Any


def target(agent: str, *arguments: object) -> str:
    words = [sys.executable, str(APPS / f"{agent}_agent.py"), *map(str, arguments)]
    return f"acp:{shlex.join(words)}"


class Heard:
    """What passed on an agent's pipes, which the referee holds against `acp.schema`."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def messages(self, direction: str = "incoming", method: str | None = None) -> list[Json]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [
            message
            for way, message in lines
            if way == direction and method in (None, message.get("method"))
        ]

    def check(self) -> None:
        """What the bridge said is valid."""
        check_client(self.messages(), self.messages("outgoing"))


@pytest.fixture
def heard(tmp_path: Path) -> Any:
    found = Heard(tmp_path / "heard")
    yield found
    found.check()


def steps(*played: Json) -> str:
    return json.dumps(played)


def said(result: types.CallToolResult) -> Json:
    """What the agent said, and that its turn ended well."""
    assert not result.is_error, result
    data = json.loads(text(result))
    assert data["stopReason"] == "end_turn"
    return data["text"]


OPTIONS = [
    {"optionId": "a-1", "name": "Yes", "kind": "allow_once"},
    {"optionId": "a-2", "name": "Yes, for this folder", "kind": "allow_always"},
    {"optionId": "a-3", "name": "Yes, for all", "kind": "allow_always"},
    {"optionId": "r-1", "name": "No", "kind": "reject_once"},
    {"optionId": "r-2", "name": "Never here", "kind": "reject_always"},
    {"optionId": "r-3", "name": "Never", "kind": "reject_always"},
]


def permit(kind: str = "execute", options: Json = OPTIONS, **more: Json) -> Json:
    call = {"toolCallId": "t-1", "title": "rm -r /tmp/x", "kind": kind, **more}
    return {"permit": {"toolCall": call, "options": options}}


# --- what it offers and says ----------------------------------------------------------------------


async def test_prompt_returns_what_the_agent_said_and_its_usage(heard: Heard) -> None:
    async with hosted("--app", target("sdk", heard.log)) as host:
        connected = text(await host.client.call_tool("abp_connect", {}))
        assert f"The Worker (acp:{Path(sys.executable).name} sdk_agent.py heard)." in connected
        result = await host.call("agent.prompt", prompt="hello")
        assert json.loads(text(result)) == {
            "text": "You said: hello",
            "stopReason": "end_turn",
            "usage": {"scope": "turn", "inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
        }


@pytest.mark.parametrize("version", [None, MODERN])
async def test_permission_is_answered_with_the_id_of_the_chosen_option(
    heard: Heard, version: str | None
) -> None:
    ids = [each["optionId"] for each in OPTIONS]
    asked: list[types.ElicitRequestFormParams] = []

    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params)
        return accept(answer=ids[len(asked) - 1])(params)

    app = target("sdk", heard.log)
    async with hosted("--app", app, answer=person, version=version) as host:
        for id in ids:
            result = await host.call("agent.prompt", prompt=steps(permit("edit")))
            assert json.loads(said(result))["outcome"] == selected(id)["outcome"]
    assert len(asked) == len(ids)
    for form in asked:
        assert "sdk_agent.py heard asks: " in form.message
        assert "rm -r /tmp/x" in form.message
        listed = form.requested_schema["properties"]["answer"]["oneOf"]
        assert [each["const"] for each in listed] == ids


async def test_permission_without_a_choice_is_cancelled(heard: Heard) -> None:
    actions = iter(["decline", "cancel"])

    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return refuse(next(actions))(params)

    async with hosted("--app", target("sdk", heard.log), answer=person) as host:
        for _ in range(2):
            result = await host.call("agent.prompt", prompt=steps(permit()))
            assert json.loads(said(result))["outcome"] == CANCELLED["outcome"]
    assert [*actions] == []


async def test_nobody_to_ask_is_a_cancel_and_is_told(heard: Heard) -> None:
    async with hosted("--app", target("sdk", heard.log)) as host:
        result = await host.call("agent.prompt", prompt=steps(permit()))
        assert json.loads(said(result))["outcome"] == CANCELLED["outcome"]
        assert "this agent asked its user something, nobody answered" in str(result.content)


async def test_destructive_permission_defaults_to_the_option_that_rejects(heard: Heard) -> None:
    safe = {"execute": "r-1", "delete": "r-1", "move": "r-1", "read": None}
    asked: list[types.ElicitRequestFormParams] = []

    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params)
        return accept(answer="r-2")(params)

    async with hosted("--app", target("sdk", heard.log), answer=person) as host:
        for kind in safe:
            result = await host.call("agent.prompt", prompt=steps(permit(kind)))
            assert json.loads(said(result))["outcome"] == selected("r-2")["outcome"]
    stands = [each.requested_schema["properties"]["answer"].get("default") for each in asked]
    assert stands == [*safe.values()]


async def test_form_of_an_agent_is_asked_and_its_outcome_returned(heard: Heard) -> None:
    given = iter([accept(s="hello"), refuse("decline"), refuse("cancel")])

    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return next(given)(params)

    schema = {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}
    form = {"elicit": {"mode": "form", "message": "Which?", "requestedSchema": schema}}
    async with hosted("--app", target("sdk", heard.log), answer=person) as host:
        for action in ("accept", "decline", "cancel"):
            answer = json.loads(said(await host.call("agent.prompt", prompt=steps(form))))
            assert answer["action"] == action
            assert answer.get("content") == ({"s": "hello"} if action == "accept" else None)


@pytest.mark.network
async def test_a_secret_is_asked_out_of_band(heard: Heard, tmp_path: Path) -> None:
    part = {"type": "string", "title": "Password"}
    schema = {"type": "object", "properties": {"password": part}, "required": ["password"]}
    form = {"elicit": {"mode": "form", "message": "?", "requestedSchema": schema}}
    trace = tmp_path / "trace"
    options = ("--app", target("sdk", heard.log), "--record", str(trace))
    async with hosted(*options, answer=give_password) as host:
        await host.call("agent.prompt", prompt=steps(form, {"stop": "end_turn"}))
    [answer] = [each["result"] for each in heard.messages() if "action" in each.get("result", {})]
    assert answer["content"] == {"password": PASSWORD}
    assert '"app->bridge"' in trace.read_text()
    assert '"--app", "acp:{app}"' in trace.read_text()
    assert PASSWORD not in trace.read_text()


async def test_a_clients_files_and_terminals_are_not_offered(heard: Heard) -> None:
    async with hosted("--app", target("sdk", heard.log)) as host:
        answer = said(await host.call("agent.prompt", prompt=steps({"read": "/etc/passwd"})))
    assert json.loads(answer)["code"] == -32601
    [hello] = heard.messages(method="initialize")
    offered = hello["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert offered["terminal"] is False
    assert offered["elicitation"] == {"form": {}, "url": {}}


# --- its commands ---------------------------------------------------------------------------------


async def test_command_is_a_capability_and_changes_are_reported(heard: Heard) -> None:
    told: list[Json] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        told.append(params.data)

    async def wait(count: int) -> Json:
        with anyio.fail_after(PATIENCE):
            while len(told) < count:
                await host.status()
        return told[count - 1]["data"]

    app = target("sdk", heard.log, "plan", "test")
    async with hosted("--app", app, logging_callback=hear) as host:
        await host.client.call_tool("abp_connect", {})
        added = {"added": ["agent.command.plan", "agent.command.test"]}
        assert await wait(1) == {**added, "removed": [], "changed": []}
        tools = {each.name: each for each in (await host.client.list_tools()).tools}
        assert tools["abp_agent_command_plan"].title == "/plan"
        answer = said(await host.call("agent.command.plan", input="the trip"))
        assert answer == "You said: /plan the trip"
        await host.call("agent.prompt", prompt=steps({"commands": ["test", "fix"]}))
        changed = {"added": ["agent.command.fix"], "removed": ["agent.command.plan"]}
        assert await wait(2) == {**changed, "changed": []}
        tools = {each.name: each for each in (await host.client.list_tools()).tools}


# --- what it tells --------------------------------------------------------------------------------


async def test_tool_calls_are_operations_and_a_plan_is_progress(heard: Heard) -> None:
    told: list[Json] = []
    counted: list[Json] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        told.append((params.level, params.data))

    async def rise(progress: float, total: float | None, message: str | None) -> None:
        counted.append((progress, total, message))

    def plan(*status: str) -> Json:
        entries = [
            {"content": f"Step {number}", "priority": "medium", "status": each}
            for number, each in enumerate(status, 1)
        ]
        return {"update": {"sessionUpdate": "plan", "entries": entries}}

    def call(update: str, status: str, **more: Json) -> Json:
        return {"update": {"sessionUpdate": update, "toolCallId": "t-1", "status": status, **more}}

    played = steps(
        plan("in_progress", "pending"),
        call("tool_call", "in_progress", title="Read x", kind="read"),
        call("tool_call_update", "completed"),
        plan("completed", "in_progress"),
        {"update": {"sessionUpdate": "usage_update", "used": 5, "size": 100}},
        {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}},
        {"say": "One."},
    )
    async with hosted("--app", target("sdk", heard.log), logging_callback=hear) as host:
        arguments = {"capability": "agent.prompt", "params": {"prompt": played}}
        result = await host.client.call_tool("abp_call", arguments, progress_callback=rise)
        assert said(result) == "One."
        summary = str(result.content[-1])
        assert "started Read x" in summary
        assert "mode is now plan" in summary
        [app] = (await host.status())["apps"].values()
        assert set(app["state"]) == {"usage", "mode"}
    assert counted[0] == (0, 2, "Step 1")
    assert (1, 2, "Step 2") in counted
    events = {data["event"]: data["data"] for _, data in told}
    ended = events["notifications/operation/completed"]
    assert ended["success"] is True
    assert ended["operationId"] == "t-1"


# --- those that misbehave -------------------------------------------------------------------------


ENDED = {
    "malformed": "OPERATION_FAILED: the agent's answer is no response of JSON-RPC",
    "odd error": "OPERATION_FAILED: the agent's answer is no response of JSON-RPC",
    "error": 'INVALID_PARAMS: bad (-32602)\nDetails: {"why": 1}',
    "sign in": "PERMISSION_REQUIRED: the agent wants its user signed in first",
    "max_tokens": "TRUNCATED: the agent stopped at its most tokens",
    "flood": "TRUNCATED: the agent said more than 16777216 characters in one turn",
}


@pytest.mark.slow
async def test_turn_that_fails_is_a_failure_with_its_text(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        for prompt, says in ENDED.items():
            result = await host.call("agent.prompt", prompt=prompt)
            assert text(result).startswith(says), prompt
            assert result.is_error, prompt
            if prompt in ("tired", "refusal", "sign in"):
                assert '"text": "so far"' in text(result)
            again = await host.call("agent.prompt", prompt="look")
            assert said(again) == "look done", prompt  # it goes on


async def test_invalid_message_is_reported_and_ends_nothing(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        result = await host.call("agent.prompt", prompt="babble")
        assert said(result) == "said"
        summary = str(result.content[-1])
        for words in (
            "s was dropped: Expecting value",
            "it is no message of JSON-RPC",
            "_vendor/news",
            "plan_of_tomorrow",
            "error: Disk: is full",
        ):
            assert words in summary


async def test_unreadable_permission_is_cancelled(tmp_path: Path) -> None:
    app = target("unruly", tmp_path / "heard")
    async with hosted("--app", app, answer=accept(answer="go")) as host:
        words = said(await host.call("agent.prompt", prompt="ask oddly"))
    leaves, others = (json.loads(each) for each in words.replace("][", "]\n[").splitlines())
    assert leaves == [CANCELLED] * 4
    assert others[0]["action"] == "cancel"
    assert others[1] == {"code": -32601, "message": "terminal/create is not offered by this client"}


def test_permission_that_the_agent_cancels_is_cancelled_at_the_host(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    with RawHost("--app", target("unruly", log)) as host:
        host.initialize(elicitation={})
        call = begin(host, "retract")
        asked = host.until(lambda message: message.get("method") == "elicitation/create")
        log.with_name("heard.go").touch()
        gone = host.until(lambda message: message.get("method") == "notifications/cancelled")
        assert gone["params"]["requestId"] == asked["id"]
        assert "-32800" in host.text(call)
        assert host.end() == 0


def begin(host: RawHost, prompt: str) -> int:
    params = {"capability": "agent.prompt", "params": {"prompt": prompt}}
    return host.begin("tools/call", {"name": "abp_call", "arguments": params})


# --- the end --------------------------------------------------------------------------------------


async def test_cancelled_call_cancels_the_turn_before_the_next(heard: Heard) -> None:
    async with hosted("--app", target("sdk", heard.log)) as host:
        await host.client.call_tool("abp_connect", {})
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as calls:
                    waiting = partial(host.call, "agent.prompt", prompt=steps({"wait": True}))
                    calls.start_soon(waiting)
                    with anyio.fail_after(PATIENCE):
                        while not heard.messages(method="session/prompt"):
                            await host.status()
                    scope.cancel()
            tasks.cancel_scope.cancel()
        assert said(await host.call("agent.prompt", prompt="hello")) == "You said: hello"
    methods = [each.get("method") for each in heard.messages()][2:]
    assert methods == ["session/prompt", "session/cancel", "session/prompt"]


@pytest.mark.slow
async def test_permission_after_a_cancel_is_cancelled(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    app = target("unruly", log)
    async with hosted("--app", app, answer=accept(answer="go")) as host:
        await host.client.call_tool("abp_connect", {})
        params = {"capability": "agent.prompt", "params": {"prompt": "ask late"}, "timeout": 0.1}
        late = await host.client.call_tool("abp_call", params)
        assert text(late).startswith("TIMEOUT")
        assert said(await host.call("agent.prompt", prompt="look")) == "look done"
    [answer] = [json.loads(each) for each in log.read_text().splitlines() if '"late"' in each]
    assert answer["result"]["outcome"] == CANCELLED["outcome"]


async def test_an_agent_that_dies_says_how(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        result = await host.call("agent.prompt", prompt="die")
        assert text(result).startswith("DISCONNECTED")
        assert "the disk is on fire" in text(result)
        again = await host.call("agent.prompt", prompt="hello")
        assert said(again) == "hello done"  # started again


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("acp:no-such-program", "cannot be started"),
        pytest.param(
            "acp:true", "ended before it was connected (exit code 0)", marks=pytest.mark.process
        ),
        (target("unruly", "/dev/null", "new"), "it speaks version 2 of ACP, and this bridge 1"),
        (target("unruly", "/dev/null", "nameless"), "session/new without a sessionId"),
        (
            target("unruly", "/dev/null", "signed out"),
            "wants its user signed in first: run it by itself once, and sign in. It offers: Sign",
        ),
    ],
)
async def test_an_agent_that_cannot_be_started_says_why(command: str, says: str) -> None:
    async with hosted("--app", command) as host:
        assert says in text(await host.client.call_tool("abp_connect", {}))


def test_open_question_is_cancelled_before_the_agent_ends(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    with RawHost("--app", target("unruly", log)) as host:
        host.initialize(elicitation={})
        begin(host, "leave")
        host.until(lambda message: message.get("method") == "elicitation/create")
        assert host.end() == 0
    *_, answer, cancel, end = [json.loads(each) for each in log.read_text().splitlines()]
    assert answer["id"] == "q"
    assert answer["result"]["outcome"] == CANCELLED["outcome"]
    assert cancel["method"] == "session/cancel"
    assert end == {"end": True}


# --- limits, which are too long to wait for -------------------------------------------------------


async def test_a_program_that_asks_without_end_is_told_cancel() -> None:
    program, listener = Program("mcp:x", "server"), Silent()
    program.listener = listener
    asked: Any = {"message": "Go", "requestedSchema": {"type": "object", "properties": {}}}

    async def ask() -> None:
        answers.append(await program.elicit(asked, (), destructive=False))

    answers: list[Any] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(MAX_OPEN):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert not answers
        await ask()
        tasks.cancel_scope.cancel()
    assert answers == [CANCEL]
    assert f"{MAX_OPEN} of its questions are open" in describe_notice(listener.notices[0])


def unruly(log: Path, how: str = "") -> Any:
    return make_app(target("unruly", log, how), True, Settings())


@pytest.mark.slow
async def test_an_agent_that_never_answers_initialize_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_of_agents, "START_LIMIT", 0.2)
    with pytest.raises(AppError, match=r"did not answer within 0.2 s. Does it speak ACP\?"):
        async with unruly(tmp_path / "heard", "mute").open_app(Silent()):
            raise AssertionError("it was opened")


@pytest.mark.slow
async def test_an_agent_that_does_not_end_a_cancelled_turn_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_of_agents, "CANCEL_LIMIT", 0.2)
    app, listener = unruly(tmp_path / "heard"), Silent()
    async with app.open_app(listener), anyio.create_task_group() as tasks:
        tasks.start_soon(app.call_capability, "agent.prompt", {"prompt": "hang"}, "c-1")
        with anyio.fail_after(PATIENCE):
            while "session/prompt" not in (tmp_path / "heard").read_text():
                await anyio.lowlevel.checkpoint()
            await app.cancel_call("c-1", "enough")
            await app.cancel_call("c-1", "enough")
            await app.cancel_call("c-2", "another's")
            await listener.until(lambda: listener.reasons)
        tasks.cancel_scope.cancel()
    assert "it did not end a turn that was cancelled, within 0.2 s" in listener.reasons[-1]
    assert (tmp_path / "heard").read_text().count("session/cancel") == 1
