"""An ABP agent may speak in envelopes: on a pipe that says so with its first message, both sides do
from then on.
"""

from __future__ import annotations

import time

from abp_bridge.core.json_value import JsonValue
from abp_bridge.rpc.protocol import JsonRpcProtocol


def translate_first(
    protocol: JsonRpcProtocol, message: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """What a host's message means before anybody has said who they are; where it is an envelope, a
    translator is set before the `protocol`.
    """
    if "jsonrpc" in message or message.get("type") != "initialize":
        return message
    from abp_bridge.protocols.abp.envelope import AgentEnvelope

    envelope = AgentEnvelope(time.time)
    protocol.inward, protocol.outward = envelope.inward, envelope.outward
    return envelope.inward(message)
