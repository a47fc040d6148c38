"""What tests of `abp-bridge acp` need: a raw client, the proxy, and an agent that plays the steps
in its prompts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from support.acp_harness import Client, never
from support.acp_harness import client as raw_client
from support.harness import PATIENCE, environment
from support.paths import APPS

Json = Any


def compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


ACP = (sys.executable, "-m", "abp_bridge", "acp")


AGENT = (sys.executable, str(APPS / "acp_agent.py"))


def initialize(capabilities: Json = None, version: int = 1) -> bytes:
    params = {
        "protocolVersion": version,
        "clientInfo": {"name": "raw", "version": "1"},
        "clientCapabilities": capabilities or {},
    }
    return (
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
        + b"\n"
    )


def form(message: str = "Well?", required: list[str] | None = None, **properties: Json) -> Json:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return {"elicit": {"mode": "form", "message": message, "requestedSchema": schema}}


CONFIRM = form(ok={"type": "boolean"})
YES, NO = "Well", "No, do not"  # its answers: a yes is named by what is asked


@asynccontextmanager
async def proxied(
    *arguments: str, handler: Any = never, env: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    """A client on a proxy with the fake agent behind it."""
    async with raw_client(
        *arguments, "--", *AGENT, command=ACP, handler=handler, env=env
    ) as client:
        yield client


async def opened(client: Client, capabilities: Json = None, name: str = "raw") -> str:
    await client.initialize(capabilities, name)
    return await client.new()


async def play(client: Client, session: str, *steps: Json) -> list[Json]:
    """One turn: what the agent says came of each step."""
    stopped, _ = await client.prompt(session, json.dumps(steps))
    assert stopped == "end_turn"
    return said_in(client, session)[-len(steps) :]


def said_in(client: Client, session: str) -> list[Json]:
    return [
        json.loads(update["content"]["text"])
        for update in client.wire.updates("agent_message_chunk", session)
    ]


async def ask(client: Client, session: str, method: str, **params: Json) -> Json:
    """Have the agent have the demo app ask one thing: the ABP response it got."""
    arguments = {
        "capability": "demo.ask",
        "params": {"request": {"method": method, "params": params}},
    }
    (said,) = await play(client, session, {"call": "abp_call", "arguments": arguments})
    return json.loads(said["text"])


@contextmanager
def spawned(
    *command: str, separated: bool = True, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A proxy on plain pipes, ended whatever happens."""
    arguments = ["--", *command] if separated else command
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*ACP, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=environment(**(env or {}))
    )
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        with process:
            yield process
            process.kill()
    finally:
        watchdog.cancel()


def write(proxy: subprocess.Popen[bytes], message: Json) -> None:
    assert proxy.stdin is not None
    proxy.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    proxy.stdin.flush()


def begin(proxy: subprocess.Popen[bytes]) -> None:
    """Initialised, with a session that is called s1."""
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    proxy.stdin.write(initialize())
    write(proxy, {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}})
    while json.loads(proxy.stdout.readline())["id"] != 1:
        pass
