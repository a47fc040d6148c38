"""Which entry of which file is meant on the command line, and what that file has there now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abp_bridge.setup.entries import Server, find_layout, read_server
from abp_bridge.setup.errors import SetupError
from abp_bridge.setup.file import ConfigFile, read
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.hosts import HOSTS, Layout, SetupHost, nearest_host
from abp_bridge.setup.locate import Machine, Scope, locate, parse

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Place:
    """The servers, or the agents, of a host in one file.

    Attributes:
        host: Whose file it is.
        file: As it was read.
        document: What it says.
        layout: Where the entries are.
        scope: Whether it is the person's, or a project's.
        agents: They are agents: asked for, or the host has nothing else in a file.
        by_host: The host itself has to write it: it does so all the time.
    """

    host: SetupHost
    file: ConfigFile
    document: Document
    layout: Layout
    scope: Scope
    agents: bool
    by_host: bool

    def find(self, name: str) -> Server | None:
        """The entry of this name. Raises SetupError where there is something else, and FormatError
        where it is not clear what there is.
        """
        path = (*self.layout.key, name)
        self.document.check(path)
        entry = self.document.find(path)
        if entry is None:
            return None
        if not isinstance(entry, dict):
            raise SetupError(
                f'{self.file.path} has something at "{name}" that is no server: take it out first'
            )
        return read_server(self.layout, name, entry)

    def names(self) -> list[str]:
        """The names of all entries."""
        entries = self.document.find(self.layout.key)
        return list(entries) if isinstance(entries, dict) else []


def find_host(word: str) -> SetupHost:
    """The host of this name. Raises SetupError."""
    if found := HOSTS.get(word.lower()):
        return found
    near = nearest_host(word)
    meant = f"is {near!r} meant?" if near else f"there are {', '.join(HOSTS)}."
    raise SetupError(
        f"{word!r} is no host that is known here: {meant} Another one that reads"
        " mcpServers from a JSON file: 'mcp-json --file FILE'"
    )


def find_place(
    options: argparse.Namespace, machine: Machine, *, agents: bool, reads: bool = True
) -> Place:
    """The place that the options name, as if there were no file where none is read. Raises
    SetupError.
    """
    host = find_host(options.host)
    agents = agents or not host.layouts
    usual = find_layout(host, {}, agents=agents)
    if usual is None:
        raise SetupError(f"{host.title} starts no agents from a file")
    scope: Scope = "project" if options.project or not host.user else "user"
    path = Path(options.file).absolute() if options.file else locate(host, scope, machine)
    if path is None:
        raise SetupError(f"{host.title} has no file for a project: leave out --project")
    file = read(path) if reads else ConfigFile(path, path, None)
    document = parse(host, path, file.content or b"")
    layout = find_layout(host, document.value, agents=agents) or usual
    by_host = bool(host.add) and scope == "user" and not options.file
    return Place(host, file, document, layout, scope, agents, by_host)
