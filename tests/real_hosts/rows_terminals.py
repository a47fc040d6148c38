"""Rows of hosts in a terminal: what is drawn while they ask, and the keys of an answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from support.terminal import Pane

from .hosts import READING
from .rows import Person, Row, Setting, Shown
from .stage import Stage
from .terminals import claude_tui, codex_tui, goose_session, look, type_keys

Keys = Sequence[tuple[str, Sequence[str]]]  # where such words are drawn, these keys; the first


@dataclass(frozen=True, slots=True)
class Terminal:
    """A host's terminal: what is drawn while it `asks`, and the `keys` of each answer."""

    opened: Callable[..., AbstractContextManager[Pane]]
    asks: str
    keys: Mapping[str, Keys]

    def play(self, stage: Stage, setting: Setting, script: str, person: Person) -> None:
        timeout = setting.tool_timeout
        with self.opened(stage, script, tool_timeout=timeout, **setting.env) as pane:
            while self.asks in (
                drawn := look(pane, lambda drawn: self.asks in drawn or "DONE" in drawn)
            ):
                person(Shown("its terminal", drawn, lambda word: self._press(pane, word)))
                look(pane, lambda drawn: self.asks not in drawn)

    def _press(self, pane: Pane, word: str) -> None:
        time.sleep(next(READING))
        drawn = pane.shown
        if self.asks in drawn:  # else it has withdrawn the question
            keys = (keys for words, keys in self.keys[word] if re.search(words, drawn))
            type_keys(pane, *next(keys))


CODEX = Terminal(
    codex_tui,
    "enter to submit",
    {
        "yes": [("1. True", ["Enter"]), ("", ["Down", "Enter"])],
        "decline": [("", ["Escape"])],
        "done": [("", ["Enter"])],
    },
)
GOOSE = Terminal(
    goose_session,
    "◆",
    {
        "yes": [("○ Yes", ["y"]), ("", ["Down", "Enter"])],
        # Esc ends the whole turn: its model hears nothing more.
        "decline": [("○ Yes|● Yes", ["n"]), ("", ["Enter"])],
        "done": [("", ["Enter"])],
    },
)
CLAUDE = Terminal(
    claude_tui,
    "Esc to cancel",
    {
        "yes": [("☐", ["Space", "Enter", "Enter"]), ("", ["Right", "Down", "Enter", "Enter"])],
        "decline": [("", ["Escape"])],
        "done": [("", ["Right", "Enter"])],
    },
)

ROWS: dict[str, Row] = {
    "codex-tui": Row(
        "Codex in a terminal (`codex`)", "codex", CODEX.play, clock="`tool_timeout_sec`"
    ),
    "goose-session": Row(
        "Goose in a terminal (`goose session`)",
        "goose",
        GOOSE.play,
        clock="`timeout` of the extension",
    ),
    "claude-tui": Row(
        "Claude Code in a terminal (`claude`)",
        "claude",
        CLAUDE.play,
        unasked="trip.describe",
        clock="`MCP_TOOL_TIMEOUT`",
    ),
}
