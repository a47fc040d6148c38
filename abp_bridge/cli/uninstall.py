"""`abp-bridge uninstall`: a host's configuration without us."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from abp_bridge.cli.host_file import Place, Proposal, carry_out, find_place
from abp_bridge.cli.install import (
    AGENT_NAME,
    add_consent_options,
    add_place_options,
    find_originals,
    find_server,
    is_behind_us,
    keep_originals,
)
from abp_bridge.cli.runtime import complain
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.setup import change
from abp_bridge.setup.entries import (
    Machine,
    additions,
    find_unwrapped,
    is_only_wrapped,
    understanding,
)
from abp_bridge.setup.file import SetupError, read_backup
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.hosts import NAME

if TYPE_CHECKING:
    import argparse

HELP = "take abp-bridge out of a host's configuration again"
USAGE = """\
abp-bridge uninstall HOST [--name NAME] [OPTION]...
       abp-bridge uninstall HOST --wrap NAME [OPTION]..."""
DESCRIPTION = """\
Takes out what 'abp-bridge install' wrote:

  abp-bridge uninstall codex                  our entry, and what came with it
  abp-bridge uninstall codex --wrap mongodb   the server stays, and is started without us

Where nothing else has changed in the file since, it is afterwards what it was before, to the byte.
Else what is ours is taken out and all else stays; you are told what could not be known. The change
is shown first, and you are asked; off a terminal nothing is written without --yes.
"""
MISSING = "name a host: 'abp-bridge install --list' has them, and where we are in them"


def add_uninstall_options(parser: argparse.ArgumentParser) -> None:
    """Add what is taken out of where."""
    option = parser.add_argument
    option("host", metavar="HOST", help="a name of 'abp-bridge install --list'")
    option("--wrap", metavar="NAME", help="a server that is to be started without us again")
    option("--agent", action="store_true", help="our entry among the agents of an editor")
    option("--name", metavar="NAME", help=f"of the entry (default: {NAME}, of an agent's ABP)")
    add_place_options(parser)
    add_consent_options(parser)


def run_uninstall(options: argparse.Namespace) -> int:
    """Show a change and make it. Returns the exit code."""
    try:
        place = find_place(options, Machine(), agents=options.agent)
        name = options.name or (AGENT_NAME if place.agents else NAME)
        with understanding(place.file.path):
            proposal = (
                _unwrap(place, options.wrap) if options.wrap else _uninstall(place, name, options)
            )
        return carry_out(proposal, options)
    except AbpBridgeError as problem:
        return complain(problem, "uninstall")


def _uninstall(place: Place, name: str, options: argparse.Namespace) -> Proposal:
    server = place.find_entry(name)
    before = place.file.content
    if server is None or before is None:
        wrapped = tuple(_wrapped(place, options))
        return Proposal(place, name, change.Change(before, before), None, notes=wrapped)
    if server.own is None:
        more = "".join(f". {each}" for each in place.namesakes(name)).removesuffix(".")
        raise SetupError(f'"{name}" in {place.where} is not abp-bridge: it stays{more}')
    path, backup = (*place.layout.key, name), read_backup(place.file)
    made = change.uninstall(place.host.format, before, path, backup)
    restores = made.keeps_backup
    made = keep_originals(place, made, backup)
    commands = ((*place.remove_command, name),) if place.by_host else ()
    notes = [*place.namesakes(name, goes=True)]
    if not made.exact and not commands:
        notes.append("The file has changed since: blanks and line ends may differ from before.")
    if is_behind_us(server) and made.after != backup:
        notes.append(f"The server behind abp-bridge goes too: --wrap {name} keeps it.")
    return Proposal(
        place,
        name,
        made,
        None,
        commands,
        tuple(notes),
        restores=restores,
        is_theirs=is_behind_us(server),
    )


def _wrapped(place: Place, options: argparse.Namespace) -> Iterator[str]:
    """What takes us out before each server that stays, a sentence each."""
    where = ["--agent"] if options.agent else []
    where += ["--project"] if options.project else []
    where += ["--file", options.file] if options.file else []
    for server in filter(is_behind_us, place.servers()):
        words = ["abp-bridge", "uninstall", place.host.name, "--wrap", server.name, *where]
        cure = shlex.join(words)
        if place.is_hidden(server):
            cure = f"where no other has its name, {cure}"
        yield f'"{label(server.name)}" goes through abp-bridge: {cure}'


def _unwrap(place: Place, name: str) -> Proposal:
    server = find_server(place, name)
    before = place.file.content or b""
    members = find_unwrapped(place.layout.shape, server)
    if members is None:
        same = change.Change(before, before)
        others = tuple(place.namesakes(name))
        return Proposal(place, name, same, server.entry, notes=others, is_theirs=True)
    added = additions(place.host, place.layout.shape, {"": ""})
    backup = read_backup(place.file)
    shape = place.layout.shape
    originals = [
        now
        for earlier, now in find_originals(place, backup)
        if is_only_wrapped(place.host, shape, earlier, now)
    ]
    made = change.unwrap(
        place.host.format,
        before,
        server,
        members,
        added=added,
        backup=backup,
        originals=originals,
    )
    restores = made.keeps_backup and made.after == backup
    made = keep_originals(place, made, backup)
    entry = Document(made.after or b"", place.host.format).find(server.path)
    notes = [*place.namesakes(name)]
    if made.left:
        notes.append(f"What install may have added stays: {', '.join(made.left)}.")
    if made.keeps_backup and not restores:
        kept = place.file.backup.name
        notes.append(f"What the file was before --wrap stays in {kept}.")
    commands: tuple[tuple[str, ...], ...] = ()
    if place.by_host:
        add = (*place.add_command, name, json.dumps(entry))
        commands = ((*place.remove_command, name), add)
    return Proposal(
        place,
        name,
        made,
        entry,
        commands,
        tuple(notes),
        restores=restores,
        is_theirs=True,
    )
