"""`mcp.Client` on a bridge, and a referee that checks messages against `mcp_types`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.from_thread import BlockingPortal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import methods

from support import in_process, peer
from support.in_process import open_process
from support.peer import RpcPeer, read_lines

Json = Any

PATIENCE = peer.PATIENCE
SERVE = (sys.executable, "-m", "abp_bridge", "serve")
VERSIONS = ("2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH", "ABP_CHROME", "ABP_TOOL_CACHE", "NODE_COMPILE_CACHE")
ENVELOPE = "io.modelcontextprotocol/protocolVersion"


def environment(**more: str) -> dict[str, str]:
    """What a host gives its servers. As root, Chromium has no sandbox."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "ABP_CHROME_SANDBOX": "0", "ABP_PERSON_FLOOR": "0", **more}


def run(
    *arguments: str,
    cwd: Path | None = None,
    timeout: float = 4 * PATIENCE,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command of the bridge to its end, without a terminal; `env` are further variables."""
    command = [sys.executable, "-m", "abp_bridge", *arguments]
    if in_process.enabled:
        return subprocess.CompletedProcess(
            command, *in_process.run_command(arguments, cwd, stdin, env or {})
        )
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )


async def leave(context: Any) -> None:
    """Close a browser's context. Chromium does not always answer."""
    with anyio.move_on_after(PATIENCE / 3):
        await context.close()


class Wire(peer.Wire):
    """The wire of one MCP connection."""

    def check(self) -> None:
        """Each message of the bridge is valid for the version that is spoken."""
        version = "2025-11-25" if self.received("initialize") else MODERN
        asked: dict[Json, tuple[str, str]] = {}
        answered: set[Json] = set()
        for who, message in self.lines:
            if who == "host":
                if "method" in message and "id" in message:
                    meta = (message.get("params") or {}).get("_meta") or {}
                    spoken = MODERN if ENVELOPE in meta else version
                    asked[message["id"]] = message["method"], spoken
                continue
            assert message["jsonrpc"] == "2.0"
            if "method" in message and "id" in message:
                assert version != MODERN, "a modern host is sent no requests"
                methods.parse_server_request(message["method"], version, message.get("params"))
            elif "method" in message:
                methods.parse_server_notification(message["method"], version, message.get("params"))
            elif "result" in message:
                method, spoken = asked[message["id"]]
                if method == "initialize":
                    version = spoken = message["result"]["protocolVersion"]
                methods.validate_server_result(method, spoken, message["result"])
                assert message["id"] not in answered, f"{message['id']!r} was answered twice"
                answered.add(message["id"])
            else:
                types.JSONRPCError.model_validate(message)


class Pipes:
    """A transport for `mcp.Client` that records its wire; `version` overrules the client."""

    def __init__(
        self,
        command: Sequence[str],
        wire: Wire,
        *,
        env: Mapping[str, str],
        version: str | None = None,
    ) -> None:
        self._command = command
        self._wire = wire
        self._env = env
        self._version = version
        self.process: anyio.abc.Process | None = None
        self._stack: Any = None

    async def __aenter__(self) -> Any:
        self._stack = self._open()
        return await self._stack.__aenter__()

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stack.__aexit__(*problem)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Any]:
        inward_send, inward = anyio.create_memory_object_stream[SessionMessage | Exception](100)
        outward, outward_receive = anyio.create_memory_object_stream[SessionMessage](100)
        process = await open_process(self._command, env=self._env)
        self.process = process
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, inward_send)
            tasks.start_soon(self._write, process, outward_receive)
            try:
                yield inward, outward
            finally:
                with anyio.CancelScope(shield=True):
                    outward.close()
                    assert process.stdin is not None
                    await process.stdin.aclose()
                    with anyio.fail_after(PATIENCE):
                        await process.wait()
                tasks.cancel_scope.cancel()
                await process.aclose()

    async def _read(
        self, process: anyio.abc.Process, inward: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        async with inward:
            async for line in read_lines(process.stdout):
                self._wire.lines.append(("bridge", json.loads(line)))
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                with suppress(anyio.BrokenResourceError):  # a client that left: only recorded
                    await inward.send(SessionMessage(message))

    async def _write(
        self, process: anyio.abc.Process, outward: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        assert process.stdin is not None
        async with outward:
            async for item in outward:
                message = json.loads(
                    item.message.model_dump_json(by_alias=True, exclude_unset=True)
                )
                if self._version is not None and message.get("method") == "initialize":
                    message["params"]["protocolVersion"] = self._version
                self._wire.lines.append(("host", message))
                await process.stdin.send(json.dumps(message).encode() + b"\n")


Answer = Callable[[types.ElicitRequestFormParams], types.ElicitResult | types.ErrorData | None]


@dataclass
class Hosted:
    """A running bridge, its `mcp.Client`, and the record of their wire."""

    client: Client
    wire: Wire
    pipes: Pipes

    async def call(self, capability: str, **params: Json) -> types.CallToolResult:
        return await self.client.call_tool("abp_call", {"capability": capability, "params": params})

    async def ask(self, method: str, *, timeout: float | None = None, **params: Json) -> Json:
        request = {"method": method, "params": params} | (
            {} if timeout is None else {"timeout": timeout}
        )
        result = await self.call("demo.ask", request=request)
        assert not result.is_error, result
        return json.loads(text(result))

    async def status(self) -> Json:
        return json.loads(text(await self.client.call_tool("abp_status", {})))

    async def after_it_ended(self, answer: types.ElicitResult) -> types.ElicitResult:
        """`answer`, from a person who is too late: no question is open any more."""
        while (await self.status())["questions"]["open"]:
            await anyio.lowlevel.checkpoint()
        return answer


def text(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@asynccontextmanager
async def hosted(
    *arguments: str,
    answer: Callable[..., Any] | None = None,
    version: str | None = None,
    sampling: Callable[..., Any] | None = None,
    client_info: types.Implementation | None = None,
    env: Mapping[str, str] | None = None,
    shared: bool = False,
    **callbacks: Any,
) -> AsyncIterator[Hosted]:
    """Run a bridge with an `mcp.Client`.

    `answer(params)` is the user: a result, or None for never; may be async. `version` is a legacy
    one, MODERN, or "auto". With `shared`, only each call has a time limit (`call_from`).
    """

    async def elicit(context: Any, params: Any) -> Any:
        assert answer is not None
        given = answer(params)
        given = await given if hasattr(given, "__await__") else given
        if given is None:
            await anyio.sleep_forever()
        return given

    wire = Wire()
    legacy = version in (None, *VERSIONS)
    pipes = Pipes(
        [*SERVE, *arguments],
        wire,
        env=environment(**(env or {})),
        version=version if legacy else None,
    )
    client = Client(
        pipes,
        mode="legacy" if legacy else str(version),
        elicitation_callback=None if answer is None else elicit,
        sampling_callback=sampling,
        client_info=client_info,
        **callbacks,
    )
    with anyio.fail_after(PATIENCE * 2) as bound:
        async with client:
            if shared:
                bound.deadline = inf
            yield Hosted(client, wire, pipes)
    wire.check()


def call_from(portal: BlockingPortal, make: Callable[[], Awaitable[Any]]) -> Any:
    """What `make` comes to in the portal's loop, if it comes in time."""

    async def run() -> Any:
        with anyio.fail_after(PATIENCE * 2):
            return await make()

    return portal.call(run)


def accept(**content: Json) -> Callable[[Any], types.ElicitResult]:
    return lambda params: types.ElicitResult(action="accept", content=content)


def refuse(action: str) -> Callable[[Any], types.ElicitResult]:
    return lambda params: types.ElicitResult.model_validate({"action": action})


class RawHost(RpcPeer):
    """A host that writes what it likes: the bridge on blocking pipes, one JSON line at a time."""

    client: ClassVar[Json] = {"name": "raw", "version": "1"}

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = SERVE,
        cwd: Path | None = None,
        log: Path | None = None,
    ) -> None:
        super().__init__([*command, *arguments], env=environment(**(env or {})), cwd=cwd, log=log)

    def initialize(self, version: str = "2025-11-25", **capabilities: Json) -> Json:
        hello = {"protocolVersion": version, "capabilities": capabilities}
        answer = self.request("initialize", {**hello, "clientInfo": self.client})
        if "result" in answer:
            self.send("notifications/initialized")
        return answer

    def begin_call(self, tool: str, **arguments: Json) -> int:
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def text(self, id: int) -> str:
        return "\n".join(block.get("text", "") for block in self.response(id)["result"]["content"])
