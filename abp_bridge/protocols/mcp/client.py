"""The MCP revisions, and the host's name, version and capabilities. Kept light for fast start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text


@dataclass(frozen=True, slots=True)
class McpClientInfo:
    """An MCP host.

    Attributes:
        version: The MCP version spoken with it.
        info: Its raw `clientInfo`.
        capabilities: Its raw capabilities.
        modern: Whether that version has no handshake.
        level: The lowest log level a stateless request wants; None for no logs.
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
            f"{as_text(self.info.get('name')) or 'an unnamed host'}"
            f" {as_text(self.info.get('version'))} (MCP {self.version})"
        )


@dataclass(frozen=True, slots=True)
class HostCapabilities:
    """A host's capabilities; bare `elicitation: {}` means forms only (2025-11-25)."""

    form: bool = False
    url: bool = False
    sampling: bool = False
    modes: bool = False  # it knows the word `mode`
    roots: bool = False


def decode_capabilities(declared: JsonValue, version: str) -> HostCapabilities:
    """Decode the `capabilities` of `initialize`; a host without elicitation modes has forms."""
    capabilities = as_object(declared)
    asked, sampling, roots = (
        isinstance(capabilities.get(word), Mapping) for word in ("elicitation", "sampling", "roots")
    )
    asked = asked and version >= V2025_06_18
    named = as_object(capabilities.get("elicitation")) if asked else {}
    modes = {mode for mode, details in named.items() if isinstance(details, Mapping)}
    return HostCapabilities(
        form=asked and (not modes or "form" in modes),
        url="url" in modes,
        sampling=sampling,
        modes=asked and (bool(modes) or version >= V2025_11_25),
        roots=roots,
    )


V2024_11_05 = "2024-11-05"
V2025_03_26 = "2025-03-26"
V2025_06_18 = "2025-06-18"
V2025_11_25 = "2025-11-25"
V2026_07_28 = "2026-07-28"

LEGACY = (V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05)
BATCHING = (V2025_03_26, V2024_11_05)  # where several messages may come as one
MODERN = (V2026_07_28,)

Era = Literal["legacy", "modern"]
ERAS: tuple[Era, ...] = ("legacy", "modern")  # with a handshake, and without

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
