"""What of a recording says nothing of its conversation: goodbyes, what is only looked at, what
hosts and agents tell of themselves. Pure.

What stays can still be played: where the bridge passes something on, both are left out, or neither.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from abp_bridge.replay.placeholders import ANY
from abp_bridge.replay.shutdown import Key, key
from abp_bridge.trace.format import AGENT, BRIDGE, HOST, TOOLS, Entry, is_request, is_response

Json = Any

# What a host only looks at: it can be left out of a conversation without changing it.
_LOOKING = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping")

# What MCP itself puts into `_meta`. The rest of it are a host's own notes: its sessions, its turns,
# its folders.
_META = ("progressToken", "traceparent", "tracestate", "baggage")
_META_PREFIX = "io.modelcontextprotocol/"

# What an agent tells of itself: as updates, and as members of its results.
_ASIDES = {
    "available_commands_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
}
_OF_ITSELF = {"configOptions", "models", "usage", "quota"}


def without_noise(entries: Sequence[Entry], *, looking: bool = False) -> list[Entry]:
    """What matters, in the same order; with `looking`, also what a host only lists."""
    kept = [each for each in entries if each.kind != "event"]
    for leave_out in (
        _without_echoes,
        _without_goodbye,
        _without_asides if looking else _without_looking,
        _without_asides,
    ):
        kept = leave_out(kept)
    return _shortened(kept)


def _without_echoes(entries: list[Entry]) -> list[Entry]:
    """Not that the bridge ends what it says to somebody who has ended already."""
    gone: set[str] = set()
    kept: list[Entry] = []
    for each in entries:
        if each.kind == "closed" and not each.ours:
            gone.add(each.party)
        elif each.ours and each.kind == "message":
            gone.discard(each.party)  # it has started again
        if not (each.kind == "closed" and each.ours and each.party in gone):
            kept.append(each)
    return kept


def _without_goodbye(entries: list[Entry]) -> list[Entry]:
    """Not the end of it all: whoever replays says goodbye himself."""
    last = max(
        (
            place
            for place, each in enumerate(entries)
            if each.kind != "closed" and each.party == HOST
        ),
        default=-1,
    )
    after = [
        (place, each)
        for place, each in enumerate(entries[last + 1 :], last + 1)
        if each.kind != "closed"
    ]
    asked = {
        key(each.party, each.value["id"])
        for _, each in after
        if is_request(each.value) and each.value["method"] == "shutdown"
    }
    ended = next(
        (
            place
            for place, each in enumerate(entries)
            if each.kind == "closed" and each.sender == HOST
        ),
        len(entries),
    )
    if ended < last:
        return [each for each in entries if not (each.kind == "closed" and each.sender == BRIDGE)]
    kept = entries[: last + 1] + [
        each for place, each in after if not _is_goodbye(each, asked) and place < ended
    ]
    return [each for each in kept if not (each.kind == "closed" and each.party == HOST)]


def _is_goodbye(entry: Entry, asked: Collection[Key]) -> bool:
    message = entry.value
    if not isinstance(message, Mapping):
        return False
    return message.get("method") == "shutdown" or (
        is_response(message) and key(entry.party, message.get("id")) in asked
    )


def _without_looking(entries: list[Entry]) -> list[Entry]:
    asked = [each for each in entries if _calls(each.sender) and is_request(each.value)]
    looking = {
        key(each.party, each.value["id"]) for each in asked if each.value["method"] in _LOOKING
    }

    def looks(entry: Entry) -> bool:
        said = (_calls(entry.sender) and is_request(entry.value)) or (
            _calls(entry.to) and is_response(entry.value)
        )
        return said and key(entry.party, entry.value.get("id")) in looking

    return [each for each in entries if not looks(each)]


def _calls(party: str) -> bool:
    """Whether it uses the bridge's tools: as the host, or as an agent to which the bridge gives
    them.
    """
    return party == HOST or party.startswith(TOOLS)


def _without_asides(entries: list[Entry]) -> list[Entry]:
    """Not what an agent tells of itself, where a proxy passes it on as it is."""
    out: set[int] = set()
    waiting: dict[str, deque[int]] = {}  # asides that have not been passed on yet, by what they say
    for place, each in enumerate(entries):
        if each.sender == AGENT and _is_aside(each.value):
            waiting.setdefault(_spelled(each.value), deque()).append(place)
        elif (
            each.to == HOST
            and _is_aside(each.value)
            and (said := waiting.get(_spelled(each.value)))
        ):
            out |= {said.popleft(), place}
    return [each for place, each in enumerate(entries) if place not in out]


def _spelled(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _is_aside(message: Json) -> bool:
    if not isinstance(message, Mapping) or "id" in message:
        return False
    params = message.get("params")
    update = params.get("update") if isinstance(params, Mapping) else None
    return str(message.get("method")).startswith("_") or (
        isinstance(update, Mapping) and update.get("sessionUpdate") in _ASIDES
    )


def started_as_it_likes(entry: Entry) -> Entry:
    """A line of a fixture: how the server that the bridge gives to an agent is started is the
    bridge's own affair.
    """
    if not entry.ours or not _servers(entry.value):
        return entry
    servers = [
        {name: each if name == "name" else ANY for name, each in server.items()}
        for server in _servers(entry.value)
        if isinstance(server, dict)
    ]
    return replace(
        entry, value={**entry.value, "params": {**entry.value["params"], "mcpServers": servers}}
    )


# --- messages that are longer than what matters in them -------------------------------------------


def _shortened(entries: list[Entry]) -> list[Entry]:
    shorten: list[Callable[[Entry], Json]] = [
        _with_protocols_meta,
        _without_other_servers({name for each in entries for name in _servers_of(each)}),
    ]
    if any(each.party == AGENT for each in entries):
        shorten.append(_without_agents_lists)
    for change in shorten:
        entries = [
            (
                replace(each, value=change(each))
                if each.kind == "message" and isinstance(each.value, Mapping)
                else each
            )
            for each in entries
        ]
    return entries


def _with_protocols_meta(entry: Entry) -> Json:
    """A host's request with as much of its `_meta` as MCP has."""
    message = entry.value
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    if (
        not _calls(entry.sender)
        or message.get("method") != "tools/call"
        or not isinstance(meta, Mapping)
    ):
        return message
    kept = {
        name: value
        for name, value in meta.items()
        if name in _META or name.startswith(_META_PREFIX)
    }
    return {**message, "params": {**params, "_meta": kept}}


def _servers_of(entry: Entry) -> list[str]:
    """The names of the MCP servers that a host has an agent use."""
    return [_server_name(each) for each in _servers(entry.value)] if entry.sender == HOST else []


def _server_name(server: Json) -> str:
    return str(server.get("name")) if isinstance(server, Mapping) else ""


def _servers(message: Json) -> Sequence[Json]:
    params = message.get("params") if isinstance(message, Mapping) else None
    servers = params.get("mcpServers") if isinstance(params, Mapping) else None
    return servers if isinstance(servers, list) else ()


def _without_other_servers(names: set[str]) -> Callable[[Entry], Json]:
    """Without the host's other servers, which are programs of its machine. The bridge's own
    stays.
    """

    def change(entry: Entry) -> Json:
        message = entry.value
        if not _servers(message):
            return message
        kept = [each for each in _servers(message) if _server_name(each) not in names]
        return {**message, "params": {**message["params"], "mcpServers": kept}}

    return change


def _without_agents_lists(entry: Entry) -> Json:
    """An agent's result, and the same passed on, without what it says of its models and
    settings.
    """
    message = entry.value
    return (
        {**message, "result": _pruned(message["result"])}
        if (entry.sender == AGENT or entry.to == HOST) and "result" in message
        else message
    )


def _pruned(value: Json) -> Json:
    return (
        {name: _pruned(each) for name, each in value.items() if name not in _OF_ITSELF}
        if isinstance(value, Mapping)
        else value
    )
