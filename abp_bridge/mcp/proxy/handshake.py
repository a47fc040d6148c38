"""The handshake between host and server: what the server is told that the host can show."""

from __future__ import annotations

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.jsonrpc import byte_edit
from abp_bridge.protocols.mcp.client import McpClientInfo, decode_capabilities

ELICITATION: JsonObject = {"form": {}, "url": {}}  # half of the servers look for any, half for each

_CAPABILITIES = ("params", "capabilities")


def announce(line: bytes, params: JsonObject, *, has_roots: bool, can_sample: bool) -> bytes:
    """Return the host's `initialize` for the server, with our elicitation, roots and sampling.

    Elicitation as a task is removed, and the client's name changed; nothing else.
    """
    if not isinstance(params.get("capabilities"), dict):  # `[]` of an empty one, from PHP
        line = byte_edit.put_member(line, _CAPABILITIES, {})
    line = byte_edit.put_member(line, (*_CAPABILITIES, "elicitation"), ELICITATION)
    tasks = as_object(as_object(as_object(params.get("capabilities")).get("tasks")).get("requests"))
    if "elicitation" in tasks:  # what is asked here is answered, never a task to come back to
        rest = {kind: each for kind, each in tasks.items() if kind != "elicitation"}
        line = byte_edit.put_member(line, (*_CAPABILITIES, "tasks", "requests"), rest)
    if has_roots and not declares_roots(params):
        line = byte_edit.put_member(line, (*_CAPABILITIES, "roots"), {})
    if can_sample and not declares_sampling(params):
        line = byte_edit.put_member(line, (*_CAPABILITIES, "sampling"), {})
    name = as_text(as_object(params.get("clientInfo")).get("name"))
    path = ("params", "clientInfo", "name")
    return byte_edit.put_member(line, path, name_of(name)) if name else line


def name_of(host: str) -> str:
    """Return the client's name for the server, which may look for the host's name in it."""
    return f"{host} (via abp-bridge {VERSION})"


def declares_roots(params: JsonObject) -> bool:
    """Whether the host itself has roots."""
    return isinstance(as_object(params.get("capabilities")).get("roots"), dict)


def declares_sampling(params: JsonObject) -> bool:
    """Whether the host itself has a model."""
    return isinstance(as_object(params.get("capabilities")).get("sampling"), dict)


def can_be_asked(host: McpClientInfo) -> bool:
    """Whether the host declares that it shows questions."""
    shows = decode_capabilities(host.capabilities, host.version)
    return shows.form or shows.url


def refusal(why: JsonValue) -> str:
    """Return the error for a host whose user cannot be asked."""
    return (
        f"this server's questions reach nobody who could answer them: {why}. Without a person it"
        " would do what it should ask for. Mend that, or start abp-bridge mcp with --tty DEVICE or"
        " --questions-api PORT; or with --without-person to run it all the same, every question"
        " answered 'cancel'."
    )


def ending(how: str) -> str:
    """Return the error for a request that the server left open."""
    return (
        f"abp-bridge mcp: {how}. Nothing more comes of this request. What the server said last is"
        " in this host's log of it (its stderr); mend its command in the host's configuration, the"
        " words after --, or start it again."
    )
