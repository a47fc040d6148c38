"""The host as it shows itself: once in the legacy era, by its handshake; with each request in the
modern one.
"""

from __future__ import annotations

from dataclasses import dataclass

from abp_bridge.core.json_value import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class McpClientInfo:
    """Who the host is.

    Attributes:
        version: The version of MCP that is spoken with it.
        info: Its `clientInfo`, as it came.
        capabilities: What it declared, as it came.
        modern: Whether that version has no handshake.
        level: The least log level that a modern request wants to hear of; None for no logs.
    """

    version: str
    info: JsonObject
    capabilities: JsonValue
    modern: bool = False
    level: str | None = None

    @property
    def name(self) -> str:
        """The host as it calls itself, with its version and the version of MCP."""
        return (
            f"{self.info.get('name', 'an unnamed host')} {self.info.get('version', '')} (MCP"
            f" {self.version})"
        )
