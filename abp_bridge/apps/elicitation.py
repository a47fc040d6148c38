"""An app's ABP request for its person, whatever kind of app it is: decoded, asked, and answered in
ABP.
"""

from __future__ import annotations

from dataclasses import replace

from anyio import CancelScope

from abp_bridge.core.json_value import JsonValue
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import (
    decode_question,
    encode_answer,
    encode_problem,
    encode_withdrawn,
)
from abp_bridge.session.app import QuestionListener

SESSION_ENDED = "the session ended"  # why a question is withdrawn that comes too late
TAKEN_BACK = "the app no longer waits for the answer"


async def handle_elicitation(
    raw: JsonValue,
    listener: QuestionListener,
    origin: str,
    scope: CancelScope | None = None,
    *,
    presumed: bool = False,
) -> dict[str, JsonValue]:
    """Have a person asked what an app asks.

    Args:
        raw: The app's ABP request, `{method, params}`; anything is taken, and refused if need be.
        listener: Who gets it asked.
        origin: What the person is told asks them.
        scope: Cancelled when the app takes it back: then it is taken down. None where none can.
        presumed: Whether it is the bridge that takes a yes to be what cannot be undone.

    Returns:
        The ABP response, `{success, data}` or `{success, error}`.
    """
    try:
        question = decode_question(raw, id=listener.new_question_id(), origin=origin)
    except RemoteProtocolError as problem:
        return encode_problem(problem)
    if presumed:
        question = replace(question, presumed=True)
    with scope or CancelScope():
        return encode_answer(question, await listener.ask(question))
    return encode_withdrawn(TAKEN_BACK)
