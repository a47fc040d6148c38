"""Programs from npm or PyPI with pinned versions, each in a folder of the cache."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CACHE = Path.home() / ".cache" / "abp-bridge"
INSTALL_LIMIT = 600.0


@dataclass(frozen=True, slots=True)
class Package:
    """A package and its program; with `python` it is from PyPI, else from npm."""

    name: str
    version: str
    program: str
    python: str = ""


class NotInstalled(Exception):
    """A program could not be brought here; the message is what npm or pip said."""


def read_packages(file: Path) -> dict[str, Package]:
    """The packages of a table, by the names that they have there."""
    return {name: Package(*row) for name, row in json.loads(file.read_text()).items()}


def program(package: Package, folder: Path) -> Path:
    """The program of `package`, installed in `folder`. Raises NotInstalled."""
    found = folder / "node_modules" / package.program
    if package.python:
        found = folder / package.version / "bin" / package.program
    if not found.exists() or not (package.python or _version(package, folder) == package.version):
        print(f"installing {package.name} {package.version} into {folder}", flush=True)
        _install(package, folder)
    if not found.exists():
        raise NotInstalled(f"{package.name} {package.version} has no {package.program}")
    return found


def find_python(version: str) -> str | None:
    """A Python of this version, preferably pyenv's own."""
    name = f"python{version}"
    kept = Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}")
    newest = max(kept, key=_release, default=None)
    return shutil.which(name) if newest is None else str(newest)


def _release(python: Path) -> list[int]:
    """3.13.9 is older than 3.13.10; what is no release (3.13.0rc1, 3.13t) is older than any."""
    parts = python.parts[-3].split(".")
    return [int(part) for part in parts] if all(map(str.isdecimal, parts)) else []


def _version(package: Package, folder: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError):
        found = folder / "node_modules" / package.name / "package.json"
        return str(json.loads(found.read_text())["version"])
    return None


def _install(package: Package, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not package.python:
        (folder / "package.json").write_text('{"private": true}\n')
        quietly = ["--no-audit", "--no-fund", "--loglevel=error"]
        _run(["npm", "install", *quietly, f"{package.name}@{package.version}"], folder)
        return
    environment = folder / package.version
    shutil.rmtree(environment, ignore_errors=True)
    python = find_python(package.python)
    if python is None:
        raise NotInstalled(f"there is no Python {package.python}")
    _run([python, "-m", "venv", str(environment)], folder)
    pip = str(environment / "bin" / "pip")
    _run([pip, "install", f"{package.name}=={package.version}"], folder)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT,
        )
    except FileNotFoundError:
        raise NotInstalled(f"there is no {command[0]}: install Node 20 or later") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{command[0]} took longer than {INSTALL_LIMIT:g} s") from None
    if ended.returncode:
        raise NotInstalled(f"{command[0]} failed:\n{ended.stderr.strip()}")
