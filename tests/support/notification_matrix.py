"""What hosts show beside questions, as data for the docs and for the tests."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from abp_bridge.core.matrix import NATIVE, Cell, Support, downgrade, refusal
from abp_bridge.core.surface import Surface


class Hint(enum.Enum):
    """What an app may say with a question; the value is its row's heading."""

    DEFAULT = "default"
    DESCRIPTION = "description"


class Trigger(enum.Enum):
    """What passes beside questions and answers; the value is its row's heading."""

    PROGRESS = "progress"
    CAPABILITIES = "capabilities changed"
    STATE = "state changed"
    OPERATION = "operation started, completed"
    ERROR = "error"
    DECLINED = "a question declined"
    CANCELLED = "a question dismissed"
    TIMEOUT = "nobody answers in time"
    PREFERENCE = "a preference that nobody gives"
    HOST_CANCELS = "the host gives a call up"
    APP_ENDS = "the app ends while it asks"
    TOGETHER = "two questions at once"
    CONFIRMED = "a call that a person must allow (--confirm)"


def _native(how: str) -> Cell:
    return Cell(Support.NATIVE, how)


_IN_WORDS = downgrade("in words")
_PAGE: Mapping[Hint, Cell] = {
    Hint.DEFAULT: _native("filled in, and said to be the app's"),
    Hint.DESCRIPTION: NATIVE,
}
_FORM: Mapping[Hint, Cell] = {Hint.DEFAULT: NATIVE, Hint.DESCRIPTION: NATIVE}

HINTS: dict[tuple[Surface, str], Mapping[Hint, Cell]] = {
    (Surface.MCP_FORM, "2025-06-18"): {
        Hint.DEFAULT: downgrade("in words, but for a yes or no"),
        Hint.DESCRIPTION: NATIVE,
    },
    (Surface.MCP_FORM, "2025-11-25"): _FORM,
    (Surface.MCP_FORM, "2026-07-28"): _FORM,
    (Surface.MCP_URL, ""): _PAGE,
    (Surface.ACP_FORM, ""): _FORM,
    (Surface.ACP_URL, ""): _PAGE,
    (Surface.ACP_PERMISSION, ""): {
        Hint.DEFAULT: downgrade(
            "the first button, which says so; one that keeps it, of a short text or a number"
        ),
        Hint.DESCRIPTION: downgrade("in the card's text"),
    },
    (Surface.ACP_CHAT, ""): dict.fromkeys(Hint, downgrade("in the message that asks")),
    (Surface.ABP, ""): _FORM,
    (Surface.TERMINAL, ""): {Hint.DEFAULT: _native("Enter takes it"), Hint.DESCRIPTION: NATIVE},
    (Surface.PAGE, ""): _PAGE,
    (Surface.QUESTIONS_API, ""): {
        Hint.DEFAULT: downgrade("an option that says so"),
        Hint.DESCRIPTION: _IN_WORDS,
    },
    (Surface.MOCK, ""): dict.fromkeys(Hint, refusal("what is written down is taken as it is")),
    (Surface.MODEL_RELAY, ""): dict.fromkeys(
        Hint, downgrade("in the schema that the model is given")
    ),
}

MCP_LEGACY, MCP_2025_11_25, MCP_MODERN, ACP, ABP = (
    "MCP 2025-06-18",
    "MCP 2025-11-25",
    "MCP 2026-07-28",
    "ACP 1",
    "ABP 0.1",
)

_LOG = _native("a log message, and at the end of the result")
_TAKEN_BACK = _native("the question is taken down by notifications/cancelled")
_WITHDRAWN = _native("the question is taken down by notifications/elicitation/withdrawn")
_USER_CANCELLED = _native("USER_CANCELLED")
_DEFAULT = Cell(Support.DEFAULT, "the app's own")
_BOTH = _native("both are asked, each has its own answer")
_ALLOWED = _native("asked before the app hears of it; without a yes the result says so")

_LEGACY: dict[Trigger, Cell] = {
    Trigger.PROGRESS: _native("notifications/progress on the call's token"),
    Trigger.CAPABILITIES: _native("notifications/tools/list_changed"),
    Trigger.STATE: _native("a resource, a log message, and at the end of the result"),
    Trigger.OPERATION: _LOG,
    Trigger.ERROR: _LOG,
    Trigger.DECLINED: _USER_CANCELLED,
    Trigger.CANCELLED: _USER_CANCELLED,
    Trigger.TIMEOUT: _TAKEN_BACK,
    Trigger.PREFERENCE: _DEFAULT,
    Trigger.HOST_CANCELS: _native("the question is taken down, the app hears capabilities/cancel"),
    Trigger.APP_ENDS: _native("the question is taken down, the call fails"),
    Trigger.TOGETHER: _BOTH,
    Trigger.CONFIRMED: _ALLOWED,
}

NOTIFICATION_MATRIX: dict[str, Mapping[Trigger, Cell]] = {
    MCP_LEGACY: _LEGACY,
    MCP_2025_11_25: _LEGACY,
    MCP_MODERN: (
        _LEGACY
        | {
            Trigger.CAPABILITIES: _native("notifications/tools/list_changed to those who listen"),
            Trigger.STATE: _native(
                "a resource to those who listen, a log message, and at the end of the result"
            ),
            Trigger.TIMEOUT: downgrade("the next leg has the result, which says TIMEOUT"),
            Trigger.HOST_CANCELS: _native("the app hears capabilities/cancel"),
            Trigger.APP_ENDS: downgrade("the next leg fails"),
            Trigger.TOGETHER: _native("both in one round, each has its own answer"),
        }
    ),
    ACP: _LEGACY
    | {
        Trigger.PROGRESS: _native("updates of the running tool call"),
        Trigger.CAPABILITIES: _native("available_commands_update"),
        Trigger.STATE: _native("a notice where the client takes them, and in the result"),
        Trigger.OPERATION: _native("a tool call of its own"),
        Trigger.ERROR: _native("a notice where the client takes them, and in the result"),
        Trigger.TIMEOUT: _native("the card is taken down by $/cancel_request"),
        Trigger.HOST_CANCELS: _native(
            "session/cancel: the card is taken down, the app hears capabilities/cancel"
        ),
        Trigger.APP_ENDS: _native("the card is taken down, the call fails"),
    },
    ABP: _LEGACY
    | {
        Trigger.PROGRESS: _native("notifications/progress of the agent's own callId"),
        Trigger.CAPABILITIES: _native("notifications/capabilities/list_changed"),
        Trigger.STATE: _native("notifications/state/changed"),
        Trigger.OPERATION: _native("notifications/operation/started, completed"),
        Trigger.ERROR: _native("notifications/error"),
        Trigger.TIMEOUT: _WITHDRAWN,
        Trigger.HOST_CANCELS: _native("capabilities/cancel: the question is taken down"),
        Trigger.APP_ENDS: _native("the question is taken down, and its call fails"),
        Trigger.CONFIRMED: _native(
            "asked before the app hears of it; without a yes the call fails"
        ),
    },
}
