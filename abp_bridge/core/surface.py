"""The surfaces: their traits, order and setup. `matrix.MATRIX` has what each can ask."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core.outcome import AnsweredBy
from abp_bridge.core.sanitize import label

MAX_LISTED = 5  # questions, frames or fields that a message names; others are counted


class Surface(enum.Enum):
    """One way a person can be asked: through the host, or by what they set up beside it."""

    MCP_FORM = "mcp-form"
    MCP_URL = "mcp-url"
    MCP_SAMPLING = "mcp-sampling"
    ACP_FORM = "acp-form"
    ACP_URL = "acp-url"
    ACP_PERMISSION = "acp-permission"
    ACP_CHAT = "acp-chat"
    ABP = "abp"
    TERMINAL = "terminal"
    PAGE = "page"
    QUESTIONS_API = "questions-api"
    MOCK = "mock"
    SAMPLING = "sampling"
    MODEL_RELAY = "model-relay"


@dataclass(frozen=True, slots=True)
class SurfaceTraits:
    """What a surface is.

    Attributes:
        since: The first protocol version with it; empty for one beside the host.
        machine: Who always answers there, if not the user.
        is_link: Whether the host sends the user to an address.
        is_attended: Whether the user must go somewhere or speak next.
        has_buttons: Whether an answer is a button.
        is_by_hand: Whether the user answers there beside the host.
        is_long: Whether it shows as much as a page; others as much as a message.
        is_model: Whether it asks a model and not the user.
        is_hosts_model: Whether it goes through the host's model.
    """

    since: str = ""
    machine: AnsweredBy | None = None
    is_link: bool = False
    is_attended: bool = False
    has_buttons: bool = False
    is_by_hand: bool = False
    is_long: bool = False
    is_model: bool = False
    is_hosts_model: bool = False


TRAITS: Mapping[Surface, SurfaceTraits] = {
    Surface.MCP_FORM: SurfaceTraits("MCP 2025-06-18"),
    Surface.MCP_URL: SurfaceTraits("MCP 2025-11-25", is_link=True, is_attended=True, is_long=True),
    Surface.MCP_SAMPLING: SurfaceTraits("MCP 2025-06-18", is_model=True, is_hosts_model=True),
    Surface.ACP_FORM: SurfaceTraits("ACP 1"),
    Surface.ACP_URL: SurfaceTraits("ACP 1", is_link=True, is_attended=True, is_long=True),
    Surface.ACP_PERMISSION: SurfaceTraits("ACP 1", has_buttons=True),
    Surface.ACP_CHAT: SurfaceTraits("ACP 1", is_attended=True),
    Surface.ABP: SurfaceTraits("ABP 0.1"),
    Surface.TERMINAL: SurfaceTraits(is_by_hand=True, is_long=True),
    Surface.PAGE: SurfaceTraits(is_by_hand=True, is_long=True),
    Surface.QUESTIONS_API: SurfaceTraits(),
    Surface.MOCK: SurfaceTraits(machine=AnsweredBy.SCRIPT, is_long=True),
    Surface.SAMPLING: SurfaceTraits(is_model=True),
    Surface.MODEL_RELAY: SurfaceTraits(machine=AnsweredBy.MODEL, is_hosts_model=True),
}


# In which order a session asks, unless its person says otherwise: `HOST` stands for all of the
# host's surfaces but its model's.
HOST = "host"
ORDER = (
    Surface.MOCK.value,
    HOST,
    Surface.TERMINAL.value,
    Surface.QUESTIONS_API.value,
    Surface.PAGE.value,
    Surface.SAMPLING.value,
    Surface.MODEL_RELAY.value,
)


def order_of(names: Sequence[str]) -> Sequence[str]:
    """The person's own order, each name once, or the usual one where there is none."""
    return tuple(dict.fromkeys(names)) or ORDER


def missing_surface(names: Sequence[str], set_up: Collection[str]) -> str | None:
    """The first of `names` that nobody can be asked by: neither the host nor one that is set up."""
    return next((name for name in names if name != HOST and name not in set_up), None)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to have a person asked: what they `give` to abp-bridge, and what happens `then`."""

    give: str
    then: str

    def __str__(self) -> str:
        return f"{self.give}: {self.then}"


Options = Mapping[Surface, Way]

# By the surface that it switches on, the usual way first.
WAYS: Options = {
    Surface.PAGE: Way("--page open", "your browser is opened at a page of the bridge's own"),
    Surface.TERMINAL: Way("--tty DEVICE", "you are asked at another terminal of yours"),
    Surface.MODEL_RELAY: Way(
        "--ask-via-model", "your model asks you in its chat, and brings your answer"
    ),
    Surface.SAMPLING: Way("--sampling MODEL", "a model of yours answers, once you have approved"),
    Surface.QUESTIONS_API: Way(
        "--questions-api PORT", "a program that shows OpenCode's questions asks you"
    ),
}
# Those that no host has a part in.
BESIDE: Options = {each: way for each, way in WAYS.items() if each is not Surface.MODEL_RELAY}


@dataclass(frozen=True, slots=True)
class Advice:
    """How the user of one host can be asked.

    Attributes:
        ways: What to do in the host.
        options: Options that set up a surface.
    """

    ways: Sequence[str] = ()
    options: Options = field(default_factory=lambda: BESIDE)


@dataclass(frozen=True, slots=True)
class UnaskedQuestion:
    """A question that was not asked: its words, requester, tried surfaces and ways to be asked."""

    message: str
    origin: str
    tried: Sequence[str]
    ways: Sequence[str]


def describe_unasked(questions: Sequence[UnaskedQuestion]) -> list[str]:
    """What a model and its person read of these, a line each; none where there are none."""
    if not questions:
        return []
    lines = ["Nobody is known to have been asked the following. Tell your user so."]
    for each in questions[:MAX_LISTED]:
        lines.append(f'- {label(each.origin)} asked: "{label(each.message, 300)}"')
        lines += [f"  tried: {label(words, 500)}" for words in each.tried]
    if (more := len(questions) - MAX_LISTED) > 0:
        lines.append(f"- and {more} more")
    ways = list(dict.fromkeys(way for each in questions for way in each.ways))
    if ways:
        lines.append(
            "To be asked, they choose one of these; an option goes to abp-bridge's arguments, where"
            " this host is told to start it:"
        )
        lines += [f"- {way}" for way in ways]
    return lines
