"""What only a pair of two kinds of revision needs: the first hello, retries, streams of changes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio
import pytest
from support.mcp_messages import CLIENT, FORM, META, URL, YES
from support.mcp_pair import Host, Server, ToolError, asking, joined, kinds, never, until

from abp_bridge.mcp import server_link
from abp_bridge.protocols.mcp.revisions import MAX_ROUNDS

Json = Any

FORMS: Json = {"elicitation": {"form": {}}, "roots": {}}
ASK = {"name": "ask", "arguments": {}}
ELICITATION = "elicitation/create"


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Any:
    """No test logs an exception."""
    yield
    assert not [each for each in caplog.records if each.exc_info]


def crossed(*, stateless_host: bool, capabilities: Json = None) -> tuple[Host, Server]:
    """A host and a server of two kinds; the server's tool `ask` asks a form."""
    host = Host(stateless=stateless_host, capabilities=capabilities)
    server = Server(stateless=not stateless_host)
    server.tools |= {"ask": asking((ELICITATION, FORM)), "wait": never}
    return host, server


def answers_in(response: Json) -> Json:
    answers = response["result"]["structuredContent"]["answers"]
    return [{name: each for name, each in answer.items() if name != "_meta"} for answer in answers]


# --- the first hello ---


@kinds
@pytest.mark.parametrize("server_kind", [False, True])
@pytest.mark.parametrize("at_other_hello", ["refuses", "silent", "exits"])
async def test_kind_of_the_server_is_found(
    stateless: bool, server_kind: bool, at_other_hello: str
) -> None:
    host, server = Host(stateless=stateless), Server(stateless=server_kind)
    server.at_other_hello = at_other_hello
    server.tools["ask"] = asking((ELICITATION, FORM))
    async with joined(host, server):
        await host.shake_hands()
        assert answers_in(await host.call("ask")) == [YES]
    assert server.starts == (2 if at_other_hello == "exits" and stateless != server_kind else 1)


@kinds
@pytest.mark.parametrize(("era", "code"), [("legacy", -32022), ("modern", -32601)])
async def test_chosen_revision_is_the_only_one(stateless: bool, era: str, code: int) -> None:
    host, server = Host(stateless=stateless), Server(stateless=era == "legacy")
    async with joined(host, server, era=era):
        hello = "server/discover" if stateless else "initialize"
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        response = await host.request(hello, None if stateless else params)
        assert response["error"]["code"] == code


@pytest.mark.parametrize("server_kind", [False, True])
async def test_host_that_falls_back_to_stateful_mcp_is_served(server_kind: bool) -> None:
    """As after ten seconds without an answer to its `server/discover`."""
    host, server = Host(stateless=True), Server(stateless=server_kind)
    server.tools["ask"] = asking((ELICITATION, FORM))
    async with joined(host, server):
        host.begin("server/discover")
        host.stateless = False
        await host.shake_hands()
        assert answers_in(await host.call("ask")) == [YES]
    assert [method for method, _ in host.asked] == [ELICITATION]


async def test_server_may_send_a_request_before_it_answers_initialize() -> None:
    host, server = Host(stateless=False), Server(stateless=False)

    async def initialize(server: Server, params: Json) -> Json:
        assert await server.peer.request("ping", None, 1_000) is not None
        return {**hello, "protocolVersion": params["protocolVersion"]}

    hello: Json = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {}}
    server.tools["initialize"] = initialize
    async with joined(host, server):
        await host.shake_hands()


@pytest.mark.parametrize("server_kind", [False, True])
async def test_stateless_request_needs_an_envelope(server_kind: bool) -> None:
    host, server = Host(stateless=True), Server(stateless=server_kind)
    async with joined(host, server):
        await host.shake_hands()
        bare = await host.peer.request("tools/list", {})
        other = {**host.envelope(), f"{META}protocolVersion": "2031-01-01"}
        unknown = await host.peer.request("tools/list", {"_meta": other})
        assert bare is not None
        assert unknown is not None
    assert (bare["error"]["code"], unknown["error"]["code"]) == (-32602, -32022)
    assert not server.requests("tools/list")


@kinds
@pytest.mark.parametrize("server_kind", [False, True])
async def test_values_pass_unchanged(stateless: bool, server_kind: bool) -> None:
    host, server = Host(stateless=stateless), Server(stateless=server_kind)
    value = {"n": 12345678901234567890123, "f": 1.5, "t": "ü\u2028\x00", "none": None, "deep": [[]]}

    async def give(server: Server, params: Json) -> Json:
        assert params["value"] == value
        return {"value": value}

    server.tools["vendor/value"] = give
    async with joined(host, server):
        await host.shake_hands()
        assert (await host.result("vendor/value", {"value": value}))["value"] == value


# --- a stateless host, a stateful server ---


@pytest.mark.parametrize(
    "link",
    ["x", {**URL, "url": "javascript:alert(1)"}],
    ids=["no object", "no page"],
)
async def test_url_error_without_a_valid_page_is_refused(link: Json) -> None:
    host, server = crossed(stateless_host=True)

    async def visit(server: Server, params: Json) -> Json:
        raise ToolError(-32042, "visit first", {"elicitations": [link]})

    server.tools["visit"] = visit
    async with joined(host, server):
        result = (await host.call("visit"))["result"]
    assert result["isError"]
    assert "did not go there" in result["content"][0]["text"]
    assert not host.asked


async def test_hidden_characters_never_reach_a_stateless_host_raw() -> None:
    """And the server gets its own names and values back."""
    unseen = "a\u202eb\u200bc"
    schema = {"type": "object", "properties": {unseen: {"type": "string"}}, "required": [unseen]}
    host, server = crossed(stateless_host=True)
    server.tools["ask"] = asking((ELICITATION, {"message": "Which?", "requestedSchema": schema}))
    async with joined(host, server):
        result = await host.result("tools/call", ASK)
        drawn = json.dumps(result, ensure_ascii=False)
        assert not {each for each in drawn if not each.isprintable()}
        ((key, question),) = result["inputRequests"].items()
        (name,) = question["params"]["requestedSchema"]["properties"]
        answers = {key: {"action": "accept", "content": {name: "x"}}}
        retry = {"requestState": result["requestState"], "inputResponses": answers}
        response = await host.request("tools/call", {**ASK, **retry})
    assert answers_in(response) == [{"action": "accept", "content": {unseen: "x"}}]


async def test_logs_reach_only_requests_with_a_log_level() -> None:
    host, server = crossed(stateless_host=True)

    async def log(server: Server, params: Json) -> Json:
        server.notify("notifications/message", {"level": "warning", "data": 1})
        return {"content": []}

    server.tools["log"] = log
    async with joined(host, server):
        for level in ({f"{META}logLevel": "error"}, None, {f"{META}logLevel": "odd"}):
            await host.call("log", meta=level)
    assert not host.notices("notifications/message")
    assert server.requests("logging/setLevel") == [{"level": "error"}]


async def test_stateless_host_is_asked_at_most_ten_rounds() -> None:
    host, server = crossed(stateless_host=True, capabilities=FORMS)

    async def many(server: Server, params: Json) -> Json:
        asked = [await server.ask(params, (ELICITATION, FORM)) for _ in range(MAX_ROUNDS + 2)]
        return {"content": [], "structuredContent": {"answers": [each for [each] in asked]}}

    server.tools["many"] = many
    async with joined(host, server):
        answers = answers_in(await host.call("many"))
    assert len(host.asked) == MAX_ROUNDS
    assert [each["action"] for each in answers] == ["accept"] * MAX_ROUNDS + ["cancel"] * 2


async def test_question_outside_a_call_is_not_asked_of_a_stateless_host() -> None:
    host, server = crossed(stateless_host=True, capabilities=FORMS)
    async with joined(host, server):
        await host.shake_hands()
        [asked] = await server.ask({}, (ELICITATION, FORM))
        [error] = await server.ask({}, ("roots/list", {}))
    assert asked["action"] == "cancel"
    assert error["code"] == -32600
    assert "roots/list" in error["message"]


async def test_question_of_a_host_that_never_returns_times_out() -> None:
    host, server = crossed(stateless_host=True)
    async with joined(host, server, park_timeout=30.0):
        state = (await host.result("tools/call", ASK))["requestState"]
        await anyio.sleep(60)
        assert [each["result"]["action"] for [each] in server.peer.answered.values()] == ["cancel"]
        late = await host.request("tools/call", {**ASK, "requestState": state})
    assert "too old" in late["error"]["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"requestState": "made up"},
        {"requestState": 7},
        {"arguments": {"a": "other"}},
        {"name": "wait"},
        {"inputResponses": [1]},
    ],
)
async def test_request_state_of_another_call_is_refused(change: Json) -> None:
    host, server = crossed(stateless_host=True)
    async with joined(host, server):
        asked = await host.result("tools/call", ASK)
        answers = dict.fromkeys(asked["inputRequests"], YES)
        retry = {**ASK, "requestState": asked["requestState"], "inputResponses": answers}
        refused = await host.request("tools/call", {**retry, **change})
        assert refused["error"]["code"] == -32602
        assert len(server.requests("tools/call")) == 1
        assert answers_in(await host.request("tools/call", retry)) == [YES]


async def test_question_without_an_answer_is_asked_again() -> None:
    host, server = crossed(stateless_host=True)
    server.tools["ask"] = asking((ELICITATION, FORM), (ELICITATION, FORM))
    async with joined(host, server):
        asked = await host.result("tools/call", ASK)
        first, second = asked["inputRequests"]
        retry = {"requestState": asked["requestState"], "inputResponses": {first: YES, "odd": {}}}
        again = await host.result("tools/call", {**ASK, **retry})
        assert [*again["inputRequests"]] == [second]
        retry = {"requestState": again["requestState"], "inputResponses": {second: YES}}
        response = await host.request("tools/call", {**ASK, **retry})
    assert answers_in(response) == [YES, YES]


async def test_answer_without_request_state_starts_the_call_anew() -> None:
    host, server = crossed(stateless_host=True)
    async with joined(host, server):
        asked = await host.result("tools/call", ASK)
        answers = dict.fromkeys(asked["inputRequests"], YES)
        again = await host.result("tools/call", {**ASK, "inputResponses": answers})
    assert again["requestState"] != asked["requestState"]
    assert len(server.requests("tools/call")) == 2


async def test_progress_is_silent_while_no_request_waits() -> None:
    host, server = crossed(stateless_host=True)

    async def work(server: Server, params: Json) -> Json:
        def has_gone(times: int) -> bool:
            return len(server.notices("notifications/vendor/go")) == times

        server.peer.send({"id": "q", "method": ELICITATION, "params": FORM})
        for value in (1, 2):
            await until(partial(has_gone, value))
            told = {"progressToken": params["_meta"]["progressToken"], "progress": value}
            server.notify("notifications/progress", told)
            server.notify("notifications/vendor/told")
        return {"content": []}

    server.tools["ask"] = work
    async with joined(host, server):
        call: Json = {**ASK, "_meta": {"progressToken": "first"}}
        asked = await host.result("tools/call", call)
        host.notify("notifications/vendor/go")
        await until(lambda: host.notices("notifications/vendor/told"))
        assert not host.notices("notifications/progress")
        answers = dict.fromkeys(asked["inputRequests"], YES)
        retry = {"requestState": asked["requestState"], "inputResponses": answers}
        id = host.begin("tools/call", {**ASK, **retry, "_meta": {"progressToken": "second"}})
        await until(lambda: "q" in server.peer.answered)
        host.notify("notifications/vendor/go")
        await until(lambda: id in host.peer.answered)
    assert host.notices("notifications/progress") == [{"progressToken": "second", "progress": 2}]


@pytest.mark.parametrize(
    ("method", "params"), [("logging/setLevel", {"level": "odd"}), ("resources/subscribe", {})]
)
async def test_invalid_request_that_is_answered_here_is_refused(method: str, params: Json) -> None:
    host, server = crossed(stateless_host=False)
    async with joined(host, server):
        await host.shake_hands()
        response = await host.request(method, params)
    assert response["error"]["code"] == -32602


async def test_cancelled_stream_unsubscribes() -> None:
    host, server = crossed(stateless_host=True)
    wanted = {"notifications": {"resourceSubscriptions": ["stub://a"]}}
    async with joined(host, server):
        first, second = (host.begin("subscriptions/listen", wanted) for _ in range(2))
        acknowledged = "notifications/subscriptions/acknowledged"
        await until(lambda: len(host.notices(acknowledged)) == 2)
        host.notify("notifications/cancelled", {"requestId": first})
        await host.result("vendor/thing")
        assert not server.requests("resources/unsubscribe")
        host.notify("notifications/cancelled", {"requestId": second})
        await until(lambda: server.requests("resources/unsubscribe"))
    assert server.requests("resources/unsubscribe") == [{"uri": "stub://a"}]


# --- a stateful host, a stateless server ---


@pytest.mark.parametrize("answer", [None, {"content": {"s": "x"}}], ids=["error", "no action"])
async def test_question_refused_by_the_host_is_cancelled(answer: Json) -> None:
    host, server = crossed(stateless_host=False, capabilities=FORMS)
    host.refuses = "" if answer else ELICITATION
    host.answers[ELICITATION] = answer
    async with joined(host, server):
        await host.shake_hands()
        assert answers_in(await host.call("ask")) == [{"action": "cancel"}]


async def test_stateless_server_that_never_stops_asking_gets_an_error() -> None:
    host, server = crossed(stateless_host=False)

    async def many(server: Server, params: Json) -> Json:
        asked = {"k": {"method": ELICITATION, "params": FORM}}
        return {"resultType": "input_required", "inputRequests": asked}

    server.tools["many"] = many
    async with joined(host, server):
        await host.shake_hands()
        error = (await host.call("many"))["error"]
    assert f"more than {MAX_ROUNDS} times" in error["message"]


@kinds
async def test_cancelled_call_withdraws_all_its_questions(stateless: bool) -> None:
    host, server = Host(stateless=False), Server(stateless=stateless)
    host.answers[ELICITATION] = None
    server.tools["ask"] = asking((ELICITATION, FORM), (ELICITATION, FORM))
    async with joined(host, server):
        await host.shake_hands()
        id = host.begin("tools/call", ASK)
        await until(lambda: len(host.asked) == 2)
        host.notify("notifications/cancelled", {"requestId": id})
        await until(lambda: len(host.notices("notifications/cancelled")) == 2)
    asked = {each["id"] for each in host.peer.received if each.get("method") == ELICITATION}
    assert {each["requestId"] for each in host.notices("notifications/cancelled")} == asked


def end_streams(server: Server, how: str, count: int) -> None:
    """Have the server end its first streams as soon as they are open."""

    async def listen(server: Server, params: Json) -> Json:
        if len(server.requests("subscriptions/listen")) > count:
            del server.tools["subscriptions/listen"]
            return await server._find_result([*server.open][-1], "subscriptions/listen", params)
        if how == "refuses":
            raise ToolError(-32603, "no streams today")
        stream = [*server.open][-1]
        tagged = {"_meta": {f"{META}subscriptionId": stream}}
        acknowledged = {"notifications": params["notifications"], **tagged}
        server.notify("notifications/subscriptions/acknowledged", acknowledged)
        if how == "ends":
            return tagged
        server.notify("notifications/cancelled", {"requestId": stream})
        return None

    server.tools["subscriptions/listen"] = listen


@pytest.mark.parametrize("how", ["ends", "cancels"])
async def test_stream_of_changes_is_reopened(how: str) -> None:
    host, server = crossed(stateless_host=False)
    end_streams(server, how, 2)
    async with joined(host, server):
        await host.shake_hands()
        await until(lambda: server.streams)
        # The host hears that all may have changed meanwhile.
        await until(lambda: host.notices("notifications/tools/list_changed"))
        await until(lambda: host.notices("notifications/resources/list_changed"))
        host.notified.clear()
        server.tell("notifications/tools/list_changed")
        await until(lambda: host.notices("notifications/tools/list_changed"))
    assert len(server.requests("subscriptions/listen")) == 3
    assert len(host.notices("notifications/tools/list_changed")) == 1


REOPENED = server_link.REOPENS + 1


@pytest.mark.parametrize(
    ("how", "tried"), [("ends", REOPENED), ("cancels", REOPENED), ("refuses", 1)]
)
async def test_stream_that_cannot_be_reopened_is_reported(
    how: str, tried: int, caplog: pytest.LogCaptureFixture
) -> None:
    host, server = crossed(stateless_host=False)
    end_streams(server, how, 99)
    async with joined(host, server):
        await host.shake_hands()
        await anyio.sleep(300)
    assert "closed its notification stream" in caplog.text
    assert len(server.requests("subscriptions/listen")) == tried
