"""Shared fixtures, and the same generated examples on every machine and in every run."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import time
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from support import in_process

if TYPE_CHECKING:
    from playwright.async_api import Browser

# Hypothesis draws constants of the modules that are loaded, too: which these are depends on what
# a worker has run before.
assert callable(providers._get_local_constants), "this version of hypothesis has another name"
providers._get_local_constants = Constants

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="each like bridge on all fixtures; each end of each question of each pair",
    )


# --- asyncio --------------------------------------------------------------------------------------


async def sock_accept(loop: Any, listener: socket.socket) -> tuple[socket.socket, Any]:
    """`sock_accept` that may be cancelled as a connection arrives.

    asyncio's own version then raises InvalidStateError or drops the connection, and a later test
    fails.
    """
    while True:
        try:
            accepted, address = listener.accept()
        except BlockingIOError:
            ready = loop.create_future()
            loop.add_reader(listener, lambda ready=ready: ready.done() or ready.set_result(None))
            try:
                await ready
            finally:
                loop.remove_reader(listener)
        else:
            accepted.setblocking(False)
            return accepted, address


# For every server that a test starts, whatever library it is from.
setattr(BaseSelectorEventLoop, "sock_accept", sock_accept)  # noqa: B010

# --- the environment ------------------------------------------------------------------------------

# The programs that tests may find on PATH. Agents that are installed here are not among them.
ON_PATH = """
sh bash env cat ls ps true false sleep kill grep sed tr head tail id uname git openssl
tty stty tput infocmp script locale setpriv tmux Xvfb xauth dbus-run-session dbus-daemon
node chromium chromium-browser google-chrome
"""


def pytest_configure(config: pytest.Config) -> None:
    """Give tests an environment of their own, but not those that run programs from npm."""
    if any(_is_named(path, config) for path in BY_NAME):
        return
    folder = Path(tempfile.mkdtemp(prefix="abp-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    (folder / "home").mkdir()
    (folder / "bin").mkdir()
    for name in ON_PATH.split():
        if (found := shutil.which(name)) is not None:
            (folder / "bin" / name).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    os.environ.clear()
    os.environ.update(
        kept,
        HOME=str(folder / "home"),
        PATH=f"{folder / 'bin'}:{Path(sys.executable).parent}",
        LANG="C.UTF-8",
        TZ="UTC",
        # No bridge that a test starts reads the user's cache.
        ABP_TOOL_CACHE="off",
        # Hundreds of Playwright's drivers share what one of them compiled.
        NODE_COMPILE_CACHE=str(Path(__file__).parents[1] / ".pytest_cache" / "node"),
    )
    time.tzset()


KEPT = ("PYTEST_", "COV", "PYTHON", "ABP_CHROME")  # beginnings of variables that tools read

# --- what a test needs ----------------------------------------------------------------------------

NEEDS = ("process", "browser", "terminal", "network")
_MARKED_FILE = re.compile(rf"^pytestmark = .*mark\.({'|'.join((*NEEDS, 'slow'))})\b", re.MULTILINE)
_used: set[str] = set()  # by the test that runs
QUICK = f"not ({' or '.join((*NEEDS, 'slow'))})"  # the -m of `make quick`


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        words = given[1] if isinstance(given[1], list | tuple) else [given[1]]
        is_browser = any("playwright" in os.fsdecode(each) for each in words)
        _used.add("browser" if is_browser else "process")
    elif event in ("socket.bind", "socket.connect") and isinstance(given[1], tuple):
        _used.add("network")
    elif event == "open" and given[0] == "/dev/ptmx":
        _used.add("terminal")


sys.addaudithook(_audit)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _used.clear()
    in_process.enabled = item.get_closest_marker("process") is None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test without a marker that uses what needs one."""
    yield
    if _used and not any(item.get_closest_marker(name) for name in NEEDS):
        used = " and ".join(sorted(_used))
        pytest.fail(f"this test used a {used}: mark it, or have its programs run in threads")


HERE = Path(__file__).parent
# What needs programs from npm, or writes fixtures, runs where it is named only.
BY_NAME = [
    HERE / path
    for path in (
        "real_hosts",
        "real_hosts/test_recordings.py",
        "real_hosts/test_busy.py",
        "real_pages",
        "real_servers",
        "conformance",
    )
]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path in BY_NAME:
        return not _is_named(collection_path, config) or None
    # Importing a file costs more than running a quick test: `make quick` skips files without any.
    if config.option.markexpr == QUICK and collection_path.name.startswith("test_"):
        return _MARKED_FILE.search(collection_path.read_text()) is not None or None
    return None


def _is_named(path: Path, config: pytest.Config) -> bool:
    named = [config.invocation_params.dir / arg.partition("::")[0] for arg in config.args]
    return any(each.resolve().is_relative_to(path) for each in named)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


# While the browser runs, its event loop does too, and no test of the module can start another.
@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """For tests that need no more than a page: who makes a context in it takes it away."""
    from abp_bridge.apps.browser.chromium import run_chromium
    from abp_bridge.settings import Settings

    async with run_chromium(Settings(chrome_sandbox=False, browser_timeout=20.0)) as running:
        yield running
