"""What is said where nobody could be asked: whom was tried, and every way to have somebody asked.

One table, by surface, for whoever gives abp-bridge its arguments; where a host's person gives it
other things, and what they can do in it, comes from what is known of that host. The docs are
printed from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core.matrix import SurfaceVariant, can_ask
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import Surface

MAX_LISTED = 5  # questions of one call that are named; further ones are counted


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
    """How the person of one host comes to be asked.

    Attributes:
        ways: What they can do in the host, in words.
        options: What sets up a surface beside it, as they give it.
    """

    ways: Sequence[str] = ()
    options: Options = field(default_factory=lambda: BESIDE)


def find_ways(question: Question, there: Collection[Surface], options: Options) -> Options:
    """Those of `options` by which `question` would be asked; what is `there` already is none."""
    return {
        surface: way
        for surface, way in options.items()
        if surface not in there and can_ask(question, [SurfaceVariant(surface)])
    }


@dataclass(frozen=True, slots=True)
class UnaskedQuestion:
    """A question that no person was asked: its words, who asked, what was tried (each surface with
    its reason), and the ways to have somebody asked. Made safe where it is described.
    """

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
