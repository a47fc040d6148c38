"""Joins one host and one server: a `Carrier` carries the lines, the `Router` decides about them.

Our own requests to the host have ids with a secret prefix; their answers never reach the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

import anyio

from abp_bridge.jsonrpc import byte_edit
from abp_bridge.jsonrpc.carrier import DRAIN, Carrier, Direction, Side
from abp_bridge.jsonrpc.multiplex import InjectedConnection, SharedWriter
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol
from abp_bridge.mcp.connection import McpConnection, encode_cancel
from abp_bridge.mcp.proxy import handshake
from abp_bridge.mcp.proxy.approval import Approval
from abp_bridge.mcp.proxy.calls import Calls
from abp_bridge.mcp.proxy.keepalive import KeepaliveElicitor
from abp_bridge.mcp.proxy.router import Policy, Router
from abp_bridge.mcp.proxy.server_questions import ServerQuestions
from abp_bridge.mcp.proxy.url_elicitations import UrlElicitations

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question
    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.mcp.proxy.router import Policy
    from abp_bridge.session.context import AskContext
    from abp_bridge.session.surface import ElicitorApi


OnProgress = Callable[[Sequence[str], str], None]
MakeElicitor = Callable[["McpConnection", OnProgress], "ElicitorApi"]


class LazyElicitor:
    """Calls `make` at the first question; set it before that."""

    make: Callable[[], ElicitorApi]

    def __init__(self) -> None:
        self._made: ElicitorApi | None = None

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        """Resolve a question (`ElicitorApi.resolve`)."""
        self._made = self._made or self.make()
        return await self._made.resolve(question, context)


async def run_proxy(
    host: tuple[ByteReader, ByteWriter],
    server: tuple[ByteReader, ByteWriter],
    *,
    prefix: str,
    policy: Policy,
    make_elicitor: MakeElicitor,
) -> Side:
    """Carry lines until either side ends; return which.

    After the host's end the server's questions are cancelled, and its last lines pass for
    `carrier.DRAIN` seconds. After the server's end each open request gets an error.

    Args:
        prefix: Starts the ids of our own requests; secret.
        make_elicitor: Makes the elicitor at the first question.
    """
    to_host, to_server = SharedWriter(host[1]), SharedWriter(server[1])
    host_rpc, server_rpc = _inject(prefix, host[0], to_host, to_server)
    ended: Side = "program"
    errors = b""
    async with anyio.create_task_group() as tasks:
        router, questions = _make_router(
            host_rpc, server_rpc, to_server, tasks, policy=policy, make_elicitor=make_elicitor
        )
        ended = await _carry(
            Direction(host[0], to_server, router.from_host),
            Direction(server[0], to_host, router.from_server),
            questions,
            (host_rpc, server_rpc),
            tasks,
        )
        if ended == "program":
            errors = router.fail_open_requests(handshake.ending(await policy.ending()))
        tasks.cancel_scope.cancel()  # at once: nothing else answers what these do
    if errors:
        with suppress(OSError), anyio.move_on_after(DRAIN):
            await to_host.forward_apart(errors)
    return ended


def _make_router(
    host_rpc: InjectedConnection,
    server_rpc: InjectedConnection,
    to_server: SharedWriter,
    tasks: TaskGroup,
    *,
    policy: Policy,
    make_elicitor: MakeElicitor,
) -> tuple[Router, ServerQuestions]:
    connection = McpConnection(host_rpc.connection, tasks)
    lazy = LazyElicitor()
    elicitor = KeepaliveElicitor(lazy, connection, tasks)
    lazy.make = partial(make_elicitor, connection, elicitor.on_model_progress)
    calls, origin = Calls(), cache(policy.origin)
    questions = ServerQuestions(
        server_rpc.connection, to_server, elicitor=elicitor, calls=calls, tasks=tasks, origin=origin
    )
    router = Router(
        connection,
        host_rpc,
        server_rpc.connection,
        calls=calls,
        questions=questions,
        approval=Approval(elicitor, policy.confirm, origin, tasks),
        keepalive=elicitor,
        url_elicitations=UrlElicitations(elicitor, tasks, origin),
        policy=policy,
    )
    return router, questions


async def _carry(
    to_program: Direction,
    from_program: Direction,
    questions: ServerQuestions,
    ours: tuple[InjectedConnection, InjectedConnection],
    tasks: TaskGroup,
) -> Side:
    """Carry lines and run `ours` until one side ends; cancel questions before the server hears of
    it.
    """

    def on_host_end() -> None:
        questions.cancel_all()
        ours[0].close()

    async def on_server_end() -> None:
        questions.cancel_all()

    carrier = Carrier(
        to_program, from_program, on_host_end=on_host_end, on_program_end=on_server_end
    )
    for each in ours:
        tasks.start_soon(each.connection.run)
    try:
        return await carrier.carry_both(tasks)
    finally:
        questions.cancel_all()


def _inject(
    prefix: str, host: ByteReader, to_host: SharedWriter, to_server: SharedWriter
) -> tuple[InjectedConnection, InjectedConnection]:
    """Return our own connections inside the streams of host and server."""
    # What is fed to these was in memory already: no line is too long here.
    of_host, of_server = (
        JsonRpcProtocol(prefix, max_line=4 * byte_edit.MAX_LINE, revealed=revealed)
        for revealed in (True, False)
    )
    injected = InjectedConnection(
        of_host,
        to_host,
        prefix=prefix,
        on_message=lambda message: None,
        cancel_request=encode_cancel,
        source=host,
    )
    return injected, InjectedConnection(of_server, to_server, on_message=lambda message: None)
