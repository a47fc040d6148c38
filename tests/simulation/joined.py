"""`abp-bridge mcp` on a virtual clock: what is behind and in front of it are pipes in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
import anyio.to_thread

from abp_bridge.jsonrpc.tap import unobserved_stream
from abp_bridge.mcp.proxy.proxy import Policy, run_proxy
from abp_bridge.settings import read_settings

from .page import Page
from .person import Person
from .virtual_loop import VirtualLoop, run_here
from .wires import Pipe, ReadEnd, Weather
from .world import SimulatedComposition

Json = Any
ResultT = TypeVar("ResultT")

CALM = Weather()


@dataclass
class ServerPipes:
    """What the bridge has of a server."""

    stdout: ReadEnd
    stdin: Pipe


def run_virtual(work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run `work` on a virtual clock."""
    return anyio.run(work, backend_options={"loop_factory": VirtualLoop})


@asynccontextmanager
async def joined(
    start_server: Callable[[Pipe, Pipe], object],
    *,
    rng: Random | None = None,
    weather: Weather = CALM,
    overhear: Callable[[bytes], object] = lambda line: None,
    confirm: Sequence[str] = (),
) -> AsyncIterator[tuple[Pipe, Pipe, anyio.Event]]:
    """Run the bridge; yield the host's pipes (from the bridge, to it), and its end.

    Args:
        start_server: Gets the pipes (to the server, from it) at each start.
        overhear: Gets lines of the server that are no messages.
        confirm: The tools that need approval.
    """
    rng = rng or Random(0)
    to_host, from_host = Pipe(rng, weather), Pipe(rng, weather)
    ended = anyio.Event()

    @asynccontextmanager
    async def open_pipes() -> AsyncIterator[ServerPipes]:
        to_server, from_server = Pipe(rng, weather), Pipe(rng, weather)
        start_server(to_server, from_server)
        try:
            yield ServerPipes(ReadEnd(from_server), to_server)
        finally:
            to_server.close()
            from_server.cut()

    async def run() -> None:
        settings = read_settings({"ABP_PERSON_FLOOR": "0"}, page="off")
        async with anyio.create_task_group() as surfaces:
            composition = SimulatedComposition(
                settings,
                "mcp",
                surfaces,
                page=Page(Person(rng, ignores=0), None),
                on_bridge=lambda bridge: None,
                on_elicitor=lambda elicitor: None,
            )
            with patch.object(anyio.to_thread, "run_sync", run_here):
                await run_proxy(
                    (ReadEnd(from_host), to_host),
                    open_pipes,
                    policy=Policy(lambda: "simulated", lambda host, asks: "", overhear, confirm),
                    make_elicitor=composition.make_mcp_elicitor,
                    tap_server=unobserved_stream,
                )
            surfaces.cancel_scope.cancel()
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        yield to_host, from_host, ended
        from_host.close()
        await ended.wait()
