"""Hosts in a terminal: what they draw, and the keys that the user presses."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.terminal import Pane

from . import hosts
from .hosts import A_MOMENT, calling
from .stage import GLANCE, PATIENCE, Stage, await_that

PLAN = calling("abp_call", capability="plan")


@contextmanager
def terminal(stage: Stage, env: Mapping[str, str], *command: str | Path) -> Iterator[Pane]:
    ended = stage.folder / "ended"
    ended.unlink(missing_ok=True)
    line = (
        f"cd {shlex.quote(str(stage.work))} && {shlex.join(map(str, command))}; touch"
        f" {shlex.quote(str(ended))}; cat"
    )
    own = {"TERM": "xterm-256color", "ABP_TOOL_CACHE": str(stage.home / "tools")}
    with Pane(["sh", "-c", line], {**env, **own}) as pane:
        yield pane
        await_that(ended.exists, "it did not end")


def look(pane: Pane, is_so: Callable[[str], object]) -> str:
    """What is drawn once `is_so`."""
    until = time.monotonic() + PATIENCE
    while not is_so(drawn := pane.shown):
        assert time.monotonic() < until, f"this was drawn:\n{drawn}"
        time.sleep(GLANCE)
    return drawn


def type_keys(pane: Pane, *keys: str) -> None:
    """Type key by key: what comes faster is treated as pasted."""
    for key in keys:
        time.sleep(A_MOMENT)
        pane.press(key)


def type_steps(pane: Pane, steps: str, below: str = "") -> None:
    """Wait for words and press keys: `Which class? / first [Down Enter]`."""
    for step in steps.split(" / "):
        words, _, keys = step.removesuffix("]").partition(" [")
        pane.until(words, below=below)
        type_keys(pane, *keys.split())


def type_prompt(pane: Pane, prompt: str) -> None:
    first, *others = prompt.splitlines()
    type_keys(pane, first)
    for line in others:
        type_keys(pane, "C-j", line)
    type_keys(pane, "Enter")


@contextmanager
def codex_tui(
    stage: Stage, prompt: str = PLAN, *, tool_timeout: float | None = None, **bridge_env: str
) -> Iterator[Pane]:
    env = hosts.codex_with_bridge(stage, bridge_env, tool_timeout=tool_timeout)
    with terminal(stage, env, stage.program, "--no-daemon", prompt) as pane:
        yield pane
        pane.until("DONE")
        type_keys(pane, "/quit", "Enter")


@contextmanager
def goose_session(
    stage: Stage, prompt: str = PLAN, *, tool_timeout: float | None = None, **bridge_env: str
) -> Iterator[Pane]:
    extensions = hosts.goose_extension(stage, bridge_env, tool_timeout)
    env = hosts.goose_home(stage, extensions=extensions)
    with terminal(stage, env, stage.program, "session") as pane:
        pane.until("goose is ready")
        type_prompt(pane, prompt)
        yield pane
        pane.until("Enter to send", below="DONE")
        type_keys(pane, "/exit", "Enter")


@contextmanager
def claude_tui(
    stage: Stage, prompt: str = PLAN, *, tool_timeout: float | None = None, **bridge_env: str
) -> Iterator[Pane]:
    env = hosts.claude_home(stage, tool_timeout)
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [env["ANTHROPIC_API_KEY"][-20:]], "rejected": []},
        "projects": {str(stage.work): {"hasTrustDialogAccepted": True}},
    }
    (stage.home / ".claude.json").write_text(json.dumps(known))
    with terminal(stage, env, *hosts.claude_command(stage, **bridge_env)) as pane:
        pane.until("\u276f")  # its prompt
        stage.await_tools()
        type_prompt(pane, prompt)
        yield pane
        pane.until("DONE")
        type_keys(pane, "/exit", "Enter")
