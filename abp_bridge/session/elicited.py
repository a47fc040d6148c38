"""What elicitations in MCP hosts and ACP clients share: a page's id, and the decoded result."""

from __future__ import annotations

import secrets

from abp_bridge.core.outcome import BY_ACTION, Action, AnsweredBy
from abp_bridge.core.question import Question
from abp_bridge.jsonrpc.connection import Reply
from abp_bridge.protocols.host_words import read_answered_by, read_host_meta, read_host_words
from abp_bridge.protocols.mcp.elicitation import decode_reply
from abp_bridge.session.surface import HostUnattendedError, SurfaceResponse


def make_page_id(question: Question) -> str:
    """Return a new `elicitationId` for the bridge's page with `question`.

    It is random, so that no app can present an address of its own as the page.
    """
    return f"{page_id_prefix(question.id)}{secrets.token_hex(8)}"


def page_id_prefix(question_id: str) -> str:
    """How an `elicitationId` of the bridge's page with that question begins."""
    return f"abp-{question_id}-"


def decode_elicited(reply: Reply, question: Question) -> SurfaceResponse:
    """Decode the host's result, and who answered if it says so.

    Raises:
        HostUnattendedError: It says that no one answered.
        RemoteProtocolError: It is not such a result.
    """
    action, content = decode_reply(reply.result, question)
    answered_by = find_machine(reply)
    words = "" if action is Action.ACCEPT else read_host_words(reply.result)
    return SurfaceResponse(
        BY_ACTION[action],
        content,
        reply.seconds,
        reply.exact,
        answered_by=answered_by,
        host_words=words,
        host_meta=read_host_meta(reply.result),
    )


def find_machine(reply: Reply) -> AnsweredBy | None:
    """Return who answered, if the host says that it was not a user.

    Raises:
        HostUnattendedError: It says that no one answered.
    """
    answered_by = read_answered_by(reply.result)
    if answered_by is AnsweredBy.NOBODY:
        words = read_host_words(reply.result)
        why = f": {words}" if words else ""
        raise HostUnattendedError(f"the host says that nobody answered{why}")
    return answered_by
