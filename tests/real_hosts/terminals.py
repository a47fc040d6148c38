"""Hosts in a terminal of their own: what they draw, and the keys a person presses."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.tmux import Pane

from . import hosts
from .hosts import A_MOMENT, calling
from .stage import BRIDGE_ENV, Stage, await_that

PLAN = calling("abp_call", capability="plan")


@contextmanager
def terminal(stage: Stage, env: Mapping[str, str], *command: str | Path) -> Iterator[Pane]:
    """`command` in a terminal of its own; afterwards it has ended."""
    ended = stage.folder / "ended"
    line = (
        f"cd {shlex.quote(str(stage.work))} && {shlex.join(map(str, command))}; touch"
        f" {shlex.quote(str(ended))}; cat"
    )
    with Pane(["sh", "-c", line], {**env, "TERM": "xterm-256color"}) as pane:
        yield pane
        await_that(ended.exists, "it did not end")


def type_keys(pane: Pane, *keys: str) -> None:
    """Key by key, as a person does: what comes faster is taken for something that was pasted."""
    for key in keys:
        time.sleep(A_MOMENT)
        pane.press(key)


@contextmanager
def codex_tui(stage: Stage, prompt: str = PLAN) -> Iterator[Pane]:
    """Codex in a terminal, with the turn `prompt` begun."""
    env = hosts.codex_with_bridge(stage, {})
    with terminal(stage, env, stage.program, "--no-daemon", prompt) as pane:
        yield pane
        pane.until("DONE")
        type_keys(pane, "/quit", "Enter")


@contextmanager
def goose_session(stage: Stage, prompt: str = PLAN) -> Iterator[Pane]:
    """Goose in a terminal, with the turn `prompt` begun."""
    bridge = shlex.join(
        [*(f"{name}={value}" for name, value in BRIDGE_ENV.items()), *stage.bridge()]
    )
    with terminal(
        stage,
        hosts.goose_home(stage),
        stage.program,
        "session",
        "--no-profile",
        "--with-extension",
        f"abp:{bridge}",
    ) as pane:
        pane.until("goose is ready")
        type_keys(pane, prompt, "Enter")
        yield pane
        pane.until("DONE")
        pane.press("/exit", "Enter")
