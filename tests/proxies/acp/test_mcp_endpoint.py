"""The MCP server that a proxied agent is given: who is let in to it, and what is left of it."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest
from support.acp_harness import FORM, NoPage, accepting, pressing
from support.acp_harness import client as raw_client
from support.acp_proxy import ACP, AGENT, Narrow, ask, begin, compact, play, proxied, spawned
from support.harness import PATIENCE

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.acp.proxy import mcp_endpoint, relay
from abp_bridge.acp.proxy.mcp_endpoint import MAX_TOKEN, MAX_UNAUTHENTICATED
from abp_bridge.acp.proxy.sessions import ClientSession
from abp_bridge.jsonrpc.multiplex import InjectedConnection, SharedWriter
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol
from abp_bridge.jsonrpc.streams import accept
from abp_bridge.mcp.session import McpSession

if TYPE_CHECKING:
    from abp_bridge.session.bridge import Bridge

Json = Any


@pytest.mark.anyio
@pytest.mark.process
async def test_only_who_has_a_sessions_token_is_let_in() -> None:
    async with proxied("--app", "demo") as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        (entry,) = json.loads(result["_meta"]["line"])["params"]["mcpServers"]
        for env, words in (
            ({}, "cannot be reached"),
            ({"ABP_RELAY_TOKEN": "guessed"}, "does not know this session"),
        ):
            relay = await anyio.run_process(
                [entry["command"], *entry["args"]], env=env, check=False
            )
            assert (relay.returncode, relay.stdout) == (1, b"")
            assert words in relay.stderr.decode()


@pytest.mark.anyio
@pytest.mark.process
@pytest.mark.parametrize(
    ("capabilities", "answer"),
    [(FORM, accepting(confirmed=True)), (None, pressing("Yes, do it"))],
    ids=["its form passes", "by buttons"],
)
async def test_a_bridge_behind_the_proxy_is_an_agent_like_any(
    capabilities: Json, answer: Any
) -> None:
    """Both number their requests: neither takes the other's answers."""
    request = {"request": {"method": "elicitation/confirm", "params": {"message": "Sure?"}}}
    async with raw_client(
        "--",
        sys.executable,
        "-m",
        "abp_bridge",
        "serve",
        "--app",
        "demo",
        command=ACP,
        handler=answer,
    ) as client:
        await client.initialize(capabilities)
        session = await client.new()
        _, words = await client.prompt(session, f"/demo_ask {json.dumps(request)}")
        assert '"confirmed": true' in words.lower()


@pytest.mark.anyio
@pytest.mark.process
async def test_many_who_do_not_say_who_they_are_keep_nobody_out() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        (entry,) = json.loads(result["_meta"]["line"])["params"]["mcpServers"]
        before = descriptors(client.process.pid)
        with ExitStack() as strangers:
            for _ in range(60):
                strangers.enter_context(knocking(entry["args"][-1]))
            await play(client, result["sessionId"], *[{"say": "still here"}] * 20)
            assert descriptors(client.process.pid) <= before + 2 * MAX_UNAUTHENTICATED
        assert (await ask(client, result["sessionId"], "elicitation/confirm", message="Sure?"))[
            "data"
        ] == {"confirmed": True}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("says", "admission"), [(b"", 0.0), (b"x" * MAX_TOKEN, 600.0)], ids=["nothing", "no end"]
)
async def test_who_does_not_say_who_it_is_is_sent_away(
    says: bytes, admission: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "AUTHENTICATION_LIMIT", admission)
    async with inviting() as (address, _, _):
        with knocking(address) as stranger:
            stranger.sendall(says)
            await anyio.wait_readable(stranger)
            assert stranger.recv(1) == b""


@pytest.mark.anyio
async def test_a_connection_for_which_there_is_no_descriptor_leaves_none_behind(
    tmp_path: Path,
) -> None:
    with (
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_UNIX) as stranger,
        ExitStack() as filling,
    ):
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        stranger.connect(str(tmp_path / "s"))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[1]), limits[1]))
        try:
            occupy(filling, free_descriptors() - 1)
            with pytest.raises(OSError, match="Too many open files"):
                await accept(listening)
            assert free_descriptors() == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.anyio
async def test_when_an_agent_leaves_its_server_the_apps_are_told() -> None:
    async with inviting() as (address, token, closed):
        with knocking(address) as agent:
            agent.sendall(token.encode() + b"\n")
            await anyio.wait_readable(agent)
            assert agent.recv(1) == relay.WELCOME
            params = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "agent", "version": "1"},
            }
            agent.sendall(
                compact(
                    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
                ).encode()
                + b"\n"
            )
            agent.sendall(
                compact(
                    {
                        "jsonrpc": "2.0",
                        "id": 2,
                        "method": "tools/call",
                        "params": {"name": "abp_status"},
                    }
                ).encode()
                + b"\n"
            )
            heard = b""
            while heard.count(b"\n") < 2:
                await anyio.wait_readable(agent)
                heard += agent.recv(2**16)
        with anyio.fail_after(PATIENCE):
            await closed.wait()


@pytest.mark.anyio
@pytest.mark.process
async def test_what_a_killed_proxy_left_is_gone_with_the_next() -> None:
    with tempfile.TemporaryDirectory(prefix="left-") as folder:  # short enough for a socket's name
        await _kill_and_begin_again(Path(folder))


async def _kill_and_begin_again(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    (tmp_path / "abp-results").mkdir()  # somebody else's
    with (
        spawned("--app", "demo", "--", *AGENT, separated=False, env=env) as first,
        spawned("--app", "demo", "--", *AGENT, separated=False, env=env) as living,
    ):
        begin(first)
        firsts = set(tmp_path.glob("*/s"))
        begin(living)
        livings = set(tmp_path.glob("*/s")) - firsts
        first.kill()
        first.wait(PATIENCE)
        assert [len(firsts), len(livings)] == [1, 1]
        with spawned("--app", "demo", "--", *AGENT, separated=False, env=env) as second:
            begin(second)
            left = set(tmp_path.glob("*/s"))
            assert (len(left), left & (firsts | livings)) == (2, livings)
    assert (tmp_path / "abp-results").exists()


@asynccontextmanager
async def inviting() -> AsyncIterator[tuple[str, str, anyio.Event]]:
    """An injected server in this process: (its address, the token of its only session, what is set
    when its bridge is closed).
    """
    closed = anyio.Event()

    class Quiet:
        """A desk without apps."""

        def status(self) -> Json:
            return {}

        async def close(self, reason: str) -> None:
            closed.set()

    server = mcp_endpoint.McpEndpoint(
        lambda host, tasks: cast("Bridge", Quiet()),
        lambda connection, begin: McpSession(connection, begin, NoPage(), pending_timeout=1),
        modern=True,
    )
    connection = InjectedConnection(
        JsonRpcProtocol(), SharedWriter(Narrow()), on_message=lambda message: None
    ).connection
    session = ClientSession(ClientSurfaces(connection, {}, "s1", NoPage()))
    entry: Json = server.server_entry(session, [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        with anyio.fail_after(PATIENCE):
            yield entry["args"][-1], entry["env"][0]["value"], closed
        tasks.cancel_scope.cancel()


def knocking(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def free_descriptors() -> int:
    """How many more this process can open."""
    with ExitStack() as opened:
        return occupy(opened, 10_000)


def occupy(opened: ExitStack, count: int) -> int:
    """Open so many descriptors, or as many as there are: how many that was."""
    for number in range(count):
        try:
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return number
    return count
