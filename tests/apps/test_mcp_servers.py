"""MCP servers as apps, in both eras."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from support.apps.exotic_server import SAMPLING
from support.browser import PASSWORD, Browser, give_password
from support.harness import MODERN, PATIENCE, RawHost, accept, hosted, refuse, text
from support.paths import APPS
from support.sign_in_server import sign_in_server

from abp_bridge.apps.program import Program
from abp_bridge.mcp import server_link

Json = Any

ERAS = ("legacy", "modern")


def target(server: str, *arguments: object) -> str:
    words = [sys.executable, str(APPS / f"{server}_server.py"), *map(str, arguments)]
    return f"mcp:{shlex.join(words)}"


def heard(log: Path, method: str | None = None) -> list[Json]:
    """What the server read; with a method, their params."""
    read = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        each.get("params") if method else each
        for each in read
        if method is None or each.get("method") == method
    ]


def structured(result: types.CallToolResult) -> Json:
    """What the exotic server returns: one text, and the same as structured content."""
    *_, last = json.loads(text(result))
    return last["structuredContent"]["r"]


@pytest.fixture(params=ERAS)
def exotic(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A server of one era: its target, and what it reads."""
    log = tmp_path / "heard"
    return target("exotic", request.param, log), log


# --- what it offers and returns -------------------------------------------------------------------


async def test_tools_are_capabilities_with_their_annotations(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        said = text(await host.client.call_tool("abp_connect", {}))
        assert f"unruly (mcp:{Path(sys.executable).name} unruly_server.py heard)." in said
        assert "without a name cannot be called: number" in said
        assert "cannot be shown as it is cannot be called: 'noname'" in said
        tools = {each.name: each for each in (await host.client.list_tools()).tools}
        wipe = tools["abp_wipe"]
        assert wipe.title == "Wipe it all"
        assert wipe.input_schema["properties"] == {"what": {"type": "string"}}
        assert wipe.description is not None
        assert wipe.description.startswith("Wipes.")
        assert '"gone"' in json.dumps(wipe.output_schema)
        assert wipe.annotations is not None
        assert wipe.annotations.destructive_hint is True
        assert tools["abp_look"].annotations == types.ToolAnnotations(read_only_hint=True)


RETURNED = {
    "both": '{"a": [1, 2]}',
    "fail": "OPERATION_FAILED: No such table",
    "error": 'INVALID_PARAMS: bad (-32602)\nDetails: {"why": 1}',
    "nothing": "TRANSPORT_ERROR: the server returned no content",
    "malformed": "TRANSPORT_ERROR: the server returned no content",
}


async def test_a_result_is_what_the_server_returned(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        for tool, says in RETURNED.items():
            result = await host.call(tool)
            assert text(result).startswith(says), (tool, text(result))
            assert result.is_error is (tool != "both")
            assert text(await host.call("look")) == "look done"  # it goes on


async def test_resources_and_prompts_are_reached_by_capabilities() -> None:
    async with hosted("--app", target("sdk")) as host:
        assert text(await host.call("resources.read", uri="note://today")) == "rain"
        listed = json.loads(text(await host.call("resources.list")))
        assert [each["uri"] for each in listed["resources"]] == ["note://today"]
        prompt = await host.call("prompts.get", name="greet", arguments={"name": "Ann"})
        [said] = json.loads(text(prompt))["messages"]
        assert said["content"]["text"] == "Greet Ann."
        assert text(await host.call("numbers")) == '{"result": [1, 2, 3]}'
        assert "Ask before you order." in text(await host.client.call_tool("abp_connect", {}))


async def test_only_a_person_names_a_server() -> None:
    async with hosted("--app", "demo") as host:
        for named in (target("sdk"), "mcp+http://127.0.0.1:1/mcp"):
            result = await host.client.call_tool("abp_connect", {"target": named})
            assert text(result).startswith("PERMISSION_DENIED: Only the person can")


# --- what it asks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, MODERN])
async def test_a_form_is_asked_and_its_outcome_goes_back(
    exotic: tuple[str, Path], version: str | None
) -> None:
    asked: list[types.ElicitRequestFormParams] = []
    given = [accept(s="hello"), refuse("decline"), refuse("cancel")]

    def person(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params)
        return given[len(asked) - 1](params)

    async with hosted("--app", exotic[0], answer=person, version=version) as host:
        for action in ("accept", "decline", "cancel"):
            answer = structured(await host.call("ask", a="x"))
            assert answer["action"] == action
            assert answer.get("content") == ({"s": "hello"} if action == "accept" else None)
            assert answer["_meta"]["abp"]["answeredBy"] == "person"
    assert len(asked) == len(given)
    for form in asked:
        assert re.match(r"mcp:\S+ exotic_server.py \w+ heard asks: Q", form.message)
        assert "Stub T" not in form.message  # its own words are not who asks
        assert form.meta == {"e": 1}


@pytest.mark.slow
async def test_question_without_a_user_is_cancelled(exotic: tuple[str, Path]) -> None:
    async with hosted("--app", exotic[0]) as host:
        result = await host.call("ask", a="x")
        assert structured(result)["action"] == "cancel"
        assert "nobody answered, and was told 'cancel'" in str(result.content)


async def test_an_address_is_opened_by_the_person(
    exotic: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_link, "COMPLETE_LIMIT", 0.0)

    async def person(params: Any) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        assert params.url == "https://e.x/"
        status = await host.status()  # which a model may read
        [asked] = status["questions"]["open"]
        assert asked["elicitationId"] == params.elicitation_id
        assert "e.x" not in str(status["questions"])
        found = [each for each in asked.values() if re.fullmatch("[0-9a-f]{64}", str(each))]
        assert not found, "a short code in an address is found by trying them all"
        return types.ElicitResult(action="accept")

    async with hosted("--app", exotic[0], answer=person) as host:
        assert structured(await host.call("url"))["action"] == "accept"
        assert (
            structured(await host.call("visit")) == "visited"
        )  # after an error that wants a visit


FIRST = "PERMISSION_REQUIRED: its user must do something at an address of the server first"


@pytest.mark.parametrize(
    ("links", "action", "asked", "says"),
    [
        (2, "decline", 1, f"{FIRST}, and they did not go"),
        (101, "accept", 0, f"{FIRST}, and the server named 101"),
    ],
    ids=["declined", "too many"],
)
async def test_call_tells_what_became_of_addresses_to_visit(
    links: int, action: str, asked: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_link, "COMPLETE_LIMIT", 0.0)
    shown: list[str] = []

    def person(params: Any) -> types.ElicitResult:
        shown.append(params.elicitation_id)
        return refuse(action)(params)

    async with hosted("--app", target("exotic", "legacy"), answer=person) as host:
        assert says in text(await host.call("visit", links=links))
    assert len(shown) == asked


async def test_a_model_is_asked_in_the_servers_words_and_answers_in_its_own(
    exotic: tuple[str, Path],
) -> None:
    asked: list[types.CreateMessageRequestParams] = []

    async def model(context: Any, params: types.CreateMessageRequestParams) -> Any:
        asked.append(params)
        said = types.TextContent(text="hello")
        return types.CreateMessageResult(role="assistant", content=said, model="m-1")

    async with hosted("--app", exotic[0], sampling=model) as host:
        answer = structured(await host.call("sample"))
    assert answer["model"] == "m-1"
    assert answer["content"]["text"] == "hello"
    [params] = asked
    sent = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert sent == SAMPLING


async def test_sampling_without_a_model_is_refused(exotic: tuple[str, Path]) -> None:
    async with hosted("--app", exotic[0], answer=refuse("decline")) as host:
        assert structured(await host.call("caps"))["caps"] == FORMS
        assert "no model answered" in text(await host.call("sample"))


FORMS: Json = {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.network
@pytest.mark.parametrize(
    ("action", "goes"),
    [("accept", True), ("decline", False)],
)
async def test_user_is_sent_to_sign_in_to_an_http_server(
    tmp_path: Path, action: str, goes: bool
) -> None:
    asked: list[types.ElicitRequestURLParams] = []

    async def person(params: Any) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        asked.append(params)
        if goes:
            await anyio.to_thread.run_sync(Browser().open, params.url)
        return refuse(action)(params)

    env = {
        "XDG_DATA_HOME": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }
    with sign_in_server() as server:
        async with hosted("--app", f"mcp+{server.url}", answer=person, env=env) as host:
            said = text(await host.client.call_tool("abp_connect", {}))
        assert server.granted == (["authorization_code"] if goes else [])
    words = "signing in failed: nobody went there to sign in"
    assert (words in said) is not goes
    assert len(asked) == 1
    assert asked[0].url.startswith(f"{server.here}/authorize")
    assert "wants you to sign in" in asked[0].message
    assert "secret" not in said


async def test_roots_are_the_persons(exotic: tuple[str, Path], tmp_path: Path) -> None:
    async with hosted("--app", exotic[0], "--root", str(tmp_path)) as host:
        roots = structured(await host.call("roots"))
        assert roots == {"roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]}
    async with hosted("--app", exotic[0]) as host:
        assert "roots" not in structured(await host.call("caps"))["caps"]


@pytest.mark.network
async def test_a_secret_is_asked_out_of_band(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    trace = tmp_path / "trace"
    options = ("--app", target("unruly", log), "--record", str(trace))
    async with hosted(*options, answer=give_password) as host:
        await host.call("secret")
    [answer] = [each["result"] for each in heard(log) if each.get("id") == "q"]
    assert answer["content"] == {"password": PASSWORD}
    assert '"app->bridge"' in trace.read_text()
    assert PASSWORD not in trace.read_text()
    assert PASSWORD not in json.dumps([line for who, line in host.wire.lines if who == "host"])


async def test_question_after_the_session_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    asked: Json = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    answer = await Program("mcp:x", "server").elicit(asked, (), destructive=False)
    assert answer == {"action": "cancel"}
    assert "a question of mcp:x is cancelled: the session ended" in caplog.text


# --- what it tells --------------------------------------------------------------------------------


async def test_a_list_that_changed_says_what_did(tmp_path: Path) -> None:
    told: list[Json] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        told.append(params.data)

    app = target("unruly", tmp_path / "heard")
    async with hosted("--app", app, logging_callback=hear) as host:
        assert text(await host.call("grow")) == "grown"
        with anyio.fail_after(PATIENCE):
            while not told:
                await host.status()
        assert told[0]["data"] == {"added": ["grown"], "removed": ["look"], "changed": ["wipe"]}
        assert text(await host.call("grown")) == "grown done"
        tools = [each.name for each in (await host.client.list_tools(cache_mode="bypass")).tools]
        assert "abp_grown" in tools
        assert "abp_look" not in tools


async def test_what_is_no_message_is_told_and_ends_nothing(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        result = await host.call("babble")
        assert text(result) == "said"
        summary = str(result.content[-1])
        assert "s was dropped: Expecting value" in summary
        assert "it broke" in summary


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    async with hosted("--app", target("unruly", log)) as host:
        await host.client.call_tool("abp_connect", {})
        late = await host.client.call_tool("abp_call", {"capability": "hang", "timeout": 0.1})
        assert text(late).startswith("TIMEOUT")
        assert text(await host.call("look")) == "look done"
    assert heard(log, "notifications/cancelled")


async def test_a_server_that_dies_says_how(tmp_path: Path) -> None:
    async with hosted("--app", target("unruly", tmp_path / "heard")) as host:
        result = await host.call("die")
        assert text(result).startswith("DISCONNECTED"), text(result)
        assert "the disk is on fire" in text(result)
        assert text(await host.call("look")) == "look done"  # connected again


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("mcp:no-such-program", "cannot be started"),
        pytest.param(
            "mcp:sh -c 'echo hello'",
            "ended before it was connected (exit code 0); it wrote 'hello'",
            marks=pytest.mark.process,
        ),
    ],
)
async def test_a_server_that_cannot_be_connected_says_why(command: str, says: str) -> None:
    async with hosted("--app", command) as host:
        assert says in text(await host.client.call_tool("abp_connect", {}))


def test_open_question_is_cancelled_before_the_server_ends(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    with RawHost("--app", target("unruly", log)) as host:
        host.initialize(elicitation={})
        host.begin("tools/call", {"name": "abp_call", "arguments": {"capability": "leave"}})
        host.until(lambda message: message.get("method") == "elicitation/create")
        assert host.end() == 0
    *_, end = heard(log)
    (answer,) = [each for each in heard(log) if "result" in each and each.get("id") == "q"]

    assert answer["result"]["action"] == "cancel"
    assert end == {"end": True}, heard(log)
