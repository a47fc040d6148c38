"""The time that a person has for a question, where it is the bridge that bounds it.

It goes to whatever asks as the deadline itself does, with the context: a surface that can give the
person more of it finds it there, and the others need not know that there is such a thing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class PersonTime(Protocol):
    """The time for one question, from which its wait is bounded."""

    @property
    def deadline(self) -> float:
        """When it is over, in seconds of the loop's clock."""
        ...

    def extend(self) -> None:
        """Begin it anew: from now on they have as long as they had at first. Bounded in all."""
        ...


# Of the question that is being asked; None where an app set the time itself, and keeps to it.
person_time: ContextVar[PersonTime | None] = ContextVar("person_time", default=None)
