"""What every test of a real host has: the host, a scripted model, a stage, and the referee."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_servers.servers import MongoDB, run_mongodb
from support import npm

from .hosts import PACKAGES, installed
from .model import Model
from .stage import Stage

TABLE = "right of twenty"  # the property of a test that is a row of the table below


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Who answered on a busy machine, host by host."""
    rows = [
        row
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, row in report.user_properties
        if name == TABLE
    ]
    for row in rows and [
        ["host", "confirm", "select", "form", "destructive", "slowest ms", "answered by"],
        *rows,
    ]:
        terminalreporter.write_line(" | ".join(map(str, row)))


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    """What is installed: what the module is called after."""
    return str(request.module.__name__).rpartition("test_")[2]


@pytest.fixture
def program(host: str) -> Path:
    """The program of the host, where there is the Python that it needs."""
    if (needed := PACKAGES[host].python) and npm.find_python(needed) is None:
        pytest.skip(f"{host} needs Python {needed}")
    return installed(host)


@pytest.fixture
def mongodb() -> Iterator[MongoDB]:
    """A database whose server asks before it drops one."""
    with run_mongodb() as database:
        yield database


@pytest.fixture
def stage(program: Path, model: Model, tmp_path: Path) -> Iterator[Stage]:
    """A home, and the host that is at home there; afterwards the referee looks at every bridge."""
    made = Stage(tmp_path, program, model)
    yield made
    made.referee()
