"""`abp-bridge acp`: this process's stdio as an editor's connection to an agent of its own, from the
first byte to a quiet end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from abp_bridge.cli.serve import make_bridge, own_page, recording, watch
from abp_bridge.core.event import no_observer
from abp_bridge.core.sanitize import label
from abp_bridge.log import print_message, warn_if_interactive
from abp_bridge.rpc.stderr import Stderr
from abp_bridge.rpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.rpc.subprocess import Child, spawn
from abp_bridge.rpc.tap import unobserved_stream
from abp_bridge.settings import Settings

if TYPE_CHECKING:
    from abp_bridge.bridge.elicitor import Elicitor
    from abp_bridge.interfaces.host import Host, SessionApi
    from abp_bridge.interfaces.surface import PageServer
    from abp_bridge.proxies.acp.mcp_endpoint import McpEndpoint
    from abp_bridge.trace.recorder import Recorder

LAST_WORDS = 0.2  # seconds for the stderr of an agent that has ended
NO_PROGRAM = 127


def run(settings: Settings, command: Sequence[str]) -> int:
    """Run the agent `command` behind our stdio until either side ends or a signal comes.

    Returns its exit code where it ended by itself.
    """
    warn_if_interactive("an ACP editor")
    source, sink = take_over_stdio()
    return anyio.run(_serve, settings, command, source, sink)


async def _serve(
    settings: Settings, command: Sequence[str], source: StreamReader, sink: StreamWriter
) -> int:
    code = 0
    async with anyio.create_task_group() as signals:
        serving = anyio.CancelScope()
        await signals.start(watch, serving)
        with serving:
            async with anyio.create_task_group() as tasks:
                # Side by side, so that the apps and the agent end together.
                recorder = recording(settings, "acp")
                page = cache(lambda: own_page(tasks, recorder))
                injected = _injected(settings, page, recorder) if settings.apps else None
                if injected is not None:
                    tasks.start_soon(injected.run)
                code = await _behind(
                    settings,
                    command,
                    (source, sink),
                    injected=injected,
                    page=page,
                    tasks=tasks,
                    recorder=recorder,
                )
        signals.cancel_scope.cancel()
    return code


async def _behind(
    settings: Settings,
    command: Sequence[str],
    editor: tuple[StreamReader, StreamWriter],
    *,
    injected: McpEndpoint | None,
    page: Callable[[], PageServer],
    tasks: TaskGroup,
    recorder: Recorder | None,
) -> int:
    """Run the agent and carry the lines. Cancels `tasks` when they have ended."""
    aloud = Stderr()
    tasks.start_soon(aloud.run)
    try:
        async with spawn(command, overhear=aloud.say) as agent:
            from abp_bridge.proxies.acp.proxy import run_proxy  # while the agent starts

            ended = await run_proxy(
                editor if recorder is None else recorder.tap("host")(*editor),
                (unobserved_stream if recorder is None else recorder.tap("agent"))(
                    agent.stdout, agent.stdin
                ),
                prefix=f"abp-{os.urandom(4).hex()}-",
                agent_name=label(os.path.basename(command[0])) or "the agent",
                make_elicitor=lambda host: _asking(settings, host, page(), recorder),
                page=page(),
                endpoints=injected,
            )
            if ended == "agent":
                await _gone(agent)
            tasks.cancel_scope.cancel()
    except OSError as problem:
        print_message(f"the agent cannot be started: {problem}")
        tasks.cancel_scope.cancel()
        return NO_PROGRAM
    return _exit_code(agent, ended, command)


async def _gone(agent: Child) -> None:
    """It no longer speaks: let it end by itself, and its last words out."""
    with anyio.move_on_after(1):
        await agent.process.wait()
    with anyio.move_on_after(LAST_WORDS):
        await agent.heard.wait()


def _exit_code(agent: Child, ended: str, command: Sequence[str]) -> int:
    code = agent.process.returncode
    if code is None:
        return 0
    if ended == "agent":
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        print_message(f"the agent {command[0]} ended ({how}) before its editor did")
        return code if code >= 0 else 128 - code
    return max(code, 0)


# What is heavy loads when it is first needed.


def _asking(
    settings: Settings, host: Host, page: PageServer, recorder: Recorder | None
) -> Elicitor:
    from abp_bridge.bridge.elicitor import Elicitor
    from abp_bridge.cli.compose import make_providers

    observe = no_observer if recorder is None else recorder.observe
    return Elicitor(
        make_providers(settings, host, page),
        limit=settings.question_timeout,
        min_human_latency=settings.min_human_latency,
        observe=observe,
    )


def _injected(
    settings: Settings, page: Callable[[], PageServer], recorder: Recorder | None
) -> McpEndpoint:
    from abp_bridge.proxies.acp.mcp_endpoint import McpEndpoint

    def begin(host: Host, tasks: TaskGroup) -> SessionApi:
        return make_bridge(settings, host, page(), tasks, recorder)

    return McpEndpoint(
        begin,
        page,
        park=settings.park_timeout,
        patience=settings.host_tool_timeout,
        modern=settings.mcp_modern,
        ask_model=settings.ask_model,
        overheard=(lambda: unobserved_stream) if recorder is None else recorder.tools,
    )
