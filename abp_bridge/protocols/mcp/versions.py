"""The supported MCP revisions, newest first, and the log levels. Kept light for fast start."""

from __future__ import annotations

from typing import Literal

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
