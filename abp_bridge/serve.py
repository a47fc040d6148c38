"""`abp-bridge serve`: this process's stdio as a host connection, from the first byte to a quiet end within two seconds."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from abp_bridge.hosts.mcp.server import Handshake, McpServer, withdraw
from abp_bridge.settings import Settings
from abp_bridge.wire.jsonrpc import Peer
from abp_bridge.wire.link import Link
from abp_bridge.wire.stdio import Sink, Source, claim

if TYPE_CHECKING:
    from abp_bridge.bridge import Bridge
    from abp_bridge.hosts import Host
    from abp_bridge.hosts.mcp.session import McpSession

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(settings: Settings) -> int:
    """Serve until the host closes our stdin, stops reading, or sends a signal. Returns the exit code."""
    source, sink = claim()
    anyio.run(_serve, settings, source, sink)
    return 0


async def _serve(settings: Settings, source: Source, sink: Sink) -> None:
    bridges: list[Bridge] = []
    async with anyio.create_task_group() as signals, anyio.create_task_group() as tasks:
        serving = anyio.CancelScope()
        await signals.start(_watch, serving)

        def begin(link: Link, handshake: Handshake) -> McpSession:
            from abp_bridge.apps.targets import make_app
            from abp_bridge.bridge import Bridge
            from abp_bridge.hosts.mcp.session import McpSession

            def desk(host: Host) -> Bridge:
                bridges.append(Bridge(settings, host, tasks, lambda target, named: make_app(target, named, settings)))
                return bridges[0]

            return McpSession(link, handshake, desk)

        server = McpServer(begin, tasks)
        server.link = Link(Peer(), source, sink, on_message=server.on_message, withdraw=withdraw)
        with serving:
            await server.link.run()
        for bridge in bridges:
            await bridge.close("the host ended the session")
        tasks.cancel_scope.cancel()
        signals.cancel_scope.cancel()


async def _watch(serving: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    """The first signal ends the serving; later ones find it ending already (some hosts send SIGINT twice, then SIGTERM)."""
    with anyio.open_signal_receiver(*SIGNALS) as received:
        task_status.started()
        async for _ in received:
            serving.cancel()
