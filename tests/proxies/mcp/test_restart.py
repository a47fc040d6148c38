"""A server that ends: the next request starts it again, and no request is sent twice."""

from __future__ import annotations

from typing import Any

import anyio
from support.mcp_messages import FORM, META, YES
from support.mcp_pair import Host, Server, asking, joined, never, pairs, until

Json = Any


def make(host_kind: bool, server_kind: bool) -> tuple[Host, Server]:
    """Both, and the server's tools: `ask` asks a form, `wait` never ends."""
    host, server = Host(stateless=host_kind), Server(stateless=server_kind)
    server.tools |= {"ask": asking(("elicitation/create", FORM)), "wait": never}
    return host, server


def answer_in(response: Json) -> Json:
    [answer] = response["result"]["structuredContent"]["answers"]
    return {name: each for name, each in answer.items() if name != "_meta"}


WATCHED = {"notifications": {"resourceSubscriptions": ["stub://a"]}}


@pairs
async def test_server_that_ends_between_two_calls_is_started_again(
    host_kind: bool, server_kind: bool
) -> None:
    host, server = make(host_kind, server_kind)
    level = {f"{META}logLevel": "error"} if host_kind else None
    async with joined(host, server):
        await host.shake_hands()
        if host_kind:
            host.begin("subscriptions/listen", WATCHED)
            await until(lambda: host.notices("notifications/subscriptions/acknowledged"))
        else:
            await host.result("logging/setLevel", {"level": "error"})
            await host.result("resources/subscribe", {"uri": "stub://a"})
        await host.call("ask", meta=level)
        server.kill()
        await anyio.sleep(1)
        server.asked.clear()
        response = await host.call("ask", meta=level)
    assert server.starts == 2
    assert len(host.requests("elicitation/create")) == 2
    assert answer_in(response) == YES
    if not (host_kind and server_kind):  # whose stream of changes has broken off
        assert [told["uri"] for told in host.notices("notifications/resources/updated")]
    if not host_kind:
        assert host.notices("notifications/tools/list_changed")
    if not server_kind:
        assert server.requests("logging/setLevel") == [{"level": "error"}]
        assert server.requests("resources/subscribe") == [{"uri": "stub://a"}]
        return
    assert server.requests("tools/call")[0]["_meta"][f"{META}logLevel"] == "error"
    if not host_kind:  # a stateless host listens again, as its own stream has broken off
        [listen] = server.requests("subscriptions/listen")
        assert listen["notifications"]["resourceSubscriptions"] == ["stub://a"]


@pairs
async def test_request_that_broke_off_is_not_repeated(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        id = host.begin("tools/call", {"name": "wait"})
        await until(lambda: server.requests("tools/call"))
        server.kill()
        await until(lambda: id in host.peer.answered)
        [response] = host.peer.answered[id]
        assert "outcome of this request is unknown" in response["error"]["message"]
        await host.result("vendor/thing")
    assert server.starts == 2
    assert len(server.requests("tools/call")) == 1


@pairs
async def test_calls_at_once_start_one_server(host_kind: bool, server_kind: bool) -> None:
    host, server = make(host_kind, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        server.kill()
        await anyio.sleep(1)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(host.result, "vendor/thing")
    assert server.starts == 2
    assert len(server.requests("vendor/thing")) == 5


@pairs
async def test_server_that_cannot_be_started_again_is_tried_by_each_request(
    host_kind: bool, server_kind: bool
) -> None:
    host, server = make(host_kind, server_kind)
    async with joined(host, server):
        await host.shake_hands()
        server.is_missing = True
        server.kill()
        await anyio.sleep(1)
        error = (await host.request("vendor/thing"))["error"]
        assert "no such program" in error["message"]
        server.is_missing = False
        assert (await host.result("vendor/thing"))["v"] == 1
    assert server.starts == 3


@pairs
async def test_server_that_ends_while_it_asks(host_kind: bool, server_kind: bool) -> None:
    """A stateful server's call has broken off; a stateless server is sent the answer."""
    host, server = make(host_kind, server_kind)
    host.answers["elicitation/create"] = None
    call: Json = {"name": "ask", "arguments": {}}
    async with joined(host, server):
        await host.shake_hands()
        id = host.begin("tools/call", call)
        await until(lambda: host.asked or id in host.peer.answered)
        server.kill()
        await anyio.sleep(1)
        if host_kind:
            [asked] = host.peer.answered[id]
            answers = dict.fromkeys(asked["result"]["inputRequests"], YES)
            retry = {"requestState": asked["result"]["requestState"], "inputResponses": answers}
            response = await host.request("tools/call", {**call, **retry})
        else:
            if server_kind:
                [asked] = [each for each in host.peer.received if "params" in each]
                host.peer.send({"id": asked["id"], "result": YES})
            await until(lambda: id in host.peer.answered)
            [response] = host.peer.answered[id]
            withdrawn = host.notices("notifications/cancelled")
            assert len(withdrawn) == (not server_kind)
    if server_kind:
        assert answer_in(response) == YES
    else:
        assert "outcome of this request is unknown" in response["error"]["message"]
    assert len(server.requests("tools/call")) == (2 if server_kind else 1)
