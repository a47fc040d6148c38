"""The time that a person has for a question, where it is the bridge that bounds it.

It goes to whatever asks as the deadline itself does, with the context: a surface that can give the
person more of it finds it there, and the others need not know that there is such a thing.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

NOBODY = "nobody answered"


class PersonTime(Protocol):
    """The time for one question, from which its wait is bounded."""

    @property
    def deadline(self) -> float:
        """When it is over, in seconds of the loop's clock."""
        ...

    def extend(self) -> None:
        """Begin it anew: from now on they have as long as they had at first. Bounded in all."""
        ...


@dataclass(slots=True)
class Awaited:
    """What a question waits for.

    Attributes:
        words: Who has not done what, should its time be over now: they go on with `within 30 s`.
        over: It has ended: whatever is answered now comes too late.
    """

    words: str = NOBODY
    over: bool = False


# Of the question that is being asked: whom it waits for, as whatever asks it says.
awaited: ContextVar[Awaited | None] = ContextVar("awaited", default=None)


def wait_for(words: str = NOBODY) -> None:
    """The question that is being asked waits for something else now."""
    if (waits := awaited.get()) is not None:
        waits.words = words


# Of the question that is being asked; None where an app set the time itself, and keeps to it.
person_time: ContextVar[PersonTime | None] = ContextVar("person_time", default=None)
