"""The host as it shows itself: once in the legacy era, by its handshake; with each request in the
modern one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Any


@dataclass(frozen=True, slots=True)
class McpClientInfo:
    """`info` and `capabilities` are as they came.

    `level` is the least log level that a modern request wants to hear of.
    """

    version: str
    info: Mapping[str, Json]
    capabilities: Json
    modern: bool = False
    level: str | None = None

    @property
    def name(self) -> str:
        return (
            f"{self.info.get('name', 'an unnamed host')} {self.info.get('version', '')} (MCP"
            f" {self.version})"
        )
