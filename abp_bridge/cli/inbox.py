"""`abp-bridge inbox`: the questions of all bridges of this user, on one page."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.options import argument_type
from abp_bridge.cli.runtime import complain, print_json, signals_interrupt
from abp_bridge.jsonrpc.files import PlaceError
from abp_bridge.log import print_message

if TYPE_CHECKING:
    import argparse

    from abp_bridge.surfaces.inbox.bridges import Overview
    from abp_bridge.surfaces.inbox.site import Invitation

PORT = 8477  # where it is, unless its person says otherwise
FAILED = 1

HELP = "what all bridges on this machine ask you, in one place"
DESCRIPTION = (
    "Serves a page at a fixed address of this machine that lists every open question of every"
    " running bridge of yours, and leads to each, until Ctrl-C. A browser is paired once: by a code"
    " that is shown here, or by being opened. What was answered is kept by digest for 30 days."
)


def add_inbox_options(parser: argparse.ArgumentParser) -> None:
    """Add where it is, and what else it does than serve."""
    option = parser.add_argument
    option(
        "--port",
        type=argument_type(_read_port),
        default=PORT,
        metavar="N",
        help=f"of 127.0.0.1 (default: {PORT})",
    )
    option(
        "--pair",
        action="store_true",
        help="let one browser more in; an inbox that runs already has to be ended first",
    )
    option("--unpair", action="store_true", help="forget all browsers and the history, and end")
    option("--json", action="store_true", help="print what is open now, for scripts, and end")


def _read_port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 2**16:
        raise ValueError(f"{text!r} is no port: a number from 1 to 65535")
    return int(text)


def run_inbox(options: argparse.Namespace) -> int:
    """Serve, list or forget. Returns the exit code."""
    try:
        if options.unpair:
            return _unpair()
        return (
            anyio.run(_print_list)
            if options.json
            else anyio.run(_serve, options.port, options.pair)
        )
    except PlaceError as problem:
        complain(problem, "inbox")
        return FAILED


def _unpair() -> int:
    from abp_bridge.surfaces.inbox import history, pairing

    known = pairing.forget()
    history.forget()
    print_message("every browser is forgotten" if known else "no browser was paired")
    return 0


async def _print_list() -> int:
    from abp_bridge.surfaces.inbox import bridges

    found = await bridges.look()
    print_json(json.dumps(_overview_members(found), ensure_ascii=False, indent=2) + "\n")
    return 0


def _overview_members(found: Overview) -> dict[str, object]:
    from abp_bridge.surfaces.inbox.open_question import describe

    return {
        "questions": [
            {"bridge": bridge.pid, **describe(each)}
            for bridge in found.bridges
            for each in bridge.questions
        ],
        "notListed": sum(each.more for each in found.bridges),
        "notAnswering": [each.pid for each in found.bridges if not each.answers],
        "notAsked": found.not_asked,
        "problems": list(found.problems),
    }


async def _serve(port: int, pair: bool) -> int:
    from abp_bridge.surfaces.http import describe_failure
    from abp_bridge.surfaces.inbox import pairing
    from abp_bridge.surfaces.inbox.site import InboxSite, Invitation

    kept = pairing.load()
    if kept is None:
        kept = pairing.Pairing()
        pairing.save(kept)
    invitation = None if kept.browsers and not pair else Invitation()
    async with anyio.create_task_group() as tasks:
        end = anyio.Event()
        async with signals_interrupt(lambda number: end.set()):
            try:
                address = await InboxSite(tasks, kept, invitation).start(port)
            except OSError as problem:
                why = describe_failure("the inbox", problem, port, "--port", fixed=True)
                complain(f"{why}. An inbox that runs already is ended by Ctrl-C there", "inbox")
                return FAILED
            print_message(f"your inbox is at {address}/ until Ctrl-C")
            if invitation is not None:
                tasks.start_soon(_invite, address, invitation)
            await end.wait()
        tasks.cancel_scope.cancel()
    return 0


async def _invite(address: str, invitation: Invitation) -> None:
    """Have one browser paired: opened here, or by a code that only a terminal is shown."""
    from abp_bridge.surfaces.page.browser import BrowserError, directions, open_browser

    if os.isatty(2):
        code = invitation.shown_code
        print_message(f"to pair a browser, open that address and type the code {code}")
        if words := directions(address):
            print_message(words)
    try:
        await open_browser(f"{address}{invitation.path}")
    except BrowserError as problem:
        if not os.isatty(2):
            print_message(
                f"no browser is paired, and none could be opened ({problem}): run this in a"
                " terminal, which is shown a code"
            )
