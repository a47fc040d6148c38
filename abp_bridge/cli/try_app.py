"""`abp-bridge try`: call an app's capabilities behind a real bridge, in this terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from abp_bridge.cli.options import load_session_settings
from abp_bridge.cli.parameters import (
    CapabilityError,
    ParameterError,
    check_parameters,
    example_words,
    find_capability,
    read_parameters,
)
from abp_bridge.cli.runtime import complain
from abp_bridge.cli.terminal_host import (
    FILE,
    Answerer,
    CommandError,
    TerminalHost,
    add_host_options,
    at_terminal,
    ignored_variables,
    replace_unencodable,
    run_host,
)
from abp_bridge.cli.terminal_view import PERSON, Offer
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, to_text
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Choice, Field, FieldType, Kind, Question
from abp_bridge.core.redact.command import UNSHOWN, target_word
from abp_bridge.core.sanitize import message
from abp_bridge.core.surface import HOST, Surface
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.settings import TABLE, Settings
from abp_bridge.settings.values import find_target_problem
from abp_bridge.surfaces.answers_file import AnswersError, Script, read_answers
from abp_bridge.surfaces.terminal.surface import Terminal

if TYPE_CHECKING:
    import argparse

MISSING = "name the app: abp-bridge try http://localhost:3000"
HELP = "an app of yours behind a real bridge, with this terminal as its host"
USAGE = "abp-bridge try [OPTION]... TARGET [CAPABILITY [PARAMS]]"
DESCRIPTION = """\
Spawns 'abp-bridge serve --app TARGET' and is its MCP host: lists what the app can do, calls one of
its capabilities, asks you what the app asks, and shows what it tells, what came back, and the
account of who answered.

  abp-bridge try http://localhost:3000                              what it can do; then choose
  abp-bridge try http://localhost:3000 invoice.create name=Ada      parameters as words
  abp-bridge try http://localhost:3000 invoice.create '{"n": 1}'    or as JSON
  abp-bridge try 'stdio:python app.py' greet --json                 for a program
  abp-bridge try demo demo.trip --answers answers.json              written answers

You are asked here; off a terminal, or with --on page, on a page that opens in your browser, or
whose link stands here where none can be opened.

Exit code: 0 when the call succeeded, 1 when it failed or the app cannot be connected, 2 when there
is no such capability or its parameters do not fit, 128 + n after signal n.
"""

OWN_NAME = "abp-bridge"  # in which this command itself asks
PAGE = "page"  # who answers: the person, there
_INTRODUCTIONS = {
    PERSON: "You are asked here; Ctrl-C cancels a question, and a second one ends this.",
    FILE: "Its questions are answered from your answers file.",
    PAGE: "You are asked on a page of the bridge's own, which opens in your browser.",
}
_BY_LINK = (
    "You are asked on a page of the bridge's own: its link stands here with each question, as no"
    " browser can be opened."
)
_NOBODY = (
    "You cannot be asked here: {} is no terminal, and no browser can be opened (there is neither"
    " $BROWSER nor a display). What it asks is NOT_SUPPORTED. With --answers FILE it is answered"
    " from a file."
)


def add_try_options(parser: argparse.ArgumentParser) -> None:
    """Add which app, what is called, who answers, and how it is told."""
    option = parser.add_argument
    option("target", metavar="TARGET", help="the app: an address, or a command such as stdio:...")
    option("capability", metavar="CAPABILITY", nargs="?", help="what is called")
    option(
        "params",
        metavar="PARAMS",
        nargs="*",
        default=(),
        help="its parameters: a JSON object, or name=value for each",
    )
    option("--on", choices=("terminal", PAGE), help="where you are asked")
    add_host_options(parser)


def run_try(options: argparse.Namespace) -> int:
    """Try the app. Returns the exit code."""
    replace_unencodable()
    target = options.target
    if wrong := find_target_problem(target):
        return complain(wrong, "try")
    if options.on == "terminal" and not at_terminal():
        return complain("--on terminal needs one on stdin and stdout", "try")
    if options.on is not None and options.answers is not None:
        return complain("--on says where you are asked, and --answers that you are not", "try")
    answers, options.answers = options.answers, None  # not the bridge's: this host's own
    settings = load_session_settings(options, ignored_variables(scripted=answers is not None))
    try:
        script = None if answers is None else Script(read_answers(answers))
    except AnswersError as problem:
        return complain(problem, "try")
    asks_here = script is None and options.on != PAGE and at_terminal() and not options.json
    by = FILE if script is not None else PERSON if asks_here else PAGE
    account = {"script": ("file", "your answers file.")}
    answerer = Answerer(by, _INTRODUCTIONS[by], script, account=account)
    environ = {}
    if asks_here and settings.tty is None:
        answerer = replace(answerer, by_bridge=True)
        environ = {"ABP_TTY": os.ttyname(sys.stdin.fileno())}
    if by == PAGE:
        answerer = _make_page_answerer()
        environ = _page_environment(settings, asks=not answerer.warning)
    host = partial(
        TerminalHost,
        "try",
        target,
        answerer,
        as_json=options.json,
        arguments=_bridge_arguments(options),
        environ=environ,
    )
    keeps = settings.output_dir is not None
    return run_host(host, partial(_list_and_call, options, keeps=keeps), "try")


def _make_page_answerer() -> Answerer:
    """The person on the page, whom this host shows its links where they read what it writes."""
    from abp_bridge.surfaces.page.browser import can_open

    if can_open():
        return Answerer(PAGE, _INTRODUCTIONS[PAGE], hosts=at_terminal(), links=True)
    if at_terminal():
        return Answerer(PAGE, _BY_LINK, links=True)
    stream = "stdin" if sys.stdout.isatty() else "stdout" if sys.stdin.isatty() else "this"
    return Answerer(PAGE, "", hosts=False, warning=_NOBODY.format(stream))


def _page_environment(settings: Settings, *, asks: bool) -> dict[str, str]:
    """What has a bridge ask on its own page, and on no form of this host's; or nowhere."""
    model = () if settings.sampling is None else (Surface.SAMPLING.value,)
    on = (PAGE if asks else HOST, *model)
    if not asks:
        return {"ABP_ASK_ON": ",".join(on)}
    page = settings.page if settings.page != "off" else "open"
    return {"ABP_PAGE": page, "ABP_ASK_ON": ",".join(on)}


def _bridge_arguments(options: argparse.Namespace) -> list[str]:
    words: list[str] = []
    for name, row in TABLE.items():
        value = getattr(options, name, None)
        if value is None or not row.flag or "serve" not in row.commands:
            continue
        if row.repeated:
            words += [word for each in value for word in (row.flag, str(each))]
        else:
            words += [row.flag] if value == row.const else [row.flag, str(value)]
    return words


async def _list_and_call(options: argparse.Namespace, host: TerminalHost, *, keeps: bool) -> None:
    offers = await host.offers()
    if options.capability is not None:
        named = _find_offer(options.capability, offers)
        await _call_capability(host, named, options.params, options.target, keeps=keeps)
        await host.show_account()
        return
    host.view.on_offers(offers)
    if host.terminal is None:
        if offers and not options.json:
            host.view.note(f"Next: {_example_call(options.target, offers[0])}")
        return
    while offers and (offer := await _choose(host.terminal, offers)) is not None:
        try:
            await _call_capability(host, offer, (), options.target, keeps=keeps)
        except CommandError as problem:  # it was not called; another may be chosen
            host.view.note(message(problem))
            host.fail()
        offers = await host.offers()
    await host.show_account()


def _example_call(target: str, offer: Offer) -> str:
    words = [target_word(target), shlex.quote(offer.name), example_words(offer.schema)]
    command = f"abp-bridge try {' '.join(filter(None, words))}"
    return f"{command} ({UNSHOWN}: the same as now)" if words[0] == UNSHOWN else command


async def _call_capability(
    host: TerminalHost, offer: Offer, words: Sequence[str], target: str, *, keeps: bool
) -> None:
    params = await _parameters(host, offer, words, target)
    if params is None:
        host.view.note("Nothing was called.")
        host.fail()
        return
    called = await host.call(offer.name, params)
    if called.failed:
        host.fail()
    if called.files and not keeps:
        host.view.note("It goes with this session; --output-dir DIR keeps it.")


def _find_offer(name: str, offers: list[Offer]) -> Offer:
    tools = [each.tool for each in offers]
    try:
        known = [each.name for each in offers]
        return offers[tools.index(name) if name in tools else find_capability(name, known)]
    except CapabilityError as problem:
        raise CommandError(str(problem), 2) from None


async def _parameters(
    host: TerminalHost, offer: Offer, words: Sequence[str], target: str
) -> JsonObject | None:
    """Return the parameters as written, or as the user fills them in; None if they decline."""
    try:
        if words or host.terminal is None or not as_object(offer.schema.get("properties")):
            return read_parameters(words, offer.schema, offer.asked)
        return await _fill_parameters(host, host.terminal, _form(offer), offer)
    except ParameterError as problem:
        raise CommandError(f"{offer.name}: {problem}", 2) from None
    except RemoteProtocolError as problem:  # a schema that nobody can fill in
        return _leave_out(host, offer, target, problem)


def _leave_out(
    host: TerminalHost, offer: Offer, target: str, why: RemoteProtocolError
) -> JsonObject:
    """No parameters, where they cannot be asked for. Raises CommandError where it needs some."""
    try:
        check_parameters({}, offer.schema, offer.asked)
    except ParameterError as problem:
        raise CommandError(
            f"{offer.name}: {problem}. It cannot be asked for here ({why}); give it as words:"
            f" {_example_call(target, offer)}",
            2,
        ) from None
    host.view.note(f"{offer.name} is called without parameters: none can be asked for ({why}).")
    return {}


def _form(offer: Offer) -> Question:
    """The parameters as a form. Raises RemoteProtocolError where they make none."""
    from abp_bridge.protocols.abp import decode_question

    asked: JsonObject = {
        "method": "elicitation/input",
        "params": {"prompt": f"The parameters of {offer.name}", "schema": offer.schema},
    }
    return decode_question(asked, id="parameters", origin=OWN_NAME)


async def _fill_parameters(
    host: TerminalHost, terminal: Terminal, question: Question, offer: Offer
) -> JsonObject | None:
    content = await _prompt_here(terminal, question)
    host.check_interrupts()
    if content is None:
        return None
    params = as_object(content.get("value")) if question.wrapped else content
    check_parameters(params, offer.schema)
    return params


async def _choose(terminal: Terminal, offers: Sequence[Offer]) -> Offer | None:
    choices = tuple(Choice(each.name, each.name, each.name) for each in offers)
    last = Choice("", "", "Nothing more")
    field = Field(
        "capability", FieldType.CHOICE, {"type": "string"}, title="Call", choices=(*choices, last)
    )
    question = Question("choice", Kind.SELECT, "What shall be called?", (field,), OWN_NAME)
    content = await _prompt_here(terminal, question)
    name = to_text((content or {}).get("capability"))
    return next((each for each in offers if each.name == name), None)


async def _prompt_here(terminal: Terminal, question: Question) -> dict[str, JsonValue] | None:
    response = await terminal.prompt(question, NO_CONTEXT)
    if response.outcome is not Outcome.ACCEPTED:
        return None
    return dict(validate_answer(question, response.content)[0])
