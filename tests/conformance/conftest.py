"""`make conformance ARGS='--scenario tools-list -k 2026'`: some of the suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--scenario", action="append", default=[], help="only this scenario; may be repeated"
    )
