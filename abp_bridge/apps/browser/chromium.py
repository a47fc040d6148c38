"""Find, start and end Chromium, with a temporary profile or one that is kept.

`python -m abp_bridge.apps.browser.chromium` prints which one would run. Playwright controls it by
a pipe, so that no other program on this machine can.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.files import make_folder, remove_folder
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings, SettingsError, read_settings

GRACE = 0.6  # seconds to close in, before what is left is killed
KEEPING_GRACE = 1.2  # ... where it writes down what is kept
KILLED = 0.25  # seconds for the killed to be gone
MAX_PATH = 55  # of that folder; a socket's path has at most 103 bytes on some systems
POLL = 0.02  # seconds between two looks at whether one that keeps something has ended
SWEEPS = (0, 0.01, 0.05, 0.2)  # seconds before each attempt to take their files away

# Two lists of features do not add up: the last is all. So Playwright's own stand in these, too.
_FEATURES = ("CDPScreenshotNewSurface", "SkipListAccountsWithoutGaiaCookies", "WebMCP")
_PLAYWRIGHTS = (
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades"),
    *("LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints"),
    *("PaintHolding", "PreconnectToSearch", "TcpPortRandomizationWin"),
    *("ThirdPartyStoragePartitioning", "msEdgeUpdateLaunchServicesPreferredVersion"),
    "msForceBrowserSignIn",
)
# Two pages of its own for each window, which cost more than the app's: half of a page's start.
_ADDRESS_BAR = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
_EXTENSIONS = ("DisableLoadExtensionCommandLineSwitch",)  # so that they can be loaded
_ARGUMENTS = (
    f"--enable-features={','.join(_FEATURES)}",
    f"--disable-features={','.join((*_PLAYWRIGHTS, *_ADDRESS_BAR, *_EXTENSIONS))}",
)

_NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable", "msedge", "brave-browser", "brave"),
)
_BUNDLES = ("Google Chrome", "Chromium", "Microsoft Edge", "Brave Browser")


# Most hosts pass on few variables, and their people see no shell.
_WHERE = "where a host launches abp-bridge, in env of this server in the host's configuration"


_LONGER = f"ABP_BROWSER_TIMEOUT sets how long to wait, in milliseconds ({_WHERE})."


class BrowserError(AppError):
    """A browser that cannot be started or has failed; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "BROWSER_ERROR")


def find_chromium(settings: Settings) -> str | None:
    """Return the path of Chromium from the settings, PATH or the applications.

    Raises:
        BrowserError: The path in the settings is not a program.
    """
    if settings.chrome:
        if named := shutil.which(settings.chrome):
            return named
        raise BrowserError(
            f"There is no program {settings.chrome!r}. Set ABP_CHROME to the path of a Chromium or"
            f" Chrome ({_WHERE})."
        )
    bundles = [
        f"{home}/Applications/{name}.app/Contents/MacOS/{name}"
        for home in ("", str(Path.home()))
        for name in _BUNDLES
    ]
    return next(
        (path for name in (*_NAMES, *bundles) if (path := shutil.which(name)) is not None), None
    )


@asynccontextmanager
async def run_chromium(settings: Settings) -> AsyncIterator[Browser]:
    """Run a browser with an empty profile.

    Raises:
        BrowserError: There is none, or it does not start within `settings.browser_timeout`.
    """
    path = find_chromium(settings)
    async with _driver(settings) as (driver, ending):
        path = path or _bundled_path(driver)
        with _launching(path, settings):
            ending.browser = await driver.chromium.launch(**_options(path, settings))
        await ending.learn_group()
        yield ending.browser


@asynccontextmanager
async def run_profile(
    settings: Settings, folder: str, *, grace: float = KEEPING_GRACE, **context: Any
) -> AsyncIterator[BrowserContext]:
    """Run a browser with a profile that is kept, and yield its only context.

    Args:
        settings: The settings.
        folder: The profile; empty for a temporary one.
        grace: Seconds for the browser to save the profile.
        context: More options for Playwright.

    Raises:
        BrowserError: There is none, it does not start, or another browser uses the folder.
    """
    path = find_chromium(settings)
    async with _driver(settings, grace, keeps=bool(folder)) as (driver, ending):
        path = path or _bundled_path(driver)
        options = _options(path, settings)
        options["args"] += context.pop("args", ())
        with _launching(path, settings, folder):
            kept = await driver.chromium.launch_persistent_context(
                folder, service_workers="block", permissions=[], **options, **context
            )
        ending.browser = kept.browser
        await ending.learn_group()
        yield kept


@asynccontextmanager
async def attach_chromium(settings: Settings, socket: str) -> AsyncIterator[Browser]:
    """Attach to a running browser by its DevTools WebSocket, and detach at the end.

    Raises:
        BrowserError: It cannot be attached within `settings.browser_timeout`.
    """
    async with _driver(settings) as (driver, ending):
        try:
            ending.browser = await driver.chromium.connect_over_cdp(
                socket,
                timeout=max(settings.browser_timeout, 0.001) * 1000,
                no_defaults=True,  # its downloads, its colours and its focus stay its own
            )
        except PlaywrightError as problem:
            why = f"The running browser cannot be attached: {error_summary(problem)}."
            raise BrowserError(why) from None
        yield ending.browser


@asynccontextmanager
async def _driver(
    settings: Settings, grace: float = GRACE, *, keeps: bool = False
) -> AsyncIterator[tuple[Playwright, _Ending]]:
    ending = _Ending(grace, keeps=keeps)
    try:
        with anyio.fail_after(settings.browser_timeout):
            driver = await ending.start_driver()
    except TimeoutError:
        raise BrowserError(
            "Browser launch timeout: Playwright did not start within"
            f" {settings.browser_timeout:g} s. {_LONGER}"
        ) from None
    except PlaywrightError as problem:
        raise BrowserError(f"Playwright cannot be started: {error_summary(problem)}") from None
    try:
        yield driver, ending
    finally:
        with anyio.CancelScope(shield=True):
            await ending.end_browser()


class _Ending:
    """The processes to end: Playwright's driver (Node) and the browser that it started."""

    def __init__(self, grace: float, *, keeps: bool) -> None:
        self.browser: Browser | None = None
        self._grace = grace
        self._keeps = keeps
        self._folder = _folder()
        self._manager = async_playwright()
        self._group: int | None = None

    async def start_driver(self) -> Playwright:
        """Start Playwright's driver; if cancelled, end it as soon as it has started."""
        starting = asyncio.ensure_future(self._start_process())
        try:
            return await asyncio.shield(starting)
        except BaseException:  # a cancellation too: what has started is ended, then it goes on
            ending = asyncio.ensure_future(self._end_late(starting))
            _ending_late.add(ending)
            ending.add_done_callback(_ending_late.discard)
            with anyio.move_on_after(self._grace, shield=True):
                await asyncio.shield(ending)
            raise

    async def _start_process(self) -> Playwright:
        async with _starting:
            with _temporary_files_in(self._folder):
                return await self._manager.start()

    async def _end_late(self, starting: asyncio.Future[Playwright]) -> None:
        with suppress(Exception):  # nobody is left to tell
            await starting
            await self.end_browser()

    async def learn_group(self) -> None:
        """Find the browser's processes while it still answers."""
        if self.browser is None:
            return
        with suppress(PlaywrightError, OSError):
            session = await self.browser.new_browser_cdp_session()
            processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
            await session.detach()
            group = os.getpgid(next(each["id"] for each in processes if each["type"] == "browser"))
            # One that is in another namespace has a group of ours, or 0.
            self._group = group if group > 1 and group != os.getpgrp() else None

    async def end_browser(self) -> None:
        """Close browser and driver; kill them after their grace period."""
        with anyio.move_on_after(self._grace):
            if self.browser is not None:
                with anyio.move_on_after(self._grace - GRACE / 2), suppress(PlaywrightError):
                    await self._close_browser(self.browser)
            await self._manager.__aexit__()
        await self._kill()
        await self._sweep()

    async def _close_browser(self, browser: Browser) -> None:
        """Close the browser, and wait for a kept profile to be saved.

        Playwright kills a browser whose last window was closed before it has saved its profile.
        """
        if not self._keeps or self._group is None:
            await browser.close()
            return
        with suppress(PlaywrightError):  # it does not listen any more
            session = await browser.new_browser_cdp_session()
            await session.send("Browser.close")
        with suppress(ProcessLookupError, PermissionError):
            while True:
                os.kill(self._group, 0)  # its leader, whom the driver reaps: others stay zombies
                await anyio.sleep(POLL)

    async def _kill(self) -> None:
        # Playwright has no public name for its driver's process. Where it is not found here, the
        # driver ends a little later, when its stdin has.
        manager: Any = self._manager
        client = getattr(manager, "_client", None) or getattr(manager, "_connection", None)
        transport = getattr(client, "_transport", None)
        node, lost = getattr(transport, "_proc", None), getattr(transport, "on_error_future", None)
        if lost is not None and lost.done():
            lost.exception()  # that a driver died is known by now; nobody else asks for it
        if node is None or node.returncode == 0:
            return
        if self._group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        if node.returncode is not None:
            return
        for child in _children(node.pid):  # a browser of which nobody has heard yet
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)  # Playwright gives each a group of its own
        # Not its `kill()`, which takes its end from asyncio: that writes of an unknown process.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(node.pid, signal.SIGKILL)
        with anyio.move_on_after(KILLED):
            await node.wait()

    async def _sweep(self) -> None:
        """Remove the files that a killed driver left; a dying browser may still write some."""
        for pause in SWEEPS:
            await anyio.sleep(pause)
            if remove_folder(self._folder):
                break


def _children(process: int) -> list[int]:
    """Return the child processes, if the system lists them."""
    try:
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except OSError:
        return []


def _folder() -> str:
    """Make a temporary folder with a path short enough for Chromium's sockets."""
    folder = make_folder()
    if len(os.fsencode(folder)) > MAX_PATH:
        remove_folder(folder)
        folder = make_folder("/tmp")  # noqa: S108 - the folder in it is our own
    return folder


_starting = asyncio.Lock()


@contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Have Playwright's driver, which inherits our environment, keep its files in `folder`."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = folder
    try:
        yield
    finally:
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)


_ending_late: set[asyncio.Future[None]] = set()  # the event loop keeps no reference to them


def _options(path: str, settings: Settings) -> dict[str, Any]:
    return {
        "executable_path": path,
        "headless": settings.headless,
        "chromium_sandbox": settings.chrome_sandbox,
        "args": list(_ARGUMENTS),
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
        # to Playwright, 0 is forever
        "timeout": max(settings.browser_timeout, 0.001) * 1000,
    }


@contextmanager
def _launching(path: str, settings: Settings, folder: str = "") -> Iterator[None]:
    try:
        yield
    except PlaywrightTimeout:
        why = (
            f"Browser launch timeout: {path} did not start within {settings.browser_timeout:g} s."
            f" {_LONGER}"
        )
    except PlaywrightError as problem:
        why = _why(str(problem), path, settings, folder)
    else:
        return
    raise BrowserError(why)


def _why(said: str, path: str, settings: Settings, folder: str) -> str:
    if folder and "ProcessSingleton" in said:
        return (
            f"The profile {folder} is in use by {_user_of(folder)}. Close that one, or name another"
            " folder: --profile FOLDER."
        )
    if settings.chrome_sandbox and "sandbox" in said.lower():
        return (
            f"{path} cannot start its sandbox, as happens to root and in some containers. Run"
            " abp-bridge as an ordinary user, or set ABP_CHROME_SANDBOX=0 to do without the sandbox"
            f" ({_WHERE})."
        )
    if not settings.headless and "DISPLAY" in said:
        return (
            f"{path} cannot show itself: there is no display. Leave out --headful, or set"
            f" ABP_HEADLESS=1 ({_WHERE})."
        )
    return (
        f"{path} does not start: {error_summary(said)}. Set ABP_CHROME to the path of another"
        f" Chromium or Chrome ({_WHERE})."
    )


def _user_of(folder: str) -> str:
    """Return the process that locked the profile, from the link `HOST-PROCESS`."""
    try:
        host, _, process = os.readlink(f"{folder}/SingletonLock").rpartition("-")
    except OSError:
        return "another browser"
    return f"another browser (process {label(process)} on {label(host)})"


def _bundled_path(driver: Playwright) -> str:
    path = driver.chromium.executable_path
    if not Path(path).exists():
        raise BrowserError(
            "No Chromium or Chrome was found. Install one (apt install chromium, brew install"
            " --cask chromium, playwright install chromium), or set ABP_CHROME to its path"
            f" ({_WHERE})."
        )
    return path


def error_summary(problem: object) -> str:
    """Return an error of Playwright without its log."""
    return label(str(problem).strip().split("\n", 1)[0]).rstrip(".")


async def _which(settings: Settings) -> str:
    if path := find_chromium(settings):
        return path
    async with _driver(settings) as (driver, _):
        return _bundled_path(driver)


if __name__ == "__main__":
    try:
        sys.stdout.write(anyio.run(_which, read_settings()) + "\n")
    except (AppError, SettingsError) as problem:
        sys.exit(str(problem))
