"""Which entry of which file is meant on the command line, and what that file has there now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import as_object
from abp_bridge.core.sanitize import label
from abp_bridge.setup.entries import Server, find_layout, list_entries, read_server
from abp_bridge.setup.file import ConfigFile, SetupError, read
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import find
from abp_bridge.setup.hosts import (
    HOSTS,
    NAME,
    FileScope,
    Layout,
    Scope,
    SetupHost,
    nearest_host,
)
from abp_bridge.setup.locate import Machine, local_layout, locate, parse, read_value

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
        others: Where the same file has more: of the person, or of this folder alone.
        scope: Whether it is the person's, or a project's, or the person's for this folder alone.
        agents: They are agents: asked for, or the host has nothing else in a file.
        by_host: The host itself has to write it: it does so all the time.
        hidden_by: For which folder alone the person's own file has an entry of the name that is
            meant, which goes before a project's there; empty where it has none.
    """

    host: SetupHost
    file: ConfigFile
    document: Document
    layout: Layout
    others: Layout | None
    scope: Scope
    agents: bool
    by_host: bool
    hidden_by: str = ""

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
                f'{self.where} has something at "{name}" that is no server: take it out first'
            )
        return read_server(self.layout, name, entry)

    def names(self) -> list[str]:
        """The names of all entries."""
        keys = (each.key for each in (self.layout, self.others) if each is not None)
        return list(dict.fromkeys(x for key in keys for x in as_object(self.document.find(key))))

    def servers(self) -> list[Server]:
        """All entries; what is none is left out."""
        return list_entries(self.document.value, self.layout, self.others)

    def is_hidden(self, server: Server) -> bool:
        """Whether another entry of its name goes before it in this folder."""
        local = self.layout if self.scope == "local" else self.others
        if local is None or server.path[:-1] == local.key:
            return False
        return self.document.find((*local.key, server.name)) is not None

    @property
    def folder(self) -> str:
        """The folder for which it is alone; empty where it is for all."""
        return self.layout.key[len(self.host.local)] if self.scope == "local" else ""

    @property
    def where(self) -> str:
        """Its file, and for which folder alone it is there."""
        file = self.file.path
        return f"{file} (for {label(self.folder, 200)} alone)" if self.folder else f"{file}"

    def namesakes(self, name: str, *, goes: bool = False) -> Iterator[str]:
        """What a person should know of another entry of this name, for all folders; `goes` says
        that this one is taken out.
        """
        there = self.others.key if self.folder and self.others is not None else None
        if there is not None and self.document.find((*there, name)) is not None:
            yield f'Another "{label(name)}", for all folders, stays: it counts ' + (
                "here now, and the same again is for that one."
                if goes
                else "where there is no other, and is changed in such a folder."
            )
        if self.hidden_by and not goes:
            folder = label(self.hidden_by, 200)
            yield f'Your own "{label(name)}" for {folder} alone goes before this one there.'

    @property
    def add(self) -> tuple[str, ...]:
        """The host's command that adds an entry here (`SetupHost.add`)."""
        return tuple(word.format(scope=self.scope) for word in self.host.add)

    @property
    def remove(self) -> tuple[str, ...]:
        """The host's command that removes one (`SetupHost.remove`)."""
        return tuple(word.format(scope=self.scope) for word in self.host.remove)


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
    """The place that the options name, as if there were no file where none is read: of a person's
    file that of this folder alone, where the name is there, as it goes before the other. Raises
    SetupError.
    """
    host = find_host(options.host)
    agents = agents or not host.layouts
    usual = find_layout(host, {}, agents=agents)
    if usual is None:
        raise SetupError(f"{host.title} starts no agents from a file")
    of_file: FileScope = "project" if options.project or not host.user else "user"
    path = Path(options.file).absolute() if options.file else locate(host, of_file, machine)
    if path is None:
        raise SetupError(f"{host.title} has no file for a project: leave out --project")
    file = read(path) if reads else ConfigFile(path, path, None)
    document = parse(host, path, file.content or b"")
    layout = find_layout(host, document.value, agents=agents) or usual
    is_theirs = of_file == "user" and not options.file
    by_host = bool(host.add) and is_theirs
    local = local_layout(host, document.value, machine) if is_theirs and not agents else None
    if local is not None and find(document.value, (*local.key, _wanted_name(options))) is not None:
        return Place(host, file, document, local, layout, "local", agents, by_host)
    hidden_by = "" if of_file == "user" or options.file else _find_local(host, options, machine)
    return Place(host, file, document, layout, local, of_file, agents, by_host, hidden_by)


def _find_local(host: SetupHost, options: argparse.Namespace, machine: Machine) -> str:
    """For which folder alone the person's file has the entry that is meant; empty where none."""
    try:
        value = read_value(host, locate(host, "user", machine) if host.local else None)
    except SetupError:  # it is not the file that is meant, and Claude Code says it itself
        return ""
    local = local_layout(host, value, machine)
    if local is None or find(value, (*local.key, _wanted_name(options))) is None:
        return ""
    return local.key[len(host.local)]


def _wanted_name(options: argparse.Namespace) -> str:
    return options.wrap or options.name or NAME
