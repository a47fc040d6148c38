"""What a run of demos is given, and the table that it ends with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import display

from .demos import Demo, Row, find_demos, table

ROWS = pytest.StashKey[list[Row]]()
DEMOS = pytest.StashKey[list[Demo]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--demos", action="append", default=[], metavar="DIR", help="where demos are")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []
    try:
        named = [find_demos(Path(each)) for each in config.getoption("--demos")]
    except OSError as problem:
        raise pytest.UsageError(str(problem)) from None
    config.stash[DEMOS] = [demo for each in named for demo in each]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "demo" in metafunc.fixturenames:
        found = [each for each in metafunc.config.stash[DEMOS] if not each.reason]
        if not found:
            raise pytest.UsageError("no demo to run: name a folder that has some (DEMOS=DIR)")
        metafunc.parametrize("demo", found, ids=[each.name for each in found])


@pytest.fixture
def rows(pytestconfig: pytest.Config) -> list[Row]:
    return pytestconfig.stash[ROWS]


@pytest.fixture(scope="session")
def screen() -> Iterator[str]:
    with display() as shown:
        yield shown.name


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    skipped = [each for each in config.stash[DEMOS] if each.reason]
    done = config.stash[ROWS]
    if done or skipped:
        terminalreporter.section("what was done with each demo")
        for line in table(done, skipped):
            terminalreporter.write_line(line)
