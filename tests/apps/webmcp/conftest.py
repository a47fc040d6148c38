"""One web server for all tests of pages that need no more than a page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.pages.server import Web, web


@pytest.fixture(scope="session")
def site() -> Iterator[Web]:
    with web() as running:
        yield running
