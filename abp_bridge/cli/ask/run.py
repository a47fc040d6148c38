"""`abp-bridge ask`: ABP elicitations from a shell or a program, put to the person at this terminal,
on the page, or to written answers.

Owns the command and its end. What a question is, who may be asked and what counts as an answer is
the same as for an app behind the bridge.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.cli.ask.person import SURFACES, Person, choose_surfaces
from abp_bridge.cli.ask.request import UsageError, read_request
from abp_bridge.cli.runtime import (
    discard_stdout,
    give_up,
    load_settings,
    signals_interrupt,
)
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.settings import Settings

if TYPE_CHECKING:
    import argparse


HELP = "put one question, or a stream of them, to you here, and print the answer"
USAGE = """\
abp-bridge ask [OPTION]... METHOD [PARAMS]
       abp-bridge ask [OPTION]... FILE
       COMMAND | abp-bridge ask [OPTION]... -"""
DESCRIPTION = """\
Puts one ABP elicitation to you at this terminal, else on a page in your browser, and prints the
ABP response as JSON. For shells, and for programs in any language.

  abp-bridge ask input "Your name?"
  abp-bridge ask confirm "Deploy now?" | jq -e .data.confirmed && ./deploy   a "no" is an answer
  abp-bridge ask select "Which season?" spring summer autumn
  abp-bridge ask input '{"prompt": "API key?", "sensitive": true}'
  abp-bridge ask resource "A photo, please" 'image/*'
  abp-bridge ask request.json              {"method": "elicitation/confirm", "params": {...}}
  abp-bridge ask confirm '{"message": "Delete it?", "destructive": true}' --on page
  abp-bridge ask input "Name?" --on mock --answers answers.json
  ./program | abp-bridge ask -             many, a JSON message a line, answered on stdout

METHOD is input, preference, confirm, select, resource or sampling; PARAMS is a JSON object, or
the message in words and then the options of a select, the default of a preference or the type of
a resource.

Exit code: 0 when it was answered (a "no" is an answer), 1 when it was declined, cancelled, timed
out or could not be asked (the response says which), 2 when there is no such question.
docs/asking.md says more.
"""

STREAM = "-"
OWN_NAME = "abp-bridge"  # in which nobody else asks


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what is asked, where, and by whom."""
    option = parser.add_argument
    option(
        "what",
        metavar="METHOD | FILE | -",
        help="what is asked: a method of ABP, a file with a request, or - for requests on stdin",
    )
    option("more", nargs="*", metavar="PARAMS", help="its params: a JSON object, or words")
    option(
        "--on",
        choices=SURFACES,
        help="ask there only; else written answers come first, then this terminal, then the page",
    )
    option("--as", dest="origin", metavar="NAME", help="who asks, as it is shown")
    option(
        "--show",
        action="store_true",
        help="print secrets too where stdout is a terminal; else they stand there as dots",
    )


def run(options: argparse.Namespace) -> int:
    """Ask one thing, or whatever is asked on stdin. Returns the exit code."""
    # Where it asks, --on says.
    settings = load_settings(options, ignored=("ABP_ASK_ON", "ABP_QUESTIONS_API"))
    mask = sys.stdout.isatty() and not options.show
    try:
        if options.on == "mock" and settings.answers is None:
            raise UsageError("--on mock needs --answers FILE")
        if (options.origin or "").strip().lower().startswith(OWN_NAME):
            raise UsageError(f"--as {options.origin!r}: {OWN_NAME} cannot be who asks")
        if options.what == STREAM:
            if options.more:
                raise UsageError("'ask -' takes its requests from stdin, and no params")
            if os.isatty(0):
                raise UsageError(
                    "'ask -' reads requests that a program writes: COMMAND | abp-bridge ask -"
                )
            ask = partial(_ask_stream, origin=options.origin or "a program", mask=mask)
        else:
            request = read_request(options.what, options.more)
            origin = options.origin or "this command"
            ask = partial(_ask_once, request=request, origin=origin, mask=mask)
    except UsageError as problem:
        give_up(f"{problem}. abp-bridge ask --help shows how")
    return anyio.run(_run_until_signal, partial(ask, choose_surfaces(settings, options.on)))


async def _run_until_signal(work: Callable[[TaskGroup], Awaitable[int]]) -> int:
    """A signal ends everything at once, and quietly. Returns the exit code."""
    caught: list[int] = []
    code = 0
    working = anyio.CancelScope()

    def on_signal(number: int) -> None:
        caught.append(number)
        working.cancel()

    async with signals_interrupt(on_signal), anyio.create_task_group() as tasks:
        with working:
            code = await work(tasks)
        tasks.cancel_scope.cancel()
    return 128 + caught[0] if caught else code


async def _ask_stream(settings: Settings, tasks: TaskGroup, origin: str, *, mask: bool) -> int:
    """Whatever is asked on stdin, answered on stdout. Returns the exit code."""
    from abp_bridge.cli.ask.stream import Stream
    from abp_bridge.rpc.streams import take_over_stdio

    person = Person(settings, origin, tasks, mask=mask)
    return await Stream(person, origin, *take_over_stdio()).run()


async def _ask_once(
    settings: Settings, tasks: TaskGroup, request: JsonObject, origin: str, *, mask: bool
) -> int:
    """One question, and its response on stdout.

    Returns:
        The exit code: 0 when it was answered, 2 when it is no question, 1 for everything else.
    """
    person = Person(settings, origin, tasks, mask=mask)
    response = await handle_elicitation(dict(request), person, origin)
    try:
        indent = 2 if sys.stdout.isatty() else None
        sys.stdout.write(json.dumps(response, ensure_ascii=False, indent=indent) + "\n")
        sys.stdout.flush()
    except UnicodeEncodeError:
        sys.stdout.write(json.dumps(response) + "\n")
    except OSError:
        discard_stdout()
        return 1
    await person.wait_for_page()
    if response["success"]:
        return 0
    return 2 if as_object(response["error"])["code"] == "INVALID_PARAMS" else 1
