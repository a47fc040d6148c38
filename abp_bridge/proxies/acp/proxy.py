"""One client and one agent, joined: which side ends first, and what is still carried then.

The lines go through `splice`, what becomes of them is the `Router`'s. Our own requests have ids
with a prefix that is a secret of this process: what answers them goes no further, however late it
is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import anyio

from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.proxies.acp import byte_edit
from abp_bridge.proxies.acp.agent_questions import AgentQuestions
from abp_bridge.proxies.acp.client_session import ElicitorApi
from abp_bridge.proxies.acp.multiplex import InjectedConnection, SharedWriter
from abp_bridge.proxies.acp.router import EndpointRegistry, Router
from abp_bridge.proxies.acp.sessions import SessionTable
from abp_bridge.proxies.acp.splice import splice
from abp_bridge.rpc.protocol import JsonRpcProtocol

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.interfaces.host import HostSurfaces
    from abp_bridge.interfaces.surface import Page
    from abp_bridge.rpc.connection import ByteReader, ByteWriter

# seconds an agent may go on speaking when its stdin is closed, or go without reading when its
# client has gone; clients kill us after two in all
DRAIN = 0.8

Side = Literal["client", "agent"]


async def run_proxy(
    client: tuple[ByteReader, ByteWriter],
    agent: tuple[ByteReader, ByteWriter],
    *,
    prefix: str,
    agent_name: str,
    make_elicitor: Callable[[HostSurfaces], ElicitorApi],
    page: Page,
    endpoints: EndpointRegistry | None,
) -> Side:
    """Carry lines between a client and its agent until one of them ends.

    What the agent still says after the client has ended is passed on, for at most `DRAIN` seconds.

    Args:
        client: What the client says, and what it reads.
        agent: The same of the agent.
        prefix: What the ids of our own requests begin with; nobody else may know it.
        agent_name: What the agent is called until it says so itself.
        make_elicitor: Makes who asks the agent's own questions of one session.
        page: The bridge's own page.
        endpoints: Makes the MCP servers that sessions are given; None without apps.

    Returns:
        Which side ended first.
    """
    to_client, to_agent = SharedWriter(client[1]), SharedWriter(agent[1])
    # What is fed to these was in memory already: no line is too long here.
    protocols = [JsonRpcProtocol(prefix, max_line=4 * byte_edit.LONGEST) for _ in range(2)]
    ended: Side = "agent"
    async with anyio.create_task_group() as tasks:
        injected = InjectedConnection(
            protocols[0],
            to_client,
            on_message=lambda message: None,
            cancel_request=acp.encode_cancel,
            source=client[0],
        )
        sessions = SessionTable(injected.connection, page, f"{prefix}ask-")
        questions = AgentQuestions(
            protocols[1],
            to_agent,
            sessions=sessions,
            make_elicitor=make_elicitor,
            tasks=tasks,
            agent_name=agent_name,
        )
        router = Router(prefix, injected, sessions, questions, endpoints)
        tasks.start_soon(injected.connection.run)
        tasks.start_soon(questions.run)
        carrier = _Carrier(client[0], to_client, agent[0], to_agent, injected, sessions, router)
        ended = await carrier.run(tasks)
        tasks.cancel_scope.cancel()
    return ended


@dataclass(slots=True)
class _Carrier:
    """The two directions, and which side ended first."""

    from_client: ByteReader
    to_client: SharedWriter
    from_agent: ByteReader
    to_agent: SharedWriter
    injected: InjectedConnection
    sessions: SessionTable
    router: Router
    draining: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: Side | None = None

    async def run(self, tasks: TaskGroup) -> Side:
        tasks.start_soon(self._carry_to_agent, tasks)
        with self.draining:
            await self._carry_to_client()
        return self.ended or "agent"

    async def _carry_to_agent(self, tasks: TaskGroup) -> None:
        try:
            with anyio.CancelScope() as carrying:
                tasks.start_soon(self._watch_client, carrying)
                await splice(self.from_client, self.to_agent, self.router.from_client)
            self.ended = self.ended or "client"
        except OSError:
            self.ended = self.ended or "agent"
        self.injected.close()
        self.to_agent.close_stream()
        self.draining.deadline = anyio.current_time() + DRAIN

    async def _watch_client(self, carrying: anyio.CancelScope) -> None:
        """A client's end is not read while its agent reads nothing: then what it still said is
        lost, and it ends all the same.
        """
        await self.from_client.wait_closed()
        forwarded = -1
        while forwarded != self.to_agent.forwarded:
            forwarded = self.to_agent.forwarded
            await anyio.sleep(DRAIN)
        carrying.cancel()

    async def _carry_to_client(self) -> None:
        try:
            await splice(
                self.from_agent, self.to_client, self.router.from_agent, self._on_agent_end
            )
        except OSError:
            self.ended = self.ended or "client"

    async def _on_agent_end(self) -> None:
        """The agent has gone: what is still asked goes too."""
        self.ended = self.ended or "agent"
        await self.sessions.end_prompts()
