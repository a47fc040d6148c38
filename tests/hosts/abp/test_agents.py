"""ABP agents as hosts: who launches the bridge speaks ABP, in either binding, in front of ABP apps,
an MCP server, an ACP agent, and another bridge.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.abp_agent import AbpAgent
from support.browser import LINK, Browser
from support.harness import SERVE
from support.paths import APPS
from support.terminal import Tty

from abp_bridge.abp.server import MAX_OPEN

Json = Any

BRIDGED = f"stdio:{shlex.join([*SERVE, '--app', 'demo'])}"


BINDINGS = ("JSON-RPC", "envelope")
BRIDGE_BETWEEN = pytest.param("another bridge between", marks=pytest.mark.process)


@contextmanager
def connected(binding: str) -> Iterator[AbpAgent]:
    """An agent in front of the demo, which it has connected."""
    app = BRIDGED if binding.startswith("another") else "demo"
    with AbpAgent("--app", app, envelope=binding == "envelope") as agent:
        opened = agent.open()
        assert opened["app"]["id"] == "demo"
        assert opened["app"]["name"] == "ABP demo"
        assert "demo.ask" in [each["name"] for each in opened["capabilities"]]
        yield agent


@pytest.fixture(params=BINDINGS)
def agent(request: pytest.FixtureRequest) -> Iterator[AbpAgent]:
    with connected(request.param) as agent:
        yield agent


@pytest.fixture(scope="module", params=[*BINDINGS, BRIDGE_BETWEEN])
def asked(request: pytest.FixtureRequest) -> Iterator[AbpAgent]:
    """One for many tests, each of which ends its calls."""
    with connected(request.param) as agent:
        yield agent


def json_rpc(*arguments: str, **more: Json) -> AbpAgent:
    return AbpAgent("--app", "demo", *arguments, **more)


CANCELLED = {"success": False, "cancelled": True, "error": {"code": "USER_CANCELLED"}}


def test_invalid_answer_of_the_agent_is_asked_again(asked: AbpAgent) -> None:
    call = asked.ask("elicitation/input", prompt="Who?", schema={"type": "string", "minLength": 3})
    asked.answer(asked.question(), {"value": "A"})
    question = asked.question()
    assert "Please answer again" in question["params"]["prompt"]
    asked.answer(question, {"value": "Ada"})
    assert asked.response(call)["result"]["data"]["data"] == {"value": "Ada"}


def test_secret_never_passes_through_an_agent(agent: AbpAgent) -> None:
    call = agent.ask("elicitation/input", prompt="Password?", schema={"format": "password"})
    got = agent.response(call)["result"]["data"]  # and no question came before it
    assert got["error"]["code"] == "NOT_SUPPORTED"
    assert not [each for each in agent._passed if "id" in each]


def test_cancelled_call_withdraws_its_question(agent: AbpAgent) -> None:
    request = {"method": "elicitation/confirm", "params": {"message": "?"}}
    call = agent.begin_capability("demo.ask", call="mine", request=request)
    question = agent.question()
    cancelled = agent.result("capabilities/cancel", {"callId": "mine", "reason": "enough"})
    assert cancelled == {"callId": "mine", "cancelled": True}
    down = agent.notified("notifications/elicitation/withdrawn")
    assert down["requestId"] == question["id"]
    agent.answer(question, {"confirmed": True})  # too late
    ended = agent.response(call)["result"]
    assert (ended["success"], ended["cancelled"]) == (False, True)
    again = agent.result("capabilities/cancel", {"callId": "mine"})
    assert again == {"callId": "mine", "cancelled": False, "reason": "no such call is running"}


def test_session_can_begin_again_after_shutdown(agent: AbpAgent) -> None:
    assert agent.result("shutdown", {"reason": "done"}) == {}
    refused = agent.result("capabilities/list", {})
    assert refused["error"]["code"] == "NOT_INITIALIZED"
    assert re.fullmatch(r"abp-session-\d+-2", agent.open()["sessionId"])
    assert agent.call("demo.echo", value="hi")["success"] is True


def test_agent_that_disconnects_ends_the_bridge(agent: AbpAgent) -> None:
    agent.ask("elicitation/confirm", message="?")
    agent.question()
    assert agent.end() == 0


def test_data_pass_unchanged(asked: AbpAgent) -> None:
    """A file is its content, and what nobody sees is there; a question is drawn, and says it."""
    file = asked.call("demo.file")["data"]
    assert base64.b64decode(file["content"]).startswith(b"\x89PNG")
    assert file["mimeType"] == "image/png"
    value = {"unseen": "a\u200bb\u202e", "large": "x" * 100_000, "none": None}
    assert asked.call("demo.echo", value=value)["data"] == value
    call = asked.ask("elicitation/confirm", message="a\u200bb?")
    question = asked.question()
    assert "\u200b" not in question["params"]["message"]
    asked.answer(question, {"confirmed": True})
    assert asked.response(call)["result"]["data"]["success"] is True


def test_shutdown_ends_a_call_before_it_is_answered(agent: AbpAgent) -> None:
    hold = agent.begin_capability("demo.hold", call="mine")
    agent.notified("notifications/operation/started")
    assert agent.result("shutdown", {}) == {}
    [ended] = [each for each in agent._passed if each.get("id") == hold]
    assert ended["result"]["success"] is False


# --- what an agent must not be, or cannot do ------------------------------------------------------


def test_missing_method_of_the_agent_is_requested_once() -> None:
    with json_rpc() as agent:
        agent.open()
        call = agent.ask("elicitation/input", prompt="?")
        question = agent.question()
        agent._send({"id": question["id"], "error": {"code": -32601, "message": "No such method"}})
        got = agent.response(call)["result"]["data"]
        assert got["error"]["code"] == "NOT_SUPPORTED"
        again = agent.response(agent.ask("elicitation/input", prompt="?"))["result"]["data"]
        assert "takes no elicitation/input" in again["error"]["message"]
        call = agent.ask("elicitation/confirm", message="?")
        agent.answer(agent.question(), {"confirmed": True})
        assert agent.response(call)["result"]["data"]["success"] is True


@pytest.mark.parametrize("who", ["model", "nobody"])
def test_answer_marked_as_not_the_users_is_refused(who: str) -> None:
    """And what cannot be undone is not done on a machine's word."""
    with json_rpc(env={"ABP_PERSON_FLOOR": "400"}) as agent:
        agent.open()
        call = agent.ask("elicitation/confirm", message="Drop it?", destructive=True)
        yes = {"success": True, "data": {"confirmed": True}, "metadata": {"answeredBy": who}}
        agent.answer(agent.question(), **yes)
        got = agent.response(call)["result"]["data"]
        assert got["error"]["code"] == "NOT_SUPPORTED"
        assert got["metadata"]["answeredBy"] == who


@pytest.mark.slow
def test_agent_without_notifications_gets_a_summary() -> None:
    with json_rpc() as agent:
        agent.open({"notifications": False, "progress": False})
        worked = agent.call("demo.work")
        assert worked["data"] == {"sorted": 4}
        assert "started demo.work" in worked["metadata"]["summary"]
        assert not agent._passed


WRONG: dict[str, tuple[str, Json, str]] = {
    "a second beginning": ("initialize", {"features": {}}, "ALREADY_INITIALIZED"),
    "a call of nothing": ("capabilities/call", {}, "INVALID_PARAMS"),
    "a capability nobody has": (
        "capabilities/call",
        {"capability": "demo.fly"},
        "UNKNOWN_CAPABILITY",
    ),
    "parameters that do not fit": (
        "capabilities/call",
        {"capability": "demo.ask"},
        "INVALID_PARAMS",
    ),
}


@pytest.mark.parametrize(("method", "params", "code"), WRONG.values(), ids=WRONG)
def test_wrong_request_gets_an_abp_error(method: str, params: Json, code: str) -> None:
    with json_rpc() as agent:
        agent.open()
        got = agent.result(method, params)
        assert (got["success"], got["error"]["code"]) == (False, code)
        assert agent.call("demo.echo", value="hi")["success"] is True


def test_method_outside_abp_is_an_error() -> None:
    with json_rpc() as agent:
        agent.open()
        assert agent.request("tools/list")["error"]["code"] == -32601
        agent.send("whatever")  # a notification is nothing to answer
        assert agent.call("demo.echo", value="hi")["success"] is True


@pytest.mark.process
def test_app_that_cannot_be_connected_refuses_the_session() -> None:
    with AbpAgent("--app", "stdio:false") as agent:
        refused = agent.open()
        assert refused["success"] is False
        assert "false" in refused["error"]["message"]
        assert agent.result("capabilities/list", {})["error"]["code"] == "NOT_INITIALIZED"


def test_question_withdrawn_by_its_app_is_closed(tmp_path: Path) -> None:
    """By the notification of ours, which an app may send too; it has its one answer."""
    asks = {"ask": {"method": "elicitation/confirm", "params": {"message": "?"}}, "aloud": True}
    back = {"tell": "notifications/elicitation/withdrawn", "params": {"requestId": "q1"}}
    script = {
        "app": {"id": "shop", "name": "Shop"},
        "capabilities": [{"name": "ask", "steps": [asks]}, {"name": "back", "steps": [back]}],
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    words = [sys.executable, str(APPS / "scripted.py"), str(tmp_path / "script.json")]
    with AbpAgent("--app", f"stdio:{shlex.join(words)}") as agent:
        agent.open()
        call = agent.begin_capability("ask")
        question = agent.question()
        agent.begin_capability("back")
        down = agent.notified("notifications/elicitation/withdrawn")
        assert down["requestId"] == question["id"]
        got = agent.response(call)["result"]["data"]
        assert got["error"]["code"] == "CANCELLED"
        assert got["metadata"]["outcome"] == "withdrawn"


@pytest.mark.process
def test_two_apps_with_the_same_capabilities_are_told_apart() -> None:
    with AbpAgent("--app", "demo", "--app", BRIDGED) as agent:
        opened = agent.open()
        assert opened["app"]["id"] == "abp-bridge"
        names = [each["name"] for each in opened["capabilities"]]
        assert len(set(names)) == len(names)
        both = [each for each in names if each.endswith(".demo.echo")]
        assert both == ["demo.demo.echo", "demo-2.demo.echo"]
        for name in both:
            assert agent.call(name, value=name)["data"] == name
        unqualified = agent.call("demo.echo", value="?")
        assert unqualified["error"]["code"] == "UNKNOWN_CAPABILITY"
        request = {"method": "elicitation/confirm", "params": {"message": "Go on?"}}
        call = agent.begin_capability("demo-2.demo.ask", request=request)
        question = agent.question()
        assert question["params"]["message"].endswith(" asks: Go on?")
        agent.answer(question, {"confirmed": True})
        assert agent.response(call)["result"]["success"] is True


# --- who asks through it --------------------------------------------------------------------------


@pytest.mark.network
def test_secret_is_given_on_a_page_whose_link_no_agent_gets() -> None:
    """It is told an address, and the person a link and a code where no agent reads."""
    with Tty() as terminal, json_rpc("--page", "--tty", terminal.name, "--ask-on", "page") as agent:
        agent.open()
        call = agent.ask("elicitation/input", prompt="Password?", schema={"format": "password"})
        question = agent.question()
        shown = terminal.until(r"code \S+\s")
        (link,) = LINK.findall(shown)
        words = question["params"]["message"]
        assert question["method"] == "elicitation/confirm"
        assert "http://127.0.0.1:" in words
        assert link not in words
        assert shown.split("code ")[-1].split()[0] not in words
        person = Browser()
        person.open(link)
        person.send(**{"field-0": "hunter2"})
        down = agent.notified("notifications/elicitation/withdrawn")
        assert down["requestId"] == question["id"]
        got = agent.response(call)["result"]["data"]
        assert got["data"] == {"value": "hunter2"}  # the demo returns what it got


@pytest.mark.network
@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"success": False, "error": {"code": "NOT_SUPPORTED"}}, "NOT_SUPPORTED"),
        ({"success": False, "error": {"code": "TIMEOUT"}}, "TIMEOUT"),
        ({"success": True, "data": {"confirmed": 1}}, "NOT_SUPPORTED"),
    ],
)
def test_agent_that_cannot_show_the_address_has_not_declined(response: Json, code: str) -> None:
    with Tty() as terminal, json_rpc("--page", "--tty", terminal.name, "--ask-on", "page") as agent:
        agent.open()
        call = agent.ask("elicitation/input", prompt="Password?", schema={"format": "password"})
        agent.answer(agent.question(), **response)
        assert agent.response(call)["result"]["data"]["error"]["code"] == code


@pytest.mark.slow
def test_calls_over_the_limit_are_refused() -> None:
    with json_rpc() as agent:
        agent.open()
        names = [f"c{number}" for number in range(MAX_OPEN)]
        calls = [agent.begin_capability("demo.hold", call=name) for name in names]
        refused = agent.call("demo.echo", value=1)
        assert refused["error"]["code"] == "RATE_LIMITED"
        assert refused["error"]["retryable"] is True
        assert len(agent.result("capabilities/list", {})) > 1
        ended = agent.result("capabilities/cancel", {"callId": "c7"})
        assert ended == {"callId": "c7", "cancelled": True}
        agent.response(calls[7])
        assert agent.call("demo.echo", value=1)["success"] is True
        assert agent.result("shutdown", {}) == {}
        assert agent.end() == 0


def test_call_before_initialize_is_refused() -> None:
    with json_rpc() as agent:
        early = agent.result("capabilities/call", {"capability": "demo.echo"})
        assert early["error"]["code"] == "NOT_INITIALIZED"
        assert agent.open()["app"]["id"] == "demo"
