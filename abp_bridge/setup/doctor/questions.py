"""Which questions reach a host's user, and whether an app's address or program exists."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import anyio

from abp_bridge.core.matrix import QuestionShape, SurfaceVariant, find_cell
from abp_bridge.core.redact.command import UNSHOWN, show_target, target_word
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import Surface
from abp_bridge.session.profiles import PROFILES, Profile
from abp_bridge.settings.values import split_command
from abp_bridge.setup.doctor.finding import Entry, Finding, HostFacts, Verdict
from abp_bridge.setup.doctor.machine import greeting
from abp_bridge.setup.hosts import SetupHost

CHECK = "questions"
_WHERE = {
    Surface.MCP_FORM: "in its own forms",
    Surface.MCP_URL: "by a link to the bridge's page",
    Surface.MCP_SAMPLING: "by its own model",
    Surface.ACP_FORM: "in its own forms",
    Surface.ACP_URL: "by a link to the bridge's page",
    Surface.ACP_PERMISSION: "by its buttons",
    Surface.ACP_CHAT: "in the chat",
    Surface.PAGE: "on the bridge's page",
}
_PAGE = ("--page",)
_UNOPENED = (
    "Start the host where there is a display, or set BROWSER; or add '--tty DEVICE' to the"
    " arguments of our entry, and you are asked at that terminal ('tty', typed there, names it)."
)


def what_can_be_asked(facts: HostFacts, *, opens: bool = True) -> list[Finding]:
    """Return a line for each way in which questions reach the user, and one for the others."""
    host = facts.host
    agents = bool(facts.entries) and all(each.agent for each in facts.entries)
    known = PROFILES.get(host.name if agents else host.client)
    variants = list(_variants(host, known, agents))
    if any(_opens_page(each) for each in facts.entries):
        variants.append(SurfaceVariant(Surface.PAGE))
    groups: dict[Surface | None, list[str]] = {}
    for shape in QuestionShape:
        found = next((each for each in variants if find_cell(shape, each).asks), None)
        groups.setdefault(None if found is None else found.surface, []).append(shape.value)
    measured = known is not None or not host.asks
    lines = {surface: _line(host, surface, shapes, measured) for surface, shapes in groups.items()}
    if not opens and Surface.PAGE in lines:
        words = f"{lines[Surface.PAGE].says[:-1]}, but no browser can be opened there."
        lines[Surface.PAGE] = Finding(CHECK, Verdict.WARNING, words, _UNOPENED)
    return list(lines.values())


def _variants(host: SetupHost, known: Profile | None, agents: bool) -> Iterator[SurfaceVariant]:
    if known is None:
        if agents:
            yield SurfaceVariant(Surface.ACP_PERMISSION)
            yield SurfaceVariant(Surface.ACP_CHAT)
        elif host.asks:
            yield SurfaceVariant(Surface.MCP_FORM, greeting(host).version)
        return
    for name in known.shows:
        surface = Surface(name)
        version = greeting(host).version if surface is Surface.MCP_FORM else ""
        loopback = known.loopback or surface is not Surface.MCP_URL
        yield SurfaceVariant(surface, version, known.plain, known.buttons, loopback)


def _opens_page(entry: Entry) -> bool:
    own: Sequence[str] = entry.own
    return own[:1] == ("mcp",) or entry.has_option(*_PAGE) or "ABP_PAGE" in entry.env


def _named(shapes: Sequence[str]) -> str:
    """Shapes of questions in words: most of them by those that are not among them."""
    others = [each.value for each in QuestionShape if each.value not in shapes]
    if len(shapes) <= len(QuestionShape) // 2:
        return "; ".join(shapes)
    return f"all questions, but for {'; '.join(others)}" if others else "all questions"


def _line(
    host: SetupHost, surface: Surface | None, shapes: Sequence[str], measured: bool
) -> Finding:
    names = _named(shapes)
    if surface is not None:
        seen = "" if measured or surface is Surface.PAGE else ", as it says of itself"
        return Finding(CHECK, Verdict.WORKS, f"{names}: {_WHERE[surface]}{seen}.")
    if set(shapes) == {QuestionShape.SAMPLING.value}:
        words = f"{names}: {host.title} has no model for it (--sampling MODEL is one of yours)."
        return Finding(CHECK, Verdict.NOTE, words)
    verdict = Verdict.UNSUPPORTED if len(shapes) == len(QuestionShape) else Verdict.NOTE
    words = f"{names}: {host.title} cannot ask that."
    return Finding(CHECK, verdict, words, "Add '--page open' to the arguments of our entry.")


REACH_LIMIT = 4.0  # seconds for an address to answer
APP_CHECK = "app"
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_COMMANDS = ("stdio", "mcp", "acp")


async def reach_all(paths: Mapping[str, str]) -> dict[str, str]:
    """Look for all apps at once, and return the problems by target.

    `paths` has the `PATH` for each target's program.
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
        with anyio.fail_after(REACH_LIMIT):
            async with await anyio.connect_tcp(host, port):
                return ""
    except TimeoutError:
        return f"Nothing answers at {shown} within {REACH_LIMIT:g} s."
    except (OSError, UnicodeError) as problem:
        return f"Nothing answers at {shown}: {_reason(problem.__cause__ or problem)}."


def _reason(problem: BaseException) -> str:
    code = getattr(problem, "errno", None) or 0  # that of a name that is not found is no system's
    return os.strerror(code) if code > 0 else label(getattr(problem, "strerror", "") or problem)


def findings(apps: Collection[str], problems: Mapping[str, str], *, each: bool) -> list[Finding]:
    """Return the lines about apps: one for `each`, or one for all that have no problem."""
    quiet = [app for app in apps if app not in problems]
    found = [
        Finding(APP_CHECK, Verdict.FAILS, problems[app], _cure(app))
        for app in apps
        if app in problems
    ]
    lines = [[app] for app in quiet] if each else [quiet] if quiet else []
    for line in lines:
        verb = "is" if len(line) == 1 else "are"
        words = f"{', '.join(map(show_target, line))} {verb} not connected here."
        found.append(Finding(APP_CHECK, Verdict.NOT_TRIED, words, _examination(line[0])))
    return found


def _cure(app: str) -> str:
    words = "Start its server, or look at the address"
    if app.lower().startswith(("stdio:", "mcp:", "acp:")):
        words = "Install it, or write its whole path"
    return f"{words}; {_examination(app)} tries it"


def _examination(app: str) -> str:
    word = target_word(app)
    return f"abp-bridge doctor {word}{' (as the entry has it)' if word == UNSHOWN else ''}"
