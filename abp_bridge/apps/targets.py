"""TARGET -> the app behind it. Each kind of app is loaded only when one of its kind is wanted."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from abp_bridge.interfaces.app import App, AppError
from abp_bridge.rpc.tap import Tap, unobserved_stream
from abp_bridge.settings import Settings

FORMS = "an app's address (https://...), stdio:COMMAND, demo, or demo:page"


def make_app(target: str, named: bool, settings: Settings, tap: Tap = unobserved_stream) -> App:
    """The app for `target`, not yet opened.

    Args:
        target: What `FORMS` says.
        named: Whether the person wrote it when starting the bridge. A target that a model names can
            neither start a command nor reach a private network.
        settings: What the person set up.
        tap: Overhears an app that has a pipe.

    Raises:
        AppError: It is no target, may not be used, or its kind of app is not installed.
    """
    if target in ("demo", "demo:page"):
        return _demo(target, settings, tap)
    if target.startswith("stdio:"):
        if not named:
            raise AppError(
                "Only the person can start a command as an app: start abp-bridge with --app"
                " 'stdio:...'",
                "PERMISSION_DENIED",
            )
        return _command(target.removeprefix("stdio:"), tap)
    if target.lower().startswith(("http:", "https:")):
        with _needs_playwright():
            from abp_bridge.apps.browser.app import BrowserApp

        return BrowserApp(target, settings, named=named)
    raise AppError(
        f"{target[:200]!r} is no app that can be connected: it must be {FORMS}.", "INVALID_PARAMS"
    )


def _command(command: str, tap: Tap) -> App:
    from abp_bridge.apps.stdio import StdioApp

    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise AppError(
            f"The command of this stdio: app cannot be read as a command: {problem}",
            "INVALID_PARAMS",
        ) from None
    if not words:
        raise AppError(
            "stdio: needs a command, as in --app 'stdio:python my_app.py'", "INVALID_PARAMS"
        )
    return StdioApp(words, tap=tap)


def _demo(target: str, settings: Settings, tap: Tap) -> App:
    if target == "demo":
        from abp_bridge.apps.stdio import StdioApp

        return StdioApp(
            [sys.executable, "-P", "-m", "abp_bridge.apps.demo"], origin="demo", tap=tap
        )
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
            "Web pages need a browser, which needs Playwright: pip install 'abp-bridge[browser]'",
            "NOT_SUPPORTED",
        ) from None
