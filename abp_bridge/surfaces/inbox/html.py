"""The inbox as pages of HTML: the list, the entrance, and what is said where nothing else is.

The pages are templates, readable without styles and scripts, which escape whatever an app or a
bridge says (`autoescape`); our own sentences are the page's `words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from abp_bridge.surfaces.inbox.history import DAYS, Ended
from abp_bridge.surfaces.page.web import Templates
from abp_bridge.surfaces.page.words import Words

if TYPE_CHECKING:
    from markupsafe import Markup

    from abp_bridge.surfaces.inbox.bridges import Overview
    from abp_bridge.surfaces.inbox.open_question import OpenQuestion

SHOWN = 50  # lines of the history
UNPAIR = "abp-bridge inbox --unpair"

_TEMPLATES = Templates(Path(__file__).parent / "templates")


def _clock(time: float | datetime) -> str:
    """Of today the time, else the day too."""
    when = time if isinstance(time, datetime) else datetime.fromtimestamp(time)
    today = datetime.now(when.tzinfo).date()
    return when.strftime("%H:%M" if when.date() == today else "%Y-%m-%d %H:%M")


_TEMPLATES.environment.filters["clock"] = _clock


def inbox_page(
    home: str,
    found: Overview,
    version: str,
    *,
    past: Sequence[Ended],
    paired: Sequence[float],
    guard: str,
    words: Words,
) -> str:
    """What is open now at all bridges, and what was answered lately.

    Args:
        home: The address of the inbox.
        found: The bridges, and what of them is not seen.
        version: Of this list.
        past: What ended, the newest first.
        paired: When each browser was paired, in seconds since 1970.
        guard: Comes back with what is sent from here.
        words: Our own sentences, in the reader's language.
    """
    listed = [(bridge, each) for bridge in found.bridges for each in bridge.questions]
    listed.sort(key=lambda each: each[1].since)
    count = f"({len(listed)}) " if listed else ""
    times = ", ".join(map(_clock, paired))
    return _TEMPLATES.render(
        "inbox",
        words,
        heading=f"{count}{words('all.heading')}",
        home=home,
        listed=[(bridge, each, _who(each, words), _when(each, words)) for bridge, each in listed],
        silent=[each for each in found.bridges if not each.answers],
        problems=found.problems,
        not_asked=found.not_asked,
        more=sum(each.more for each in found.bridges),
        version=version,
        past=past[:SHOWN],
        days=DAYS,
        paired=words("all.only", times=times)
        if len(paired) == 1
        else words("all.several", count=len(paired), times=times, command=UNPAIR),
        guard=guard,
    )


def _who(question: OpenQuestion, words: Words) -> Sequence[Markup]:
    """Who asks, what that calls itself, for which capability and through which host."""
    said = [words.html("who.asks", asker=question.asker)]
    if question.name:
        said.append(words.html("who.name", name=question.name))
    agent = {"agent": question.host} if question.host else {}
    if question.capability:
        key = "who.tool" if agent else "who.tool_only"
        said.append(words.html(key, tool=question.capability, **agent))
    elif agent:
        said.append(words.html("who.agent", **agent))
    return said


def _when(question: OpenQuestion, words: Words) -> Sequence[Markup]:
    """Since and until when it is open, and where it is answered."""
    said = [words.html("time.asked", time=_clock(question.since))]
    if question.until is not None:
        said.append(words.html("time.until", time=_clock(question.until)))
    place = question.place if question.place != "host" or question.host else "unnamed"
    host = {"host": question.host} if place == "host" else {}
    return [*said, words.html(f"all.place_{place}", **host)]


def pair_command(port: int) -> str:
    """What starts the inbox at `port` so that one browser more is paired."""
    return f"abp-bridge inbox --pair --port {port}"


def entrance_page(words: Words, port: int, *, invited: bool, wrong: bool = False) -> str:
    """The first page, at `port`: says nothing of what is asked. Takes a code where somebody is
    `invited`.
    """
    heading = words("all.entrance")
    unpaired = words("all.unpaired_words", command=pair_command(port))
    context = {"invited": invited, "wrong": wrong, "unpaired": unpaired}
    return _TEMPLATES.render("entrance", words, heading=heading, **context)


def notice_page(words: Words, key: str, sentence: str, home: str = "") -> str:
    """A page that only says something, and leads a paired browser `home`."""
    return _TEMPLATES.render("notice", words, heading=words(key), sentence=sentence, home=home)
