"""What a tool of a page returned, as the browser reports it -> CallResult; and how a call ends of
which the page said nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, Failure, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.outcome import ANSWERERS, SAID_NO, AnsweredBy, Outcome
from abp_bridge.core.sanitize import label
from abp_bridge.protocols.mcp import server

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
    """What a `WebMCP.toolResponded` event says -> CallResult.

    A completed call is not a success in the page's own sense: its list of errors is data.
    """
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
    """How a call ends that may have done something, of which nobody knows.

    Args:
        why: Why nobody knows, as the rest of a sentence.
        sent: What was sent, without secrets.
    """
    words = f"It was sent, and what came of it is not known: {why}. {LOOK}"
    return CallResult(failure=Failure(UNKNOWN, words, details={"sent": dict(sent)}))


def left_by_itself() -> CallResult:
    """How a call ends whose page went on before its form was sent from here: perhaps it was sent by
    the page itself.
    """
    words = "The page went on to another by itself, before its form was sent from here"
    return CallResult(failure=Failure(UNKNOWN, f"{words}: what came of it is not known. {LOOK}"))


def beforeunload_result() -> CallResult:
    """How a call ends whose form the browser did not send after all, as its page asked whether it
    may be left, and was not: perhaps a script of the page's sent it.
    """
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
