"""A machine that is busy with something else, and a bridge that nothing was compiled for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Ends with who started it, also where that is killed.
_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(10**5):
        pass
"""


@contextmanager
def busy_machine() -> Iterator[None]:
    """Every processor is kept busy, and one process more than there are, so that all wait."""
    command = [sys.executable, "-I", "-S", "-c", _SPIN, str(os.getpid())]
    processes = [subprocess.Popen(command) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def cold_imports(folder: Path) -> Mapping[str, str]:
    """The environment of a bridge that compiles what it imports, as after an update."""
    return {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
