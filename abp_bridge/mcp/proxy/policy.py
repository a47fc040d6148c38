"""What the user has set for the proxy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user has set for one proxy.

    Attributes:
        origin: Makes the server's name for the user, from its command.
        obstacle: (host's name, whether it shows questions) -> why no one can be asked, or "".
        ending: Says how the server ended; may wait a second.
        overhear: Gets the server's output that is no message.
        confirm: The tools that need approval.
        roots: Folders for a server whose host has none.
        can_sample: Whether the user's model answers if the host has none.
    """

    origin: Callable[[], str]
    obstacle: Callable[[str, bool], str]
    ending: Callable[[], Awaitable[str]]
    overhear: Callable[[bytes], object]
    confirm: Collection[str] = ()
    roots: Sequence[Path] = ()
    can_sample: bool = False
