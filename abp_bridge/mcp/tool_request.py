"""A host's `tools/call` while it waits. Light: the front of a connection makes one for each, before
anything of the session behind it is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import anyio

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import Id
from abp_bridge.protocols.mcp.client import McpClientInfo

if TYPE_CHECKING:
    from abp_bridge.core.event import Progress
    from abp_bridge.jsonrpc.connection import OnSent
    from abp_bridge.mcp.request_state import RequestState
    from abp_bridge.protocols.mcp.structured import Promise


class Abandonable(Protocol):
    """What a request waits for: a `ParkedCall`."""

    def give_up(self, request: ToolRequest, reason: str) -> None:
        """This request waits no more, and wants no answer."""
        ...


class ToolRequest:
    """A host's request while it waits for a call.

    Attributes:
        scope: Cancelled when the host takes the request back.
        received_at: When it came, by the loop's clock in seconds.
        first_byte_at: When its first byte came, at the earliest, by the same clock.
        token: Its `progressToken`, as it came.
        progress: What was last told on it.
        tool: The name of the tool that it asks for.
        arguments: What it asks that tool with.
        round: How many results asked for input before it.
        parked: The call, once there is one.
        on_sent: Is told when its result has left (`OnSent`).
        output_schema: What the host was promised of the tool's results.
        state: What it brings back of an earlier round, where that was made here.
    """

    def __init__(self, id: Id, client: McpClientInfo, first_byte_at: float) -> None:
        self.id = id
        self.client = client
        self.scope = anyio.CancelScope()
        self.received_at = now()
        self.first_byte_at = first_byte_at
        self.token: JsonValue = None
        self.progress: Progress | None = None
        self.tool = ""
        self.arguments: JsonObject = {}
        self.round = 0
        self.parked: Abandonable | None = None
        self.on_sent: OnSent | None = None
        self.state: RequestState | None = None
        self.output_schema: Promise | None = None

    def cancel(self, reason: str) -> None:
        """The host cancelled: the call ends now, and nothing that the same read brings can still
        answer its questions.
        """
        if self.parked is not None:
            self.parked.give_up(self, reason)
        self.scope.cancel()
