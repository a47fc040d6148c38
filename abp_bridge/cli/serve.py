"""`abp-bridge serve`: this process's stdio as a host connection, from the first byte to a quiet end
within two seconds.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup, TaskStatus

from abp_bridge.hosts.mcp.connection import McpConnection
from abp_bridge.hosts.mcp.errors import encode_cancel
from abp_bridge.hosts.mcp.server import McpServer
from abp_bridge.log import warn_if_interactive
from abp_bridge.rpc.connection import JsonRpcConnection
from abp_bridge.rpc.protocol import Id, JsonRpcProtocol, Notification, Request
from abp_bridge.rpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.rpc.tap import unobserved_stream
from abp_bridge.settings import Settings

if TYPE_CHECKING:
    from abp_bridge.bridge import Bridge
    from abp_bridge.hosts.acp.server import AcpServer
    from abp_bridge.hosts.acp.session import AcpSession
    from abp_bridge.hosts.mcp.session import McpSession
    from abp_bridge.interfaces.host import Host
    from abp_bridge.interfaces.surface import PageServer
    from abp_bridge.trace.recorder import Recorder

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(settings: Settings) -> int:
    """Serve until the host closes our stdin, stops reading, or sends a signal.

    Returns the exit code.
    """
    warn_if_interactive("an MCP host or an ACP client")
    source, sink = take_over_stdio()
    anyio.run(_serve, settings, source, sink)
    return 0


async def _serve(settings: Settings, source: StreamReader, sink: StreamWriter) -> None:
    async with anyio.create_task_group() as signals, anyio.create_task_group() as tasks:
        serving = anyio.CancelScope()
        await signals.start(watch, serving)
        recorder = recording(settings, "serve")
        door = ProtocolDetector(settings, tasks, recorder)
        overheard = unobserved_stream if recorder is None else recorder.tap("host")
        door.link = JsonRpcConnection(
            JsonRpcProtocol(),
            *overheard(source, sink),
            on_message=door.on_message,
            cancel_request=door.cancel_request,
        )
        with serving:
            await door.link.run()
        async with anyio.create_task_group() as closing:
            for bridge in door.bridges:
                closing.start_soon(bridge.close, "the host ended the session")
        tasks.cancel_scope.cancel()
        signals.cancel_scope.cancel()


class ProtocolDetector:
    """Lets the first message decide who is there: an ACP client's `initialize` has a whole number
    for a version, an MCP host's has words.
    """

    def __init__(
        self, settings: Settings, tasks: TaskGroup, recorder: Recorder | None = None
    ) -> None:
        self.link: JsonRpcConnection
        self.bridges: WeakSet[Bridge] = WeakSet()  # a session that is closed takes its own along
        self._withdraw = encode_cancel
        self._settings = settings
        self._tasks = tasks
        self._recorder = recorder
        self._page: PageServer | None = None
        self._face: McpServer | AcpServer | None = None

    def on_message(self, message: Request | Notification) -> None:
        if self._face is None:
            params = message.params if isinstance(message.params, dict) else {}
            self._face = self._acp() if type(params.get("protocolVersion")) is int else self._mcp()
        self._face.on_message(message)

    def cancel_request(self, id: Id, reason: str) -> tuple[str, Any]:
        """See `JsonRpcConnection`: each protocol has its own words for it."""
        return self._withdraw(id, reason)

    def _acp(self) -> AcpServer:
        from abp_bridge.hosts.acp.server import AcpServer
        from abp_bridge.protocols.acp import v1 as acp

        self._withdraw = acp.encode_cancel
        return AcpServer(self.link, self._acp_session, self._tasks, draft=self._settings.acp_draft)

    def _acp_session(self, id: str, client: Mapping[str, Any]) -> AcpSession:
        from abp_bridge.hosts.acp.session import AcpSession

        return AcpSession(self.link, id, client, self._own_page(), self._bridge)

    def _mcp(self) -> McpServer:
        connection = McpConnection(self.link, self._tasks)
        return McpServer(connection, self._mcp_session, modern=self._settings.mcp_modern)

    def _mcp_session(self, connection: McpConnection) -> McpSession:
        from abp_bridge.hosts.mcp.session import McpSession

        return McpSession(
            connection,
            self._bridge,
            self._own_page(),
            park=self._settings.park_timeout,
            patience=self._settings.host_tool_timeout,
            ask_model=self._settings.ask_model,
        )

    def _own_page(self) -> PageServer:
        self._page = self._page or own_page(self._tasks, self._recorder)
        return self._page

    def _bridge(self, host: Host) -> Bridge:
        bridge = make_bridge(self._settings, host, self._own_page(), self._tasks, self._recorder)
        self.bridges.add(bridge)
        return bridge


# What is heavy loads when it is first needed.


def own_page(tasks: TaskGroup, recorder: Recorder | None) -> PageServer:
    """The bridge's own page, recorded where there is a recorder."""
    from abp_bridge.surfaces.page.surface import LazyPageServer

    if recorder is None:
        return LazyPageServer(tasks)
    from abp_bridge.trace.recorded_apps import RecordedPage

    return RecordedPage(LazyPageServer(tasks), recorder)


def make_bridge(
    settings: Settings, host: Host, page: PageServer, tasks: TaskGroup, recorder: Recorder | None
) -> Bridge:
    """A session of `host`, recorded where there is a recorder."""
    from abp_bridge.apps.targets import make_app
    from abp_bridge.bridge import Bridge
    from abp_bridge.cli.compose import make_providers

    providers = make_providers(settings, host, page)
    if recorder is None:
        return Bridge(
            settings,
            host,
            tasks,
            lambda target, named: make_app(target, named, settings),
            providers=providers,
        )
    from abp_bridge.trace.recorded_apps import record_app

    return Bridge(
        settings,
        host,
        tasks,
        lambda target, named: record_app(target, named, settings, recorder),
        providers=providers,
        observe=recorder.observe,
    )


def recording(settings: Settings, command: str) -> Recorder | None:
    """Who writes down what is said, if anybody is to."""
    if settings.record is None:
        return None
    from abp_bridge.trace.recorder import Recorder

    return Recorder(settings.record, settings, command)


async def watch(serving: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    """The first signal ends the serving; later ones find it ending already (some hosts send SIGINT
    twice, then SIGTERM).
    """
    with anyio.open_signal_receiver(*SIGNALS) as received:
        task_status.started()
        try:
            async for _ in received:
                serving.cancel()
        finally:
            signal.pthread_sigmask(
                signal.SIG_BLOCK, {signal.SIGINT}
            )  # everything has ended; Python would speak of it on stderr
