"""`abp-bridge install`: the bridge, a server behind it or an agent behind it, in a host's own
configuration.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from abp_bridge.cli.install.entry import (
    propose_entry,
    propose_wrapping,
    split_command,
    write_snippet,
)
from abp_bridge.cli.install.listing import print_hosts
from abp_bridge.cli.install.place import find_place
from abp_bridge.cli.install.proposal import Proposal, carry_out
from abp_bridge.cli.output import stdout_encoding
from abp_bridge.cli.runtime import argument_type, complain
from abp_bridge.core.redact.command import HIDDEN
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.log import print_message
from abp_bridge.settings import SettingsError, describe_removed, misspelt, read_values
from abp_bridge.settings.targets import find_target_problem
from abp_bridge.setup.file import SetupError
from abp_bridge.setup.hosts import NAME
from abp_bridge.setup.locate import Machine, understanding

if TYPE_CHECKING:
    import argparse

NOT_HERE = (
    "what a host would start runs on Linux and macOS only; on Windows, inside WSL. --print prints"
    " the entry all the same."
)
HIDDEN_HERE = f"'{HIDDEN}' stands for what may be secret: put in what stands there in your file"
HELP = "abp-bridge in a host's own configuration, or before a server or an agent of it"
USAGE = """\
abp-bridge install HOST [--app TARGET]... [OPTION]...
       abp-bridge install HOST --name NAME [OPTION]... -- SERVER [ARGUMENT]...
       abp-bridge install HOST --wrap NAME [OPTION]...
       abp-bridge install HOST --agent COMMAND [OPTION]...
       abp-bridge install --list [--json]"""
DESCRIPTION = """\
Writes into the configuration of a host (Codex, Goose, Claude Code, VS Code, Zed ...) how it
launches abp-bridge, as that host wants it:

  abp-bridge install codex                  your agent can connect apps, and ask you: in the host
        where it shows questions, else on a page in your browser
  abp-bridge install codex --app demo       the same, with an app
  abp-bridge install codex --wrap mongodb   its server "mongodb" goes through abp-bridge mcp from
        now on, so that what it asks reaches you; 'uninstall codex --wrap mongodb' takes us out
  abp-bridge install codex --name db -- npx -y mongodb-mcp-server  one that is not there yet
  abp-bridge install zed --agent claude-agent-acp  before an agent that the editor starts

- The change is shown first, and you are asked; off a terminal nothing is written without --yes.
- All else in the file stays, to the byte. What it was lies beside it, in a file whose name ends in
  .before-abp-bridge; 'abp-bridge uninstall HOST' goes back.
- What you change in our entry is yours: a second install touches only what it is told. Apps stay
  without --app, and go where others are named.
- A file that is not understood, or that has another server of that name, is left alone.
- Exits with 0 where the entry is there afterwards, with 1 where it was only shown or you said no,
  and with 2 where it cannot be.
"""
BEHIND = "server"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what is installed where."""
    option = parser.add_argument
    option("host", nargs="?", metavar="HOST", help="a name of --list")
    option("--app", action="append", default=[], metavar="TARGET", help="an app; may be repeated")
    what = parser.add_mutually_exclusive_group().add_argument
    what("--wrap", metavar="NAME", help="have this server of the host go through abp-bridge mcp")
    what("--agent", metavar="COMMAND", help="an ACP agent, which we are put before")
    option("--name", metavar="NAME", help=f"of the entry (default: {NAME}, of an agent's ABP)")
    add_place_options(parser)
    option(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=argument_type(_read_variable),
        help="a variable that it is started with, as ABP_PAGE=open; may be repeated",
    )
    option(
        "--approve",
        action="store_true",
        help="the host calls its tools without asking you first, where it can be told that",
    )
    option("--print", action="store_true", help="print what to put in by hand, and write nothing")
    add_consent_options(parser)
    option("--list", action="store_true", help="the hosts, their files, and where we are in them")


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add which file of the host is meant."""
    option = parser.add_argument
    option("--project", action="store_true", help="the file of the project in this folder")
    option("--file", metavar="FILE", help="this file, in place of the host's usual one")


def add_consent_options(parser: argparse.ArgumentParser) -> None:
    """Add who is asked, and how it is told."""
    option = parser.add_argument
    option("--yes", action="store_true", help="do it without asking")
    option("--json", action="store_true", help="one JSON object instead of words; asks nothing")


def run(options: argparse.Namespace) -> int:
    """Show a change and make it, or list the hosts. Returns the exit code."""
    if os.name != "posix" and not (options.print or options.list):
        return complain(NOT_HERE, "install")
    try:
        machine = Machine()
        if options.list:
            print_hosts(machine, as_json=options.json)
            return 0
        if options.host is None:
            raise SetupError("name a host: 'abp-bridge install --list' has them")
        _check(options)
        proposal = _propose(options, machine)
        if options.print:
            _print_before(proposal)
            if proposal.is_theirs and proposal.shown_entry != proposal.entry:
                print_message(HIDDEN_HERE)
            sys.stdout.write(write_snippet(proposal, stdout_encoding()))
            return 0
        return carry_out(proposal, options)
    except AbpBridgeError as problem:
        return complain(problem, "install")


def _propose(options: argparse.Namespace, machine: Machine) -> Proposal:
    """What is asked for; what is only to be printed, also where the file cannot be changed. Raises
    SetupError.
    """
    propose = propose_wrapping if options.wrap else propose_entry
    agents = options.agent is not None
    try:
        place = find_place(options, machine, agents=agents)
        with understanding(place.file.path):
            return propose(place, options)
    except SetupError as problem:
        if options.wrap or not options.print:
            raise
        place = find_place(options, machine, agents=agents, reads=False)
        proposal = propose(place, options)
        print_message(f"this is for an empty file: {problem}")
        return proposal


def _print_before(proposal: Proposal) -> None:
    """What a person should know before they run the host's own command."""
    place = proposal.place
    if place.folder:
        print_message(f"this is for {label(place.folder, 200)} alone: run it in this folder")
    if place.by_host and place.find(proposal.name) is not None:
        first = shlex.join((*place.remove, proposal.name))
        print_message(f"one of this name is there: {first} comes first")


def _read_variable(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"{name!r} must be NAME=VALUE, as in ABP_PAGE=open")
    return name, value


def _check(options: argparse.Namespace) -> None:
    """Raises SetupError for what does not go together, or names nothing."""
    words = (*options.app, *options.server, options.agent or "", *dict(options.env).values())
    if any("\ud800" <= letter <= "\udfff" for letter in "".join(words)):
        raise SetupError("a word is no UTF-8, which no host's file can hold")
    for problem in filter(None, map(find_target_problem, options.app)):
        raise SetupError(f"--app {problem}")
    _check_settings(dict(options.env))
    if options.server and not options.name:
        raise SetupError(
            "--name says what the server is called there, as in: abp-bridge install codex --name"
            f" db -- {shlex.join(options.server)}"
        )
    if options.server and (options.wrap or options.agent):
        raise SetupError("a server after -- goes with neither --wrap nor --agent")
    if options.app and (options.server or options.wrap):
        raise SetupError("--app is for the bridge itself, or with --agent: a server has no apps")
    if options.name and not _NAME.fullmatch(options.name):
        raise SetupError(f"--name {options.name!r} must be letters, digits, - and _: hosts want so")
    if options.agent is not None and not split_command(options.agent):
        raise SetupError("--agent wants a command, as in: --agent claude-agent-acp")


def _check_settings(env: Mapping[str, str]) -> None:
    """Raises SetupError for a setting that the bridge would not start with, or not know."""
    for removed in filter(None, map(describe_removed, env)):
        raise SetupError(f"--env {removed}")
    for name, meant in misspelt(env):
        raise SetupError(f"--env {name} is no setting: is {meant} meant?")
    try:
        read_values(env, {})
    except SettingsError as problem:
        raise SetupError(f"--env {problem}") from None
