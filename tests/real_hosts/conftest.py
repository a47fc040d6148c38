"""Fixtures of all real hosts: the program, a scripted model, and a stage with a referee."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import npm

from .hosts import PACKAGES, installed
from .model import Model
from .stage import Stage


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("process")


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    return str(request.module.__name__).rpartition("test_")[2]


@pytest.fixture
def program(host: str) -> Path:
    if (needed := PACKAGES[host].python) and npm.find_python(needed) is None:
        pytest.skip(f"{host} needs Python {needed}")
    return installed(host)


@pytest.fixture
def stage(program: Path, model: Model, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, program, model)
    yield made
    made.referee()
