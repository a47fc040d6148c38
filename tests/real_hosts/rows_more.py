"""Rows of hosts in a terminal, of Gemini, Qwen, Copilot and acpx, and behind `abp-bridge acp`."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from support.terminal import Pane

from .hosts import (
    READING,
    Runtime,
    acpx_command,
    acpx_exec,
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
from .rows import Person, Row, Setting, Shown, headless, not_here, talk
from .stage import BRIDGE_ENV, Stage
from .terminals import claude_tui, codex_tui, goose_session, look, terminal, type_keys

Json = Any


def _with_timeout(entry: Json, setting: Setting) -> Json:
    seconds = setting.tool_timeout
    return entry if seconds is None else {**entry, "timeout": round(seconds * 1000)}


def _add_server(settings: Path, stage: Stage, setting: Setting) -> None:
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


_CARDS = _FORM, _LINK, _DONE = "abp needs information.", "abp wants you to visit", "● DONE"


def copilot_terminal(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    home = stage.home / ".copilot"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(json.dumps({"trusted_folders": [str(stage.work)]}))
    env = {"ABP_TOOL_CACHE": str(stage.home / "tools"), **setting.env}  # not the tests' own
    command = copilot_command(stage, "-i", script, tool_timeout=setting.tool_timeout, **env)
    with terminal(stage, copilot_home(stage), *command) as pane:
        while _DONE not in (drawn := look(pane, re.compile("|".join(_CARDS)).search)):
            card = next(each for each in _CARDS if each in drawn)
            person(_shown_card(pane, card))
            _await_gone(pane, card)
        type_keys(pane, "/exit", "Enter")


def _await_gone(pane: Pane, words: str) -> None:
    look(pane, lambda drawn: words not in drawn)


def _shown_card(pane: Pane, card: str) -> Shown:
    pane.until("esc cancel")
    words = pane.shown[pane.shown.index(card) :]

    def press(word: str) -> None:
        time.sleep(1.5)  # what is quicker is treated as a policy's
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


def _play_behind(
    stage: Stage,
    agent: list[str],
    env: dict[str, str],
    setting: Setting,
    script: str,
    person: Person,
) -> None:
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


def typed(script: str) -> str:
    """What a person types for a script's line, where no model calls the app."""
    _, tool, given = script.split(" ", 2)
    arguments = json.loads(given)
    if tool != "abp_call":
        return f"/{tool.removeprefix('abp_')}"
    params = json.dumps(arguments["params"]) if "params" in arguments else ""
    return f"/{arguments['capability'].replace('.', '_')} {params}".rstrip()


def acpx_program(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    env = stage.environment(**BRIDGE_ENV, **setting.env)
    # It insists on going on with the session that it kept, which ended with its bridge.
    shutil.rmtree(stage.folder / "state", ignore_errors=True)
    with Runtime(stage, stage.bridge(kind="acp"), env, forms=True) as acpx:
        for line in script.splitlines():
            talk(acpx, typed(line), person)
            stage.said.append(acpx.said)


def acpx_headless(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    env = stage.environment(**BRIDGE_ENV, **setting.env)
    stage.said += [
        acpx_exec(stage, "--approve-all", typed(line), env=env) for line in script.splitlines()
    ]


def acpx_terminal(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    env = stage.environment(**BRIDGE_ENV, **setting.env)
    for line in script.splitlines():
        known = stage.records("acp")
        with terminal(stage, env, *acpx_command(stage, (), typed(line))) as pane:
            while words := _asked_by_acpx(pane):
                person(Shown("y or n in its terminal", words, partial(_say_y_or_n, pane)))
                look(pane, lambda drawn: not _Y_OR_N.search(drawn))
        (record,) = stage.records("acp")[len(known) :]
        updates = [each["update"] for each in record.acp.sent("session/update")]
        chunks = [each for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
        stage.said.append("".join(each["content"]["text"] for each in chunks))


_Y_OR_N = re.compile(r"\[permission\] (.*\(y/N\))\s*$", re.DOTALL)


def _asked_by_acpx(pane: Pane) -> str:
    drawn = look(pane, lambda drawn: "[done]" in drawn or _Y_OR_N.search(drawn))
    asked = None if "[done]" in drawn else _Y_OR_N.search(drawn)
    return asked[1].replace("\n", "") if asked else ""


def _say_y_or_n(pane: Pane, word: str) -> None:
    time.sleep(next(READING))
    if _Y_OR_N.search(pane.shown):  # else it has taken the question down by itself
        type_keys(pane, "n" if word == "decline" else "y", "Enter")


_NO_SERVERS = not_here("the bridge is its agent, which has no model to call a server's tools")

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
    "acpx-program": Row(
        "A program on acpx (`acpx/runtime`), the bridge its agent",
        "acpx",
        acpx_program,
        unasked="trip.describe",
        has_model=False,
        instead={"server": _NO_SERVERS},
    ),
    "acpx-terminal": Row(
        "acpx in a terminal (`acpx exec`), the bridge its agent",
        "acpx",
        acpx_terminal,
        has_model=False,
        instead={"server": _NO_SERVERS},
    ),
    "acpx-exec": Row(
        "acpx without a terminal (`acpx exec`), the bridge its agent",
        "acpx",
        acpx_headless,
        shows=False,
        unasked="trip.sign_in",
        has_model=False,
        instead={"server": _NO_SERVERS},
    ),
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
        headless(copilot_print),
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
