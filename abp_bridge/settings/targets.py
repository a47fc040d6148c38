"""The names of apps: which there are, and what is meant by one that is none."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from abp_bridge.core.words import nearest
from abp_bridge.settings.values import quote

# What the name of an app begins with, by its kind, and how that is said to people.
TARGETS: Mapping[str, str] = {
    "https://": "https://...",
    "http://": "http://...",
    "ws://": "ws://...",
    "wss://": "wss://...",
    "stdio:": "stdio:COMMAND",
    "mcp:": "mcp:COMMAND",
    "mcp+https://": "mcp+https://...",
    "mcp+http://": "mcp+http://...",
    "acp:": "acp:COMMAND",
}
_MANIFEST = "manifest.json"
BUILT_IN = ("demo", "demo:page")
EXTENSION_FORM = "./folder of a Chrome extension"
TARGET_FORMS = ", ".join([*TARGETS.values(), EXTENSION_FORM, " or ".join(BUILT_IN)])
# What runs a file that is no program by itself, by how its name ends.
_INTERPRETERS = {"py": "python3", "js": "node", "mjs": "node", "ts": "node", "sh": "sh"}
_SCRIPT = rf"\.({'|'.join(_INTERPRETERS)})"
_PROGRAM = re.compile(rf"(?!\w+://)([./~].*|.*[\s/].*|.*{_SCRIPT}|[^.:]+)")
_HOST = re.compile(
    rf"(localhost|\[[0-9a-fA-F:.]+\]|(?!\S*{_SCRIPT}$)[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?"
)
_PAGE_FILE = re.compile(r"(?i)(file:.*|(?!\w+://).*\.x?html?)")


def suggest_targets(target: str) -> list[str]:
    """What may be meant by the name of an app that is none; nothing where nobody can guess."""
    by_scheme = {start.partition(":")[0]: start for start in TARGETS}
    scheme, colon, rest = target.partition(":")
    if near := nearest(target.lower(), BUILT_IN):
        return [near]
    if near := nearest(scheme.lower(), by_scheme if colon else ()):
        start = by_scheme[near]
        return [start + (rest.lstrip("/") if start.endswith("/") else rest)]
    if host := _HOST.fullmatch(target):
        return [f"{'http' if is_nearby(host[1].strip('[]')) else 'https'}://{target}"]
    if not _PROGRAM.fullmatch(target):
        return []
    interpreter = find_interpreter(target)
    command = f"{interpreter} {target}" if interpreter else target
    return [start + command for start in TARGETS if start.endswith(":")]


def find_interpreter(command: str) -> str:
    """Return the interpreter for a command's file by its suffix, or ""."""
    return _INTERPRETERS.get(os.path.splitext(command.partition(" ")[0])[1][1:], "")


def is_nearby(host: str) -> bool:
    """Return whether a host name looks like this machine or a private network."""
    import ipaddress

    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host.rpartition(".")[2].lower() in ("localhost", "local")


def _describe_serving(path: str) -> str:
    """How the file of a page is served, and what it is called then."""
    import shlex
    from urllib.parse import quote, unquote, urlsplit

    if path.lower().startswith("file:"):
        path = unquote(urlsplit(path).path)
    folder, name = os.path.split(path)
    command = "python3 -m http.server 3000 --bind 127.0.0.1"
    command += f" --directory {shlex.quote(folder)}" if folder else ""
    page = "" if name.lower() in ("index.html", "index.htm") else f"/{quote(name)}"
    return (
        f"a page is connected where it is served, so serve its folder ({command}) and name"
        f" http://127.0.0.1:3000{page}"
    )


def describe_wrong_target(target: str) -> str:
    """What `target`, the name of no app, has to be, and what may be meant."""
    import shlex

    from abp_bridge.core.redact.command import clean_target

    name = clean_target(target[:200])
    host = _HOST.fullmatch(name)
    is_served = host is not None and host.end(1) < len(name)  # it has a port or a path
    if name.isprintable() and not is_served and _PAGE_FILE.fullmatch(name):
        return _describe_serving(name)
    suggested = suggest_targets(name) if target.isprintable() else []
    meant = " or ".join(map(shlex.quote, suggested))
    return f"it must be {TARGET_FORMS}.{meant and f' Did you mean {meant}?'}"


def split_command(target: str) -> list[str]:
    """The words of the command in `SCHEME:COMMAND`. Raises ValueError where there is none."""
    import shlex

    scheme, _, command = target.partition(":")
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise ValueError(f"this cannot be read as a command: {problem}") from None
    if not words:
        raise ValueError(f"{scheme}: needs a command, as in --app '{scheme}:python my_app.py'")
    return words


def is_extension(target: str) -> bool:
    """Whether `target` is the folder of a Chrome extension."""
    folder = os.path.expanduser(target)
    return bool(folder) and os.path.isfile(os.path.join(folder, _MANIFEST))


def find_target_problem(target: str) -> str:
    """Why `target` can name no app, with what would be right; empty where it can."""
    if target in BUILT_IN or is_extension(target):
        return ""
    if not target.lower().startswith(tuple(TARGETS)):
        if os.path.isdir(os.path.expanduser(target)):
            return (
                f"{quote(target)} is no app: this folder has no {_MANIFEST}, as that of a Chrome"
                " extension has. A program in it is named by its command: 'stdio:COMMAND'"
            )
        return f"{quote(target)} is no app: {describe_wrong_target(target)}"
    if f"{target.partition(':')[0].lower()}:" in TARGETS:
        try:
            split_command(target)
        except ValueError as problem:
            from abp_bridge.core.redact.command import show_target

            return f"{show_target(target)!r}: {problem}"
    return ""
