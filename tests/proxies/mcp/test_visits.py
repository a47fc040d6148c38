"""An address that a server wants its user at first (error -32042): the host shows it if it says
that it can. Otherwise the bridge does, and no model reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.apps.exotic_server import URL
from support.mcp_host import Host
from support.mcp_pair import Host as MemoryHost
from support.mcp_pair import Server, ToolError, asking, joined, kinds, until
from support.mcp_proxy import MCP, Proxied, proxied
from support.paths import APPS, PYTHON
from support.programs import Desktop

from abp_bridge.mcp import server_link

Json = Any

STUB = (sys.executable, str(APPS / "exotic_server.py"), "legacy")
NAMED = {**URL, "elicitationId": "E1"}
COMPLETE = "notifications/elicitation/complete"


# --- in memory: hosts that show addresses, and users that cannot be asked ---


CALL: Json = {"name": "visit", "arguments": {}}


def visited(wanted: int = 1) -> Server:
    """A stateful server whose tool and resource want a visit first, that many times."""
    server = Server(stateless=False)
    seen = iter(range(wanted))

    async def visit(server: Server, params: Json) -> Json:
        if next(seen, None) is not None:
            raise ToolError(-32042, "visit first", {"elicitations": [NAMED]})
        return {"content": [{"type": "text", "text": "visited"}]}

    server.tools |= {"visit": visit, "resources/read": visit}
    server.tools["ask"] = asking(("elicitation/create", NAMED))
    return server


async def complete(host: MemoryHost, server: Server) -> None:
    """The server says that the user was there, and the bridge has heard it."""
    server.notify(COMPLETE, {"elicitationId": "E1"})
    server.notify("notifications/vendor/after")
    await until(lambda: host.notices("notifications/vendor/after"))


async def come_back(host: MemoryHost, call: Json, asked: Json) -> Json:
    retry = {"requestState": asked["requestState"], "inputResponses": {}}
    return await host.request("tools/call", {**call, **retry})


async def test_url_error_becomes_a_question_for_a_stateless_host() -> None:
    host, server = MemoryHost(stateless=True), visited()
    async with joined(host, server):
        response = await host.call("visit")
    assert response["result"]["content"] == [{"type": "text", "text": "visited"}]
    assert [params["url"] for _, params in host.asked] == [URL["url"]]
    assert len(server.requests("tools/call")) == 2


async def test_visit_ends_when_the_server_says_that_it_is_complete() -> None:
    host, server = MemoryHost(stateless=True), visited()
    async with joined(host, server):
        asked = await host.result("tools/call", CALL)
        await complete(host, server)
        began = anyio.current_time()
        response = await come_back(host, CALL, asked)
        assert anyio.current_time() - began < server_link.COMPLETE_LIMIT  # on the virtual clock
    assert response["result"]["content"] == [{"type": "text", "text": "visited"}]
    assert len(server.requests("tools/call")) == 2


async def test_question_is_accepted_when_the_server_says_that_it_is_complete() -> None:
    host, server = MemoryHost(stateless=True), visited()
    call = {"name": "ask", "arguments": {}}
    async with joined(host, server):
        asked = await host.result("tools/call", call)
        await complete(host, server)
        response = await come_back(host, call, asked)
    [answer] = response["result"]["structuredContent"]["answers"]
    assert answer == {"action": "accept", "_meta": {"abp": {"answeredBy": "server"}}}


async def test_repeated_url_error_is_reported_without_the_url() -> None:
    host, server = MemoryHost(stateless=True), visited(wanted=99)
    async with joined(host, server):
        result = (await host.call("visit"))["result"]
        assert result["isError"]
        assert "they were sent there" in result["content"][0]["text"]
        asked = await host.result("resources/read", {"uri": "stub://a"})
        await complete(host, server)
        retry = {"uri": "stub://a", "requestState": asked["requestState"], "inputResponses": {}}
        error = (await host.request("resources/read", retry))["error"]
    assert error["code"] == -32600
    assert "they were sent there" in error["message"]
    assert URL["url"] not in f"{result} {error}"


async def test_url_error_passes_unchanged_to_a_stateful_host_with_urls() -> None:
    host, server = MemoryHost(stateless=False), visited()
    async with joined(host, server):
        await host.shake_hands()
        error = (await host.call("visit"))["error"]
    data = {"elicitations": [NAMED]}
    assert error == {"code": -32042, "message": "visit first", "data": data}


@kinds
async def test_url_error_without_a_user_is_reported_without_the_url(stateless: bool) -> None:
    host, server = MemoryHost(stateless=stateless, capabilities={}), visited()
    async with joined(host, server):
        await host.shake_hands()
        result = (await host.call("visit"))["result"]
    assert result["isError"]
    assert "did not go there" in result["content"][0]["text"]
    assert URL["url"] not in f"{host.peer.received}"


# --- a page, whose user is sent there ---


@contextmanager
def visiting(tmp_path: Path, stateless: bool, **env: str) -> Iterator[Host]:
    """A host on the proxy, whose log has all that it reads."""
    with Host([*MCP, "--", *STUB], env=env, log=tmp_path / "host.log") as host:
        host.stateless, host.capabilities = stateless, {}
        assert "result" in host.shake_hands()
        yield host


def read_by(host: Host, tmp_path: Path) -> str:
    host.request("vendor/thing")
    return (tmp_path / "host.log").read_text()


@pytest.mark.network
@kinds
@pytest.mark.parametrize("pressed", ["yes", "decline"])
def test_url_error_opens_the_page_for_a_host_without_urls(
    tmp_path: Path, stateless: bool, pressed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_link, "COMPLETE_LIMIT", 0.01)
    desktop = Desktop(tmp_path)
    with visiting(tmp_path, stateless, **desktop.env) as host:
        id = host.begin("tools/call", CALL)
        person = desktop.visit()
        assert f'<a href="{URL["url"]}"' in person.page
        assert f"{PYTHON} exotic_server.py legacy</bdi> asks" in person.page
        person.send(action=pressed)
        result = host.response(id)["result"]
        if pressed == "yes":
            assert result["structuredContent"] == {"r": "visited"}
        else:
            assert result["isError"]
            assert "did not go there" in result["content"][0]["text"]
        assert URL["url"] not in read_by(host, tmp_path)


# --- a server that disguises it ---

ERROR = '"error":{"code":%s,"message":"m","data":{"%s":[{"mode":"url","url":"%s"}]}}'
LINES = ['{"jsonrpc":"2.0","id":%s,%s}', '[{"jsonrpc":"2.0","id":%s,%s}]']


def said_to(host: Proxied) -> str:
    read = host.log_file.read_text().splitlines()
    return "\n".join(each for each in read if not each.startswith("> "))


@pytest.mark.parametrize("name", ["elicitations", "\\u0065licitations"])
@pytest.mark.parametrize("code", ["-32042", "-3.2042e4"])
@pytest.mark.parametrize("line", LINES)
def test_disguised_url_error_never_reaches_the_host(
    tmp_path: Path, line: str, code: str, name: str
) -> None:
    with proxied(tmp_path, "--page", "off", "--without-person") as host:
        visiting = host.begin_call("ask", method="roots/list", params={})
        host.until(lambda message: message.get("method") == "roots/list")
        line = line % (visiting, ERROR % (code, name, URL["url"])) + "\n"
        call = host.begin_call("say", lines=[line])
        assert "did not go there" in host.text(visiting)
        assert host.text(call) == "said"
        assert URL["url"] not in said_to(host)
