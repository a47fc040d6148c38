"""Rows of further hosts: Gemini CLI, Qwen Code, Copilot CLI, and agents behind `abp-bridge acp`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from support.tmux import Pane

from .hosts import (
    Runtime,
    before_goose,
    claude_home,
    copilot_command,
    copilot_home,
    copilot_print,
    gemini_home,
    installed,
    qwen_home,
    run,
    server_entry,
)
from .rows import Person, Row, Setting, Shown, not_here, talk
from .stage import BRIDGE_ENV, GLANCE, PATIENCE, Stage
from .terminals import terminal, type_keys

Json = Any


# --- hosts without questions of their own ---------------------------------------------------------


def _with_timeout(entry: Json, setting: Setting) -> Json:
    """A server's entry with `timeout`, which is in milliseconds with all of them."""
    seconds = setting.tool_timeout
    return entry if seconds is None else {**entry, "timeout": round(seconds * 1000)}


def _add_server(settings: Path, stage: Stage, setting: Setting) -> None:
    """Write the bridge into settings as Gemini and Qwen have them."""
    known = json.loads(settings.read_text()) if settings.exists() else {}
    entry = _with_timeout(server_entry(stage, setting.env), setting)
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({**known, "mcpServers": {"abp": {**entry, "trust": True}}}))


def gemini_print(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    env = gemini_home(stage)
    folder = stage.home / ".gemini"
    _add_server(folder / "settings.json", stage, setting)
    trusted = {str(stage.work): "TRUST_FOLDER"}  # elsewhere it starts no servers
    (folder / "trustedFolders.json").write_text(json.dumps(trusted))
    run(stage, [stage.program, "--yolo", "-p", script], env)


def qwen_print(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    _add_server(stage.home / ".qwen" / "settings.json", stage, setting)
    run(stage, [stage.program, "--yolo", "-p", script], qwen_home(stage))


# --- Copilot --------------------------------------------------------------------------------------


def copilot_headless(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    copilot_print(stage, script, timeout=setting.tool_timeout, **setting.env)


_FORM, _LINK, _DONE = "abp needs information.", "abp wants you to visit", "● DONE"


def copilot_terminal(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    home = stage.home / ".copilot"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(json.dumps({"trusted_folders": [str(stage.work)]}))
    env = {"ABP_TOOL_CACHE": str(stage.home / "tools"), **setting.env}  # not the tests' own
    command = copilot_command(stage, "-i", script, timeout=setting.tool_timeout, **env)
    with terminal(stage, copilot_home(stage), *command) as pane:
        while (card := _next_card(pane)) != _DONE:
            person(_shown_card(pane, card))
            _until_gone(pane, card)
        type_keys(pane, "/exit", "Enter")


def _next_card(pane: Pane) -> str:
    until = time.monotonic() + PATIENCE
    while True:
        shown = pane.shown
        if found := next((each for each in (_FORM, _LINK, _DONE) if each in shown), None):
            return found
        assert time.monotonic() < until, f"neither asked nor done:\n{shown}"
        time.sleep(GLANCE)


def _until_gone(pane: Pane, card: str) -> None:
    until = time.monotonic() + PATIENCE
    while card in pane.shown:
        assert time.monotonic() < until, f"it still stands there:\n{pane.shown}"
        time.sleep(GLANCE)


def _shown_card(pane: Pane, card: str) -> Shown:
    pane.until("esc cancel")
    words = pane.shown[pane.shown.index(card) :]

    def press(word: str) -> None:
        """Read first, as a person does: what is quicker is taken for a policy's."""
        time.sleep(1.5)
        if word == "decline":
            type_keys(pane, "C-d")
        else:
            type_keys(pane, *["Down"] * (_yes_at(words) if word == "yes" else 0), "Enter")

    if card == _LINK:
        return Shown("a link in its terminal", words, press, opens_first=True)
    return Shown("a form in its terminal", words, press)


def _yes_at(words: str) -> int:
    """How many options stand before the consent: before a yes, or after the safe one."""
    options = re.findall(r"^ [\u276f ] (\S.*)$", words, re.MULTILINE)
    return 1 if options[0].startswith("No") else 0


# --- ACP agents, the bridge before them -----------------------------------------------------------


def _play_behind(
    stage: Stage,
    agent: list[str],
    env: dict[str, str],
    setting: Setting,
    script: str,
    person: Person,
) -> None:
    """One turn; a server that the bridge stands before is given to the agent by its client."""
    servers = []
    if stage.server:
        entry = server_entry(stage, setting.env)
        variables = [{"name": name, "value": value} for name, value in entry["env"].items()]
        servers = [{"name": "notes", **entry, "env": variables}]
    env = {**env, **setting.env, "MCP_SERVERS": json.dumps(servers)}
    with Runtime(stage, agent, env, forms=True) as acpx:
        talk(acpx, script, person)


def claude_behind(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    agent = stage.before(installed("claude"))
    env = {**claude_home(stage, setting.tool_timeout), **BRIDGE_ENV}
    _play_behind(stage, agent, env, setting, script, person)


def goose_behind(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    agent, env = before_goose(stage)
    _play_behind(stage, agent, env, setting, script, person)


ROWS: dict[str, Row] = {
    "copilot": Row(
        "Copilot CLI in a terminal (`copilot`)",
        "copilot",
        copilot_terminal,
        clock="`timeout` of the server",
        instead={
            "nobody": not_here(
                "there is always somebody: a form shows every field, a link secrets and files, and"
                " its model answers sampling"
            )
        },
    ),
    "copilot-print": Row(
        "Copilot CLI without a terminal (`copilot -p`)",
        "copilot",
        copilot_headless,
        shows=False,
        unasked="trip.confirm",
        clock="`timeout` of the server",
    ),
    "gemini": Row(
        "Gemini CLI (`gemini -p`)",
        "gemini",
        gemini_print,
        shows=False,
        unasked="trip.confirm",
        clock="`timeout` of the server",
    ),
    "qwen": Row(
        "Qwen Code (`qwen -p`)",
        "qwen",
        qwen_print,
        shows=False,
        unasked="trip.confirm",
        clock="`timeout` of the server",
    ),
    "claude-behind": Row(
        "Claude Code behind `abp-bridge acp`, in a program on acpx",
        "acpx",
        claude_behind,
        unasked="trip.describe",
        clock="`MCP_TOOL_TIMEOUT`",
    ),
    "goose-behind": Row(
        "Goose behind `abp-bridge acp`, in a program on acpx",
        "acpx",
        goose_behind,
        instead={
            "nobody": not_here(
                "there is always somebody: a form shows every field, a link secrets and files, and"
                " Goose lends its model"
            )
        },
    ),
}
