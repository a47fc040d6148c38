"""The bridge as an ACP agent: what a person sees in an editor and what comes back to the app. Each
kind of question on forms and on buttons is in the fixtures.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from support.acp_harness import (
    CANCELLED,
    FORM,
    Client,
    Failed,
    Handler,
    client,
    never,
    pressing,
    selected,
)
from support.harness import RawHost
from support.puppets import App, Puppets, puppets

Json = Any

CONFIRM: Json = {"method": "elicitation/confirm", "params": {"message": "Book it?"}}
DELETE: Json = {
    "method": "elicitation/confirm",
    "params": {"message": "Delete all files?", "destructive": True},
}
NAME: Json = {
    "method": "elicitation/input",
    "params": {"prompt": "Name?", "schema": {"type": "string"}},
}

WITHOUT_CHAT = {"ABP_ACP_CHAT": "false"}  # where buttons end, so does what can be asked


def select(count: int, **more: Json) -> Json:
    options = [{"value": f"v{number}", "label": f"L{number}"} for number in range(count)]
    return {
        "method": "elicitation/select",
        "params": {"prompt": "Which?", "options": options, **more},
    }


def asking(request: Json) -> str:
    return f"/demo_ask {json.dumps({'request': request})}"


@asynccontextmanager
async def session(
    *arguments: str,
    handler: Handler = never,
    capabilities: Json = None,
    name: str = "raw",
    **more: Any,
) -> AsyncIterator[tuple[Client, str]]:
    """A raw client with one session: (the client, the session's id)."""
    async with client(*(arguments or ("--app", "demo")), handler=handler, **more) as opened:
        await opened.initialize(capabilities, name)
        yield opened, await opened.new()


async def ask(person: Client, session: str, request: Json) -> Json:
    """Have the demo app ask: the ABP response it got."""
    stop, words = await person.prompt(session, asking(request))
    assert stop == "end_turn"
    return json.loads(words.partition("\n\n")[0])


# --- every kind of question, on every kind of client ----------------------------------------------


FORM_WITH_KEY: Json = {
    "method": "elicitation/input",
    "params": {
        "prompt": "Your account?",
        "schema": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "key": {"type": "string", "format": "password", "title": "API key"},
            },
            "required": ["name"],
        },
    },
}


async def test_fields_that_a_form_cannot_have_are_left_out_and_reported() -> None:
    forms: list[Json] = []

    def answer(method: str, params: Json) -> Json:
        forms.append(params)
        return {"action": "accept", "content": {"name": "Ann"}}

    async with session(handler=answer, capabilities=FORM) as (person, id):
        response = await ask(person, id, FORM_WITH_KEY)
        needed = json.loads(json.dumps(FORM_WITH_KEY))
        needed["params"]["schema"]["required"].append("key")
        refused = await ask(person, id, needed)
        needed["params"]["schema"]["required"] = ["name"]
        needed["params"]["schema"]["anyOf"] = [{"required": ["key"]}]
        together = await ask(person, id, needed)
    assert list(forms[0]["requestedSchema"]["properties"]) == ["name"]
    assert "(Not all of it can be asked here. What stays empty: API key)" in forms[0]["message"]
    assert response["data"] == {"value": {"name": "Ann"}}
    assert response["metadata"]["notAsked"] == ["key"]
    assert refused["error"]["code"] == "NOT_SUPPORTED"
    assert "needed with what was answered" in together["error"]["message"]
    assert len(forms) == 2


# --- how a permission looks -----------------------------------------------------------------------


async def test_invalid_form_answer_is_asked_again_with_the_reason() -> None:
    answers = iter([{}, {"confirmed": "maybe"}, {"confirmed": True}])
    async with session(
        handler=lambda method, params: {"action": "accept", "content": next(answers)},
        capabilities=FORM,
    ) as (person, id):
        response = await ask(person, id, CONFIRM)
        seen = person.wire.sent("elicitation/create")
    assert response["data"] == {"confirmed": True}
    assert ["Please answer again" in shown["message"] for shown in seen] == [False, True, True]


# --- clients that answer badly --------------------------------------------------------------------


async def test_client_without_its_declared_form_is_asked_by_permission() -> None:
    def answer(method: str, params: Json) -> Any:
        return (
            Failed(-32601, "Method not found")
            if method == "elicitation/create"
            else selected(params["options"][0]["optionId"])
        )

    made = session(handler=answer, capabilities=FORM, env=WITHOUT_CHAT)
    async with made as (person, id):
        for _ in range(2):
            response = await ask(person, id, CONFIRM)
            assert (response["data"], response["metadata"]["route"]) == (
                {"confirmed": True},
                "acp-permission (as options)",
            )
        assert len(person.wire.sent("elicitation/create")) == 1
        refused = await ask(person, id, NAME)
        assert "free text" in refused["error"]["message"]


@pytest.mark.parametrize("capabilities", [FORM, None], ids=["form", "permission"])
async def test_question_cancelled_by_the_client_is_not_asked_elsewhere(
    capabilities: Json,
) -> None:
    async with session(
        handler=lambda method, params: Failed(-32800, "Request cancelled"),
        capabilities=capabilities,
    ) as (person, id):
        response = await ask(person, id, CONFIRM)
        asked = person.wire.sent("elicitation/create") + person.wire.sent(
            "session/request_permission"
        )
    assert (response["cancelled"], response["metadata"]["outcome"]) == (True, "cancelled")
    assert len(asked) == 1


async def test_answer_marked_as_a_scripts_is_not_the_users() -> None:
    """Also where the script took one step only of several."""
    left = ["More …", "L4"]

    def press(method: str, params: Json) -> Json:
        pressed = pressing(left.pop(0))(method, params)
        return {**pressed, "_meta": {"abp": {"answeredBy": "script"}}} if left else pressed

    async with session(handler=press) as (person, id):
        response = await ask(person, id, select(5))
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == ("script", "host-says")


BAD_ANSWERS: dict[str, tuple[Any, str]] = {
    "an option it was not shown": (selected("allow_once"), "which is not on this step"),
    "an outcome of its own": (
        {"outcome": {"outcome": "_later"}},
        "answered the permission with '_later'",
    ),
    "an error": (Failed(-32603, "oops"), "the client answered: oops (-32603)"),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
async def test_bad_answer_is_refused_and_the_app_is_told_why(case: str) -> None:
    given, why = BAD_ANSWERS[case]
    async with session(handler=lambda method, params: given) as (person, id):
        response = await ask(person, id, DELETE)
        assert (response["success"], response["error"]["code"]) == (False, "NOT_SUPPORTED")
        assert why in response["error"]["message"]
        assert "data" not in response
        person.handler = pressing("Yes")
        assert (await ask(person, id, CONFIRM))["data"] == {"confirmed": True}, (
            "the next question is asked all the same"
        )
        assert person.wire.updates("tool_call_update")[0]["status"] == "failed"


@pytest.mark.parametrize("capabilities", [FORM, None], ids=["form", "permission"])
@pytest.mark.slow
async def test_late_answer_is_ignored(capabilities: Json) -> None:
    async with session(capabilities=capabilities) as (person, id):
        response = await ask(person, id, {**CONFIRM, "timeout": 500})
        assert (response["error"]["code"], response["metadata"]["outcome"]) == (
            "TIMEOUT",
            "timed_out",
        )
        asked = await person.asked(
            "elicitation/create" if capabilities else "session/request_permission"
        )
        assert person.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        late = (
            {"action": "accept", "content": {"confirmed": True}}
            if capabilities
            else selected(asked["params"]["options"][0]["optionId"])
        )
        await person.send({"id": asked["id"], "result": late})
        await person.send(
            {"id": asked["id"], "error": {"code": -32800, "message": "Request cancelled"}}
        )
        assert (await person.prompt(id, "/demo_echo 1"))[1].startswith("INVALID_PARAMS")


# --- answers that no person gave ------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [FORM, None], ids=["form", "permission"])
async def test_client_that_approves_by_itself_confirms_nothing_destructive(
    capabilities: Json,
) -> None:
    def approve(method: str, params: Json) -> Json:
        if method == "elicitation/create":
            return {"action": "accept", "content": {"confirmed": True}}
        yes = [each["optionId"] for each in params["options"] if each["kind"] == "allow_once"]
        return selected(yes[0])

    floor = {"ABP_PERSON_FLOOR": "60000"}
    async with session(handler=approve, capabilities=capabilities, env=floor) as (person, id):
        response = await ask(person, id, DELETE)
    assert response["metadata"]["answeredBy"] == "host-policy"
    assert "data" not in response
    assert (response["success"], response["error"]["code"]) == (False, "NOT_SUPPORTED")
    assert "no person was asked. So it is not accepted" in response["error"]["message"]


# --- cancelling, and clients that go --------------------------------------------------------------


async def open_question(person: Client, id: str, made: Puppets) -> tuple[App, int, Json]:
    """An app that was called and asks: (it, the prompt's id, its question as the client got it)."""
    turn = await person.start(id, "/work")
    app = await made.app()
    await app.open("work")
    await app.next("capabilities/call")
    await app.send(id="q", method="elicitation/confirm", params={"message": "Go?"})
    await person.until(
        lambda message: (
            message.get("method") in ("elicitation/create", "session/request_permission")
        )
    )
    return (
        app,
        turn,
        next(message for message in person.wire.sent() if "id" in message and "method" in message),
    )


CANCELS: dict[str, Callable[[str, int], tuple[str, Json]]] = {
    "session/cancel": lambda session, turn: ("session/cancel", {"sessionId": session}),
    "$/cancel_request": lambda session, turn: ("$/cancel_request", {"requestId": turn}),
}


@pytest.mark.parametrize("capabilities", [FORM, None], ids=["form", "permission"])
@pytest.mark.parametrize("way", CANCELS)
@pytest.mark.slow
async def test_cancelled_turn_withdraws_the_question_and_notifies_the_app(
    tmp_path: Path, way: str, capabilities: Json
) -> None:
    async with (
        puppets(tmp_path) as made,
        session("--app", made.target, capabilities=capabilities) as (person, id),
    ):
        app, turn, asked = await open_question(person, id, made)
        await person.notify(*CANCELS[way](id, turn))
        assert (await person.response(turn))["result"] == {"stopReason": "cancelled"}
        await person.asked("$/cancel_request")
        assert person.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        await person.send({"id": asked["id"], "result": CANCELLED})
        told = {
            str(message.get("method", message.get("id"))): message
            for message in [await app.next(), await app.next()]
        }
        assert told["q"]["result"]["error"]["code"] == "CANCELLED"
        assert told["capabilities/cancel"]["params"]["callId"]
        ends = {
            update["toolCallId"]: update["status"]
            for update in person.wire.updates("tool_call_update")
        }
        assert set(ends.values()) == {"failed"}
        assert set(ends) == {update["toolCallId"] for update in person.wire.updates("tool_call")}


@pytest.mark.parametrize("way", CANCELS)
@pytest.mark.slow
async def test_answer_together_with_the_cancel_is_ignored(tmp_path: Path, way: str) -> None:
    async with puppets(tmp_path) as made, session("--app", made.target) as (person, id):
        app, turn, asked = await open_question(person, id, made)
        method, params = CANCELS[way](id, turn)
        answer = {"id": asked["id"], "result": selected(asked["params"]["options"][0]["optionId"])}
        lines = [
            {"jsonrpc": "2.0", **message}
            for message in ({"method": method, "params": params}, answer)
        ]
        await person.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert (await person.response(turn))["result"] == {"stopReason": "cancelled"}
        while (message := await app.next()).get("id") != "q":
            pass
        assert (message["result"]["success"], message["result"].get("data")) == (False, None)


@pytest.mark.slow
async def test_client_that_disconnects_cancels_the_apps_question(tmp_path: Path) -> None:
    async with puppets(tmp_path) as made, session("--app", made.target) as (person, id):
        app, _, _ = await open_question(person, id, made)
        assert await person.leave() == 0
        told = []
        while (message := await app.next()) is not None:
            told.append(message)
    (answer,) = (message for message in told if message.get("id") == "q")
    assert (answer["result"]["success"], answer["result"]["error"]["code"]) == (False, "CANCELLED")


async def test_closed_session_ends_before_the_response(tmp_path: Path) -> None:
    async with puppets(tmp_path) as made, session("--app", made.target) as (person, id):
        app, turn, asked = await open_question(person, id, made)
        closing = await person.begin("session/close", {"sessionId": id})
        refused = await person.exchange("session/prompt", {"sessionId": id, "prompt": []})
        assert refused["error"]["code"] == -32602
        assert (await app.next())["id"] == "q"
        shutdown = await app.next("shutdown")
        await app.send(id=shutdown["id"], result={})
        assert (await person.response(closing))["result"] == {}
        ended = [message.get("id") for message in person.wire.sent() if "method" not in message]
        assert ended.index(turn) < ended.index(closing)
        assert person.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        await person.request("session/list", {})
        said = [message.get("method") for message in person.wire.sent()]
        assert said[-2:] == [None, None], "nothing is told of a session after its end"
        assert (await person.exchange("session/close", {"sessionId": id}))["error"][
            "code"
        ] == -32602


@pytest.mark.slow
async def test_question_outside_a_prompt_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with (
        puppets(tmp_path) as made,
        session("--app", made.target, capabilities=FORM) as (person, id),
    ):
        turn = await person.start(id, "/connect")
        app = await made.app()
        await app.open("work")
        await person.response(turn)
        await app.send(id="q", method="elicitation/confirm", params={"message": "Go?"})
        answer = await app.next()
        assert (answer["id"], answer["result"]["error"]["code"]) == ("q", "NOT_SUPPORTED")
        assert "no prompt is running" in answer["result"]["error"]["message"]
        assert person.wire.sent("elicitation/create") == []


@pytest.mark.parametrize("ending", ["it ends", *CANCELS])
@pytest.mark.slow
async def test_question_outside_a_call_ends_with_the_turn(tmp_path: Path, ending: str) -> None:
    """Clients show nothing outside of a turn; and that it ended is nobody's answer."""
    async with (
        puppets(tmp_path) as made,
        session("--app", made.target, "--app", f"{made.target} 2") as (person, id),
    ):
        turn = await person.start(id, "/connect")
        first = await made.app()
        await first.open("work")
        second = await made.app()
        await first.send(id="q", method="elicitation/confirm", params={"message": "Go?"})
        asked = await person.asked("session/request_permission")
        if ending in CANCELS:
            await person.notify(*CANCELS[ending](id, turn))
        else:
            await second.open("work")
        ended = await person.response(turn)
        assert person.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        assert person.wire.sent()[-1] == ended
        answer = (await first.next())["result"]
        said = (
            ("USER_CANCELLED", "the user cancelled the turn")
            if ending in CANCELS
            else ("CANCELLED", "the turn ended")
        )
        assert (answer["error"]["code"], answer["error"]["message"]) == said
        assert answer["metadata"]["answeredBy"] == "nobody"


# --- calls, commands, and what an app tells -------------------------------------------------------


async def test_commands_are_sent_after_the_session_and_after_connecting() -> None:
    async with session() as (person, id):
        await person.asked("session/update")
        said = [message.get("method", "result") for message in person.wire.sent()]
        assert said == ["result", "result", "session/update"]
        _, words = await person.prompt(id, "/connect")
        assert words.startswith("Connected demo: ABP demo (demo).")
        own, all_of_them = (
            [each["name"] for each in update["availableCommands"]]
            for update in person.wire.updates("available_commands_update")
        )
        assert own == ["connect", "status", "disconnect"]
        assert {"demo_ask", "demo_echo", *own} < set(all_of_them)
        assert "demo_grown" not in all_of_them
        await person.prompt(id, "/demo_grow")
        await person.until(
            lambda _: any(
                each["name"] == "demo_grown"
                for each in person.wire.updates("available_commands_update")[-1][
                    "availableCommands"
                ]
            )
        )
        assert (await person.prompt(id, "/demo_grown"))[1].startswith("here I am")
        assert (await person.prompt(id, "/disconnect"))[1] == "Disconnected: demo."
        assert [
            each["name"]
            for each in person.wire.updates("available_commands_update")[-1]["availableCommands"]
        ] == own
        assert (await person.prompt(id, "/disconnect"))[1] == "No app was connected."


@pytest.mark.slow
async def test_notifications_lost_to_a_slow_client_are_counted(
    tmp_path: Path,
) -> None:
    declared: Json = {"session": {"notices": {}}}
    async with puppets(tmp_path) as made:
        with RawHost("--app", made.target) as client:
            client.result("initialize", {"protocolVersion": 1, "clientCapabilities": declared})
            opened = client.result("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            session = {"sessionId": opened["sessionId"]}

            def begin(line: str) -> int:
                words = [{"type": "text", "text": line}]
                return client.begin("session/prompt", {**session, "prompt": words})

            def said(turn: int) -> tuple[str, int]:
                """What the turn said, and how many updates came with it."""
                updates = []
                while (message := client.read()).get("id") != turn:
                    updates.append(message["params"]["update"])
                chunks = [each for each in updates if each["sessionUpdate"].endswith("chunk")]
                return "".join(each["content"]["text"] for each in chunks), len(updates)

            turn = begin("/work")
            app = await made.app()
            await app.open("work")
            asked = await app.next("capabilities/call")
            for n in range(3_000):
                await app.send(method="notifications/tick", params={"n": n, "text": "x" * 200})
            await app.send(id="over", method="nothing")  # what answers this has read the others
            await app.next()
            early = [client.read() for _ in range(500)]  # more than a pipe holds: there is room now
            await app.send(id=asked["id"], result={"success": True, "data": "done"})
            words, heard = said(turn)
            status, _ = said(begin("/status"))
    lost = re.search(r"\((\d+) notifications did not reach this host", words)
    assert lost is not None
    assert f'"dropped": {lost[1]}' in status
    heard += len(early)
    assert 3_000 < heard + int(lost[1]) < 3_000 + 10, "and those of the call itself"
    assert '{"n": 2999' in words


PROMPTS: dict[str, tuple[Json, str]] = {
    "words": ("hello", "This agent is a bridge to web apps"),
    "an unknown command": (
        "/fly",
        "UNKNOWN_CAPABILITY: There is no command /fly. There are /connect, /status",
    ),
    "parameters that are no JSON": (
        "/demo_ask hello",
        "INVALID_PARAMS: Give the parameters of demo.ask as JSON",
    ),
    "parameters that do not fit": (
        '/demo_ask {"request": 7}',
        "INVALID_PARAMS: The parameters of demo.ask do not fit",
    ),
    "parameters on the next line": ('/demo_echo\n{"value": "x"}', "x"),
    "plain words for the one text": ("/demo_tell notifications/mood", "told"),
    "the status": ("/status", "```json"),
    "an address that is none": ("/connect gopher://x", "is no app that can be connected"),
    "a command to run": (
        "/connect stdio:rm -rf /",
        "PERMISSION_DENIED: Only the person can start a command",
    ),
}


async def test_command_takes_links_and_refuses_pictures() -> None:
    link = {"type": "resource_link", "uri": "file:///notes.md", "name": "notes.md"}
    picture = {"type": "image", "data": "", "mimeType": "image/png"}
    async with session() as (person, id):
        _, words = await person.prompt(id, "/demo_tell ", link)
        assert "file:///notes.md" in words
        _, words = await person.prompt(id, "/demo_echo", picture)
        assert (
            words
            == "A command takes text and links: it was not begun, as this came with it: image."
        )


@pytest.fixture(scope="module")
def plain_scene() -> Iterator[Callable[[str], tuple[str, str]]]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(session()) as (person, id),
    ):
        yield lambda words: portal.call(person.prompt, id, words)


@pytest.mark.parametrize("case", PROMPTS)
def test_prompt_is_obeyed_or_answered_with_help(
    plain_scene: Callable[[str], tuple[str, str]], case: str
) -> None:
    words, answer = PROMPTS[case]
    stop, said = plain_scene(words)
    assert stop == "end_turn"
    assert answer in said


async def test_command_without_an_app_is_refused() -> None:
    async with client() as person:
        await person.initialize()
        _, words = await person.prompt(await person.new(), "/demo_ask {}")
        assert words.startswith("MISSING_PARAM: There is no app to connect")


@pytest.mark.slow
async def test_disconnected_app_is_connected_again_for_its_command(tmp_path: Path) -> None:
    async with (
        puppets(tmp_path) as made,
        session("--app", "demo", "--app", made.target) as (person, id),
    ):
        turn = await person.start(id, "/connect")
        await (await made.app()).open("work")
        await person.response(turn)
        _, words = await person.prompt(id, "/demo_leave")
        assert "DISCONNECTED" in words
        assert (await person.prompt(id, '/demo_echo {"value": "back"}'))[1] == "back"


@pytest.mark.slow
async def test_command_names_that_are_taken_get_a_prefix(tmp_path: Path) -> None:
    async with puppets(tmp_path) as made, session("--app", made.target) as (person, id):
        turn = await person.start(id, "/connect")
        app = await made.app()
        await app.open("status", "a.b", "a_b", "a b", "…")
        await person.response(turn)
        words = person.wire.updates("agent_message_chunk")[0]["content"]["text"]
        commands = [line.split()[1].rstrip(":") for line in words.splitlines()[1:]]
        assert commands == ["/puppet_status", "/a_b", "/puppet_a_b", "/puppet_a_b2", "/puppet_"]
        told = person.wire.updates("available_commands_update")[-1]["availableCommands"]
        (status,) = (each["description"] for each in told if each["name"] == "status")
        assert status == "What is connected, asked and told", "an app does not speak for the bridge"
        for command, capability in (
            ("puppet_status", "status"),
            ("puppet_a_b", "a_b"),
            ("puppet_a_b2", "a b"),
        ):
            turn = await person.start(id, f"/{command}")
            call = await app.next("capabilities/call")
            assert call["params"]["capability"] == capability
            await app.send(id=call["id"], result={"success": True, "data": "done"})
            await person.response(turn)


# --- sessions -------------------------------------------------------------------------------------


async def test_sessions_can_be_listed_and_closed() -> None:
    async with client("--app", "demo") as person:
        told = await person.initialize(version=99)
        assert told["protocolVersion"] == 1
        assert told["agentCapabilities"]["sessionCapabilities"] == {
            "list": {},
            "resume": {},
            "close": {},
        }
        one, other = await person.new("/one"), await person.new("/other")
        assert one != other
        assert (await person.request("session/list", {}))["sessions"] == [
            {"sessionId": one, "cwd": "/one"},
            {"sessionId": other, "cwd": "/other"},
        ]
        assert (await person.request("session/list", {"cwd": "/other"}))["sessions"] == [
            {"sessionId": other, "cwd": "/other"}
        ]
        assert await person.request("session/close", {"sessionId": one}) == {}
        assert [
            each["sessionId"]
            for each in (await person.request("session/list", {"cwd": None}))["sessions"]
        ] == [other]
        assert (await person.prompt(other, '/demo_echo {"value": "alive"}'))[1] == "alive"


async def test_resumed_session_has_its_apps_and_commands() -> None:
    async with session() as (person, id):
        await person.prompt(id, "/connect")
        before = len(person.wire.lines)
        resumed = await person.request(
            "session/resume", {"sessionId": id, "cwd": "/", "mcpServers": []}
        )
        assert resumed["modes"]["currentModeId"] == "apps"
        told = await person.until(
            lambda message: message.get("method") == "session/update", after=before
        )
        assert {"status", "demo_echo"} < {
            each["name"] for each in told["params"]["update"]["availableCommands"]
        }


async def test_sessions_are_limited() -> None:
    async with client() as person:
        await person.initialize()
        opened = [await person.new() for _ in range(100)]
        refused = await person.exchange("session/new", {"cwd": "/", "mcpServers": []})
        assert (refused["error"]["code"], "close one first" in refused["error"]["message"]) == (
            -32600,
            True,
        )
        await person.request("session/close", {"sessionId": opened[0]})
        assert await person.new() not in opened


BAD_REQUESTS: dict[str, tuple[str, Json, int, str]] = {
    "an unknown method": ("session/fork", {}, -32601, "Method not found: session/fork"),
    "a session that is not": (
        "session/prompt",
        {"sessionId": "x", "prompt": []},
        -32602,
        "there is no such session",
    ),
    "no prompt": (
        "session/prompt",
        {"sessionId": "SESSION"},
        -32602,
        "a prompt is a list of content blocks",
    ),
    "a mode that is not": (
        "session/set_mode",
        {"sessionId": "SESSION", "modeId": "yolo"},
        -32602,
        "there is only the mode 'apps'",
    ),
    "another process's session": (
        "session/resume",
        {"sessionId": "abp-session-1-1", "cwd": "/"},
        -32002,
        "they end with their process",
    ),
    "no folder": ("session/new", {"mcpServers": []}, -32602, "session/new needs a cwd"),
}


@pytest.fixture(scope="module")
def exchange() -> Iterator[Callable[[str, Json], Json]]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(session()) as (person, id),
    ):

        def run(method: str, params: Json) -> Json:
            params = (
                {**params, "sessionId": id}
                if isinstance(params, dict) and params.get("sessionId") == "SESSION"
                else params
            )
            return portal.call(person.exchange, method, params)

        yield run


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_wrong_request_gets_an_error(exchange: Callable[[str, Json], Json], case: str) -> None:
    method, params, code, words = BAD_REQUESTS[case]
    error = exchange(method, params)["error"]
    assert error["code"] == code
    assert words in error["message"]


async def test_second_prompt_in_a_turn_is_refused() -> None:
    async with session() as (person, id):
        turn = await person.start(id, asking(CONFIRM))
        asked = await person.asked("session/request_permission")
        refused = await person.exchange("session/prompt", {"sessionId": id, "prompt": []})
        assert (refused["error"]["code"], "is running" in refused["error"]["message"]) == (
            -32600,
            True,
        )
        await person.send({"id": asked["id"], "result": CANCELLED})
        assert (await person.response(turn))["result"] == {"stopReason": "end_turn"}
        assert (await person.prompt(id, "hello"))[0] == "end_turn"


async def test_two_sessions_do_not_mix() -> None:
    async with client("--app", "demo", handler=never) as person:
        await person.initialize()
        one, other = await person.new(), await person.new()
        turns = [
            await person.start(one, asking(select(3, prompt="one"))),
            await person.start(other, asking(select(3, prompt="other"))),
        ]
        await person.asked("session/request_permission", 2)
        asked = {
            message["params"]["sessionId"]: message
            for message in person.wire.sent()
            if message.get("method") == "session/request_permission"
        }
        assert {id: message["params"]["toolCall"]["title"] for id, message in asked.items()} == {
            one: "demo asks: one",
            other: "demo asks: other",
        }
        for id, label in ((other, "L2"), (one, "L1")):
            option = next(
                each["optionId"] for each in asked[id]["params"]["options"] if each["name"] == label
            )
            await person.send({"id": asked[id]["id"], "result": selected(option)})
        for turn in turns:
            assert (await person.response(turn))["result"] == {"stopReason": "end_turn"}
        for id, value in ((one, "v1"), (other, "v2")):
            (said,) = person.wire.updates("agent_message_chunk", id)
            assert f'{{"selected": "{value}"}}' in said["content"]["text"]
            assert len(person.wire.updates("tool_call", id)) == 2, "the call and the question"
        _, status = await person.prompt(one, "/status")
        assert '"message": "one"' in status
        assert '"message": "other"' not in status
