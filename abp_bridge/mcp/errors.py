"""How a request of ours is taken back."""

from __future__ import annotations

from abp_bridge.core.json_value import JsonValue
from abp_bridge.jsonrpc.protocol import Id


def encode_cancel(id: Id, reason: str) -> tuple[str, JsonValue]:
    """The notification that takes a request of ours back: (method, params)."""
    return "notifications/cancelled", {"requestId": id, "reason": reason}
