"""Questions of apps by ABP, and the bridge's question before it opens a page."""

from __future__ import annotations

from dataclasses import replace

from anyio import CancelScope

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Permission, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import (
    decode_asker,
    decode_question,
    encode_answer,
    encode_problem,
    encode_withdrawn,
)
from abp_bridge.session.app import AppError, AppListener
from abp_bridge.session.context import AskContext

CONFIRMED = "confirmed"
SESSION_ENDED = "the session ended"  # why a question is withdrawn that comes too late
TAKEN_BACK = "the app no longer waits for the answer"


async def handle_elicitation(
    raw: JsonValue,
    listener: AppListener,
    origin: str,
    scope: CancelScope | None = None,
    *,
    presumed: bool = False,
) -> dict[str, JsonValue]:
    """Ask the user an ABP elicitation.

    Args:
        raw: The request `{method, params}`, not yet checked.
        listener: Asks the question.
        origin: The name of the app that the user sees.
        scope: Cancelled when the app withdraws the question.
        presumed: Whether the bridge, not the app, calls it destructive.

    Returns:
        The ABP response, `{success, data}` or `{success, error}`.
    """
    try:
        question = decode_question(raw, id=listener.new_question_id(), origin=origin)
    except RemoteProtocolError as problem:
        return encode_problem(problem)
    if presumed:
        question = replace(question, presumed=True)
    calls, timeout = decode_asker(raw)
    context = AskContext(calls=calls, timeout=timeout)
    with scope or CancelScope():
        return encode_answer(question, await listener.elicit(question, context))
    return encode_withdrawn(TAKEN_BACK)


async def ask_permission(
    listener: AppListener, *, words: str, origin: str, refused: str, otherwise: str = ""
) -> None:
    """Ask the user for permission to open a page.

    Args:
        listener: Asks the question.
        words: The question.
        origin: The page's origin.
        refused: Begins the error: what does not happen.
        otherwise: Ends the error: what the user can do instead.

    Raises:
        AppError: No user accepted; an automatic answer does not count.
    """
    field = Field(CONFIRMED, FieldType.BOOLEAN, {"type": "boolean"}, title="Allow")
    answer = await listener.elicit(
        Question(
            listener.new_question_id(),
            Kind.CONFIRM,
            words,
            (field,),
            origin,
            permits=Permission.BROWSER,
        )
    )
    if answer.outcome is Outcome.ACCEPTED and answer.content.get(CONFIRMED) is True:
        if answer.answered_by is AnsweredBy.PERSON:
            return
        why = f"only a person can allow that, and {answer.answered_by.value} answered"
    elif answer.outcome is Outcome.UNSUPPORTED:
        why = f"nobody could be asked to allow that. {answer.reason}"
    elif answer.outcome is Outcome.ACCEPTED:
        why = "the user did not allow that"
    else:
        why = f"the user did not allow that ({answer.outcome.value}). {answer.reason}"
    raise AppError(
        f"{refused}: {why.rstrip('. ')}. {otherwise}".rstrip(),
        "USER_CANCELLED" if answer.answered_by is AnsweredBy.PERSON else "PERMISSION_REQUIRED",
    )
