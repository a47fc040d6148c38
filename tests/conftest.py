"""Shared fixtures, and the same generated examples on every machine and in every run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

if TYPE_CHECKING:
    from playwright.async_api import Browser

# Every bridge that a test spawns has it from here: none looks into the user's own caches.
os.environ["ABP_TOOL_CACHE"] = "off"
# Playwright's Node, which hundreds of them start, finds there what an earlier one compiled.
os.environ["NODE_COMPILE_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "node")

# Hypothesis draws constants of the modules that are loaded, too: which these are depends on what
# a worker has run before.
assert callable(providers._get_local_constants), "this version of hypothesis has another name"
providers._get_local_constants = Constants

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
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
    if collection_path not in BY_NAME:
        return None
    named = [
        (config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args
    ]
    return not any(path.is_relative_to(collection_path) for path in named) or None


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


# A module: as long as it runs, its worker has an event loop, and no test may run one of its own.
@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """For tests that need no more than a page: who makes a context in it takes it away."""
    from abp_bridge.apps.browser.chromium import run_chromium
    from abp_bridge.settings import Settings

    async with run_chromium(Settings(chrome_sandbox=False, browser_timeout=20.0)) as running:
        yield running
