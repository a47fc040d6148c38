"""The result of an `elicitation/create`, as MCP hosts and ACP clients both give it."""

from __future__ import annotations

from abp_bridge.core.question import AnsweredBy, Question
from abp_bridge.interfaces.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.protocols.host_words import read_answered_by, read_host_words
from abp_bridge.protocols.mcp.elicitation import OUTCOMES, Action, decode_reply
from abp_bridge.rpc.connection import Reply


def decode_elicited(reply: Reply, question: Question) -> SurfaceResponse:
    """What the host answered `question` with, and who did, where it says so.

    Raises:
        SurfaceUnsupportedError: It says itself that nobody answered.
        RemoteProtocolError: It is no such result.
    """
    action, content = decode_reply(reply.result, question)
    answered_by = read_answered_by(reply.result)
    words = "" if action is Action.ACCEPT else read_host_words(reply.result)
    if answered_by is AnsweredBy.NOBODY:
        why = f": {words}" if words else ""
        raise SurfaceUnsupportedError(f"the host says that nobody answered{why}", lasting=False)
    return SurfaceResponse(
        OUTCOMES[action],
        content,
        reply.seconds,
        reply.exact,
        answered_by=answered_by,
        host_words=words,
    )
