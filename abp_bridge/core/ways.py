"""What is said where nobody could be asked: whom was tried, and every way to have somebody asked.

One table, by surface; a host's own settings come from what is known of it. The docs are printed
from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from abp_bridge.core.matrix import Surface, SurfaceVariant, can_ask
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label

MAX_LISTED = 5  # questions of one call that are named; further ones are counted


@dataclass(frozen=True, slots=True)
class Way:
    """One way to have a person asked: what they `give` to abp-bridge, and what happens `then`."""

    give: str
    then: str

    def __str__(self) -> str:
        return f"{self.give}: {self.then}"


# By the surface that it switches on, the usual way first.
WAYS: dict[Surface, Way] = {
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


def find_ways(
    question: Question, there: Collection[Surface], surfaces: Collection[Surface]
) -> Iterator[str]:
    """The ways to have `question` asked, of those for `surfaces`, in words.

    Args:
        question: What nobody could be asked.
        there: What is set up already.
        surfaces: Those that could be.
    """
    for surface, way in WAYS.items():
        is_off = surface in surfaces and surface not in there
        if is_off and can_ask(question, [SurfaceVariant(surface)]):
            yield str(way)


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
