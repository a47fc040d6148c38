"""Reads a host's configuration, and what stands beside it, for `traps` to judge. Writes nothing."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from abp_bridge.core.json_value import JsonValue, as_object
from abp_bridge.setup.doctor.finding import Entry, HostFacts, SeenFile, mentions_us
from abp_bridge.setup.doctor.machine import host_path
from abp_bridge.setup.doctor.signs import ENABLEMENT
from abp_bridge.setup.entries import (
    Machine,
    Server,
    find_layout,
    list_entries,
    local_layout,
    locate,
    possible_files,
    read_server,
    repository_folder,
    user_files,
)
from abp_bridge.setup.file import ANOTHER, SetupError, is_there, read_content
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, LimitError, find_value
from abp_bridge.setup.hosts import (
    HOSTS,
    NAME,
    Files,
    FileScope,
    FormatName,
    Layout,
    Scope,
    SetupHost,
)

_SCOPES: Sequence[FileScope] = ("user", "project")
# host -> its files beside the one with the servers: of this person, and of a project
_GEMINI = ("$GEMINI_CLI_HOME/.gemini", "~/.gemini")
_BESIDE_USER: Mapping[str, Sequence[Files]] = {
    "claude": [Files(("$CLAUDE_CONFIG_DIR", "~/.claude"), ("settings.json",))],
    "gemini": [Files(_GEMINI, ("trustedFolders.json",)), Files(_GEMINI, (ENABLEMENT,))],
    "qwen": [Files(("$QWEN_HOME", "~/.qwen"), ("trustedFolders.json",))],
}
# host -> where others put its file, and it does not look
_MISTAKEN: Mapping[str, Files] = {
    "copilot": Files(
        ("$XDG_CONFIG_HOME", "$XDG_CONFIG_HOME/copilot", "~/.config/copilot"), ("mcp-config.json",)
    )
}
_BESIDE_PROJECT: Mapping[str, Sequence[str]] = {
    "claude": (".claude/settings.json", ".claude/settings.local.json")
}


def find_hosts(machine: Machine) -> list[SetupHost]:
    """Return the hosts configured here.

    A project file that several hosts read counts for the first, or for one with a user file too.
    """
    found, taken = [], set[Path]()
    for host in HOSTS.values():
        user, project = (locate(host, scope, machine) for scope in ("user", "project"))
        shared = project if project is not None and is_there(project) else None
        if (user is not None and is_there(user)) or (shared is not None and shared not in taken):
            found.append(host)
            taken |= {shared} if shared is not None else set()
    return found


def gather(host: SetupHost, machine: Machine) -> HostFacts:
    """What there is to see of a host."""
    folder = machine.folder.absolute()
    files, entries, names = list[SeenFile](), list[Entry](), set[str]()
    for scope in _SCOPES:
        path = locate(host, scope, machine)
        if path is None or any(each.path == str(path) for each in files):
            continue  # none, or the same: in the person's own folder a project's is theirs
        seen = _see_file(path, scope, host.format, host)
        files.append(seen)
        entries += _entries(host, seen, machine)
        names |= _names(host, seen, machine)
    above = (folder, *folder.parents)
    often = Counter(each.name for each in entries)
    return HostFacts(
        host=host,
        files=files,
        entries=[replace(each, shares_name=often[each.name] > 1) for each in entries],
        names=names,
        beside=_beside(host, machine),
        unread=list(_unread(host, machine, [each.path for each in files])),
        folders=[str(each) for each in above],
        root=str(next((each for each in above if os.path.exists(each / ".git")), folder)),
        repository=str(repository_folder(folder)),
        environ=machine.environ,
    )


def _see_file(
    path: Path, scope: FileScope, format: FormatName, host: SetupHost | None = None
) -> SeenFile:
    """A file; of the servers of `host`, also whether there is a place for ours."""
    try:
        content = read_content(path)
        if content is None:
            return SeenFile(scope, str(path), exists=False)
        document = Document(content, format)
    except (SetupError, LimitError) as problem:
        why = str(problem).removeprefix(f"{path} ").partition(f". {ANOTHER}")[0]
        return SeenFile(scope, str(path), obstacle=why)
    except FormatError as problem:
        return SeenFile(scope, str(path), problem=str(problem))
    obstacle = _find_obstacle(document, host) if host else ""
    return SeenFile(scope, str(path), document.value, obstacle=obstacle)


def _find_obstacle(document: Document, host: SetupHost) -> str:
    """Why `install` cannot have our entry there; empty where it can."""
    layout = find_layout(host, document.value)
    if layout is None:
        return ""
    path = (*layout.key, NAME)
    try:
        document.check(path)
    except FormatError as problem:
        return str(problem)
    there = document.find(path)
    return "" if there is None or isinstance(there, Mapping) else f'"{NAME}" is no object'


def _names(host: SetupHost, seen: SeenFile, machine: Machine) -> set[str]:
    local = local_layout(host, seen.value, machine) if seen.scope == "user" else None
    usual = find_layout(host, seen.value)
    return {each.name for each in list_entries(seen.value, usual, local)}


def _entries(host: SetupHost, seen: SeenFile, machine: Machine) -> Iterator[Entry]:
    value = seen.value
    layouts: list[tuple[Layout | None, bool, Scope]] = [
        (find_layout(host, value), False, seen.scope),
        (find_layout(host, value, agents=True), True, seen.scope),
    ]
    if seen.scope == "user":
        layouts.append((local_layout(host, value, machine), False, "local"))
    for layout, agent, scope in layouts:
        if layout is None:
            continue
        for name, entry in as_object(find_value(value, layout.key)).items():
            server = read_server(layout, name, entry)
            if server.own is not None or mentions_us(entry):
                found = _programs(host, server, machine)
                folder = layout.key[len(host.local)] if scope == "local" else ""
                ours = Entry(scope, seen.path, server, layout.shape, agent, *found)
                yield replace(ours, folder=folder)


def _programs(host: SetupHost, server: Server, machine: Machine) -> tuple[str | None, str | None]:
    if server.launch is None:
        return None, None
    command = server.launch.command
    path = server.launch.env.get("PATH") or host_path(host, machine.environ, machine.platform)
    return shutil.which(command, path=path), shutil.which(
        command, path=machine.environ.get("PATH", os.defpath)
    )


def _beside(host: SetupHost, machine: Machine) -> dict[str, JsonValue]:
    paths = [machine.folder.absolute() / each for each in _BESIDE_PROJECT.get(host.name, ())]
    for files in _BESIDE_USER.get(host.name, ()):
        paths += [*possible_files(files, machine)][:1]
    found: dict[str, JsonValue] = {}
    for path in paths:
        seen = _see_file(path, "user", "jsonc")
        if seen.value is not None:
            found[seen.path] = seen.value
    return found


def _unread(host: SetupHost, machine: Machine, read: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Where else the host's file might be: a variable, or its build, says that it is not."""
    places = (user_files(host, machine), _MISTAKEN.get(host.name))
    for path in dict.fromkeys(each for files in places for each in possible_files(files, machine)):
        if str(path) not in read:
            seen = _see_file(path, "user", host.format)
            if any(_entries(host, seen, machine)):
                yield str(path), f"it reads {read[0] if read else 'no other'}"
