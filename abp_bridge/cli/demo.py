"""`abp-bridge demo`: a tour of the built-in app behind a real bridge, in this terminal."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.options import load_session_settings
from abp_bridge.cli.runtime import complain
from abp_bridge.cli.terminal_host import (
    FILE,
    START_LIMIT,
    Answerer,
    CommandError,
    TerminalHost,
    add_host_options,
    at_terminal,
    ignored_variables,
    replace_unencodable,
    run_host,
)
from abp_bridge.cli.terminal_view import PERSON
from abp_bridge.core.json_value import Json
from abp_bridge.core.sanitize import label
from abp_bridge.surfaces.answers_file import AnswersError, Script, decode_entries, read_answers

if TYPE_CHECKING:
    import argparse


HELP = "the built-in app behind a real bridge, with this terminal as its host"
DESCRIPTION = (
    "Spawns 'abp-bridge serve', is its MCP host, and shows what the built-in app asks and tells."
    " 'abp-bridge try' is the same for an app of yours."
)

# The answers without a terminal; users also say no, decline and cancel.
BUILT_IN: tuple[Json, ...] = (
    {"match": "Whose trip", "value": "Ada Example"},
    {"match": "ticket be sent", "value": "ada@example.org"},
    {"match": "Sea or mountains", "value": "sea"},
    {"match": "season", "value": "autumn"},
    {"match": "month", "value": "09"},
    {"match": "How many travellers", "value": 2},
    {"match": "cost at most", "action": "cancel"},
    {"match": "By train", "value": True},
    {"match": "Which class", "value": "second"},
    {"match": "Who should be called", "content": {"name": "Grace Example"}},
    {"match": "Window or aisle", "action": "decline"},
    {"match": "Book it", "value": True},
    {"match": "Delete the draft", "value": "No, do not"},
)

STORY = (
    ("demo.trip", "every kind of question, with progress and notices in between"),
    ("demo.work", "work that only reports"),
    ("demo.grow", "one capability more, while you watch"),
)
NO_MODEL = "(no model here) This sentence is the demo's own: have a good trip!"


# Who answers, where it is not the person here.
SCRIPT = "the demo's script"
_INTRODUCTIONS = {
    PERSON: "You are asked; Ctrl-C cancels a question, and a second one ends the demo.",
    SCRIPT: "The questions are answered by the demo's script, as {why}.",
    FILE: "The questions are answered from your answers file.",
}
_ANSWERERS = {
    PERSON: {},
    SCRIPT: {"script": ("script", "the demo's own answers.")},
    FILE: {"script": ("file", "your answers file.")},
}
_MODEL = ("demo", "there is no model here; the demo gave a sentence of its own.")


def add_demo_options(parser: argparse.ArgumentParser) -> None:
    """Add which app, who answers, and how it is told."""
    parser.add_argument("--browser", action="store_true", help="the same app as a page in Chromium")
    add_host_options(parser)


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo."""
    replace_unencodable()
    answers, options.answers = options.answers, None  # not the bridge's: this host's own
    ask_here = answers is None and not options.json and at_terminal()
    load_session_settings(options, ignored_variables(scripted=not ask_here))
    try:
        entries = decode_entries(BUILT_IN) if answers is None else read_answers(answers)
    except AnswersError as problem:
        return complain(problem, "demo")
    by = PERSON if ask_here else SCRIPT if answers is None else FILE
    why = "the output is for a program" if at_terminal() else "there is no terminal to ask at"
    answerer = Answerer(
        by,
        _INTRODUCTIONS[by].format(why=why),
        None if ask_here else Script(entries),
        account={"model": _MODEL, **_ANSWERERS[by]},
        sampling=NO_MODEL,
    )
    host = partial(_make_host, options.browser, answerer, as_json=options.json)
    return run_host(host, _tell_story, "demo")


def _make_host(browser: bool, answerer: Answerer, *, as_json: bool) -> TerminalHost:
    host_of = partial(TerminalHost, "demo", "demo:page" if browser else "demo", answerer)
    as_root = browser and os.geteuid() == 0 and "ABP_CHROME_SANDBOX" not in os.environ
    host = host_of(as_json=as_json, environ={"ABP_CHROME_SANDBOX": "0"} if as_root else {})
    host.view.note(
        "A real bridge (abp-bridge serve), the built-in app behind it, and this terminal as its MCP"
        " host."
    )
    if as_root:
        host.view.note(
            "As root, Chromium runs without its sandbox (ABP_CHROME_SANDBOX=0): it opens the demo's"
            " own page only."
        )
    return host


async def _tell_story(host: TerminalHost) -> None:
    for capability, about in STORY:
        before = await host.tool_names()
        if (await host.call(capability, about=about)).failed:
            raise CommandError(f"{capability} failed")
        if capability == "demo.grow":
            await _show_growth(host, before)
    await host.show_account()


async def _show_growth(host: TerminalHost, before: set[str]) -> None:
    with anyio.move_on_after(START_LIMIT):
        while True:
            changed = host.tools_changed
            if added := await host.tool_names() - before:
                names = ", ".join(map(label, sorted(added)))
                host.view.note(f"The list of tools changed: {names} is new.")
                return
            await changed.wait()
    raise CommandError("the new capability never became a tool")
