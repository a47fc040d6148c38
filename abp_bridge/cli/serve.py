"""`abp-bridge serve`: this process's stdio as a host connection; ends within two seconds."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio

from abp_bridge.cli.compose import Composition
from abp_bridge.cli.options import load_session_settings
from abp_bridge.cli.refusal import translate_first
from abp_bridge.cli.runtime import give_up, signals_interrupt
from abp_bridge.core.json_value import JsonValue, as_object
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, JsonRpcConnection
from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.protocol import Id, JsonRpcProtocol, Notification, Request
from abp_bridge.jsonrpc.streams import take_over_stdio
from abp_bridge.log import print_message, warn_if_interactive
from abp_bridge.mcp.connection import McpConnection, encode_cancel
from abp_bridge.mcp.server import McpServer
from abp_bridge.settings.values import find_target_problem

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup

    from abp_bridge.abp.server import AbpServer
    from abp_bridge.acp.server import AcpServer
    from abp_bridge.acp.session import AcpSession
    from abp_bridge.cli.listen import Listener
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.host import Host
    from abp_bridge.settings import Settings

logger = logging.getLogger(__name__)

_OF_ABP = ("agent", "features")  # members of its `initialize` that no other protocol's has

HELP = "the bridge itself, on stdin and stdout, for an MCP host to launch"
DESCRIPTION = (
    "The stdio bridge: an MCP server (2024-11-05 to 2026-07-28), an ACP agent, or an"
    " ABP app, whichever its host speaks. Hosts launch it; it is not for typing at."
)


def describe_more(words: Sequence[str]) -> str:
    """What may be meant by words that no option takes."""
    from abp_bridge.core.redact.command import show_target

    return "" if find_target_problem(words[0]) else f"is --app {show_target(words[0])} meant?"


def run_serve(options: argparse.Namespace) -> int:
    """Serve until the host closes our stdin, stops reading, or sends a signal."""
    settings = load_session_settings(options)
    listener = None if settings.listen is None else _listen(settings.listen, settings)
    if listener is None:
        warn_if_interactive("an MCP host, an ACP client or an ABP agent")
    source, sink = take_over_stdio()
    anyio.run(_serve, settings, source, sink, listener, backend_options=OPTIONS)
    return 0


def _listen(port: int, settings: Settings) -> Listener:
    from abp_bridge.cli.listen import Listener

    try:
        listener = Listener(port, settings.listen_origins)
    except OSError as problem:
        from abp_bridge.surfaces.http import describe_failure

        give_up(describe_failure("the page for agents", problem, port, "--listen"))
    page, socket = (listener.address.format(path) for path in ("", "abp"))
    print_message(f"ABP agents are served at http://{page} and ws://{socket} until stdin ends")
    return listener


async def _serve(
    settings: Settings, source: ByteReader, sink: ByteWriter, listener: Listener | None
) -> None:
    serving = anyio.CancelScope()
    async with (
        signals_interrupt(lambda number: serving.cancel()),
        anyio.create_task_group() as tasks,
    ):
        composition = Composition(settings, "serve", tasks)
        hosts = Hosts(composition, tasks)
        if listener is not None:
            tasks.start_soon(listener.serve, hosts.attend)
        with serving:
            await hosts.attend(*composition.tap("host")(source, sink))
        await hosts.close()
        tasks.cancel_scope.cancel()


class Hosts:
    """The host connections of one process; `tasks` outlives them."""

    def __init__(self, composition: Composition, tasks: TaskGroup) -> None:
        self._composition = composition
        self._tasks = tasks
        self._open: set[ProtocolDetector] = set()

    async def attend(self, source: ByteReader, sink: ByteWriter) -> None:
        """Serve one until it ends. Where that is cancelled, its sessions end by `close`."""
        detector = ProtocolDetector(self._composition, source, sink, self._tasks)
        self._open.add(detector)
        await detector.connection.run()
        await detector.close()
        self._open.discard(detector)

    async def close(self) -> None:
        async with anyio.create_task_group() as closing:
            for detector in self._open:
                closing.start_soon(detector.close)


class ProtocolDetector:
    """A host connection whose first message decides its protocol.

    The `protocolVersion` of ACP's `initialize` is a number, that of MCP's a text; an ABP agent
    sends features or an envelope.
    """

    def __init__(
        self, composition: Composition, source: ByteReader, sink: ByteWriter, tasks: TaskGroup
    ) -> None:
        self.bridges: WeakSet[Bridge] = WeakSet()  # a session that is closed takes its own along
        self._encode_cancel = encode_cancel
        self._composition = composition
        self._tasks = tasks
        self._server: McpServer | AcpServer | AbpServer | None = None
        self._protocol = JsonRpcProtocol(revealed=True, inward=self._inward)
        self.connection = JsonRpcConnection(
            self._protocol,
            source,
            sink,
            on_message=self._on_message,
            cancel_request=self._cancel_request,
        )

    async def close(self) -> None:
        if isinstance(self._server, McpServer):
            self._server.close()
        async with anyio.create_task_group() as closing:
            for bridge in self.bridges:
                closing.start_soon(bridge.close, "the host ended the session")

    def _on_message(self, message: Request | Notification) -> None:
        if self._server is None:
            params = as_object(message.params)
            is_abp = "clientInfo" not in params and not params.keys().isdisjoint(_OF_ABP)
            is_abp = is_abp or message.method.startswith("capabilities/")
            is_acp = type(params.get("protocolVersion")) is int
            serve = self._serve_abp if is_abp else self._serve_mcp
            self._server = self._serve_acp() if is_acp else serve()
            if self._protocol.inward == self._inward:
                self._protocol.inward = None
            logger.info("the host's first message is %s", label(message.method, 80))
        self._server.on_message(message)

    def _inward(self, message: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return translate_first(self._protocol, message)

    def _cancel_request(self, id: Id, reason: str) -> tuple[str, JsonValue]:
        return self._encode_cancel(id, reason)

    def _serve_acp(self) -> AcpServer:
        from abp_bridge.acp.server import AcpServer
        from abp_bridge.acp.session import AcpSession
        from abp_bridge.protocols.acp import v1 as acp

        def begin(id: str, client: Mapping[str, JsonValue]) -> AcpSession:
            page, chat = self._composition.page, self._composition.settings.acp_chat
            return AcpSession(self.connection, id, client, page, self._bridge, chat=chat)

        self._encode_cancel = acp.encode_cancel
        return AcpServer(self.connection, begin, self._tasks)

    def _serve_abp(self) -> AbpServer:
        from abp_bridge.abp.server import AbpServer
        from abp_bridge.abp.session import AbpSession
        from abp_bridge.protocols.abp.agent import encode_withdrawal

        self._encode_cancel = encode_withdrawal
        self._protocol.exact_results = True
        return AbpServer(
            self.connection,
            lambda agent: AbpSession(self.connection, agent, self._bridge),
            self._tasks,
        )

    def _serve_mcp(self) -> McpServer:
        composition = self._composition
        return McpServer(
            McpConnection(self.connection, self._tasks, composition.make_tool_list()),
            lambda connection: composition.make_mcp_session(connection, self._bridge),
            modern=composition.settings.mcp_modern,
        )

    def _bridge(self, host: Host) -> Bridge:
        bridge = self._composition.make_bridge(host)
        self.bridges.add(bridge)
        return bridge
