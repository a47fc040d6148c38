"""`abp-bridge acp`: this process's stdio as a client's connection to an agent of its own, from the
first byte to a quiet end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.compose import Composition
from abp_bridge.cli.runtime import add_setting_options, load_settings, signals_interrupt
from abp_bridge.core.sanitize import label
from abp_bridge.log import print_message, warn_if_interactive
from abp_bridge.rpc.arrival import OPTIONS
from abp_bridge.rpc.stderr import LAST_WORDS, Stderr
from abp_bridge.rpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.rpc.subprocess import Child, spawn

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup

    from abp_bridge.cli.runtime import Subparsers
    from abp_bridge.proxies.acp.mcp_endpoint import McpEndpoint
    from abp_bridge.settings import Settings

NO_PROGRAM = 127

DESCRIPTION = """\
Stands between an ACP client (Zed, JetBrains, acpx ...) and its agent. Give the client this
command where it has the agent's:

  abp-bridge acp --app https://app.example -- claude-agent-acp
  abp-bridge acp --app demo -- goose acp
  abp-bridge acp -- goose acp              no app: only the agent's own questions

- The agent gets the apps' tools. What an app asks while one runs, the client is asked, not the
  model.
- A client without forms is asked by buttons, at most four at a time. The agent's own forms too:
  it is told that forms are shown here.
- Everything else passes byte for byte, both ways.

The agent's stderr is ours, and so is its exit code.
"""


def add_parser(commands: Subparsers) -> None:
    """Add `acp`."""
    import argparse

    parser = commands.add_parser(
        "acp",
        help="an ACP agent with the apps' tools, for a client to launch in place of the agent",
        usage="abp-bridge acp [OPTION]... -- AGENT [ARGUMENT]...",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_setting_options(parser, "acp")
    parser.add_argument(
        "agent", nargs="+", metavar="AGENT", help="the agent's command and arguments, after --"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run an agent behind our stdio until either side ends or a signal comes.

    Returns its exit code where it ended by itself.
    """
    settings = load_settings(options)
    warn_if_interactive("an ACP client")
    return anyio.run(_serve, settings, options.agent, *take_over_stdio(), backend_options=OPTIONS)


async def _serve(
    settings: Settings, command: Sequence[str], source: StreamReader, sink: StreamWriter
) -> int:
    code = 0
    serving = anyio.CancelScope()
    async with signals_interrupt(lambda number: serving.cancel()):
        with serving:
            async with anyio.create_task_group() as tasks:
                # Side by side, so that the apps and the agent end together.
                composition = Composition(settings, "acp", tasks)
                endpoint = _make_endpoint(composition) if settings.apps else None
                if endpoint is not None:
                    tasks.start_soon(endpoint.run)
                code = await _carry(composition, command, (source, sink), endpoint, tasks)
                tasks.cancel_scope.cancel()
    return code


async def _carry(
    composition: Composition,
    command: Sequence[str],
    client: tuple[StreamReader, StreamWriter],
    endpoint: McpEndpoint | None,
    tasks: TaskGroup,
) -> int:
    """Run the agent and carry the lines until one side ends. Returns the exit code."""
    stderr = Stderr()
    tasks.start_soon(stderr.run)
    try:
        async with spawn(command, overhear=stderr.say) as agent:
            from abp_bridge.proxies.acp.proxy import run_proxy  # while the agent starts

            ended = await run_proxy(
                composition.tap("host")(*client),
                composition.tap("agent")(agent.stdout, agent.stdin),
                prefix=f"abp-{os.urandom(4).hex()}-",
                agent_name=label(os.path.basename(command[0])) or "the agent",
                make_elicitor=composition.make_elicitor,
                page=composition.page,
                endpoints=endpoint,
            )
            if ended == "agent":
                await _wait_for_end(agent)
            tasks.cancel_scope.cancel()
    except OSError as problem:
        print_message(f"the agent cannot be started: {problem}")
        return NO_PROGRAM
    finally:
        await stderr.close()
    return _exit_code(agent, ended, command)


async def _wait_for_end(agent: Child) -> None:
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
        print_message(f"the agent {command[0]} ended ({how}) before its client did")
        return code if code >= 0 else 128 - code
    return max(code, 0)


def _make_endpoint(composition: Composition) -> McpEndpoint:
    from abp_bridge.proxies.acp.mcp_endpoint import McpEndpoint

    return McpEndpoint(
        composition.make_bridge,
        composition.make_mcp_session,
        modern=composition.settings.mcp_modern,
        make_tap=composition.tap_tools,
    )
