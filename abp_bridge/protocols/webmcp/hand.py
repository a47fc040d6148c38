"""What only a hand in the page can do: when a form needs one, the question to its person while they
have the page, and how a call ends that was in their hands.
"""

from __future__ import annotations

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, Failure, failed
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.protocols.webmcp.form import Form
from abp_bridge.protocols.webmcp.results import LOOK, UNKNOWN, refusal_result

DONE = "done"
MAX_NAMED = 5  # frames and fields


def find_need(form: Form) -> str:
    """Why only a hand in the page can finish a form, as the rest of a sentence; empty where the
    bridge can.
    """
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
    *, id: str, origin: str, description: str, call: str, why: str, wanted: str
) -> Question:
    """The question that stands while its person has the page in hand: a yes says that it is done.

    Args:
        id: The question's own.
        origin: Of the tool's frame.
        description: The page's words of what the tool does.
        call: Which call it is about.
        why: Why it takes a hand, as the rest of a sentence.
        wanted: What they are to do there, as sentences.
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
        calls=(call,),
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
    """How a call ends whose question was answered with anything but that it is done, and whose page
    said nothing.
    """
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
