"""`abp-bridge acp`: carry stdio between a client and the agent that this process starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.compose import Composition
from abp_bridge.cli.options import load_session_settings
from abp_bridge.cli.program import run_program
from abp_bridge.cli.runtime import give_up, signals_interrupt
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.log import warn_if_interactive

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup

    from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint
    from abp_bridge.acp.proxy.proxy import Side
    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.jsonrpc.stderr import Stderr
    from abp_bridge.jsonrpc.subprocess import Child
    from abp_bridge.settings import Settings

HELP = "an ACP agent with the apps' tools, for a client to launch in place of the agent"
USAGE = "abp-bridge acp [OPTION]... -- AGENT [ARGUMENT]..."
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
- Everything else passes value for value, both ways.

The agent's stderr is ours, and so is its exit code. What it prints on stdout that is not a message
goes to stderr.
"""


def add_acp_options(parser: argparse.ArgumentParser) -> None:
    """Add the command of the agent."""
    parser.add_argument(
        "agent", nargs="*", metavar="AGENT", help="the agent's command and arguments, after --"
    )


def run_acp(options: argparse.Namespace) -> int:
    """Run an agent behind our stdio until either side ends or a signal comes."""
    if not options.agent:
        give_up("the agent's command is missing, as in: abp-bridge acp --app demo -- goose acp")
    settings = load_session_settings(options)
    warn_if_interactive("an ACP client")
    return anyio.run(_serve, settings, options.agent, *take_over_stdio(), backend_options=OPTIONS)


async def _serve(
    settings: Settings, command: Sequence[str], source: StreamReader, sink: StreamWriter
) -> int:
    code = 0
    serving = anyio.CancelScope()
    async with (
        signals_interrupt(lambda number: serving.cancel()),
        anyio.create_task_group() as tasks,
    ):
        composition = Composition(settings, "acp", tasks)
        endpoint = _make_endpoint(composition) if settings.apps else None
        if endpoint is not None:
            tasks.start_soon(endpoint.run)
        carry = partial(
            _carry,
            composition,
            (source, sink),
            program=command[0],
            endpoint=endpoint,
            tasks=tasks,
        )
        with serving:
            async with anyio.create_task_group() as running:
                code = await run_program(
                    command,
                    ("agent", "client"),
                    running,
                    carry,
                    partial(_refuse, composition.tap("host")(source, sink), command),
                )
        if endpoint is not None:
            await endpoint.close()
        tasks.cancel_scope.cancel()
    return code


async def _carry(
    composition: Composition,
    client: tuple[StreamReader, StreamWriter],
    agent: Child,
    stderr: Stderr,
    *,
    program: str,
    endpoint: McpEndpoint | None,
    tasks: TaskGroup,
) -> Side:
    """Pass messages until either side ends; then close the apps in `tasks`."""
    from abp_bridge.acp.proxy.proxy import Proxy  # while the agent starts
    from abp_bridge.jsonrpc.protocol import load_fast_codec

    load_fast_codec()
    try:
        proxy = Proxy(
            composition.tap("host")(*client),
            composition.tap("agent")(agent.stdout, agent.stdin),
            prefix=f"abp-{os.urandom(4).hex()}-",
            agent_name=label(os.path.basename(program)) or "the agent",
            make_elicitor=composition.make_elicitor,
            page=composition.page,
            endpoints=endpoint,
            on_noise=stderr.say,
        )
        return await proxy.run()
    finally:
        if endpoint is not None:
            tasks.start_soon(endpoint.close)


async def _refuse(client: tuple[ByteReader, ByteWriter], command: Sequence[str], why: str) -> None:
    """Answer what the client asks of an agent that is not there with an error."""
    from abp_bridge.cli.refusal import refuse
    from abp_bridge.core.redact.command import show_command

    words = (
        f"abp-bridge acp: the agent ({show_command(command)}) cannot be started: {why}. Mend its"
        " command in the client's configuration, the words after --."
    )
    await refuse(*client, words)


def _make_endpoint(composition: Composition) -> McpEndpoint:
    from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint

    return McpEndpoint(
        composition.make_bridge,
        composition.make_mcp_session,
        modern=composition.settings.mcp_modern,
        make_tap=composition.tap_tools,
        make_tools=composition.make_tool_list,
    )
