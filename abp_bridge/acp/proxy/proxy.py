"""One client and one agent, joined.

A `Carrier` carries the lines, and the `Router` edits them. Our own requests have ids with a secret
prefix: their responses go no further, however late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from abp_bridge.acp.proxy.agent_questions import AgentQuestions
from abp_bridge.acp.proxy.router import Router
from abp_bridge.acp.proxy.sessions import SessionTable
from abp_bridge.jsonrpc import byte_edit
from abp_bridge.jsonrpc.carrier import Carrier, Direction, Side
from abp_bridge.jsonrpc.multiplex import InjectedConnection, SharedWriter
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol
from abp_bridge.protocols.acp import v1 as acp

if TYPE_CHECKING:
    from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint
    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.session.host import HostSurfaces
    from abp_bridge.session.surface import ElicitorApi, Page


async def run_proxy(
    client: tuple[ByteReader, ByteWriter],
    agent: tuple[ByteReader, ByteWriter],
    *,
    prefix: str,
    agent_name: str,
    make_elicitor: Callable[[HostSurfaces], ElicitorApi],
    page: Page,
    endpoints: McpEndpoint | None,
) -> Side:
    """Carry lines between a client and its agent until one ends; return which ended first.

    The agent's remaining lines are passed on for at most `DRAIN` seconds.

    Args:
        client: The client's streams.
        agent: The agent's streams.
        prefix: The secret prefix of our own request ids.
        agent_name: The agent's name until it gives one.
        make_elicitor: Makes what puts the agent's questions of one session.
        page: The bridge's page.
        endpoints: Makes the MCP servers of sessions; None without apps.
    """
    to_client, to_agent = SharedWriter(client[1]), SharedWriter(agent[1])
    ended: Side = "program"
    async with anyio.create_task_group() as tasks:
        injected = _inject(client[0], to_client, prefix)
        sessions = SessionTable(injected.connection, page, f"{prefix}ask-")
        questions = AgentQuestions(
            _make_protocol(prefix, revealed=False),
            to_agent,
            sessions=sessions,
            make_elicitor=make_elicitor,
            tasks=tasks,
            agent_name=agent_name,
        )
        router = Router(injected, sessions, questions, endpoints)
        tasks.start_soon(injected.connection.run)
        tasks.start_soon(questions.run)

        def on_client_end() -> None:
            questions.end()
            injected.close()

        carrier = Carrier(
            Direction(client[0], to_agent, router.from_client),
            Direction(agent[0], to_client, router.from_agent),
            on_host_end=on_client_end,
            on_program_end=sessions.end_prompts,
        )
        try:
            ended = await carrier.carry_both(tasks)
        finally:
            questions.end()
        tasks.cancel_scope.cancel()
    return ended


def _make_protocol(prefix: str, *, revealed: bool) -> JsonRpcProtocol:
    """Return a protocol without a line limit: its input is already in memory."""
    return JsonRpcProtocol(prefix, max_line=4 * byte_edit.MAX_LINE, revealed=revealed)


def _inject(source: ByteReader, to_client: SharedWriter, prefix: str) -> InjectedConnection:
    """Return our own connection to the client, among the agent's lines."""
    return InjectedConnection(
        _make_protocol(prefix, revealed=True),
        to_client,
        on_message=lambda message: None,
        cancel_request=acp.encode_cancel,
        source=source,
        prefix=prefix,
    )
