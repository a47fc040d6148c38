"""Checks of this machine, and how each host starts a server (as measured in late 2026)."""

from __future__ import annotations

import os
import platform
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import anyio

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject, as_number, as_texts
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError, install_command
from abp_bridge.settings import Settings, SettingsError, misspelt, read_settings
from abp_bridge.setup.doctor.finding import Entry, Finding, Verdict
from abp_bridge.setup.hosts import SetupHost

# extra -> a module of it, and what is not there without
EXTRAS = {
    "browser": ("playwright", "web pages as apps"),
    "models": ("pydantic_ai", "models behind an API"),
    "keyring": ("keyring", "sign-ins kept in the system's keyring"),
    "notify": ("apprise", "messages to your other devices"),
}


def look_at_machine() -> Iterator[Finding]:
    """Everything about this machine but the browser."""
    own = f"abp-bridge {VERSION}, Python {platform.python_version()} ({sys.executable})."
    yield Finding("Python", Verdict.WORKS, own)
    yield from _extras()
    yield from _misspelt_settings()
    settings = Settings()
    try:
        settings = read_settings()
    except SettingsError as problem:
        yield Finding("settings", Verdict.FAILS, str(problem), "Set it right, or take it out.")
    yield _page(settings)
    yield _opening(settings)
    yield from _folders()


def _extras() -> Iterator[Finding]:
    missing = [name for name, (module, _) in EXTRAS.items() if find_spec(module) is None]
    there = [name for name in EXTRAS if name not in missing]
    if there:
        yield Finding("extras", Verdict.WORKS, f"Installed: {', '.join(there)}.")
    for name in missing:
        verdict = Verdict.WARNING if name == "browser" else Verdict.NOTE
        words = f"Without the extra '{name}' there are no {EXTRAS[name][1]}."
        yield Finding("extras", verdict, words, install_command(name))


def _misspelt_settings() -> Iterator[Finding]:
    for name, meant in misspelt(os.environ):
        words = f"{label(name)} in the environment is no setting: is {meant} meant?"
        yield Finding("settings", Verdict.WARNING, words, "docs/settings.md has them all.")


def _page(settings: Settings) -> Finding:
    port = settings.page_port
    try:
        with socket.create_server(("127.0.0.1", port)) as server:
            address = server.getsockname()
            with socket.create_connection(address, timeout=2.0):
                pass
    except OSError as problem:
        words = f"Nothing can listen at 127.0.0.1:{port or '(any port)'}: {problem.strerror}."
        cure = "Choose another port (ABP_PAGE_PORT), or see what keeps programs from this address."
        return Finding("page", Verdict.FAILS, words, cure)
    return Finding("page", Verdict.WORKS, "The bridge's own page can be served at 127.0.0.1.")


def _opening(settings: Settings) -> Finding:
    from abp_bridge.surfaces.page.browser import can_open, forwarding

    if can_open():
        words = "There is a command that opens your browser at the page."
        return Finding("display", Verdict.WORKS, words)
    over = forwarding(f"http://127.0.0.1:{settings.page_port or 8080}/")
    words = "No command opens a browser here: neither $BROWSER, nor a display."
    cure = "Open the links that you are given yourself, or set BROWSER."
    if over:
        cure = f"You came over SSH: forward the page's port, as in {over}"
    return Finding("display", Verdict.WARNING, words, cure)


def _folders() -> Iterator[Finding]:
    from abp_bridge.apps.offer_cache import cache_folder

    problems = [_write_problem(Path(tempfile.gettempdir()), "TMPDIR names another one.")]
    try:
        problems.append(_write_problem(cache_folder(), "ABP_TOOL_CACHE names another one."))
    except RuntimeError as problem:
        problems.append(Finding("folders", Verdict.WARNING, f"{problem}.", "Set HOME."))
    found = [each for each in problems if each is not None]
    yield from found
    if not found:
        words = f"Files can be written in {tempfile.gettempdir()} and {cache_folder()}."
        yield Finding("folders", Verdict.WORKS, words)


def _write_problem(folder: Path, cure: str) -> Finding | None:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent  # where it will be made
    try:
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as problem:
        words = f"Nothing can be written in {there}: {problem.strerror}."
        return Finding("folders", Verdict.FAILS, words, cure)


async def try_browser(environ: Mapping[str, str] = os.environ) -> Finding:
    """Start the browser for web pages as these variables say, with its sandbox, and end it."""
    if find_spec("playwright") is None:
        return Finding("browser", Verdict.NOT_TRIED, "The extra 'browser' is not installed.")
    from abp_bridge.apps.browser.chromium import find_chromium, run_chromium

    try:
        settings = read_settings(environ)
        began = anyio.current_time()
        async with run_chromium(settings) as browser:
            seconds = anyio.current_time() - began
            which = find_chromium(settings) or "Playwright's own Chromium"
            box = "in its sandbox" if settings.chrome_sandbox else "without its sandbox"
            words = f"{which} {label(browser.version, 60)} starts {box} after {seconds:.1f} s."
    except AbpBridgeError as problem:
        words, _, cure = str(problem).partition(". ")
        return Finding("browser", Verdict.FAILS, f"{words.rstrip('.')}.", cure)
    return Finding("browser", Verdict.WORKS, words, seconds=seconds)


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
    """How a host starts an MCP session.

    Attributes:
        modern: It sends `server/discover` first.
        patience: Seconds that it waits for the tools by default.
        short: Whether it continues without them then.
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
