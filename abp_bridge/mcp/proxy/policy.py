"""What the person has set, as far as the proxy goes by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Policy:
    """How one proxy goes about.

    Attributes:
        origin: Makes what the server is called in front of a person, of the command that was given,
            when somebody is asked.
        obstacle: (a host's name, whether it can be asked) -> why nobody can be, in words; empty
            where somebody can, or where that does not matter.
        ending: How the server ended, in words, once it has; it may wait a second for that.
        overhear: Gets what the server says that is no message.
        confirm: Before which tools a person is asked.
        roots: Folders for a server whose host has none.
        can_sample: Whether a model of the person's answers a server whose host has none.
    """

    origin: Callable[[], str]
    obstacle: Callable[[str, bool], str]
    ending: Callable[[], Awaitable[str]]
    overhear: Callable[[bytes], object]
    confirm: Collection[str] = ()
    roots: Sequence[Path] = ()
    can_sample: bool = False
