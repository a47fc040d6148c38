"""Traps of Claude Code. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from abp_bridge.core.json_value import (
    as_object,
    as_texts,
)
from abp_bridge.core.sanitize import label
from abp_bridge.setup.doctor.facts import HostFacts


def _names(facts: HostFacts, name: str) -> set[str]:
    """The names that one of its settings has, wherever it keeps that."""
    user = facts.file("user")
    projects = as_object(as_object(user.value if user else None).get("projects"))
    places = [*facts.beside.values(), projects.get(facts.repository)]
    return {each for place in places for each in as_texts(as_object(place).get(name))}


def pending(facts: HostFacts) -> Iterator[str]:
    """A project's servers that nobody has approved."""
    if any(
        as_object(each).get("enableAllProjectMcpServers") is True for each in facts.beside.values()
    ):
        return
    known = _names(facts, "enabledMcpjsonServers") | _names(facts, "disabledMcpjsonServers")
    for entry in facts.entries:
        if entry.scope == "project" and entry.name not in known:
            yield f'"{entry.name}" of {entry.file} waits for your approval.'


def rejected(facts: HostFacts) -> Iterator[str]:
    """A project's servers that somebody has rejected."""
    rejected = _names(facts, "disabledMcpjsonServers")
    for entry in facts.entries:
        if entry.scope == "project" and entry.name in rejected:
            yield f'"{entry.name}" of {entry.file} is among disabledMcpjsonServers.'


def disabled(facts: HostFacts) -> Iterator[str]:
    """Servers that its person switched off in this folder, by /mcp."""
    user = facts.file("user")
    projects = as_object(as_object(user.value if user else None).get("projects"))
    off = as_texts(as_object(projects.get(facts.repository)).get("disabledMcpServers"))
    for entry in facts.entries:
        if user is not None and entry.name in off:
            where = f"disabledMcpServers of {facts.repository} in {user.path}"
            yield f"{entry.shown} is among {where}: it is not started here."


def settings(facts: HostFacts) -> Iterator[str]:
    """Servers in settings, where none are read."""
    for path, value in facts.beside.items():
        if names := [*as_object(as_object(value).get("mcpServers"))]:
            shown = label(", ".join(names))
            yield f"{path} has mcpServers ({shown}): Claude Code reads no servers there."
