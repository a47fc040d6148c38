"""`abp-bridge install --list`: the hosts, their files, and whether ours is in them."""

from __future__ import annotations

import json
import shutil

from abp_bridge.cli.output import print_text
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.sanitize import label, reveal
from abp_bridge.setup.entries import Server, find_layout, list_entries
from abp_bridge.setup.file import SetupError, is_there
from abp_bridge.setup.hosts import HOSTS, FileScope, SetupHost
from abp_bridge.setup.locate import Machine, local_layout, locate, read_value

WIDTH = 15  # of the longest name


def print_hosts(machine: Machine, *, as_json: bool) -> None:
    """A line for each host."""
    for host in HOSTS.values():
        about = describe(host, machine)
        if as_json:
            print_text(json.dumps(about) + "\n")
        else:
            where = f"{host.name:<{WIDTH}} {host.title}: {about['file']}"
            missing = f"; no {host.program} on the PATH" if about["here"] is False else ""
            print_text(reveal(f"{where} ({about['state']}{missing})\n"))


def describe(host: SetupHost, machine: Machine) -> JsonObject:
    """A host, whether its program is here (None where that is not known), its file, which
    entries of ours are in it, and which for this folder alone.
    """
    scope: FileScope = "user" if host.user else "project"
    file = locate(host, scope, machine)
    names: list[str] = []
    local: list[str] = []
    try:
        value = read_value(host, file)
        layouts = (find_layout(host, value, agents=agents) for agents in (False, True))
        names = _ours(list_entries(value, *layouts))
        local = _ours(list_entries(value, local_layout(host, value, machine)))
        state = "not there yet" if file is None or not is_there(file) else "without abp-bridge"
        shown = [*names, *(f"{each} for this folder alone" for each in local)]
        state = f"has {', '.join(shown)}" if shown else state
    except SetupError as problem:
        state = str(problem)
    here = shutil.which(host.program) is not None if host.program else None
    return {
        "host": host.name,
        "title": host.title,
        "file": str(file),
        "project": None if host.project is None else str(locate(host, "project", machine)),
        "ours": names,
        "oursInFolder": local,
        "here": here,
        "state": state,
    }


def _ours(servers: list[Server]) -> list[str]:
    return [label(each.name) for each in servers if each.own is not None]
