"""The Model Context Protocol: pure codecs between its shapes and `core`, for the revisions
2025-06-18, 2025-11-25 and 2026-07-28.
"""

from abp_bridge.protocols.mcp.asked import decode_form, encode_reply
from abp_bridge.protocols.mcp.elicitation import (
    LEGACY,
    Action,
    HostCapabilities,
    decode_capabilities,
    decode_reply,
    decode_roots,
    decode_sampled,
    encode_form,
    encode_sampling,
    encode_url,
    form_version,
)
from abp_bridge.protocols.mcp.model_messages import (
    decode_answered,
    encode_asked,
    encode_link,
    encode_link_message,
)
from abp_bridge.protocols.mcp.results import (
    LEVELS,
    encode_log,
    encode_progress,
    encode_result,
    encode_text,
    encode_tool,
    tool_name,
)

__all__ = [
    "LEGACY",
    "LEVELS",
    "Action",
    "HostCapabilities",
    "decode_answered",
    "decode_capabilities",
    "decode_form",
    "decode_reply",
    "decode_roots",
    "decode_sampled",
    "encode_asked",
    "encode_form",
    "encode_link",
    "encode_link_message",
    "encode_log",
    "encode_progress",
    "encode_reply",
    "encode_result",
    "encode_sampling",
    "encode_text",
    "encode_tool",
    "encode_url",
    "form_version",
    "tool_name",
]
