"""Fixtures of real servers: the user at a browser, a database, and a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_hosts.model import Model

from .servers import MongoDB, Person, run_mongodb


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("process")


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
