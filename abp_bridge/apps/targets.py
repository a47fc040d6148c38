"""Make the app for a TARGET, loading only its kind."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from abp_bridge.core.redact.command import find_target_secrets, show_target, show_unknown
from abp_bridge.errors import install_command
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.session.app import App, AppError
from abp_bridge.settings import Settings
from abp_bridge.settings.values import BUILT_IN, describe_wrong_target, is_extension, split_command

if TYPE_CHECKING:
    from abp_bridge.apps.abp import AbpApp
    from abp_bridge.apps.acp import AcpApp
    from abp_bridge.apps.browser.tabs import Tabs
    from abp_bridge.apps.mcp import McpApp, OpenAddress
    from abp_bridge.apps.program import Pipes


def make_app(target: str, named: bool, settings: Settings, tap: Tap = unobserved_stream) -> App:
    """Make the app for `target`, not yet opened.

    Args:
        target: In the syntax of `settings.TARGETS`.
        named: Whether the user wrote it. A model's target can neither start a command nor reach a
            private network.
        settings: The settings.
        tap: Observes the app's pipes.

    Raises:
        AppError: The target is invalid or not allowed, or its kind is not installed.
    """
    if target in BUILT_IN:
        return _demo(target, settings, tap)
    for scheme, make in _NAMED.items():
        if target.lower().startswith(scheme):
            if not named:
                raise AppError(
                    "Only the person can start a command as an app, or connect a WebSocket or an"
                    f" MCP server: start abp-bridge with --app '{scheme}...'",
                    "PERMISSION_DENIED",
                )
            app = make(target, settings, tap)
            app.allowed_hosts = settings.allowed_hosts
            app.hide_secrets(find_target_secrets(target))
            return app
    if target.lower().startswith(("http:", "https:")):
        with _needs_playwright():
            from abp_bridge.apps.browser.app import BrowserApp
            from abp_bridge.apps.webmcp.tools import WebMcpTools

            tabs = _find_tabs(settings) if named else None
        return BrowserApp(target, settings, named=named, tabs=tabs, tools=WebMcpTools())
    if named and is_extension(target):
        with _needs_playwright():
            from abp_bridge.apps.browser.app import ExtensionApp

        return ExtensionApp(target, settings)
    words = f"{show_unknown(target)!r} is no app that can be connected"
    raise AppError(f"{words}: {describe_wrong_target(target)}", "INVALID_PARAMS")


def _find_tabs(settings: Settings) -> Tabs | None:
    """Return where to show a page that the user named, from the settings."""
    from abp_bridge.apps.browser.tabs import ProfileTabs, RunningTabs

    if settings.browser_url is not None:
        return RunningTabs(settings, settings.browser_url)
    return None if settings.profile is None else ProfileTabs(settings, settings.profile)


def _stdio(target: str, settings: Settings, tap: Tap) -> AbpApp:
    from abp_bridge.apps.abp import AbpApp
    from abp_bridge.jsonrpc.subprocess import spawn

    words = _words(target)
    return AbpApp(show_target(target), lambda: spawn(words), tap=tap)


def _socket(target: str, settings: Settings, tap: Tap) -> AbpApp:
    from abp_bridge.apps.abp import AbpApp
    from abp_bridge.apps.websocket import connect, find_risks

    return AbpApp(
        show_target(target),
        lambda: connect(target),
        place="over this WebSocket",
        warnings=find_risks(target),
        tap=tap,
    )


def _server(target: str, settings: Settings, tap: Tap) -> McpApp:
    from abp_bridge.apps.mcp import McpApp
    from abp_bridge.jsonrpc.subprocess import spawn

    words = _words(target)
    return McpApp(show_target(target), lambda _: spawn(words), roots=settings.roots, tap=tap)


def _agent(target: str, settings: Settings, tap: Tap) -> AcpApp:
    from abp_bridge.apps.acp import AcpApp
    from abp_bridge.jsonrpc.subprocess import spawn

    words = _words(target)
    return AcpApp(show_target(target), lambda: spawn(words), roots=settings.roots, tap=tap)


def _server_over_http(target: str, settings: Settings, tap: Tap) -> McpApp:
    from abp_bridge.apps.mcp import McpApp

    url = target.partition("+")[2]
    try:
        has_password = "@" in urlsplit(url).netloc  # which is sent in its place
    except ValueError:
        words = f"{show_target(target)!r} is no web address: its host cannot be read."
        raise AppError(words, "INVALID_PARAMS") from None

    @asynccontextmanager
    async def connect(open_address: OpenAddress) -> AsyncIterator[Pipes]:
        from abp_bridge.mcp.client import connect
        from abp_bridge.mcp.oauth import sign_in

        auth = None if has_password else await sign_in(url, open_address)
        async with connect(url, auth=auth) as server:
            yield server

    roots = settings.roots
    return McpApp(show_target(target), connect, modern_first=True, roots=roots, tap=tap)


# What the person alone may name: it starts a program, or may do what the person may.
_NAMED: Mapping[str, Callable[[str, Settings, Tap], AbpApp | AcpApp | McpApp]] = {
    "stdio:": _stdio,
    "ws://": _socket,
    "wss://": _socket,
    "mcp:": _server,
    "acp:": _agent,
    "mcp+https://": _server_over_http,
    "mcp+http://": _server_over_http,
}


def _words(target: str) -> list[str]:
    """Split the command in `SCHEME:COMMAND`."""
    try:
        return split_command(target)
    except ValueError as problem:
        raise AppError(f"{show_target(target)}: {problem}", "INVALID_PARAMS") from None


def _demo(target: str, settings: Settings, tap: Tap) -> App:
    if target == "demo":
        from abp_bridge.apps.abp import AbpApp
        from abp_bridge.jsonrpc.subprocess import spawn

        command = [sys.executable, "-P", "-m", "abp_bridge.apps.demo"]
        return AbpApp("demo", lambda: spawn(command), tap=tap)
    with _needs_playwright():
        from abp_bridge.apps.demo.site import DemoPage

    return DemoPage(settings)


@contextmanager
def _needs_playwright() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "playwright":
            raise
        raise AppError(
            f"Web pages need a browser, which needs Playwright: {install_command('browser')}",
            "NOT_SUPPORTED",
        ) from None
