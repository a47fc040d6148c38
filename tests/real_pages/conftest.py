"""The demos that a run is given, and a display for browsers with a window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import display

from .demos import find_demos


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--demos", action="append", default=[], metavar="DIR", help="where demos are")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize by demo. One that cannot be run is skipped, with its reason."""
    if "demo" not in metafunc.fixturenames:
        return
    try:
        found = [
            pytest.param(
                demo, id=demo.name, marks=pytest.mark.skip(demo.reason) if demo.reason else ()
            )
            for folder in metafunc.config.getoption("--demos")
            for demo in find_demos(Path(folder))
        ]
    except OSError as problem:
        raise pytest.UsageError(str(problem)) from None
    if not found:
        raise pytest.UsageError("no demo to run: name a folder that has some (DEMOS=DIR)")
    metafunc.parametrize("demo", found)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("process")


@pytest.fixture(scope="session")
def screen() -> Iterator[str]:
    with display() as shown:
        yield shown.name
