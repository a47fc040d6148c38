"""`abp-bridge ask`: ABP elicitations from a shell or a program, put to the person at this terminal,
on the page, or to written answers.

Owns the command and its end. What a question is, who may be asked and what counts as an answer is
the same as for an app behind the bridge.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from abp_bridge.cli.ask.person import (
    OF_HOSTS,
    SURFACES,
    Person,
    choose_surfaces,
    mask_secrets,
)
from abp_bridge.cli.ask.request import UsageError, read_request
from abp_bridge.cli.output import print_json
from abp_bridge.cli.runtime import (
    discard_stdout,
    give_up,
    load_settings,
    run_until_signal,
)
from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import FieldType, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question, encode_answer
from abp_bridge.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


HELP = "put one question, or a stream of them, to you here, and print the answer"
USAGE = """\
abp-bridge ask [OPTION]... METHOD [PARAMS]
       abp-bridge ask [OPTION]... FILE
       COMMAND | abp-bridge ask [OPTION]... -"""
DESCRIPTION = """\
Puts one ABP elicitation to you at this terminal, else on a page in your browser, and prints the
ABP response as JSON. For shells, and for programs in any language.

  abp-bridge ask input "Your name?"
  abp-bridge ask --exit-code confirm "Deploy now?" && ./deploy
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

Exit code:
  0    it was answered; without --exit-code a "no" is an answer
  1    declined, cancelled, timed out or nobody could be asked: the response says which
  2    there is no such question
  3    with --exit-code: it was declined, or a yes or no was answered with no

docs/asking.md says more.
"""

STREAM = "-"
SAID_NO = 3  # the exit code of a no, where that was wanted
OWN_NAME = "abp-bridge"  # in which nobody else asks
MISSING = 'name what is asked: abp-bridge ask confirm "Go on?"'


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
        "--exit-code",
        action="store_true",
        help=f"end with {SAID_NO} where the answer is no: ask --exit-code confirm ... && ./deploy",
    )
    option(
        "--show",
        action="store_true",
        help="print secrets too where stdout is a terminal; else they stand there as dots",
    )


def describe_more(words: Sequence[str]) -> str:
    """Why there are words that no option takes: the others stand before an option."""
    return "options stand before METHOD, or after all of its words"


def run(options: argparse.Namespace) -> int:
    """Ask one thing, or whatever is asked on stdin. Returns the exit code."""
    settings = load_settings(options, ignored=OF_HOSTS)
    mask = sys.stdout.isatty() and not options.show
    try:
        if options.on == "mock" and settings.answers is None:
            raise UsageError("--on mock needs --answers FILE")
        if (options.origin or "").strip().lower().startswith(OWN_NAME):
            raise UsageError(f"--as {options.origin!r}: {OWN_NAME} cannot be who asks")
        if options.what == STREAM:
            if options.more:
                raise UsageError("'ask -' takes its requests from stdin, and no params")
            if options.exit_code:
                raise UsageError("--exit-code is for one question")
            if os.isatty(0):
                raise UsageError(
                    "'ask -' reads requests that a program writes: COMMAND | abp-bridge ask -"
                )
            ask = partial(_ask_stream, origin=options.origin or "a program", mask=mask)
        else:
            request = read_request(options.what, options.more)
            origin = options.origin or "this command"
            question = decode_question(request, id="question-1", origin=origin)
            ask = partial(_ask_once, question=question, mask=mask, exit_code=options.exit_code)
    except (UsageError, RemoteProtocolError) as problem:
        give_up(f"{problem}. abp-bridge ask --help shows how")
    return anyio.run(run_until_signal, partial(ask, choose_surfaces(settings, options.on)))


async def _ask_stream(settings: Settings, tasks: TaskGroup, origin: str, *, mask: bool) -> int:
    """Whatever is asked on stdin, answered on stdout. Returns the exit code."""
    from abp_bridge.cli.ask.stream import Stream
    from abp_bridge.rpc.streams import take_over_stdio

    person = Person(settings, origin, tasks, mask=mask)
    return await Stream(person, origin, *take_over_stdio()).run()


async def _ask_once(
    settings: Settings,
    tasks: TaskGroup,
    question: Question,
    *,
    mask: bool,
    exit_code: bool,
) -> int:
    """One question, and its response on stdout.

    Returns:
        The exit code: 0 when it was answered, `SAID_NO` for a no if that is wanted as an
        `exit_code`, 1 for everything else.
    """
    person = Person(settings, question.origin, tasks)
    answer = await person.ask(question)
    response = encode_answer(question, mask_secrets(question, answer) if mask else answer)
    try:
        indent = 2 if sys.stdout.isatty() else None
        print_json(json.dumps(response, ensure_ascii=False, indent=indent) + "\n")
    except OSError:
        discard_stdout()
        return 1
    await person.wait_for_page()
    if exit_code and _is_no(question, answer):
        return SAID_NO
    return 0 if response["success"] else 1


def _is_no(question: Question, answer: Answer) -> bool:
    """Whether the person declined, or answered the one yes or no that was asked with no."""
    if answer.outcome is Outcome.DECLINED:
        return True
    asks = [(each.type, answer.content.get(each.name)) for each in question.fields]
    return asks == [(FieldType.BOOLEAN, False)]
