"""MCP's own code for a resource that is not there, and how a request of ours is taken back."""

from __future__ import annotations

from typing import Any

from abp_bridge.rpc.protocol import Id

Json = Any

RESOURCE_NOT_FOUND = -32002


def encode_cancel(id: Id, reason: str) -> tuple[str, Json]:
    """How a request of ours is taken back in MCP: see `rpc.connection.Link`."""
    return "notifications/cancelled", {"requestId": id, "reason": reason}
