"""What an MCP request can be refused with, and how a request of ours is taken back."""

from __future__ import annotations

from typing import Any

from abp_bridge.rpc.protocol import Id

Json = Any

RESOURCE_NOT_FOUND = -32002


class RpcError(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def encode_cancel(id: Id, reason: str) -> tuple[str, Json]:
    """How a request of ours is taken back in MCP: see `rpc.connection.Link`."""
    return "notifications/cancelled", {"requestId": id, "reason": reason}
