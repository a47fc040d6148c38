"""The host as it shows itself: once in the legacy era, by its handshake; with each request in the
modern one.
"""

from __future__ import annotations

from dataclasses import dataclass

from abp_bridge.core.json_value import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class McpClientInfo:
    """`info` and `capabilities` are as they came.

    `level` is the least log level that a modern request wants to hear of.
    """

    version: str
    info: JsonObject
    capabilities: JsonValue
    modern: bool = False
    level: str | None = None

    @property
    def name(self) -> str:
        return (
            f"{self.info.get('name', 'an unnamed host')} {self.info.get('version', '')} (MCP"
            f" {self.version})"
        )
