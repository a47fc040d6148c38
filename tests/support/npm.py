"""Programs that come from npm, their versions pinned: one folder each under a cache folder outside
the repository, filled when missing.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

CACHE = Path.home() / ".cache" / "abp-bridge"
INSTALL_LIMIT = 600.0


@dataclass(frozen=True, slots=True)
class Package:
    """A package, its version pinned (a bare name gets whatever the Node at hand likes), and its
    program: below `node_modules`, or where it needs a `python` of this version and so is PyPI's,
    among the programs of its environment.
    """

    name: str
    version: str
    program: str
    python: str = ""


class NotInstalled(Exception):
    """npm could not bring a program here; the message is what it said."""


def program(package: Package, folder: Path) -> Path:
    """The program of `package`, installed in `folder` if that has no such version.

    Raises NotInstalled.
    """
    found = folder / "node_modules" / package.program
    if _version(package, folder) != package.version or not found.exists():
        print(f"installing {package.name}@{package.version} into {folder}", flush=True)
        _install(package, folder)
    if not found.exists():
        raise NotInstalled(f"{package.name}@{package.version} has no {package.program}")
    return found


def _version(package: Package, folder: Path) -> str | None:
    try:
        return str(
            json.loads((folder / "node_modules" / package.name / "package.json").read_text())[
                "version"
            ]
        )
    except (OSError, ValueError, KeyError):
        return None


def _install(package: Package, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    command = [
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        f"{package.name}@{package.version}",
    ]
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
        raise NotInstalled("there is no npm: install Node 20 or later") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_LIMIT:g} s") from None
    if ended.returncode:
        raise NotInstalled(f"npm failed:\n{ended.stderr.strip()}")
