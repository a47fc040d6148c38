"""What is simulated of the product itself, a page in memory, and what is reported of a session."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from abp_bridge.cli.compose import Composition, tell_each
from abp_bridge.session.bridge import Bridge
from abp_bridge.session.context import Observer
from abp_bridge.session.elicitor import Elicitor

from .page import Page

Json = Any


@dataclass
class Report:
    """What happened in one session: counts of answers by who gave them, of faults by kind."""

    seed: int
    host: str = ""
    steps: int = 0
    questions: int = 0
    notices: int = 0
    calls: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        for name in ("steps", "questions", "notices", "calls", "answers", "faults"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Bugs(logging.Handler):
    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        self._problems.append(f"the bridge logs a bug: {record.getMessage()}")


@contextmanager
def noting_bugs(problems: list[str]) -> Iterator[None]:
    """Add whatever the product logs as an error to `problems`."""
    logging.getLogger("abp_bridge").addHandler(bugs := _Bugs(problems))
    try:
        yield
    finally:
        logging.getLogger("abp_bridge").removeHandler(bugs)


class SimulatedComposition(Composition):
    """The product's own composition, with a page in memory."""

    def __init__(
        self,
        *args: Any,
        page: Page,
        on_bridge: Callable[[Bridge], None],
        on_elicitor: Callable[[Elicitor], None],
    ) -> None:
        super().__init__(*args)
        self.__dict__["page"] = page
        self.__dict__["_known_offers"] = None  # files are read and written on threads
        self._on_bridge = on_bridge
        self._on_elicitor = on_elicitor

    def _observe_session(self, host: Any) -> Observer:
        """No inbox: its socket is the machine's, and waits by the machine's clock."""
        return tell_each(self._observers)

    def make_mcp_elicitor(self, *host: Any, **more: Any) -> Elicitor:
        elicitor = super().make_mcp_elicitor(*host, **more)
        self._on_elicitor(elicitor)
        return elicitor

    def make_bridge(self, *host: Any) -> Bridge:
        bridge = super().make_bridge(*host)
        self._on_bridge(bridge)
        return bridge
