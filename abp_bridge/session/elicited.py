"""What an `elicitation/create` to an MCP host and to an ACP client have in common: the id of a page
of the bridge's own; the result, and who gave it, or the outcome of a permission, by their own word.
"""

from __future__ import annotations

import secrets

from abp_bridge.core.outcome import BY_ACTION, Action, AnsweredBy
from abp_bridge.core.question import Question
from abp_bridge.jsonrpc.connection import Reply
from abp_bridge.protocols.host_words import read_answered_by, read_host_words
from abp_bridge.protocols.mcp.elicitation import decode_reply
from abp_bridge.session.surface import HostUnattendedError, SurfaceResponse


def make_page_id(question: Question) -> str:
    """An `elicitationId` for the bridge's own page with `question`, new each time. It begins with
    `page_id_prefix`, and no app can guess it: an address of an app's with that id would be taken
    for the page, and the page for the app's.
    """
    return f"{page_id_prefix(question.id)}{secrets.token_hex(8)}"


def page_id_prefix(question_id: str) -> str:
    """How an `elicitationId` of the bridge's page with that question begins."""
    return f"abp-{question_id}-"


def decode_elicited(reply: Reply, question: Question) -> SurfaceResponse:
    """What the host answered `question` with, and who did, where it says so.

    Raises:
        HostUnattendedError: It says itself that nobody answered.
        RemoteProtocolError: It is no such result.
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
    )


def find_machine(reply: Reply) -> AnsweredBy | None:
    """Who answered, as the host says itself, where that was no person.

    Raises:
        HostUnattendedError: It says itself that nobody did.
    """
    answered_by = read_answered_by(reply.result)
    if answered_by is AnsweredBy.NOBODY:
        words = read_host_words(reply.result)
        why = f": {words}" if words else ""
        raise HostUnattendedError(f"the host says that nobody answered{why}")
    return answered_by
