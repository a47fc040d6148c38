"""What a host's person can be asked, by its profile and the matrix. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abp_bridge.core.matrix import QuestionShape, SurfaceVariant, find_cell
from abp_bridge.core.surface import Surface
from abp_bridge.session.profiles import PROFILES, Profile
from abp_bridge.setup.doctor.environment import greeting
from abp_bridge.setup.doctor.facts import Entry, HostFacts
from abp_bridge.setup.doctor.finding import Finding, Verdict
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
    """A line for each way in which questions reach the host's person, and one for the others.

    Args:
        facts: What is known of the host here.
        opens: Whether a browser can be opened from it.
    """
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
