"""How a page's tool call ends, and the question while the user works in the page."""

from __future__ import annotations

from collections.abc import Mapping

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, Failure, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.outcome import ANSWERERS, SAID_NO, AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.protocols.mcp import server
from abp_bridge.protocols.webmcp.form import Form

UNKNOWN = "OUTCOME_UNKNOWN"

# What an error of the browser's begins with, and the code it is told with.
_CODES = {
    "Form validation failed": "INVALID_PARAMS",
    "Invalid ": "INVALID_PARAMS",
    "Tool not found": "UNKNOWN_CAPABILITY",
}
# The page's script stopped the sending and did not say what it did in its place.
_SILENT = "preventDefault"
LOOK = "Do not call it again before you know: it may be done twice."


def decode_response(raw: JsonValue) -> CallResult:
    """Decode a `WebMCP.toolResponded` event; a page's own error list is data."""
    said = as_object(raw)
    status = as_text(said.get("status"))
    if status == "Completed":
        return _completed(said.get("output"))
    words = label(_first_line(said) or "the page gave no reason", 1_000)
    if was_ended(said):
        return failed("CANCELLED", f"The page ended the call: {words}", cancelled=True)
    if _SILENT in words:
        return unknown_outcome(f"the page did not say what became of it ({words})", {})
    code = next((code for start, code in _CODES.items() if words.startswith(start)), "")
    return failed(code or "OPERATION_FAILED", words)


def was_ended(raw: JsonObject) -> bool:
    """Whether a `WebMCP.toolResponded` event says that the page ended the call, or its form did."""
    return raw.get("status") == "Canceled"


def _completed(output: JsonValue) -> CallResult:
    """The data as they are; what has MCP's shape is read as that."""
    blocks = as_list(as_object(output).get("content"))
    if blocks and all(isinstance(as_object(each).get("type"), str) for each in blocks):
        return server.decode_result(output)
    return CallResult(output)


def _first_line(said: JsonObject) -> str:
    """Why it failed; a script's error without its stack."""
    thrown = as_object(said.get("exception"))
    words = as_text(said.get("errorText")) or as_text(thrown.get("description"))
    return (words or as_text(thrown.get("value"))).strip().split("\n", 1)[0]


def unknown_outcome(why: str, sent: Mapping[str, JsonValue]) -> CallResult:
    """Return the result of a call that may have had an effect.

    Args:
        why: Why it is unknown, as the rest of a sentence.
        sent: What was sent, without secrets.
    """
    words = f"It was sent, and what came of it is not known: {why}. {LOOK}"
    return CallResult(failure=Failure(UNKNOWN, words, details={"sent": dict(sent)}))


def left_by_itself() -> CallResult:
    """Return the result if the page navigated before the bridge sent the form."""
    words = "The page went on to another by itself, before its form was sent from here"
    return CallResult(failure=Failure(UNKNOWN, f"{words}: what came of it is not known. {LOOK}"))


def beforeunload_result() -> CallResult:
    """Return the result if the page's "leave?" dialog stopped the form."""
    words = "The browser did not send the form: its page asked whether it may be left, and was not"
    more = "What a script of the page's own did with it is not known."
    return CallResult(failure=Failure(UNKNOWN, f"{words}. {more} {LOOK}"))


def refusal_result(answer: Answer) -> CallResult:
    """How a call ends whose question was not accepted, or was answered with a no."""
    row = SAID_NO if answer.outcome is Outcome.ACCEPTED else answer.outcome.row
    code, cancelled = row.code, row.cancelled
    why = row.why.format(who=ANSWERERS[answer.answered_by])
    if answer.answered_by is AnsweredBy.HOST_POLICY:
        code, why, cancelled = "PERMISSION_REQUIRED", "no person answered", False
    reason = f" {answer.reason}" if answer.reason else ""
    words = f"Nothing was sent: {why}.{reason}"
    return failed(code, words, retryable=row.retryable, cancelled=cancelled)


def unsent_result(
    why: str, code: str = "OPERATION_FAILED", *, retryable: bool = False
) -> CallResult:
    """How a call ends that the page or the bridge ended before anything was sent."""
    return failed(code, f"Nothing was sent: {why}.", retryable=retryable)


DONE = "done"
MAX_NAMED = 5  # frames and fields


def find_need(form: Form) -> str:
    """Return why only the user can finish a form, as the rest of a sentence; else ""."""
    if form.stuck:
        return f"its page made {_listed(form.stuck)} itself, which cannot be filled in from here"
    return describe_frames(form.frames)


def describe_frames(origins: tuple[str, ...]) -> str:
    """Whose frames are shown, which nobody else can read, as the rest of a sentence."""
    if not origins:
        return ""
    named = _listed([origin or "no origin" for origin in dict.fromkeys(origins)])
    return f"a frame of {named} is in it, which nobody else can read or fill in"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(sanitize.label(each, 80) for each in names[:MAX_NAMED])}{more}"


def make_hand_question(
    *, id: str, origin: str, description: str, why: str, wanted: str
) -> Question:
    """Return the question shown while the user works in the page; yes means done.

    Args:
        id: The question's id.
        origin: Of the tool's frame.
        description: The page's description of the tool.
        why: Why the user is needed, as the rest of a sentence.
        wanted: What to do there, as sentences.
    """
    note = (
        f"Only a hand in the page can go on: {why}. Its window is in front now. {wanted} Then say"
        " yes here. A no drops it."
    )
    return Question(
        id,
        Kind.CONFIRM,
        sanitize.message(description) or "Please do this in the page.",
        (Field(DONE, FieldType.BOOLEAN, {"type": "boolean"}, title="It is done"),),
        origin,
        wrapped=False,
        destructive=True,
        presumed=True,
        note=note,
    )


def says_done(answer: Answer) -> bool:
    """Whether its person said that it is done."""
    return answer.outcome is Outcome.ACCEPTED and answer.content.get(DONE) is True


def reached_nobody(answer: Answer) -> bool:
    """Whether no person had anything in hand, as none was asked."""
    return answer.outcome is Outcome.UNSUPPORTED or answer.answered_by is AnsweredBy.HOST_POLICY


def end_hand(answer: Answer) -> CallResult:
    """Return the result of a call whose page did not respond and whose user did not say done."""
    if reached_nobody(answer) or answer.outcome is Outcome.WITHDRAWN:
        return refusal_result(answer)
    if answer.outcome in (Outcome.TIMED_OUT, Outcome.INVALID):
        return unknown_after_hand("nobody said within the time whether it is done")
    words = "It was dropped; what the page or its person had done by then is done."
    return failed("USER_CANCELLED", words, cancelled=True)


def unknown_after_hand(why: str) -> CallResult:
    """How a call ends that was in its person's hands, and of which nobody knows what came."""
    words = f"Its person had the page in hand, and what came of it is not known: {why}. {LOOK}"
    return CallResult(failure=Failure(UNKNOWN, words))


def needs_window(why: str, next_step: str) -> CallResult:
    """How a call ends that only a hand could finish, where no window is."""
    words = f"Nothing was sent: only a hand in the page can go on, as {why}. {next_step}."
    return failed("NOT_SUPPORTED", words)
