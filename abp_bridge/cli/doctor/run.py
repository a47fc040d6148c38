"""`abp-bridge doctor`: what works between this machine, the hosts that are configured on it, and an
app; and the next step where something does not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.runtime import complain, run_until_signal
from abp_bridge.settings.targets import find_target_problem

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup

HELP = "what works between this machine, your hosts and an app, and what to do"
USAGE = "abp-bridge doctor [OPTION]... [HOST | TARGET]"
DESCRIPTION = """\
Looks at this machine and at each host that has a configuration here: what goes wrong in that
without a word, whether the host can start our server, and what its person can be asked.

  abp-bridge doctor                          this machine, and all hosts that are set up here
  abp-bridge doctor codex                    one host; 'abp-bridge install --list' has their names
  abp-bridge doctor http://localhost:3000    an app: whether it is reached, and what each host does
        with its questions
  abp-bridge doctor --json | jq '.sections[].findings[] | select(.cure != "")'

Our server is started as the host starts it (its command, arguments and variables, and no more of
the environment than that host passes on), greeted as the host greets it, and ended. Where the host
has a command that says whether servers work (claude mcp list, qwen mcp list ...), that is run too.
What the files of the project in this folder name is started
only with --project: look at them first. --files starts nothing. Nothing is written by us, and no
capability of an app is called.

Exit code: 1 where something has to be done, else 0; 2 where there is no such host or app.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what is looked at, and how it is told."""
    option = parser.add_argument
    option(
        "what",
        nargs="?",
        metavar="HOST | TARGET",
        help="a host, or an app; without it this machine and all hosts that are set up here",
    )
    option("--files", action="store_true", help="only read files: start nothing")
    option("--project", action="store_true", help="also start what this project's files name")
    option("--ask", action="store_true", help="ask you one question as well, where a bridge would")
    option("--json", action="store_true", help="one JSON object instead of words")


def run(options: argparse.Namespace) -> int:
    """Look, and say what was seen. Returns the exit code."""
    from abp_bridge.setup.hosts import HOSTS

    what = options.what
    host = HOSTS.get(what.lower()) if what else None
    if what and host is None and (wrong := _describe_wrong(what)):
        return complain(wrong, "doctor")
    has_processes = os.name == "posix"  # what starts and ends programs needs process groups
    if options.ask and not has_processes:
        return complain("--ask is for Linux and macOS; on Windows, inside WSL", "doctor")

    from abp_bridge.cli.doctor.examination import Examination
    from abp_bridge.setup.file import SetupError
    from abp_bridge.setup.locate import Machine

    try:
        machine = Machine()
    except SetupError as problem:
        return complain(problem, "doctor")

    target = what if host is None else None

    async def look(tasks: TaskGroup | None = None) -> int:
        wanted = Examination(
            machine,
            host,
            target,
            starts=has_processes and not options.files,
            asks=options.ask,
            project=options.project,
        )
        return await wanted.run(tasks, as_json=options.json)

    return anyio.run(run_until_signal, look) if has_processes else anyio.run(look)


def _describe_wrong(what: str) -> str:
    """Why a word is neither a host nor an app; empty where it is an app."""
    from abp_bridge.setup.hosts import HOSTS, nearest_host

    problem = find_target_problem(what)
    near = nearest_host(what) if problem else ""
    if near:
        return f"{what!r} is no host that is known here: is {near!r} meant?"
    if problem and not any(mark in what for mark in ":/. "):
        return f"{what!r} is no host that is known here: there are {', '.join(HOSTS)}"
    return problem
