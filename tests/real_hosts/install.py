"""Which hosts there are, at which versions, and where: one folder each under a cache folder, filled
by npm when missing.
"""

from __future__ import annotations

from pathlib import Path

from support import npm
from support.npm import NotInstalled, Package

__all__ = ["CACHE", "NotInstalled", "program"]

CACHE = npm.CACHE / "hosts"

PACKAGES = {
    "codex": Package("@openai/codex", "0.169.0", "node_modules/.bin/codex"),
    "goose": Package(
        "@aaif/goose-binary-linux-x64",
        "1.52.0",
        "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
    ),
    "claude": Package(
        "@agentclientprotocol/claude-agent-acp", "0.100.0", "node_modules/.bin/claude-agent-acp"
    ),
    "codexacp": Package("@agentclientprotocol/codex-acp", "2.6.0", "node_modules/.bin/codex-acp"),
    "acpx": Package("acpx", "0.19.1", "node_modules/.bin/acpx"),
    "opencode": Package(
        "@opencode-ai/sdk", "1.19.3", "node_modules/@opencode-ai/sdk/dist/v2/client.js"
    ),
}


def program(host: str, cache: Path) -> Path:
    """The program of `host`, installed under `cache` if it is not there. Raises NotInstalled."""
    return npm.program(PACKAGES[host], cache / host)
