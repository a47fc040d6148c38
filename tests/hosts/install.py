"""Which hosts there are, at which versions, and where: one folder each under a cache folder outside the repository, filled by npm when missing."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

CACHE = Path.home() / ".cache" / "abp-bridge" / "hosts"
INSTALL_LIMIT = 600.0


@dataclass(frozen=True, slots=True)
class Package:
    """An npm package, its version pinned (a bare name gets whatever the Node at hand likes), and the program in its folder."""

    name: str
    version: str
    program: str


PACKAGES = {
    "codex": Package("@openai/codex", "0.169.0", "node_modules/.bin/codex"),
    "goose": Package("@aaif/goose-binary-linux-x64", "1.52.0", "node_modules/@aaif/goose-binary-linux-x64/bin/goose"),
    "claude": Package("@agentclientprotocol/claude-agent-acp", "0.100.0", "node_modules/.bin/claude-agent-acp"),
    "acpx": Package("acpx", "0.19.1", "node_modules/.bin/acpx"),
}


class NotInstalled(Exception):
    """npm could not bring a host here; the message is what it said."""


def program(host: str, cache: Path) -> Path:
    """The program of `host`, installed under `cache` if it is not there. Raises NotInstalled."""
    package = PACKAGES[host]
    folder = cache / host
    found = folder / package.program
    if not found.exists():
        print(f"installing {package.name}@{package.version} into {folder}", flush=True)
        _install(package, folder)
    if not found.exists():
        raise NotInstalled(f"{package.name}@{package.version} has no {package.program}")
    return found


def _install(package: Package, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", f"{package.name}@{package.version}"]
    try:
        ended = subprocess.run(command, cwd=folder, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_LIMIT)
    except FileNotFoundError:
        raise NotInstalled("there is no npm: install Node 20 or later") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_LIMIT:g} s") from None
    if ended.returncode:
        raise NotInstalled(f"npm failed:\n{ended.stderr.strip()}")
