"""`abp-bridge login`: a person signs in once, in a window, for pages that are behind a login."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from abp_bridge.cli.options import SECONDS, load_settings
from abp_bridge.cli.runtime import complain, print_json, print_text, run_until_signal
from abp_bridge.core.redact.command import UNSHOWN, show_target, target_word
from abp_bridge.errors import install_command
from abp_bridge.log import print_message
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings, variables_of_others

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup
    from playwright.async_api import BrowserContext, Page

FAILED: Final = 1
WRITING = 20.0  # seconds for the browser to write down what it keeps: a busy one is slow

HELP = "sign in once, in a window, for apps behind a login"
USAGE = "abp-bridge login URL [--profile DIR] [OPTION]..."
MISSING = "the address is missing, as in: abp-bridge login https://app.example"
DESCRIPTION = """\
Opens the address in a window of a Chromium with a profile of its own. Sign in there, then close the
window: cookies and whatever else the site keeps in a browser stay in the profile's folder, which
nobody but you can read. What you type goes to the site; the bridge does not look.

Have your app use it, and it is signed in:
  abp-bridge login https://app.example --profile ~/.app-profile
  abp-bridge serve --app https://app.example --profile ~/.app-profile

- Whoever has the folder is signed in as you: keep it as you keep a password. To sign out, delete
it.
- One process uses it at a time.
- It needs a display. A site that lets no automated browser in can be used in a browser of your
own that runs: 'abp-bridge serve --browser-url' has its address.
"""


def add_login_options(parser: argparse.ArgumentParser) -> None:
    """Add where to sign in, for how long the window waits, and how it is told."""
    option = parser.add_argument
    option("url", metavar="URL", help="the address at which you sign in, or of the app itself")
    option(
        "--timeout",
        metavar="TIME",
        type=SECONDS,
        default=1800.0,
        help="close the window by itself after this (in seconds, or as 2min; default: 30min)",
    )
    option("--json", action="store_true", help="print what was kept where as JSON, for scripts")


def run_login(options: argparse.Namespace) -> int:
    """Open the window, and wait until it is closed."""
    given = load_settings(options, ignored=variables_of_others("login"))
    settings = replace(given, headless=False)

    async def login(tasks: TaskGroup) -> int:
        try:
            return await _login(settings, options.url, options.timeout, as_json=options.json)
        except ModuleNotFoundError as problem:
            if (problem.name or "").partition(".")[0] != "playwright":
                raise
            complain(f"this needs Playwright: {install_command('browser')}", "login")
        except AppError as problem:
            complain(problem, "login")
        return FAILED

    return anyio.run(run_until_signal, login)


def _check_display() -> None:
    if sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        return
    raise AppError(
        "there is no display for its window (neither DISPLAY nor WAYLAND_DISPLAY is set). Run it on"
        " a desktop, or over ssh -X; or have your app use a browser that runs and is signed in:"
        " abp-bridge serve --browser-url http://127.0.0.1:9222",
        "NOT_SUPPORTED",
    )


async def _login(settings: Settings, url: str, limit: float, *, as_json: bool) -> int:
    from abp_bridge.apps.browser.fetch import split

    address = split(url).geturl()
    _check_display()
    from abp_bridge.apps.browser.chromium import run_profile
    from abp_bridge.apps.browser.profile import default_profile, has_kept, use_profile

    named = Path(settings.profile) if settings.profile is not None else default_profile()
    with use_profile(named) as folder:
        window = run_profile(settings, str(folder), grace=WRITING, no_viewport=True)
        async with window as context:
            closed = await _watch_window(context, address, limit)
        kept = has_kept(folder)
    _show_login_end(url, folder, closed=closed, kept=kept, as_json=as_json)
    return 0 if closed and kept else FAILED


async def _watch_window(context: BrowserContext, address: str, limit: float) -> bool:
    """Show the address until the last page of the window is closed. Whether that was in time."""
    from playwright.async_api import Error as PlaywrightError

    closed = anyio.Event()

    def watch(page: Page) -> None:
        page.on("close", lambda _: None if context.pages else closed.set())

    context.on("dialog", lambda _: None)  # the person answers it; else Playwright would
    context.on("close", lambda _: closed.set())
    context.on("page", watch)
    page = context.pages[0] if context.pages else await context.new_page()
    watch(page)
    shown = show_target(address)
    print_message(f"sign in to {shown} in the window that opens, then close it (Ctrl-C: give up)")
    with anyio.move_on_after(limit):
        try:
            await page.goto(address, wait_until="commit", timeout=0)
        except PlaywrightError as problem:
            if not closed.is_set():
                why = str(problem).partition("\n")[0]
                print_message(f"{shown} was not loaded ({why}); the window stays open")
        await closed.wait()
    return closed.is_set()


def _show_login_end(url: str, folder: Path, *, closed: bool, kept: bool, as_json: bool) -> None:
    app = target_word(url)
    if as_json:
        told = {"profile": str(folder), "address": show_target(url), "closed": closed, "kept": kept}
        command = ["abp-bridge", "serve", "--app", url, "--profile", str(folder)]
        serve = {} if app == UNSHOWN else {"serve": command}
        print_json(json.dumps({**told, **serve}, ensure_ascii=False) + "\n")
        return
    if not kept:
        print_message(
            "the browser did not end as it should, and may not have kept where you signed in: do it"
            " again, and close its window a moment later"
        )
    if not closed:
        print_message("the window was open for too long, and is closed (--timeout)")
    same = f" ({UNSHOWN}: the address of the app, in full)" if app == UNSHOWN else ""
    print_text(
        f"Where you signed in is kept in {folder}; delete that to sign out.\n"
        f"Next: abp-bridge serve --app {app} --profile {shlex.quote(str(folder))}{same}\n"
    )
