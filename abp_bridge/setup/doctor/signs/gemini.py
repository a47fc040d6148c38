"""Traps of Gemini CLI, and of Qwen Code, which is made from it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from abp_bridge.core.json_value import (
    as_object,
    as_text,
    as_texts,
)
from abp_bridge.setup.doctor.facts import HostFacts
from abp_bridge.setup.formats.text import find as find_value

ENABLEMENT = "mcp-server-enablement.json"


def _trust(facts: HostFacts) -> str:
    """What the host's list says of this folder; empty where nothing."""
    best, level = "", ""
    for value in facts.beside.values():
        for path, said in as_object(value).items():
            above = path.rstrip("/\\")
            if said == "TRUST_PARENT":
                above = re.sub(r"[/\\][^/\\]*$", "", above)
            if above in facts.folders and len(path) > len(best):
                best, level = path, as_text(said)
    return level


def _asks_for_trust(facts: HostFacts) -> bool:
    """Whether it trusts only what its person named. Gemini CLI does unless it is told not to."""
    usual = facts.host.name == "gemini"
    user = facts.file("user")
    wanted = find_value(user.value if user else None, ("security", "folderTrust", "enabled"))
    by_variable = facts.environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true" and usual
    return (wanted if isinstance(wanted, bool) else usual) and not by_variable


def untrusted_folder(facts: HostFacts) -> Iterator[str]:
    """A folder of which nobody has said that it is trusted."""
    if facts.entries and _asks_for_trust(facts) and not _trust(facts):
        yield f"{facts.host.title} does not know whether to trust {facts.folder}."


def distrusted_folder(facts: HostFacts) -> Iterator[str]:
    """A folder that is not trusted."""
    if facts.entries and _asks_for_trust(facts) and _trust(facts) == "DO_NOT_TRUST":
        yield f"{facts.folder} is one that {facts.host.title} was told not to trust."


def disabled(facts: HostFacts) -> Iterator[str]:
    """Servers that its person switched off, by /mcp."""
    for path, value in facts.beside.items():
        for entry in facts.entries if PurePath(path).name == ENABLEMENT else ():
            said = as_object(as_object(value).get(entry.name.lower().strip()))
            if said.get("enabled") is False:
                yield f"{entry.shown} is switched off in {path}: it is not started."


def not_allowed(facts: HostFacts) -> Iterator[str]:
    """Servers that the settings keep from being started."""
    for file, value in facts.values():
        lists = as_object(value.get("mcp"))
        allowed, excluded = lists.get("allowed"), as_texts(lists.get("excluded"))
        for entry in facts.entries:
            if entry.name in excluded or (
                allowed is not None and entry.name not in as_texts(allowed)
            ):
                which = "mcp.excluded" if entry.name in excluded else "no mcp.allowed"
                yield f"{entry.shown} is in {which} of {file.path}: it is not started."
