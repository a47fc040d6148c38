"""Settings' readers (text to value, or ValueError) and checks (the problem, or ""); targets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Literal

from abp_bridge.core.words import MISSPELT, nearest

MAX_SECONDS = 86_400.0  # seconds, a day: the longest time that can be set
OFF = "off"
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_CONFIRM_WORDS = ("destructive", "all")  # of --confirm, beside the names of capabilities
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d+)?")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def read_port(text: str) -> int:
    """A port of this machine. Raises ValueError."""
    if not text.isascii() or not text.isdecimal() or int(text) > 65_535:
        raise ValueError("it must be a port, from 0 (any that is free) to 65535")
    return int(text)


def read_duration(text: str, unit: Literal["ms", "s"], *, positive: bool = False) -> float:
    """Return the seconds of `30s`, `500ms`, `2min`, `1h`, or a bare number of `unit`."""
    name = {"ms": "milliseconds", "s": "seconds"}[unit]
    found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(ms|s|min|h|)\s*", text)
    try:
        seconds = float(found[1]) * _UNITS[found[2] or unit] if found else None
    except ValueError:
        seconds = None
    if seconds is None:
        raise ValueError(f"it must be a number of {name}, or have a unit: 500ms, 30s, 2min")
    if positive and seconds == 0:
        raise ValueError("it must be more than 0")
    if not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(f"it must be from 0 to {MAX_SECONDS / _UNITS[unit]:.0f} {name} (a day)")
    return seconds


def read_listen(text: str) -> int:
    """The port of an address of this machine's. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if host not in ("127.0.0.1", "localhost"):
        raise ValueError(
            "it must be 127.0.0.1:PORT or localhost:PORT: who reaches it answers in your place, so"
            " it is served to this machine only. Elsewhere it takes a tunnel, such as ssh -L"
        )
    return read_port(port)


def read_choice(*choices: str) -> Callable[[str], str]:
    """What reads one of these words, in capitals too."""

    def read_word(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"it must be {', '.join(choices[:-1])} or {choices[-1]}")
        return text.lower()

    return read_word


def read_url(text: str) -> str:
    """An address over HTTP. Raises ValueError."""
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in ("http", "https") or rest[:1] in ("", "/"):
        raise ValueError("it must be an address such as https://mcp.example/mcp")
    return text


def read_browser_url(text: str) -> str:
    """The address at which a browser of this machine is driven. Raises ValueError."""
    found = re.fullmatch(r"http://(127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})/?", text.strip())
    if found is None or not 0 < int(found[2]) <= 65_535:
        raise ValueError(
            "it must be http://127.0.0.1:PORT, a browser on this machine: who reaches that port can"
            " do all that the browser can, and nothing on the way there is encrypted. Elsewhere it"
            " takes a tunnel, such as ssh -L"
        )
    return f"http://{found[1]}:{int(found[2])}"


def read_bool(text: str) -> bool:
    """True or false, by the usual words. Raises ValueError."""
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("it must be true or false")
    return word in _TRUE


def read_tool_cache(text: str) -> str | None:
    """A folder, `OFF`, or None for the usual one. Raises ValueError."""
    word = text.strip().lower()
    if word in (*_TRUE, *_FALSE):
        return None if word in _TRUE else OFF
    if not text.strip():
        raise ValueError("it must be a folder, or off")
    return text


def read_list(separators: str) -> Callable[[str], tuple[str, ...]]:
    """What reads several words that stand between any of these characters."""
    return lambda text: tuple(
        part.strip() for part in re.split(f"[{re.escape(separators)}]", text) if part.strip()
    )


def quote(text: str) -> str:
    """What was given, as an error quotes it."""
    from abp_bridge.core.redact.command import show_unknown

    return repr(show_unknown(text))


def check_private_host(host: str) -> str:
    """Check a value of `--allow`."""
    if "/" in host or "*" in host:
        return (
            f"{quote(host)} is no host: it must be a name or an address, with a port if only that"
            " is allowed (localhost:3000)"
        )
    return ""


def check_origin(origin: str) -> str:
    """Check a value of `--listen-origin`."""
    if _ORIGIN.fullmatch(origin):
        return ""
    return (
        f"{quote(origin)} is no origin: it must be as browsers write it, such as"
        " https://agent.example or http://localhost:3000"
    )


def check_confirm(name: str) -> str:
    """Check a value of `--confirm`: a misspelt word would confirm nothing."""
    if name in _CONFIRM_WORDS:
        return ""
    if not re.fullmatch(r"[^\s,;]+", name):
        return (
            f"{name!r} is no name: it must be destructive, all or one capability's; give it again"
            " for another"
        )
    if meant := nearest(name.lower(), _CONFIRM_WORDS, MISSPELT):
        return (
            f"{name!r}: is {meant} meant? A capability of that name is given by its tool's,"
            f" abp_{name}"
        )
    return ""


def check_folder(path: str) -> str:
    """Check a value of `--root`."""
    if os.path.isdir(path):
        return ""
    return f"{path!r} is no folder: it must be one whose files apps may be given"


# --- targets of apps ------------------------------------------------------------------------------

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
