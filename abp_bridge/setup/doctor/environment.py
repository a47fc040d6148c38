"""How a host starts a server: with which variables, by which handshake, and how long it waits.

Measured with the releases of late 2026; of a host that is not in the table nobody knows more than
that it speaks MCP.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from abp_bridge.core.json_value import JsonObject, as_number, as_texts
from abp_bridge.setup.doctor.facts import Entry
from abp_bridge.setup.hosts import SetupHost

# What a desktop gives the programs that it starts, none of which has read a shell's profile.
_DESKTOP_PATHS = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "*": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
}
_DESKTOP = (
    *("HOME", "USER", "LOGNAME", "LANG", "SHELL", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP", "DBUS_SESSION_BUS_ADDRESS"),
    *("SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "TEMP", "TMP"),
)
_NAMED = ("HOME", "LANG", "PATH", "SHELL", "TERM")  # Codex


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a host begins with.

    Attributes:
        version: Of MCP, in its handshake.
        modern: It asks `server/discover` first.
        capabilities: It declares them.
        patience: Seconds that it waits for the tools, unless its file says otherwise.
        short: Whether it goes on without them after that.
    """

    version: str = "2025-11-25"
    modern: bool = False
    capabilities: JsonObject = field(default_factory=dict)
    patience: float = 30.0
    short: bool = False


_ASKS: JsonObject = {"elicitation": {"form": {}, "url": {}}}
_FORM: JsonObject = {"elicitation": {"form": {}}}
_GREETINGS: Mapping[str, Greeting] = {
    "codex": Greeting("2025-06-18", capabilities=_ASKS, patience=1.0, short=True),
    "goose": Greeting(modern=True, capabilities={**_FORM, "sampling": {}}),
    "claude": Greeting(modern=True, capabilities={**_ASKS, "roots": {}}),
    "gemini": Greeting("2025-06-18"),
    "opencode": Greeting(capabilities={"roots": {}}),
    "fast-agent": Greeting(modern=True, capabilities=_ASKS),
    "copilot": Greeting(modern=True, capabilities={**_ASKS, "sampling": {}}),
}


def greeting(host: SetupHost) -> Greeting:
    """How this host begins its handshake with a server."""
    known = _GREETINGS.get(host.name)
    return known or Greeting(capabilities=_FORM if host.asks else {})


def patience(host: SetupHost, entry: Entry) -> tuple[float, bool]:
    """Seconds until this host gives the start up, and whether it then goes on without us."""
    begins = greeting(host)
    members = entry.members
    if host.name != "codex":
        return begins.patience, begins.short
    if members.get("required") is not True:
        return begins.patience, begins.short
    said = as_number(members.get("startup_timeout_sec"))
    if said is None and (thousandths := as_number(members.get("startup_timeout_ms"))) is not None:
        said = thousandths / 1000
    return said or 30.0, False


def host_path(host: SetupHost, environ: Mapping[str, str], platform: str = "") -> str:
    """The PATH that the host's servers have."""
    if not host.on_desktop or "WINDIR" in environ:
        return environ.get("PATH", os.defpath)
    return _DESKTOP_PATHS.get(platform, _DESKTOP_PATHS["*"])


def environment(
    host: SetupHost, entry: Entry, environ: Mapping[str, str], platform: str
) -> dict[str, str]:
    """The variables that a server gets from this host."""
    if host.environment == "whole":
        given = dict(environ)
    elif host.environment == "named":
        names = (*_NAMED, *as_texts(entry.members.get(entry.shape.env_names)))
        given = {name: environ[name] for name in names if name in environ}
    else:
        given = {name: environ[name] for name in _DESKTOP if name in environ}
        given["PATH"] = host_path(host, environ, platform)
    return {**given, **entry.env}
