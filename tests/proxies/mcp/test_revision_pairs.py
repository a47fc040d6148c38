"""A stateful or stateless host joined to a stateful or stateless server: every method of `CROSSING`
and every notification, each checked at both ends by the official types.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.mcp_messages import (
    ANSWERS,
    ASKABLE,
    CLIENT,
    FORM,
    META,
    REQUESTS,
    RESULTS,
    SAMPLING,
    SERVER,
    TASKS,
    URL,
    YES,
)
from support.mcp_pair import KINDS, Host, Server, asking, joined, never, pair, pairs, until

from abp_bridge.protocols.mcp.revisions import CROSSING, LISTENED, Crossing

Json = Any


def make(host_kind: bool, server_kind: bool, capabilities: Json = None) -> tuple[Host, Server]:
    host = Host(stateless=host_kind, capabilities=capabilities)
    return host, Server(stateless=server_kind)


def without(given: Json, *names: str) -> Json:
    return {name: each for name, each in (given or {}).items() if name not in names}


def bare(message: Json) -> Json:
    """Parameters or a result without what only stateless MCP says."""
    own = (f"{META}{each}" for each in ("protocolVersion", "clientCapabilities", "clientInfo"))
    meta = without((message or {}).get("_meta"), *own, f"{META}serverInfo", f"{META}logLevel")
    rest = without(message, "_meta", "resultType", "ttlMs", "cacheScope")
    return {**rest, **({"_meta": meta} if meta else {})}


# --- requests of the host ---

TASK = {"taskId": "t1"}
PARAMS: Json = {
    **REQUESTS,
    "vendor/thing": {"k": 1, "_meta": {"v/k": 1}},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "stub://a"},
    "resources/unsubscribe": {"uri": "stub://a"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    **{f"tasks/{each}": TASK for each in ("get", "update", "result", "list", "cancel")},
}
BEGINS = ("initialize", "server/discover")  # tested as `hello`
ROWS = [
    pair(host, server, method)
    for host in KINDS
    for server in KINDS
    for method in sorted({*CROSSING[False], *CROSSING[True], "vendor/thing"} - {*BEGINS, "ping"})
    if host != server or method in CROSSING[host] or method == "vendor/thing"
]


@pytest.mark.parametrize(("host_kind", "server_kind", "method"), ROWS)
async def test_request(host_kind: bool, server_kind: bool, method: str) -> None:
    host, server = make(host_kind, server_kind)
    server.capabilities = {"logging": {}}  # no changes that the bridge would listen to
    server.results |= {each: {"own": each} for each in PARAMS if each.startswith("tasks/")}
    only_there = CROSSING[not host_kind].keys() - CROSSING[host_kind].keys()
    what = CROSSING[host_kind].get(method, Crossing.REFUSED)
    if host_kind == server_kind or method not in {*CROSSING[host_kind], *only_there}:
        what = Crossing.PASSES
    async with joined(host, server):
        await host.shake_hands()
        if method == "subscriptions/listen" and host_kind:
            stream = host.begin(method, PARAMS[method])
            acknowledged = "notifications/subscriptions/acknowledged"
            await until(lambda: host.notices(acknowledged))
            [told] = host.notices(acknowledged)
            assert told == {**PARAMS[method], "_meta": {f"{META}subscriptionId": stream}}
            response: Json = {"result": {}}
        else:
            response = await host.request(method, PARAMS[method])
    heard = [bare(each) for each in server.requests(method)]
    if what is Crossing.REFUSED:
        assert response["error"]["code"] == -32601
        assert method in response["error"]["message"]
    else:
        assert "result" in response, response
    assert heard == ([bare(PARAMS[method])] if what is Crossing.PASSES else [])
    if what is Crossing.PASSES and method in server.results:
        assert bare(response["result"]) == bare(server.results[method])


@pairs
async def test_hello(host_kind: bool, server_kind: bool) -> None:
    declared = {**ASKABLE, "extensions": {TASKS: {}, "io.x/y": {}}}
    host, server = make(host_kind, server_kind, declared)
    async with joined(host, server):
        hello = await host.shake_hands()
        await host.result("vendor/thing")
    method = "server/discover" if server_kind else "initialize"
    shown = server.requests(method)[0]
    meta = shown.get("_meta", {})
    assert (meta[f"{META}clientInfo"] if server_kind else shown["clientInfo"]) == CLIENT
    seen = meta[f"{META}clientCapabilities"] if server_kind else shown["capabilities"]
    equal = host_kind == server_kind
    kept = declared["extensions"] if equal else {"io.x/y": {}}
    assert seen == {**declared, "extensions": kept}
    assert (hello["_meta"][f"{META}serverInfo"] if host_kind else hello["serverInfo"]) == SERVER
    extensions = server.capabilities["extensions"]
    kept = extensions if equal else without(extensions, TASKS)
    assert hello["capabilities"] == {**server.capabilities, "extensions": kept}
    assert hello["x-own"] == 1
    assert len(server.notices("notifications/initialized")) == (not server_kind)


@pairs
async def test_ping(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        response = await host.request("ping")
        assert (response["error"]["code"] if host_kind else response["result"]) == (
            -32601 if host_kind else {}
        )
        if not server_kind:
            assert await server.peer.request("ping", None, 9) == {
                "jsonrpc": "2.0",
                "id": 9,
                "result": {},
            }


@pairs
async def test_error_passes_whole(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        error = (await host.request("vendor/none"))["error"]
    assert error == {"code": -32601, "message": "no vendor/none", "data": {"keep": 1}}


# --- questions of the server ---

QUESTIONS: list[tuple[str, Json]] = [
    ("elicitation/create", FORM),
    ("elicitation/create", URL),
    ("sampling/createMessage", SAMPLING),
    ("roots/list", None),
]


@pytest.mark.parametrize(
    ("host_kind", "server_kind", "method", "params"),
    [
        pytest.param(host, server, *question, id=f"{KINDS[host]}-{KINDS[server]}-{number}")
        for host in KINDS
        for server in KINDS
        for number, question in enumerate(QUESTIONS)
    ],
)
async def test_question(host_kind: bool, server_kind: bool, method: str, params: Json) -> None:
    host, server = make(host_kind, server_kind)
    link = {"elicitationId": "E1"} if params is URL and not server_kind else {}
    asked = {**params, **link} if params else {}
    server.tools["ask"] = asking((method, asked) if asked else (method, {}))
    async with joined(host, server):
        await host.shake_hands()
        response = await host.call("ask")
    [(seen, shown)] = host.asked
    assert seen == method
    assert "q" in (shown or {}).get("message", "q").lower() or params is URL
    changed = ("message", "elicitationId", "requestedSchema")
    assert without(shown, *changed) == without(asked, *changed)
    [answer] = response["result"]["structuredContent"]["answers"]
    expected = ANSWERS[method] if params is not URL else {"action": "accept"}
    assert without(answer, "_meta") == expected


@pairs
async def test_two_questions_at_once_are_one_round(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    server.tools["ask"] = asking(("elicitation/create", FORM), ("roots/list", {}))
    async with joined(host, server):
        await host.shake_hands()
        response = await host.call("ask")
    answers = response["result"]["structuredContent"]["answers"]
    assert [without(each, "_meta") for each in answers] == [YES, ANSWERS["roots/list"]]
    if host_kind:
        asking_twice = [each for each in host.peer.received if "inputRequests" in each["result"]]
        assert len(asking_twice) == 1


@pairs
@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_question_of_another_request(host_kind: bool, server_kind: bool, method: str) -> None:
    host, server = make(host_kind, server_kind)
    ask = asking(("elicitation/create", FORM))

    async def give(server: Server, params: Json) -> Json:
        result = await ask(server, params)
        return result if "requestState" in result else RESULTS[method]

    server.tools |= {"p": give, "resources/read": give}
    async with joined(host, server):
        await host.shake_hands()
        response = await host.carry(method, PARAMS[method])
    assert bare(response["result"]) == bare(RESULTS[method])
    assert len(host.requests("elicitation/create")) == 1


@pytest.mark.parametrize("host_kind", KINDS)
async def test_result_without_a_question_is_asked_for_again(host_kind: bool) -> None:
    host, server = make(host_kind, True)

    async def work(server: Server, params: Json) -> Json:
        if "requestState" in params:
            return {"content": []}
        return {"resultType": "input_required", "requestState": "s"}

    server.tools["work"] = work
    async with joined(host, server):
        await host.shake_hands()
        assert (await host.call("work"))["result"]["content"] == []
    assert server.requests("tools/call")[1]["requestState"] == "s"


@pairs
async def test_vendor_question(host_kind: bool, server_kind: bool) -> None:
    """It passes between stateful sides; stateless MCP cannot ask it."""
    host, server = make(host_kind, server_kind)
    server.tools["ask"] = asking(("vendor/ask", {"k": 1}))
    async with joined(host, server):
        await host.shake_hands()
        response = await host.call("ask")
    if not (host_kind or server_kind):
        assert host.requests("vendor/ask") == [{"k": 1}]
        assert response["result"]["structuredContent"]["answers"] == [{"vendor": 1}]
        return
    assert not host.asked
    if server_kind:
        error = response["error"]
    else:
        [error] = response["result"]["structuredContent"]["answers"]
    assert error["code"] == -32601
    assert "vendor/ask" in error["message"]


META_OF_QUESTION = {
    "persist": ["session", "always"],
    f"{META}related-task": {"taskId": "t1"},
    "traceparent": "00-1",
}


@pairs
@pytest.mark.parametrize("params", [FORM, URL], ids=["form", "url"])
async def test_meta_of_a_question_and_its_answer(
    host_kind: bool, server_kind: bool, params: Json
) -> None:
    host, server = make(host_kind, server_kind)
    link = {"elicitationId": "E1"} if params is URL and not server_kind else {}
    asked = {**params, **link, "_meta": META_OF_QUESTION}
    server.tools["ask"] = asking(("elicitation/create", asked))
    content = {} if params is URL else {"content": {"s": "x"}}
    own = {"persist": "always", "abp": {"answeredBy": "person", "route": "made up"}}
    host.answers["elicitation/create"] = {"action": "accept", **content, "_meta": own}
    async with joined(host, server):
        await host.shake_hands()
        response = await host.call("ask")
    [(_, shown)] = host.asked
    assert shown["_meta"] == META_OF_QUESTION
    [answer] = response["result"]["structuredContent"]["answers"]
    assert answer["_meta"]["persist"] == "always"
    assert answer["_meta"]["abp"]["route"] != "made up"


@pairs
async def test_host_cannot_say_that_a_bridge_asked(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    server.tools["ask"] = asking(("sampling/createMessage", SAMPLING))
    answer = ANSWERS["sampling/createMessage"]
    made_up = {"_meta": {"abp": {"answeredBy": "person"}, "v/k": 1}}
    host.answers["sampling/createMessage"] = {**answer, **made_up}
    async with joined(host, server):
        await host.shake_hands()
        response = await host.call("ask")
    expected = {**answer, "_meta": {"v/k": 1}}
    assert response["result"]["structuredContent"]["answers"] == [expected]


# --- notifications ---


@pairs
async def test_progress_has_the_token_of_the_host(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    progress = {"progress": 1, "total": 3, "message": "PM", "_meta": {"z": 1}}

    async def work(server: Server, params: Json) -> Json:
        told = {**progress, "progressToken": params["_meta"]["progressToken"]}
        server.notify("notifications/progress", told)
        return {"content": []}

    server.tools["work"] = work
    async with joined(host, server):
        await host.shake_hands()
        await host.call("work", meta={"progressToken": "p7"})
    assert host.notices("notifications/progress") == [{**progress, "progressToken": "p7"}]


@pairs
async def test_open_question_is_reported_as_progress(host_kind: bool, server_kind: bool) -> None:
    """Hosts and servers give up what says nothing for a minute."""
    host, server = make(host_kind, server_kind)
    asked = {**FORM, "_meta": {"progressToken": "q"}}

    async def ask(server: Server, params: Json) -> Json:
        told = {"progressToken": params["_meta"]["progressToken"], "progress": 3}
        server.notify("notifications/progress", told)
        return await asking(("elicitation/create", asked))(server, params)

    server.tools["ask"] = ask
    host.answers["elicitation/create"] = None
    params = {"name": "ask", "arguments": {}, "_meta": {"progressToken": "p"}}
    async with joined(host, server):
        await host.shake_hands()
        host.begin("tools/call", params)
        await anyio.sleep(100)
    for told, token, hears in (
        (host.notices("notifications/progress"), "p", not host_kind),
        (server.notices("notifications/progress"), "q", not server_kind),
    ):
        values = [each["progress"] for each in told if each["progressToken"] == token]
        assert values == sorted(set(values))
        assert len(values) >= 3 if hears else values in ([], [3])


@pairs
async def test_notifications_arrive_before_the_result_after_them(
    host_kind: bool, server_kind: bool
) -> None:
    host, server = make(host_kind, server_kind)

    async def work(server: Server, params: Json) -> Json:
        for number in range(100):
            told = {"progressToken": params["_meta"]["progressToken"], "progress": number}
            server.notify("notifications/progress", told)
            server.notify("notifications/vendor/x", {"n": number})
        return {"content": []}

    server.tools["work"] = work
    async with joined(host, server):
        await host.shake_hands()
        await host.call("work", meta={"progressToken": 7})
        *told, last = host.peer.received
    assert "result" in last
    methods = ("notifications/progress", "notifications/vendor/x")
    seen = [each["params"] for each in told if each.get("method") in methods]
    assert [each.get("progress", each.get("n")) for each in seen] == [n // 2 for n in range(200)]


CHANGES: Json = {method: {} for method in LISTENED} | {
    "notifications/resources/updated": {"uri": "stub://a"}
}
FILTER = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["stub://a"],
}


@pytest.mark.parametrize(
    ("host_kind", "server_kind", "method"),
    [pair(host, server, method) for host in KINDS for server in KINDS for method in CHANGES],
)
async def test_change(host_kind: bool, server_kind: bool, method: str) -> None:
    host, server = make(host_kind, server_kind)
    server.capabilities = {**server.capabilities, "prompts": {"listChanged": True}}
    stream = None
    async with joined(host, server):
        await host.shake_hands()
        if host_kind:
            stream = host.begin("subscriptions/listen", {"notifications": FILTER})
            await until(lambda: host.notices("notifications/subscriptions/acknowledged"))
        else:
            await host.result("resources/subscribe", {"uri": "stub://a"})
        server.tell(method, CHANGES[method] or None)
        await until(lambda: host.notices(method))
    tagged = {"_meta": {f"{META}subscriptionId": stream}} if host_kind else {}
    assert [told or {} for told in host.notices(method)] == [{**CHANGES[method], **tagged}]


@pairs
async def test_log_message(host_kind: bool, server_kind: bool) -> None:
    """A stateless host hears them only for a request that says a level."""
    host, server = make(host_kind, server_kind)
    log = {"level": "warning", "logger": "L", "data": {"d": 1}}

    async def work(server: Server, params: Json) -> Json:
        server.notify("notifications/message", log)
        return {"content": []}

    server.tools["work"] = work
    async with joined(host, server):
        await host.shake_hands()
        level = {f"{META}logLevel": "info"} if host_kind else None
        if not host_kind:
            await host.result("logging/setLevel", {"level": "info"})
        await host.call("work", meta=level)
    assert host.notices("notifications/message") == [log]
    if server_kind:
        assert server.requests("tools/call")[0]["_meta"][f"{META}logLevel"] == "info"
    else:
        assert server.requests("logging/setLevel") == [{"level": "info"}]


@pairs
async def test_vendor_notifications(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        host.notify("notifications/vendor/x", {"k": 1})
        await until(lambda: server.notices("notifications/vendor/x"))
        server.notify("notifications/vendor/y", {"k": 2})
        await until(lambda: host.notices("notifications/vendor/y"))
    assert server.notices("notifications/vendor/x") == [{"k": 1}]
    assert host.notices("notifications/vendor/y") == [{"k": 2}]


@pairs
async def test_cancelled_call_is_cancelled_at_the_server(
    host_kind: bool, server_kind: bool
) -> None:
    host, server = make(host_kind, server_kind)
    server.tools["wait"] = never
    async with joined(host, server):
        await host.shake_hands()
        id = host.begin("tools/call", {"name": "wait"})
        await until(lambda: server.requests("tools/call"))
        [call] = server.open
        host.notify("notifications/cancelled", {"requestId": id, "reason": "r"})
        await until(lambda: server.cancelled)
        await host.result("vendor/thing")
    assert server.cancelled == [{"requestId": call, "reason": "r"}]
    assert id not in host.peer.answered


@pytest.mark.parametrize("host_kind", KINDS)
async def test_question_that_the_server_withdraws(host_kind: bool) -> None:
    host, server = make(host_kind, False)
    host.answers["elicitation/create"] = None

    async def ask(server: Server, params: Json) -> Json:
        server.peer.send({"id": "q", "method": "elicitation/create", "params": FORM})
        await until(lambda: server.notices("notifications/vendor/go"))
        server.notify("notifications/cancelled", {"requestId": "q", "reason": "timed out"})
        server.notify("notifications/vendor/gone")
        return {"content": []}

    server.tools["ask"] = ask
    async with joined(host, server):
        await host.shake_hands()
        id = host.begin("tools/call", {"name": "ask", "arguments": {}})
        await until(lambda: host.asked or id in host.peer.answered)
        host.notify("notifications/vendor/go")
        await until(lambda: host.notices("notifications/vendor/gone"))
        if host_kind:
            [asked] = host.peer.answered[id]
            retry = {"requestState": asked["result"]["requestState"], "inputResponses": {}}
            result = await host.result("tools/call", {"name": "ask", "arguments": {}, **retry})
        else:
            await until(lambda: id in host.peer.answered)
            result = host.peer.answered[id][0]["result"]
            assert len(host.notices("notifications/cancelled")) == 1
    assert "stopped waiting" in result["content"][0]["text"]
    assert not server.peer.answered.get("q")


ONLY_STATEFUL: Json = {
    "notifications/roots/list_changed": None,
    "notifications/progress": {"progressToken": 1, "progress": 1},
}


@pytest.mark.parametrize("server_kind", KINDS)
@pytest.mark.parametrize("method", ONLY_STATEFUL)
async def test_notification_of_a_stateful_host(method: str, server_kind: bool) -> None:
    host, server = make(False, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        host.notify(method, ONLY_STATEFUL[method])
        await host.result("vendor/thing")
    assert server.notices(method) == ([] if server_kind else [ONLY_STATEFUL[method]])


@pytest.mark.parametrize("host_kind", KINDS)
async def test_completed_address_is_told_to_stateful_hosts(host_kind: bool) -> None:
    host, server = make(host_kind, False)
    async with joined(host, server):
        await host.shake_hands()
        server.notify("notifications/elicitation/complete", {"elicitationId": "E1"})
        server.notify("notifications/vendor/after")
        await until(lambda: host.notices("notifications/vendor/after"))
    told = host.notices("notifications/elicitation/complete")
    assert told == ([] if host_kind else [{"elicitationId": "E1"}])


# --- tasks, which each kind has of its own ---


@pytest.mark.parametrize("capabilities", [ASKABLE, {}], ids=["asks", "cannot ask"])
async def test_question_of_a_stateless_task(capabilities: Json) -> None:
    """A host that can be asked answers by `tasks/update`; for any other the bridge asks."""
    host, server = make(True, True, {**capabilities, "extensions": {TASKS: {}}})
    question = {"method": "elicitation/create", "params": FORM}
    asking = {**TASK, "status": "input_required", "inputRequests": {"sure": question}}

    async def start(server: Server, params: Json) -> Json:
        assert TASKS in params["_meta"][f"{META}clientCapabilities"]["extensions"]
        return {"resultType": "task", **TASK, "status": "working"}

    async def get(server: Server, params: Json) -> Json:
        return {**TASK, "status": "completed"} if server.requests("tasks/update") else asking

    server.tools |= {"work": start, "tasks/get": get}
    server.results["tasks/update"] = {}
    async with joined(host, server):
        await host.shake_hands()
        response = await host.peer.request("tools/call", {"name": "work", "_meta": host.envelope()})
        assert response is not None
        assert response["result"]["resultType"] == "task"
        if capabilities:
            got = await host.result("tasks/get", TASK)
            assert got["inputRequests"] == {"sure": question}
            made_up = {**YES, "_meta": {"abp": {"answeredBy": "person"}, "persist": "always"}}
            await host.result("tasks/update", {**TASK, "inputResponses": {"sure": made_up}})
        else:
            assert (await host.result("tasks/get", TASK))["status"] == "completed"
    [update] = server.requests("tasks/update")
    answer = update["inputResponses"]["sure"]
    kept = {**YES, "_meta": {"persist": "always"}}
    assert answer == kept if capabilities else without(answer, "_meta") == {"action": "cancel"}
