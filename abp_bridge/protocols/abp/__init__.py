"""The Agentic Browser Protocol (agenticbrowserprotocol.io, version 0.1): codecs."""

from abp_bridge.protocols.abp.calls import (
    PREFIX,
    PROGRESS,
    WITHDRAWN,
    call_params,
    decode_app_info,
    decode_capabilities,
    decode_changes,
    decode_notice,
    decode_progress,
    decode_result,
    initialize_params,
    merge_capabilities,
)
from abp_bridge.protocols.abp.data import Blob, Reference, extract, fill, holds_base64
from abp_bridge.protocols.abp.questions import (
    decode_asker,
    decode_question,
    encode_answer,
    encode_problem,
    encode_withdrawn,
)

__all__ = [
    "PREFIX",
    "PROGRESS",
    "WITHDRAWN",
    "Blob",
    "Reference",
    "call_params",
    "decode_app_info",
    "decode_asker",
    "decode_capabilities",
    "decode_changes",
    "decode_notice",
    "decode_progress",
    "decode_question",
    "decode_result",
    "encode_answer",
    "encode_problem",
    "encode_withdrawn",
    "extract",
    "fill",
    "holds_base64",
    "initialize_params",
    "merge_capabilities",
]
