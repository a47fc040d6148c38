"""The MCP server that a proxied agent is given: who is let in to it, and what is left of it."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from support.acp_harness import FORM, accepting, pressing
from support.acp_harness import client as raw_client
from support.acp_proxy import ACP, AGENT, ask, begin, play, proxied, spawned
from support.harness import PATIENCE

from abp_bridge.acp.proxy import mcp_endpoint
from abp_bridge.acp.proxy.mcp_endpoint import MAX_TOKEN, MAX_UNAUTHENTICATED
from abp_bridge.jsonrpc.streams import accept

if TYPE_CHECKING:
    pass

Json = Any


@pytest.mark.process
async def test_relay_needs_the_token_of_its_session() -> None:
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


@pytest.mark.process
@pytest.mark.parametrize(
    ("capabilities", "answer"),
    [(FORM, accepting(confirmed=True)), (None, pressing("Yes, do it"))],
    ids=["its form passes", "by buttons"],
)
async def test_bridge_behind_the_proxy_works_like_any_agent(
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


@pytest.mark.process
async def test_many_unauthenticated_connections_do_not_block_the_agent() -> None:
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


@pytest.mark.parametrize(
    ("says", "limit"), [(b"", 0.0), (b"x" * MAX_TOKEN, 600.0)], ids=["nothing", "no end"]
)
async def test_stranger_is_disconnected(
    says: bytes, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "AUTHENTICATION_LIMIT", limit)
    async with proxied("--app", "demo") as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        (entry,) = json.loads(result["_meta"]["line"])["params"]["mcpServers"]
        with knocking(entry["args"][-1]) as stranger:
            if says:
                stranger.sendall(says)
            await anyio.wait_readable(stranger)
            assert stranger.recv(1) == b""


async def test_accept_without_a_free_descriptor_leaks_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as stranger:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        stranger.connect(str(tmp_path / "s"))
        monkeypatch.setattr(os, "dup", fail)
        with pytest.raises(OSError, match="Too many open files"):
            await accept(listening)
        assert stranger.recv(1) == b"", "the connection was closed"


@pytest.mark.process
async def test_socket_of_a_killed_proxy_is_removed_by_the_next() -> None:
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


def knocking(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
