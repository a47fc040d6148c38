"""Whether something answers where an app is to be: at its address, or by the name of its program.
The app itself is neither started nor spoken to.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

import anyio

from abp_bridge.core.redact.command import UNSHOWN, show_target, target_word
from abp_bridge.core.sanitize import label
from abp_bridge.settings.targets import split_command
from abp_bridge.setup.doctor.finding import Finding, Verdict

LIMIT = 4.0  # seconds for an address to answer
CHECK = "app"
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_COMMANDS = ("stdio", "mcp", "acp")


async def reach_all(paths: Mapping[str, str]) -> dict[str, str]:
    """Look for all apps at once.

    Args:
        paths: The apps' targets, and the `PATH` by which the program of each is looked for.

    Returns:
        What is wrong with those that cannot be there, a sentence each.
    """
    problems: dict[str, str] = {}

    async def reach(app: str, path: str) -> None:
        if problem := await _find_problem(app, path):
            problems[app] = problem

    async with anyio.create_task_group() as tasks:
        for app, path in paths.items():
            tasks.start_soon(reach, app, path)
    return problems


async def _find_problem(app: str, path: str) -> str:
    scheme, _, rest = app.partition(":")
    scheme = scheme.lower().removeprefix("mcp+")
    if scheme in _PORTS:
        try:
            parts = urlsplit(f"{scheme}:{rest}")
            host, port = parts.hostname or "", parts.port
        except ValueError:  # whose words may be a password that stands where a port does
            return f"{show_target(app)!r} is no address: its host or its port cannot be read."
        return await _find_silence(app, host, _PORTS[scheme] if port is None else port)
    try:
        words = split_command(app) if scheme in _COMMANDS else []
    except ValueError as problem:
        return f"{show_target(app)!r}: {label(problem)}."
    if words and shutil.which(words[0], path=path) is None:
        return (
            f"{show_target(app)} cannot be started: on the PATH that its bridge has there is no"
            " program of that name."
        )
    return ""


async def _find_silence(app: str, host: str, port: int) -> str:
    shown = show_target(app)
    try:
        with anyio.fail_after(LIMIT):
            async with await anyio.connect_tcp(host, port):
                return ""
    except TimeoutError:
        return f"Nothing answers at {shown} within {LIMIT:g} s."
    except (OSError, UnicodeError) as problem:
        return f"Nothing answers at {shown}: {_reason(problem.__cause__ or problem)}."


def _reason(problem: BaseException) -> str:
    code = getattr(problem, "errno", None) or 0  # that of a name that is not found is no system's
    return os.strerror(code) if code > 0 else label(getattr(problem, "strerror", "") or problem)


def findings(apps: Collection[str], problems: Mapping[str, str], *, each: bool) -> list[Finding]:
    """The lines about apps, none of which was connected.

    Args:
        apps: Their targets.
        problems: Of those that cannot be there.
        each: A line for each; else one for all that have no problem.
    """
    quiet = [app for app in apps if app not in problems]
    found = [
        Finding(CHECK, Verdict.FAILS, problems[app], _cure(app)) for app in apps if app in problems
    ]
    lines = [[app] for app in quiet] if each else [quiet] if quiet else []
    for line in lines:
        verb = "is" if len(line) == 1 else "are"
        words = f"{', '.join(map(show_target, line))} {verb} not connected here."
        found.append(Finding(CHECK, Verdict.NOT_TRIED, words, _examination(line[0])))
    return found


def _cure(app: str) -> str:
    words = "Start its server, or look at the address"
    if app.lower().startswith(("stdio:", "mcp:", "acp:")):
        words = "Install it, or write its whole path"
    return f"{words}; {_examination(app)} tries it"


def _examination(app: str) -> str:
    """The command that looks at the app itself."""
    word = target_word(app)
    return f"abp-bridge doctor {word}{' (as the entry has it)' if word == UNSHOWN else ''}"
