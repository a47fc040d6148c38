"""What a test of a real server has: the database behind it, and who sits at the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_hosts.model import Model

from .servers import MongoDB, Person, run_mongodb


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture
def mongodb() -> Iterator[MongoDB]:
    with run_mongodb() as database:
        yield database


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model
