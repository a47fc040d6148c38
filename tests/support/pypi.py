"""Programs that come from PyPI, at pinned versions (what they depend on is as new as they allow):
one environment each, filled when missing, for those that need another Python than ours.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .npm import INSTALL_LIMIT, NotInstalled, Package


def program(package: Package, folder: Path) -> Path:
    """The program of `package`, installed in `folder` if that has no such version.

    Raises NotInstalled.
    """
    environment = folder / package.version
    found = environment / "bin" / package.program
    if not found.exists():
        print(f"installing {package.name} {package.version} into {environment}", flush=True)
        shutil.rmtree(environment, ignore_errors=True)
        found_python = find_python(package.python)
        if found_python is None:
            raise NotInstalled(f"there is no Python {package.python}")
        _run([found_python, "-m", "venv", str(environment)])
        _run([str(environment / "bin" / "pip"), "install", f"{package.name}=={package.version}"])
    return found


def find_python(version: str) -> str | None:
    """A Python of this version, if there is one: pyenv's own, as what it has on the path may be
    nothing but a pointer, or another.
    """
    name = f"python{version}"
    kept = Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}")
    newest = max(kept, key=_release, default=None)
    return shutil.which(name) if newest is None else str(newest)


def _release(python: Path) -> list[int]:
    """3.13.9 is older than 3.13.10; what is no release (3.13.0rc1, 3.13t) is older than any."""
    parts = python.parts[-3].split(".")
    return [int(part) for part in parts] if all(map(str.isdecimal, parts)) else []


def _run(command: list[str]) -> None:
    try:
        ended = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{command[0]} took longer than {INSTALL_LIMIT:g} s") from None
    if ended.returncode:
        raise NotInstalled(f"{command[0]} failed:\n{ended.stderr.strip()}")
