"""Hosts that forge answers or leave early, and servers that are slow or fail, at the MCP proxy."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.mcp_messages import FORM, YES
from support.mcp_pair import VIRTUAL, Host, Server, asking, joined, never, until

from abp_bridge.mcp import server_link
from abp_bridge.mcp.proxy.proxy import Proxy

Json = Any

STATELESS = pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
FORGED = {"k0": {"action": "accept", "content": {"s": "forged"}}}
WIPE = {"name": "wipe", "inputSchema": {"type": "object"}}


@pytest.fixture
def anyio_backend() -> Any:
    return VIRTUAL


@STATELESS
async def test_answer_to_a_question_that_was_not_asked_never_reaches_a_server(
    stateless: bool,
) -> None:
    host, server = Host(stateless=stateless), Server(stateless=True)
    server.tools["ask"] = asking(("elicitation/create", FORM))
    async with joined(host, server):
        await host.shake_hands()
        await host.carry("tools/call", {"name": "ask", "inputResponses": FORGED})
    assert len(host.requests("elicitation/create")) == 1
    first, *_ = server.requests("tools/call")
    assert "inputResponses" not in first


async def test_task_takes_only_answers_to_questions_that_its_host_was_shown() -> None:
    host, server = Host(stateless=True), Server(stateless=True)
    question = {"k0": {"method": "elicitation/create", "params": FORM}}
    asks = {"taskId": "t", "status": "input_required", "inputRequests": question}
    server.results |= {"tasks/get": asks, "tasks/update": {}}
    update: Json = {"taskId": "t", "inputResponses": {"k0": YES}}
    async with joined(host, server):
        await host.shake_hands()
        assert (await host.request("tasks/update", update))["error"]["code"] == -32602
        await host.result("tasks/get", {"taskId": "t"})
        await host.result("tasks/update", update)
        assert (await host.request("tasks/update", update))["error"]["code"] == -32602
    assert len(server.requests("tasks/update")) == 1


async def test_question_outside_a_tool_call_is_presumed_destructive() -> None:
    host, server = Host(stateless=False), Server(stateless=False)
    server.tools["tasks/result"] = asking(("elicitation/create", FORM))
    async with joined(host, server):
        await host.shake_hands()
        await host.request("tasks/result", {"taskId": "t"})
    [asked] = host.requests("elicitation/create")
    assert "default" not in str(asked["requestedSchema"])


async def test_tools_are_listed_again_before_approval_when_they_changed() -> None:
    host, server = Host(stateless=False), Server(stateless=False)
    server.results["tools/list"] = {"tools": [{**WIPE, "annotations": {"readOnlyHint": True}}]}
    server.results["tools/call"] = {"content": []}
    host.answers["elicitation/create"] = {"action": "decline"}
    async with joined(host, server, confirm=("destructive",)):
        await host.shake_hands()
        await host.result("tools/call", {"name": "wipe"})
        server.results["tools/list"] = {"tools": [WIPE]}
        server.tell("notifications/tools/list_changed")
        await until(lambda: host.notices("notifications/tools/list_changed"))
        refused = await host.result("tools/call", {"name": "wipe"})
    assert refused["isError"]
    assert len(server.requests("tools/call")) == 1


@STATELESS
async def test_server_that_is_slow_to_start_is_waited_for(stateless: bool) -> None:
    host, server = Host(stateless=stateless), Server(stateless=stateless)
    hello = "server/discover" if stateless else "initialize"

    async def slow(server: Server, params: Json) -> Json:
        await anyio.sleep(60)
        del server.tools[hello]
        return await server._find_result(0, hello, params)

    server.tools[hello] = slow
    async with joined(host, server):
        assert await host.shake_hands()


@STATELESS
async def test_host_that_leaves_during_the_handshake_ends_the_bridge(stateless: bool) -> None:
    host, server = Host(stateless=stateless), Server(stateless=stateless)
    server.tools["server/discover" if stateless else "initialize"] = never
    began = 0.0
    async with joined(host, server):
        host.begin("server/discover" if stateless else "initialize", {"protocolVersion": "x"})
        await until(lambda: server.starts and server.asked)
        began = anyio.current_time()
    assert anyio.current_time() - began < 2
    assert server.starts == 1


async def test_server_that_ignores_what_it_is_told_again_holds_up_no_request() -> None:
    host, server = Host(stateless=False), Server(stateless=False)
    async with joined(host, server):
        await host.shake_hands()
        await host.result("logging/setLevel", {"level": "error"})
        server.tools["logging/setLevel"] = never
        server.kill()
        await anyio.sleep(1)
        began = anyio.current_time()
        await host.result("vendor/thing")
        assert anyio.current_time() - began < 2 * server_link.RESTORE_LIMIT


@STATELESS
async def test_bug_in_one_call_is_its_error_alone(
    stateless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> Json:
        raise ValueError("a bug")

    host, server = Host(stateless=stateless), Server(stateless=stateless)
    server.results["tools/call"] = {"content": []}
    async with joined(host, server):
        await host.shake_hands()
        with monkeypatch.context() as patched:
            patched.setattr(Proxy, "_edit_result", fail)
            assert (await host.request("tools/call", {"name": "a"}))["error"]["code"] == -32603
        await host.result("tools/call", {"name": "a"})
