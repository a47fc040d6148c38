"""The hosts of docs/hosts.md: how each plays a turn of its model and shows questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .hosts import (
    AppServer,
    Editor,
    Host,
    Question,
    claude,
    claude_print,
    codex_exec,
    goose_extension,
    goose_home,
    run,
    server_entry,
)
from .results import CANNOT, Seen
from .stage import Stage

Json = Any


@dataclass(frozen=True, slots=True)
class Setting:
    """The environment of the bridge, and the host's timeout for a tool in seconds."""

    env: Mapping[str, str] = field(default_factory=dict)
    tool_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A question in a host: its `words`, and `press` with `yes`, `decline` or `done`.

    `opens_first` is a link that is accepted before it is followed.
    """

    how: str
    words: str
    press: Callable[[str], None]
    opens_first: bool = False


Person = Callable[[Shown], None]
# One turn of the host's model, of a script of `CALL`s, from the host's start to its end.
Play = Callable[[Stage, Setting, str, Person], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One host."""

    name: str  # what people call it, and the way it is started
    package: str  # in `packages.json`
    play: Play  # one turn in it
    shows: bool = True  # itself; else the bridge opens its page
    unasked: str = "trip.sign_in"  # a capability whose question this host cannot ask
    clock: str = ""  # by which setting of its own it waits for a tool only so long
    has_model: bool = True  # its model calls the app; else the person does, by commands
    instead: Mapping[str, Seen] = field(default_factory=dict)


def not_here(words: str) -> Seen:
    return Seen(CANNOT, words)


def shown_form(question: Question) -> Shown:
    params = question.params
    fields = (params.get("requestedSchema") or {}).get("properties", {})
    name = next(iter(fields), "")

    def press(word: str) -> None:
        content = {name: _yes(fields[name])} if name and word == "yes" else {}
        refused = {"action": "decline"}
        question.answer(refused if word == "decline" else {"action": "accept", "content": content})

    if params.get("mode") == "url":
        return Shown("a link", f"{params['message']} {params['url']}", press, opens_first=True)
    return Shown("a form" if name else "a form without fields", params["message"], press)


def _yes(schema: Json) -> Json:
    """The consent in a field: a boolean, or the last of its choices, as the safe one is first."""
    choices = schema.get("enum") or [each["const"] for each in schema.get("oneOf", ())]
    return choices[-1] if choices else True


def talk(host: Host, script: str, person: Person) -> None:
    host.talk(script, lambda question: person(shown_form(question)))


def headless(prompt: Callable[..., None]) -> Play:
    """A host that runs one prompt to its end."""

    def play(stage: Stage, setting: Setting, script: str, person: Person) -> None:
        prompt(stage, script, tool_timeout=setting.tool_timeout, **setting.env)

    return play


def in_an_editor(opened: Callable[..., Host]) -> Play:
    def play(stage: Stage, setting: Setting, script: str, person: Person) -> None:
        with opened(stage, tool_timeout=setting.tool_timeout, **setting.env) as host:
            talk(host, script, person)

    return play


def goose_in_an_editor(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    env = goose_home(stage, extensions=goose_extension(stage, setting.env, setting.tool_timeout))
    with Editor(stage, [stage.program, "acp"], env, ()) as agent:
        talk(agent, script, person)


OPENCODE = Path(__file__).with_name("opencode.json")


def opencode_run(stage: Stage, setting: Setting, script: str, person: Person) -> None:
    server = server_entry(stage, setting.env)
    config = json.loads(OPENCODE.read_text())
    config["provider"]["mock"]["options"]["baseURL"] = f"{stage.model.url}/v1"
    abp = config["mcp"]["abp"]
    abp |= {"command": [server["command"], *server["args"]], "environment": server["env"]}
    if setting.tool_timeout is not None:
        abp["timeout"] = round(setting.tool_timeout * 1000)
    (stage.home / "opencode.json").write_text(json.dumps(config))
    env = stage.environment(OPENCODE_CONFIG=str(stage.home / "opencode.json"))
    run(stage, [stage.program, "run"], env, said=script)


ROWS: dict[str, Row] = {
    "codex-app-server": Row(
        "Codex in an editor (`codex app-server`)",
        "codex",
        in_an_editor(AppServer),
        clock="`tool_timeout_sec`",
    ),
    "codex-exec": Row(
        "Codex without a terminal (`codex exec`)",
        "codex",
        headless(codex_exec),
        shows=False,
        unasked="trip.confirm",
        clock="`tool_timeout_sec`",
    ),
    "goose-acp": Row(
        "Goose in an editor (`goose acp`)",
        "goose",
        goose_in_an_editor,
        clock="`timeout` of the extension",
    ),
    "claude-acp": Row(
        "Claude Code in an editor (`claude-agent-acp`)",
        "claude",
        in_an_editor(claude),
        unasked="trip.describe",
        clock="`MCP_TOOL_TIMEOUT`",
    ),
    "claude-print": Row(
        "Claude Code without a terminal (`claude -p`)",
        "claude",
        headless(claude_print),
        shows=False,
        unasked="trip.confirm",
        clock="`MCP_TOOL_TIMEOUT`",
    ),
    "opencode-run": Row(
        "opencode (`opencode run`)",
        "opencodecli",
        opencode_run,
        shows=False,
        unasked="trip.confirm",
        clock="`timeout` of the server",
    ),
}
