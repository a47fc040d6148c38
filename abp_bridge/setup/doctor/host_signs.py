"""Traps of single hosts: Claude Code, Codex, Gemini CLI with Qwen Code, and fast-agent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_object,
    as_text,
    as_texts,
)
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import nearest
from abp_bridge.setup.doctor.finding import HostFacts, mentions_us
from abp_bridge.setup.entries import wrapped_command
from abp_bridge.setup.formats.text import find as find_value
from abp_bridge.setup.hosts import DISPLAY_VARIABLES


def _names(facts: HostFacts, name: str) -> set[str]:
    """The names that one of its settings has, wherever it keeps that."""
    user = facts.file("user")
    projects = as_object(as_object(user.value if user else None).get("projects"))
    places = [*facts.beside.values(), projects.get(facts.repository)]
    return {each for place in places for each in as_texts(as_object(place).get(name))}


def claude_pending(facts: HostFacts) -> Iterator[str]:
    """A project's servers that nobody has approved."""
    if any(
        as_object(each).get("enableAllProjectMcpServers") is True for each in facts.beside.values()
    ):
        return
    known = _names(facts, "enabledMcpjsonServers") | _names(facts, "disabledMcpjsonServers")
    for entry in facts.entries:
        if entry.scope == "project" and entry.name not in known:
            yield f'"{entry.name}" of {entry.file} waits for your approval.'


def claude_rejected(facts: HostFacts) -> Iterator[str]:
    """A project's servers that somebody has rejected."""
    rejected = _names(facts, "disabledMcpjsonServers")
    for entry in facts.entries:
        if entry.scope == "project" and entry.name in rejected:
            yield f'"{entry.name}" of {entry.file} is among disabledMcpjsonServers.'


def claude_disabled(facts: HostFacts) -> Iterator[str]:
    """Servers that its person switched off in this folder, by /mcp."""
    user = facts.file("user")
    projects = as_object(as_object(user.value if user else None).get("projects"))
    off = as_texts(as_object(projects.get(facts.repository)).get("disabledMcpServers"))
    for entry in facts.entries:
        if user is not None and entry.name in off:
            where = f"disabledMcpServers of {facts.repository} in {user.path}"
            yield f"{entry.shown} is among {where}: it is not started here."


def claude_settings(facts: HostFacts) -> Iterator[str]:
    """Servers in settings, where none are read."""
    for path, value in facts.beside.items():
        if names := [*as_object(as_object(value).get("mcpServers"))]:
            shown = label(", ".join(names))
            yield f"{path} has mcpServers ({shown}): Claude Code reads no servers there."


_TEXT, _WHOLE, _NUMBER, _TABLE = "text", "true or false", "a number", "a table"
_TEXTS, _VARIABLES, _COUNT = "a list of texts", "a table of texts", "a whole number"
_CODEX_KEYS: Mapping[str, str] = {
    "command": _TEXT,
    "args": _TEXTS,
    "cwd": _TEXT,
    "env": _VARIABLES,
    "env_vars": "a list",
    "enabled": _WHOLE,
    "required": _WHOLE,
    "startup_timeout_sec": _NUMBER,
    "startup_timeout_ms": _COUNT,
    "tool_timeout_sec": _NUMBER,
    "enabled_tools": _TEXTS,
    "disabled_tools": _TEXTS,
    "default_tools_approval_mode": "auto, prompt, writes or approve",
    "tools": _TABLE,
    "url": _TEXT,
    "http_headers": _TABLE,
    "env_http_headers": _TABLE,
    "bearer_token_env_var": _TEXT,
    "supports_parallel_tool_calls": _WHOLE,
    "experimental_environment": _TEXT,
    "oauth_resource": _TEXT,
    "scopes": _TEXTS,
}
_APPROVAL_MODES = ("auto", "prompt", "writes", "approve")


def _servers(facts: HostFacts) -> Iterator[tuple[str, JsonObject]]:
    for _, value in facts.values():
        for name, entry in as_object(value.get("mcp_servers")).items():
            yield name, as_object(entry)


def codex_misspelt(facts: HostFacts) -> Iterator[str]:
    """Keys that Codex passes over."""
    for entry in facts.entries:
        for key in entry.members:
            if key not in _CODEX_KEYS and (meant := nearest(key, _CODEX_KEYS)):
                yield f"{entry.shown} has {label(key)}, which is no key: is {meant} meant?"
    for file, value in facts.values():
        for key, members in value.items():
            ours = any(map(mentions_us, as_object(members).values()))  # as `wrong_key` says
            if key != "mcp_servers" and nearest(key, ("mcp_servers",), 0.8) and not ours:
                yield f"{file.path} has {label(key)}: is mcp_servers meant?"


def _fits(value: JsonValue, wanted: str) -> bool:
    if wanted == _TEXT:
        return isinstance(value, str)
    if wanted == _WHOLE:
        return isinstance(value, bool)
    if wanted == _NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if wanted == _COUNT:
        return as_count(value) is not None
    if wanted == _TEXTS:
        return isinstance(value, list) and len(as_texts(value)) == len(value)
    if wanted == _VARIABLES:
        return isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
    if wanted == _TABLE:
        return isinstance(value, Mapping)
    return isinstance(value, list) if wanted == "a list" else value in _APPROVAL_MODES


def codex_wrong_value(facts: HostFacts) -> Iterator[str]:
    """Values with which Codex does not start."""
    for name, entry in _servers(facts):
        if ("command" in entry) is ("url" in entry):
            both = "both command and url" if "url" in entry else "neither command nor url"
            yield f'"{label(name)}" has {both}.'
        for key, value in entry.items():
            wanted = _CODEX_KEYS.get(key)
            if wanted and not _fits(value, wanted):
                yield f'"{label(name)}": {key} is not {wanted}.'
    for file, value in facts.values():
        granular = as_object(as_object(value.get("approval_policy")).get("granular"))
        missing = [each for each in _GRANULAR if each not in granular]
        if granular and missing:
            yield f"{file.path}: approval_policy.granular lacks {', '.join(missing)}."


_GRANULAR = ("sandbox_approval", "rules", "mcp_elicitations")  # it does not start without one


def _policies(facts: HostFacts) -> Iterator[tuple[str, JsonValue]]:
    for file, value in facts.values():
        yield file.path, value.get("approval_policy")
        if chosen := as_text(value.get("profile")):
            profile = as_object(as_object(value.get("profiles")).get(chosen))
            yield f"{file.path} (profile {label(chosen, 40)})", profile.get("approval_policy")


def codex_never(facts: HostFacts) -> Iterator[str]:
    """Policies by which nobody is asked."""
    for where, policy in _policies(facts):
        if policy == "never":
            yield f'{where} has approval_policy = "never": Codex declines every question itself.'


def codex_granular(facts: HostFacts) -> Iterator[str]:
    """Granular policies by which no server asks."""
    for where, policy in _policies(facts):
        if as_object(as_object(policy).get("granular")).get("mcp_elicitations") is False:
            yield f"{where} has mcp_elicitations = false: Codex declines every question itself."


def codex_untrusted(facts: HostFacts) -> Iterator[str]:
    """A project's file that is not read."""
    file, user = facts.file("project"), facts.file("user")
    if file is None or not file.exists:
        return
    projects = as_object(as_object(user.value if user else None).get("projects"))
    levels = [
        as_object(projects.get(each)).get("trust_level") for each in (facts.folder, facts.root)
    ]
    if "trusted" not in levels and any(each.scope == "project" for each in facts.entries):
        yield f"{file.path} is not read: Codex does not trust {facts.folder}."


def codex_not_required(facts: HostFacts) -> Iterator[str]:
    """Servers that Codex does not wait for; one that we are put before is as it was."""
    for entry in facts.entries:
        is_wrapped = wrapped_command(entry.words) is not None
        is_required = is_wrapped or entry.members.get("required") is True
        if not is_required and entry.server.enabled:
            yield f"{entry.shown} is not required: Codex waits a second for it, then does without."


def codex_display(facts: HostFacts) -> Iterator[str]:
    """Servers that are kept from finding a browser."""
    needed = [each for each in DISPLAY_VARIABLES[:2] if facts.environ.get(each)]
    for entry in facts.entries if needed else ():
        given = {*as_texts(entry.members.get("env_vars")), *entry.env}
        if not given.intersection(DISPLAY_VARIABLES[:2]):
            neither = " nor ".join(DISPLAY_VARIABLES[:2])
            yield f"{entry.shown} gets neither {neither}: no page opens."


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


def gemini_untrusted_folder(facts: HostFacts) -> Iterator[str]:
    """A folder of which nobody has said that it is trusted."""
    if facts.entries and _asks_for_trust(facts) and not _trust(facts):
        yield f"{facts.host.title} does not know whether to trust {facts.folder}."


def gemini_distrusted_folder(facts: HostFacts) -> Iterator[str]:
    """A folder that is not trusted."""
    if facts.entries and _asks_for_trust(facts) and _trust(facts) == "DO_NOT_TRUST":
        yield f"{facts.folder} is one that {facts.host.title} was told not to trust."


def gemini_disabled(facts: HostFacts) -> Iterator[str]:
    """Servers that its person switched off, by /mcp."""
    for path, value in facts.beside.items():
        for entry in facts.entries if PurePath(path).name == ENABLEMENT else ():
            said = as_object(as_object(value).get(entry.name.lower().strip()))
            if said.get("enabled") is False:
                yield f"{entry.shown} is switched off in {path}: it is not started."


def gemini_not_allowed(facts: HostFacts) -> Iterator[str]:
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


_SILENT = {
    "auto-cancel": "it dismisses every question itself",
    "none": "it does not say that it can be asked",
}


def fast_agent_never(facts: HostFacts) -> Iterator[str]:
    """Modes by which nobody is asked."""
    for entry in facts.entries:
        mode = as_object(entry.members.get("elicitation")).get("mode")
        if isinstance(mode, str) and (then := _SILENT.get(mode)):
            yield f"{entry.shown} has elicitation.mode: {mode}, with which {then}."
