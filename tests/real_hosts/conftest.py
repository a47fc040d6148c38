"""What every test of a real host has: the host, a scripted model, a stage, and the referee."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .hosts import installed
from .model import Model
from .stage import Stage


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    """What is installed: what the module is called after."""
    return str(request.module.__name__).rpartition("test_")[2]


@pytest.fixture
def stage(host: str, model: Model, tmp_path: Path) -> Iterator[Stage]:
    """A home, and the host that is at home there; afterwards the referee looks at every bridge."""
    made = Stage(tmp_path, installed(host), model)
    yield made
    made.referee()
